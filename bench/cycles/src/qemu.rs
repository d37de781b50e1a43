//! The side that QEMU sees.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fs::OpenOptions;

use rustix::mm::{MapFlags, ProtFlags, mmap};
use spica_cycles::decode::{Flow, System, Unit};
use spica_cycles::ledger::{self, Places};
use spica_cycles::{Core, Counts, Instruction, Model};
use spica_plugin as plugin;
use spica_plugin::{
    Global, Handles, LOADS_AND_STORES, NO_REGISTERS, READS_REGISTERS, Ram, qemu_plugin_insn_vaddr,
    qemu_plugin_mem_is_store, qemu_plugin_mem_size_shift, qemu_plugin_register_vcpu_insn_exec_cb,
    qemu_plugin_register_vcpu_mem_cb, qemu_plugin_register_vcpu_tb_trans_cb, qemu_plugin_reset,
    qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns,
};
use spica_profile::area;

/// All that the plugin has.
struct Plugin {
    model: Model<Option<Places<'static>>>,
    ram: Ram,
    /// The mapped file.
    counts: *mut [u64; Counts::LENGTH],
    /// Where pages of the code cache are copied to: the mapped file.
    code: Option<*mut [u8; area::BYTES]>,
    /// Where modelling begins, if not at reset.
    from: Option<u32>,
    handles: Option<Handles>,
    /// Whether a register may have been written since they were read.
    stale: bool,
    /// Every instruction that was ever translated, by its address, its bytes and its size with Thumb's bit.
    known: HashMap<(u32, u32, u8), &'static Instruction>,
}

/// The plugin's only state.
static PLUGIN: Global<Plugin> = Global::new();

/// The version of the interface that the plugin is made for.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = plugin::VERSION;

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
    // SAFETY: the caller's.
    match install(unsafe { plugin::arguments(count, arguments) }) {
        Ok(plugin) => {
            PLUGIN.set(plugin);
            // SAFETY: the identifier is QEMU's, and the function has the type that it calls.
            unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
            0
        }
        Err(problem) => {
            eprintln!("spica-clock: {problem}");
            1
        }
    }
}

fn install(arguments: impl Iterator<Item = String>) -> Result<Plugin, String> {
    let (mut counts, mut core, mut ram, mut from) = (None, None, None, None);
    let (mut places, mut code) = (None, None);
    for argument in arguments {
        let problem = || format!("the argument {argument:?} means nothing");
        match argument.split_once('=').ok_or_else(problem)? {
            ("counts", file) => counts = Some(map(file)?),
            ("places", file) => places = Some(map::<[u64; ledger::LENGTH]>(file)?),
            ("code", file) => code = Some(map(file)?),
            ("core", name) => core = Some(Core::from_key(name).ok_or_else(problem)?),
            ("ram", place) => ram = Some(Ram::of(place).ok_or_else(problem)?),
            ("from", address) => from = Some(plugin::number(address).ok_or_else(problem)?),
            _ => return Err(problem()),
        }
    }
    let (Some(counts), Some(core), Some(ram)) = (counts, core, ram) else {
        return Err("one of the arguments counts=FILE, core=NAME and ram=ADDRESS:BYTES is missing".into());
    };
    let known = HashMap::new();
    // SAFETY: the mapping is this table's, stays as long as QEMU, and nobody else here uses it. Its readers are other
    // processes, while the processor stands still.
    let places = places.map(|table| Places::new(unsafe { &mut *table }));
    let model = Model::with_ledger(core, places);
    Ok(Plugin { model, ram, counts, code, from, handles: None, stale: true, known })
}

/// Maps a file that is a `T`: numbers, of which any will do.
fn map<T>(path: &str) -> Result<*mut T, String> {
    let bytes = size_of::<T>();
    let problem = |e: &dyn std::fmt::Display| format!("{path}: {e}");
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| problem(&e))?;
    if file.metadata().map_err(|e| problem(&e))?.len() < bytes as u64 {
        return Err(problem(&format!("shorter than {bytes} bytes")));
    }
    // SAFETY: a new mapping, where the kernel likes; the file is as long as it.
    let start =
        unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0) };
    Ok(start.map_err(|e| problem(&e))?.cast())
}

/// Called by QEMU for each block that it translates.
extern "C" fn translated(id: u64, block: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: QEMU translates on the processor's thread.
    let Some(handles) = plugin.handles.take().or_else(|| unsafe { Handles::find() }.ok()) else {
        // An answer to all that is asked would be wrong: nothing is counted, which is noticed.
        return;
    };
    // SAFETY: QEMU gives its block, valid during this call.
    let count = unsafe { qemu_plugin_tb_n_insns(block) };
    for at in 0..count {
        // SAFETY: there are as many.
        let handle = unsafe { qemu_plugin_tb_get_insn(block, at) };
        // SAFETY: QEMU's own instruction, valid during this call.
        let address = unsafe { qemu_plugin_insn_vaddr(handle) } as u32;
        // SAFETY: as above.
        unsafe { plugin.ram.find(&handles, handle, address) };
        if at == 0
            && let (Some(file), Some(to)) = (plugin.code, area::copy_of_page(address))
        {
            // SAFETY: as above. The file has a page there.
            unsafe { copy_page(handle, address, file.cast::<u8>().add(to)) };
        }
        match plugin.from {
            Some(from) if from == address => {
                let id = std::ptr::without_provenance_mut(id as usize);
                // SAFETY: QEMU's own instruction; the data is a number.
                unsafe { qemu_plugin_register_vcpu_insn_exec_cb(handle, begins, NO_REGISTERS, id) };
            }
            Some(_) => {}
            None => {
                // SAFETY: as above.
                let thumb = unsafe { handles.read(handles.cpsr) } & 1 << 5 != 0;
                watch(handle, plugin.instruction(handle, address, thumb));
            }
        }
    }
    plugin.handles = Some(handles);
}

