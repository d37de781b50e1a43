//! Program status registers: their bits and the processor modes (B1.3.1, B1.3.3).

/// Negative, Zero, Carry, oVerflow, and Q.
pub const NZCVQ: u32 = 0xf800_0000;
/// `IT[1:0]` in bits 26:25 and `IT[7:2]` in bits 15:10.
pub const IT: u32 = 0x0600_fc00;
/// Jazelle state.
pub const J: u32 = 1 << 24;
/// Greater-than-or-equal flags of the parallel arithmetic instructions.
pub const GE: u32 = 0x000f_0000;
/// Big-endian data.
pub const E: u32 = 1 << 9;
/// Asynchronous abort mask.
pub const A: u32 = 1 << 8;
/// IRQ mask.
pub const I: u32 = 1 << 7;
/// FIQ mask.
pub const F: u32 = 1 << 6;
/// Thumb state.
pub const T: u32 = 1 << 5;
/// The mode field.
pub const MODE: u32 = 0x1f;

/// The bits that unprivileged code can see and change, and that the real CPSR may hold for a guest. J is not among
/// them: Jazelle state is never entered.
pub const USER_BITS: u32 = NZCVQ | IT | GE | E | T;

/// What an exception return to the guest may put into the real CPSR, whatever `psr` says: user bits, IT only in Thumb
/// state, User mode, no masks (the trust rule).
#[must_use]
pub const fn sanitize(psr: u32) -> u32 {
    let keep = if psr & T != 0 { USER_BITS } else { USER_BITS & !IT };
    psr & keep | Mode::Usr as u32
}

/// A processor mode that exists for a guest (B1.3.1; no Monitor and no Hyp mode).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum Mode {
    Usr = 0x10,
    Fiq = 0x11,
    Irq = 0x12,
    Svc = 0x13,
    Abt = 0x17,
    Und = 0x1b,
    Sys = 0x1f,
}

impl Mode {
    /// The mode of a PSR's mode field, if it is one that exists.
    #[must_use]
    pub const fn from_bits(psr: u32) -> Option<Mode> {
        Some(match psr & MODE {
            0x10 => Mode::Usr,
            0x11 => Mode::Fiq,
            0x12 => Mode::Irq,
            0x13 => Mode::Svc,
            0x17 => Mode::Abt,
            0x1b => Mode::Und,
            0x1f => Mode::Sys,
            _ => return None,
        })
    }
}

/// The PSR after an instruction of an IT block, or `psr` outside of one (`ITAdvance`, A2.5.2).
#[must_use]
pub const fn advance_it(psr: u32) -> u32 {
    let it = psr >> 25 & 3 | psr >> 8 & 0xfc;
    let next = if it & 7 == 0 { 0 } else { it & 0xe0 | it << 1 & 0x1f };
    psr & !IT | (next & 3) << 25 | (next & 0xfc) << 8
}
