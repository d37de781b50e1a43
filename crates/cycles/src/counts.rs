//! What is counted, and which part of the time it is.

/// Defines the counts.
macro_rules! counts {
    ($($(#[$inner:meta])* $variant:ident = $key:literal, $part:ident;)*) => {
        /// Something that is counted.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Count { $($(#[$inner])* $variant,)* }

        impl Count {
            /// All, in the order in which a [`Counts`] has them.
            pub const ALL: &[Count] = &[$(Count::$variant,)*];

            /// Its name in a result file.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Count::$variant => $key,)* }
            }

            /// The part of the time that it belongs to.
            #[must_use]
            pub const fn part(self) -> Part {
                match self { $(Count::$variant => Part::$part,)* }
            }
        }
    };
}

counts! {
    /// Instructions that were begun.
    Instructions = "instructions", None;
    /// Cycles of the pipeline, if all it asks of memory and of the predictors were there at once.
    Base = "base", Base;
    /// Lines of instructions that the outer cache had.
    FetchOuter = "fetch-outer", InstructionCache;
    /// Lines of instructions that came from memory.
    FetchMemory = "fetch-memory", InstructionCache;
    /// Lines that were loaded from and that the outer cache had.
    LoadOuter = "load-outer", DataCache;
    /// Lines that were loaded from and came from memory.
    LoadMemory = "load-memory", DataCache;
    /// Lines that were stored to and that the outer cache had.
    StoreOuter = "store-outer", DataCache;
    /// Lines that were stored to and that no cache had.
    StoreMemory = "store-memory", DataCache;
    /// Loads from memory that is not cached.
    LoadUncached = "load-uncached", Devices;
    /// Stores to memory that is not cached.
    StoreUncached = "store-uncached", Devices;
    /// Loads from devices.
    LoadDevice = "load-device", Devices;
    /// Stores to devices.
    StoreDevice = "store-device", Devices;
    /// Pages of instructions that the micro TLB did not have and the main TLB had.
    FetchMainTlb = "fetch-main-tlb", InstructionTlb;
    /// Pages of data that the micro TLB did not have and the main TLB had.
    DataMainTlb = "data-main-tlb", DataTlb;
    /// Table walks for instructions.
    FetchWalk = "fetch-walk", InstructionTlb;
    /// Table walks for data.
    DataWalk = "data-walk", DataTlb;
    /// Descriptors that a walk found in the data cache.
    WalkInner = "walk-inner", Walks;
    /// Descriptors that a walk found in the outer cache.
    WalkOuter = "walk-outer", Walks;
    /// Descriptors that a walk read from memory.
    WalkMemory = "walk-memory", Walks;
    /// Direct branches that were not predicted, or wrongly.
    MissedDirect = "missed-direct", MissedDirect;
    /// Indirect branches that were not predicted, or wrongly.
    MissedIndirect = "missed-indirect", MissedIndirect;
    /// Returns that were not predicted, or wrongly.
    MissedReturn = "missed-return", MissedReturn;
    /// Exceptions that were taken.
    ExceptionEntry = "exception-entry", Exceptions;
    /// Exceptions that were returned from.
    ExceptionReturn = "exception-return", Exceptions;
    /// Changes of mode or interrupt masks: CPS, and MSR to the CPSR's byte of control.
    ModeChange = "mode-change", Exceptions;
    /// `ISB`.
    Isb = "isb", Maintenance;
    /// `DSB`.
    Dsb = "dsb", Maintenance;
    /// `DMB`.
    Dmb = "dmb", Maintenance;
    /// Writes of CONTEXTIDR, DACR, and the registers of the tables.
    ContextWrite = "context-write", Maintenance;
    /// Other writes of coprocessor registers.
    CoprocessorWrite = "coprocessor-write", Maintenance;
    /// Reads of coprocessor registers.
    CoprocessorRead = "coprocessor-read", Maintenance;
    /// Maintenance operations of TLBs.
    TlbOperation = "tlb-operation", Maintenance;
    /// Maintenance operations of a line of a cache.
    CacheLine = "cache-line", Maintenance;
    /// Invalidations of the whole instruction cache.
    InstructionCacheAll = "instruction-cache-all", Maintenance;
    /// Invalidations of branch predictors.
    PredictorFlush = "predictor-flush", Maintenance;
    /// Invalidations of a word's branch predictions.
    PredictorWord = "predictor-word", Maintenance;
    /// Steps of the flow that nothing explains, and accesses that the tables do not translate. Few, or the model is
    /// wrong.
    Lost = "lost", None;
}

/// A part of the time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// No time.
    None,
    /// The pipeline.
    Base,
    /// Misses of instructions in the first-level cache.
    InstructionCache,
    /// Misses of data in the first-level cache.
    DataCache,
    /// Misses of instructions in the TLB, without the reads of descriptors.
    InstructionTlb,
    /// Misses of data in the TLB, without the reads of descriptors.
    DataTlb,
    /// Reads of descriptors.
    Walks,
    /// Direct branches.
    MissedDirect,
    /// Indirect branches.
    MissedIndirect,
    /// Returns.
    MissedReturn,
    /// Exceptions and changes of mode.
    Exceptions,
    /// Barriers, coprocessor registers, maintenance.
    Maintenance,
    /// Devices and memory that is not cached.
    Devices,
}

