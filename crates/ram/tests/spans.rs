//! Ranges of memory: what is left, and where something fits.

use spica_ram::spans::{Span, most_each, place, subtract};

fn span(start: u64, end: u64) -> Span {
    Span { start, end }
}

#[test]
fn subtracting_from_the_middle_leaves_both_sides() {
    assert_eq!(subtract(&[span(0, 100)], span(40, 60)), [span(0, 40), span(60, 100)]);
}

#[test]
fn subtracting_at_an_end_leaves_one_side_and_all_leaves_nothing() {
    assert_eq!(subtract(&[span(10, 100)], span(0, 60)), [span(60, 100)]);
    assert_eq!(subtract(&[span(10, 100)], span(60, 200)), [span(10, 60)]);
    assert_eq!(subtract(&[span(10, 100)], span(10, 100)), []);
}

#[test]
fn subtracting_what_only_touches_or_is_empty_changes_nothing() {
    let all = [span(10, 100), span(200, 300)];
    assert_eq!(subtract(&all, span(100, 200)), all);
    assert_eq!(subtract(&all, span(50, 50)), all);
}

#[test]
fn a_place_is_aligned_and_the_lowest_at_or_above_the_wish() {
    let free = [span(0x1001, 0x8000), span(0x10_0000, 0x20_0000)];
    assert_eq!(place(&free, 0, 0x1000, 0x1000), Some(span(0x2000, 0x3000)));
    assert_eq!(place(&free, 0x3001, 0x1000, 0x1000), Some(span(0x4000, 0x5000)));
    assert_eq!(place(&free, 0, 0x7000, 0x1000), Some(span(0x10_0000, 0x10_7000)));
    assert_eq!(place(&free, 0x20_0000, 0x1000, 0x1000), None);
    assert_eq!(place(&free, 0, 0, 0x1000), None);
}

#[test]
fn a_place_may_end_at_the_very_end_but_not_beyond() {
    assert_eq!(place(&[span(0, 0x3000)], 0, 0x3000, 0x1000), Some(span(0, 0x3000)));
    assert_eq!(place(&[span(0, 0x2fff)], 0, 0x3000, 0x1000), None);
}

#[test]
fn rounding_never_grows_what_is_usable_nor_shrinks_what_is_taken() {
    assert_eq!(span(1, 0x2fff).shrunk_to(0x1000), span(0x1000, 0x2000));
    assert!(span(1, 0xfff).shrunk_to(0x1000).is_empty());
    assert_eq!(span(1, 0x1001).grown_to(0x1000), span(0, 0x2000));
}

#[test]
fn the_top_of_the_address_space_is_no_edge_case() {
    let last = Span::new(0xfff0_0000, 0x10_0000);
    assert_eq!(last.end, 1 << 32);
    assert_eq!(subtract(&[last], Span::new(0xffff_f000, 0x1000)), [span(0xfff0_0000, 0xffff_f000)]);
    assert_eq!(Span::new(u64::MAX, 2).end, u64::MAX);
}

#[test]
fn as_much_as_each_piece_can_have() {
    let spans = [Span::new(0x1000, 0x4c_0000), Span::new(0x1000_0000, 0xd00_0000)];
    let fits = |count: u64, len: u64| spans.iter().map(|s| s.len() / len).sum::<u64>() >= count;
    for count in 1..=9 {
        let len = most_each(&spans, count, 0x1000);
        assert!(len.is_multiple_of(0x1000) && fits(count, len) && !fits(count, len + 0x1000), "{count}: {len:#x}");
    }
    // The short span is of no use where the long one can be halved.
    assert_eq!(most_each(&spans, 2, 0x1000), 0x680_0000);
    assert_eq!(most_each(&spans, 0, 0x1000), 0);
    assert_eq!(most_each(&[Span::new(0x800, 0x1000)], 1, 0x1000), 0);
}
