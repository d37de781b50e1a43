//! The side that QEMU sees.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fs;
use std::path::PathBuf;

use spica_cycles::{Core, Memory};
use spica_plugin as plugin;
use spica_plugin::{
    Global, Handles, LOADS_AND_STORES, NO_REGISTERS, READS_REGISTERS, Ram, System, qemu_plugin_insn_vaddr,
    qemu_plugin_mem_is_store, qemu_plugin_mem_size_shift, qemu_plugin_register_atexit_cb,
    qemu_plugin_register_vcpu_insn_exec_cb, qemu_plugin_register_vcpu_mem_cb, qemu_plugin_register_vcpu_tb_trans_cb,
    qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns,
};
use spica_silicon::{Checker, Context, Faults, Machine, Step};

/// How many instructions there are between two reports, at most.
const PERIOD: u64 = 1 << 24;

/// All that the plugin has.
struct Plugin {
    checker: Checker,
    board: Board,
    report: PathBuf,
    /// How many instructions there have been when the next report is due.
    due: u64,
    /// Every instruction that was ever translated, by its address, its bytes and its size with Thumb's bit.
    known: HashMap<(u32, u32, u8), &'static Step>,
}

/// What the checker asks.
struct Board {
    ram: Ram,
    handles: Option<Handles>,
}

impl Memory for Board {
    fn word(&self, physical: u32) -> Option<u32> {
        self.ram.word(physical)
    }
}

impl Board {
    fn read(&self, which: impl FnOnce(&Handles) -> *mut c_void) -> u32 {
        // SAFETY: the checker asks only in callbacks on the processor's thread.
        self.handles.as_ref().map_or(0, |handles| unsafe { handles.read(which(handles)) })
    }
}

impl Machine for Board {
    fn context(&self) -> Context {
        let Some(handles) = &self.handles else { return Context::default() };
        // SAFETY: as above. Registers of CP15 are in QEMU's memory at any time.
        let (registers, [vbar, dacr, cpacr]) =
            unsafe { (handles.registers(), handles.system([System::Vbar, System::Dacr, System::Cpacr])) };
        Context { registers, dacr, vbar, cpacr }
    }

    fn cpsr(&self) -> u32 {
        self.read(|handles| handles.cpsr)
    }

    fn register(&self, number: u8) -> u32 {
        self.read(|handles| handles.core[usize::from(number).min(14)])
    }

    fn faults(&self) -> Faults {
        let Some(handles) = &self.handles else { return Faults::default() };
        // SAFETY: as above.
        let [dfar, ifar] = unsafe { handles.system([System::Dfar, System::Ifar]) };
        Faults { dfar, ifar }
    }
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
            // SAFETY: the identifier is QEMU's, and the functions have the types that it calls.
            unsafe {
                qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
                qemu_plugin_register_atexit_cb(id, ends, std::ptr::null_mut());
            }
            0
        }
        Err(problem) => {
            eprintln!("spica-checker: {problem}");
            1
        }
    }
}

fn install(arguments: impl Iterator<Item = String>) -> Result<Plugin, String> {
    let (mut report, mut core, mut ram) = (None, None, None);
    for argument in arguments {
        let problem = || format!("the argument {argument:?} means nothing");
        match argument.split_once('=').ok_or_else(problem)? {
            ("report", file) => report = Some(PathBuf::from(file)),
            ("core", name) => core = Some(Core::from_key(name).ok_or_else(problem)?),
            ("ram", place) => ram = Some(Ram::of(place).ok_or_else(problem)?),
            _ => return Err(problem()),
        }
    }
    let (Some(report), Some(core), Some(ram)) = (report, core, ram) else {
        return Err("one of the arguments report=FILE, core=NAME and ram=ADDRESS:BYTES is missing".into());
    };
    let checker = Checker::new(core, ram.start, ram.bytes);
    let board = Board { ram, handles: None };
    Ok(Plugin { checker, board, report, due: PERIOD, known: HashMap::new() })
}

