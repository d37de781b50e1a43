//! The hypervisor's own memory: [`POOL_SIZE`] bytes of contiguous RAM, mapped in the hole.
//!
//! Being in the hole, it is reachable under every table: what the trap paths touch lives here (vCPU pages seen from the host,
//! shadow tables, code cache pages), and the heap. Blocks are handed out once and never come back: they belong to virtual machines,
//! which keep and reuse them.

use core::ptr::NonNull;

use spica_addr::HostPa;

use super::{heap, home, ram};
use crate::arch::interrupts::IrqCell;
use crate::layout::{HEAP_SIZE, MEGABYTE, POOL_SIZE, POOL_START};

struct Pool {
    /// Physical address of the pool's first byte.
    pa: HostPa,
    /// Bytes handed out so far.
    used: u32,
    /// Bytes there are: 0 before `init`.
    size: u32,
}

static POOL: IrqCell<Pool> = IrqCell::new(Pool { pa: HostPa(0), used: 0, size: 0 });

/// A block of the pool: page-aligned at least, cleared, owned by whoever holds this.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    pa: HostPa,
    len: u32,
}

// SAFETY: a block is plain memory with one owner.
unsafe impl Send for Block {}

impl Block {
    /// Its first byte, in the hole: valid under every table.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Virtual address of its first byte, in the hole.
    pub fn va(&self) -> u32 {
        self.start.as_ptr() as u32
    }

    /// Physical address of its first byte.
    pub fn pa(&self) -> HostPa {
        self.pa
    }

    /// Bytes in it, at least a page.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block is mapped and owned by self.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }

    /// Its bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block is mapped and owned by self.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }

    /// Its words.
    pub fn words(&self) -> &[u32] {
        // SAFETY: as above; page-aligned.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr().cast(), self.len as usize / 4) }
    }

    /// Its words.
    pub fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above; page-aligned.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len as usize / 4) }
    }
}

/// Takes the pool from RAM, behind the image if there is room, maps it, and gives its start to the heap.
///
/// False if no contiguous [`POOL_SIZE`] bytes, aligned to a megabyte, are free.
pub fn init(image: HostPa) -> bool {
    let Some(pa) = ram::take(image, POOL_SIZE, MEGABYTE) else {
        return false;
    };
    for offset in (0..POOL_SIZE).step_by(MEGABYTE as usize) {
        home::map_pool_megabyte(POOL_START + offset, pa.0 + offset);
    }
    // SAFETY: the start of the pool, which `alloc` below leaves out.
    unsafe { heap::extend(POOL_START as *mut u8, HEAP_SIZE as usize) }
    POOL.with(|pool| *pool = Pool { pa, used: HEAP_SIZE, size: POOL_SIZE });
    true
}

/// A cleared block of `bytes`, rounded up to whole pages, aligned to `align` (a power of two) and to a page, in virtual and
/// physical addresses alike up to a megabyte. `None` if the pool is exhausted.
pub fn alloc(bytes: u32, align: u32) -> Option<Block> {
    assert!(align.is_power_of_two() && align <= MEGABYTE, "the pool cannot align to {align:#x}");
    let len = bytes.checked_next_multiple_of(4096)?;
    let (start, pa) = POOL.with(|pool| {
        let offset = pool.used.next_multiple_of(align.max(4096));
        let end = offset.checked_add(len).filter(|&end| end <= pool.size)?;
        pool.used = end;
        Some(((POOL_START + offset) as *mut u8, HostPa(pool.pa.0 + offset)))
    })?;
    // SAFETY: within the pool, mapped, and handed out to nobody else.
    unsafe { start.write_bytes(0, len as usize) }
    Some(Block { start: NonNull::new(start)?, pa, len })
}

/// Bytes of the pool that can still be handed out.
pub fn free_bytes() -> u32 {
    POOL.with(|pool| pool.size - pool.used)
}

/// Physical address of the pool's first byte.
pub fn pa() -> HostPa {
    POOL.with(|pool| pool.pa)
}
