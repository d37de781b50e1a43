//! The whole: fed with what is executed, it asks each rule.

mod compare;

use spica_cycles::decode::{Flow, Instruction, System};
use spica_cycles::walk::{self, Memory, Registers, Translation};
use spica_cycles::{Core, core::Parts};

use crate::code::Code;
use crate::complaint::{Class, Complaint, Report};
use crate::hash::Map;
use crate::monitor::Monitor;
use crate::operation::{Operation, operand};
use crate::spaces::Spaces;
use crate::tables::Tables;
use crate::tlb::{Entry, Tlb};

/// SCTLR.V and AFE (B4.1.130); TTBCR.PD0 (B4.1.153).
const HIGH_VECTORS: u32 = 1 << 13;
const ACCESS_FLAG: u32 = 1 << 29;
const NO_WALKS: u32 = 1 << 4;

/// Registers whose change needs a synchronisation. All zero is a core after reset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Context {
    /// Those of translation.
    pub registers: Registers,
    /// DACR.
    pub dacr: u32,
    /// VBAR.
    pub vbar: u32,
    /// CPACR.
    pub cpacr: u32,
}

impl Context {
    const fn vectors(&self) -> u32 {
        if self.registers.sctlr & HIGH_VECTORS != 0 { 0xffff_0000 } else { self.vbar }
    }

    const fn walks(&self) -> bool {
        self.registers.translates() && self.registers.ttbcr & NO_WALKS == 0
    }

    /// Whether CPACR lets coprocessor 10 be used.
    const fn floats(&self, user: bool) -> bool {
        match self.cpacr >> 20 & 3 {
            0 => false,
            1 => !user,
            _ => true,
        }
    }

    /// Whether a translation allows an access (B3.7).
    fn allows(&self, translation: &Translation, kind: Kind, user: bool) -> bool {
        let rights = translation.rights;
        match self.dacr >> (2 * u32::from(rights.domain)) & 3 {
            0 | 2 => return false,
            3 => return true,
            _ => {}
        }
        let mut ap = rights.ap;
        if self.registers.sctlr & ACCESS_FLAG != 0 {
            if ap & 1 == 0 {
                return false;
            }
            // AP[0] is the access flag: 0bx11 is for all, 0bx01 for privileged code.
            ap = ap & 6 | 1;
        }
        let (read, write) = match ap {
            0 | 4 => (false, false),
            1 => (!user, !user),
            2 => (true, !user),
            3 => (true, true),
            5 => (!user, false),
            _ => (true, false),
        };
        match kind {
            Kind::Fetch => read && !rights.never_executed,
            Kind::Load => read,
            Kind::Store => write,
        }
    }
}

/// The addresses of the last aborts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "the manual's names")]
pub struct Faults {
    pub dfar: u32,
    pub ifar: u32,
}

/// What the checker asks the emulator for.
pub trait Machine: Memory {
    /// The registers, as they are.
    fn context(&self) -> Context;
    /// CPSR: the mode, and, in an instruction that [`Step::reads_registers`], the flags.
    fn cpsr(&self) -> u32;
    /// One of R0 to R14, in an instruction that [`Step::reads_registers`].
    fn register(&self, number: u8) -> u32;
    /// The addresses of the last aborts.
    fn faults(&self) -> Faults;
}

/// An instruction, decoded once.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    instruction: Instruction,
    operation: Option<Operation>,
    word: u32,
    thumb: bool,
}

impl Step {
    /// An A32 instruction.
    #[must_use]
    pub fn arm(address: u32, word: u32) -> Step {
        Step { instruction: Instruction::arm(address, word), operation: Operation::arm(word), word, thumb: false }
    }

    /// A T32 instruction: the first half-word, and the second one of a long one.
    #[must_use]
    pub fn thumb(address: u32, first: u16, second: Option<u16>) -> Step {
        Step {
            instruction: Instruction::thumb(address, first, second),
            operation: Operation::thumb(first, second),
            word: u32::from(first) << 16 | u32::from(second.unwrap_or(0)),
            thumb: true,
        }
    }

    /// Whether the checker may ask for registers when it is executed.
    #[must_use]
    pub const fn reads_registers(&self) -> bool {
        self.operation.is_some()
    }

