//! The world switch: Spica to guest and back.
//!
//! [`Context::enter`] runs the guest until its next trap and says which one it was. Everything that the guest can
//! change is in the [`Cpu`] then; everything that it must not reach is put in place before. The assembly is in
//! `switch.s`, and in `fast.s` what frequent traps do without coming here; what it knows of the types here is in
//! `assembly.rs`.

mod assembly;
pub mod core_state;
pub mod spaces;
pub mod vfp;

use core::ffi::c_void;

use spica_addr::{GuestPa, GuestVa, HostPa};
use spica_dbt::Start;
use spica_dbt::in_place::MAY_BE_REPLACED;
use spica_dbt::jump_cache::{Entry, JumpCache};
use spica_dbt::layout::PAGE_WORDS;
use spica_dbt::twins::Patchable;
use spica_drivers::Waiting;
use spica_machine::{End, Outlook, SPURIOUS, Setting};
use spica_mmu::{HostDacr, PAGEWISE_FROM, View};
use spica_switches::Switches;
use spica_trace_ring::{Record, Ring, record};
use spica_vcpu::psr::Mode;

use spica_vcpu::{Bank, Banked, Cpu, psr};

use crate::arch::barrier::isb;
use crate::arch::cp15::{SysRegRead, SysRegWrite, Tpidrurw, Vbar};
use crate::arch::{cache, generic_timer};
use crate::engine::{Engine, Source};
use crate::papers::{CoreRegister, SEPARATION};
use crate::vectors;
use spaces::{KnownSpaces, SpaceSlot};

unsafe extern "C" {
    fn world_enter(cpu: *mut c_void) -> u32;
    fn world_install(cpu: *mut c_void);
    static world_kernel_vectors: [u32; 8];
    static world_user_vectors: [u32; 8];
    static world_kernel_vectors_traced: [u32; 8];
    static world_user_vectors_traced: [u32; 8];
    static world_kernel_vectors_calls: [u32; 8];
    static world_user_vectors_calls: [u32; 8];
}

#[cfg(feature = "check-fast-paths")]
unsafe extern "C" {
    static world_kernel_vectors_to_rust: [u32; 8];
    static world_user_vectors_to_rust: [u32; 8];
}

/// The privilege that a guest runs at: its kernel and its user code differ in shadow tables and in vectors, so that a
/// trap from one cannot be taken for one from the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Privilege {
    /// Translated guest kernel code.
    Kernel,
    /// Guest user code, native.
    User,
}

impl Privilege {
    /// The view that is for it.
    pub const fn view(self) -> View {
        match self {
            Privilege::Kernel => View::Kernel,
            Privilege::User => View::User,
        }
    }
}

/// Why the guest was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Trap {
    /// Undefined Instruction; the PC is behind the instruction.
    Undefined = 1,
    /// Supervisor Call; the PC is behind the instruction.
    SupervisorCall,
    /// Prefetch Abort; the PC is the instruction's.
    PrefetchAbort,
    /// Data Abort; the PC is the instruction's.
    DataAbort,
    /// IRQ of the host; the PC is that of the next instruction.
    Irq = 6,
    /// FIQ of the host. Never happens: FIQs are masked.
    Fiq,
}

impl Trap {
    /// The trap of this number, as assembly gives it.
    fn numbered(number: u32) -> Trap {
        match number {
            1 => Trap::Undefined,
            2 => Trap::SupervisorCall,
            3 => Trap::PrefetchAbort,
            4 => Trap::DataAbort,
            6 => Trap::Irq,
            _ => Trap::Fiq,
        }
    }
}

/// The real core's registers for one view, for a privilege switch in assembly. Privileged memory, like all of
/// [`Context`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ViewRegisters {
    /// The guest's DACR that `dacr` was made of.
    pub guest_dacr: u32,
    /// DACR.
    pub dacr: HostDacr,
    /// The TTBR0 of the table that has the hypervisor region alone, by way of which tables are changed.
    pub region_ttbr0: u32,
    /// TTBR0, with its walk attributes.
    pub ttbr0: u32,
    /// CONTEXTIDR: the host ASID.
    pub contextidr: u32,
    /// VBAR.
    pub vbar: u32,
}

impl ViewRegisters {
    /// TTBR0's table, and its ASID.
    pub fn tables(&self) -> (HostPa, u32) {
        (HostPa(self.ttbr0 & !0x3fff), self.contextidr)
    }
}

/// How a guest's counter follows from a register of the host's clock: the counter was `count` and `fraction` / 2^64
/// when the register, or its complement, was `base`; each tick since then counts `whole` and `part` / 2^64. See
/// [`Host::clock`].
///
/// [`Host::clock`]: crate::host::Host::clock
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Clock {
    /// Virtual address of the register; 0 if assembly cannot read the clock.
    pub address: u32,
    /// All ones if the register counts down, else 0.
    pub complement: u32,
    /// The register's value, or its complement, a while ago.
    pub base: u32,
    /// Whole guest ticks per host tick.
    pub whole: u32,
    /// The rest, in units of 2^-64, low half first.
    pub part: [u32; 2],
    /// The fraction of a tick at `base`, in the same units.
    pub fraction: [u32; 2],
    /// The counter at `base`, low half first.
    pub count: [u32; 2],
}

