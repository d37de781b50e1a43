//! The return mirror: calls come back, and indirect branches get there, without a trap, a flag or a hash.
//!
//! A range of guest VAs, the [`Window`], is mirrored word for word at a constant distance K. Where a block for guest
//! address L exists, the word at L + K branches to it. So an indirect branch to L, which is in LR, is `ADD PC, LR, #K`:
//! most returns need LR for the target anyway. The guest's LR waits in a spill slot ([`LINK_SLOT`]) meanwhile; every
//! block of the window starts with a word that reloads it, its *landing*.
//!
//! For L a multiple of four it is exact, because nothing else in the kernel view is executable: at any other address
//! the branch ends in a prefetch abort or, at a word without a block, in an Undefined Instruction, and LR says what L
//! was. Whoever handles that calls [`ReturnMirror::target`]. The exception is L in the code cache's own place less K:
//! [`Window::distance`] must be such that the guest has no kernel code there.
//!
//! An odd L enters Thumb state (`BXWritePC`, A2.3.2), in which Spica runs no kernel. Where no block is, that traps as
//! above. But at a word that leads to a block, or is the address of one, its half-words are executed as T32
//! instructions, and those behind it, until one traps; the guest's state is not that of any guest instruction then. It
//! is not exact, but contained: this is User mode in the guest's own kernel view, where it can do what translated code
//! can, and no more. With bits 1:0 of L = 0b10 the branch is UNPREDICTABLE, here as on the bare core.
//!
//! The window of a kernel in T32 has a word for each half-word, at twice its address and K. What leads there rotates
//! the address, so that bits 31 and 0 come to be bits 0 and 1, adds these two on the top, and clears them below: always
//! in A32 state. LR has all of it, and says what L was. So a place is that of four addresses, one with each value of
//! the two bits, far from each other ([`undone`] says which): [`Window::distance`] must be such that the guest has no
//! kernel code at the three others.
//!
//! A *guarded* window is for guests with code anywhere, such as firmware that maps memory one to one: they may have
//! some in front of it, too. Its beginning is subtracted, and bits 1:0 are added on the top: what is in the window, in
//! A32 state, has zeroes there now. `EOR LR, LR, LR, LSR #25` brings the top down, and bits 1:0 are added on the top
//! once more, and cleared below: what was in front of the window ends a gigabyte or more away, in no memory.
//!
//! Pages come from a fixed number, the first used is the first to go. After a flush, some of them are kept together,
//! sixteen for the 64 KiB around a guest page, until all of these are taken: what is branched to first from then on is
//! most often what the guest does all the time, and a TLB has one entry for a large page. What is in a page says itself
//! what it is:
//!
//! | word                    | meaning                                                                    |
//! |-------------------------|----------------------------------------------------------------------------|
//! | [`EMPTY`]               | no block; traps in A32, and at both of its half-words in T32                |
//! | `B landing`             | a block within 32 MiB                                                      |
//! | `LDR PC, [PC, #offset]` | a block further away: its landing is in a word of this page that has no block |
//! | 0xF1xx_xxxx             | such an address, undefined in A32 (A5.7) since the code cache lies there      |

use alloc::vec;
use alloc::vec::Vec;

use spica_addr::{CachePc, GuestVa};
use spica_isa::{Cond, ModImm, Reg, asm};

use crate::cache::CodeMemory;
use crate::emit::Emitter;
use crate::layout::{PAGE, PAGE_WORDS, Window};
use crate::trap;

/// The spill slot in which the guest's LR waits.
pub const LINK_SLOT: u32 = 3;

/// `UDF` in A32 (A8.8.247). So is the half-word at the same address, 0xDEFE, in T32; the one behind it, 0xE7FD,
/// branches back to that (`B` of 2 bytes backwards, A8.8.18): whoever comes to it in Thumb state traps here, and does
/// not go on with the next word.
pub const EMPTY: u32 = 0xe7fd_defe;

const NONE: u16 = u16::MAX;

/// Pages of a large one (B3.5.1).
pub const LARGE: usize = 16;
/// So many large pages there are at most, and they take half of the pages at most.
const MOST_LARGE: usize = 24;

/// See the module's text.
pub struct ReturnMirror {
    window: Option<Window>,
    /// For each page of the mirror, its page of memory.
    pages: Vec<u16>,
    /// For each page of memory, the page of the mirror that it is used for.
    users: Vec<u32>,
    /// The page of memory to be taken next.
    next: usize,
    /// The first that is taken by itself: those before it are for large pages.
    first_small: usize,
    /// How many of these are taken.
    large: usize,
    taken: u64,
}

