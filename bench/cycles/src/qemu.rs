//! The side that QEMU sees: version 4 of its plugin interface, which reads registers, of which a handful of functions
//! is used.
//!
//! They are declared here as QEMU's documentation of its plugin interface describes them ("QEMU TCG Plugins", API
//! section). QEMU itself has the symbols when it loads the plugin, and those of GLib's arrays, which it gives
//! registers in.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::OpenOptions;

use rustix::mm::{MapFlags, ProtFlags, mmap};
use spica_cycles::decode::{Flow, System, Unit};
use spica_cycles::{Core, Counts, Instruction, Memory, Model, Registers};

/// `QEMU_PLUGIN_CB_NO_REGS` and `QEMU_PLUGIN_CB_R_REGS`.
const NO_REGISTERS: c_int = 0;
const READS_REGISTERS: c_int = 1;
/// `QEMU_PLUGIN_MEM_RW`.
const LOADS_AND_STORES: c_int = 3;

/// GLib's `GArray` and `GByteArray`: both begin so.
#[repr(C)]
struct Array {
    data: *mut u8,
    length: c_uint,
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
struct Described {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: extern "C" fn(u64, *mut c_void));
    fn qemu_plugin_reset(id: u64, callback: extern "C" fn(u64));
    fn qemu_plugin_tb_n_insns(tb: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(tb: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_insn_data(insn: *const c_void, to: *mut c_void, length: usize) -> usize;
    fn qemu_plugin_insn_size(insn: *const c_void) -> usize;
    fn qemu_plugin_insn_vaddr(insn: *const c_void) -> u64;
    fn qemu_plugin_insn_haddr(insn: *const c_void) -> *const c_void;
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut c_void,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut c_void,
        callback: extern "C" fn(c_uint, u32, u64, *mut c_void),
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    fn qemu_plugin_mem_is_store(info: u32) -> bool;
    fn qemu_plugin_get_registers() -> *mut Array;
    fn qemu_plugin_read_register(handle: *mut c_void, to: *mut Array) -> c_int;
    fn g_byte_array_new() -> *mut Array;
    fn g_byte_array_set_size(array: *mut Array, length: c_uint) -> *mut Array;
}

/// All that the plugin has.
struct Plugin {
    model: Model,
    ram: Ram,
    /// The mapped file.
    counts: *mut [u64; Counts::LENGTH],
    /// Where modelling begins, if not at reset.
    from: Option<u32>,
    handles: Option<Handles>,
    /// Whether a register may have been written since they were read.
    stale: bool,
    /// Every instruction that was ever translated, by its address, its bytes and its size with Thumb's bit.
    known: HashMap<(u32, u32, u8), &'static Instruction>,
}

/// The board's memory, where QEMU keeps it.
struct Ram {
    start: u32,
    bytes: u32,
    /// Null as long as it is not known.
    host: *const u8,
}

impl Memory for Ram {
    fn word(&self, physical: u32) -> Option<u32> {
        let at = physical.wrapping_sub(self.start);
        if at >= self.bytes || !at.is_multiple_of(4) || self.host.is_null() {
            return None;
        }
        // SAFETY: QEMU maps the board's memory in one piece, of so many bytes, for as long as it runs. Only this
        // thread, which runs the board's only processor, writes there, and the board has no devices that do.
        Some(u32::from_le(unsafe { self.host.add(at as usize).cast::<u32>().read_volatile() }))
    }
}

/// QEMU's handles of registers.
struct Handles {
    core: [*mut c_void; 15],
    cpsr: *mut c_void,
    scr: *mut c_void,
    /// Those of the normal world and of the secure one, in the order of [`SYSTEM`].
    system: [[*mut c_void; 2]; SYSTEM.len()],
    /// What values are read into.
    buffer: *mut Array,
}

/// QEMU's names of the registers of CP15, in the normal world; those of the secure one are [`secure`].
const SYSTEM: [&str; 8] = ["SCTLR", "TTBR0_EL1", "TTBR1_EL1", "TTBCR", "CONTEXTIDR_EL1", "MAIR0", "MAIR1", "VBAR"];

/// The plugin's only state.
struct Global(UnsafeCell<Option<Plugin>>);

// SAFETY: with `-icount`, and one processor, QEMU calls plugins on the one thread that runs the processor. The
// installation, on another thread, is over before that one begins.
unsafe impl Sync for Global {}

static PLUGIN: Global = Global(UnsafeCell::new(None));

/// The plugin. Callers are callbacks of QEMU's, none of which calls another, and use it until they return.
fn plugin() -> Option<&'static mut Plugin> {
    // SAFETY: see `Global`: one thread, and one use at a time.
    unsafe { (*PLUGIN.0.get()).as_mut() }
}

/// The version of the interface that the plugin is made for: the first that has `qemu_plugin_insn_data` in this
/// form and reads registers.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 4;

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
            // SAFETY: see `Global`: the processor does not run yet.
            unsafe { *PLUGIN.0.get() = Some(plugin) };
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
    let number = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    for argument in arguments {
        let problem = || format!("the argument {argument:?} means nothing");
        match argument.split_once('=').ok_or_else(problem)? {
            ("counts", file) => counts = Some(map(file)?),
            ("core", name) => core = Some(Core::from_key(name).ok_or_else(problem)?),
            ("ram", place) => {
                let (start, bytes) = place.split_once(':').ok_or_else(problem)?;
                let (start, bytes) = (number(start).ok_or_else(problem)?, number(bytes).ok_or_else(problem)?);
                ram = Some(Ram { start, bytes, host: std::ptr::null() });
            }
            ("from", address) => from = Some(number(address).ok_or_else(problem)?),
            _ => return Err(problem()),
        }
    }
    let (Some(counts), Some(core), Some(ram)) = (counts, core, ram) else {
        return Err("one of the arguments counts=FILE, core=NAME and ram=ADDRESS:BYTES is missing".into());
    };
    let known = HashMap::new();
    Ok(Plugin { model: Model::new(core), ram, counts, from, handles: None, stale: true, known })
}

