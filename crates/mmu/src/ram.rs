//! The guest's RAM: where each megabyte really lies, which pages hold translated code, and who may be writing to them.
//!
//! Everything that ends in a shadow entry passes through [`Ram::host`]; it is the one place where a guest physical
//! address becomes a host physical address, and so the place that keeps guests apart.
//!
//! To write-protect a page, every writable mapping of it must be found. A full reverse map would cost memory and time
//! on each fill, so each page and each megabyte carries a *hint* instead: no writable mapping, all of them at this one
//! virtual address (in whichever spaces and views), at one of a few, or anywhere. Kernel text has one virtual address
//! in practice, and another one through which it is patched, so protecting a page costs a look or two per space;
//! "anywhere" costs a scan of what is populated. Hints only ever grow too broad: unmapping does not narrow them, a
//! protection does.
//!
//! Kernels have all of their RAM at one distance, their linear map, and processes have pages of it elsewhere. So a hint
//! may say "here, and at its linear address".

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
    At([u32; KNOWN]),
    Anywhere,
}

/// At so many virtual addresses a page is known to be mapped, and no more.
pub(crate) const KNOWN: usize = 4;
/// Less than so many pages can be known at more than one.
pub const MAX_ALIASED: u32 = 1024;
/// No number of a page or megabyte.
pub(crate) const UNUSED: u32 = u32::MAX;

/// Several virtual page (or megabyte) numbers. Known to assembly: see [`Shadow::aliases`](crate::Shadow::aliases).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Several {
    /// In what is free, the first says what is next; where nothing is, it is 0.
    pub(crate) numbers: [u32; KNOWN],
    /// How often a mapping came back at one of them.
    pub(crate) returns: u32,
}

impl Several {
    const fn new(numbers: [u32; KNOWN]) -> Self {
        Self { numbers, returns: 0 }
    }

    const fn free(next: u32) -> Self {
        Self::new([next, UNUSED, UNUSED, UNUSED])
    }
}

/// What is known of pages and megabytes that are mapped at several virtual addresses, by the number in their hints. The
/// first is where what is free begins.
struct Aliases(Vec<Several>);

impl Aliases {
    fn new() -> Self {
        Self((1..=MAX_ALIASED).map(|next| Several::free(next % MAX_ALIASED)).collect())
    }

    fn get_mut(&mut self, index: u32) -> &mut Several {
        &mut self.0[index as usize]
    }

    /// Keeps `numbers`; the hint for them.
    fn add(&mut self, numbers: [u32; KNOWN]) -> Hint {
        let [index, ..] = self.0[0].numbers;
        if index == 0 {
            return Hint::ANYWHERE;
        }
        self.0[0] = core::mem::replace(self.get_mut(index), Several::new(numbers));
        Hint(Hint::ALIASED | index)
    }

    fn remove(&mut self, index: u32) -> [u32; KNOWN] {
        let first = core::mem::replace(&mut self.0[0], Several::free(index));
        core::mem::replace(self.get_mut(index), first).numbers
    }
}

/// A mapping that comes back so often (and at twice as many, and so on) is a reason to look whether the others are
/// there still.
pub(crate) const RETURNS: u32 = 4;

impl Writers {
    const fn one(number: u32) -> Self {
        Self::At([number, UNUSED, UNUSED, UNUSED])
    }
}

/// [`Writers`] in 32 bits: virtual page numbers have 20. The numbers are known to assembly: see
/// [`Shadow::page_hints`](crate::Shadow::page_hints).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hint(pub(crate) u32);

impl Hint {
    pub(crate) const NOWHERE: Self = Self(u32::MAX);
    pub(crate) const ANYWHERE: Self = Self(u32::MAX - 1);
    /// Nowhere, and the page is protected, or absent: whoever fills must ask which.
    pub(crate) const GUARDED: Self = Self(u32::MAX - 3);
    /// Beside a number: and at the page's linear address. No other hint than these is above it.
    pub(crate) const AND_LINEAR: u32 = 1 << 20;
    /// Beside a number that is less than [`MAX_ALIASED`]: the numbers are in [`Ram::aliased`], there.
    pub(crate) const ALIASED: u32 = 1 << 30;