/// Bytes of the line that guests' CTR announces for both caches: the smallest real one. So a guest has no more cleaned
/// or invalidated than it asks for, most of the time a single line that a compiler has written code to; a loop over
/// lines takes two instructions in `line_loop` for each.
pub fn announced_line() -> u32 {
    cache::data_line().min(cache::instruction_line())
}

/// The guest's generic timer, as `fast.s` reads and writes it. The machine has it, too, which raises its lines: what
/// assembly writes can only lower those, or leaves them low, and the machine learns of it when a trap next comes to
/// Rust.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GuestTimer {
    /// The physical timer, and the virtual one.
    timers: [TimerRegisters; 2],
    /// Assembly has written to them since Rust last looked.
    changed: u32,
    /// Non-zero: assembly may read and write them.
    pub quick: u32,
    /// How assembly sets the host's timer when the guest sets one of its own.
    pub alarm: HostAlarm,
    /// Non-zero: it has stopped the host's timer since Rust last looked; [`ALARM_SET`]: and then has set it.
    armed: u32,
    /// The latest counter value for which it may: what else the host's timer is needed for is behind that. Low half
    /// first.
    latest: [u32; 2],
    /// Non-zero: assembly may see to an interrupt of the host's timer by which the guest's ticks, if it comes before
    /// `until`.
    ticks: u32,
    /// When Rust wants to see one all the same: the low half of host time.
    until: u32,
    /// Non-zero: it has seen to some since Rust last looked, so that the machine's timers, and its time, are older than
    /// what is here.
    ticked: u32,
}

/// For [`GuestTimer::armed`]; also a timer's control register, enabled and not masked.
const ALARM_SET: u32 = 1;

/// The host's one-shot timer ([`spica_drivers::Alarm`]), as assembly sets it for a guest's deadline.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct HostAlarm {
    /// Virtual address of the register that stops and starts it; 0 if assembly cannot.
    pub control: u32,
    /// That of the one that takes the ticks.
    pub interval: u32,
    /// What stops it.
    pub stop: u32,
    /// What starts it.
    pub start: u32,
    /// Ticks of the host's clock from stop to start.
    pub pause: u32,
    /// Whole host ticks per guest tick.
    pub whole: u32,
    /// The rest, in units of 2^-32, rounded down.
    pub part: u32,
    /// How it is told that the timer has interrupted, and what is done about that: as [`spica_drivers::Alarm`] has it.
    pub status: u32,
    /// See there.
    pub lower: u32,
    /// See there.
    pub running: u32,
    /// What says that the interrupt that waits is the timer's.
    pub waiting: Waiting,
}

/// Registers of a timer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TimerRegisters {
    /// CNTP_CVAL or CNTV_CVAL, low half first.
    compare: [u32; 2],
    /// ENABLE and IMASK of CNTP_CTL or CNTV_CTL.
    control: u32,
    /// Non-zero: assembly has written to it since Rust last looked, and its line is low.
    written: u32,
}

impl GuestTimer {
    /// The timers are set to this.
    pub fn note(&mut self, settings: [Setting; 2]) {
        for (timer, Setting { compare, control }) in self.timers.iter_mut().zip(settings) {
            (timer.compare, timer.control) = ([compare as u32, (compare >> 32) as u32], control);
        }
    }

    /// The host's timer may be set for deadlines up to `latest`; its interrupts are Rust's.
    pub fn allow_until(&mut self, latest: u64) {
        self.latest = [latest as u32, (latest >> 32) as u32];
        self.ticks = 0;
    }

    /// Its interrupts need not come to Rust before host time `until`, if they are but the guest's next tick.
    pub fn allow_ticks(&mut self, until: u64) {
        self.until = until as u32;
        self.ticks = u32::from(self.alarm.waiting.address != 0);
    }

    /// Whether assembly has seen to such interrupts since Rust last looked.
    pub fn has_ticked(&self) -> bool {
        self.ticked != 0
    }

    /// Whether assembly has set the host's timer since Rust last looked, for what the guest's is set to or was; or has
    /// but stopped it. `None`: neither.
    #[inline]
    pub fn take_armed(&mut self) -> Option<bool> {
        match core::mem::take(&mut self.armed) {
            0 => None,
            armed => Some(armed == ALARM_SET),
        }
    }

    /// What assembly has made of them since Rust last looked.
    #[inline]
    pub fn changed(&self) -> Option<[Setting; 2]> {
        (self.changed | self.ticked != 0).then(|| {
            self.timers.map(|TimerRegisters { compare: [low, high], control, .. }| Setting {
                compare: u64::from(high) << 32 | u64::from(low),
                control,
            })
        })
    }

    /// The same; then Rust has looked.
    #[inline]
    pub fn take_changed(&mut self) -> Option<[Setting; 2]> {
        let changed = self.changed();
        self.learnt_change();
        changed
    }

    /// Rust has looked.
    #[inline]
    pub fn learnt_change(&mut self) {
        (self.changed, self.ticked) = (0, 0);
        self.timers.iter_mut().for_each(|timer| timer.written = 0);
    }
}

