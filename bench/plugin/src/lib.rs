//! What plugins for QEMU 10 have in common: version 4 of its plugin interface, which reads registers, the board's
//! memory where QEMU keeps it, and the registers of CP15.
//!
//! The functions are declared here as QEMU's documentation of its plugin interface describes them ("QEMU TCG Plugins",
//! API section). QEMU itself has the symbols when it loads a plugin, and those of GLib's arrays, which it gives
//! registers in; so no program can be linked that uses this, but what QEMU loads.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use spica_cycles::{Memory, Registers};

/// `QEMU_PLUGIN_CB_NO_REGS` and `QEMU_PLUGIN_CB_R_REGS`.
pub const NO_REGISTERS: c_int = 0;
/// See [`NO_REGISTERS`].
pub const READS_REGISTERS: c_int = 1;
/// `QEMU_PLUGIN_MEM_RW`.
pub const LOADS_AND_STORES: c_int = 3;

/// The version of the interface: the first that has `qemu_plugin_insn_data` in this form and reads registers.
pub const VERSION: c_int = 4;

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

#[expect(missing_docs, reason = "QEMU's names and QEMU's documentation")]
unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: extern "C" fn(u64, *mut c_void));
    pub fn qemu_plugin_register_atexit_cb(id: u64, callback: extern "C" fn(u64, *mut c_void), data: *mut c_void);
    pub fn qemu_plugin_reset(id: u64, callback: extern "C" fn(u64));
    pub fn qemu_plugin_tb_n_insns(tb: *const c_void) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const c_void, index: usize) -> *mut c_void;
    pub fn qemu_plugin_insn_data(insn: *const c_void, to: *mut c_void, length: usize) -> usize;
    pub fn qemu_plugin_insn_size(insn: *const c_void) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const c_void) -> u64;
    pub fn qemu_plugin_insn_haddr(insn: *const c_void) -> *const c_void;
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut c_void,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut c_void,
        callback: extern "C" fn(c_uint, u32, u64, *mut c_void),
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;
    fn qemu_plugin_get_registers() -> *mut Array;
    fn qemu_plugin_read_register(handle: *mut c_void, to: *mut Array) -> c_int;
    fn g_byte_array_new() -> *mut Array;
    fn g_byte_array_set_size(array: *mut Array, length: c_uint) -> *mut Array;
}

/// A plugin's only state.
pub struct Global<T>(UnsafeCell<Option<T>>);

// SAFETY: with `-icount`, and one processor, QEMU calls plugins on the one thread that runs the processor. The
// installation, on another thread, is over before that one begins; what is called at the end, when it has ended.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    /// Nothing yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "for statics only")]
    pub const fn new() -> Global<T> {
        Global(UnsafeCell::new(None))
    }

    /// The plugin, if it is installed. Callers are callbacks of QEMU's, none of which calls another, and use it until
    /// they return.
    #[expect(clippy::mut_from_ref, reason = "see the safety of `Sync`: one thread, and one use at a time")]
    pub fn get(&self) -> Option<&mut T> {
        // SAFETY: see `Sync`.
        unsafe { (*self.0.get()).as_mut() }
    }

    /// Puts the plugin in, while it is installed.
    pub fn set(&self, plugin: T) {
        // SAFETY: see `Sync`: the processor does not run yet.
        unsafe { *self.0.get() = Some(plugin) };
    }
}

/// The arguments that QEMU gives a plugin.
///
/// # Safety
/// `arguments` points to `count` C strings, as QEMU gives them.
pub unsafe fn arguments(count: c_int, arguments: *const *const c_char) -> impl Iterator<Item = String> {
    (0..usize::try_from(count).unwrap_or(0)).map(move |at| {
        // SAFETY: there are `count` of them, each a C string.
        unsafe { CStr::from_ptr(*arguments.add(at)) }.to_string_lossy().into_owned()
    })
}

