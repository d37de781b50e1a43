//! The interrupt controller: a GICv2 (IHI 0048B) for one CPU, without Security Extensions.
//!
//! A device raises its line ([`Gic::set_line`]); the *distributor* keeps, per interrupt, whether it is enabled, pending
//! and active, and its priority; the *CPU interface* compares the best pending interrupt with the priority mask and
//! with the priority that is running, and drives the CPU's IRQ or FIQ input. [`Gic::irq_asserted`] is asked on every
//! way back into the guest, hundreds of thousands of times a second, so the outputs are recomputed on each change and
//! only read there.
//!
//! Choices that the architecture leaves open, and why:
//! * 288 interrupts: 16 SGIs, 16 PPIs, 256 SPIs, as on QEMU's `virt`.
//! * 5 priority bits, as on Cortex-A7 and A15: 32 levels, hence one active-priorities register.
//! * SGIs are always enabled and edge-triggered, PPIs always level-sensitive: both fields are read-only.
//! * Both groups exist, as in every GICv2; a Group 0 interrupt is an IRQ unless GICC_CTLR.FIQEn makes it a FIQ.
//! * The ITARGETSRs read as "CPU 0" throughout and ignore writes, where a uniprocessor GIC may also have them read as
//!   zero: software that takes its own CPU mask from ITARGETSR0 gets an answer that it can use.
//!
//! The registers' state is kept as bitmaps of 32 interrupts each, in the layout in which software sees them, so most
//! accesses are a single word operation and the search for the best pending interrupt skips idle words.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::mmio::{Mmio, Width};
use crate::state::{State, Unsound, check};

/// How many interrupts there are: SGIs 0-15, PPIs 16-31, SPIs from 32.
pub const INTERRUPTS: u32 = 288;
/// The first shared peripheral interrupt: SPI *n* has the interrupt ID `SPI_BASE + n`.
pub const SPI_BASE: u32 = 32;
/// The first private peripheral interrupt: PPI *n* has the interrupt ID `PPI_BASE + n`.
pub const PPI_BASE: u32 = 16;

const WORDS: usize = (INTERRUPTS / 32) as usize;
/// What IAR and HPPIR say when there is nothing to say (IHI 0048B, 3.2.5).
pub const SPURIOUS: u32 = 1023;
/// What they say when the best pending interrupt is of Group 1 and this register is for Group 0.
const SPURIOUS_OTHER_GROUP: u32 = 1022;
/// The running priority when nothing runs: lower than any.
const IDLE_PRIORITY: u32 = 0xff;
/// The implemented bits of a priority.
const PRIORITY_BITS: u32 = 0xf8;
/// With 5 priority bits the finest split has group priority `[7:3]` (IHI 0048B, table 3-2).
const MIN_BPR: u32 = 2;
/// The alias of the binary point for Group 1 counts one higher for the same split.
const MIN_ABPR: u32 = MIN_BPR + 1;

const SGI_BITS: u32 = 0x0000_ffff;

const GICD_CTLR: u32 = 0x000;
const GICD_TYPER: u32 = 0x004;
const GICD_IIDR: u32 = 0x008;
const GICD_SGIR: u32 = 0xf00;

const GICC_CTLR: u32 = 0x000;
const GICC_PMR: u32 = 0x004;
const GICC_BPR: u32 = 0x008;
/// GICC_IAR's place in the CPU interface's frame (IHI 0048B, 4.4.4).
pub const GICC_IAR: u32 = 0x00c;
/// GICC_EOIR's (4.4.5).
pub const GICC_EOIR: u32 = 0x010;
const GICC_RPR: u32 = 0x014;
const GICC_HPPIR: u32 = 0x018;
const GICC_ABPR: u32 = 0x01c;
const GICC_AIAR: u32 = 0x020;
const GICC_AEOIR: u32 = 0x024;
const GICC_AHPPIR: u32 = 0x028;
const GICC_APR: u32 = 0x0d0;
const GICC_IIDR: u32 = 0x0fc;
const GICC_DIR: u32 = 0x1000;

/// GICC_CTLR: forward Group 1 interrupts through GICC_IAR as well.
const CTLR_ACKCTL: u32 = 1 << 2;
/// GICC_CTLR: signal Group 0 by FIQ.
const CTLR_FIQEN: u32 = 1 << 3;
/// GICC_CTLR: GICC_BPR splits the priorities of both groups.
const CTLR_CBPR: u32 = 1 << 4;
/// GICC_CTLR: EOIR drops the priority only; GICC_DIR deactivates.
const CTLR_EOIMODE: u32 = 1 << 9;
/// GICC_CTLR: the bits that exist without Security Extensions, bypass disables `[8:5]` included.
const CTLR_BITS: u32 = 0x3ff;

