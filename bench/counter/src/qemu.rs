//! The side that QEMU sees: version 1 of its plugin interface, of which a handful of functions is used.
//!
//! They are declared here as QEMU's documentation of its plugin interface describes them ("QEMU TCG Plugins", API
//! section); Debian packages no header of them. QEMU itself has the symbols when it loads the plugin.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::OpenOptions;
use std::sync::{Mutex, OnceLock};

use rustix::mm::{MapFlags, ProtFlags, mmap};
use spica_bench::events::{self, Trap};

use spica_profile::area;

use crate::COUNTERS;
use crate::classify::{self, Instruction};
use crate::slow::{self, Note, Places};

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
const ADD: c_int = 0;
/// `QEMU_PLUGIN_CB_NO_REGS`.
const NO_REGISTERS: c_int = 0;

/// The class of traps that translated code makes by an `SVC` with a condition, as it does for coprocessor instructions
/// that have one. That it begins does not say that it is taken: these count where they arrive, at the vector.
const CONDITIONAL: Trap = Trap::Coprocessor;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: extern "C" fn(u64, *mut c_void));
    fn qemu_plugin_tb_n_insns(tb: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(tb: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_insn_data(insn: *const c_void) -> *const c_void;
    fn qemu_plugin_insn_size(insn: *const c_void) -> usize;
    fn qemu_plugin_insn_vaddr(insn: *const c_void) -> u64;
    fn qemu_plugin_insn_haddr(insn: *const c_void) -> *const c_void;
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut c_void,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_inline(insn: *mut c_void, op: c_int, counter: *mut c_void, by: u64);
}

/// What [`qemu_plugin_install`] found out.
struct Plugin {
    counters: Option<Counters>,
    /// Counters for each word of code, as `spica_profile::area` has them.
    profile: Option<Counters>,
    /// Where Rust is entered and left.
    slow: Places,
    /// Addresses, and the counters of what is executed there.
    places: Vec<(u32, usize)>,
    /// Whether `SVC`s of translated code are traps.
    traps: bool,
}

/// The mapped file.
struct Counters(*mut u64);

// SAFETY: the plugin itself never reads or writes through the pointer; QEMU's translated code does, on the one thread
// that runs the board's only processor.
unsafe impl Send for Counters {}
// SAFETY: the same.
unsafe impl Sync for Counters {}

impl Counters {
    /// Has QEMU add `by` to a counter, one of those that the file has, whenever this instruction is executed.
    fn count(&self, instruction: *mut c_void, counter: usize, by: u64) {
        // SAFETY: the counter is one of the mapped ones, and the mapping stays as long as QEMU.
        let counter = unsafe { self.0.add(counter) };
        // SAFETY: QEMU's own instruction, and a counter of 64 bits.
        unsafe { qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD, counter.cast(), by) };
    }
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// The version of the interface that the plugin is made for.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// Called by QEMU when it has loaded the plugin. Anything but 0 ends QEMU, with what was printed before.
///
/// # Safety
/// `arguments` points to `count` C strings, as QEMU gives them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    _info: *const c_void,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let arguments = (0..usize::try_from(count).unwrap_or(0)).map(|at| {
        // SAFETY: there are `count` of them, each a C string.
        unsafe { CStr::from_ptr(*arguments.add(at)) }.to_string_lossy().into_owned()
    });
    match install(arguments) {
        Ok(plugin) => {
            let _ = PLUGIN.set(plugin);
            // SAFETY: the identifier is QEMU's, and the function has the type that it calls.
            unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
            0
        }
        Err(problem) => {
            eprintln!("spica-counter: {problem}");
            1
        }
    }
}

