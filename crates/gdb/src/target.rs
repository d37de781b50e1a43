//! A guest as the crate `gdbstub` wants it: GDB's requests become questions to the board.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use gdbstub::common::Signal;
use gdbstub::stub::SingleThreadStopReason;
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::reverse_exec::{ReplayLogPosition, ReverseCont, ReverseContOps};
use gdbstub::target::ext::base::single_register_access::{SingleRegisterAccess, SingleRegisterAccessOps};
use gdbstub::target::ext::base::singlethread::{
    SingleThreadBase, SingleThreadResume, SingleThreadResumeOps, SingleThreadSingleStep, SingleThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint,
    SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::exec_file::ExecFileOps;
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub::{output, outputln};
use object::{Object, ObjectSymbol};

use crate::conditional::Condition;
use crate::files::{KERNEL, Open};
use crate::registers::{Arm, Core, Register};
use crate::{Link, NotBack, Problem};

/// Bytes that the board reads at once, which divide a page.
const LINE: u32 = 256;
/// Lines that are kept.
const LINES: usize = 1024;
/// Bytes that it writes at once.
const WRITE: usize = 64;

/// Why the guest stands.
pub type Stop = SingleThreadStopReason<u64>;

/// See the module's text.
pub struct Guest<'a> {
    /// The board.
    pub link: &'a mut dyn Link,
    say: &'a mut dyn FnMut(&str),
    /// Addresses are guest physical ones.
    physical: bool,
    /// `wait` has been asked, and not answered.
    waiting: bool,
    /// To be reported without asking.
    reported: Option<Stop>,
    /// What the board has said of memory since the guest stands: GDB asks for the same again and again. By space and
    /// address; empty where there is nothing.
    memory: HashMap<(&'static str, u32), Vec<u8>>,
    /// And of registers.
    registers: HashMap<&'static str, Vec<u32>>,
    pub(crate) open: Open,
    /// Where GDB has breakpoints (see [`breakpoint`]), and where exceptions are caught: one place may be both.
    breakpoints: HashSet<u32>,
    caught: HashMap<u32, Caught>,
    /// Where it stops if a condition holds.
    pub(crate) conditional: BTreeMap<u32, Condition>,
    modules: Option<Modules>,
    /// What the board was asked to catch TTBR0 with.
    ttbr: Option<String>,
    /// What it was asked to watch, behind the verb.
    watches: BTreeSet<String>,
    /// The guest was asked to stop since it went on.
    interrupted: bool,
    /// GDB has been told of a watchpoint, and nothing since.
    watch_told: bool,
}

impl<'a> Guest<'a> {
    /// The guest behind `link`; what GDB has no words for goes to `say`.
    pub fn new(link: &'a mut dyn Link, say: &'a mut dyn FnMut(&str)) -> Self {
        Guest {
            link,
            say,
            physical: false,
            waiting: false,
            reported: None,
            memory: HashMap::new(),
            registers: HashMap::new(),
            open: Open::default(),
            breakpoints: HashSet::new(),
            caught: HashMap::new(),
            conditional: BTreeMap::new(),
            modules: None,
            ttbr: None,
            watches: BTreeSet::new(),
            interrupted: false,
            watch_told: false,
        }
    }

    /// What to report to GDB now, whatever the board says.
    pub fn take_reported(&mut self) -> Option<Stop> {
        self.reported.take()
    }

    /// Why the guest stands, which it does; nothing if it goes on, because that is nothing for GDB.
    ///
    /// # Errors
    /// If the board has gone.
    pub fn stopped(&mut self) -> Result<Option<Stop>, Problem> {
        self.waiting = false;
        let lines = self.link.end_wait()?;
        let words: Vec<_> = lines.first().map(|line| line.split(' ').collect()).unwrap_or_default();
        if let ["halted", pc, "breakpoint"] = words[..]
            && let Ok(pc) = u32::from_str_radix(pc, 16)
            && self.modules.as_ref().is_some_and(|modules| modules.at == pc)
        {
            return self.loads_module(pc);
        }
        self.understand(&words).map(Some)
    }

    fn understand(&mut self, words: &[&str]) -> Result<Stop, Problem> {
        match *words {
            ["halted", _, "step"] => Ok(Stop::DoneStep),
            ["halted", _, "ttbr", old, new] => {
                let text = format!("{} has changed TTBR0 from 0x{old} to 0x{new}", self.link.guest());
                (self.say)(&text);
                Ok(Stop::Signal(Signal::SIGTRAP))
            }
            ["halted", pc, "breakpoint"] => {
                let pc = u32::from_str_radix(pc, 16).unwrap_or(0);
                match self.caught.get(&pc) {
                    // GDB has no breakpoint there.
                    Some(Caught { vector, calls }) if !self.breakpoints.contains(&pc) => {
                        let what = vector.what;
                        let number = if calls.is_empty() { None } else { self.system_call() };
                        let number = number.map_or(String::new(), |number| format!(", number {number}"));
                        (self.say)(&format!("{} takes {what}{number}", self.link.guest()));
                        Ok(Stop::Signal(Signal::SIGTRAP))
                    }
                    // The state is in bit 0 where breakpoints are, and not in the answer.
                    _ => match [pc, pc | 1].iter().find_map(|pc| self.conditional.get(pc)).map(Condition::text) {
                        Some(text) if ![pc, pc | 1].iter().any(|pc| self.breakpoints.contains(pc)) => {
                            (self.say)(&format!("{} is at {pc:#x}, and {text}", self.link.guest()));
                            Ok(Stop::Signal(Signal::SIGTRAP))
                        }
                        _ => Ok(Stop::SwBreak(())),
                    },
                }
            }
            ["halted", _, "watch", kind, address] => {
                self.watch_told = true;
                let kind = KINDS.iter().find(|(_, name)| *name == kind).map_or(WatchKind::ReadWrite, |(kind, _)| *kind);
                Ok(Stop::Watch { tid: (), kind, addr: u64::from_str_radix(address, 16).unwrap_or(0) })
            }
            ["halted", _, "halt"] => Ok(Stop::Signal(Signal::SIGINT)),
            ["off"] => {
                let text = format!("{} is off", self.link.guest());
                (self.say)(&text);
                Ok(Stop::Exited(0))
            }
            _ => Err(format!("the board answered {words:?}, which this version does not understand")),
        }
    }

    /// Asks the board to stop the guest, which [`Self::stopped`] then says.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn halt(&mut self) -> Result<(), Problem> {
        self.interrupted = true;
        self.link.ask("halt")?;
        self.wait()
    }

    /// Lets the guest go on without a debugger, and stays ready for the next one.
    ///
    /// # Errors
    /// If the board has gone.
    pub fn leave(&mut self) -> Result<(), Problem> {
        self.link.ask("detach")?;
        if std::mem::take(&mut self.waiting) {
            self.link.end_wait()?;
        }
        self.link.ask("attach").map(drop)
    }

    fn wait(&mut self) -> Result<(), Problem> {
        if !self.waiting {
            self.link.begin_wait()?;
            self.waiting = true;
        }
        Ok(())
    }

    /// Asks the board. What it refuses is said, and an error for GDB.
    pub(crate) fn ask(&mut self, question: &str) -> TargetResult<Vec<String>, Self> {
        self.link.ask(question).map_err(|problem| {
            (self.say)(&problem);
            TargetError::Errno(14)
        })
    }

    /// What is known of the guest's state may not be so any more.
    fn forget(&mut self) {
        self.memory.clear();
        self.registers.clear();
    }

    fn group(&mut self, group: &'static str) -> TargetResult<Vec<u32>, Self> {
        if let Some(words) = self.registers.get(group) {
            return Ok(words.clone());
        }
        let lines = self.ask(&format!("regs {group}"))?;
        let words = lines.first().and_then(|line| line.strip_prefix("regs ")).unwrap_or("").split(' ');
        let words: Result<Vec<u32>, _> = words.map(|word| u32::from_str_radix(word, 16)).collect();
        let words = words.map_err(|_| TargetError::NonFatal)?;
        self.registers.insert(group, words.clone());
        Ok(words)
    }

    /// The line of memory at `address`, or as much of it as there is.
    fn line(&mut self, address: u32) -> &[u8] {
        let space = self.space();
        if self.memory.len() == LINES {
            self.memory.clear();
        }
        let link = &mut *self.link;
        self.memory.entry((space, address)).or_insert_with(|| {
            // GDB tries addresses that are nowhere, and says so itself.
            let lines = link.ask(&format!("read {space} {address:x} {LINE:x}")).unwrap_or_default();
            let digits = lines.first().and_then(|line| line.strip_prefix("memory ")).unwrap_or("").as_bytes();
            let digit = |d: u8| char::from(d).to_digit(16).unwrap_or(0) as u8;
            digits.as_chunks::<2>().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
        })
    }

    fn space(&self) -> &'static str {
        if self.physical { "pa" } else { "va" }
    }

    fn set_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        let address = breakpoint(of_32_bits(address)?, kind);
        if !self.catches_all(address) && self.ask(&format!("break {address:x}")).is_err() {
            return Ok(false);
        }
        self.breakpoints.insert(address);
        Ok(true)
    }

    fn clear_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        let address = breakpoint(of_32_bits(address)?, kind);
        if !self.breakpoints.remove(&address) {
            return Ok(false);
        }
        if self.catches_all(address) {
            return Ok(true);
        }
        let cleared = self.ask(&format!("clear {address:x}")).is_ok();
        // System calls that are caught there are caught still.
        Ok(cleared && self.set_conditions(address).is_ok())
    }

    /// Whether the guest stops at `address` whatever its registers have.
    pub(crate) fn stops_always(&self, address: u32) -> bool {
        self.breakpoints.contains(&address) || self.catches_all(address)
    }

    /// Whether something is caught at `address`, whatever it is there for.
    fn catches_all(&self, address: u32) -> bool {
        self.modules.as_ref().is_some_and(|modules| modules.at == address)
            || self.caught.get(&address).is_some_and(|caught| caught.calls.is_empty())
    }

    /// What the guest stops for at `address`: registers and values. R7 has a system call's number.
    fn conditions(&self, address: u32) -> Vec<(u8, u32)> {
        let calls = self.caught.get(&address).into_iter().flat_map(|caught| caught.calls.iter().map(|call| (7, *call)));
        calls.chain(self.conditional.get(&address).into_iter().flat_map(Condition::each)).collect()
    }

    /// Has the board stop at `address` for all of these.
    pub(crate) fn set_conditions(&mut self, address: u32) -> Result<(), Problem> {
        let conditions = self.conditions(address);
        conditions
            .iter()
            .try_for_each(|(n, value)| self.link.ask(&format!("break {address:x} {n:x} {value:x}")).map(drop))
    }

    /// R7, in which Linux has a system call's number.
    fn system_call(&mut self) -> Option<u32> {
        self.forget();
        self.group("core").ok()?.get(7).copied()
    }

    /// `catch` and `uncatch`.
    fn catch(&mut self, words: &[&str], out: &mut ConsoleOutput<'_>) {
        match *words {
            [verb, "ttbr", ref values @ ..] => self.catch_ttbr(verb == "catch", values, out),
            [verb, "module", ref names @ ..] => self.catch_modules(verb == "catch", names, out),
            _ => self.catch_exception(words, out),
        }
    }

    /// A change of TTBR0, or one to a value, is caught by the board.
    fn catch_ttbr(&mut self, catch: bool, values: &[&str], out: &mut ConsoleOutput<'_>) {
        let digits = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let question = match (catch, values) {
            (false, []) => "uncatch ttbr".to_string(),
            (true, []) => "catch ttbr".to_string(),
            (true, [value]) if let Some(value) = digits(value) => format!("catch ttbr {value:x}"),
            _ => return outputln!(out, "only `catch ttbr` is followed by something: a value, hexadecimal"),
        };
        let answer = self.link.ask(&question);
        if answer.is_ok() {
            self.ttbr = Some(question).filter(|_| catch);
        }
        match (answer, catch, values) {
            (Err(problem), ..) => outputln!(out, "{problem}"),
            (Ok(_), false, _) => outputln!(out, "a change of TTBR0 is not caught"),
            (Ok(_), true, []) => outputln!(out, "a change of TTBR0 is caught"),
            (Ok(_), true, _) => outputln!(out, "a change of TTBR0 is caught, if it is to {}", values[0]),
        }
    }

    /// The load of a module, or of those of these names, is caught where Linux is about to initialise it.
    fn catch_modules(&mut self, catch: bool, names: &[&str], out: &mut ConsoleOutput<'_>) {
        if !catch && !names.is_empty() {
            return outputln!(out, "only `catch module` is followed by something: names of modules");
        }
        if let Some(Modules { at, .. }) = self.modules.take()
            && !self.breakpoints.contains(&at)
        {
            // It is gone whatever the board says.
            let _ = self.ask(&format!("clear {at:x}"));
        }
        if !catch {
            return outputln!(out, "the load of a module is not caught");
        }
        let Some(file) = self.link.symbols() else {
            return outputln!(out, "the kernel's names are not known: `monitor symbols` reads them");
        };
        let Some(at) = address_of(&file, LOADED) else {
            return outputln!(out, "the kernel has no function {LOADED}, where a load would be seen");
        };
        if !self.breakpoints.contains(&at)
            && let Err(problem) = self.link.ask(&format!("break {at:x}"))
        {
            return outputln!(out, "{problem}");
        }
        // The kernel's names have no dash.
        let names: Vec<String> = names.iter().map(|name| name.replace('-', "_")).collect();
        match names.join(", ") {
            which if which.is_empty() => outputln!(out, "the load of a module is caught in {LOADED}, {at:#x}"),
            which => outputln!(out, "the load of a module is caught in {LOADED}, {at:#x}, if it is {which}"),
        }
        self.modules = Some(Modules { at, names });
    }

    /// The guest is at the place where it has loaded a module. Why it stands, if it is one of those that are wanted.
    fn loads_module(&mut self, pc: u32) -> Result<Option<Stop>, Problem> {
        self.forget();
        let module = self.group("core").ok().and_then(|core| core.first().copied()).unwrap_or(0);
        let mut name = [0; MODULE_NAME];
        let read = self.read_addrs(module.wrapping_add(NAME_IN_MODULE).into(), &mut name).unwrap_or(0);
        let name = name[..read].split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        let wanted = self.modules.as_ref().is_some_and(|own| own.names.is_empty() || own.names.contains(&name));
        if wanted {
            (self.say)(&format!("{} has loaded the module {name}, `struct module` at {module:#x}", self.link.guest()));
        }
        if self.breakpoints.contains(&pc) {
            return Ok(Some(Stop::SwBreak(())));
        }
        if wanted {
            return Ok(Some(Stop::Signal(Signal::SIGTRAP)));
        }
        if self.interrupted {
            return Ok(Some(Stop::Signal(Signal::SIGINT)));
        }
        self.forget();
        self.link.ask("go")?;
        self.wait()?;
        Ok(None)
    }

    /// An exception is caught at its vector, where that is now.
    fn catch_exception(&mut self, words: &[&str], out: &mut ConsoleOutput<'_>) {
        let [verb, name, numbers @ ..] = words else {
            return outputln!(out, "`catch` and `uncatch` need an exception, `ttbr` or `module`");
        };
        let Some(vector) = VECTORS.iter().find(|vector| vector.name == *name) else {
            let names = VECTORS.each_ref().map(|vector| vector.name).join(", ");
            return outputln!(out, "exceptions are {names}; else there are ttbr and module");
        };
        let calls: Option<Vec<u32>> = numbers.iter().map(|number| number.parse().ok()).collect();
        let Some(calls) = calls.filter(|calls| calls.is_empty() || *name == "svc" && *verb == "catch") else {
            outputln!(out, "only `catch svc` is followed by something: numbers of system calls");
            return;
        };
        // What was caught is so no more.
        let places = self.caught.extract_if(|_, caught| caught.vector.name == *name).map(|(pc, _)| pc);
        let places: Vec<u32> = places.filter(|pc| !self.breakpoints.contains(pc)).collect();
        for pc in places {
            // It is gone whatever the board says.
            let _ = self.ask(&format!("clear {pc:x}"));
            let _ = self.set_conditions(pc);
        }
        if *verb == "uncatch" {
            outputln!(out, "{} is not caught", vector.what);
            return;
        }
        // SCTLR.V and VBAR (B1.8.1), in the group's order.
        let base = match self.group("system") {
            Ok(words) if words.first().is_some_and(|sctlr| sctlr >> 13 & 1 != 0) => 0xffff_0000,
            Ok(words) => words.get(VBAR).map_or(0, |base| base & !0x1f),
            Err(_) => return,
        };
        let pc = base + vector.offset;
        let which = calls.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        self.caught.insert(pc, Caught { vector, calls });
        let set = match (self.breakpoints.contains(&pc), self.catches_all(pc)) {
            (true, _) => Ok(()),
            (false, true) => self.link.ask(&format!("break {pc:x}")).map(drop),
            (false, false) => self.set_conditions(pc),
        };
        match set {
            Ok(()) if which.is_empty() => outputln!(out, "{} is caught at its vector, {pc:#x}", vector.what),
            Ok(()) => outputln!(out, "{} is caught at its vector, {pc:#x}, if its number is {which}", vector.what),
            Err(problem) => {
                self.caught.remove(&pc);
                outputln!(out, "{problem}");
            }
        }
    }
}