/// One bit per interrupt.
type Bitmap = [u32; WORDS];

/// The distributor and the CPU interface of the one CPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Gic {
    /// GICD_CTLR: forward Group 0 `[0]`, Group 1 `[1]`.
    dist_ctlr: u32,
    group: Bitmap,
    enabled: Bitmap,
    /// Pending by an edge, by software or as an SGI: stays until acknowledged or cleared.
    latched: Bitmap,
    /// The level of the input lines now.
    line: Bitmap,
    active: Bitmap,
    edge: Bitmap,
    #[serde(with = "priorities")]
    priority: [u8; INTERRUPTS as usize],
    cpu_ctlr: u32,
    mask: u32,
    bpr: u32,
    abpr: u32,
    /// The group priorities that are active: bit `p >> 3` for group priority `p`.
    active_priorities: u32,
    /// The words that have a pending interrupt, a bit each; of level-sensitive ones and edges alike.
    #[serde(skip)]
    raised: u32,
    /// What drives the outputs.
    #[serde(skip)]
    signalled: Option<Candidate>,
    #[serde(skip)]
    irq: bool,
    #[serde(skip)]
    fiq: bool,
    /// Something may have changed since somebody asked.
    #[serde(skip)]
    changed: bool,
}

impl Default for Gic {
    fn default() -> Self {
        Self::new()
    }
}

impl Gic {
    /// The controller after reset: everything disabled, every priority the highest.
    #[must_use]
    pub const fn new() -> Self {
        let mut enabled = [0; WORDS];
        let mut edge = [0; WORDS];
        enabled[0] = SGI_BITS;
        edge[0] = SGI_BITS;
        Self {
            dist_ctlr: 0,
            group: [0; WORDS],
            enabled,
            latched: [0; WORDS],
            line: [0; WORDS],
            active: [0; WORDS],
            edge,
            priority: [0; INTERRUPTS as usize],
            cpu_ctlr: 0,
            mask: 0,
            bpr: MIN_BPR,
            abpr: MIN_ABPR,
            active_priorities: 0,
            raised: 0,
            signalled: None,
            irq: false,
            fiq: false,
            changed: true,
        }
    }

    /// Whether the CPU's IRQ input is asserted.
    #[inline]
    #[must_use]
    pub const fn irq_asserted(&self) -> bool {
        self.irq
    }

    /// Whether the CPU's FIQ input is asserted: only if software asked for Group 0 as FIQ.
    #[inline]
    #[must_use]
    pub const fn fiq_asserted(&self) -> bool {
        self.fiq
    }

    /// The input line of a PPI or SPI: a level-sensitive interrupt is pending while it is high, an edge-triggered one
    /// becomes pending when it rises. SGIs have no line, nor do interrupts that don't exist.
    #[inline]
    pub fn set_line(&mut self, intid: u32, high: bool) {
        if !(PPI_BASE..INTERRUPTS).contains(&intid) {
            return;
        }
        let (word, bit) = ((intid / 32) as usize, 1 << (intid % 32));
        if (self.line[word] & bit != 0) != high {
            self.change_line(word, bit, high);
            self.recompute();
        }
    }

    fn change_line(&mut self, word: usize, bit: u32, high: bool) {
        if high {
            self.line[word] |= bit;
            self.latched[word] |= bit & self.edge[word];
        } else {
            self.line[word] &= !bit;
        }
        self.note_raised(word);
    }

    /// What software has done, as [`Self::outlook`] told, before the controller hears of it: it has acknowledged the
    /// interrupt that is signalled; then these lines have come to be `high`, by what else it did; then it has ended an
    /// interrupt. Gives the number of what it acknowledged.
    pub fn catch_up(
        &mut self,
        acknowledged: bool,
        lines: impl IntoIterator<Item = (u32, bool)>,
        ended: Option<u32>,
    ) -> Option<u32> {
        let candidate = self.signalled.filter(|_| acknowledged);
        if let Some(candidate) = candidate {
            self.begin(candidate);
        }
        for (intid, high) in lines {
            let (word, bit) = ((intid / 32) as usize % WORDS, 1 << (intid % 32));
            if (self.line[word] & bit != 0) != high {
                self.change_line(word, bit, high);
            }
        }
        if let Some(intid) = ended {
            self.end(intid);
        }
        self.recompute();
        candidate.map(|candidate| candidate.intid)
    }

