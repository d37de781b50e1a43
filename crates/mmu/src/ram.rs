//! The guest's RAM: where each megabyte really lies, which pages hold translated code, and who may be writing to them.
//!
//! Everything that ends in a shadow entry passes through [`Ram::host`]; it is the one place where a guest physical
//! address becomes a host physical address, and so the place that keeps guests apart.
//!
//! To write-protect a page, every writable mapping of it must be found. A full reverse map would cost memory and time
//! on each fill, so each page and each megabyte carries a *hint* instead: no writable mapping, all of them at this one
//! virtual address (in whichever spaces and views), at one of a few, or anywhere. Kernel text has one virtual address in
//! practice, and another one through which it is patched, so protecting a page costs a look or two per space; "anywhere"
//! costs a scan of what is populated. Hints only ever grow too broad: unmapping does not narrow them, a protection does.

use alloc::collections::BTreeMap;
use alloc::{vec, vec::Vec};
use spica_addr::{GuestPa, HostPa};

/// A run of guest RAM that is contiguous on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Where the guest sees it; a multiple of 1 MiB.
    pub guest: GuestPa,
    /// Where it lies on the host; a multiple of 1 MiB.
    pub host: HostPa,
    /// Its length.
    pub megabytes: u32,
}

/// A mistake in a list of [`Chunk`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RamError {
    /// The chunk's addresses are not multiples of 1 MiB, or it is empty, or it passes the end of the address space.
    BadChunk(Chunk),
    /// The chunk covers guest addresses or host memory that another chunk has already.
    Overlap(Chunk),
}

/// Where writable mappings of a page or a megabyte may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    Nowhere,
    /// Only at these virtual page (or megabyte) numbers, in any space and view; [`UNUSED`] where there are fewer.
    At([u32; SEVERAL]),
    Anywhere,
}

/// At so many virtual addresses a page is known to be mapped, and no more.
const SEVERAL: usize = 4;
/// That many pages can be known at more than one.
const MAX_ALIASED: usize = 1024;
/// No number of a page or megabyte.
pub(crate) const UNUSED: u32 = u32::MAX;

impl Writers {
    const fn one(number: u32) -> Self {
        Self::At([number, UNUSED, UNUSED, UNUSED])
    }
}

/// [`Writers`] in 32 bits: virtual page numbers have 20. The numbers are known to assembly: see
/// [`Shadow::page_hints`](crate::Shadow::page_hints).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Hint(u32);

impl Hint {
    const NOWHERE: Self = Self(u32::MAX);
    const ANYWHERE: Self = Self(u32::MAX - 1);
    /// The numbers are in [`Ram::aliased`].
    const SEVERAL: Self = Self(u32::MAX - 2);
    /// Nowhere, and the page is protected, or absent: whoever fills must ask which.
    const GUARDED: Self = Self(u32::MAX - 3);

    /// Notes a mapping at `number`; `several` is where to keep what is known of page (or megabyte) `key` at several places.
    fn note(&mut self, number: u32, key: u32, several: &mut BTreeMap<u32, [u32; SEVERAL]>) {
        match *self {
            Self::NOWHERE => *self = Self(number),
            Self::ANYWHERE | Self::GUARDED => {}
            Self::SEVERAL => {
                let room = several
                    .get_mut(&key)
                    .and_then(|known| known.iter_mut().find(|slot| **slot == number || **slot == UNUSED));
                match room {
                    Some(slot) => *slot = number,
                    None => {
                        several.remove(&key);
                        *self = Self::ANYWHERE;
                    }
                }
            }
            Self(known) if known == number => {}
            Self(known) if several.len() < MAX_ALIASED => {
                several.insert(key, [known, number, UNUSED, UNUSED]);
                *self = Self::SEVERAL;
            }
            Self(_) => *self = Self::ANYWHERE,
        }
    }

    fn take(&mut self, key: u32, several: &mut BTreeMap<u32, [u32; SEVERAL]>) -> Writers {
        match core::mem::replace(self, Self::NOWHERE) {
            Self::NOWHERE | Self::GUARDED => Writers::Nowhere,
            Self::ANYWHERE => Writers::Anywhere,
            Self::SEVERAL => several.remove(&key).map_or(Writers::Anywhere, Writers::At),
            Self(number) => Writers::one(number),
        }
    }
}

const PAGES_PER_MEGABYTE: usize = 256;

/// One megabyte of guest RAM.
#[derive(Clone)]
struct Megabyte {
    host: HostPa,
    section_writers: Hint,
    protected: PageSet,
    absent: PageSet,
}

/// Some of a megabyte's pages.
#[derive(Clone, Copy, Default)]
struct PageSet {
    bits: [u32; PAGES_PER_MEGABYTE / 32],
    count: u16,
}