    /// The number, if it is one with that.
    const fn and_linear(self) -> Option<u32> {
        if self.0 & !0xf_ffff == Self::AND_LINEAR { Some(self.0 & 0xf_ffff) } else { None }
    }

    /// Where in [`Ram::aliased`] the numbers are, if they are.
    const fn aliased(self) -> Option<u32> {
        let index = self.0 ^ Self::ALIASED;
        if index < MAX_ALIASED { Some(index) } else { None }
    }

    /// Notes a mapping at `number`; `aliases` is where to keep more of them. `linear` is the page's number in the
    /// linear map, or no number.
    ///
    /// Where it is worth looking whether the page is mapped at other numbers still, the answer is all that are known.
    fn note(&mut self, number: u32, linear: u32, aliases: &mut Aliases) -> Option<[u32; KNOWN]> {
        if let Some(index) = self.aliased() {
            return self.note_several(number, index, aliases);
        }
        let known = match *self {
            Self::NOWHERE => {
                *self = Self(number);
                return None;
            }
            Self::ANYWHERE | Self::GUARDED => return None,
            Self(known) if known == number => return None,
            Self(known) if known == linear || number == linear => {
                let other = if known == linear { number } else { known };
                if self.and_linear() != Some(other) {
                    *self = Self(other | Self::AND_LINEAR);
                }
                return None;
            }
            Self(known) => match self.and_linear() {
                Some(other) if other == number => return None,
                Some(other) => [other, linear, number, UNUSED],
                None => [known, number, UNUSED, UNUSED],
            },
        };
        *self = aliases.add(known);
        None
    }

    fn note_several(&mut self, number: u32, index: u32, aliases: &mut Aliases) -> Option<[u32; KNOWN]> {
        let known = aliases.get_mut(index);
        match known.numbers.iter_mut().find(|slot| **slot == number || **slot == UNUSED) {
            Some(slot) if *slot == number => {
                known.returns += 1;
                let look = known.returns >= RETURNS && known.returns.is_power_of_two();
                look.then_some(known.numbers)
            }
            Some(slot) => {
                *slot = number;
                None
            }
            None => {
                aliases.remove(index);
                *self = Self::ANYWHERE;
                None
            }
        }
    }

    fn take(&mut self, linear: u32, aliases: &mut Aliases) -> Writers {
        let hint = core::mem::replace(self, Self::NOWHERE);
        if let Some(other) = hint.and_linear() {
            return Writers::At([other, linear, UNUSED, UNUSED]);
        }
        if let Some(index) = hint.aliased() {
            return Writers::At(aliases.remove(index));
        }
        match hint {
            Self::NOWHERE | Self::GUARDED => Writers::Nowhere,
            Self::ANYWHERE => Writers::Anywhere,
            Self(number) => Writers::one(number),
        }
    }
}

const PAGES_PER_MEGABYTE: usize = 256;
/// A distance that leads nowhere.
const NO_LINEAR_MAP: Hint = Hint(1 << 31);
/// A guest's linear map is known after a few changes: those of its decompressor, and of its first tables.
const MAX_CHANGES: u32 = 16;

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
    /// How far the linear map is from RAM, in pages, as far as it is known: what is added to a page's place among the
    /// hints. Then a hint for each page of `megabytes`.
    page_writers: Vec<Hint>,
    /// So many times more that distance may change: a change costs a look at all hints.
    changes_left: u32,
    aliased: Aliases,
    roms: [Rom; MAX_ROMS],
}

/// Guests have so many pieces of memory at most that they can read, but not simply write.
pub const MAX_ROMS: usize = 2;

