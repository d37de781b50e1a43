//! A device's state, to be kept and put back: of a snapshot, say.
//!
//! The state is the model itself, as `serde` writes it down, without what follows from the rest. What is read back may
//! be anything: [`State::restore`] takes what the guest could have brought the device to by accesses, and refuses all
//! else. So a device that was put back is one that its guest could have made, which harms nobody.
//!
//! Whoever changes the fields of a model changes what was written down before: [`VERSION`] is to be changed with them.

use alloc::vec::Vec;
use core::fmt;

use postcard::{Deserializer, Error, de_flavors, ser_flavors};
use serde::{Deserialize, Serialize};

/// The version of all that is written down of a guest's machine. A change of any field that is written is a new one,
/// and so is one of what a guest is told of its processor, since it may have acted upon that, and of what it reads
/// where its text is replaced, since it may have copied that: since 6, numbers there begin elsewhere.
pub const VERSION: u32 = 6;

/// What was read is no state of the device's: what is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsound(pub &'static str);

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// See the module's text.
pub trait State: Serialize + for<'a> Deserialize<'a> {
    /// Takes over `kept`, which has been read. Nothing changes if it is refused.
    ///
    /// # Errors
    /// If no guest could have brought this device to it.
    fn restore(&mut self, kept: Self) -> Result<(), Unsound>;
}

/// `kept` is a state if `holds`.
pub(crate) fn check(holds: bool, what: &'static str) -> Result<(), Unsound> {
    if holds { Ok(()) } else { Err(Unsound(what)) }
}

/// What is written down of a machine, one part behind the other.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// There was no memory for a part.
    cut_short: bool,
}

impl Writer {
    /// Writes `part` behind what is there.
    pub fn append(&mut self, part: &impl Serialize) {
        self.cut_short |= postcard::serialize_with_flavor(part, &mut *self).is_err();
    }

    /// All that was written; `None` if there was no memory for it.
    #[must_use]
    pub fn finish(self) -> Option<Vec<u8>> {
        (!self.cut_short).then_some(self.bytes)
    }
}

/// Once in the image, not once for each field of each model: so this is not inlined.
impl ser_flavors::Flavor for &mut Writer {
    type Output = ();

    #[inline(never)]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    #[inline(never)]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.bytes.try_reserve(bytes.len()).map_err(|_| Error::SerializeBufferFull)?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// What is read back.
struct Reader<'a>(&'a [u8]);

/// See [`Writer`]'s.
impl<'a> de_flavors::Flavor<'a> for Reader<'a> {
    type Remainder = &'a [u8];
    type Source = &'a [u8];

    #[inline(never)]
    fn pop(&mut self) -> postcard::Result<u8> {
        let (&first, rest) = self.0.split_first().ok_or(Error::DeserializeUnexpectedEnd)?;
        self.0 = rest;
        Ok(first)
    }

    #[inline(never)]
    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Error::DeserializeUnexpectedEnd)?;
        self.0 = rest;
        Ok(taken)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }

    fn finalize(self) -> postcard::Result<&'a [u8]> {
        Ok(self.0)
    }
}

/// Reads a part from the beginning of `rest`, which then begins behind it.
///
/// # Errors
/// If there is none.
pub fn take<'a, T: Deserialize<'a>>(rest: &mut &'a [u8]) -> Result<T, Unsound> {
    let mut reader = Deserializer::from_flavor(Reader(rest));
    let part = T::deserialize(&mut reader).and_then(|part| Ok((part, reader.finalize()?)));
    let (part, behind) = part.map_err(|_| Unsound("the state of a device that is none"))?;
    *rest = behind;
    Ok(part)
}
