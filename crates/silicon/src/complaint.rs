//! What was found: complaints by class and place, bounded, and their form as text.

use std::fmt;

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// An instruction that was written is executed, and was not cleaned from the data cache.
    CodeNotCleaned,
    /// … cleaned, but no DSB followed.
    CodeNotSettled,
    /// … cleaned, but the instruction cache was not invalidated behind it; or at another address only, which may
    /// choose another set.
    CodeNotInvalidated,
    /// … invalidated, but no DSB followed.
    CodeInvalidationNotSettled,
    /// … all that, but neither ISB nor exception entry or return followed.
    CodeNotSynchronised,
    /// … all that, but the branch predictor was not invalidated, where the core needs it (ID_MMFR1).
    PredictorNotInvalidated,
    /// The TLB may have another physical address.
    StaleAddress,
    /// The TLB may have other attributes: cached or not, device or memory.
    StaleAttributes,
    /// The TLB may refuse what the tables allow.
    StaleRights,
    /// The TLB may allow what the tables refuse, be it that there was a fault or not.
    StaleAllows,
    /// The TLB may have translations of several sizes.
    Overlap,
    /// The walk may read a descriptor as it was, which led somewhere.
    TableNotSeen,
    /// The walk may read a descriptor as it was, which leads to a fault that need not be.
    TableNotSeenFault,
    /// The ASID may have translations from several tables.
    MixedSpaces,
    /// A register of translation was written, and the old value leads elsewhere.
    ContextAddress,
    /// A register of translation was written, and the old value refuses what is done, or allows what is refused.
    ContextRights,
    /// VBAR or SCTLR.V was written, and an exception is taken.
    ContextVectors,
    /// CPACR was written, and the old value makes an instruction undefined.
    ContextFloat,
    /// PAR is read, and may be what it was before the translation.
    TranslationNotSynchronised,
    /// A store-exclusive might pair with a load-exclusive of something else.
    Exclusive,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 20] = [
        Class::CodeNotCleaned,
        Class::CodeNotSettled,
        Class::CodeNotInvalidated,
        Class::CodeInvalidationNotSettled,
        Class::CodeNotSynchronised,
        Class::PredictorNotInvalidated,
        Class::StaleAddress,
        Class::StaleAttributes,
        Class::StaleRights,
        Class::StaleAllows,
        Class::Overlap,
        Class::TableNotSeen,
        Class::TableNotSeenFault,
        Class::MixedSpaces,
        Class::ContextAddress,
        Class::ContextRights,
        Class::ContextVectors,
        Class::ContextFloat,
        Class::TranslationNotSynchronised,
        Class::Exclusive,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Class::CodeNotCleaned => "code-not-cleaned",
            Class::CodeNotSettled => "code-not-settled",
            Class::CodeNotInvalidated => "code-not-invalidated",
            Class::CodeInvalidationNotSettled => "code-invalidation-not-settled",
            Class::CodeNotSynchronised => "code-not-synchronised",
            Class::PredictorNotInvalidated => "predictor-not-invalidated",
            Class::StaleAddress => "stale-address",
            Class::StaleAttributes => "stale-attributes",
            Class::StaleRights => "stale-rights",
            Class::StaleAllows => "stale-allows",
            Class::Overlap => "overlap",
            Class::TableNotSeen => "table-not-seen",
            Class::TableNotSeenFault => "table-not-seen-fault",
            Class::MixedSpaces => "mixed-spaces",
            Class::ContextAddress => "context-address",
            Class::ContextRights => "context-rights",
            Class::ContextVectors => "context-vectors",
            Class::ContextFloat => "context-float",
            Class::TranslationNotSynchronised => "translation-not-synchronised",
            Class::Exclusive => "exclusive",
        }
    }

    /// The class of this [`Class::key`].
    #[must_use]
    pub fn from_key(key: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.key() == key)
    }

    /// What is wrong, in a few words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Class::CodeNotCleaned => "executes a word that was written and not cleaned from the data cache",
            Class::CodeNotSettled => "executes a word that was written and cleaned, without a DSB behind the cleaning",
            Class::CodeNotInvalidated => {
                "executes a word that was written and cleaned, and not invalidated in the instruction cache at this address"
            }
            Class::CodeInvalidationNotSettled => {
                "executes a word that was written, cleaned and invalidated, without a DSB behind the invalidation"
            }
            Class::CodeNotSynchronised => {
                "executes a word that was written, cleaned and invalidated, without an ISB or exception behind it"
            }
            Class::PredictorNotInvalidated => "executes a word that was written, without predictor maintenance",
            Class::StaleAddress => "uses a translation; the TLB may hold another address for it",
            Class::StaleAttributes => "uses a translation; the TLB may hold other attributes for it",
            Class::StaleRights => "uses a translation; the TLB may hold one that refuses it",
            Class::StaleAllows => "is refused by the tables; an entry that the TLB may hold allows it",
            Class::Overlap => "uses a translation; the TLB may hold one of another size beside it",
            Class::TableNotSeen => "uses a descriptor that a walk may not see yet; the older one leads elsewhere",
            Class::TableNotSeenFault => "uses a descriptor that a walk may not see yet; the older one faults",
            Class::MixedSpaces => "uses a translation; another table may have been walked for the same ASID",
            Class::ContextAddress => "relies on a translation register that was written, without ISB or exception",
            Class::ContextRights => {
                "relies on what a register allows or refuses that was written, without ISB or exception"
            }
            Class::ContextVectors => "takes an exception by vectors that were set without ISB",
            Class::ContextFloat => "uses VFP, which CPACR was written for, without ISB or exception",
            Class::TranslationNotSynchronised => "reads PAR, without ISB behind the translation that writes it",
            Class::Exclusive => {
                "looks at the result of a store-exclusive; the monitor may have another one's load, without CLREX"
            }
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// What was found in one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Complaint {
    /// What is wrong.
    pub class: Class,
    /// The instruction's address.
    pub pc: u32,
    /// Whether it was in User mode.
    pub user: bool,
    /// How often it was found.
    pub count: u64,
    /// The first time: the address that was accessed, fetched or executed, and where it leads.
    pub address: u32,
    /// See `address`.
    pub physical: u32,
    /// The first time: what the class compares with. The other physical address, descriptor, table, register's write.
    pub other: u32,
    /// The first time: how many instructions were executed before.
    pub at: u64,
}