/// A number of an argument: hexadecimal, with `0x`.
#[must_use]
pub fn number(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The board's memory, where QEMU keeps it.
pub struct Ram {
    /// Its physical address.
    pub start: u32,
    /// Its size.
    pub bytes: u32,
    /// Null as long as it is not known.
    host: *const u8,
}

impl Ram {
    /// Out of the argument `ram=ADDRESS:BYTES`.
    #[must_use]
    pub fn of(place: &str) -> Option<Ram> {
        let (start, bytes) = place.split_once(':')?;
        Some(Ram { start: number(start)?, bytes: number(bytes)?, host: std::ptr::null() })
    }

    /// Finds out where QEMU keeps it, if that is not known: as long as nothing is translated, virtual addresses are
    /// physical. The instruction is one that QEMU translates now.
    ///
    /// # Safety
    /// Only in a callback on the processor's thread, with QEMU's own instruction.
    pub unsafe fn find(&mut self, handles: &Handles, instruction: *const c_void, address: u32) {
        let at = address.wrapping_sub(self.start);
        // SAFETY: the caller's.
        if !self.host.is_null() || at >= self.bytes || unsafe { handles.registers() }.translates() {
            return;
        }
        // SAFETY: the caller's.
        let here = unsafe { qemu_plugin_insn_haddr(instruction) }.cast::<u8>();
        if !here.is_null() {
            self.host = here.wrapping_sub(at as usize);
        }
    }
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
pub struct Handles {
    /// R0 to R14.
    pub core: [*mut c_void; 15],
    /// CPSR.
    pub cpsr: *mut c_void,
    scr: *mut c_void,
    /// Those of the normal world and of the secure one, in the order of [`SYSTEM`].
    system: [[*mut c_void; 2]; SYSTEM.len()],
    /// What values are read into.
    buffer: *mut Array,
}

/// QEMU's names of the registers of CP15, in the normal world; those of the secure one are [`secure`].
const SYSTEM: [&str; 12] = [
    "SCTLR",
    "TTBR0_EL1",
    "TTBR1_EL1",
    "TTBCR",
    "CONTEXTIDR_EL1",
    "MAIR0",
    "MAIR1",
    "VBAR",
    "DACR",
    "CPACR",
    "DFAR",
    "IFAR",
];

/// Registers of CP15 by their places in QEMU's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// VBAR.
    Vbar = 7,
    /// DACR.
    Dacr,
    /// CPACR.
    Cpacr,
    /// DFAR.
    Dfar,
    /// IFAR.
    Ifar,
}

/// The name of a register of the secure world. QEMU calls one of them otherwise.
fn secure(name: &str) -> String {
    if name == "CONTEXTIDR_EL1" { "CONTEXTIDR_S".into() } else { format!("{name}_S") }
}

impl Handles {
    /// Asks QEMU for them.
    ///
    /// # Errors
    /// The name of a register that there is not.
    ///
    /// # Safety
    /// Only in a callback on the processor's thread.
    pub unsafe fn find() -> Result<Handles, String> {
        // SAFETY: we are in such a callback.
        let list = unsafe { &*qemu_plugin_get_registers() };
        // SAFETY: QEMU says that the array has so many elements of this type. It is never freed.
        let all = unsafe { std::slice::from_raw_parts(list.data.cast::<Described>(), list.length as usize) };
        let named = |wanted: &str| {
            // SAFETY: names are C strings that stay as long as QEMU.
            let is_it = |d: &&Described| unsafe { CStr::from_ptr(d.name) }.to_bytes() == wanted.as_bytes();
            all.iter().find(is_it).map(|d| d.handle).ok_or_else(|| wanted.to_string())
        };
        let mut core = [std::ptr::null_mut(); 15];
        for (n, handle) in core.iter_mut().enumerate() {
            *handle = named(
                ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr"][n],
            )?;
        }
        let mut system = [[std::ptr::null_mut(); 2]; SYSTEM.len()];
        for (pair, name) in system.iter_mut().zip(SYSTEM) {
            let normal = named(name).or_else(|_| named(&format!("{name}_EL1")))?;
            *pair = [normal, named(&secure(name)).unwrap_or(normal)];
        }
        // SAFETY: GLib's function; the array is never freed.
        let buffer = unsafe { g_byte_array_new() };
        Ok(Handles { core, cpsr: named("cpsr")?, scr: named("SCR")?, system, buffer })
    }

    /// The lower 32 bits of a register.
    ///
    /// # Safety
    /// As [`Handles::find`].
    pub unsafe fn read(&self, handle: *mut c_void) -> u32 {
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

    /// Registers of CP15, those of the world that the processor is in.
    ///
    /// # Safety
    /// As [`Handles::find`].
    unsafe fn banked<const N: usize>(&self, places: [usize; N]) -> [u32; N] {
        // SAFETY: the caller's.
        let secure = unsafe { self.read(self.scr) } & 1 == 0;
        // SAFETY: the caller's.
        places.map(|place| unsafe { self.read(self.system[place][usize::from(secure)]) })
    }

    /// The registers of translation.
    ///
    /// # Safety
    /// As [`Handles::find`].
    #[must_use]
    pub unsafe fn registers(&self) -> Registers {
        // SAFETY: the caller's.
        let [sctlr, ttbr0, ttbr1, ttbcr, contextidr, prrr, nmrr] = unsafe { self.banked([0, 1, 2, 3, 4, 5, 6]) };
        Registers { sctlr, ttbr0, ttbr1, ttbcr, contextidr, prrr, nmrr }
    }

    /// Other registers of CP15.
    ///
    /// # Safety
    /// As [`Handles::find`].
    pub unsafe fn system<const N: usize>(&self, which: [System; N]) -> [u32; N] {
        // SAFETY: the caller's.
        unsafe { self.banked(which.map(|one| one as usize)) }
    }
}

/// An instruction that QEMU translates: its first bytes, and how many they are.
///
/// # Safety
/// QEMU's own instruction, during its translation.
#[must_use]
pub unsafe fn bytes(instruction: *const c_void) -> ([u8; 4], usize) {
    let mut bytes = [0u8; 4];
    // SAFETY: QEMU copies no more than there is room for.
    let size = unsafe {
        qemu_plugin_insn_data(instruction, bytes.as_mut_ptr().cast(), bytes.len());
        qemu_plugin_insn_size(instruction)
    };
    (bytes, size)
}