/// The last word of a branch through the mirror as an `SVC` that traps instead, if `word` is that.
pub(crate) fn closed(word: u32, window: Window) -> Option<u32> {
    let is_last = word & 0x0fff_ffff == last(Cond::Al, window) & 0x0fff_ffff && word >> 28 != 15;
    is_last.then_some(word & 0xf000_0000 | CLOSED)
}

/// The word that [`closed`] made this of.
pub(crate) fn reopened(word: u32, window: Window) -> Option<u32> {
    let is_closed = word & 0x0fff_ffff == CLOSED && word >> 28 != 15;
    is_closed.then(|| last(Cond::ALL[(word >> 28) as usize % 15], window))
}

/// `SVC` with the number of a closed branch, and of LR, without a condition.
const CLOSED: u32 = 0x0f00_0000 | trap::CLOSED | Reg::LR.n();

/// What a branch through the mirror ends in: `ADD<cond> PC, LR, #K`, or `BIC<cond> PC, LR, #3`.
fn last(cond: Cond, window: Window) -> u32 {
    match adds_state(window) {
        true => asm::bic_imm(cond, Reg::PC, Reg::LR, asm::imm(3)),
        false => asm::add_imm(cond, Reg::PC, Reg::LR, immediate(rest(window))),
    }
}

/// A part of a window's distance, or its beginning.
fn immediate(value: u32) -> ModImm {
    let Some(value) = ModImm::encode(value) else { unreachable!("a window's numbers are immediates") };
    value
}

/// Whether bits 1:0 of the target are added on its top on the way to the mirror, and cleared at its end: other targets
/// than those of the window may come to have 0b10 there, with which a write to the PC is UNPREDICTABLE (`BXWritePC`,
/// A2.3.2).
const fn adds_state(window: Window) -> bool {
    window.t32 || window.guarded
}

/// What is added last on the way to the mirror: of T32 code, without what was added with the state and bit 31, which
/// all of the window's has in common.
const fn rest(window: Window) -> u32 {
    let added = if window.t32 { (2 | window.start >> 31) << 30 } else { 0 };
    let to = if window.guarded { window.base() } else { window.distance };
    to.wrapping_sub(added)
}

/// Of the difference to the beginning of a guarded window, what lies above this is 0 within it.
const INSIDE: u32 = Window::GUARDED.trailing_zeros();

/// The branch through the mirror to the address in `target`. The guest's LR has been put away: at the end, LR says what
/// the target was.
pub(crate) fn branch(e: &mut Emitter<'_>, cond: Cond, target: Reg, window: Window) {
    // Adds bits 1:0 on the top as well: with others than the window's code has, this ends elsewhere, where nothing is
    // executable.
    let add_state = |e: &mut Emitter<'_>| e.emit(asm::add_reg_lsl(cond, Reg::LR, Reg::LR, Reg::LR, 30));
    let mut from = target;
    if window.t32 {
        // Twice the address; bits 31 and 0 come to be bits 0 and 1.
        e.emit(asm::ror_imm(cond, Reg::LR, from, 31));
        from = Reg::LR;
    }
    if window.guarded {
        e.emit(asm::sub_imm(cond, Reg::LR, from, immediate(window.start << u32::from(window.t32))));
        if !window.t32 {
            add_state(e);
        }
        // What is in front of the window, up to as much as its size, comes to have other bits 1:0.
        e.emit(asm::eor_reg_lsr(cond, Reg::LR, Reg::LR, Reg::LR, INSIDE));
    } else if from != Reg::LR {
        e.emit(asm::lsl_imm(cond, Reg::LR, from, 0));
    }
    if adds_state(window) {
        add_state(e);
        e.emit(asm::add_imm(cond, Reg::LR, Reg::LR, immediate(rest(window))));
    }
    e.emit(last(cond, window));
}

impl ReturnMirror {
    /// A mirror of `window` that uses up to `pages` pages of memory, each for one guest page at a time.
    pub(crate) fn new(window: Option<Window>, pages: u32) -> ReturnMirror {
        let window = window.filter(|_| pages != 0);
        let (places, users) = match window {
            Some(window) => ((window.mirror_size() / PAGE) as usize, pages as usize),
            None => (0, 0),
        };
        ReturnMirror {
            window,
            pages: vec![NONE; places],
            users: vec![u32::MAX; users],
            next: 0,
            first_small: 0,
            large: 0,
            taken: 0,
        }
    }