/// Called by QEMU for each block that it translates.
extern "C" fn translated(_id: u64, block: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    if plugin.board.handles.is_none() {
        // SAFETY: QEMU translates on the processor's thread.
        match unsafe { Handles::find() } {
            Ok(handles) => plugin.board.handles = Some(handles),
            Err(name) => {
                // A report that is not there is noticed.
                eprintln!("spica-checker: this QEMU has no register {name}");
                std::process::exit(1);
            }
        }
    }
    // SAFETY: QEMU gives its block, valid during this call.
    let count = unsafe { qemu_plugin_tb_n_insns(block) };
    let thumb = plugin.board.cpsr() & 1 << 5 != 0;
    for at in 0..count {
        // SAFETY: there are as many.
        let handle = unsafe { qemu_plugin_tb_get_insn(block, at) };
        // SAFETY: QEMU's own instruction, valid during this call.
        let address = unsafe { qemu_plugin_insn_vaddr(handle) } as u32;
        if let Some(handles) = &plugin.board.handles {
            // SAFETY: as above.
            unsafe { plugin.board.ram.find(handles, handle, address) };
        }
        watch(handle, plugin.step(handle, address, thumb));
    }
}

/// Has QEMU call for an instruction and its accesses.
fn watch(handle: *mut c_void, step: &'static Step) {
    let flags = if step.reads_registers() { READS_REGISTERS } else { NO_REGISTERS };
    let data = std::ptr::from_ref(step).cast_mut().cast();
    // SAFETY: QEMU's own instruction; the data is never written through, and stays.
    unsafe {
        qemu_plugin_register_vcpu_insn_exec_cb(handle, executed, flags, data);
        qemu_plugin_register_vcpu_mem_cb(handle, accessed, NO_REGISTERS, LOADS_AND_STORES, data);
    }
}

impl Plugin {
    /// What an instruction is.
    fn step(&mut self, handle: *const c_void, address: u32, thumb: bool) -> &'static Step {
        // SAFETY: QEMU's own instruction, which it translates.
        let (bytes, size) = unsafe { plugin::bytes(handle) };
        let word = u32::from_le_bytes(bytes);
        self.known.entry((address, word, size as u8 | u8::from(thumb) << 7)).or_insert_with(|| {
            let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let step = match (thumb, size) {
                (true, 2) => Step::thumb(address, half(0), None),
                (true, _) => Step::thumb(address, half(0), Some(half(2))),
                (false, _) => Step::arm(address, word),
            };
            Box::leak(Box::new(step))
        })
    }

    /// Writes the report, in the place of the one before.
    fn write(&mut self) {
        let new = self.report.with_extension("new");
        // Whoever waits for it sees that it does not come.
        let _ = fs::write(&new, self.checker.report().text()).and_then(|()| fs::rename(&new, &self.report));
        self.due = self.checker.report().instructions + PERIOD;
    }
}

/// Called by QEMU before an instruction.
extern "C" fn executed(_processor: c_uint, data: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: the data is the instruction that was given to QEMU, which is never freed.
    let step = unsafe { &*data.cast::<Step>() };
    plugin.checker.execute(step, &plugin.board);
    if plugin.checker.news() || plugin.checker.instructions() >= plugin.due {
        plugin.write();
    }
}

/// Called by QEMU behind each access.
extern "C" fn accessed(_processor: c_uint, info: u32, address: u64, data: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: the data is the instruction that was given to QEMU, which is never freed.
    let step = unsafe { &*data.cast::<Step>() };
    // SAFETY: the information is QEMU's, valid in this callback.
    let (shift, store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
    plugin.checker.access(step, address as u32, 1 << shift, store, &plugin.board);
}

/// Called by QEMU at its end.
extern "C" fn ends(_id: u64, _data: *mut c_void) {
    if let Some(plugin) = PLUGIN.get() {
        plugin.write();
    }
}