    /// Whether its condition holds. Conditions of T32, which IT gives, are taken to.
    fn passes(&self, machine: &impl Machine) -> bool {
        let condition = self.word >> 28;
        if self.thumb || condition >= 14 {
            return true;
        }
        let flags = machine.cpsr() >> 28;
        let (n, z, c, v) = (flags & 8 != 0, flags & 4 != 0, flags & 2 != 0, flags & 1 != 0);
        let holds = match condition >> 1 {
            0 => z,
            1 => c,
            2 => n,
            3 => v,
            4 => c && !z,
            5 => n == v,
            _ => n == v && !z,
        };
        holds != (condition & 1 != 0)
    }
}

/// What wants a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Fetch,
    Load,
    Store,
}

/// A page that was looked at, and nothing has changed since.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    page: u32,
    context: u32,
    epoch: u32,
    physical: u32,
    cached: bool,
}

/// How many pages are remembered as looked at, for each kind of access.
const SEEN: usize = 1024;

/// What a walk found.
#[derive(Clone, Copy, Debug)]
struct Walked {
    found: Option<Translation>,
    /// The first descriptor that a walk may not see as it is, with what it may see.
    unseen: Option<(u32, Option<u32>)>,
    descriptors: [u32; 2],
}

/// The instruction that was executed last.
#[derive(Clone, Copy, Debug)]
struct Last {
    behind: u32,
    flow: Flow,
}

/// The checker.
#[derive(Debug)]
pub struct Checker {
    parts: &'static Parts,
    now: Context,
    /// The registers at the last synchronisation.
    settled: Context,
    /// Whether they differ.
    pending: bool,
    /// The instruction that wrote one last.
    written_by: u32,
    /// Whether the registers, and the mode, may have changed since they were read.
    stale: bool,
    stale_mode: bool,
    user: bool,
    /// Numbers of contexts, and that of `now`.
    numbers: Map<Context, u32>,
    number: u32,
    /// Changes when anything may have changed that translations follow from.
    epoch: u32,
    seen: Vec<Seen>,
    last: Option<Last>,
    pc: u32,
    code: Code,
    tables: Tables,
    tlb: Tlb,
    spaces: Spaces,
    monitor: Monitor,
    /// The instruction that translated an address last, if nothing synchronised PAR since.
    translated_by: Option<u32>,
    report: Report,
    /// Whether there was a complaint in a new place since [`Checker::news`].
    news: bool,
}

impl Checker {
    /// A core after reset, with memory that nobody has written to.
    #[must_use]
    pub fn new(core: Core, start: u32, bytes: u32) -> Checker {
        // ID_MMFR1[31:28]: the predictor of the Cortex-A8 must be invalidated for new code, that of the A9 never.
        let code = Code::new(start, bytes, core == Core::CortexA8);
        Checker {
            parts: core.parts(),
            now: Context::default(),
            settled: Context::default(),
            pending: false,
            written_by: 0,
            stale: true,
            stale_mode: true,
            user: false,
            numbers: Map::default(),
            number: 0,
            epoch: 1,
            seen: vec![Seen::default(); 6 * SEEN],
            last: None,
            pc: 0,
            code,
            tables: Tables::new(start, bytes),
            tlb: Tlb::default(),
            spaces: Spaces::new(core == Core::CortexA9),
            monitor: Monitor::default(),
            translated_by: None,
            report: Report::default(),
            news: false,
        }
    }

    /// What was found until now.
    #[must_use]
    pub fn report(&mut self) -> &Report {
        self.report.code = self.code.done;
        self.report.invalidated = self.tlb.invalidated;
        &self.report
    }

    /// How many instructions were executed.
    #[must_use]
    pub const fn instructions(&self) -> u64 {
        self.report.instructions
    }

    /// Whether something was found in a new place since this was asked.
    pub fn news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    fn complain(&mut self, class: Class, address: u32, physical: u32, other: u32) {
        let (pc, user, at) = (self.pc, self.user, self.report.instructions);
        self.news |= self.report.add(Complaint { class, pc, user, count: 1, address, physical, other, at });
    }