/// Memory that the guest reads and executes in place, and that is never mapped writable: a store there is an access of
/// a device. While it is closed, so is a load.
#[derive(Clone, Copy, Debug, Default)]
struct Rom {
    guest: GuestPa,
    host: HostPa,
    bytes: u32,
    open: bool,
}

impl Rom {
    const fn contains(&self, pa: GuestPa) -> bool {
        pa.0.wrapping_sub(self.guest.0) < self.bytes
    }
}

impl Ram {
    pub(crate) fn new(chunks: &[Chunk]) -> Result<Self, RamError> {
        let first = chunks.iter().map(|chunk| chunk.guest.0 >> 20).min().unwrap_or(0) as usize;
        let mut ram = Self {
            first,
            megabytes: Vec::new(),
            page_writers: Vec::new(),
            changes_left: MAX_CHANGES,
            aliased: Aliases::new(),
            roms: [Rom::default(); MAX_ROMS],
        };
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
        ram.page_writers = vec![Hint::GUARDED; 1 + ram.megabytes.len() * PAGES_PER_MEGABYTE];
        ram.page_writers[0] = NO_LINEAR_MAP;
        for (present, hints) in ram.megabytes.iter().zip(ram.page_writers[1..].chunks_mut(PAGES_PER_MEGABYTE)) {
            if present.is_some() {
                hints.fill(Hint::NOWHERE);
            }
        }
        Ok(ram)
    }

    /// The first of the hints. Before it is the distance of the linear map.
    pub(crate) fn page_hints(&mut self) -> *mut u32 {
        self.page_writers[1..].as_mut_ptr().cast()
    }

    /// What is known of pages at several virtual addresses.
    pub(crate) fn aliases(&mut self) -> *mut u32 {
        self.aliased.0.as_mut_ptr().cast()
    }

    /// The hint of the page at `pa`, its number in the linear map, and where to keep more.
    fn page_hint(&mut self, pa: GuestPa) -> Option<(&mut Hint, u32, &mut Aliases)> {
        let index = ((pa.0 >> 20) as usize).wrapping_sub(self.first);
        self.megabytes.get(index)?.as_ref()?;
        let index = index * PAGES_PER_MEGABYTE + page_in_megabyte(pa);
        let linear = self.page_writers[0].0.wrapping_add(index as u32);
        Some((&mut self.page_writers[1 + index], linear, &mut self.aliased))
    }

    /// The guest's kernel has the page at `pa` at virtual page `va_page` in a section: that is what a linear map looks
    /// like. If it is another than before, what rests on that is no longer known: the answer is true, and
    /// [`Ram::renew_hints`] must be called for all hints before anybody asks who writes to another page.
    pub(crate) fn note_linear_map(&mut self, pa: GuestPa, va_page: u32) -> bool {
        let index = (pa.0 >> 12).wrapping_sub((self.first as u32) << 8);
        let distance = Hint(va_page.wrapping_sub(index));
        if self.page_writers[0] == distance || self.changes_left == 0 {
            return false;
        }
        self.changes_left -= 1;
        self.page_writers[0] = distance;
        // This page's is asked for at once.
        self.renew_hints(index as usize, 1);
        true
    }

    /// Forgets what `count` hints from number `from` on rest on a linear map. Where to go on.
    pub(crate) fn renew_hints(&mut self, from: usize, count: usize) -> Option<usize> {
        let hints = self.page_writers[1..].get_mut(from..)?;
        let count = count.min(hints.len());
        for hint in hints[..count].iter_mut().filter(|hint| hint.and_linear().is_some()) {
            *hint = Hint::ANYWHERE;
        }
        Some(from + count).filter(|_| count != 0)
    }