    /// Software has acknowledged the interrupt that is signalled and ended it, as [`Self::outlook`] told, and now
    /// `lines` are as they were. So is everything else then, and that interrupt is signalled as before; this is all
    /// that the controller need hear of it, and the outlook has not changed. False if it is not so: hear of it by
    /// [`Self::catch_up`].
    pub fn comes_round(&mut self, ended: u32, lines: impl IntoIterator<Item = (u32, bool)>) -> bool {
        let alone = self.active_priorities == 0 && self.cpu_ctlr & CTLR_EOIMODE == 0;
        if !alone || self.signalled() != Some(ended) || !self.is_level(ended) {
            return false;
        }
        let (word, bit) = ((ended / 32) as usize % WORDS, 1 << (ended % 32));
        let as_they_were = lines
            .into_iter()
            .all(|(intid, high)| (self.line[(intid / 32) as usize % WORDS] & 1 << (intid % 32) != 0) == high);
        let round = as_they_were && self.line[word] & bit != 0;
        if round {
            // What software had set pending by itself was acknowledged, too; the line is why it is pending now.
            self.latched[word] &= !bit;
        }
        round
    }

    /// Something has become pending in a word, or nothing there is pending any more: it is looked at, or not.
    fn note_raised(&mut self, word: usize) {
        let bit = 1 << word;
        let raised = (self.latched[word] | self.line[word]) != 0;
        self.raised = if raised { self.raised | bit } else { self.raised & !bit };
    }

    /// The interrupts of word `word` that are pending, whatever the reason.
    fn pending(&self, word: usize) -> u32 {
        self.latched[word] | (self.line[word] & !self.edge[word])
    }

    /// The interrupts of word `word` whose group the distributor forwards.
    fn forwarded(&self, word: usize) -> u32 {
        let group0 = if self.dist_ctlr & 1 != 0 { !self.group[word] } else { 0 };
        let group1 = if self.dist_ctlr & 2 != 0 { self.group[word] } else { 0 };
        group0 | group1
    }

    /// The highest-priority interrupt that is pending, enabled, forwarded and not active; the lowest ID among equals.
    #[inline]
    fn highest_pending(&self) -> Option<Candidate> {
        if self.raised == 0 { None } else { self.highest_of_raised() }
    }

