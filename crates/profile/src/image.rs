//! What Spica's own code is for: from a symbol of the image to a row of the table.
//!
//! Assembly has a label for each thing that it answers; the table below names them, and says which are entered. A Rust function
//! is told by its path: crate and module say what it belongs to. The compiler inlines across crates, so what a small function costs
//! is found where it is called: this is self time of what is left as functions.

use std::ops::Range;

use rustc_demangle::demangle;

use crate::profile::Section;

/// Labels of `crates/hypervisor/src/world`, with the row that they belong to. Where a handler is entered, `true`: executions of
/// that word are how often.
const LABELS: &[(&str, Section, &str, bool)] = &[
    ("world_kernel_vectors", Section::Fast, VECTORS, false),
    ("world_user_vectors", Section::Fast, VECTORS, false),
    ("user_supervisor_call", Section::Fast, "system calls of user code", true),
    ("kernel_supervisor_call", Section::Fast, "dispatch of traps of kernel code", true),
    ("long_way", Section::Fast, "dispatch of traps of kernel code", false),
    ("indirect", Section::Fast, "indirect branches by the jump cache", true),
    ("domain_access", Section::Fast, "DACR", true),
    ("context_id", Section::Fast, "switches of address spaces", true),
    ("table_base", Section::Fast, "switches of address spaces", true),
    ("counter", Section::Fast, "the timer's counter", true),
    ("exception_return", Section::Fast, "exception returns", true),
    ("refreshed", Section::Fast, "exception returns", false),
    ("not_at_once", Section::Fast, "exception returns", false),
    ("return_to_kernel", Section::Fast, "exception returns", false),
    ("forget_page", Section::Fast, "maintenance of a TLB entry", true),
    ("forget_range", Section::Fast, "maintenance of a TLB entry", true),
    ("range_of_kernel", Section::Fast, "maintenance of a TLB entry", false),
    ("tables_found", Section::Fast, "maintenance of a TLB entry", false),
    ("nothing_there", Section::Fast, "maintenance of a TLB entry", false),
    ("in_kernel_range", Section::Fast, "maintenance of a TLB entry", false),
    ("forget_entries", Section::Fast, "maintenance of a TLB entry", false),
    ("find_tables", Section::Fast, "maintenance of a TLB entry", false),
    ("unprivileged_load", Section::Fast, "unprivileged accesses", true),
    ("unprivileged_store", Section::Fast, "unprivileged accesses", true),
    ("answer_data_abort", Section::Fast, DATA, true),
    ("data_abort_home", Section::Fast, DATA, false),
    ("data_abort_unanswered", Section::Fast, DATA, false),
    ("data_abort_no_table", Section::Fast, DATA, false),
    ("data_abort_no_page", Section::Fast, DATA, false),
    ("data_abort_no_permission", Section::Fast, DATA, false),
    ("world_deliver_data_abort", Section::Fast, "data aborts that the guest takes", true),
    ("answer_prefetch_abort", Section::Fast, FETCH, true),
    ("prefetch_abort_home", Section::Fast, FETCH, false),
    ("prefetch_abort_unanswered", Section::Fast, FETCH, false),
    ("prefetch_abort_no_table", Section::Fast, FETCH, false),
    ("prefetch_abort_no_page", Section::Fast, FETCH, false),
    ("prefetch_abort_no_permission", Section::Fast, FETCH, false),
    ("world_deliver_prefetch_abort", Section::Fast, "prefetch aborts that the guest takes", true),
    ("turn_vfp_off", Section::Fast, VFP, true),
    ("answer_kernel_undefined", Section::Fast, VFP, false),
    ("answer_user_undefined", Section::Fast, VFP, true),
    ("kernel_undefined", Section::Slow, "to Rust: undefined instruction of kernel code", true),
    ("kernel_undefined_vector", Section::Slow, "to Rust: undefined instruction of kernel code", false),
    ("kernel_call", Section::Slow, "to Rust: trap of kernel code", true),
    ("kernel_prefetch_abort", Section::Slow, "to Rust: prefetch abort of kernel code", true),
    ("kernel_data_abort", Section::Slow, "to Rust: data abort of kernel code", true),
    ("kernel_irq", Section::Slow, "to Rust: interrupt of kernel code", true),
    ("user_undefined", Section::Slow, "to Rust: undefined instruction of user code", true),
    ("user_call", Section::Slow, "to Rust: system call of user code", true),
    ("user_prefetch_abort", Section::Slow, "to Rust: prefetch abort of user code", true),
    ("user_data_abort", Section::Slow, "to Rust: data abort of user code", true),
    ("user_irq", Section::Slow, "to Rust: interrupt of user code", true),
    ("world_leave", Section::Slow, "to Rust and back", false),
    ("world_enter", Section::Slow, "to Rust and back", true),
    ("world_install", Section::Slow, "to Rust and back", false),
];
const VECTORS: &str = "vectors";
const DATA: &str = "data aborts of user code";
const VFP: &str = "VFP turned on and off";
const FETCH: &str = "prefetch aborts of user code";

