//! The assembly of the world switch, and all that it knows of Rust: each offset, constant and sentinel that its files
//! name is made here, of the type or the constant that it belongs to. What is the architecture's alone (bits of a
//! guest's descriptors, coprocessor registers) stands in the files as the manual has it.

use core::mem::offset_of;

use spica_dbt::jump_cache::{self, Entry};
use spica_dbt::trap;
use spica_drivers::Waiting;
use spica_mmu::{Fault, FaultKind, MAX_ALIASED, PAGEWISE_FROM, View, assembly as mmu};
use spica_trace_ring::{Ring, record};
use spica_vcpu::cp15::FPEXC_EN;
use spica_vcpu::psr::{self, Mode};
use spica_vcpu::{Bank, Banked, Cpu, VcpuPage};

use super::spaces::{SET_BITS, SpaceSlot, WAYS};
use super::{
    Clock, Context, FROM_USER, IRQ_WAITS, InterruptSite, NO_INTERRUPT, NO_PAGE, NOT_LENT, SPURIOUS, TimerRegisters,
    Trap, ViewRegisters, world_panic,
};
use crate::assemble::assemble;
use crate::layout::{HOST_ASID, REGION_MIN};
use crate::papers::{BY_DOMAINS, SEPARATION, SPILL, spilling_assembly};

#[cfg(feature = "check-fast-paths")]
macro_rules! all_to_rust {
    () => {
        include_str!("to_rust.s")
    };
}
#[cfg(not(feature = "check-fast-paths"))]
macro_rules! all_to_rust {
    () => {
        ""
    };
}

/// Where a field of [`Context`] is, from the [`Cpu`], whose address is at hand.
const fn before_cpu(offset: usize) -> isize {
    offset as isize - offset_of!(Context, cpu) as isize
}

/// Where a field of [`Context`] is.
macro_rules! context {
    ($($field:ident).+) => { before_cpu(offset_of!(Context, $($field).+)) };
}

/// Where a bank is, from the address by which assembly reaches the vCPU page: that of Supervisor mode's. Behind it are
/// its SP and LR, and in front of it those of User mode, without more than an LDM or STM.
const fn bank(bank: Bank) -> isize {
    (bank as isize - Bank::Svc as isize) * size_of::<Banked>() as isize
}

/// Where a field of the vCPU page is, from there.
macro_rules! page {
    ($($field:ident).+) => {
        offset_of!(VcpuPage, $($field).+) as isize
            - offset_of!(VcpuPage, bank) as isize
            - Bank::Svc as isize * size_of::<Banked>() as isize
    };
}

/// The PSR, but for its mode, when the guest takes an exception of `mode` (B1.9).
const fn entry(mode: Mode, masks: u32) -> u32 {
    mode as u32 | psr::I | masks
}

/// The status of a fault that an entry of the first or the second level has.
const fn status(kind: FaultKind, section_level: bool) -> u32 {
    Fault { kind, section_level, domain: 0 }.status()
}

/// Four bytes of a table by the low four bits of a mode, from `first` on: how far the mode's bank is from that of User
/// mode, and so what is behind it from that of Supervisor mode; [`NOT_HERE`] where this is not for assembly.
const fn banks(first: u32) -> u32 {
    let mut bytes = [NOT_HERE; 4];
    let mut at = 0;
    while at < 4 {
        bytes[at] = match Mode::from_bits(0x10 + first + at as u32) {
            Some(Mode::Usr | Mode::Fiq) | None => NOT_HERE,
            Some(mode) => (Bank::of(mode) as usize * size_of::<Banked>()) as u8,
        };
        at += 1;
    }
    u32::from_le_bytes(bytes)
}

const NOT_HERE: u8 = 0x80;