fn install(arguments: impl Iterator<Item = String>) -> Result<Plugin, String> {
    let (mut counters, mut profile, mut places, mut traps) = (None, None, Vec::new(), false);
    let mut slow = Places::default();
    let number = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    for argument in arguments {
        let problem = || format!("the argument {argument:?} means nothing");
        match argument.split_once('=').ok_or_else(problem)? {
            ("counts", file) => counters = Some(map(file, COUNTERS * size_of::<u64>())?),
            ("profile", file) => profile = Some(map(file, area::BYTES)?),
            ("traps", "on") => traps = true,
            ("at", place) => {
                let (address, name) = place.split_once(':').ok_or_else(problem)?;
                places.push((number(address).ok_or_else(problem)?, events::place_of(name).ok_or_else(problem)?));
            }
            ("enter", place) => {
                let (address, kind) = place.split_once(':').ok_or_else(problem)?;
                let kind = kind.parse().ok().filter(|kind| *kind < spica_profile::slow::KINDS);
                slow.entries.push((number(address).ok_or_else(problem)?, kind.ok_or_else(problem)?));
            }
            ("leave", address) => slow.leave = Some(number(address).ok_or_else(problem)?),
            _ => return Err(problem()),
        }
    }
    if counters.is_none() && profile.is_none() {
        return Err("one of the arguments counts=FILE and profile=FILE is missing".into());
    }
    Ok(Plugin { counters, profile, slow, places, traps })
}

/// Maps a file of counters, which has so many bytes.
fn map(path: &str, bytes: usize) -> Result<Counters, String> {
    let problem = |e: &dyn std::fmt::Display| format!("{path}: {e}");
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| problem(&e))?;
    if file.metadata().map_err(|e| problem(&e))?.len() < bytes as u64 {
        return Err(problem(&format!("shorter than {bytes} bytes")));
    }
    // SAFETY: a new mapping, where the kernel likes; the file is as long as it.
    let start =
        unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0) };
    Ok(Counters(start.map_err(|e| problem(&e))?.cast()))
}

/// Called by QEMU for each block that it translates.
extern "C" fn translated(_id: u64, block: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: QEMU gives its block, valid during this call.
    let count = unsafe { qemu_plugin_tb_n_insns(block) };
    // SAFETY: there are as many.
    let handles: Vec<_> = (0..count).map(|at| unsafe { qemu_plugin_tb_get_insn(block, at) }).collect();
    let instructions: Vec<_> = handles.iter().map(|&handle| instruction(handle)).collect();
    if let Some(profile) = &plugin.profile {
        for (&handle, instruction) in handles.iter().zip(&instructions) {
            profile.count(handle, area::counter_of(instruction.address, instruction.word), 1);
            if area::IMAGE.contains(&instruction.address) {
                profile.count(handle, area::OF_THE_IMAGE, 1);
            }
            if let Some(note) = plugin.slow.note(instruction.address, instruction.word, behind(handle, instruction)) {
                take(handle, note);
            }
        }
        if let (Some(&handle), Some(first)) = (handles.first(), instructions.first()) {
            copy_page(profile, handle, first.address);
            note_block(profile, first.address);
        }
    }
    let Some(counters) = &plugin.counters else { return };
    let thumb = classify::is_thumb(&instructions);
    for (&handle, instruction) in handles.iter().zip(&instructions) {
        let change = |counter: usize, by: u64| counters.count(handle, counter, by);
        let add = |counter| change(counter, 1);
        plugin.places.iter().filter(|(address, _)| *address == instruction.address).for_each(|(_, c)| add(*c));
        if thumb {
            continue;
        }
        if let Some(event) = classify::event(instruction.word) {
            add(events::place(event));
        }
        if plugin.traps
            && let Some(trap) = classify::trap(instruction.word, behind(handle, instruction))
        {
            add(events::place_of_trap(trap));
            // It will be counted at the vector, too, as what its class is if nothing else says it.
            change(events::place_of_trap(CONDITIONAL), 1u64.wrapping_neg());
        }
    }
}

/// Has QEMU call [`taken`] whenever an instruction is executed.
fn take(handle: *mut c_void, note: Note) {
    let data = match note {
        Note::Leave => 0,
        Note::Trap(kind) => kind << 1 | 1,
        Note::Enter(kind) => (kind + 1) << 1,
    };
    let data = std::ptr::without_provenance_mut(data);
    // SAFETY: QEMU's own instruction; the data is a number, which nobody follows.
    unsafe { qemu_plugin_register_vcpu_insn_exec_cb(handle, taken, NO_REGISTERS, data) };
}

