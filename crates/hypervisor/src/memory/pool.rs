//! The hypervisor's own memory, mapped in the hypervisor region: a few runs of contiguous RAM, one behind the other.
//!
//! Being in the hypervisor region, it is reachable under every table: what the trap paths touch lives here (vCPU pages
//! seen from the host, shadow tables, code cache pages), and the heap. The first run, taken at boot, is all heap; the
//! share of each virtual machine is a run of its own, taken before the first table of a guest is made, since tables
//! copy the hypervisor region. Blocks are handed out once and never come back: they belong to virtual machines, which
//! keep and reuse them.

use core::fmt;
use core::ptr::NonNull;

use spica_addr::HostPa;

use super::{heap, host_space, phys, ram};
use crate::arch::interrupts::IrqCell;
use crate::host_cpu::HostSpace;
use crate::layout::{FIRST_HEAP_SIZE, MEGABYTE, POOL_SIZE, POOL_START};

/// Bytes of the pool's addresses that are mapped.
static MAPPED: IrqCell<u32> = IrqCell::new(0);

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
    /// Its first byte, in the hypervisor region: valid under every table.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Virtual address of its first byte, in the hypervisor region.
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

/// RAM that was taken for a while: whole pages, reachable in the host address space only. It goes back in the end.
pub struct Loan {
    pa: HostPa,
    len: u32,
}

impl Loan {
    /// `len` bytes, a multiple of a page. What is in them is anything. `None` if there is not so much in one piece.
    pub fn take(len: u32) -> Option<Loan> {
        assert!(len != 0 && len.is_multiple_of(4096), "a loan is whole pages");
        ram::take(HostPa(0), len, 4096).map(|pa| Loan { pa, len })
    }

    /// Physical address of its first byte.
    pub fn pa(&self) -> HostPa {
        self.pa
    }

    /// Its words.
    pub fn words_mut<'a>(&'a mut self, _: HostSpace<'a>) -> &'a mut [u32] {
        // SAFETY: it was taken from RAM for this alone, and is mapped in the host address space, where we are.
        let bytes = unsafe { phys::slice_mut(self.pa, self.len) };
        // SAFETY: page-aligned, and any bytes are words.
        unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), self.len as usize / 4) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        ram::give_back(self.pa, self.len);
    }
}

/// Takes the first run from RAM, behind the image if there is room, and gives it to the heap.
///
/// False if there is no contiguous RAM for it.
pub fn init(image: HostPa) -> bool {
    Share::grow(image, FIRST_HEAP_SIZE, 0).is_some()
}

/// What the pool lacks for one more share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exhausted {
    /// Bytes of the share.
    pub wanted: u32,
    /// Bytes of addresses that are left in the hypervisor region.
    pub addresses: u32,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = self.wanted >> 20;
        if self.wanted > self.addresses {
            write!(
                f,
                "{wanted} MiB wanted for the hypervisor's side of it, {} MiB of addresses left",
                self.addresses >> 20
            )
        } else {
            write!(f, "{wanted} MiB wanted for the hypervisor's side of it, and the board has no such piece left")
        }
    }
}

/// A virtual machine's share of the pool: memory that blocks are made of.
#[derive(Debug)]
pub struct Share {
    /// Address of the first byte that is left.
    next: u32,
    /// Address behind the last byte.
    end: u32,
    /// What makes a physical address of one.
    to_pa: u32,
}

impl Share {
    /// Takes a virtual machine's share: `heap` bytes more for the heap, and `blocks` bytes for [`Share::alloc`].
    ///
    /// # Errors
    /// If there is no contiguous RAM, aligned to a megabyte, for it, or no address left in the hypervisor region.
    pub fn take(heap: u32, blocks: u32) -> Result<Share, Exhausted> {
        let addresses = POOL_SIZE - mapped_bytes();
        Self::grow(HostPa(0), heap, blocks)
            .ok_or(Exhausted { wanted: (heap + blocks).next_multiple_of(MEGABYTE), addresses })
    }

    fn grow(from: HostPa, heap: u32, blocks: u32) -> Option<Share> {
        let size = (heap + blocks).next_multiple_of(MEGABYTE);
        let offset = mapped_bytes();
        if size > POOL_SIZE - offset {
            return None;
        }
        let pa = ram::take(from, size, MEGABYTE)?;
        let start = POOL_START + offset;
        for offset in (0..size).step_by(MEGABYTE as usize) {
            host_space::map_pool_megabyte(start + offset, pa.0 + offset);
        }
        MAPPED.with(|mapped| *mapped = offset + size);
        // What rounding left over is the heap's, too.
        let heap = size - blocks.next_multiple_of(4096);
        // SAFETY: the start of the run, which blocks are never made of.
        unsafe { heap::extend(start as *mut u8, heap as usize) }
        Some(Share { next: start + heap, end: start + size, to_pa: pa.0.wrapping_sub(start) })
    }

    /// A cleared block of `bytes`, rounded up to whole pages, aligned to `align` (a power of two) and to a page, in
    /// virtual and physical addresses alike up to a megabyte. `None` if the share is exhausted.
    pub fn alloc(&mut self, bytes: u32, align: u32) -> Option<Block> {
        assert!(align.is_power_of_two() && align <= MEGABYTE, "the pool cannot align to {align:#x}");
        let len = bytes.checked_next_multiple_of(4096)?;
        let va = self.next.next_multiple_of(align.max(4096));
        let end = va.checked_add(len).filter(|&end| end <= self.end)?;
        self.next = end;
        let start = va as *mut u8;
        // SAFETY: within the share, mapped, and handed out to nobody else.
        unsafe { start.write_bytes(0, len as usize) }
        Some(Block { start: NonNull::new(start)?, pa: HostPa(va.wrapping_add(self.to_pa)), len })
    }

    /// Bytes that are left.
    pub fn free_bytes(&self) -> u32 {
        self.end - self.next
    }
}

/// Bytes of the pool that are mapped.
pub fn mapped_bytes() -> u32 {
    MAPPED.with(|mapped| *mapped)
}