    /// The mirror, no larger than at first and in its place, stands for `window` from now on, or is not in use. It must
    /// be empty. One that was made for no window is never in use.
    pub(crate) fn move_to(&mut self, window: Option<Window>) {
        debug_assert!(self.users.iter().all(|&user| user == u32::MAX), "the mirror is not empty");
        if self.pages.is_empty() {
            return;
        }
        if let Some(window) = window {
            debug_assert!(self.window.is_none_or(|now| now.base() == window.base()));
            debug_assert!((window.mirror_size() / PAGE) as usize <= self.pages.len());
        }
        self.window = window;
    }

    /// The window, if the mirror is in use.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        self.window
    }

    /// Whether a guest address has a place.
    #[must_use]
    pub fn has(&self, va: GuestVa) -> bool {
        self.window.is_some_and(|window| window.has(va))
    }

    /// Where a branch through the mirror was to go, with its state in bit 0, whose last word reads `value` in LR.
    #[must_use]
    pub fn target(&self, value: u32) -> Option<GuestVa> {
        self.window.map(|window| undone(reached(value, window), window))
    }

    /// Whether `pc` lies in the mirror itself.
    #[must_use]
    pub fn holds(&self, pc: u32) -> bool {
        self.window.is_some_and(|window| pc.wrapping_sub(window.base()) < window.mirror_size())
    }

    /// Pages of memory in use, and how many were taken from another use.
    #[must_use]
    pub fn usage(&self) -> (usize, u64) {
        (self.users.iter().filter(|&&user| user != u32::MAX).count(), self.taken)
    }

    fn place(&self, va: GuestVa) -> Option<(Window, usize, usize)> {
        let window = self.window.filter(|window| window.has(va))?;
        let offset = window.place(va.0).wrapping_sub(window.base());
        Some((window, (offset / PAGE) as usize, (offset % PAGE / 4) as usize))
    }

    /// Makes branches to `va` enter at `landing`.
    pub(crate) fn set(&mut self, va: GuestVa, landing: CachePc, memory: &mut impl CodeMemory) {
        let Some((window, guest_page, word)) = self.place(va) else { return };
        let page = match self.pages[guest_page] {
            NONE => self.take(window, guest_page, memory),
            page => u32::from(page),
        };
        let page_va = window.base().wrapping_add(guest_page as u32 * PAGE);
        let from = page_va.wrapping_add(4 * word as u32);
        let words = memory.mirror_page(page);
        if is_address(words[word]) {
            // Another's address lies where a block is now: it has to move.
            let address = core::mem::replace(&mut words[word], EMPTY);
            if let Some(user) = (0..PAGE_WORDS).find(|&at| address_of(words, at) == Some(word)) {
                words[user] = EMPTY;
                far(words, user, word, address);
                memory.publish_mirror(page, page_va, 0, PAGE_WORDS);
            }
        }
        let words = memory.mirror_page(page);
        if let Some(address) = clear_word(words, word) {
            memory.publish_mirror(page, page_va, address, 1);
        }
        let words = memory.mirror_page(page);
        match asm::b(Cond::Al, landing.0.wrapping_sub(from).wrapping_sub(8) as i32) {
            Some(branch) => {
                words[word] = branch;
                memory.publish_mirror(page, page_va, word, 1);
            }
            None => {
                far(words, word, word, landing.0);
                memory.publish_mirror(page, page_va, 0, PAGE_WORDS);
            }
        }
    }

    /// Branches to `va` trap again.
    pub(crate) fn remove(&mut self, va: GuestVa, memory: &mut impl CodeMemory) {
        let Some((window, guest_page, word)) = self.place(va) else { return };
        let page = self.pages[guest_page];
        if page == NONE {
            return;
        }
        let words = memory.mirror_page(page.into());
        if words[word] != EMPTY && !is_address(words[word]) {
            let page_va = window.base().wrapping_add(guest_page as u32 * PAGE);
            let address = clear_word(words, word);
            memory.publish_mirror(page.into(), page_va, word, 1);
            if let Some(address) = address {
                memory.publish_mirror(page.into(), page_va, address, 1);
            }
        }
    }

    /// All blocks have gone, and the mirror is cleared: from now on, some pages are kept together.
    pub(crate) fn flushed(&mut self) {
        self.first_small = LARGE * MOST_LARGE.min(self.users.len() / (2 * LARGE));
        self.next = self.first_small;
    }

    /// All branches trap again.
    pub(crate) fn clear(&mut self, memory: &mut impl CodeMemory) {
        if self.users.iter().all(|&user| user == u32::MAX) {
            return;
        }
        memory.unmap_mirror(None);
        self.pages.fill(NONE);
        self.users.fill(u32::MAX);
        self.next = self.first_small;
        self.large = 0;
    }

    /// A page for guest page `guest_page`, which has none.
    fn take(&mut self, window: Window, guest_page: usize, memory: &mut impl CodeMemory) -> u32 {
        if self.large < self.first_small {
            return self.take_large(window, guest_page, memory);
        }
        let page = self.next;
        self.next = if page + 1 == self.users.len() { self.first_small } else { page + 1 };
        let before = core::mem::replace(&mut self.users[page], guest_page as u32);
        if before != u32::MAX {
            self.taken += 1;
            self.pages[before as usize] = NONE;
            memory.unmap_mirror(Some(window.base().wrapping_add(before * PAGE)));
        }
        self.pages[guest_page] = page as u16;
        let page_va = window.base().wrapping_add(guest_page as u32 * PAGE);
        memory.mirror_page(page as u32).fill(EMPTY);
        memory.publish_mirror(page as u32, page_va, 0, PAGE_WORDS);
        memory.map_mirror(page_va, page as u32);
        page as u32
    }

    /// The same with all around it, of which none has any: until all large pages are taken, no page is taken by itself.
    fn take_large(&mut self, window: Window, guest_page: usize, memory: &mut impl CodeMemory) -> u32 {
        let (first, first_guest) = (self.large, guest_page & !(LARGE - 1));
        self.large += LARGE;
        for (page, guest) in (first..first + LARGE).zip(first_guest..) {
            self.users[page] = guest as u32;
            self.pages[guest] = page as u16;
            memory.mirror_page(page as u32).fill(EMPTY);
            let page_va = window.base().wrapping_add(guest as u32 * PAGE);
            memory.publish_mirror(page as u32, page_va, 0, PAGE_WORDS);
        }
        memory.map_large_mirror(window.base().wrapping_add(first_guest as u32 * PAGE), first as u32);
        (first + guest_page - first_guest) as u32
    }
}

