//! What a record says.

/// A record. What `detail`, `length` and `argument` are is said at each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// The host's clock, its low half: when it happened, or began.
    pub time: u32,
    /// What happened: a constant of this module.
    pub kind: u8,
    /// The guest's number, or [`NOBODY`].
    pub guest: u8,
    /// More of what happened.
    pub detail: u16,
    /// How long it took, in ticks of the host's clock; of what takes no time, something else.
    pub length: u32,
    /// An address, a value, or a number.
    pub argument: u32,
}

impl Record {
    /// Its four words.
    #[must_use]
    pub const fn words(&self) -> [u32; 4] {
        let what = self.kind as u32 | (self.guest as u32) << 8 | (self.detail as u32) << 16;
        [self.time, what, self.length, self.argument]
    }

    /// A record of four words.
    #[must_use]
    pub const fn of_words([time, what, length, argument]: [u32; 4]) -> Record {
        Record { time, kind: what as u8, guest: (what >> 8) as u8, detail: (what >> 16) as u16, length, argument }
    }

    /// That so many were lost before `time`, which is near `near`.
    #[must_use]
    pub(crate) const fn lost(count: u32, time: u32, near: u64) -> Record {
        let length = (near >> NEAR_SHIFT) as u32;
        Record { time, kind: LOST, guest: NOBODY, detail: 0, length, argument: count }
    }

    /// Its time in 64 bits, if `before` is that of the record before.
    ///
    /// From one record to the next it is less than half a turn of 32 bits: whoever writes sees to that. Where some were
    /// lost it may be more.
    pub(crate) const fn whole_time(&self, before: u64) -> u64 {
        let near = if self.kind == LOST { (self.length as u64) << NEAR_SHIFT } else { before };
        near.wrapping_add_signed(self.time.wrapping_sub(near as u32).cast_signed() as i64)
    }
}

/// For [`Record::guest`]: none.
pub const NOBODY: u8 = 0xff;

/// A guest had the processor, for `length`. `detail`: why it had it no longer, a number of [`mod@turn`].
pub const TURN: u8 = 1;
/// No guest wanted the processor, which slept for `length`.
pub const IDLE: u8 = 2;
/// The translator made `detail` blocks in `length`; `argument`: the guest's address that was looked for.
pub const TRANSLATION: u8 = 3;
/// A virtual interrupt, whose number is `argument`. `detail`: how far it is, a number of [`mod@interrupt`].
pub const INTERRUPT: u8 = 4;
/// A system call of user code. `argument`: R7, the call's number in Linux; `length`: the caller's address.
pub const SYSTEM_CALL: u8 = 5;
/// The kernel returns to user code. `length`: its SP; `argument`: where to.
pub const EXCEPTION_RETURN: u8 = 6;
/// The guest wrote TTBR0: `argument`.
pub const TTBR0: u8 = 7;
/// A trap that Rust answered, in `length`: added to the number of its class, [`mod@class`]. `detail`: see
/// [`mod@trap`].
pub const TRAP: u8 = 8;
/// The guest wrote CONTEXTIDR: `argument`.
pub const CONTEXTIDR: u8 = 16;
/// A data abort of user code, on its way to the handler in assembly. `argument`: the address; `length`: DFSR.
pub const USER_DATA_ABORT: u8 = 17;
/// The same of a prefetch abort; `length`: IFSR.
pub const USER_PREFETCH_ABORT: u8 = 18;
/// Virtio devices worked for `length`.
pub const VIRTIO: u8 = 19;
/// So many records were lost, before this one: `argument`. `length`: bits 47:16 of the host's clock not long before.
pub const LOST: u8 = 20;
/// See there.
const NEAR_SHIFT: u32 = 16;
/// Since its last record, the kernel has another value in TPIDRURO: `argument`. In Linux, that is the task that runs
/// (CONFIG_CURRENT_POINTER_IN_TPIDRURO). `length`: its SP.
pub const TASK: u8 = 21;
/// What a system call has in R0 and R1, behind its [`SYSTEM_CALL`], where calls are recorded with all that they say:
/// `length` and `argument`. In this order, [`CALL_R2`] with R2 and R3, [`CALL_R4`], and [`CALL_R6`] with R6 alone
/// follow.
pub const CALL_R0: u8 = 22;
/// See [`CALL_R0`].
pub const CALL_R2: u8 = 23;
/// See [`CALL_R0`].
pub const CALL_R4: u8 = 24;
/// See [`CALL_R0`].
pub const CALL_R6: u8 = 25;
/// What the kernel returns to user code with in R0 and R1, behind the [`EXCEPTION_RETURN`]: `length` and `argument`.
pub const RETURN_R0: u8 = 26;
/// How many kinds can be told apart on the wire.
pub const KINDS: u8 = 32;