/// Modules by the beginning of their path, the longer before the shorter, with what they belong to and the name of the row; the
/// row of `""` has the path's own name.
const MODULES: &[(&str, Section, &str)] = &[
    ("spica_dbt", Section::Translator, ""),
    ("spica_hypervisor::engine", Section::Translator, ""),
    ("spica_mmu", Section::Mmu, ""),
    ("spica_hypervisor::vm::tables", Section::Mmu, ""),
    ("spica_hypervisor::vm::ram", Section::Mmu, ""),
    ("spica_vcpu", Section::Slow, "spica_vcpu: the interpreter"),
    ("spica_isa", Section::Slow, "spica_isa: the decoder"),
    ("spica_hypervisor::trap", Section::Slow, ""),
    ("spica_hypervisor::world", Section::Slow, ""),
    ("spica_hypervisor::vm::devices", Section::Devices, ""),
    ("spica_hypervisor::vm::disk_room", Section::Devices, ""),
    ("spica_hypervisor::vm", Section::Slow, ""),
    ("spica_devices", Section::Devices, "spica_devices"),
    ("spica_machine", Section::Devices, "spica_machine"),
    ("spica_virtio", Section::Devices, "spica_virtio"),
    ("spica_virtio_driver", Section::Devices, "spica_virtio_driver"),
    ("spica_drivers", Section::Devices, ""),
    ("spica_hypervisor::board", Section::Devices, ""),
    ("spica_hypervisor::host_cpu", Section::Slow, ""),
    ("spica_hypervisor::host", Section::Devices, ""),
    ("spica_console", Section::Devices, "spica_console"),
    ("spica_sched", Section::Scheduler, "spica_sched"),
    ("spica_hypervisor::arch", Section::Other, ""),
    ("spica_hypervisor::guests", Section::Scheduler, ""),
    ("spica_hypervisor::memory", Section::Other, ""),
    ("compiler_builtins", Section::Other, "copies and arithmetic of the compiler's"),
    ("talc", Section::Other, "the heap"),
    ("alloc", Section::Other, "Rust's library"),
    ("core", Section::Other, "Rust's library"),
];
const START: &str = "start: bundle, device tree, boot";

/// A piece of the image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Its addresses.
    pub range: Range<u32>,
    /// Its name, for people.
    pub name: String,
    /// Where it belongs.
    pub section: Section,
    /// The row there.
    pub row: String,
    /// Executions of its first word are counted as how often.
    pub counted: bool,
}

/// The code of the image, in pieces: each of `symbols`, names as the linker has them, goes on to the next, the last to `end`.
#[must_use]
pub fn pieces<'a>(symbols: impl Iterator<Item = (u32, &'a str)>, end: u32) -> Vec<Symbol> {
    // Of names for the same place, the one that has a row.
    let known = |name: &str| LABELS.iter().any(|(label, ..)| *label == name);
    let mut all: Vec<_> = symbols.filter(|(at, name)| *at < end && !name.starts_with('$')).collect();
    all.sort_by_key(|(at, name)| (*at, !known(name), *name));
    all.dedup_by_key(|(at, _)| *at);
    let ends: Vec<_> = all.iter().skip(1).map(|(at, _)| *at).chain([end]).collect();
    all.into_iter().zip(ends).map(|((at, name), end)| symbol(at..end, name)).collect()
}

fn symbol(range: Range<u32>, name: &str) -> Symbol {
    if let Some((_, section, row, counted)) = LABELS.iter().find(|(label, ..)| *label == name) {
        return Symbol { range, name: name.into(), section: *section, row: (*row).into(), counted: *counted };
    }
    let name = format!("{:#}", demangle(name));
    let (section, row) = module(&name);
    Symbol { range, name, section, row, counted: false }
}

