//! The translator takes all of its memory when it is made, as much as it says, and nothing while it runs, whatever a
//! guest does.

use spica_addr::{GuestPa, GuestVa};
use spica_dbt::layout::{Layout, PAGE, PAGE_WORDS, Window};
use spica_dbt::{Capacity, CodeMemory, Options, Translator};
use std::alloc::{GlobalAlloc, Layout as Size, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has taken and not given back; wraps, for it may give back what others took.
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

/// Counts.
struct Counting;

// SAFETY: all is handed to the system's allocator as it came; what is counted beside it takes no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, size: Size) -> *mut u8 {
        TAKEN.set(TAKEN.get().wrapping_add(size.size()));
        // SAFETY: by the caller.
        unsafe { System.alloc(size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, size: Size) {
        TAKEN.set(TAKEN.get().wrapping_sub(size.size()));
        // SAFETY: by the caller.
        unsafe { System.dealloc(at, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Code(Vec<[u32; PAGE_WORDS]>);

impl CodeMemory for Code {
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.0[page as usize]
    }

    fn publish(&mut self, _: u32, _: usize, _: usize) {}

    fn mirror_page(&mut self, _: u32) -> &mut [u32; PAGE_WORDS] {
        unreachable!("nothing lands")
    }

    fn publish_mirror(&mut self, _: u32, _: u32, _: usize, _: usize) {}

    fn map_mirror(&mut self, _: u32, _: u32) {}

    fn unmap_mirror(&mut self, _: Option<u32>) {}
}

#[test]
fn nothing_grows() {
    let mirror = Window { start: 0xbf00_0000, size: 40 << 20, distance: 0x3300_0000, t32: false, guarded: false };
    let layout = Layout { base: 0xf1c3_0000, pages: 64, mirror: Some(mirror) };
    let capacity = Capacity { blocks: 20_000, exits: 40_000, mirror_pages: 100 };
    let mut code = Code(vec![[0; PAGE_WORDS]; 64]);
    let before = TAKEN.get();
    let mut translator = Translator::new(layout, Options::all(), capacity);
    // BX LR everywhere.
    let words = [0xe12f_ff1e; PAGE_WORDS];
    let taken = TAKEN.get();
    let unused = capacity.bytes() - (taken - before);
    assert!(unused < 2048, "{unused} bytes more are said than are taken");
    for round in 0..3 {
        for n in 0..8000u32 {
            let page = n.wrapping_mul(0x9e37_79b1) >> 18;
            let va = GuestVa(0xc000_0000 + page * PAGE + n % 4 * 64);
            translator.translate(va, GuestPa(va.0 - 0x8000_0000), false, &words, &mut code);
            if n % 7 == 0 {
                translator.drop_page(GuestPa(0x4000_0000 + (page ^ 1) * PAGE), &mut code);
            }
            assert_eq!(TAKEN.get(), taken);
        }
        assert!(translator.stats().flushes > 0, "round {round}: more pages than there is room for");
        translator.flush(&mut code);
        assert_eq!((translator.guest_pages(), TAKEN.get()), (0, taken), "round {round}");
    }
}