/// A place in the code cache where the guest's kernel accesses a register of its interrupt controller, and nothing
/// else: an LDR or STR of a word. All zeros if none is known.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct InterruptSite {
    /// The code-cache address; 0 is none.
    pc: u32,
    /// The guest's address of the register.
    va: u32,
    /// The core register that is loaded or stored, R0 to R12.
    register: u32,
    /// Where DACR has the domain of the page, in bits.
    domain_shift: u32,
}

impl InterruptSite {
    /// The word at `pc` accesses the interrupt controller at `va`, in a page of `domain`. `None` for registers that
    /// assembly does not have at hand.
    pub fn new(pc: u32, va: u32, register: u8, domain: u8) -> Option<InterruptSite> {
        let (register, domain_shift) = (register.into(), 2 * u32::from(domain & 0xf));
        (register <= 12).then_some(InterruptSite { pc, va, register, domain_shift })
    }
}

/// What `interrupts.s` may answer of the guest's accesses to its interrupt controller, and what it has answered. Rust
/// offers it at each entry of the kernel while an interrupt waits or is active, of the state that the controller has
/// then; the controller learns of it when a trap next comes to Rust, before anything else can reach it.
#[repr(C)]
pub struct GuestInterrupts {
    /// Two places where GICC_IAR is read, and where GICC_EOIR is written.
    sites: [InterruptSite; 3],
    /// Non-zero: what follows is offered.
    offered: u32,
    /// What a read gives: the number of an interrupt, which becomes active by that, and none is signalled any more;
    /// [`SPURIOUS`], which changes nothing.
    answer: u32,
    /// The interrupt that may be ended; or [`NO_INTERRUPT`].
    end: u32,
    /// What `end` becomes when `answer` is acknowledged.
    end_of_answer: u32,
    /// A word that must not be 0 for the end to be answered.
    end_if: *const u32,
    /// Never 0, for that.
    always: u32,
    /// Non-zero: the guest has acknowledged `answer` since Rust last looked, and before it wrote to its timers.
    acknowledged: u32,
    /// The interrupt that it has ended since; or [`NO_INTERRUPT`].
    ended: u32,
    /// What `sites` are of.
    pub version: (u32, u64),
    /// What there is to offer is of the state that the controller was in, and assembly has answered nothing of it.
    unused: bool,
}

/// None of the numbers of interrupts.
const NO_INTERRUPT: u32 = u32::MAX;

impl Default for GuestInterrupts {
    fn default() -> Self {
        GuestInterrupts {
            sites: [InterruptSite::default(); 3],
            offered: 0,
            answer: SPURIOUS,
            end: NO_INTERRUPT,
            end_of_answer: NO_INTERRUPT,
            end_if: core::ptr::null(),
            always: 1,
            acknowledged: 0,
            ended: NO_INTERRUPT,
            version: (0, 0),
            unused: false,
        }
    }
}

impl GuestInterrupts {
    /// What the guest has acknowledged, and what it has ended behind that, which the controller does not know of yet.
    #[inline]
    pub fn take(&mut self) -> (bool, Option<u32>) {
        self.unused = false;
        let acknowledged = core::mem::take(&mut self.acknowledged) != 0;
        (acknowledged, Some(core::mem::replace(&mut self.ended, NO_INTERRUPT)).filter(|&ended| ended != NO_INTERRUPT))
    }

    /// Nothing is answered.
    #[inline]
    pub fn withdraw(&mut self) {
        self.offered = 0;
    }

    /// Offers what was offered last, if the controller has not `changed` since. False if there is no such thing.
    #[inline]
    pub fn offer_again(&mut self, changed: bool) -> bool {
        self.unused &= !changed;
        self.offered = u32::from(self.unused);
        self.unused
    }

    /// What was offered has been acknowledged, and ended behind that.
    #[inline]
    pub fn ended_answer(&self) -> Option<u32> {
        let ended = self.acknowledged != 0 && self.ended != NO_INTERRUPT && self.ended == self.end_of_answer;
        ended.then_some(self.ended)
    }

    /// That is so, and the controller is as it was when it was offered: what it was told of is all over.
    pub fn come_round(&mut self) {
        self.answer = core::mem::replace(&mut self.ended, NO_INTERRUPT);
        (self.acknowledged, self.unused) = (0, true);
    }

    /// Sets where the guest accesses the interrupt controller.
    #[cold]
    pub fn set_sites(&mut self, sites: [InterruptSite; 3]) {
        self.sites = sites;
    }
}

/// The guest's RAM, as `faults.s` wants to know it: one run.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GuestRam {
    /// Where the guest has it.
    pub base: u32,
    /// Bytes.
    pub size: u32,
    /// Where it is, physically and so in the host address space.
    pub host: u32,
}

/// The page of which assembly patches words by itself, and how: see [`spica_dbt::twins::Patchable`].
#[repr(C)]
pub struct Patching {
    /// The page: its place in the guest's RAM, in bytes; or [`NO_PAGE`].
    page: u32,
    /// So many words may still be patched.
    left: u32,
    /// Where the twin is written.
    twin: u32,
    /// Where it is executed, or 0 if it is mapped nowhere.
    va: u32,
    /// What is mapped there then.
    pa: u32,
    /// [`MAY_BE_REPLACED`].
    may_be_replaced: *const bool,
    /// The words that may be patched, a bit for each.
    free: [u32; PAGE_WORDS / 32],
    /// The twin's number, and what was `left` at first.
    twin_number: u16,
    allowed: u16,
    /// The page of code that was patched last by Rust.
    last: u32,
    /// Words were patched of the last page that was here.
    pays: bool,
}

