//! Pages that guests have given away.

use std::collections::{BTreeMap, BTreeSet};

use spica_ram::lent::{Lent, Return, Ticket};

#[test]
fn a_page_goes_back_whoever_uses_it_if_there_is_another() {
    let mut lent = Lent::new(1000, 100, 8);
    assert_eq!(lent.borrow(), None);
    lent.give(1040);
    let ticket = lent.borrow().unwrap();
    assert_eq!((lent.page(ticket), lent.borrow()), (Some(1040), None));
    assert_eq!(lent.take_back(1040), Return::InUse);
    assert!(lent.take_change());
    lent.give(1003);
    assert!(lent.take_change() && !lent.take_change());
    assert_eq!(lent.take_back(1040), Return::Moved(1003));
    assert_eq!(lent.page(ticket), Some(1003));
    lent.release(ticket);
    assert_eq!((lent.page(ticket), lent.counts()), (None, (1, 0)));
    assert!(lent.take_change());
    assert_eq!(lent.take_back(1003), Return::Idle);
    assert_eq!((lent.counts(), lent.borrow()), ((0, 0), None));
}

#[test]
fn no_more_are_borrowed_than_there_are_tickets() {
    let mut lent = Lent::new(0, 64, 3);
    (0..64).for_each(|page| lent.give(page));
    let tickets: Vec<Ticket> = std::iter::from_fn(|| lent.borrow()).collect();
    assert_eq!(tickets.len(), 3);
    lent.release(tickets[1]);
    assert!(lent.borrow().is_some() && lent.borrow().is_none());
    // What is not there does no harm.
    lent.release(99);
    lent.give(64);
    assert_eq!(lent.take_back(1 << 20), Return::Idle);
}

/// Everything at random, with contents: whoever has a ticket finds what it wrote, and whoever takes a page back had it
/// given.
#[test]
fn contents_stay_whatever_moves() {
    let mut state = 7u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let mut lent = Lent::new(500, 96, 40);
    let mut contents = BTreeMap::new();
    let (mut given, mut written) = (BTreeSet::new(), BTreeMap::new());
    for step in 0..100_000u32 {
        let page = 500 + random(96);
        match random(4) {
            0 if given.insert(page) => lent.give(page),
            1 if given.contains(&page) => match lent.take_back(page) {
                Return::Idle => assert!(given.remove(&page)),
                Return::Moved(to) => {
                    assert!(given.contains(&to) && given.remove(&page));
                    contents.insert(to, contents[&page]);
                }
                Return::InUse => assert_eq!(lent.counts().0, 0),
            },
            2 => match lent.borrow() {
                Some(ticket) => {
                    assert_eq!(written.insert(ticket, step), None);
                    contents.insert(lent.page(ticket).unwrap(), step);
                }
                None => assert!(lent.counts().0 == 0 || written.len() == 40),
            },
            _ => {
                if let Some(ticket) = written.keys().copied().nth(random(40) as usize) {
                    lent.release(ticket);
                    written.remove(&ticket);
                }
            }
        }
        assert_eq!(lent.counts(), ((given.len() - written.len()) as u32, written.len()));
        for (&ticket, &expected) in &written {
            let page = lent.page(ticket).unwrap();
            assert!(given.contains(&page) && contents[&page] == expected);
        }
    }
}