    /// An instruction begins.
    pub fn execute(&mut self, step: &Step, machine: &impl Machine) {
        let i = &step.instruction;
        self.report.instructions += 1;
        self.pc = i.address;
        if self.stale {
            self.refresh(machine);
        }
        if let Some(last) = self.last
            && last.behind != i.address
        {
            let vector = i.address.wrapping_sub(self.now.vectors());
            if vector < 0x20 && vector.is_multiple_of(4) {
                // Where a return leads may not be fetched. A data abort is the return's own: it loads.
                if last.flow == Flow::ExceptionReturn && vector != 0x10 {
                    self.synchronise();
                    // Nobody says where to; this is what it is in all but a few.
                    self.user = true;
                }
                self.exception(vector, machine);
            } else if last.flow == Flow::ExceptionReturn {
                self.synchronise();
                self.stale_mode = true;
            }
        }
        if self.stale_mode {
            self.stale_mode = false;
            self.user = machine.cpsr() & 0x1f == 0x10;
        }
        self.fetch(i, machine);
        if let Some(wrong) = self.monitor.step(i.reads, i.writes) {
            self.pc = wrong.pc;
            self.complain(Class::Exclusive, wrong.address, wrong.address, wrong.loaded);
            self.pc = i.address;
        }
        if let Some(operation) = step.operation
            && (!self.user || operation.is_unprivileged())
            && step.passes(machine)
        {
            self.operate(operation, step, machine);
        }
        if i.system == Some(System::ModeChange) && !self.user {
            self.stale_mode = true;
        }
        self.last = Some(Last { behind: i.behind(), flow: i.flow });
    }

    fn fetch(&mut self, i: &Instruction, machine: &impl Machine) {
        let mut address = i.address;
        loop {
            if let Some((physical, cached)) = self.translate(Kind::Fetch, address, machine) {
                let cached = cached && self.now.registers.caches_instructions();
                if let Some(class) = self.code.fetch(address, physical, cached) {
                    self.complain(class, address, physical, machine.word(physical & !3).unwrap_or(0));
                    self.code.forgive(physical);
                }
            }
            // A long T32 instruction may lie in two words.
            let end = i.behind().wrapping_sub(1);
            if end & !3 == address & !3 {
                return;
            }
            address = end & !3;
        }
    }

    /// A load or store of so many bytes, which succeeded.
    pub fn access(&mut self, step: &Step, address: u32, bytes: u32, store: bool, machine: &impl Machine) {
        self.report.accesses += 1;
        if step.operation == Some(Operation::LoadExclusive) && !store {
            self.monitor.load(address, self.now.registers.asid());
        }
        let kind = if store { Kind::Store } else { Kind::Load };
        let here = bytes.clamp(1, 0x1000 - (address & 0xfff));
        self.access_page(kind, address, here, machine);
        if here < bytes {
            self.access_page(kind, address.wrapping_add(here), bytes - here, machine);
        }
    }

    fn access_page(&mut self, kind: Kind, address: u32, bytes: u32, machine: &impl Machine) {
        let Some((physical, cached)) = self.translate(kind, address, machine) else { return };
        if kind == Kind::Store {
            self.code.write(physical, bytes, cached && self.now.registers.caches_data());
            if self.tables.holds(physical) {
                self.epoch = self.epoch.wrapping_add(1);
            }
        }
    }