impl Patching {
    fn new() -> Patching {
        Patching {
            page: NO_PAGE,
            left: 0,
            twin: 0,
            va: 0,
            pa: 0,
            may_be_replaced: (&raw const MAY_BE_REPLACED).cast(),
            free: [0; PAGE_WORDS / 32],
            twin_number: 0,
            allowed: 0,
            last: NO_PAGE,
            pays: false,
        }
    }

    /// Whether it is any page.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.page != NO_PAGE
    }

    /// A word of the page at `place` in the guest's RAM is patched by Rust. Whether it is worth it to [`Self::begin`]:
    /// more words of it are likely to follow.
    pub fn is_worth(&mut self, place: u32) -> bool {
        core::mem::replace(&mut self.last, place) == place || self.pays
    }

    /// Words of the page at `place` in the guest's RAM may be patched from now on, until [`Self::end`].
    pub fn begin(&mut self, place: u32, patchable: &Patchable, (twin, pa): (u32, HostPa)) {
        let Patchable { number, va, mapped, ref free, left } = *patchable;
        (self.page, self.left, self.twin) = (place, left.into(), twin);
        (self.va, self.pa) = (if mapped { va.0 } else { 0 }, pa.0);
        self.free = *free.bits();
        (self.twin_number, self.allowed) = (number, left);
    }

    /// None may any more. The twin's number, and how many were.
    pub fn end(&mut self) -> (u16, u16) {
        self.page = NO_PAGE;
        let patched = self.allowed - self.left as u16;
        self.pays = patched != 0;
        (self.twin_number, patched)
    }
}

/// Code-cache addresses, or 0.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Entries {
    undefined: u32,
    data_abort: u32,
    prefetch_abort: u32,
    interrupt: u32,
    call: u32,
}

/// What the handlers in assembly have done that nobody in Rust has seen.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// How often it was turned on there.
    pub vfp_turns: u32,
    /// Undefined Instruction exceptions of user code that went straight to the guest's vector.
    pub user_undefined: u32,
    /// Pages mapped for user code in assembly.
    pub user_fills: u32,
    /// Aborts of user code that went straight to the guest's vector.
    pub user_aborts: u32,
    /// Changes of spaces that did not leave assembly.
    pub space_switches: u32,
    /// Reads of the counter in assembly.
    pub counter_reads: u32,
    /// Reads and writes of the timer's other registers in assembly.
    pub timer_accesses: u32,
    /// Changes of the kernel's mode in assembly.
    pub mode_changes: u32,
    /// Masks that the kernel wrote while an interrupt waited, which stays masked: in assembly.
    pub masks_kept: u32,
    /// Words that the kernel has stored to pages that are mapped for that, in assembly.
    pub patches: u32,
    /// Interrupts that the kernel has taken when it unmasked them, in assembly.
    pub unmasked: u32,
    /// Deadlines for which assembly has set the host's timer.
    pub alarms: u32,
    /// Accesses to the interrupt controller in assembly.
    pub interrupt_accesses: u32,
    /// Interrupts of the host's timer by which the guest's ticked, in assembly.
    pub ticks: u32,
    /// Pages that were there and were forgotten in assembly.
    pub tlb_pages: u32,
    /// Indirect branches that the jump cache answered.
    pub jump_hits: u32,
    /// System calls that went straight to the guest's vector.
    pub user_calls: u32,
    /// Exception returns within the kernel that did not leave assembly: counted in images that check that alone, as
    /// none of the others are.
    pub kernel_returns: u32,
}

/// Where the handlers in assembly find what [`Mmu`](crate::vm::mmu::Mmu) knows of the active space, which writes all of
/// it.
#[repr(C)]
pub struct TableRecords {
    /// [`spica_mmu::Shadow::aliases`].
    pub aliases: *mut u32,
    /// [`spica_mmu::Shadow::watched_pages`], as if there were bits for all of the address space.
    pub watched_pages: *const u32,
    /// [`spica_mmu::Shadow::private_megabytes`].
    pub private: *const u32,
    /// [`spica_mmu::Shadow::page_hints`].
    pub hints: *mut u32,
    /// [`spica_mmu::Shadow::watched_megabytes`].
    pub watched: *const u32,
    /// What makes the address of a shadow table of its host PA.
    pub table_offset: u32,
    /// The guest's ASID, if its single pages can be forgotten in assembly; else a number that is none.
    pub tlb_asid: u32,
}

impl Default for TableRecords {
    fn default() -> Self {
        TableRecords {
            aliases: core::ptr::null_mut(),
            watched_pages: core::ptr::null(),
            private: core::ptr::null(),
            hints: core::ptr::null_mut(),
            watched: core::ptr::null(),
            table_offset: 0,
            tlb_asid: NO_ASID,
        }
    }
}