/// An address or a size that the guest can have.
fn of_32_bits<E>(number: u64) -> Result<u32, TargetError<E>> {
    number.try_into().map_err(|_| TargetError::Errno(14))
}

/// The board's address of a breakpoint. What GDB calls its kind says the instruction: 2 and 3, T32 of two and of four
/// bytes; 4, A32 (GDB manual, "ARM Breakpoint Kinds").
const fn breakpoint(address: u32, kind: usize) -> u32 {
    if matches!(kind, 2 | 3) { address | 1 } else { address }
}

/// Where Linux has loaded a module, relocated it and all, and is about to initialise it. R0 is its `struct module`.
const LOADED: &str = "do_init_module";
/// Where a `struct module` has its name, and how long that is: behind a word and the two of a list.
const NAME_IN_MODULE: u32 = 12;
const MODULE_NAME: usize = 60;

/// The load of modules is caught.
struct Modules {
    /// The address of [`LOADED`].
    at: u32,
    /// Which of them; all if there are none.
    names: Vec<String>,
}

/// The address of a function in an ELF file.
pub(crate) fn address_of(file: &[u8], name: &str) -> Option<u32> {
    let file = object::File::parse(file).ok()?;
    file.symbols().find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address() as u32)
}

/// An exception that is caught.
struct Caught {
    vector: &'static Vector,
    /// If it is a system call, which of them; all if there are none.
    calls: Vec<u32>,
}

