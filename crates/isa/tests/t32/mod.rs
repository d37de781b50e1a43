//! T32: what must and must not be executed, chosen by hand from the manual; IT blocks; constants; the encoder.

mod blocks;
mod classes;
mod operands;

use spica_isa::t32::{Code, Decoded, ItState, Op, decode};

/// A code from its bits, as they are in `Code::bits`.
fn code(bits: u32) -> Code {
    if bits >> 16 == 0 { Code::new(bits as u16, 0) } else { Code::new((bits >> 16) as u16, bits as u16) }
}

/// Outside of an IT block.
fn outside(bits: u32) -> Decoded {
    decode(code(bits), ItState::OUTSIDE)
}

/// The A32 instruction that it is.
fn a32(bits: u32) -> spica_isa::Decoded {
    match outside(bits).op {
        Op::A32(same) => same,
        other => panic!("{bits:#x}: {other:?}"),
    }
}