    /// The page at `pa`, which nothing maps writable, has become guarded, or may have ceased to be.
    fn set_guard(&mut self, pa: GuestPa) {
        let page = page_in_megabyte(pa);
        let Some(mb) = self.megabyte(pa) else { return };
        let guarded = mb.protected.contains(page) || mb.absent.contains(page);
        if let Some((hint, linear, aliased)) = self.page_hint(pa) {
            hint.take(linear, aliased);
            *hint = if guarded { Hint::GUARDED } else { Hint::NOWHERE };
        }
    }

    fn megabyte(&self, pa: GuestPa) -> Option<&Megabyte> {
        self.megabytes.get(((pa.0 >> 20) as usize).wrapping_sub(self.first))?.as_ref()
    }

    fn megabyte_mut(&mut self, pa: GuestPa) -> Option<&mut Megabyte> {
        self.megabytes.get_mut(((pa.0 >> 20) as usize).wrapping_sub(self.first))?.as_mut()
    }

    /// Where `pa` really lies; `None` where the guest has no RAM, or has given the page away, and no open ROM.
    pub(crate) fn host(&self, pa: GuestPa) -> Option<HostPa> {
        let Some(mb) = self.megabyte(pa) else {
            let rom = self.rom(pa).filter(|rom| rom.open)?;
            return Some(rom.host.wrapping_add(pa.0 - rom.guest.0));
        };
        (!mb.absent.contains(page_in_megabyte(pa))).then(|| mb.host.wrapping_add(pa.0 & 0xf_ffff))
    }

    /// Adds a ROM, closed. It covers neither RAM nor another.
    pub(crate) fn add_rom(&mut self, guest: GuestPa, host: HostPa, bytes: u32) -> bool {
        let pages = (guest.0 | host.0 | bytes) & 0xfff == 0;
        let fits = |start: u32| start.checked_add(bytes).is_some();
        let overlaps =
            |other: u32, len: u32| guest.0 < other.saturating_add(len) && other < guest.0.saturating_add(bytes);
        let free = !self.roms.iter().any(|rom| overlaps(rom.guest.0, rom.bytes))
            && !(0u32..)
                .zip(&self.megabytes)
                .any(|(at, mb)| mb.is_some() && overlaps((self.first as u32 + at) << 20, 1 << 20));
        let slot = self.roms.iter_mut().find(|rom| rom.bytes == 0);
        match slot {
            Some(slot) if pages && bytes != 0 && fits(guest.0) && fits(host.0) && free => {
                *slot = Rom { guest, host, bytes, open: false };
                true
            }
            _ => false,
        }
    }

    /// Opens or closes the ROM at `pa`; whether that changed anything. What maps it when it closes is the caller's to
    /// remove.
    pub(crate) fn set_rom_open(&mut self, pa: GuestPa, open: bool) -> bool {
        let rom = self.roms.iter_mut().find(|rom| rom.contains(pa));
        rom.is_some_and(|rom| core::mem::replace(&mut rom.open, open) != open)
    }

    fn rom(&self, pa: GuestPa) -> Option<&Rom> {
        self.roms.iter().find(|rom| rom.contains(pa))
    }

