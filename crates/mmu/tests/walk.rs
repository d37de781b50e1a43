//! The walker and the fault registers, against the manual's words; `spica prove --part mmu-walk` has random tables.

use spica_addr::{GuestPa, GuestVa};
use spica_mmu::{Access, AccessKind, Fault, FaultKind, Regime, translate};
use spica_prove::mmu::model::Memory;

const RAM: u32 = 0x4000_0000;
const RAM_BYTES: u32 = 0x20_0000;

#[test]
fn faults_without_a_descriptor_have_no_domain() {
    for (kind, status) in [(FaultKind::Alignment, 0b00001), (FaultKind::Debug, 0b00010), (FaultKind::External, 0b01000)]
    {
        let fault = Fault { domain: 7, ..Fault::without_descriptor(kind) };
        assert_eq!(fault.fsr(false), status);
        assert_eq!(fault.fsr(true), status | 1 << 11);
        assert_eq!(fault.ifsr(), status);
    }
}

#[test]
fn a_supersection_ignores_the_domain_field_and_its_extended_base() {
    let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
    // Domain field and PA[35:32] all ones; AP = 0b11, nG = 0.
    memory.write(RAM + 0x123 * 4, 0x80f0_0000 | 1 << 18 | 0b1111 << 5 | 0b11 << 10 | 0b10);
    let r = Regime { sctlr: 1, ttbr0: RAM, dacr: 0b01, ..Regime::default() };
    let mapping = translate(&memory, &r, GuestVa(0x1234_5678), Access { kind: AccessKind::Write, privileged: false });
    assert_eq!(mapping.map(|m| (m.pa, m.domain)), Ok((GuestPa(0x8034_5678), 0)));
}

#[test]
fn access_flag_comes_before_domain_and_domain_before_permission() {
    let mut memory = Memory { ram: vec![(RAM, RAM_BYTES)], ..Memory::default() };
    memory.write(RAM, RAM | 0b10 | 3 << 5);
    let mut r = Regime { sctlr: 1 | 1 << 29, ttbr0: RAM, ..Regime::default() };
    let read = Access { kind: AccessKind::Read, privileged: false };
    let kind = |memory: &Memory, r: &Regime| translate(memory, r, GuestVa(0), read).unwrap_err().kind;
    assert_eq!(kind(&memory, &r), FaultKind::AccessFlag);
    memory.write(RAM, RAM | 0b10 | 3 << 5 | 1 << 10);
    assert_eq!(kind(&memory, &r), FaultKind::Domain);
    r.dacr = 0b01 << 6;
    assert_eq!(kind(&memory, &r), FaultKind::Permission);
    r.dacr = 0b11 << 6;
    assert!(translate(&memory, &r, GuestVa(0), read).is_ok());
}