    #[inline(never)]
    fn highest_of_raised(&self) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        let mut raised = self.raised;
        while raised != 0 {
            let word = (raised.trailing_zeros() as usize).min(WORDS - 1);
            raised &= raised - 1;
            let mut ready = self.pending(word) & self.enabled[word] & !self.active[word];
            if ready == 0 {
                continue;
            }
            ready &= self.forwarded(word);
            while ready != 0 {
                let bit = ready.trailing_zeros();
                ready &= ready - 1;
                let intid = word as u32 * 32 + bit;
                let priority = u32::from(self.priority[intid as usize]);
                if best.is_none_or(|best| priority < best.priority) {
                    let group1 = self.group[word] & (1 << bit) != 0;
                    best = Some(Candidate { intid, priority, group1 });
                }
            }
        }
        best
    }

    /// The part of a priority that decides about preemption (IHI 0048B, 3.3.3).
    fn group_priority(&self, candidate: Candidate) -> u32 {
        let fixed = if candidate.group1 && self.cpu_ctlr & CTLR_CBPR == 0 { self.abpr } else { self.bpr + 1 };
        candidate.priority & (0xff << fixed)
    }

    /// The group priority of what runs now.
    fn running_priority(&self) -> u32 {
        if self.active_priorities == 0 { IDLE_PRIORITY } else { self.active_priorities.trailing_zeros() << 3 }
    }

    /// Whether the CPU interface passes this interrupt on: its group is enabled, the mask lets it through and it
    /// preempts what runs.
    fn passes(&self, candidate: Candidate) -> bool {
        let group_enabled = self.cpu_ctlr & if candidate.group1 { 2 } else { 1 } != 0;
        group_enabled && candidate.priority < self.mask && self.group_priority(candidate) < self.running_priority()
    }

    /// Brings the outputs up to date: after every change of anything above.
    fn recompute(&mut self) {
        let signalled = self.highest_pending().filter(|&candidate| self.passes(candidate));
        self.signalled = signalled;
        let as_fiq = signalled.is_some_and(|candidate| !candidate.group1 && self.cpu_ctlr & CTLR_FIQEN != 0);
        self.fiq = as_fiq;
        self.irq = signalled.is_some() && !as_fiq;
        self.changed = true;
    }

    /// Whether [`Self::outlook`] may say something else than it did when this was last asked.
    #[inline]
    pub const fn take_changed(&mut self) -> bool {
        core::mem::replace(&mut self.changed, false)
    }

    /// The same, looking at everything.
    pub(crate) fn recompute_from_scratch(&mut self) {
        self.raised = (1 << WORDS) - 1;
        self.recompute();
    }

    /// The interrupt that drives the outputs.
    #[must_use]
    pub fn signalled(&self) -> Option<u32> {
        self.signalled.map(|candidate| candidate.intid)
    }

    /// An interrupt that is active, the one of the lowest number: acknowledged, and not ended yet.
    #[must_use]
    pub fn active(&self) -> Option<u32> {
        let word = self.active.iter().position(|&word| word != 0)?;
        Some(32 * word as u32 + self.active[word].trailing_zeros())
    }

    /// Whether an interrupt is signalled, or one is active: the guest is going to access the CPU interface.
    #[inline]
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.irq || self.active_priorities != 0
    }

    /// What the next accesses to the CPU interface do, for those who answer them before they tell the controller.
    /// `None` where that is not simple: Group 1 is enabled, the end of an interrupt is split in two, or a FIQ is
    /// signalled.
    #[must_use]
    pub fn outlook(&self) -> Option<Outlook> {
        if self.cpu_ctlr & (2 | CTLR_EOIMODE) != 0 || self.fiq {
            return None;
        }
        let Some(candidate) = self.signalled else {
            let end = self.active().filter(|&intid| self.is_idle_but_for(None) && !self.is_pending(intid));
            return Some(Outlook { acknowledge: None, end, then: End::Consequential });
        };
        // Behind its acknowledgement nothing is signalled: what else is pending does not preempt it, because its
        // priority is not higher, and one field splits the priorities of all that are passed on (IHI 0048B, 3.3.3).
        let intid = candidate.intid;
        let then = match () {
            () if self.active_priorities != 0 || !self.is_idle_but_for(Some(intid)) => End::Consequential,
            () if !self.is_level(intid) => End::Quiet,
            () => End::QuietIfLow,
        };
        Some(Outlook { acknowledge: Some(intid), end: None, then })
    }

    /// Whether no interrupt but this one is ready to be signalled.
    fn is_idle_but_for(&self, intid: Option<u32>) -> bool {
        let mut raised = self.raised;
        while raised != 0 {
            let word = (raised.trailing_zeros() as usize).min(WORDS - 1);
            raised &= raised - 1;
            let but = intid.filter(|intid| intid / 32 == word as u32).map_or(0, |intid| 1 << (intid % 32));
            if self.pending(word) & self.enabled[word] & !self.active[word] & !but != 0 {
                return false;
            }
        }
        true
    }

    fn is_pending(&self, intid: u32) -> bool {
        self.pending((intid / 32) as usize) & 1 << (intid % 32) != 0
    }

    /// Whether an interrupt is pending for as long as its line is high.
    fn is_level(&self, intid: u32) -> bool {
        self.edge[(intid / 32) as usize] & 1 << (intid % 32) == 0
    }

    /// What a register for `group1` or Group 0 interrupts may show of a candidate.
    fn visible(&self, candidate: Option<Candidate>, group1_register: bool) -> Result<Candidate, u32> {
        let candidate = candidate.ok_or(SPURIOUS)?;
        match (candidate.group1, group1_register) {
            (true, false) if self.cpu_ctlr & CTLR_ACKCTL == 0 => Err(SPURIOUS_OTHER_GROUP),
            (false, true) => Err(SPURIOUS),
            _ => Ok(candidate),
        }
    }

    /// A read of GICC_IAR or GICC_AIAR.
    fn acknowledge(&mut self, group1_register: bool) -> u32 {
        let candidate = match self.visible(self.signalled, group1_register) {
            Ok(candidate) => candidate,
            Err(special) => return special,
        };
        self.begin(candidate);
        self.recompute();
        // The CPU ID of an SGI's sender would stand in [12:10]: it is CPU 0.
        candidate.intid
    }

    /// An interrupt becomes active, and its priority the running one.
    fn begin(&mut self, candidate: Candidate) {
        let (word, bit) = ((candidate.intid / 32) as usize, 1 << (candidate.intid % 32));
        self.active[word] |= bit;
        self.latched[word] &= !bit;
        self.note_raised(word);
        self.active_priorities |= 1 << (self.group_priority(candidate) >> 3);
    }

    /// A write of GICC_EOIR or GICC_AEOIR: what was preempted runs on.
    fn end(&mut self, value: u32) {
        let intid = value & 0x3ff;
        if intid >= INTERRUPTS || self.active_priorities == 0 {
            return;
        }
        self.active_priorities &= self.active_priorities - 1;
        if self.cpu_ctlr & CTLR_EOIMODE == 0 {
            self.active[(intid / 32) as usize] &= !(1 << (intid % 32));
        }
    }

    /// A write of GICC_DIR: with the end of an interrupt split in two, the second half.
    fn deactivate(&mut self, value: u32) {
        let intid = value & 0x3ff;
        if intid >= INTERRUPTS || self.cpu_ctlr & CTLR_EOIMODE == 0 {
            return;
        }
        self.active[(intid / 32) as usize] &= !(1 << (intid % 32));
    }

    /// A write of GICD_SGIR: a software-generated interrupt, which can only reach this CPU itself.
    fn generate(&mut self, value: u32) {
        let listed = (value >> 16) & 1 != 0;
        let reaches_us = match (value >> 24) & 3 {
            0 => listed,
            2 => true,
            _ => false,
        };
        if reaches_us {
            self.latched[0] |= 1 << (value & 0xf);
            self.note_raised(0);
        }
    }

    /// A load from the distributor's frame.
    pub fn dist_read(&mut self, offset: u32, width: Width) -> u32 {
        width.extract(self.dist_word(offset & !3), offset)
    }

    fn dist_word(&self, offset: u32) -> u32 {
        let word = (offset as usize & 0x7f) / 4;
        let of = |bitmap: &Bitmap| bitmap.get(word).copied().unwrap_or(0);
        match offset {
            GICD_CTLR => self.dist_ctlr,
            // ITLinesNumber, one CPU, no Security Extensions.
            GICD_TYPER => INTERRUPTS / 32 - 1,
            // ARM's GIC-400.
            GICD_IIDR => 0x0200_143b,
            0x080..0x100 => of(&self.group),
            0x100..0x200 => of(&self.enabled),
            0x200..0x300 if word < WORDS => self.pending(word),
            0x300..0x400 => of(&self.active),
            0x400..0x800 => {
                let first = (offset - 0x400) as usize;
                self.priority.get(first..first + 4).map_or(0, |four| {
                    u32::from(four[0]) | u32::from(four[1]) << 8 | u32::from(four[2]) << 16 | u32::from(four[3]) << 24
                })
            }
            0x800..0xc00 if offset - 0x800 < INTERRUPTS => 0x0101_0101,
            0xc00..0xd00 => {
                // Two bits for each of 16 interrupts, the upper of which says "edge".
                let first = (offset - 0xc00) * 4;
                let Some(edge) = self.edge.get((first / 32) as usize) else { return 0 };
                (0..16).fold(0, |word, i| word | ((edge >> (first % 32 + i)) & 1) << (2 * i + 1))
            }
            // CPENDSGIR and SPENDSGIR: a byte per SGI, a bit per sender.
            0xf10..0xf30 => {
                let first = offset & 0xc;
                (0..4).fold(0, |word, i| word | ((self.latched[0] >> (first + i)) & 1) << (8 * i))
            }
            0xfd0..0x1000 => dist_id(offset),
            _ => 0,
        }
    }

    /// A store to the distributor's frame.
    pub fn dist_write(&mut self, offset: u32, width: Width, value: u32) {
        let value = value & width.mask();
        let aligned = offset & !3;
        let word = (offset as usize & 0x7f) / 4;
        // For a narrow store: the bits of the word that it covers, with its neighbours' zero.
        let lanes = value << Width::lane_shift(offset);
        match aligned {
            GICD_CTLR => self.dist_ctlr = width.insert(self.dist_ctlr, offset, value) & 3,
            0x080..0x100 => {
                if let Some(group) = self.group.get_mut(word) {
                    *group = width.insert(*group, offset, value);
                }
            }
            0x100..0x180 => {
                if let Some(enabled) = self.enabled.get_mut(word) {
                    *enabled |= lanes;
                }
            }
            0x180..0x200 => {
                if let Some(enabled) = self.enabled.get_mut(word) {
                    *enabled &= !lanes;
                }
                self.enabled[0] |= SGI_BITS;
            }
            0x200..0x280 => {
                if let Some(latched) = self.latched.get_mut(word) {
                    *latched |= if word == 0 { lanes & !SGI_BITS } else { lanes };
                    self.note_raised(word);
                }
            }
            0x280..0x300 => {
                if let Some(latched) = self.latched.get_mut(word) {
                    *latched &= !if word == 0 { lanes & !SGI_BITS } else { lanes };
                    self.note_raised(word);
                }
            }
            0x300..0x380 => {
                if let Some(active) = self.active.get_mut(word) {
                    *active |= lanes;
                }
            }
            0x380..0x400 => {
                if let Some(active) = self.active.get_mut(word) {
                    *active &= !lanes;
                }
            }
            0x400..0x800 => {
                let first = offset - 0x400;
                for byte in 0..width.bytes() {
                    if let Some(priority) = self.priority.get_mut((first + byte) as usize) {
                        *priority = ((value >> (8 * byte)) & PRIORITY_BITS) as u8;
                    }
                }
            }
            // The SGIs' and PPIs' triggers are fixed.
            0xc08..0xd00 => {
                let first = (aligned - 0xc00) * 4;
                let new = width.insert(self.dist_word(aligned), offset, value);
                if let Some(edge) = self.edge.get_mut((first / 32) as usize) {
                    for i in 0..16 {
                        let bit = 1 << (first % 32 + i);
                        *edge = if new & (2 << (2 * i)) != 0 { *edge | bit } else { *edge & !bit };
                    }
                }
            }
            // A word or nothing: half of a command is none.
            GICD_SGIR if width == Width::Word => self.generate(value),
            0xf10..0xf30 => {
                for byte in 0..width.bytes() {
                    if value & (1 << (8 * byte)) == 0 {
                        continue;
                    }
                    let bit = 1 << ((offset + byte) & 0xf);
                    self.latched[0] = if aligned < 0xf20 { self.latched[0] & !bit } else { self.latched[0] | bit };
                }
                self.note_raised(0);
            }
            _ => return,
        }
        self.recompute();
    }

    /// A load from the CPU interface's frame.
    pub fn cpu_read(&mut self, offset: u32, width: Width) -> u32 {
        let word = match offset & !3 {
            GICC_CTLR => self.cpu_ctlr,
            GICC_PMR => self.mask,
            GICC_BPR => self.bpr,
            GICC_IAR => self.acknowledge(false),
            GICC_RPR => self.running_priority(),
            GICC_HPPIR => self.visible(self.highest_pending(), false).map_or_else(|special| special, |best| best.intid),
            GICC_ABPR => self.abpr,
            GICC_AIAR => self.acknowledge(true),
            GICC_AHPPIR => self.visible(self.highest_pending(), true).map_or_else(|special| special, |best| best.intid),
            GICC_APR => self.active_priorities,
            // ARM's GIC-400.
            GICC_IIDR => 0x0202_143b,
            _ => 0,
        };
        width.extract(word, offset)
    }

    /// A store to the CPU interface's frame.
    pub fn cpu_write(&mut self, offset: u32, width: Width, value: u32) {
        let value = value & width.mask();
        match offset & !3 {
            GICC_CTLR => self.cpu_ctlr = width.insert(self.cpu_ctlr, offset, value) & CTLR_BITS,
            GICC_PMR => self.mask = width.insert(self.mask, offset, value) & PRIORITY_BITS,
            GICC_BPR => self.bpr = (width.insert(self.bpr, offset, value) & 7).max(MIN_BPR),
            GICC_EOIR | GICC_AEOIR => self.end(value),
            GICC_ABPR => self.abpr = (width.insert(self.abpr, offset, value) & 7).max(MIN_ABPR),
            GICC_APR => self.active_priorities = width.insert(self.active_priorities, offset, value),
            GICC_DIR => self.deactivate(value),
            _ => return,
        }
        self.recompute();
    }
}