    /// Whether `pa` is in a ROM, open or not.
    pub(crate) fn is_rom(&self, pa: GuestPa) -> bool {
        self.megabyte(pa).is_none() && self.rom(pa).is_some()
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

    /// Whether a section can map the megabyte of `pa`: no page in it is protected or absent. A ROM need not fill one.
    pub(crate) fn is_uniform(&self, pa: GuestPa) -> bool {
        match self.megabyte(pa) {
            Some(mb) => mb.protected.count == 0 && mb.absent.count == 0,
            None => self.rom(pa).is_none(),
        }
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
        let hints = self.page_writers[1..].chunks_mut(PAGES_PER_MEGABYTE);
        for (mb, hints) in self.megabytes.iter_mut().zip(hints) {
            let Some(mb) = mb.as_mut().filter(|mb| mb.protected.count != 0) else { continue };
            for (word, hints) in hints.chunks_mut(32).enumerate() {
                let mut left = mb.protected.bits[word] & !mb.absent.bits[word];
                while left != 0 {
                    let hint = &mut hints[left.trailing_zeros() as usize];
                    left &= left - 1;
                    if *hint == Hint::GUARDED {
                        *hint = Hint::NOWHERE;
                    }
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
    fn hints(&mut self, pa: GuestPa) -> Option<(&mut Megabyte, &mut Aliases)> {
        let mb = self.megabytes.get_mut(((pa.0 >> 20) as usize).wrapping_sub(self.first))?.as_mut()?;
        Some((mb, &mut self.aliased))
    }

    /// A writable section at virtual megabyte `va_mb` is about to map the megabyte of `pa`.
    pub(crate) fn note_section_writer(&mut self, pa: GuestPa, va_mb: usize) {
        if let Some((mb, aliased)) = self.hints(pa) {
            mb.section_writers.note(va_mb as u32, UNUSED, aliased);
        }
    }

    /// A writable small page at virtual page `va_page` is about to map the page of `pa`. Where it is worth looking
    /// whether the page is mapped at other virtual pages still, the answer is all that are known: see [`Ram::narrow`].
    pub(crate) fn note_page_writer(&mut self, pa: GuestPa, va_page: u32) -> Option<[u32; KNOWN]> {
        let (hint, linear, aliased) = self.page_hint(pa)?;
        hint.note(va_page, linear, aliased)
    }

    /// The virtual page of `pa` in the linear map, or no number.
    pub(crate) fn linear_page(&mut self, pa: GuestPa) -> u32 {
        self.page_hint(pa).map_or(UNUSED, |(_, linear, _)| linear)
    }

    /// The page of `pa` is mapped at virtual page `va_page`, and in the linear map, if `linear` says so; nowhere else.
    pub(crate) fn narrow(&mut self, pa: GuestPa, va_page: u32, linear: bool) {
        if let Some((hint, linear_page, aliased)) = self.page_hint(pa) {
            hint.take(linear_page, aliased);
            if linear {
                hint.note(linear_page, linear_page, aliased);
            }
            hint.note(va_page, linear_page, aliased);
        }
    }

    /// Where writable sections map the megabyte of `pa`. The caller removes them all, so the hint starts afresh.
    pub(crate) fn take_section_writers(&mut self, pa: GuestPa) -> Writers {
        self.hints(pa).map_or(Writers::Nowhere, |(mb, aliased)| mb.section_writers.take(UNUSED, aliased))
    }

    /// Where writable small pages map the page of `pa`. The caller downgrades them all, so the hint starts afresh.
    pub(crate) fn take_page_writers(&mut self, pa: GuestPa) -> Writers {
        let writers = self.page_hint(pa).map_or(Writers::Nowhere, |(hint, linear, aliased)| hint.take(linear, aliased));
        self.set_guard(pa);
        writers
    }
}

const fn page_in_megabyte(pa: GuestPa) -> usize {
    (pa.0 >> 12 & 0xff) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pages_are_known_at_several_addresses_and_that_again_and_again() {
        const MORE: u32 = 3;
        let chunk = Chunk { guest: GuestPa(0x4000_0000), host: HostPa(0x8000_0000), megabytes: 8 };
        let mut ram = Ram::new(&[chunk]).unwrap();
        let page = |index| chunk.guest.wrapping_add(index << 12);
        for round in 1..=3 {
            for index in 0..MAX_ALIASED + MORE {
                for number in [round, 2 * MAX_ALIASED + index] {
                    assert_eq!(ram.note_page_writer(page(index), number), None);
                }
            }
            for index in (0..MAX_ALIASED + MORE).rev() {
                let known = Writers::At([round, 2 * MAX_ALIASED + index, UNUSED, UNUSED]);
                let expected = if index < MAX_ALIASED - 1 { known } else { Writers::Anywhere };
                assert_eq!(ram.take_page_writers(page(index)), expected, "page {index} in round {round}");
            }
        }
    }
}