/// What was found, and how much was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// By the time of the first one; no more than [`Report::MOST`].
    pub complaints: Vec<Complaint>,
    /// How many there were in places that did not fit.
    pub more: u64,
    /// Instructions.
    pub instructions: u64,
    /// Accesses.
    pub accesses: u64,
    /// Walks of the tables: uses of a page, for the first time since something changed.
    pub walks: u64,
    /// Words that became code behind the maintenance that is due.
    pub code: u64,
    /// Translations that were invalidated.
    pub invalidated: u64,
}

impl Report {
    /// How many places are kept.
    pub const MOST: usize = 200;

    /// Notes that something was found. Says whether it was in a new place.
    pub fn add(&mut self, new: Complaint) -> bool {
        let same = |c: &&mut Complaint| c.class == new.class && c.pc == new.pc && c.user == new.user;
        if let Some(old) = self.complaints.iter_mut().find(same) {
            old.count += 1;
            return false;
        }
        if self.complaints.len() == Self::MOST {
            self.more += 1;
            return false;
        }
        self.complaints.push(new);
        true
    }

    /// As text, a line for each complaint behind one with the sums.
    #[must_use]
    pub fn text(&self) -> String {
        let Report { instructions, accesses, walks, code, invalidated, more, complaints } = self;
        let mut text = format!("silicon {instructions} {accesses} {walks} {code} {invalidated} {more}\n");
        for c in complaints {
            let Complaint { class, pc, count, address, physical, other, at, .. } = c;
            let mode = if c.user { "user" } else { "privileged" };
            text += &format!("{class} {pc:08x} {mode} {count} {address:08x} {physical:08x} {other:08x} {at}\n");
        }
        text.push_str("end\n");
        text
    }

    /// Out of [`Report::text`]; nothing if it is none, or not all of one.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Report> {
        let mut lines = text.strip_suffix("end\n")?.lines();
        let mut sums = lines.next()?.strip_prefix("silicon ")?.split(' ').map(str::parse);
        let mut sum = || sums.next()?.ok();
        let (instructions, accesses, walks, code, invalidated, more) = (sum()?, sum()?, sum()?, sum()?, sum()?, sum()?);
        let complaint = |line: &str| {
            let words: [&str; 8] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
            let [class, pc, mode, count, address, physical, other, at] = words;
            let hex = |text| u32::from_str_radix(text, 16).ok();
            Some(Complaint {
                class: Class::from_key(class)?,
                pc: hex(pc)?,
                user: mode == "user",
                count: count.parse().ok()?,
                address: hex(address)?,
                physical: hex(physical)?,
                other: hex(other)?,
                at: at.parse().ok()?,
            })
        };
        let complaints = lines.map(complaint).collect::<Option<_>>()?;
        Some(Report { complaints, more, instructions, accesses, walks, code, invalidated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(pc: u32) -> Complaint {
        Complaint { class: Class::Overlap, pc, user: false, count: 1, address: 1, physical: 2, other: 3, at: 4 }
    }

    #[test]
    fn keys_are_of_one_class() {
        for class in Class::ALL {
            assert_eq!(Class::from_key(class.key()), Some(class));
        }
        assert_eq!(Class::from_key("nothing"), None);
    }

    #[test]
    fn places_are_counted_and_bounded() {
        let mut report = Report::default();
        assert!(report.add(complaint(0)) && !report.add(complaint(0)));
        for pc in 0..1000 {
            report.add(complaint(pc));
        }
        assert_eq!((report.complaints.len(), report.complaints[0].count), (Report::MOST, 3));
        assert_eq!(report.more, 1000 - Report::MOST as u64);
    }

    #[test]
    fn text_and_back() {
        let mut report = Report { instructions: 7, walks: 1 << 40, ..Report::default() };
        report.add(complaint(0xf600_0000));
        report.add(Complaint { class: Class::CodeNotCleaned, user: true, ..complaint(0x8000) });
        let text = report.text();
        assert_eq!(Report::of_text(&text), Some(report));
        assert_eq!(Report::of_text(&text[..text.len() - 4]), None);
        assert_eq!(Report::of_text(""), None);
    }
}
