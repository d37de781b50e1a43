//! The shadow stack's part of the cache: ways back from calls, returns that are closed, and what a flush means.

use super::fixture::{BX_LR, Fixture, LAYOUT, PA, VA};
use spica_addr::CachePc;
use spica_dbt::{BlockId, Capacity, Options, shadow_stack, trap};
use spica_vcpu::{VcpuPage, field};

const BL: u32 = 0xeb00_003e;

fn fixture() -> Fixture {
    let options = Options { return_mirror: false, shadow_stack: true, ..Options::all() };
    Fixture::new(options, LAYOUT.pages, Capacity { blocks: 1000, exits: 4000, mirror_pages: 0 })
}

/// A call, what it calls 256 bytes on, and what is behind it.
fn call(f: &mut Fixture, global: bool) -> [BlockId; 3] {
    f.put(PA, &[BL]);
    f.put(PA + 0x100, &[BX_LR]);
    [VA, VA + 0x100, VA + 4].map(|va| f.translate(va, PA + (va - VA), global))
}

#[test]
fn ways_back_are_linked_to_what_is_mapped_in_all_address_spaces() {
    for global in [false, true] {
        let mut f = fixture();
        let [from, to, behind] = call(&mut f, global);
        let exits = f.exits(from);
        assert_eq!(exits.len(), 2);
        assert_eq!(f.link(exits[0].0, behind), global, "a return may be in another address space than its call");
        assert!(f.link(exits[1].0, to), "the call itself is not");
    }
}

#[test]
fn a_way_back_from_a_dropped_block_stays_a_trap() {
    let mut f = fixture();
    let [from, _, behind] = call(&mut f, true);
    let (exit, svc, target) = f.exits(from)[0];
    assert!(f.link(exit, behind));
    f.drop_page(PA);
    assert_eq!(f.word(svc.0), 0xef00_0000 | trap::LINK);
    let again = f.translate(VA + 4, PA + 4, true);
    assert_eq!(f.translator.exit(svc), Some(exit), "it is still known");
    assert_eq!((target, f.word(svc.0 + 4)), (VA + 4, VA + 4));
    assert!(!f.link(exit, again), "it would never be unlinked again");
}

#[test]
fn a_return_is_closed_and_opened_again() {
    let mut f = fixture();
    let [_, to, _] = call(&mut f, true);
    let before = f.snapshot();
    let site = (f.entry(to)..).step_by(4).find(|&pc| f.word(pc) == shadow_stack::POP).expect("a return");
    for _ in 0..2 {
        f.translator.close(to, &mut f.code);
        assert_eq!(f.word(site), 0xef00_0000 | trap::CLOSED_RETURN);
    }
    assert!(f.translator.reopen_return(CachePc(site), &mut f.code));
    assert_eq!(f.snapshot(), before);
    assert!(!f.translator.reopen_return(CachePc(site), &mut f.code), "it is open");
    for wild in [site + 2, site - 4, 0, LAYOUT.base, u32::MAX] {
        assert!(!f.translator.reopen_return(CachePc(wild), &mut f.code), "{wild:#x}");
    }
    assert_eq!(f.snapshot(), before);
}

/// A literal in the way back may look like a return: it stays what it is.
#[test]
fn literals_are_not_closed() {
    let mut f = fixture();
    let behind = shadow_stack::POP;
    f.put(PA, &[BX_LR]);
    let (va, pa) = (behind - 4, PA + (behind & 0xfff) - 4);
    f.put(pa, &[BL]);
    let block = f.translate(va, pa, true);
    let before = f.snapshot();
    assert!(before.iter().flatten().any(|&word| word == behind), "the address behind the call is a literal");
    f.translator.close(block, &mut f.code);
    assert_eq!(f.snapshot(), before);
}

#[test]
fn a_flush_is_a_new_generation_and_dropping_is_not() {
    let mut f = fixture();
    call(&mut f, true);
    let generation = f.translator.generation();
    f.drop_page(PA);
    f.unmap_page(VA);
    f.translator.unlink_all(&mut f.code);
    assert_eq!(f.translator.generation(), generation);
    f.translator.flush(&mut f.code);
    assert_ne!(f.translator.generation(), generation);
}

#[test]
fn a_cleared_ring_leads_in_front_of_the_blocks() {
    let mut f = fixture();
    call(&mut f, true);
    let mut page = Box::new(VcpuPage::reset());
    shadow_stack::clear(&mut page, &LAYOUT);
    let empty = page.returns[0];
    assert!(page.returns.iter().all(|&entry| entry == empty) && shadow_stack::is_miss(CachePc(empty)));
    assert_eq!(f.translator.block_at(CachePc(empty)), None);
    // To the vCPU page and back, and the look-up.
    assert_eq!(f.word(empty + 12), 0xef00_0000 | trap::INDIRECT);
    assert_eq!(page.newest_return, LAYOUT.base + field::RETURNS, "below the ring");
}