impl Part {
    /// All that are time, in the order of reports.
    pub const ALL: [Part; 12] = [
        Part::Base,
        Part::InstructionCache,
        Part::DataCache,
        Part::InstructionTlb,
        Part::DataTlb,
        Part::Walks,
        Part::MissedDirect,
        Part::MissedIndirect,
        Part::MissedReturn,
        Part::Exceptions,
        Part::Maintenance,
        Part::Devices,
    ];

    /// Its name in a report.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Part::None => "none",
            Part::Base => "base",
            Part::InstructionCache => "instruction cache",
            Part::DataCache => "data cache",
            Part::InstructionTlb => "instruction TLB",
            Part::DataTlb => "data TLB",
            Part::Walks => "walks",
            Part::MissedDirect => "direct branches",
            Part::MissedIndirect => "indirect branches",
            Part::MissedReturn => "returns",
            Part::Exceptions => "exceptions",
            Part::Maintenance => "barriers, CP15",
            Part::Devices => "devices",
        }
    }
}

/// A number for each [`Count`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts([u64; Counts::LENGTH]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; Counts::LENGTH])
    }
}

impl Counts {
    /// How many there are.
    pub const LENGTH: usize = Count::ALL.len();

    /// How often it was.
    #[must_use]
    pub const fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// Sets how often it was.
    pub const fn set(&mut self, count: Count, times: u64) {
        self.0[count as usize] = times;
    }

    /// Once more.
    pub const fn add(&mut self, count: Count) {
        self.0[count as usize] += 1;
    }

    /// All numbers, in the order of [`Count::ALL`].
    #[must_use]
    pub const fn numbers(&self) -> &[u64; Counts::LENGTH] {
        &self.0
    }

    /// Counts of numbers in the order of [`Count::ALL`].
    #[must_use]
    pub const fn of(numbers: [u64; Counts::LENGTH]) -> Counts {
        Counts(numbers)
    }

    /// What there is more than in `before`.
    #[must_use]
    pub fn since(&self, before: &Counts) -> Counts {
        Counts(std::array::from_fn(|at| self.0[at].saturating_sub(before.0[at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_count_has_a_key_and_a_place() {
        let keys: BTreeSet<_> = Count::ALL.iter().map(|c| c.key()).collect();
        assert_eq!(keys.len(), Counts::LENGTH);
        let mut counts = Counts::default();
        Count::ALL.iter().enumerate().for_each(|(at, c)| counts.set(*c, at as u64));
        assert!(counts.numbers().iter().enumerate().all(|(at, n)| *n == at as u64));
        assert_eq!(counts.since(&counts), Counts::default());
    }

    #[test]
    fn every_part_has_counts() {
        for part in Part::ALL {
            assert!(Count::ALL.iter().any(|c| c.part() == part), "{}", part.label());
        }
    }
}