/// Where VBAR is in the group `system`.
const VBAR: usize = 10;

/// An exception that can be caught.
struct Vector {
    name: &'static str,
    /// Table B1-3.
    offset: u32,
    what: &'static str,
}

const VECTORS: [Vector; 6] = [
    Vector { name: "undef", offset: 0x04, what: "an Undefined Instruction exception" },
    Vector { name: "svc", offset: 0x08, what: "a system call (SVC)" },
    Vector { name: "pabt", offset: 0x0c, what: "a Prefetch Abort" },
    Vector { name: "dabt", offset: 0x10, what: "a Data Abort" },
    Vector { name: "irq", offset: 0x18, what: "an IRQ" },
    Vector { name: "fiq", offset: 0x1c, what: "an FIQ" },
];

impl Target for Guest<'_> {
    type Arch = Arm;
    type Error = Problem;

    fn base_ops(&mut self) -> BaseOps<'_, Arm, Problem> {
        BaseOps::SingleThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        // GDB would say that the file is not there.
        if self.link.symbols().is_some() { Some(self) } else { None }
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleThreadBase for Guest<'_> {
    fn read_registers(&mut self, registers: &mut Core) -> TargetResult<(), Self> {
        let words = self.group("core")?;
        registers.0 = words.try_into().map_err(|_| TargetError::NonFatal)?;
        Ok(())
    }

    fn write_registers(&mut self, registers: &Core) -> TargetResult<(), Self> {
        self.forget();
        // CPSR first: it says whose R13 and R14 follow.
        for n in [16].into_iter().chain(0..16) {
            self.ask(&format!("set core {n:x} {:x}", registers.0[n]))?;
        }
        Ok(())
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, (), Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, address: u64, data: &mut [u8]) -> TargetResult<usize, Self> {
        let address = of_32_bits(address)?;
        let mut read = 0;
        while read < data.len() {
            let at = address.wrapping_add(read as u32);
            let known = self.line(at & !(LINE - 1)).get((at % LINE) as usize..).unwrap_or_default();
            let count = known.len().min(data.len() - read);
            if count == 0 {
                break;
            }
            data[read..read + count].copy_from_slice(&known[..count]);
            read += count;
        }
        if read == 0 { Err(TargetError::Errno(14)) } else { Ok(read) }
    }

    fn write_addrs(&mut self, address: u64, data: &[u8]) -> TargetResult<(), Self> {
        let address = of_32_bits(address)?;
        self.forget();
        for (n, piece) in data.chunks(WRITE).enumerate() {
            let bytes: String = piece.iter().map(|byte| format!("{byte:02x}")).collect();
            let at = address.wrapping_add((n * WRITE) as u32);
            self.ask(&format!("write {} {at:x} {bytes}", self.space()))?;
        }
        Ok(())
    }

    fn support_resume(&mut self) -> Option<SingleThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<()> for Guest<'_> {
    fn read_register(&mut self, (): (), register: Register, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        let words = self.group(register.group)?;
        let words = words.get(register.at..register.at + register.words).ok_or(TargetError::NonFatal)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        buffer.get_mut(..bytes.len()).ok_or(TargetError::NonFatal)?.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_register(&mut self, (): (), register: Register, value: &[u8]) -> TargetResult<(), Self> {
        let (words, _) = value.as_chunks::<4>();
        if words.len() != register.words {
            return Err(TargetError::NonFatal);
        }
        self.forget();
        for (n, word) in words.iter().enumerate() {
            let (at, value) = (register.at + n, u32::from_le_bytes(*word));
            self.ask(&format!("set {} {at:x} {value:x}", register.group))?;
        }
        Ok(())
    }
}