/// A priority for each interrupt, as its bytes.
mod priorities {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::INTERRUPTS;

    type Priorities = [u8; INTERRUPTS as usize];

    pub(super) fn serialize<S: Serializer>(all: &Priorities, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(all)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Priorities, D::Error> {
        <&[u8]>::deserialize(deserializer)?
            .try_into()
            .map_err(|_| D::Error::custom("not a priority for each interrupt"))
    }
}

impl State for Gic {
    fn restore(&mut self, kept: Self) -> Result<(), Unsound> {
        let registers = [
            (kept.dist_ctlr, 3),
            (kept.cpu_ctlr, CTLR_BITS),
            (kept.mask, PRIORITY_BITS),
            (kept.bpr, 7),
            (kept.abpr, 7),
            (kept.line[0], !SGI_BITS),
        ];
        let fit = registers.iter().all(|(value, bits)| value & !bits == 0)
            && kept.priority.iter().all(|&priority| u32::from(priority) & !PRIORITY_BITS == 0);
        check(fit, "an interrupt controller's register that cannot be")?;
        check(kept.bpr >= MIN_BPR && kept.abpr >= MIN_ABPR, "a split of priorities that cannot be")?;
        check(
            kept.enabled[0] & SGI_BITS == SGI_BITS && kept.edge[0] == SGI_BITS,
            "software interrupts that cannot be",
        )?;
        *self = kept;
        self.recompute_from_scratch();
        Ok(())
    }
}

/// See [`Gic::outlook`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outlook {
    /// A load from GICC_IAR makes this interrupt active, and none is signalled any more; or it gives [`SPURIOUS`] and
    /// changes nothing.
    pub acknowledge: Option<u32>,
    /// A store of this number to GICC_EOIR ends the interrupt, and none is signalled.
    pub end: Option<u32>,
    /// What the end of `acknowledge` does behind its acknowledgement.
    pub then: End,
}