assemble! {
    files: [
        include_str!("macros.s"),
        include_str!("switch.s"),
        spilling_assembly!(),
        include_str!("fast.s"),
        include_str!("faults.s"),
        include_str!("undefined.s"),
        include_str!("interrupts.s"),
        include_str!("patches.s"),
        include_str!("trace.s"),
        all_to_rust!(),
    ];
    functions: [world_panic];

    // The virtual CPU, and what is before it.
    CPU_PC = offset_of!(Cpu, pc);
    CPU_PSR = offset_of!(Cpu, psr);
    CTX_PAGE = context!(page);
    CPU_DFSR = offset_of!(Cpu, cp15.dfsr);
    CPU_IFSR = offset_of!(Cpu, cp15.ifsr);
    CPU_DFAR = offset_of!(Cpu, cp15.dfar);
    CPU_IFAR = offset_of!(Cpu, cp15.ifar);
    CTX_ALIASES = context!(tables.aliases);
    CTX_VFP_READY = context!(vfp_ready);
    CTX_VFP_TURNS = context!(counts.vfp_turns);
    CTX_USER_UNDEFINED = context!(counts.user_undefined);
    CTX_WATCHED_PAGES = context!(tables.watched_pages);
    CTX_FAST_FAULTS = context!(fast_faults);
    CTX_PRIVATE = context!(tables.private);
    CTX_HINTS = context!(tables.hints);
    CTX_HOST_TTBR0 = context!(host_ttbr0);
    CTX_REGION_TTBR0 = context!(kernel.region_ttbr0);
    CTX_RAM_BASE = context!(ram.base);
    CTX_RAM_SIZE = context!(ram.size);
    CTX_RAM_HOST = context!(ram.host);
    CTX_UNDEFINED_ENTRY = context!(entries.undefined);
    CTX_DATA_ABORT_ENTRY = context!(entries.data_abort);
    CTX_PREFETCH_ABORT_ENTRY = context!(entries.prefetch_abort);
    CTX_CALL_ENTRY = context!(entries.call);
    CTX_INTERRUPT_ENTRY = context!(entries.interrupt);
    CTX_CALL_FLOOR = context!(call_floor);
    NOT_LENT = NOT_LENT;
    CTX_USER_FILLS = context!(counts.user_fills);
    CTX_USER_ABORTS = context!(counts.user_aborts);
    CTX_FORGET_MEGABYTE = context!(forget_megabyte);
    CTX_FORGOTTEN = context!(forgotten);
    CTX_PATCHES = context!(counts.patches);
    CTX_PATCHES_CODE = context!(patches_code);
    CTX_PATCHING_PAGE = context!(patching.page);
    CTX_PATCHING_LEFT = context!(patching.left);
    CTX_PATCHING_TWIN = context!(patching.twin);
    CTX_PATCHING_VA = context!(patching.va);
    CTX_PATCHING_PA = context!(patching.pa);
    CTX_PATCHING_MAY_BE_REPLACED = context!(patching.may_be_replaced);
    CTX_PATCHING_FREE = context!(patching.free);
    CTX_LINE_PAGE = context!(line_page);
    CTX_FORGET_TABLES = context!(forget_tables);
    CTX_DACR_PAIRS = context!(dacr_pairs);
    CTX_GUEST_TTBR0 = context!(guest_space);
    CTX_GUEST_CONTEXTIDR = context!(guest_space) + 4;
    CTX_SPACE_SWITCHED = context!(space_switched);
    CTX_SPACE_SWITCHES = context!(counts.space_switches);
    CTX_SPACES = context!(spaces);
    CTX_CLOCK = context!(clock);
    CTX_COUNTER_READS = context!(counts.counter_reads);
    CTX_TIMER_COMPARE = context!(timer.timers) + offset_of!(TimerRegisters, compare) as isize;
    CTX_TIMER_CONTROL = context!(timer.timers) + offset_of!(TimerRegisters, control) as isize;
    TIMER_BITS = size_of::<TimerRegisters>().trailing_zeros();
    CTX_TIMER_WRITTEN = context!(timer.timers) + offset_of!(TimerRegisters, written) as isize;
    CTX_ALARMS = context!(counts.alarms);
    CTX_TIMER_ARMED = context!(timer.armed);
    ALARM_SET = super::ALARM_SET;
    CTX_TIMER_LATEST = context!(timer.latest);
    CTX_ALARM_CONTROL = context!(timer.alarm.control);
    CTX_ALARM_INTERVAL = context!(timer.alarm.interval);
    CTX_ALARM_STOP = context!(timer.alarm.stop);
    CTX_ALARM_START = context!(timer.alarm.start);
    CTX_ALARM_PAUSE = context!(timer.alarm.pause);
    CTX_ALARM_WHOLE = context!(timer.alarm.whole);
    CTX_ALARM_PART = context!(timer.alarm.part);
    CTX_ALARM_STATUS = context!(timer.alarm.status);
    CTX_ALARM_LOWER = context!(timer.alarm.lower);
    CTX_ALARM_RUNNING = context!(timer.alarm.running);
    CTX_ALARM_WAITING = context!(timer.alarm.waiting);
    WAITING_ADDRESS = offset_of!(Waiting, address);
    WAITING_MASK = offset_of!(Waiting, mask);
    WAITING_VALUE = offset_of!(Waiting, value);
    CTX_TICKS_ALLOWED = context!(timer.ticks);
    CTX_TICKS_UNTIL = context!(timer.until);
    CTX_TICKED = context!(timer.ticked);
    CTX_TICKS = context!(counts.ticks);
    TIMER_BYTES = size_of::<TimerRegisters>();
    CTX_TIMER_CHANGED = context!(timer.changed);
    CTX_TIMER_QUICK = context!(timer.quick);
    CTX_TIMER_ACCESSES = context!(counts.timer_accesses);
    CTX_MODE_CHANGES = context!(counts.mode_changes);
    CTX_MASKS_KEPT = context!(counts.masks_kept);
    CTX_UNMASKED = context!(counts.unmasked);
    CTX_TAKES_INTERRUPTS = context!(takes_interrupts);
    CPSIE_I = 0xf108_0080_u32;
    CTX_IAR_PC = context!(interrupts.sites);
    CTX_OTHER_IAR_PC = context!(interrupts.sites) + size_of::<InterruptSite>() as isize;
    CTX_EOIR_PC = context!(interrupts.sites) + 2 * size_of::<InterruptSite>() as isize;
    SITE_BYTES = size_of::<InterruptSite>();
    SITE_VA = offset_of!(InterruptSite, va);
    SITE_REGISTER = offset_of!(InterruptSite, register);
    SITE_DOMAIN_SHIFT = offset_of!(InterruptSite, domain_shift);
    CTX_INTERRUPT_OFFERED = context!(interrupts.offered);
    CTX_INTERRUPT_ANSWER = context!(interrupts.answer);
    CTX_INTERRUPT_END = context!(interrupts.end);
    CTX_INTERRUPT_END_OF_ANSWER = context!(interrupts.end_of_answer);
    CTX_INTERRUPT_END_IF = context!(interrupts.end_if);
    CTX_INTERRUPT_ACKNOWLEDGED = context!(interrupts.acknowledged);
    CTX_INTERRUPT_ENDED = context!(interrupts.ended);
    CTX_ANSWERED = context!(answered);
    CTX_INTERRUPT_ACCESSES = context!(counts.interrupt_accesses);
    SPURIOUS = SPURIOUS;
    NO_INTERRUPT = NO_INTERRUPT as i32;
    CTX_TLB_ASID = context!(tables.tlb_asid);
    CTX_WATCHED = context!(tables.watched);
    CTX_TABLE_OFFSET = context!(tables.table_offset);
    CTX_TLB_PAGES = context!(counts.tlb_pages);
    CTX_LINE = context!(line);
    CTX_JUMP_CACHE = context!(jump_cache);
    CTX_LEAVE = context!(leave);
    CTX_HITS = context!(counts.jump_hits);
    CTX_KERNEL = context!(kernel);
    CTX_USER = context!(user);
    CTX_SLOW_PATH = context!(slow_path);
    IRQ_WAITS = IRQ_WAITS;
    CTX_USER_CALLS = context!(counts.user_calls);
    CTX_KERNEL_RETURNS = context!(counts.kernel_returns);
    CHECKED = cfg!(feature = "check-fast-paths") as u32;
    CTX_BLOCKS_BESIDE = context!(blocks_beside);
    CTX_HOST_SP = context!(host_sp);
    CTX_SCRATCH = context!(scratch) + 4;
    CTX_SPILL = context!(spill);
    CTX_TRACE = context!(trace);
    SPILL_TPIDRURW = SPILL.0;
    SPILL_TRAP = SPILL.1;

    // struct ViewRegisters
    VIEW_REGION_TTBR0 = offset_of!(ViewRegisters, region_ttbr0);
    VIEW_TTBR0 = offset_of!(ViewRegisters, ttbr0);
    VIEW_CONTEXTIDR = offset_of!(ViewRegisters, contextidr);
    VIEW_DACR = offset_of!(ViewRegisters, dacr);
    VIEW_VBAR = offset_of!(ViewRegisters, vbar);
    VIEW_GUEST_DACR = offset_of!(ViewRegisters, guest_dacr);

    // struct Clock
    CLOCK_ADDRESS = offset_of!(Clock, address);
    CLOCK_COMPLEMENT = offset_of!(Clock, complement);
    CLOCK_BASE = offset_of!(Clock, base);
    CLOCK_WHOLE = offset_of!(Clock, whole);
    CLOCK_PART = offset_of!(Clock, part);
    CLOCK_FRACTION = offset_of!(Clock, fraction);
    CLOCK_COUNT = offset_of!(Clock, count);

    // The timeline
    RING_HEAD = offset_of!(Ring, head);
    RING_TAIL = offset_of!(Ring, tail);
    RING_LOST = offset_of!(Ring, lost);
    RING_MASK = offset_of!(Ring, mask);
    RING_GUEST = offset_of!(Ring, guest);
    RING_CLOCK = offset_of!(Ring, clock);
    RING_COMPLEMENT = offset_of!(Ring, complement);
    RING_FIRST = offset_of!(Ring, first);
    RECORD_SYSTEM_CALL = record::SYSTEM_CALL;
    RECORD_EXCEPTION_RETURN = record::EXCEPTION_RETURN;
    RECORD_TTBR0 = record::TTBR0;
    RECORD_CONTEXTIDR = record::CONTEXTIDR;
    RECORD_USER_DATA_ABORT = record::USER_DATA_ABORT;
    RECORD_USER_PREFETCH_ABORT = record::USER_PREFETCH_ABORT;
    RECORD_CALL_R0 = record::CALL_R0;
    RECORD_CALL_R2 = record::CALL_R2;
    RECORD_CALL_R4 = record::CALL_R4;
    RECORD_CALL_R6 = record::CALL_R6;
    RECORD_RETURN_R0 = record::RETURN_R0;

    // The vCPU page
    PAGE_TARGET = page!(target);
    PAGE_CONTROL = page!(control);
    PAGE_SPSR = page!(spsr);
    PAGE_TPIDRURO = page!(tpidruro);
    PAGE_PENDING = page!(pending);
    PAGE_STALE = page!(stale);
    PAGE_STALE_CODE = page!(stale_code);
    PAGE_UNPRIVILEGED_READ = page!(unprivileged);
    PAGE_UNPRIVILEGED_WRITE = page!(unprivileged) + 4;
    PAGE_DACR = page!(dacr);
    PAGE_DACR_REAL = page!(dacr_real);
    PAGE_TTBR0 = page!(shown.ttbr0);
    PAGE_CONTEXTIDR = page!(shown.contextidr);
    PAGE_DFSR = page!(shown.dfsr);
    PAGE_IFSR = page!(shown.ifsr);
    PAGE_DFAR = page!(shown.dfar);
    PAGE_IFAR = page!(shown.ifar);
    PAGE_COUNTER = page!(counter);
    PAGE_FPEXC = page!(fpexc);
    PAGE_FPEXC_REAL = page!(fpexc_real);
    PAGE_TPIDRURW = page!(tpidrurw);
    BANKED_LR = offset_of!(Banked, lr);
    BANKED_BYTES = size_of::<Banked>();
    BANK_USR = bank(Bank::Usr);
    BANK_SVC = bank(Bank::Svc);
    BANK_ABT = bank(Bank::Abt);
    BANK_UND = bank(Bank::Und);
    BANK_IRQ = bank(Bank::Irq);
    BANKS_0 = banks(0);
    BANKS_4 = banks(4);
    BANKS_8 = banks(8);
    BANKS_12 = banks(12);
    BANK_NOT_HERE = NOT_HERE;

    // Modes and PSRs
    MODE_USR = Mode::Usr as u32;
    MODE_FIQ = Mode::Fiq as u32;
    MODE_IRQ = Mode::Irq as u32;
    MODE_SVC = Mode::Svc as u32;
    MODE_SYS = Mode::Sys as u32;
    // Without its condition and register, as the T32 form is without its register.
    MSR_CPSR_C = 0x0121_f000_u32;
    MSR_CPSR_C_T32 = 0xf380_8100_u32;
    SVC_EMULATE_T32 = trap::EMULATE_T32;
    MODE_ABT = Mode::Abt as u32;
    MODE_UND = Mode::Und as u32;
    PSR_MODE = psr::MODE;
    NOT_USR = psr::MODE & !(Mode::Usr as u32);
    PSR_T = psr::T;
    PSR_ET = psr::E | psr::T;
    PSR_IT = psr::IT;
    PSR_FMASK = psr::F;
    PSR_IMASK = psr::I;
    PSR_I = psr::I;
    PSR_MASKS = psr::A | psr::I | psr::F;
    // J, and bits that are reserved.
    PSR_UNUSED = 0x01f0_0000;
    // What is above bit 15 of a PSR, and means something in Thumb state alone: J and IT[1:0].
    PSR_J_IT = 0x0700_0000;
    ENTRY_SVC = entry(Mode::Svc, 0);
    ENTRY_ABT = entry(Mode::Abt, psr::A);
    ENTRY_UND = entry(Mode::Und, 0);
    ENTRY_IRQ = entry(Mode::Irq, psr::A);
    FPEXC_EN = FPEXC_EN;

    // Fault statuses
    FS_ALIGNMENT = status(FaultKind::Alignment, true);
    FS_TRANSLATION_SECTION = status(FaultKind::Translation, true);
    FS_TRANSLATION_PAGE = status(FaultKind::Translation, false);
    FS_PERMISSION_PAGE = status(FaultKind::Permission, false);

    // Traps, as Context::enter and spica_dbt::trap have them
    TRAP_UNDEFINED = Trap::Undefined as u32;
    TRAP_SUPERVISOR_CALL = Trap::SupervisorCall as u32;
    TRAP_PREFETCH_ABORT = Trap::PrefetchAbort as u32;
    TRAP_DATA_ABORT = Trap::DataAbort as u32;
    TRAP_IRQ = Trap::Irq as u32;
    TRAP_FIQ = Trap::Fiq as u32;
    FROM_USER = FROM_USER;
    SVC_INDIRECT = trap::INDIRECT;
    SVC_DACR = trap::DACR;
    SVC_DACR_IN_PLACE = trap::DACR_IN_PLACE;
    SVC_EMULATE = trap::EMULATE;
    EMULATE_LITERAL_BYTES = 4 * trap::EMULATE_LITERALS;
    SVC_EXCEPTION_RETURN = trap::EXCEPTION_RETURN;
    SVC_LENT_EXCEPTION_RETURN = trap::LENT_EXCEPTION_RETURN;
    SVC_LENT_VECTOR_RETURN = trap::LENT_VECTOR_RETURN;
    SVC_TLB_PAGE = trap::TLB_PAGE;
    SVC_UNPRIVILEGED_LOAD = trap::UNPRIVILEGED_LOAD;
    SVC_UNPRIVILEGED_STORE = trap::UNPRIVILEGED_STORE;
    SVC_VFP = trap::VFP;
    SVC_COUNTER = trap::COUNTER;
    SVC_TTBR0 = trap::TTBR0;
    SVC_CONTEXTIDR = trap::CONTEXTIDR;
    SVC_CLEAN_LINE = trap::CLEAN_LINE;
    SVC_FORGET_LINE = trap::FORGET_LINE;
    SVC_CLEAN_LINES = trap::CLEAN_LINES;
    SVC_FORGET_LINES = trap::FORGET_LINES;
    SVC_CLEAN_LINES_AT_R12 = trap::CLEAN_LINES_AT_R12;
    SVC_FORGET_LINES_AT_R12 = trap::FORGET_LINES_AT_R12;
    LINE_LOOP_AT = trap::LINE_LOOP_AT;
    LINE_LOOP_STEP = trap::LINE_LOOP_STEP;
    SVC_TLB_RANGE = trap::TLB_RANGE;
    TLB_RANGE_PAGE = trap::TLB_RANGE_PAGE;
    TLB_RANGE_END = trap::TLB_RANGE_END;

    // The jump cache
    JUMP_BITS = jump_cache::ENTRIES.trailing_zeros();
    JUMP_ENTRY_BITS = size_of::<Entry>().trailing_zeros();
    JUMP_GUEST = offset_of!(Entry, guest);
    JUMP_HOST = offset_of!(Entry, host);

    // struct SpaceSlot, and where a TTBR0 has its slots: spaces::first_slot
    SLOT_TTBR0 = offset_of!(SpaceSlot, ttbr0);
    SLOT_MASK = offset_of!(SpaceSlot, mask);
    SLOT_ASID = offset_of!(SpaceSlot, asid);
    SLOT_KERNEL = offset_of!(SpaceSlot, kernel);
    SLOT_USER = offset_of!(SpaceSlot, user);
    SLOT_TLB_ASID = offset_of!(SpaceSlot, tlb_asid);
    SLOT_PRIVATE = offset_of!(SpaceSlot, private);
    SLOT_BYTES = size_of::<SpaceSlot>();
    SLOT_SET_BITS = SET_BITS;
    SLOT_SET_BYTES_BITS = (WAYS * size_of::<SpaceSlot>()).trailing_zeros();

    // Shadow tables: how kernel and user code are kept apart, descriptors, hints
    BY_DOMAINS = BY_DOMAINS.0;
    DACR_CLIENTS = mmu::CLIENTS;
    DACR_SHARED = BY_DOMAINS.1;
    DACR_ALWAYS = SEPARATION.host_dacr(0, View::Kernel).raw();
    USER_VIEW_DOMAIN = mmu::USER_VIEW_DOMAIN;
    DACR_PRIVILEGED_ALONE = 2 * BY_DOMAINS.2;
    DOMAIN_PRIVILEGED_ALONE = BY_DOMAINS.2 << 5;
    BAKED_FROM = SEPARATION.baked_dacr(0x5555_5555).trailing_zeros();
    SHADOW_PAGE = mmu::PAGE;
    SHADOW_PAGE_WRITABLE = mmu::PAGE_WRITABLE;
    SHADOW_PAGE_XN = mmu::PAGE_XN;
    SHADOW_SECTION_WRITABLE = mmu::SECTION_WRITABLE;
    HINT_NOWHERE = mmu::HINT_NOWHERE as i32;
    HINT_ANYWHERE = mmu::HINT_ANYWHERE as i32;
    HINT_GUARDED = mmu::HINT_GUARDED as i32;
    HINT_AND_LINEAR = mmu::HINT_AND_LINEAR;
    HINT_ALIASED = mmu::HINT_ALIASED;
    ALIASES_BYTES = mmu::ALIASES_BYTES;
    ALIASES_KNOWN = mmu::ALIASES_KNOWN;
    ALIASES_RETURNS = mmu::ALIASES_RETURNS;
    ALIASES_LOOK = mmu::ALIASES_LOOK;
    MAX_ALIASED = MAX_ALIASED;
    UNUSED = mmu::UNUSED as i32;
    PAGEWISE_FROM = PAGEWISE_FROM.0;
    NO_PAGE = NO_PAGE;
    HOST_ASID = HOST_ASID;
    REGION_MIN = REGION_MIN;
}