impl SingleThreadResume for Guest<'_> {
    fn resume(&mut self, _: Option<Signal>) -> Result<(), Problem> {
        self.watch_told = false;
        self.interrupted = false;
        self.forget();
        self.link.ask("go")?;
        self.wait()
    }

    fn support_single_step(&mut self) -> Option<SingleThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, (), Self>> {
        Some(self)
    }
}

/// A checkpoint is where the guest's past begins, and nothing is known of what was between: so backwards, GDB comes
/// straight to the checkpoint. It sees the guest stop there, and takes registers and memory from there on.
impl ReverseCont<()> for Guest<'_> {
    fn reverse_cont(&mut self) -> Result<(), Problem> {
        self.watch_told = false;
        self.forget();
        // Breakpoints and what is watched are of the memory that there is: they go, and are set anew.
        let (set, clear) = self.stops();
        for question in &clear {
            // What is not there any more need not go.
            let _ = self.link.ask(question);
        }
        let back = self.link.put_back();
        if let Err(NotBack::Lost(problem)) = back {
            (self.say)(&format!("{problem}; half of {} was replaced, and it will be off", self.link.guest()));
            self.reported = Some(Stop::Exited(0));
            return Ok(());
        }
        for question in &set {
            // What the board refuses now is said, and missing.
            let _ = self.ask(question);
        }
        self.reported = Some(match back {
            Err(NotBack::Untouched(problem) | NotBack::Lost(problem)) => {
                (self.say)(&problem);
                // It stands where it stood.
                Stop::Signal(Signal::SIGSTOP)
            }
            Ok(()) => Stop::ReplayLog { tid: None, pos: ReplayLogPosition::Begin },
        });
        Ok(())
    }
}