/// Maps the file of counts.
fn map(path: &str) -> Result<*mut [u64; Counts::LENGTH], String> {
    let bytes = Counts::LENGTH * size_of::<u64>();
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

/// The name of a register of the secure world. QEMU calls one of them otherwise.
fn secure(name: &str) -> String {
    if name == "CONTEXTIDR_EL1" { "CONTEXTIDR_S".into() } else { format!("{name}_S") }
}

impl Handles {
    /// Asks QEMU for them.
    ///
    /// # Safety
    /// Only in a callback on the processor's thread.
    unsafe fn find() -> Option<Handles> {
        // SAFETY: we are in such a callback.
        let list = unsafe { &*qemu_plugin_get_registers() };
        // SAFETY: QEMU says that the array has so many elements of this type. It is never freed.
        let all = unsafe { std::slice::from_raw_parts(list.data.cast::<Described>(), list.length as usize) };
        let named = |wanted: &str| {
            // SAFETY: names are C strings that stay as long as QEMU.
            let is_it = |d: &&Described| unsafe { CStr::from_ptr(d.name) }.to_bytes() == wanted.as_bytes();
            all.iter().find(is_it).map(|d| d.handle)
        };
        let mut core = [std::ptr::null_mut(); 15];
        for (n, handle) in core.iter_mut().enumerate() {
            *handle = named(
                ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr"][n],
            )?;
        }
        let mut system = [[std::ptr::null_mut(); 2]; SYSTEM.len()];
        for (pair, name) in system.iter_mut().zip(SYSTEM) {
            let normal = named(name)?;
            *pair = [normal, named(&secure(name)).unwrap_or(normal)];
        }
        // SAFETY: GLib's function; the array is never freed.
        let buffer = unsafe { g_byte_array_new() };
        Some(Handles { core, cpsr: named("cpsr")?, scr: named("SCR")?, system, buffer })
    }

    /// The lower 32 bits of a register.
    ///
    /// # Safety
    /// As [`Handles::find`].
    unsafe fn read(&self, handle: *mut c_void) -> u32 {
        // SAFETY: the handle and the buffer are QEMU's and GLib's own.
        let length = unsafe {
            g_byte_array_set_size(self.buffer, 0);
            qemu_plugin_read_register(handle, self.buffer)
        };
        let mut bytes = [0; 4];
        let length = usize::try_from(length).unwrap_or(0).min(bytes.len());
        // SAFETY: QEMU has put at least as many bytes there, those of a little-endian number.
        let data = unsafe { std::slice::from_raw_parts((*self.buffer).data, length) };
        bytes[..length].copy_from_slice(data);
        u32::from_le_bytes(bytes)
    }

    /// The registers of CP15, and VBAR.
    ///
    /// # Safety
    /// As [`Handles::find`].
    unsafe fn registers(&self) -> (Registers, u32) {
        // SAFETY: the caller's.
        let secure = unsafe { self.read(self.scr) } & 1 == 0;
        // SAFETY: the caller's.
        let [sctlr, ttbr0, ttbr1, ttbcr, contextidr, prrr, nmrr, vbar] =
            self.system.map(|pair| unsafe { self.read(pair[usize::from(secure)]) });
        (Registers { sctlr, ttbr0, ttbr1, ttbcr, contextidr, prrr, nmrr }, vbar)
    }
}

/// Called by QEMU for each block that it translates.
extern "C" fn translated(id: u64, block: *mut c_void) {
    let Some(plugin) = plugin() else { return };
    // SAFETY: QEMU translates on the processor's thread.
    let Some(handles) = plugin.handles.take().or_else(|| unsafe { Handles::find() }) else {
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
        if plugin.ram.host.is_null() {
            plugin.find_ram(&handles, handle, address);
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
    /// Finds out where QEMU keeps the board's memory: as long as nothing is translated, virtual addresses are physical.
    fn find_ram(&mut self, handles: &Handles, handle: *const c_void, address: u32) {
        // SAFETY: this is in a callback on the processor's thread.
        let translates = unsafe { handles.registers() }.0.translates();
        let at = address.wrapping_sub(self.ram.start);
        if !translates && at < self.ram.bytes {
            // SAFETY: QEMU's own instruction.
            let here = unsafe { qemu_plugin_insn_haddr(handle) }.cast::<u8>();
            if !here.is_null() {
                self.ram.host = here.wrapping_sub(at as usize);
            }
        }
    }

    /// What an instruction is.
    fn instruction(&mut self, handle: *const c_void, address: u32, thumb: bool) -> &'static Instruction {
        let mut bytes = [0u8; 4];
        // SAFETY: QEMU's own instruction, of which it copies no more than there is room for.
        let size = unsafe {
            qemu_plugin_insn_data(handle, bytes.as_mut_ptr().cast(), bytes.len());
            qemu_plugin_insn_size(handle)
        };
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
    let Some(plugin) = plugin() else { return };
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
    let Some(plugin) = plugin() else { return };
    // SAFETY: the data is the instruction that was given to QEMU, which is never freed.
    let i = unsafe { &*data.cast::<Instruction>() };
    if plugin.stale {
        plugin.stale = false;
        if let Some(handles) = &plugin.handles {
            // SAFETY: this is a callback on the processor's thread. Registers of CP15 are in QEMU's memory at any time.
            let (registers, vbar) = unsafe { handles.registers() };
            plugin.model.set_registers(registers, vbar);
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
    let Some(plugin) = plugin() else { return };
    // SAFETY: the information is QEMU's, valid in this callback.
    let (shift, store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
    plugin.model.access(address as u32, 1 << shift, store, &plugin.ram);
}