/// A virtual CPU with what the trap handlers in assembly need beside it. Privileged memory: the guest never sees it.
#[repr(C)]
pub struct Context {
    /// Words of code that it patches without Rust. What is nearer to `cpu` is reached by more instructions.
    pub patching: Patching,
    /// What it did without Rust.
    pub counts: Counts,
    /// Where the shadow tables' records are.
    pub tables: TableRecords,
    /// The generic timer.
    pub timer: GuestTimer,
    /// The interrupt controller.
    pub interrupts: GuestInterrupts,
    /// Non-zero: something is to be learnt of the last two, which assembly has done since Rust last looked.
    answered: u32,
    /// Where system calls arrive.
    call_target: (GuestVa, GuestPa),
    /// Which register of the core translated code spills to.
    pub(crate) spill: CoreRegister,
    /// Non-zero: the core holds the guest's VFP registers, and CPACR lets its kernel and its user code use them. So VFP
    /// may be turned on and off in assembly (`undefined.s`).
    pub vfp_ready: u32,
    /// Non-zero: aborts of user code may be answered in assembly (`faults.s`), with what follows.
    pub fast_faults: u32,
    /// The host table's TTBR0.
    pub host_ttbr0: u32,
    /// Where the guest's RAM is.
    pub ram: GuestRam,
    /// Code-cache addresses of the blocks at the guest's vectors, where fast paths lead to them; 0 for the slow path,
    /// through Rust.
    entries: Entries,
    /// No system call goes to what is below this: 1, or where TPIDRURW is lent, what overflows when it is subtracted
    /// from an address that one can go to (see [`Context::lend_thread_id`]).
    call_floor: u32,
    /// The operand for the last page forgotten in assembly, bits 19:12 left out; or [`NO_PAGE`].
    forget_megabyte: u32,
    /// Its second-level tables, of the kernel view and of the user view.
    forget_tables: [u32; 2],
    /// The number of the last page of which a line was cleaned in assembly, which the kernel view has; or [`NO_PAGE`],
    /// which is more than there are.
    line_page: u32,
    /// The operand for the last page of the kernel's range forgotten, in assembly or not: see
    /// [`Self::is_forgotten`]; or what is none of these, 0.
    forgotten: u32,
    /// Non-zero: the last word that the kernel has stored so was one of code, as Rust has seen, and the next one is
    /// most likely, too, and Rust's.
    pub patches_code: u32,
    /// Two values of the guest's DACR, each with the real DACR that is made of it. A write of one of them changes no
    /// more than that: see [`Context::note_dacrs`].
    dacr_pairs: [[u32; 2]; 2],
    /// [`announced_line`].
    line: u32,
    /// TTBR0 and CONTEXTIDR as the guest last wrote them: assembly may know more than `cpu` does.
    guest_space: [u32; 2],
    /// Assembly has switched to another space since Rust last looked.
    space_switched: u32,
    spaces: *const SpaceSlot,
    /// The clock for the guest's counter.
    pub clock: Clock,
    jump_cache: *const Entry,
    /// Non-zero: the fast path of indirect branches must leave to Rust, because an interrupt waits.
    pub leave: u32,
    /// Non-zero: the guest's kernel may take an interrupt in assembly when it unmasks it. Not as long as Rust wants to
    /// see where an interrupt finds the kernel.
    pub takes_interrupts: u32,
    /// Where the guest's exception vectors are.
    vectors: u32,
    /// [`JumpCache::version`] when `entries` were looked up.
    ///
    /// [`JumpCache::version`]: spica_dbt::jump_cache::JumpCache::version
    entries_version: u32,
    /// Non-zero: blocks are executed beside what runs in place, to which exception returns may lead.
    pub blocks_beside: u32,
    /// Non-zero: privilege and mode switches go through Rust; but for those within the kernel that leave interrupts
    /// masked, if this is [`IRQ_WAITS`].
    pub slow_path: u32,
    /// The registers of the user view.
    pub user: ViewRegisters,
    host_sp: u32,
    scratch: [u32; 2],
    /// Where vectors that record write to (`trace.s`); `None`, which is 0, as long as there are others.
    trace: Option<&'static Ring>,
    /// By which assembly reaches the vCPU page: its bank of Supervisor mode (`assembly.rs`).
    page: *const Banked,
    /// The registers of the kernel view: right in front of the CPU, where an LDM reaches them.
    pub kernel: ViewRegisters,
    /// The virtual CPU.
    pub cpu: Cpu,
}

impl Context {
    /// For [`Self::watched_pages`].
    pub fn watched_pages(pages: &[u32]) -> *const u32 {
        pages.as_ptr().wrapping_sub(PAGEWISE_FROM.0 as usize >> 17)
    }