impl Guest<'_> {
    /// All that the board stops the guest for: what sets it, and what clears it.
    fn stops(&self) -> (Vec<String>, Vec<String>) {
        let places = self.breakpoints.iter().chain(self.modules.as_ref().map(|modules| &modules.at));
        let all = self.caught.iter().filter(|(_, caught)| caught.calls.is_empty()).map(|(pc, _)| pc);
        let places: BTreeSet<u32> = places.chain(all).copied().collect();
        let conditional = self.caught.keys().chain(self.conditional.keys()).filter(|pc| !places.contains(pc));
        let conditional: BTreeSet<u32> = conditional.copied().collect();
        let conditions = conditional.iter().flat_map(|pc| self.conditions(*pc).into_iter().map(move |it| (pc, it)));
        let mut set: Vec<String> = places.iter().map(|pc| format!("break {pc:x}")).collect();
        set.extend(conditions.map(|(pc, (n, value))| format!("break {pc:x} {n:x} {value:x}")));
        set.extend(self.watches.iter().map(|what| format!("watch {what}")));
        set.extend(self.ttbr.clone());
        let mut clear: Vec<String> = places.iter().map(|pc| format!("clear {pc:x}")).collect();
        clear.extend(conditional.iter().map(|pc| format!("clear {pc:x}")));
        clear.extend(self.watches.iter().map(|what| format!("unwatch {what}")));
        clear.extend(self.ttbr.iter().map(|_| "uncatch ttbr".to_string()));
        (set, clear)
    }
}