/// Where a branch ends whose last word reads `value`, with what that clears in bits 1:0.
const fn reached(value: u32, window: Window) -> u32 {
    if adds_state(window) { value } else { value.wrapping_add(rest(window)) }
}

/// The target, with its state in bit 0, of a branch through the mirror that ends at `reached`: 1 - 2^30 is the inverse
/// of 1 + 2^30. With bits 1:0 = 0b10 it is UNPREDICTABLE (`BXWritePC`, A2.3.2): bit 1 is ignored, as it is where a trap
/// looks it up.
#[must_use]
pub const fn undone(reached: u32, window: Window) -> GuestVa {
    let mut target = reached.wrapping_sub(rest(window));
    if adds_state(window) {
        target = target.wrapping_sub(target << 30);
    }
    if window.guarded {
        target ^= target >> INSIDE;
        if !window.t32 {
            target = target.wrapping_sub(target << 30);
        }
        target = target.wrapping_add(window.start << window.t32 as u32);
    }
    if window.t32 {
        target = target.rotate_right(1);
    }
    GuestVa(if target & 1 == 0 { target & !3 } else { target })
}

/// Whether a word is the address of a landing: those are all in the code cache.
const fn is_address(word: u32) -> bool {
    word >> 24 == 0xf1
}

/// The word that `LDR PC, [PC, #offset]` at word `at` reads, if it is that.
fn address_of(words: &[u32; PAGE_WORDS], at: usize) -> Option<usize> {
    let word = words[at];
    let offset = (word & 0xffc) as usize / 4;
    match word & 0xffff_f003 {
        0xe59f_f000 => Some(at + 2 + offset),
        0xe51f_f000 => (at + 2).checked_sub(offset),
        _ => None,
    }
}

/// Empties a word and gives up the address that it used; says where that was.
fn clear_word(words: &mut [u32; PAGE_WORDS], at: usize) -> Option<usize> {
    let address = address_of(words, at);
    if let Some(address) = address {
        words[address] = EMPTY;
    }
    words[at] = EMPTY;
    address
}

/// Puts a branch to `address` into word `at`, and the address into an empty word other than that and `not`. A page of
/// nothing but blocks has none: the word stays empty then, and traps.
fn far(words: &mut [u32; PAGE_WORDS], at: usize, not: usize, address: u32) {
    let free = (0..PAGE_WORDS).find(|&word| words[word] == EMPTY && word != at && word != not);
    let Some(free) = free else { return };
    let offset = 4 * (free as i32 - at as i32) - 8;
    let Some(load) = asm::ldr_str(true, Cond::Al, Reg::PC, Reg::PC, offset) else { return };
    words[free] = address;
    words[at] = load;
}