/// Copies the page that an instruction is in, as `bench/counter` does: words that were written since the last time are
/// translated by QEMU before they are executed.
///
/// # Safety
/// QEMU's own instruction, in a callback about it; there is room for a page.
unsafe fn copy_page(handle: *mut c_void, address: u32, to: *mut u8) {
    // SAFETY: the caller's.
    let here = unsafe { plugin::qemu_plugin_insn_haddr(handle) }.cast::<u8>();
    if here.is_null() {
        return;
    }
    // SAFETY: the board's memory is mapped in whole pages, so all of the instruction's page is there. It is not the
    // mapped file.
    unsafe { std::ptr::copy_nonoverlapping(here.sub(address as usize % area::PAGE), to, area::PAGE) };
}

/// Has QEMU call for an instruction and its accesses.
fn watch(handle: *mut c_void, instruction: &'static Instruction) {
    let flags = if instruction.unit == Unit::System { READS_REGISTERS } else { NO_REGISTERS };
    let data = std::ptr::from_ref(instruction).cast_mut().cast();
    // SAFETY: QEMU's own instruction; the data is never written through, and stays.
    unsafe {
        qemu_plugin_register_vcpu_insn_exec_cb(handle, executed, flags, data);
        qemu_plugin_register_vcpu_mem_cb(handle, accessed, NO_REGISTERS, LOADS_AND_STORES, data);
    }
}

impl Plugin {
    /// What an instruction is.
    fn instruction(&mut self, handle: *const c_void, address: u32, thumb: bool) -> &'static Instruction {
        // SAFETY: QEMU's own instruction, which it translates.
        let (bytes, size) = unsafe { plugin::bytes(handle) };
        let word = u32::from_le_bytes(bytes);
        self.known.entry((address, word, size as u8 | u8::from(thumb) << 7)).or_insert_with(|| {
            let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let instruction = match (thumb, size) {
                (true, 2) => Instruction::thumb(address, half(0), None),
                (true, _) => Instruction::thumb(address, half(0), Some(half(2))),
                (false, _) => Instruction::arm(address, word),
            };
            Box::leak(Box::new(instruction))
        })
    }
}

/// Called by QEMU where modelling begins.
extern "C" fn begins(_processor: c_uint, id: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    if plugin.from.take().is_some() {
        // SAFETY: the identifier is QEMU's. It drops all that it translated, and calls back between two instructions.
        unsafe { qemu_plugin_reset(id.addr() as u64, again) };
    }
}

/// Called by QEMU when it has dropped what it translated.
extern "C" fn again(id: u64) {
    // SAFETY: as when the plugin was installed.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
}

/// Called by QEMU before an instruction.
extern "C" fn executed(_processor: c_uint, data: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: the data is the instruction that was given to QEMU, which is never freed.
    let i = unsafe { &*data.cast::<Instruction>() };
    if plugin.stale {
        plugin.stale = false;
        if let Some(handles) = &plugin.handles {
            // SAFETY: this is a callback on the processor's thread. Registers of CP15 are in QEMU's memory at any time.
            let (registers, [dacr, vbar]) =
                unsafe { (handles.registers(), handles.system([plugin::System::Dacr, plugin::System::Vbar])) };
            plugin.model.set_registers(registers, dacr, vbar);
        }
    }
    let mut operand = 0;
    if i.unit == Unit::System {
        plugin.stale = matches!(i.system, Some(System::Context));
        if let (Some(handles), Some(handle)) = (&plugin.handles, plugin.operand(i)) {
            // SAFETY: QEMU was told that registers are read here.
            operand = unsafe { handles.read(handle) };
        }
    }
    plugin.model.execute(i, operand, &plugin.ram);
    if i.flow == Flow::ExceptionReturn {
        // SAFETY: the mapping has as many numbers, and only this thread writes there.
        unsafe { plugin.counts.write_volatile(*plugin.model.counts().numbers()) };
    }
}

impl Plugin {
    /// The register that an operation by address takes its address from.
    fn operand(&self, i: &Instruction) -> Option<*mut c_void> {
        let by_address = matches!(
            i.system,
            Some(
                System::TlbPage
                    | System::TlbPageOfAll
                    | System::TlbAsid
                    | System::DataLineInvalidate
                    | System::InstructionLine
            )
        );
        self.handles.as_ref().filter(|_| by_address)?.core.get(usize::from(i.operand)).copied()
    }
}

/// Called by QEMU behind each access.
extern "C" fn accessed(_processor: c_uint, info: u32, address: u64, _data: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: the information is QEMU's, valid in this callback.
    let (shift, store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
    plugin.model.access(address as u32, 1 << shift, store, &plugin.ram);
}