impl SingleThreadSingleStep for Guest<'_> {
    fn step(&mut self, _: Option<Signal>) -> Result<(), Problem> {
        if std::mem::take(&mut self.watch_told) {
            // On ARM, GDB takes it that the access is still to be made, and has it stepped over. It has been made.
            self.reported = Some(Stop::DoneStep);
            return Ok(());
        }
        self.forget();
        match self.link.ask("step") {
            Ok(_) => self.wait(),
            Err(problem) => {
                (self.say)(&problem);
                // Another signal than that of a step: GDB does not try again.
                self.reported = Some(Stop::Signal(Signal::SIGSTOP));
                Ok(())
            }
        }
    }
}

impl Breakpoints for Guest<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Guest<'_> {
    fn add_sw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.set_breakpoint(address, kind)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.clear_breakpoint(address, kind)
    }
}

/// There is one kind of breakpoints, whatever GDB calls them.
impl HwBreakpoint for Guest<'_> {
    fn add_hw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.set_breakpoint(address, kind)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.clear_breakpoint(address, kind)
    }
}

/// What the board calls kinds of watchpoints.
const KINDS: [(WatchKind, &str); 3] = [(WatchKind::Write, "w"), (WatchKind::Read, "r"), (WatchKind::ReadWrite, "a")];