    /// A context for `cpu`.
    pub fn new(cpu: Cpu, jump_cache: &JumpCache, spaces: &KnownSpaces) -> Context {
        let registers = |vectors: *const [u32; 8]| ViewRegisters { vbar: vectors as u32, ..ViewRegisters::default() };
        Context {
            spill: CoreRegister::default(),
            counts: Counts::default(),
            tables: TableRecords::default(),
            timer: GuestTimer::default(),
            interrupts: GuestInterrupts::default(),
            answered: 0,
            vfp_ready: 0,
            fast_faults: 0,
            host_ttbr0: 0,
            ram: GuestRam::default(),
            entries: Entries::default(),
            call_floor: NOT_LENT,
            forget_megabyte: NO_PAGE,
            forget_tables: [0; 2],
            line_page: NO_PAGE,
            page: &raw const cpu.page.bank[Bank::Svc as usize],
            forgotten: 0,
            patches_code: 0,
            patching: Patching::new(),
            dacr_pairs: [[0, SEPARATION.host_dacr(0, View::Kernel).raw()]; 2],
            line: announced_line(),
            guest_space: [0; 2],
            space_switched: 0,
            spaces: spaces.slots(),
            clock: Clock::default(),
            jump_cache: jump_cache.as_ptr(),
            leave: 0,
            takes_interrupts: 0,
            vectors: 0,
            call_target: (GuestVa(0), GuestPa(0)),
            entries_version: 0,
            kernel: registers(&raw const world_kernel_vectors),
            user: registers(&raw const world_user_vectors),
            blocks_beside: 0,
            slow_path: 1,
            host_sp: 0,
            scratch: [0; 2],
            trace: None,
            cpu,
        }
    }

    /// From now on, traps that assembly answers are recorded in `ring`, or no longer.
    pub fn set_trace(&mut self, ring: Option<&'static Ring>) {
        let vectors = match ring {
            Some(_) => [&raw const world_kernel_vectors_traced, &raw const world_user_vectors_traced],
            None => [&raw const world_kernel_vectors, &raw const world_user_vectors],
        };
        self.trace = ring;
        [self.kernel.vbar, self.user.vbar] = vectors.map(|vectors| vectors as u32);
    }

    /// Whether anything is recorded.
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// From now on, system calls are recorded in `ring`, with their arguments and results, and nothing else is.
    pub fn trace_calls(&mut self, ring: &'static Ring) {
        self.trace = Some(ring);
        let vectors = [&raw const world_kernel_vectors_calls, &raw const world_user_vectors_calls];
        [self.kernel.vbar, self.user.vbar] = vectors.map(|vectors| vectors as u32);
    }

    /// The time as assembly reads it for records: the low half of the host's clock. `None` if nothing is recorded, or
    /// no more than system calls.
    #[inline]
    pub fn trace_time(&self) -> Option<u32> {
        self.trace.map(host_clock).filter(|_| self.user.vbar != &raw const world_user_vectors_calls as u32)
    }

    /// Code was translated for the guest's `pc` since `begun`.
    #[cold]
    pub fn trace_translation(&self, begun: u32, pc: GuestVa) {
        if let (Some(ring), Some(now)) = (self.trace, self.trace_time()) {
            ring.push(Record {
                time: begun,
                kind: record::TRANSLATION,
                guest: ring.running(),
                detail: 1,
                length: now.wrapping_sub(begun),
                argument: pc.0,
            });
        }
    }

    /// From now on each trap comes to Rust.
    #[cfg(feature = "check-fast-paths")]
    pub fn leave_to_rust(&mut self) {
        self.kernel.vbar = &raw const world_kernel_vectors_to_rust as u32;
        self.user.vbar = &raw const world_user_vectors_to_rust as u32;
    }

    /// The registers of the view for `privilege`.
    pub fn view_registers(&mut self, privilege: Privilege) -> &mut ViewRegisters {
        match privilege {
            Privilege::Kernel => &mut self.kernel,
            Privilege::User => &mut self.user,
        }
    }

    /// Whether assembly has answered accesses to the timers or the interrupt controller since Rust last looked.
    #[inline(always)]
    pub fn has_answered(&self) -> bool {
        self.answered != 0
    }

    /// Rust has looked.
    pub fn learnt_answers(&mut self) {
        self.answered = 0;
    }

    /// What assembly may answer of accesses to the interrupt controller, by its `outlook`, once the kernel is entered.
    /// `timer` is the one whose line the interrupt that waits is; of others, lines do not fall in assembly.
    pub fn offer_interrupts(&mut self, outlook: Outlook, timer: Option<usize>) {
        let Outlook { acknowledge, end, then } = outlook;
        let written = timer.and_then(|timer| self.timer.timers.get(timer)).map(|timer| &raw const timer.written);
        let interrupts = &mut self.interrupts;
        (interrupts.offered, interrupts.unused) = (1, true);
        interrupts.answer = acknowledge.unwrap_or(SPURIOUS);
        let always = &raw const interrupts.always;
        let (end_of_answer, end_if) = match (then, written) {
            (End::Quiet, _) => (acknowledge, always),
            (End::QuietIfLow, Some(written)) => (acknowledge, written),
            (End::QuietIfLow, None) | (End::Consequential, _) => (None, always),
        };
        interrupts.end = end.unwrap_or(NO_INTERRUPT);
        interrupts.end_of_answer = end_of_answer.unwrap_or(NO_INTERRUPT);
        interrupts.end_if = end_if;
    }

    /// The guest's TLB maintenance is about the page of `va`, in the kernel's range: see [`Self::is_forgotten`].
    pub fn note_forgotten(&mut self, va: GuestVa) {
        self.forgotten = va.0;
    }

