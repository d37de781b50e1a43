//! Guests whose kernels run by translated blocks. All other tests have Debian's in place (docs/in-place.md), where they
//! do not say otherwise.

use spica_tests::{Machine, debian_boots, transcript_with};

const BLOCKS: &str = "spica.engine=blocks";

#[test]
fn debian() {
    debian_boots(BLOCKS);
}

/// All that is checked of a Debian, modules, their relocation, and tracing of the kernel's functions included.
fn all_checks(machine: Machine) {
    let transcript = transcript_with(machine, "checks.sh", BLOCKS);
    assert_eq!(transcript.error, None);
    assert!(transcript.sections.len() > 30, "{} checks", transcript.sections.len());
    let failed: Vec<_> = transcript.sections.iter().filter(|(_, section)| section.status != Some(0)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
#[ignore = "all checks of the guest once more: two minutes"]
fn all_checks_on_cubieboard() {
    all_checks(Machine::Cubieboard);
}

#[test]
#[ignore = "all checks of the guest once more: two minutes"]
fn all_checks_on_vexpress_a9() {
    all_checks(Machine::VexpressA9);
}
