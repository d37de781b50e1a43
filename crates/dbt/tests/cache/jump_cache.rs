//! The jump cache: what it remembers, and what it must forget.

use super::fixture::{Fixture, PA, VA};
use spica_dbt::jump_cache::{ENTRIES, JumpCache};

#[test]
fn the_jump_cache_holds_global_blocks_only() {
    let mut f = Fixture::roomy();
    let local = f.translate(VA, PA, false);
    let global = f.translate(VA + 8, PA + 8, true);
    f.translator.remember(local);
    f.translator.remember(global);
    assert_eq!(f.translator.jump_cache.get(VA), None);
    assert_eq!(f.translator.jump_cache.get(VA + 8), Some(f.entry(global)));
    f.drop_page(PA);
    assert_eq!(f.translator.jump_cache.get(VA + 8), None);
    f.translator.remember(global);
    assert_eq!(f.translator.jump_cache.get(VA + 8), None, "a dropped block is not entered");
}

#[test]
fn the_jump_cache_is_cleared_with_the_regime_and_by_a_flush() {
    let mut f = Fixture::roomy();
    for clear in
        [|f: &mut Fixture| f.translator.unlink_all(&mut f.code), |f: &mut Fixture| f.translator.flush(&mut f.code)]
    {
        let block = f.translate(VA, PA, true);
        f.translator.remember(block);
        assert!(f.translator.jump_cache.get(VA).is_some());
        clear(&mut f);
        assert_eq!(f.translator.jump_cache.get(VA), None);
        assert!(!f.translator.is_settled(), "assembly would find what is not cleared yet");
        while !f.translator.settle(&mut f.code) {}
    }
}

#[test]
fn an_empty_jump_cache_answers_nothing_whatever_is_asked() {
    let mut f = Fixture::roomy();
    let block = f.translate(VA, PA, true);
    for round in 0..3 {
        for index in 0..ENTRIES as u32 {
            for guest in [index << 2, index << 2 | 1, index << 2 | 2, !(index << 2), 0x8000_0001 | index << 2] {
                assert_eq!(f.translator.jump_cache.get(guest), None, "{guest:#x} in round {round}");
            }
        }
        // Emptied in one way and in the other.
        f.translator.remember(block);
        if round == 0 {
            f.unmap_page(VA)
        } else {
            f.translator.flush(&mut f.code)
        }
        if round == 1 {
            assert_eq!(f.translate(VA, PA, true), block);
        }
    }
}

#[test]
fn the_jump_cache_keeps_addresses_apart_that_share_an_entry() {
    let mut f = Fixture::roomy();
    let other = VA + 4 * ENTRIES as u32;
    let first = f.translate(VA, PA, true);
    let second = f.translate(other, PA + 0x4000, true);
    f.translator.remember(first);
    f.translator.remember(second);
    assert_eq!(f.translator.jump_cache.get(VA), None);
    assert_eq!(f.translator.jump_cache.get(other), Some(f.entry(second)));
    f.unmap_page(VA);
    assert_eq!(f.translator.jump_cache.get(other), Some(f.entry(second)), "not the one that was unmapped");
}

#[test]
fn a_full_jump_cache_is_forgotten_at_once_and_cleared_in_pieces() {
    let mut cache = JumpCache::new();
    let all = || (0..ENTRIES as u32).map(|at| VA + 4 * at);
    all().for_each(|va| cache.insert(va, va + 1));
    assert!(all().all(|va| cache.get(va) == Some(va + 1)));
    cache.clear();
    assert!(all().all(|va| cache.get(va).is_none()));
    // What is entered meanwhile stays, and brings nothing back that lies beside it.
    cache.insert(VA + 8, 1);
    assert!(all().all(|va| cache.get(va) == (va == VA + 8).then_some(1)));
    let mut pieces = 1;
    while !cache.settle() {
        pieces += 1;
    }
    assert!(all().all(|va| cache.get(va) == (va == VA + 8).then_some(1)));
    assert!(pieces > 1, "all of it in one piece");
    cache.clear();
    assert!(cache.settle(), "of an empty one, little is to be cleared");
}

#[test]
fn the_version_is_about_what_is_watched() {
    const VECTORS: u32 = 0xffff_0000;
    const OTHER: u32 = 0xc010_0240;
    let mut cache = JumpCache::new();
    let before = cache.version();
    cache.watch(VECTORS, OTHER);
    let mut last = cache.version();
    assert_ne!(last, before, "what is known of these is to be asked for");
    let mut changed = |cache: &JumpCache| std::mem::replace(&mut last, cache.version()) != cache.version();
    // What takes their places as well.
    let alias = 4 * ENTRIES as u32;
    for at in [VECTORS, VECTORS + 0x1c, OTHER, VECTORS.wrapping_add(alias), OTHER - alias, OTHER | 1] {
        cache.insert(at, 0xf180_0100);
        assert!(changed(&cache), "{at:#x} is entered");
        cache.remove(at ^ 0x8000_0000);
        assert!(!changed(&cache), "another address at that place is not there");
        cache.remove(at);
        assert!(changed(&cache), "{at:#x} is forgotten");
    }
    for at in [VECTORS + 0x20, VECTORS - 4, OTHER + 4, OTHER - 4] {
        cache.insert(at, 0xf180_0100);
        cache.remove(at);
        assert!(!changed(&cache), "{at:#x} is none of them");
    }
    cache.clear();
    assert!(changed(&cache));
}
