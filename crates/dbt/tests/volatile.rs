//! Pages whose code writes to its own page.

use spica_addr::GuestPa;
use spica_dbt::volatile::VolatilePages;

fn page(number: u32) -> GuestPa {
    GuestPa(0x4000_0000 + (number << 12))
}

#[test]
fn a_page_is_volatile_after_many_writes_or_at_once() {
    let mut pages = VolatilePages::default();
    for _ in 0..255 {
        pages.wrote_to_itself(page(1), false);
        assert!(!pages.contains(page(1)));
    }
    pages.wrote_to_itself(GuestPa(page(1).0 + 0xffc), false);
    assert!(pages.contains(page(1)) && pages.contains(GuestPa(page(1).0 + 8)));
    assert!(!pages.contains(page(2)) && !pages.contains(page(33)));
    pages.wrote_to_itself(page(2), true);
    assert!(pages.contains(page(2)));
    // More writes change nothing.
    (0..70_000).for_each(|_| pages.wrote_to_itself(page(2), false));
    assert!(pages.contains(page(2)));
    pages.clear();
    assert!(!pages.contains(page(1)) && !pages.contains(page(2)));
}

#[test]
fn however_many_pages_write_to_themselves_few_are_known_and_the_last_is_among_them() {
    let mut pages = VolatilePages::default();
    for number in 0..200_000 {
        pages.wrote_to_itself(page(number), true);
        assert!(pages.contains(page(number)));
    }
    let known = (0..200_000).filter(|&number| pages.contains(page(number))).count();
    assert!(known <= VolatilePages::CAPACITY, "{known}");
    // What wrote once does not make those go that write all the time.
    let mut pages = VolatilePages::default();
    (0..3).for_each(|way| pages.wrote_to_itself(page(32 * way), true));
    (3..1000).for_each(|way| pages.wrote_to_itself(page(32 * way), false));
    assert!((0..3).all(|way| pages.contains(page(32 * way))));
}
