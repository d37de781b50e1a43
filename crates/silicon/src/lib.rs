//! Finds code that relies on what a real core need not give, and an emulator does.
//!
//! QEMU has no caches and executes one instruction after the other. A Cortex-A8 or A9 may hold an instruction that has
//! been overwritten, a translation that has been changed, a register of CP15 as it was a moment ago, until software
//! does what the architecture asks for. Code that forgets it runs on the emulator and fails on silicon, now and then.
//!
//! [`Checker`] is told what an emulator executes: each instruction, and each access that succeeded. It keeps what the
//! core **may** still hold, for as long as the manual lets it, and complains where what was done differs from what the
//! core might have done instead. Nothing is ever evicted: that is what makes rare failures certain here.
//!
//! | class | rule | ARM ARM |
//! |---|---|---|
//! | [`Class::CodeNotCleaned`] and the five below it | a word that was written is executed: clean to the point of unification, DSB, invalidate, (predictor,) DSB, ISB | A3.5.4, B2.2.7 to B2.2.9 |
//! | [`Class::StaleAddress`], [`Class::StaleAttributes`], [`Class::StaleRights`] | a translation that was used and changed since: TLB maintenance behind what makes the change visible to walks, DSB, ISB | B3.10.1 |
//! | [`Class::StaleAllows`] | a fault that an older translation, still allowed, would not raise | B3.10.1 |
//! | [`Class::Overlap`] | translations of several sizes for one address at once | B3.10.1 |
//! | [`Class::TableNotSeen`], [`Class::TableNotSeenFault`] | a descriptor that was written is needed: (clean to the point of unification,) DSB | B3.10.1 |
//! | [`Class::MixedSpaces`] | translations of two tables may be remembered under one ASID | B3.10.4 |
//! | [`Class::ContextAddress`], [`Class::ContextRights`] | SCTLR, TTBRs, TTBCR, CONTEXTIDR, DACR, PRRR, NMRR were written, and what follows would differ without it: ISB, or exception entry or return | B3.15.5 |
//! | [`Class::ContextVectors`] | the same of VBAR and SCTLR.V, when an exception is taken | B3.15.5 |
//! | [`Class::ContextFloat`] | the same of CPACR, when VFP or Advanced SIMD is used | B3.15.5 |
//! | [`Class::TranslationNotSynchronised`] | PAR is read: ISB behind the translation | B3.15.5, B4.2.4 |
//! | [`Class::Exclusive`] | a store-exclusive that only its address or address space keeps from pairing with another thread's load, and whose result is looked at: CLREX at switches | A3.4.5 |
//!
//! Each module is a small state machine for one of them: [`code`], [`tlb`], [`spaces`], [`tables`], [`monitor`].
//! [`checker`] feeds them; [`complaint`] collects what they find, by class and place, bounded.
//!
//! **Differences, not rituals.** Where it can, the crate compares results: a write of TTBR0 without ISB is no complaint
//! as long as all that is executed is mapped alike before and behind it. So a kernel that is right is quiet, however it
//! goes about it.
//!
//! What is not checked: what a core may hold that was never used (speculative fetches and walks, but for
//! [`spaces`]), intermediate levels of walks, cache maintenance for devices that access memory themselves, mismatched
//! attributes of aliases, FPEXC (VMSR is serialising), maintenance that is meant for instructions or data only (it
//! counts for both), what several processors owe each other.

#![forbid(unsafe_code)]

pub mod checker;
pub mod code;
pub mod complaint;
mod hash;
pub mod monitor;
pub mod operation;
pub mod spaces;
pub mod tables;
pub mod tlb;

pub use checker::{Checker, Context, Faults, Machine, Step};
pub use complaint::{Class, Complaint, Report};