/// Where a function belongs, by its path.
fn module(name: &str) -> (Section, String) {
    let path = name.trim_start_matches(['<', '&', '*']).trim_start_matches("mut ").trim_start_matches("dyn ");
    let mut parts: Vec<_> = path.split("::").map(|part| part.split(['<', '>', ' ']).next().unwrap_or(part)).collect();
    // The last part is the function; of a method, the type is before it. Modules have small letters.
    parts.pop();
    let modules: Vec<_> =
        parts.iter().take_while(|p| p.starts_with(|c: char| c.is_ascii_lowercase())).copied().collect();
    let path = modules.join("::");
    let within = |module: &str| path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    match MODULES.iter().find(|(module, ..)| within(module)) {
        // As deep as a file.
        Some((_, section, "")) => {
            let short: Vec<_> = modules.iter().take(3).copied().collect();
            (*section, short.join("::").replace("spica_hypervisor::", ""))
        }
        Some((_, section, row)) => (*section, (*row).into()),
        None if name.starts_with("mem") || name.starts_with("__aeabi") => {
            (Section::Other, "copies and arithmetic of the compiler's".into())
        }
        None => (Section::Other, START.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_their_rows() {
        for (name, section, row) in [
            ("spica_hypervisor::trap::abort::data", Section::Slow, "trap::abort"),
            ("<spica_mmu::shadow::Shadow>::fill::<X>", Section::Mmu, "spica_mmu::shadow"),
            ("<spica_hypervisor::vm::tables::Tables as spica_mmu::TableMemory>::table", Section::Mmu, "vm::tables"),
            ("spica_dbt::rules::indirect::exchange", Section::Translator, "spica_dbt::rules::indirect"),
            ("<spica_dbt::cache::Translator>::link", Section::Translator, "spica_dbt::cache"),
            ("<spica_hypervisor::vm::Vm>::prepare", Section::Slow, "vm"),
            ("<&spica_hypervisor::guests::fair::Fair>::next", Section::Scheduler, "guests::fair"),
            ("<spica_virtio_driver::disk::Disk<P>>::read", Section::Devices, "spica_virtio_driver"),
            (
                "<spica_drivers::gic::Gic<spica_hypervisor::board::Machine> as spica_drivers::InterruptController>::end",
                Section::Devices,
                "spica_drivers::gic",
            ),
            ("<alloc::vec::Vec<spica_mmu::X>>::push", Section::Other, "Rust's library"),
            ("memcpy", Section::Other, "copies and arithmetic of the compiler's"),
            ("toml::parse", Section::Other, START),
            ("rust_start", Section::Other, START),
        ] {
            assert_eq!(module(name), (section, row.to_string()), "{name}");
        }
    }

    #[test]
    fn pieces_go_on_to_the_next() {
        let symbols = [(8, "indirect"), (4, "world_enter"), (4, "$a"), (4, "aaa"), (20, "_end"), (8, "zzz")];
        let pieces = pieces(symbols.into_iter(), 16);
        let short: Vec<_> = pieces.iter().map(|s| (s.range.clone(), s.name.as_str(), s.counted)).collect();
        assert_eq!(short, [(4..8, "world_enter", true), (8..16, "indirect", true)]);
    }

    #[test]
    fn labels_are_in_the_assembly() {
        let sources = [
            include_str!("../../hypervisor/src/world/switch.s"),
            include_str!("../../hypervisor/src/world/fast.s"),
            include_str!("../../hypervisor/src/world/faults.s"),
            include_str!("../../hypervisor/src/world/undefined.s"),
        ];
        for (label, ..) in LABELS {
            // Macros make some: `\world\()_irq:`, `\kind\()_home:`.
            let kinds = ["kernel", "user", "data_abort", "prefetch_abort"];
            let made = kinds.iter().any(|kind| {
                let of_macro = |name: String| sources.iter().any(|s| s.contains(&name));
                let start = label.strip_prefix(kind).map(|rest| format!(")}}{rest}:").replace(")}", "\\()"));
                let end = label.strip_suffix(kind).map(|rest| format!("{rest}\\kind:"));
                start.is_some_and(of_macro) || end.is_some_and(of_macro)
            });
            let plain = format!("\n{label}:");
            // spill.s or no_spill.s has it.
            let elsewhere = *label == "kernel_undefined_vector";
            assert!(made || elsewhere || sources.iter().any(|s| s.contains(&plain)), "{label}");
        }
    }
}