    /// Reads the registers again.
    fn refresh(&mut self, machine: &impl Machine) {
        self.stale = false;
        let new = machine.context();
        if new == self.now {
            return;
        }
        self.now = new;
        self.pending = new != self.settled;
        if self.numbers.len() >= 1 << 12 {
            self.numbers.clear();
            self.epoch = self.epoch.wrapping_add(1);
        }
        let next = self.numbers.len() as u32;
        self.number = *self.numbers.entry(new).or_insert(next);
        if self.spaces.set(new.registers.ttbr0, new.registers.asid(), new.walks()) {
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    /// An ISB, or an exception's entry or return (B3.15.5).
    fn synchronise(&mut self) {
        self.code.synchronise();
        self.tlb.synchronise();
        self.translated_by = None;
        if self.pending {
            self.pending = false;
            self.settled = self.now;
            self.spaces.synchronise(self.now.registers.ttbr0, self.now.registers.asid());
        }
    }

    /// An exception is taken. The registers are up to date.
    fn exception(&mut self, vector: u32, machine: &impl Machine) {
        if self.pending && self.now.vectors() != self.settled.vectors() {
            self.complain(Class::ContextVectors, self.pc, self.settled.vectors(), self.written_by);
        }
        match vector {
            0x0c => self.abort(true, machine.faults().ifar, machine),
            0x10 => self.abort(false, machine.faults().dfar, machine),
            _ => {}
        }
        self.user = false;
        self.stale_mode = false;
        self.synchronise();
    }

    /// Whether walks of an address's tables look into the data cache.
    fn coherent(&self, address: u32) -> bool {
        self.parts.walks_in_data_cache && self.now.registers.walks_cached(address)
    }

    /// Where an address leads, and whether through caches. Complains if it may lead elsewhere.
    #[inline]
    fn translate(&mut self, kind: Kind, address: u32, machine: &impl Machine) -> Option<(u32, bool)> {
        let page = address >> 12;
        let slot = (kind as usize * 2 + usize::from(self.user)) * SEEN + page as usize % SEEN;
        let seen = self.seen[slot];
        if seen.page == page && seen.context == self.number && seen.epoch == self.epoch && !self.pending {
            return Some((seen.physical | address & 0xfff, seen.cached));
        }
        let (physical, cached) = self.look(kind, address, machine)?;
        let (context, epoch) = (self.number, self.epoch);
        self.seen[slot] = Seen { page, context, epoch, physical: physical & !0xfff, cached };
        Some((physical, cached))
    }

    fn look(&mut self, kind: Kind, address: u32, machine: &impl Machine) -> Option<(u32, bool)> {
        let asid = self.now.registers.asid();
        if !self.now.registers.translates() {
            // Without translation, instructions may be cached and data may not (B3.2.1).
            let fetch = kind == Kind::Fetch;
            self.compare_settled(kind, &Translation::flat(address, fetch), address, machine);
            return Some((address, fetch));
        }
        self.report.walks += 1;
        let Walked { found, unseen, descriptors } = self.walk(address, machine);
        let Some(found) = found else {
            // QEMU's own TLB had it.
            let mut stale = None;
            self.tlb.each(address, asid, |entry| stale = Some(*entry));
            let entry = stale?;
            self.complain(Class::StaleAddress, address, 0, entry.physical(address));
            return Some((entry.physical(address), entry.cached));
        };
        let physical = found.physical(address);
        let (mut wrong, mut known) = (None, false);
        if !self.now.allows(&found, kind, self.user) {
            // QEMU's own TLB had what allows it.
            self.complain(Class::StaleAllows, address, physical, physical);
            self.tlb.forgive(address, asid);
        }
        self.tlb.each(address, asid, |entry| {
            let class = if entry.physical(address) != physical {
                Class::StaleAddress
            } else if entry.size_shift != found.size_shift {
                Class::Overlap
            } else if (entry.cached, entry.memory) != (found.cached, found.memory) {
                Class::StaleAttributes
            } else if !self.now.allows(entry, kind, self.user) {
                Class::StaleRights
            } else {
                known = true;
                return;
            };
            wrong = Some((class, entry.physical(address)));
        });
        if let Some((class, other)) = wrong {
            self.complain(class, address, physical, other);
            self.tlb.forgive(address, asid);
        }
        if let Some((at, older)) = unseen.filter(|_| !known) {
            let leads = older.is_some_and(|older| older & 3 != 0);
            let class = if leads { Class::TableNotSeen } else { Class::TableNotSeenFault };
            self.complain(class, address, at, older.unwrap_or(0));
        }
        self.compare_spaces(kind, &found, address, machine);
        self.compare_settled(kind, &found, address, machine);
        self.tlb.put(Entry { translation: found, descriptors });
        Some((physical, found.cached))
    }

    /// Walks the tables.
    fn walk(&mut self, address: u32, machine: &impl Machine) -> Walked {
        let coherent = self.coherent(address);
        let (code, tables) = (&self.code, &mut self.tables);
        let (mut unseen, mut first, mut last) = (None, None, 0);
        let found = walk::walk(&self.now.registers, machine, address, |at| {
            (first, last) = (first.or(Some(at)), at);
            let descriptor = machine.word(at).unwrap_or(0);
            if let Some(older) = tables.read(at, descriptor, code.is_seen(at, coherent))
                && older != Some(descriptor)
            {
                unseen.get_or_insert((at, older));
            }
        });
        Walked { found, unseen, descriptors: [first.unwrap_or(last), last] }
    }

    /// Where an address of maintenance leads.
    fn peek(&self, address: u32, machine: &impl Machine) -> Option<u32> {
        if !self.now.registers.translates() {
            return Some(address);
        }
        walk::walk(&self.now.registers, machine, address, |_| ()).map(|found| found.physical(address))
    }

    fn operate(&mut self, operation: Operation, step: &Step, machine: &impl Machine) {
        let value = || machine.register(operand(step.word));
        match operation {
            Operation::Isb => self.synchronise(),
            Operation::Dsb => {
                self.code.dsb();
                self.tlb.dsb();
                self.spaces.dsb();
            }
            Operation::Context => {
                self.stale = true;
                self.written_by = self.pc;
            }
            Operation::TlbAll | Operation::TlbPage | Operation::TlbPageOfAll | Operation::TlbAsid => {
                let value = if operation == Operation::TlbAll { 0 } else { value() };
                self.forget(operation, value, machine);
            }
            Operation::Clean => {
                if let Some(physical) = self.peek(value(), machine) {
                    self.code.clean(physical, self.parts.data_cache.line);
                }
            }
            Operation::CleanSets => self.code.clean_all(),
            Operation::InstructionLine => {
                if let Some(physical) = self.peek(value(), machine) {
                    self.code.invalidate(value(), physical, self.parts.instruction_cache.line);
                }
            }
            Operation::InstructionAll => self.code.invalidate_all(),
            Operation::Predictor => self.code.invalidate_predictor(),
            Operation::PredictorWord => {
                if let Some(physical) = self.peek(value(), machine) {
                    self.code.invalidate_prediction(physical);
                }
            }
            Operation::Translate { write, user } => {
                self.translated_by = Some(self.pc);
                self.compare_translated(if write { Kind::Store } else { Kind::Load }, value(), user, machine);
            }
            Operation::ReadTranslated => {
                if let Some(by) = self.translated_by.take() {
                    self.complain(Class::TranslationNotSynchronised, self.pc, self.pc, by);
                }
            }
            // The access itself says that it was executed.
            Operation::LoadExclusive => {}
            Operation::StoreExclusive { status, base, offset } => {
                let address = machine.register(base).wrapping_add(offset.into());
                self.monitor.store(self.pc, address, self.now.registers.asid(), status);
            }
            Operation::ClearExclusive => self.monitor.clear(),
            Operation::Float => {
                if self.pending && !self.settled.floats(self.user) {
                    self.complain(Class::ContextFloat, self.pc, self.pc, self.written_by);
                    self.settled.cpacr = self.now.cpacr;
                }
            }
        }
    }

    /// Maintenance of the TLB.
    fn forget(&mut self, operation: Operation, value: u32, machine: &impl Machine) {
        let (walks, asid) = (self.now.walks(), value as u8);
        let (code, tables) = (&self.code, &self.tables);
        let coherent = self.coherent(value);
        // A walk behind the invalidation may read what the descriptor was.
        let stays = |entry: &Entry| {
            entry.descriptors.into_iter().any(|at| {
                !code.is_seen(at, coherent) && tables.seen(at).is_some_and(|seen| machine.word(at) != Some(seen))
            })
        };
        match operation {
            Operation::TlbPage => self.tlb.invalidate_page(value, asid, stays),
            Operation::TlbPageOfAll => self.tlb.invalidate_page_of_all(value, stays),
            Operation::TlbAsid => {
                self.tlb.invalidate_asid(asid, stays);
                self.spaces.forget(asid, walks);
            }
            _ => {
                self.tlb.invalidate_all(stays);
                self.spaces.forget_all(walks);
            }
        }
        self.epoch = self.epoch.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests;
