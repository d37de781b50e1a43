//! The tests of this crate in one program: each program more would be linked with all of it again.

mod ring;
mod wire;

use spica_trace_ring::Record;

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// One of few bits as often as one of many.
    fn number(&mut self) -> u32 {
        let bits = self.next() % 33;
        if bits == 0 { 0 } else { (self.next() << 1 | 1) >> (32 - bits) }
    }

    fn record(&mut self, time: u32) -> Record {
        Record {
            time,
            kind: (self.next() % 19) as u8,
            guest: if self.next().is_multiple_of(4) { (self.next() % 16) as u8 } else { 3 },
            detail: self.number() as u16,
            length: self.number(),
            argument: self.number(),
        }
    }
}