    /// Whether the page of `va` is that of the kernel's range that the guest's TLB maintenance was about last, and
    /// nobody has stored there since.
    #[inline]
    pub fn is_forgotten(&self, va: GuestVa) -> bool {
        va.page() == GuestVa(self.forgotten).page() && va >= PAGEWISE_FROM
    }

    /// The guest stores to the page for which [`Self::is_forgotten`] holds.
    #[inline]
    pub fn note_stored(&mut self) {
        self.forgotten = 0;
    }

    /// The guest's TTBR0 and CONTEXTIDR are those of `cpu`.
    pub fn note_space(&mut self) {
        self.guest_space = [self.cpu.cp15.ttbr0, self.cpu.cp15.contextidr];
    }

    /// Whether assembly has switched to another space, which `cpu` and the shadow tables do not know of yet.
    pub fn space_switched(&self) -> bool {
        self.space_switched != 0
    }

    /// Whether assembly has switched to another space, to whose TTBR0 and CONTEXTIDR `cpu` is brought up.
    pub fn take_space_switch(&mut self) -> bool {
        if core::mem::take(&mut self.space_switched) == 0 {
            return false;
        }
        [self.cpu.cp15.ttbr0, self.cpu.cp15.contextidr] = self.guest_space;
        true
    }

    /// The guest's exception vectors are at `base`, bit 0 of which is their state; system calls arrive at `call`.
    pub fn set_vectors(&mut self, base: u32, call: (GuestVa, GuestPa)) {
        (self.vectors, self.call_target, self.entries_version) = (base, call, 0);
    }

    /// Says for the code that is entered next where exceptions of user code go without leaving assembly: to the blocks
    /// that the jump cache has for them. User code that begins in any state but the plain one takes them by Rust; what
    /// `fast.s` returns to is plain.
    #[inline(always)]
    pub fn set_entries(&mut self, privilege: Privilege, engine: &mut impl Engine, switches: &Switches) {
        // An interrupt that waits may be acknowledged in the kernel without Rust, and user code be entered then.
        let slow = self.slow_path != 0 && !(privilege == Privilege::Kernel && self.slow_path == IRQ_WAITS);
        if privilege == Privilege::User && (slow || self.cpu.page.control != Mode::Usr as u32) {
            self.entries = Entries::default();
            self.entries_version = 0;
        } else if !slow && self.entries_version != engine.known_version() {
            self.find_entries(engine, switches);
        }
    }

    #[inline(never)]
    fn find_entries(&mut self, engine: &mut impl Engine, switches: &Switches) {
        // In the jump cache, because what is dropped or unmapped is removed there.
        let (va, pa) = self.call_target;
        engine.watch_known(GuestVa(self.vectors), va);
        // Where system calls are known to lead, the mapping is global (`CallVector`).
        if engine.known(va).is_none()
            && let Some(code) = engine.find(Source { va, start: Start::default(), pa, global: true })
        {
            engine.enter(code, None);
        }
        let at = |pc: GuestVa| engine.known(pc).map(|pc| pc.0);
        let vector = |offset| at(GuestVa(self.vectors.wrapping_add(offset)));
        let undefined = vector(0x04).filter(|_| switches.quick_vfp);
        self.entries = Entries {
            undefined: undefined.unwrap_or(0),
            data_abort: vector(0x10).unwrap_or(0),
            prefetch_abort: vector(0x0c).unwrap_or(0),
            call: at(va).or(vector(0x08)).unwrap_or(0),
            interrupt: vector(0x18).unwrap_or(0),
        };
        self.entries_version = engine.known_version();
    }

    /// The guest is entered at `privilege`, where its DACR is `guest`. What assembly knows of others holds as long as
    /// only bits have changed that the shadow's entries do not depend on.
    pub fn note_dacrs(&mut self, privilege: Privilege, guest: u32, mmu_on: bool) {
        let view = privilege.view();
        let registers = self.view_registers(privilege);
        registers.guest_dacr = guest;
        registers.dacr = if mmu_on { SEPARATION.host_dacr(guest, view) } else { SEPARATION.flat_dacr(view) };
        if privilege == Privilege::User {
            // What assembly leaves the kernel with.
            self.cpu.page.dacr_real = self.kernel.guest_dacr;
        }
        if mmu_on && SEPARATION.baked_dacr(self.dacr_pairs[0][0]) != SEPARATION.baked_dacr(guest) {
            self.dacr_pairs = [[guest, SEPARATION.host_dacr(guest, View::Kernel).raw()]; 2];
        }
    }

    /// What the real DACR is while the guest runs at `privilege`.
    pub fn dacr_in_force(&self, privilege: Privilege) -> HostDacr {
        match SEPARATION.dacr_of(privilege.view()) {
            View::Kernel => self.kernel.dacr,
            View::User => self.user.dacr,
        }
    }

