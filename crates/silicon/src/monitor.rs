//! The local monitor of exclusive accesses, as the loosest core has it.
//!
//! QEMU's store-exclusive fails unless the address is that of the last load-exclusive. A core's monitor need not look
//! at the address (A3.4.1, A3.4.5): a thread's store may pair with the load of the thread that ran before it. So
//! whoever switches threads clears the monitor. Linux does it by a store-exclusive of its own, below its stack, and
//! looks at no result. So a store that pairs wrongly is a complaint only if its result is looked at.

/// How many instructions a result is waited for to be looked at.
const PATIENCE: u8 = 12;

/// What is wrong with a store-exclusive, if its result is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// The store's instruction, and its address.
    pub pc: u32,
    /// See `pc`.
    pub address: u32,
    /// The address of the load that it might pair with.
    pub loaded: u32,
    status: u8,
    left: u8,
}

/// The monitor: if a load-exclusive was the last, its address and ASID.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monitor {
    loaded: Option<(u32, u8)>,
    wrong: Option<Wrong>,
}

impl Monitor {
    /// A load-exclusive.
    pub fn load(&mut self, address: u32, asid: u8) {
        self.loaded = Some((address, asid));
    }

    /// A store-exclusive, which may fail.
    pub fn store(&mut self, pc: u32, address: u32, asid: u8, status: u8) {
        if let Some((loaded, of)) = self.loaded.take()
            && (loaded, of) != (address, asid)
        {
            self.wrong = Some(Wrong { pc, address, loaded, status, left: PATIENCE });
        }
    }

    /// CLREX.
    pub fn clear(&mut self) {
        self.loaded = None;
    }

    /// An instruction reads and writes these registers. Gives what is wrong, if it looks at a result that may be.
    #[inline]
    pub fn step(&mut self, reads: u32, writes: u32) -> Option<Wrong> {
        let wrong = self.wrong.as_mut()?;
        let bit = 1 << wrong.status;
        if reads & bit != 0 {
            return self.wrong.take();
        }
        wrong.left -= 1;
        if writes & bit != 0 || wrong.left == 0 {
            self.wrong = None;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_right() {
        let mut monitor = Monitor::default();
        monitor.load(0x1000, 1);
        monitor.store(0x8000, 0x1000, 1, 3);
        assert_eq!(monitor.step(8, 0), None);
        // Without a load, a store fails on any core.
        monitor.store(0x8000, 0x2000, 1, 3);
        assert_eq!(monitor.step(8, 0), None);
    }

    #[test]
    fn a_wrong_pair_counts_if_its_result_does() {
        for (address, asid) in [(0x2000, 1), (0x1000, 2)] {
            let mut monitor = Monitor::default();
            monitor.load(0x1000, 1);
            monitor.store(0x8000, address, asid, 3);
            assert_eq!(monitor.step(4, 4), None);
            let wrong = monitor.step(8, 0).unwrap();
            assert_eq!((wrong.pc, wrong.address, wrong.loaded), (0x8000, address, 0x1000));
            assert_eq!(monitor.step(8, 0), None);
            // Overwritten, or not looked at for long.
            monitor.load(0x1000, 1);
            monitor.store(0x8000, address, asid, 3);
            assert_eq!((monitor.step(0, 8), monitor.step(8, 0)), (None, None));
            monitor.load(0x1000, 1);
            monitor.store(0x8000, address, asid, 3);
            (0..PATIENCE).for_each(|_| assert_eq!(monitor.step(0, 0), None));
            assert_eq!(monitor.step(8, 0), None);
        }
    }

    #[test]
    fn clearing_helps() {
        let mut monitor = Monitor::default();
        monitor.load(0x1000, 1);
        monitor.clear();
        monitor.store(0x8000, 0x2000, 1, 3);
        assert_eq!(monitor.step(8, 0), None);
    }
}