/// What the end of an interrupt leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Nothing is signalled.
    Quiet,
    /// Nothing is signalled, if the interrupt's line is low by then.
    QuietIfLow,
    /// Another interrupt may be signalled.
    Consequential,
}

/// An interrupt that could be signalled.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    intid: u32,
    priority: u32,
    group1: bool,
}

/// The identification registers at the end of the distributor's frame: those of a GIC-400, architecture 2.
const fn dist_id(offset: u32) -> u32 {
    match offset {
        0xfd0 => 0x04,
        0xfe0 => 0x90,
        0xfe4 => 0xb4,
        0xfe8 => 0x2b,
        0xff0 => 0x0d,
        0xff4 => 0xf0,
        0xff8 => 0x05,
        0xffc => 0xb1,
        _ => 0,
    }
}

/// The distributor's frame as a device.
#[derive(Debug)]
pub struct Distributor<'a>(pub &'a mut Gic);

impl Mmio for Distributor<'_> {
    fn read(&mut self, offset: u32, width: Width) -> u32 {
        self.0.dist_read(offset, width)
    }

    fn write(&mut self, offset: u32, width: Width, value: u32) {
        self.0.dist_write(offset, width, value);
    }
}

/// The CPU interface's frame as a device.
#[derive(Debug)]
pub struct CpuInterface<'a>(pub &'a mut Gic);