/// Why a guest had the processor no longer.
pub mod turn {
    /// The scheduler had something else to see to.
    pub const YIELD: u16 = 0;
    /// It waits for an interrupt.
    pub const WAIT: u16 = 1;
    /// It stopped.
    pub const STOP: u16 = 2;
}

/// How far an interrupt is.
pub mod interrupt {
    /// The interrupt controller has raised the processor's IRQ line for it.
    pub const RAISED: u16 = 0;
    /// The processor has taken the exception. `argument` is the interrupt that is signalled then.
    pub const TAKEN: u16 = 1;
    /// The guest has read its number (GICC_IAR).
    pub const ACKNOWLEDGED: u16 = 2;
    /// The guest has ended it (GICC_EOIR).
    pub const ENDED: u16 = 3;
    /// The line is low again, though nobody has acknowledged it.
    pub const LOWERED: u16 = 4;
}

/// The classes of traps: the numbers of the exceptions' vectors.
pub mod class {
    /// Undefined Instruction; `argument`: the address behind it, in the code cache for kernel code.
    pub const UNDEFINED: u8 = 1;
    /// Supervisor Call. Of user code, `argument` is R7. Of translated code, `detail` has what it is for, a number of
    /// `spica_dbt::trap`, and `argument` the instruction that is emulated or the address that is branched to.
    pub const SUPERVISOR_CALL: u8 = 2;
    /// Prefetch Abort; `argument`: the address.
    pub const PREFETCH_ABORT: u8 = 3;
    /// Data Abort; `argument`: the address, or the physical one of a device.
    pub const DATA_ABORT: u8 = 4;
    /// IRQ of the host.
    pub const IRQ: u8 = 6;
    /// FIQ of the host.
    pub const FIQ: u8 = 7;
}

/// Bits of [`Record::detail`] of a trap.
pub mod trap {
    /// What an SVC of translated code is for.
    pub const NUMBER: u16 = 0x1f;
    /// It is one of user code.
    pub const FROM_USER: u16 = 1 << 5;
    /// User code goes on behind it.
    pub const TO_USER: u16 = 1 << 6;
    /// The guest's turn ended with it.
    pub const LAST: u16 = 1 << 7;
    /// Something was missing in the shadow tables.
    pub const SHADOW_FAULT: u16 = 1 << 8;
    /// The guest took an abort.
    pub const GUEST_ABORT: u16 = 1 << 9;
    /// A device was accessed.
    pub const DEVICE: u16 = 1 << 10;
    /// The access was a write.
    pub const WRITE: u16 = 1 << 11;
    /// Code was written to.
    pub const CODE_WRITE: u16 = 1 << 12;
    /// Blocks were translated.
    pub const TRANSLATED: u16 = 1 << 13;
    /// All translations were dropped.
    pub const FLUSHED: u16 = 1 << 14;
    /// It is one of the guest's kernel at its own address: an SVC stands for another instruction, which is executed for
    /// the first time, and what is undefined is the argument.
    pub const IN_PLACE: u16 = 1 << 15;
}
