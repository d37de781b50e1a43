//! Guest memory: a few pages, each of which the guest maps or not, and Spica does or not yet.

use crate::translator::env::abort;
use crate::translator::model::{Bus, Fault};
use crate::translator::{CODE, CODE_PAGES, DATA, DATA_PAGES, PAGES};
use spica_dbt::layout::{PAGE, PAGE_WORDS};
use spica_vcpu::interp::Abort;

/// Guest memory.
#[derive(Clone)]
pub struct Memory {
    /// Code pages first, then data pages.
    pub bytes: Vec<u8>,
    /// The guest maps the page.
    pub present: Vec<bool>,
    /// The guest maps it for its kernel only.
    pub kernel_only: Vec<bool>,
    /// An unprivileged access is under way.
    unprivileged: bool,
    /// Spica does not map it yet.
    pub hidden: Vec<bool>,
    /// Code was translated from it.
    pub protected: Vec<bool>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl Memory {
    pub fn new() -> Memory {
        Memory {
            bytes: vec![0; PAGES * PAGE as usize],
            present: vec![true; PAGES],
            kernel_only: vec![false; PAGES],
            unprivileged: false,
            hidden: vec![false; PAGES],
            protected: vec![false; PAGES],
        }
    }

    /// Index of the page of `va`, if there is one.
    pub fn page(va: u32) -> Option<usize> {
        if va.wrapping_sub(CODE) < CODE_PAGES * PAGE {
            Some((va.wrapping_sub(CODE) / PAGE) as usize)
        } else if va.wrapping_sub(DATA) < DATA_PAGES * PAGE {
            Some((CODE_PAGES + va.wrapping_sub(DATA) / PAGE) as usize)
        } else {
            None
        }
    }

    pub fn is_code(va: u32) -> bool {
        va.wrapping_sub(CODE) < CODE_PAGES * PAGE
    }

    fn index(va: u32) -> Option<usize> {
        Some(Self::page(va)? * PAGE as usize + (va % PAGE) as usize)
    }

    pub fn word(&self, va: u32) -> u32 {
        let at = Self::index(va).expect("in the guest's memory");
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    pub fn set_word(&mut self, va: u32, value: u32) {
        let at = Self::index(va).expect("in the guest's memory");
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub fn set_half(&mut self, va: u32, value: u32) {
        let at = Self::index(va).expect("in the guest's memory");
        self.bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    pub fn page_words(&self, va: u32) -> [u32; PAGE_WORDS] {
        std::array::from_fn(|n| self.word((va & !0xfff) + 4 * n as u32))
    }

    /// Checks an access byte by byte; `real` is the translated guest's, which knows hidden and protected pages.
    pub(super) fn check(&self, address: u32, bytes: u32, write: bool, real: bool) -> Result<(), Fault> {
        for n in 0..bytes {
            let address = address.wrapping_add(n);
            let allowed = Self::page(address).is_some_and(|page| {
                self.present[page]
                    && !(self.unprivileged && self.kernel_only[page])
                    && !(real && (self.hidden[page] || write && self.protected[page]))
            });
            if !allowed {
                return Err(Fault { address, write, alignment: false });
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, address: u32, bytes: u32) -> u32 {
        let byte = |n| self.bytes[Self::index(address.wrapping_add(n)).expect("checked")];
        (0..bytes).fold(0, |value, n| value | u32::from(byte(n)) << (8 * n))
    }

    pub(super) fn set(&mut self, address: u32, bytes: u32, value: u32) {
        for n in 0..bytes {
            let at = Self::index(address.wrapping_add(n)).expect("checked");
            self.bytes[at] = (value >> (8 * n)) as u8;
        }
    }
}

/// The reference machine's view.
impl Bus for Memory {
    fn fetch(&mut self, address: u32) -> u32 {
        self.word(address)
    }

    fn load(&mut self, address: u32, bytes: u32) -> Result<u32, Fault> {
        self.check(address, bytes, false, false)?;
        Ok(self.get(address, bytes))
    }

    fn store(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Fault> {
        self.check(address, bytes, true, false)?;
        self.set(address, bytes, value);
        Ok(())
    }

    fn set_unprivileged(&mut self, unprivileged: bool) {
        self.unprivileged = unprivileged;
    }
}

impl Memory {
    /// An access of the interpreter's, with the given rights.
    pub(super) fn check_as(&mut self, privileged: bool, address: u32, bytes: u32, write: bool) -> Result<(), Abort> {
        self.unprivileged = !privileged;
        let result = self.check(address, bytes, write, false);
        self.unprivileged = false;
        result.map_err(abort)
    }
}