impl Mmio for CpuInterface<'_> {
    fn read(&mut self, offset: u32, width: Width) -> u32 {
        self.0.cpu_read(offset, width)
    }

    fn write(&mut self, offset: u32, width: Width, value: u32) {
        self.0.cpu_write(offset, width, value);
    }
}

/// The state of the controller for a report about a guest: who waits, for whom, and what keeps them out.
impl fmt::Display for Gic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "gic: distributor {:#x}, cpu interface {:#x}, mask {:#04x}, running {:#04x}, irq {}, fiq {}",
            self.dist_ctlr,
            self.cpu_ctlr,
            self.mask,
            self.running_priority(),
            self.irq,
            self.fiq
        )?;
        let lists: [(&str, &dyn Fn(usize) -> u32); 4] = [
            ("pending", &|word| self.pending(word)),
            ("pending but disabled", &|word| self.pending(word) & !self.enabled[word]),
            ("active", &|word| self.active[word]),
            ("enabled", &|word| if word == 0 { self.enabled[0] & !SGI_BITS } else { self.enabled[word] }),
        ];
        for (name, bits) in lists {
            write!(f, "  {name}:")?;
            for intid in (0..INTERRUPTS).filter(|intid| bits((intid / 32) as usize) & (1 << (intid % 32)) != 0) {
                write!(f, " {intid}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