/// Called by QEMU before an instruction that was noted.
extern "C" fn taken(_processor: c_uint, data: *mut c_void) {
    let Some(Counters(counters)) = PLUGIN.get().and_then(|plugin| plugin.profile.as_ref()) else { return };
    let note = match (data.addr(), data.addr() >> 1) {
        (0, _) => Note::Leave,
        (odd, kind) if odd & 1 == 1 => Note::Trap(kind),
        (_, more) => Note::Enter(more - 1),
    };
    // SAFETY: a counter of the mapped file. QEMU's translated code writes it on this very thread, and not meanwhile.
    let executed = unsafe { counters.add(area::OF_THE_IMAGE).read_volatile() };
    if let Some((kind, instructions)) = slow::taken(note, executed) {
        for (counter, by) in area::of_kind(kind).into_iter().zip([instructions, 1]) {
            // SAFETY: the same, and only this function writes it.
            unsafe { counters.add(counter).write_volatile(counters.add(counter).read_volatile().wrapping_add(by)) };
        }
    }
}

/// Where blocks of a kernel's code begin that were executed.
static KNOWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// QEMU is about to execute the block at `address`, which it has translated, perhaps not for the first time.
fn note_block(profile: &Counters, address: u32) {
    if area::counter(address) != area::KERNEL_CODE {
        return;
    }
    let is_new = KNOWN.lock().is_ok_and(|mut known| known.insert(address));
    // SAFETY: a counter of the mapped file, which only this function writes.
    let counter = unsafe { profile.0.add(area::NEW_BLOCKS) };
    // SAFETY: the same.
    unsafe { counter.write_volatile(counter.read_volatile() + u64::from(is_new)) };
}

/// Copies the page of the code cache that the instruction at `address` is in: words of it that were written since the
/// last time are executed for the first time now, so QEMU translates them.
fn copy_page(profile: &Counters, handle: *mut c_void, address: u32) {
    let Some(copy) = area::copy_of_page(address) else { return };
    // SAFETY: QEMU's own instruction.
    let here = unsafe { qemu_plugin_insn_haddr(handle) }.cast::<u8>();
    if here.is_null() {
        return;
    }
    // SAFETY: the board's memory is mapped in whole pages, so all of the instruction's page is there.
    let page = unsafe { here.sub(address as usize % area::PAGE) };
    // SAFETY: the file has a page there, which is no counter, and is not the board's memory.
    unsafe { std::ptr::copy_nonoverlapping(page, profile.0.cast::<u8>().add(copy), area::PAGE) };
}

fn instruction(handle: *mut c_void) -> Instruction {
    // SAFETY: QEMU's own instruction, valid during the call that it is from.
    let (address, size) = unsafe { (qemu_plugin_insn_vaddr(handle) as u32, qemu_plugin_insn_size(handle)) };
    let mut bytes = [0; 4];
    let shown = size.min(bytes.len());
    // SAFETY: as many bytes are there.
    let data = unsafe { std::slice::from_raw_parts(qemu_plugin_insn_data(handle).cast::<u8>(), shown) };
    bytes[..shown].copy_from_slice(data);
    Instruction { address, size, word: u32::from_le_bytes(bytes) }
}

/// The word behind an instruction, in the board's memory; 0 if it is in another page, where QEMU may have it elsewhere.
fn behind(handle: *mut c_void, instruction: &Instruction) -> u32 {
    // SAFETY: QEMU's own instruction.
    let here = unsafe { qemu_plugin_insn_haddr(handle) }.cast::<u8>();
    if here.is_null() || instruction.address & 0xfff >= 0xffc {
        return 0;
    }
    let mut bytes = [0; 4];
    // SAFETY: the board's memory is mapped in whole pages, and the word is in the same one as the instruction.
    unsafe { std::ptr::copy_nonoverlapping(here.add(4), bytes.as_mut_ptr(), bytes.len()) };
    u32::from_le_bytes(bytes)
}

// The interface counts in `size_t` and `unsigned int`; here they are what Rust calls them.
const _: () = assert!(size_of::<c_uint>() == 4 && size_of::<usize>() == 8);