impl Guest<'_> {
    fn watch(&mut self, verb: &str, address: u64, bytes: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let (address, bytes) = (of_32_bits(address)?, of_32_bits(bytes)?);
        if self.physical {
            (self.say)("watchpoints are at virtual addresses: `monitor physical off` comes first");
            return Ok(false);
        }
        let name = KINDS.iter().find(|(known, _)| *known == kind).map_or("a", |(_, name)| name);
        let what = format!("{name} {address:x} {bytes:x}");
        let done = self.ask(&format!("{verb} {what}")).is_ok();
        match verb {
            "watch" if done => drop(self.watches.insert(what)),
            "unwatch" if done => drop(self.watches.remove(&what)),
            _ => {}
        }
        Ok(done)
    }
}

impl HwWatchpoint for Guest<'_> {
    fn add_hw_watchpoint(&mut self, address: u64, bytes: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        self.watch("watch", address, bytes, kind)
    }

    fn remove_hw_watchpoint(&mut self, address: u64, bytes: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        self.watch("unwatch", address, bytes, kind)
    }
}

impl MonitorCmd for Guest<'_> {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), Problem> {
        match command {
            b"physical on" | b"physical off" => self.physical = command.ends_with(b"on"),
            b"physical" => {}
            command if command.starts_with(b"catch ") || command.starts_with(b"uncatch ") => {
                let text = String::from_utf8_lossy(command).into_owned();
                self.catch(&text.split(' ').collect::<Vec<_>>(), &mut out);
                return Ok(());
            }
            command if command.starts_with(b"break ") || command.starts_with(b"unbreak ") => {
                let text = String::from_utf8_lossy(command).into_owned();
                self.break_if(&text.split_whitespace().collect::<Vec<_>>(), &mut out);
                return Ok(());
            }
            b"clock runs" | b"clock stands" => {
                let text = String::from_utf8_lossy(command).into_owned();
                match self.link.ask(&text) {
                    Ok(_) => outputln!(out, "while the guest stands, its {text}"),
                    Err(problem) => outputln!(out, "{problem}"),
                }
                return Ok(());
            }
            b"checkpoint" => {
                let kept = self.link.keep(&mut |text| {
                    output!(out, "{text}");
                    out.flush();
                });
                match kept {
                    Ok(text) => outputln!(out, "a checkpoint, {text}: `reverse-continue` goes back to it"),
                    Err(problem) => outputln!(out, "{problem}"),
                }
                return Ok(());
            }
            b"symbols" => {
                let read = self.link.read_symbols(&mut |text| {
                    output!(out, "{text}");
                    // GDB hears that somebody is at work.
                    out.flush();
                });
                match read {
                    Ok(()) => outputln!(out, "\nthey are in a file: symbol-file target:{KERNEL}"),
                    Err(problem) => outputln!(out, "\n{problem}"),
                }
                return Ok(());
            }
            _ => {
                outputln!(out, "monitor physical on     addresses are guest physical ones");
                outputln!(out, "monitor physical off    addresses are virtual ones, by the guest's own tables");
                outputln!(out, "monitor catch svc       stops at system calls; also undef, pabt, dabt, irq, fiq");
                outputln!(out, "monitor catch svc 5 322 stops at these system calls of Linux alone, by their numbers");
                outputln!(out, "monitor catch ttbr      stops when the guest changes TTBR0; also: to this value");
                outputln!(out, "monitor catch module    stops when Linux has loaded a module; also: one of these");
                outputln!(out, "monitor uncatch svc     no longer");
                outputln!(out, "monitor break vfs_read r2 4096");
                outputln!(
                    out,
                    "                        stops there if a register has this value, or one of several: the"
                );
                outputln!(
                    out,
                    "                        board looks itself, which takes less time than GDB's conditions"
                );
                outputln!(out, "monitor unbreak vfs_read");
                outputln!(
                    out,
                    "monitor checkpoint      keeps the guest as it is; `reverse-continue` makes it that again"
                );
                outputln!(out, "monitor clock runs      while the guest stands, its clocks run on; also: stands");
                outputln!(out, "monitor symbols         reads the names of the kernel's functions from its memory");
                return Ok(());
            }
        }
        outputln!(out, "addresses are {}", if self.physical { "guest physical ones" } else { "virtual ones" });
        Ok(())
    }
}
