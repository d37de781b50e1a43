//! Where there is translated code.

use spica_dbt::code_map::CodeMap;

#[test]
fn a_megabyte_is_as_it_was_if_its_descriptor_always_was() {
    let mut map = CodeMap::new();
    map.note(0xc00, 0xe02);
    assert!(map.has(0xc00) && !map.has(0xc01));
    assert!(!map.renew(0xc00, 0xe02));
    assert!(map.renew(0xc00, 0x1e02));
    assert!(!map.renew(0xc00, 0x1e02));
    // Code was made from another one in between.
    map.note(0xc00, 0x2e02);
    map.note(0xc00, 0x1e02);
    assert!(map.renew(0xc00, 0x1e02));
    assert!(!map.renew(0xc00, 0x1e02));
    map.note(0xc00, 0x3e02);
    map.forget_descriptors();
    assert!(!map.has(0xc00));
    map.note(0xc00, 0x1e02);
    assert!(!map.renew(0xc00, 0x1e02));
}

#[test]
fn supersections_are_wide() {
    let mut map = CodeMap::new();
    // A table, a section, sections with PXN, with an address that has bits of the others; and a supersection.
    let narrow = [0xffff_fc01, 0xfff0_0e02, 0xfff0_0e03, 0x0014_0c01];
    narrow.iter().zip(0..).for_each(|(&descriptor, at)| map.note(at, descriptor));
    assert!((0..4).all(|at| !map.may_be_wide(at)));
    map.note(4, 0x4004_0c0e);
    map.note(5, 0);
    // Another one than it was, without maintenance so far.
    map.note(0, 0xc0e);
    assert!([0, 4, 5].into_iter().all(|at| map.may_be_wide(at)));
    assert!(map.renew(4, 0x4000_0c0e) && !map.may_be_wide(4));
}

#[test]
fn all_megabytes_are_found_in_order() {
    let mut map = CodeMap::new();
    let all = [0, 31, 32, 100, 0xbff, 0xfff];
    all.iter().for_each(|&at| map.note(at, 1));
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = map.next(from, 4096) {
        found.push(at);
        from = at + 1;
    }
    assert_eq!(found, all);
    assert_eq!((map.next(33, 100), map.next(33, 101), map.next(4096, 4096)), (None, Some(100), None));
}

#[test]
fn regions_are_sixteen_megabytes_and_stay() {
    let mut map = CodeMap::new();
    map.watch(0xc0ff_fffc);
    map.forget_descriptors();
    assert!(map.may_have_code(0xc000_0000) && map.may_have_code(0xc0ff_ffff));
    assert!(!map.may_have_code(0xbfff_ffff) && !map.may_have_code(0xc100_0000));
}
