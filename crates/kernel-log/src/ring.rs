//! The ring in which a kernel keeps its messages, `struct printk_ringbuffer`, of Linux 5.10 and later.
//!
//! Its words, on a 32-bit kernel (`kernel/printk/printk_ringbuffer.h` of Linux):
//!
//! | word | what |
//! |---|---|
//! | 0 | there are 2 to the power of this many descriptors |
//! | 1, 2 | where the descriptors are, and what belongs to each: its `struct printk_info` |
//! | 3, 4 | the IDs of the newest and of the oldest descriptor |
//! | 5 | from 5.19 on: the newest that is complete |
//! | then | the texts have 2 to the power of this many bytes |
//! | | where the texts are |
//! | | the positions behind the newest and of the oldest text |
//!
//! A descriptor has three words: its ID with its state in the upper two bits, and the positions at which its text
//! begins and ends. IDs and positions count on for ever; their low bits say where something is. In front of each text
//! is its descriptor's ID.
//!
//! The kernel goes on while the ring is read. So descriptors are read before and after the texts, and a message counts
//! if its descriptor is the same: a text is only written over once its descriptor says that it is to be used again.

use spica_kallsyms::Problem;
use spica_kallsyms::tables::Memory;

use crate::place::Linear;
use crate::{Log, Record};

/// Bits of an ID.
const ID: u32 = (1 << 30) - 1;
/// The states of a descriptor whose text may be read: `desc_committed` and `desc_finalized`.
const READABLE: [u32; 2] = [1, 2];
/// Words of a descriptor.
const DESCRIPTOR: u32 = 3;
/// Bytes of a `struct printk_info`.
const INFO: u32 = 88;
/// Powers of two that the number of descriptors can be, and bytes of the texts.
const COUNTS: std::ops::RangeInclusive<u32> = 1..=20;
const SIZES: std::ops::RangeInclusive<u32> = 4..=24;
/// Messages that are read at most: the newest.
pub const MOST_RECORDS: u32 = 1 << 16;
/// Bytes that are read for that, at most.
pub const MOST_BYTES: u32 = MOST_RECORDS * (INFO + 2 * 4 * DESCRIPTOR) + (1 << 24);

/// A ring that looks sound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ring {
    linear: Linear,
    /// As many descriptors, and bytes of texts, as this has bits.
    counts: u32,
    sizes: u32,
    descriptors: u32,
    infos: u32,
    texts: u32,
    newest: u32,
    oldest: u32,
}