impl PageSet {
    const fn contains(&self, page: usize) -> bool {
        self.bits[page / 32] >> (page % 32) & 1 != 0
    }

    /// Whether that changed anything.
    const fn set(&mut self, page: usize, member: bool) -> bool {
        if self.contains(page) == member {
            return false;
        }
        self.bits[page / 32] ^= 1 << (page % 32);
        if member {
            self.count += 1;
        } else {
            self.count -= 1;
        }
        true
    }
}

/// The guest's RAM.
pub(crate) struct Ram {
    /// The guest megabyte number of `megabytes[0]`.
    first: usize,
    megabytes: Vec<Option<Megabyte>>,
    /// A hint for each page of `megabytes`.
    page_writers: Vec<Hint>,
    /// What is known of pages and megabytes that are mapped at several virtual addresses, by their guest PA; bit 0 set for
    /// megabytes.
    aliased: BTreeMap<u32, [u32; SEVERAL]>,
}

impl Ram {
    pub(crate) fn new(chunks: &[Chunk]) -> Result<Self, RamError> {
        let first = chunks.iter().map(|chunk| chunk.guest.0 >> 20).min().unwrap_or(0) as usize;
        let mut ram = Self { first, megabytes: Vec::new(), page_writers: Vec::new(), aliased: BTreeMap::new() };
        let mut host_used = crate::bitmap::MegabyteSet::new();
        for &chunk in chunks {
            let fits = |start: u32| start & 0xf_ffff == 0 && chunk.megabytes <= 4096 - (start >> 20);
            if chunk.megabytes == 0 || !fits(chunk.guest.0) || !fits(chunk.host.0) {
                return Err(RamError::BadChunk(chunk));
            }
            let start = (chunk.guest.0 >> 20) as usize - first;
            let end = start + chunk.megabytes as usize;
            if ram.megabytes.len() < end {
                ram.megabytes.resize(end, None);
            }
            for (index, slot) in ram.megabytes[start..end].iter_mut().enumerate() {
                let host = chunk.host.wrapping_add((index as u32) << 20);
                let host_mb = (host.0 >> 20) as usize;
                if slot.is_some() || host_used.contains(host_mb) {
                    return Err(RamError::Overlap(chunk));
                }
                host_used.insert(host_mb);
                *slot = Some(Megabyte {
                    host,
                    section_writers: Hint::NOWHERE,
                    protected: PageSet::default(),
                    absent: PageSet::default(),
                });
            }
        }
        ram.page_writers = vec![Hint::GUARDED; ram.megabytes.len() * PAGES_PER_MEGABYTE];
        for (present, hints) in ram.megabytes.iter().zip(ram.page_writers.chunks_mut(PAGES_PER_MEGABYTE)) {
            if present.is_some() {
                hints.fill(Hint::NOWHERE);
            }
        }
        Ok(ram)
    }

    /// The first of the hints.
    pub(crate) fn page_hints(&mut self) -> *mut u32 {
        self.page_writers.as_mut_ptr().cast()
    }

    /// The hint of the page at `pa`, and where to keep more.
    fn page_hint(&mut self, pa: GuestPa) -> Option<(&mut Hint, &mut BTreeMap<u32, [u32; SEVERAL]>)> {
        let index = ((pa.0 >> 20) as usize).wrapping_sub(self.first);
        self.megabytes.get(index)?.as_ref()?;
        Some((&mut self.page_writers[index * PAGES_PER_MEGABYTE + page_in_megabyte(pa)], &mut self.aliased))
    }

    /// The page at `pa`, which nothing maps writable, has become guarded, or may have ceased to be.
    fn set_guard(&mut self, pa: GuestPa) {
        let page = page_in_megabyte(pa);
        let Some(mb) = self.megabyte(pa) else { return };
        let guarded = mb.protected.contains(page) || mb.absent.contains(page);
        if let Some((hint, aliased)) = self.page_hint(pa) {
            hint.take(pa.page().0, aliased);
            *hint = if guarded { Hint::GUARDED } else { Hint::NOWHERE };
        }
    }

    fn megabyte(&self, pa: GuestPa) -> Option<&Megabyte> {
        self.megabytes.get(((pa.0 >> 20) as usize).wrapping_sub(self.first))?.as_ref()
    }

    fn megabyte_mut(&mut self, pa: GuestPa) -> Option<&mut Megabyte> {
        self.megabytes.get_mut(((pa.0 >> 20) as usize).wrapping_sub(self.first))?.as_mut()
    }