    /// The core's TPIDRURW has the guest's TPIDRURO while its kernel runs, from now on
    /// ([`Options::lent_thread_id`](spica_dbt::Options::lent_thread_id)), if its linear map begins at a `base`.
    ///
    /// `fast.s` compares where a system call goes with `call_floor`, and V says whether it is lent: from a negative
    /// number a positive one is subtracted, and the result is positive. Where a kernel is below 2 GiB, V would not say
    /// so: there, Rust enters it.
    /// Without one, it is the guest's at all times.
    pub fn lend_thread_id(&mut self, base: Option<u32>) {
        self.blocks_beside = 0;
        self.call_floor = match base {
            None => NOT_LENT,
            Some(base) if base >> 31 == 0 => u32::MAX,
            Some(_) => i32::MAX as u32,
        };
    }

    /// Whether it is so.
    pub fn lends_thread_id(&self) -> bool {
        self.call_floor != NOT_LENT
    }

    /// The guest is about to go on at `privilege`.
    fn lend_thread_ids(&self, privilege: Privilege) {
        if self.lends_thread_id() {
            let page = &self.cpu.page;
            let value = if privilege == Privilege::Kernel { page.tpidruro } else { page.tpidrurw };
            // SAFETY: the register has no effect on the hypervisor.
            unsafe { Tpidrurw::write_raw(value) }
        }
    }

    /// The guest was left at `privilege`.
    fn take_thread_id_back(&mut self, privilege: Privilege) {
        if self.lends_thread_id() && privilege == Privilege::User {
            self.cpu.page.tpidrurw = Tpidrurw::read_raw();
        }
    }

    /// Makes this the virtual CPU that the exception modes save to. To be called before [`Context::enter`] whenever
    /// another one ran, or this one was moved.
    pub fn install(&mut self) {
        // SAFETY: it changes the stack pointers of modes that no Rust code runs in.
        unsafe { world_install((&raw mut self.cpu).cast()) }
    }

    /// Runs the guest from `cpu.pc` on, at `privilege`, until its next trap, and says at which privilege that was. The
    /// tables, DACR and the rest of the guest's state are in place.
    pub fn enter(&mut self, privilege: Privilege) -> (Trap, Privilege) {
        // The trust rule: what the guest left in the PSR decides neither mode nor masks.
        self.cpu.psr = psr::sanitize(self.cpu.psr);
        let vectors = self.view_registers(privilege).vbar;
        self.lend_register(privilege);
        self.lend_thread_ids(privilege);
        self.forget_megabyte = NO_PAGE;
        self.line_page = NO_PAGE;
        self.cpu.page.unprivileged = [NO_PAGE; 2];
        self.run(vectors)
    }

    /// The same once more for kernel code in A32 state, which has just been left: all is as it was then, but for the PC
    /// and for what the guest has in its RAM.
    #[inline(always)]
    pub fn enter_again(&mut self) -> (Trap, Privilege) {
        self.lend_register(Privilege::Kernel);
        self.run(self.kernel.vbar)
    }

    #[inline(always)]
    fn run(&mut self, vectors: u32) -> (Trap, Privilege) {
        // SAFETY: the tables of vectors are aligned to 32 bytes and handle all exceptions of User mode; from here to
        // the guest's first instruction nothing of ours raises one. `world_enter` keeps to the calling convention.
        let trap = unsafe {
            Vbar::write_raw(vectors);
            isb();
            let trap = world_enter((&raw mut self.cpu).cast());
            // From here on a fault is Spica's own, and its own vectors tell more about it.
            vectors::install();
            trap
        };
        let privilege = if trap & FROM_USER != 0 { Privilege::User } else { Privilege::Kernel };
        self.take_register_back(privilege);
        self.take_thread_id_back(privilege);
        (Trap::numbered(trap & !FROM_USER), privilege)
    }
}

/// See [`Context::trace_time`].
#[cold]
#[inline(never)]
fn host_clock(ring: &Ring) -> u32 {
    let address = ring.clock.get();
    if address == 0 {
        return generic_timer::now() as u32;
    }
    // SAFETY: the driver of the clock says that this is a register, and that reading it changes nothing.
    let count = unsafe { core::ptr::with_exposed_provenance::<u32>(address as usize).read_volatile() };
    count ^ ring.complement.get()
}

/// [`Context::call_floor`] where TPIDRURW is the guest's at all times.
pub const NOT_LENT: u32 = 1;

/// For [`Context::slow_path`]: nothing keeps assembly from switching privilege but a virtual IRQ that waits.
pub const IRQ_WAITS: u32 = 2;

/// Not the ASID of any guest.
pub const NO_ASID: u32 = 0x100;

/// Not what is left of any operand of TLBIMVA without bits 19:12, whatever a guest has in the reserved bits 11:8
/// (B4.2.2); and a page that assembly asks nothing about, because it is not below the hypervisor region.
const NO_PAGE: u32 = 0xffff_f000;
const _: () = assert!(NO_PAGE > crate::layout::REGION_MIN && NO_PAGE & 0xff000 != 0);

/// Added to a trap's number by the vectors of user code.
const FROM_USER: u32 = 8;

/// An exception of Spica's own while a guest's vectors are installed.
extern "C" fn world_panic(spsr: u32, lr: u32, cpsr: u32) -> ! {
    panic!("exception in the hypervisor: mode {:#x}, from psr {spsr:#010x}, return address {lr:#010x}", cpsr & 0x1f);
}