impl Ring {
    /// The ring at a virtual address. `None` if there is none.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn at(memory: &mut dyn Memory, linear: &Linear, address: u32) -> Result<Option<Ring>, Problem> {
        if !address.is_multiple_of(4) {
            return Ok(None);
        }
        let Some(words) = linear.words(memory, address, 10)? else { return Ok(None) };
        for rest in [6, 5] {
            let (size, texts, head, tail) = (words[rest], words[rest + 1], words[rest + 2], words[rest + 3]);
            let sound = COUNTS.contains(&words[0])
                && SIZES.contains(&size)
                && words[3..5].iter().all(|&id| id <= ID)
                && head.wrapping_sub(tail) <= 1 << size
                && linear.physical(texts, 1 << size).is_some();
            if !sound {
                continue;
            }
            let ring = Ring {
                linear: linear.clone(),
                counts: (1 << words[0]) - 1,
                sizes: (1 << size) - 1,
                descriptors: words[1],
                infos: words[2],
                texts,
                newest: words[3],
                oldest: words[4],
            };
            if ring.used() <= ring.counts + 1
                && ring.is_known(memory, ring.newest)?
                && ring.is_known(memory, ring.oldest)?
            {
                return Ok(Some(ring));
            }
        }
        Ok(None)
    }

    /// How many descriptors are in use.
    fn used(&self) -> u32 {
        (self.newest.wrapping_sub(self.oldest) & ID) + 1
    }

    /// Whether the descriptor where one of this ID would be has it.
    fn is_known(&self, memory: &mut dyn Memory, id: u32) -> Result<bool, Problem> {
        let at = self.descriptors.wrapping_add(4 * DESCRIPTOR * (id & self.counts));
        let words = self.linear.words(memory, at, 1)?;
        Ok(words.is_some_and(|words| words[0] & ID == id))
    }

    /// `count` elements of `bytes` bytes each of an array at `array`, from that of descriptor `first` on.
    fn array(
        &self,
        memory: &mut dyn Memory,
        array: u32,
        bytes: u32,
        first: u32,
        count: u32,
    ) -> Result<Vec<u8>, Problem> {
        let from = first & self.counts;
        let before = count.min(self.counts + 1 - from);
        let mut all = Vec::new();
        for (at, count) in [(from, before), (0, count - before)] {
            let Some(piece) = self.linear.bytes(memory, array.wrapping_add(bytes * at), bytes * count)? else {
                return Err("the kernel's log is damaged: it is not all in memory".into());
            };
            all.extend(piece);
        }
        Ok(all)
    }

    fn read_descriptors(&self, memory: &mut dyn Memory, first: u32, count: u32) -> Result<Vec<[u32; 3]>, Problem> {
        let bytes = self.array(memory, self.descriptors, 4 * DESCRIPTOR, first, count)?;
        let descriptors = bytes.as_chunks::<12>().0.iter();
        Ok(descriptors.map(|words| [0, 4, 8].map(|at| word(words, at))).collect())
    }

    /// Reads the last `most` messages.
    ///
    /// # Errors
    /// If the memory cannot be read, or has not all that belongs to the ring.
    pub fn read(&self, memory: &mut dyn Memory, most: u32) -> Result<Log, Problem> {
        let count = self.used().min(most).min(MOST_RECORDS);
        if count == 0 {
            return Ok(Log { records: Vec::new(), older: self.used() });
        }
        let first = self.newest.wrapping_sub(count - 1) & ID;
        let descriptors = self.read_descriptors(memory, first, count)?;
        let infos = self.array(memory, self.infos, INFO, first, count)?;
        let is_readable = |descriptor: &[u32; 3], n: u32| {
            READABLE.contains(&(descriptor[0] >> 30)) && descriptor[0] & ID == first.wrapping_add(n) & ID
        };
        let readable = |n: &(u32, &[u32; 3])| is_readable(n.1, n.0);
        let with_text = |(_, [_, begin, next]): &(u32, &[u32; 3])| begin & 1 == 0 && next & 1 == 0;
        // Texts are in the order of their descriptors, but where several processors print at a time.
        let positions: Vec<[u32; 2]> = (0..)
            .zip(&descriptors)
            .filter(readable)
            .filter(with_text)
            .map(|(_, [_, begin, next])| [*begin, *next])
            .collect();
        let texts = match positions.first() {
            None => Vec::new(),
            Some(&[base, _]) => {
                let from_base = |position: u32| position.wrapping_sub(base).cast_signed();
                let begin = positions.iter().map(|it| from_base(it[0])).min().unwrap_or(0);
                let end = positions.iter().map(|it| from_base(it[1])).max().unwrap_or(0);
                self.read_texts(memory, base.wrapping_add_signed(begin), base.wrapping_add_signed(end))?
            }
        };
        let again = self.read_descriptors(memory, first, count)?;
        let mut records = Vec::new();
        for (n, descriptor) in (0..).zip(&descriptors) {
            if !is_readable(descriptor, n)
                || again[n as usize][1..] != descriptor[1..]
                || !is_readable(&again[n as usize], n)
            {
                continue;
            }
            let Some(info) = infos.as_chunks::<{ INFO as usize }>().0.get(n as usize) else { continue };
            let long = |at| u64::from(word(info, at)) | u64::from(word(info, at + 4)) << 32;
            let length = usize::from(u16::from_le_bytes([info[16], info[17]]));
            let Some(mut text) = self.text(&texts, descriptor) else { continue };
            text.truncate(length);
            records.push(Record { number: long(0), nanoseconds: long(8), level: info[19] >> 5, text });
        }
        Ok(Log { records, older: self.used() - count })
    }

    /// The ring of texts, of which those from one position to another have been read.
    fn read_texts(&self, memory: &mut dyn Memory, begin: u32, end: u32) -> Result<Vec<u8>, Problem> {
        let mut texts = vec![0; self.sizes as usize + 1];
        // A text that does not fit behind the last one is at the beginning of the ring.
        let bytes = end.wrapping_sub(begin).min(self.sizes + 1);
        let from = begin & self.sizes;
        let before = bytes.min(self.sizes + 1 - from);
        for (at, bytes) in [(from, before), (0, bytes - before)] {
            let Some(piece) = self.linear.bytes(memory, self.texts.wrapping_add(at), bytes)? else {
                return Err("the kernel's log is damaged: it is not all in memory".into());
            };
            texts[at as usize..][..piece.len()].copy_from_slice(&piece);
        }
        Ok(texts)
    }

    /// The text of a descriptor, with what aligns the next one behind it. `None` if that is none.
    fn text(&self, texts: &[u8], &[state, begin, next]: &[u32; 3]) -> Option<Vec<u8>> {
        // Such positions stand for no text at all.
        if begin & 1 != 0 && next & 1 != 0 {
            return Some(Vec::new());
        }
        let (from, to) = (begin & self.sizes, next & self.sizes);
        let block = if begin & !self.sizes == next & !self.sizes {
            texts.get(from as usize..to as usize)?
        } else if begin.wrapping_add(self.sizes + 1) & !self.sizes == next & !self.sizes {
            // It ends with the ring, or did not fit there.
            if to == 0 { texts.get(from as usize..)? } else { texts.get(..to as usize)? }
        } else {
            return None;
        };
        let (id, text) = block.split_first_chunk::<4>()?;
        (u32::from_le_bytes(*id) == state & ID).then(|| text.to_vec())
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}