    /// Where `pa` really lies; `None` where the guest has no RAM, or has given the page away.
    pub(crate) fn host(&self, pa: GuestPa) -> Option<HostPa> {
        let mb = self.megabyte(pa).filter(|mb| !mb.absent.contains(page_in_megabyte(pa)))?;
        Some(mb.host.wrapping_add(pa.0 & 0xf_ffff))
    }

    /// Where the page at `pa` really lies, and whether it is protected; `None` as for [`Ram::host`].
    pub(crate) fn page(&self, pa: GuestPa) -> Option<(HostPa, bool)> {
        let page = page_in_megabyte(pa);
        let mb = self.megabyte(pa).filter(|mb| !mb.absent.contains(page))?;
        Some((mb.host.wrapping_add(pa.0 & 0xf_f000), mb.protected.contains(page)))
    }

    pub(crate) fn is_protected(&self, pa: GuestPa) -> bool {
        self.megabyte(pa).is_some_and(|mb| mb.protected.contains(page_in_megabyte(pa)))
    }

    /// Whether a section can map the megabyte of `pa`: no page in it is protected or absent.
    pub(crate) fn is_uniform(&self, pa: GuestPa) -> bool {
        self.megabyte(pa).is_none_or(|mb| mb.protected.count == 0 && mb.absent.count == 0)
    }

    /// Protects or unprotects the page; whether that changed anything. `false` also where there is no RAM.
    pub(crate) fn set_protected(&mut self, pa: GuestPa, protect: bool) -> bool {
        let changed = self.megabyte_mut(pa).is_some_and(|mb| mb.protected.set(page_in_megabyte(pa), protect));
        // What is to be protected has writers still: see `take_page_writers`.
        if changed && !protect {
            self.set_guard(pa);
        }
        changed
    }

    pub(crate) fn unprotect_all(&mut self) {
        let hints = self.page_writers.chunks_mut(PAGES_PER_MEGABYTE);
        for (mb, hints) in self.megabytes.iter_mut().zip(hints) {
            let Some(mb) = mb.as_mut().filter(|mb| mb.protected.count != 0) else { continue };
            for (page, hint) in hints.iter_mut().enumerate() {
                if *hint == Hint::GUARDED && !mb.absent.contains(page) {
                    *hint = Hint::NOWHERE;
                }
            }
            mb.protected = PageSet::default();
        }
    }

    /// Takes the page away, or gives it back; whether that changed anything. The caller removes what maps it.
    pub(crate) fn set_absent(&mut self, pa: GuestPa, absent: bool) -> bool {
        let changed = self.megabyte_mut(pa).is_some_and(|mb| mb.absent.set(page_in_megabyte(pa), absent));
        if changed {
            self.set_guard(pa);
        }
        changed
    }

    /// The megabyte of `pa`, and what is known of aliases.
    fn hints(&mut self, pa: GuestPa) -> Option<(&mut Megabyte, &mut BTreeMap<u32, [u32; SEVERAL]>)> {
        let mb = self.megabytes.get_mut(((pa.0 >> 20) as usize).wrapping_sub(self.first))?.as_mut()?;
        Some((mb, &mut self.aliased))
    }

    /// A writable section at virtual megabyte `va_mb` is about to map the megabyte of `pa`.
    pub(crate) fn note_section_writer(&mut self, pa: GuestPa, va_mb: usize) {
        if let Some((mb, aliased)) = self.hints(pa) {
            mb.section_writers.note(va_mb as u32, pa.0 & !0xf_ffff | 1, aliased);
        }
    }

    /// A writable small page at virtual page `va_page` is about to map the page of `pa`.
    pub(crate) fn note_page_writer(&mut self, pa: GuestPa, va_page: u32) {
        if let Some((hint, aliased)) = self.page_hint(pa) {
            hint.note(va_page, pa.page().0, aliased);
        }
    }

    /// Where writable sections map the megabyte of `pa`. The caller removes them all, so the hint starts afresh.
    pub(crate) fn take_section_writers(&mut self, pa: GuestPa) -> Writers {
        let key = pa.0 & !0xf_ffff | 1;
        self.hints(pa).map_or(Writers::Nowhere, |(mb, aliased)| mb.section_writers.take(key, aliased))
    }

    /// Where writable small pages map the page of `pa`. The caller downgrades them all, so the hint starts afresh.
    pub(crate) fn take_page_writers(&mut self, pa: GuestPa) -> Writers {
        let writers = self.page_hint(pa).map_or(Writers::Nowhere, |(hint, aliased)| hint.take(pa.page().0, aliased));
        self.set_guard(pa);
        writers
    }
}

const fn page_in_megabyte(pa: GuestPa) -> usize {
    (pa.0 >> 12 & 0xff) as usize
}
