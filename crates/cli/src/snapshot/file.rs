//! The file of a snapshot.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `MAGIC` |
//! | 4 | `FORMAT`, the lowest byte first, as in all numbers |
//! | 4 | the length of what follows |
//! | | what the snapshot is of: [`About`], as JSON |
//! | | deflated: the length of the state (4), the state, the number of disks (4), pages of memory, pages of each disk |
//! | 32 | SHA-256 of all before |
//!
//! A page is its address (4) and 4,096 bytes; behind the last one of memory and of each disk, `END` stands for an
//! address. The state is as the board gave it, and pages are in the order of their addresses. The whole file is looked
//! at before anything of it is used: a board is asked nothing if one bit is not as it was.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use spica_runner::error::{Context, Error, Result};
use spica_snapshot::{PAGE, STATE_BYTES};

const MAGIC: &[u8; 8] = b"SPICASNP";
/// The version of this format. That of the state is the board's to check.
const FORMAT: u32 = 2;
/// Bytes of the checksum at the end.
const SUM: usize = 32;
/// Bytes of [`About`] at most.
const ABOUT: usize = 4096;
/// Where a page's address would be, behind the last page.
const END: u32 = u32::MAX;
/// Disks that a guest has at most.
const DISKS: u32 = 32;

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The guest's name.
    pub guest: String,
    /// The kind of board that it ran on.
    pub board: String,
    /// Its memory in MiB.
    pub memory_mib: u32,
    /// Pages of its disks that it has written.
    pub disk_pages: u32,
}

/// Pages by their addresses: of memory, those that are not blank; of a disk, those that the guest has written.
pub type Pages = BTreeMap<u32, Box<[u8; PAGE]>>;

/// What is saved of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What it is of.
    pub about: About,
    /// The state of its processor and devices, which the board alone understands.
    pub state: Vec<u8>,
    /// Its memory.
    pub pages: Pages,
    /// What it has written to each of its disks.
    pub disks: Vec<Pages>,
}

impl Snapshot {
    /// Writes it.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn encode(&self) -> std::io::Result<Vec<u8>> {
        let about = serde_json::to_vec(&self.about)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend((about.len() as u32).to_le_bytes());
        bytes.extend(about);
        let mut body = DeflateEncoder::new(bytes, Compression::fast());
        body.write_all(&(self.state.len() as u32).to_le_bytes())?;
        body.write_all(&self.state)?;
        body.write_all(&(self.disks.len() as u32).to_le_bytes())?;
        for pages in [&self.pages].into_iter().chain(&self.disks) {
            for (address, page) in pages {
                body.write_all(&address.to_le_bytes())?;
                body.write_all(&page[..])?;
            }
            body.write_all(&END.to_le_bytes())?;
        }
        let mut bytes = body.finish()?;
        let sum = Sha256::digest(&bytes);
        bytes.extend(sum);
        Ok(bytes)
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence about the file.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, String> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("is no snapshot: `spica save` writes one")?;
        let damaged =
            || "is damaged: it is not what `spica save` wrote; only an undamaged copy can be restored".to_string();
        let (format, rest) = number(rest).ok_or_else(damaged)?;
        if format != FORMAT {
            return Err(format!(
                "has version {format} of the format, and this Spica reads version {FORMAT}; restore it with the Spica \
                 that saved it"
            ));
        }
        let (before, sum) = bytes.split_at_checked(bytes.len().saturating_sub(SUM)).ok_or_else(damaged)?;
        if Sha256::digest(before)[..] != *sum {
            return Err(damaged());
        }
        let (len, rest) = number(&rest[..rest.len() - SUM]).ok_or_else(damaged)?;
        let (about, body) =
            rest.split_at_checked(len as usize).filter(|_| len as usize <= ABOUT).ok_or_else(damaged)?;
        let about: About = serde_json::from_slice(about).map_err(|_| damaged())?;
        // Whoever made the checksum may have made anything: no more is unpacked than a guest can have.
        let most = ((u64::from(about.memory_mib) << 20) + MOST_FLASH) / PAGE as u64 + u64::from(about.disk_pages);
        let most = 8 + STATE_BYTES as u64 + 4 * u64::from(1 + DISKS) + most * (PAGE as u64 + 4);
        let mut body = DeflateDecoder::new(body).take(most + 1);
        let (state, pages, disks) = read_body(&mut body).ok_or_else(damaged)?;
        Ok(Self { about, state, pages, disks })
    }

    /// Writes it to a file, which is there as a whole or not at all.
    ///
    /// # Errors
    /// If that cannot be done.
    pub fn write(&self, path: &Path) -> Result<usize> {
        let problem = || format!("cannot write {}", path.display());
        let bytes = self.encode().context(problem)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".part");
        std::fs::write(&beside, &bytes).and_then(|()| std::fs::rename(&beside, path)).context(problem)?;
        Ok(bytes.len())
    }

    /// Reads one from a file.
    ///
    /// # Errors
    /// If there is none, or it is not sound.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).context(|| format!("cannot read {}", path.display()))?;
        Self::decode(&bytes).map_err(|problem| Error::failed(format!("{} {problem}", path.display())))
    }
}

/// Bytes of flash at most: two banks.
const MOST_FLASH: u64 = 128 << 20;

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number), rest))
}

/// The state and the pages.
fn read_body(body: &mut impl Read) -> Option<(Vec<u8>, Pages, Vec<Pages>)> {
    let len = read_number(body)? as usize;
    let mut state = vec![0; Some(len).filter(|&len| len <= STATE_BYTES)?];
    body.read_exact(&mut state).ok()?;
    let disks = read_number(body).filter(|&disks| disks <= DISKS)?;
    let pages = read_pages(body)?;
    let disks = (0..disks).map(|_| read_pages(body)).collect::<Option<_>>()?;
    // Nothing follows.
    (body.read(&mut [0]).ok()? == 0).then_some((state, pages, disks))
}

fn read_number(body: &mut impl Read) -> Option<u32> {
    let mut number = [0; 4];
    body.read_exact(&mut number).ok()?;
    Some(u32::from_le_bytes(number))
}

fn read_pages(body: &mut impl Read) -> Option<Pages> {
    let mut pages = BTreeMap::new();
    loop {
        let address = match read_number(body)? {
            END => return Some(pages),
            address => address,
        };
        let mut page = Box::new([0; PAGE]);
        body.read_exact(&mut page[..]).ok()?;
        let follows = pages.last_key_value().is_none_or(|(&last, _)| last < address);
        if !follows || !address.is_multiple_of(PAGE as u32) {
            return None;
        }
        pages.insert(address, page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let about = About { guest: "web".into(), board: "cubieboard".into(), memory_mib: 16, disk_pages: 2 };
        let page = |byte: u8| Box::new([byte; PAGE]);
        let pages = BTreeMap::from([(0x4000_0000, page(1)), (0x4000_2000, page(2)), (0x40ff_f000, page(3))]);
        let disks = vec![BTreeMap::new(), BTreeMap::from([(0, page(4)), (0x10_0000, page(0))])];
        Snapshot { about, state: b"the state".to_vec(), pages, disks }
    }

    #[test]
    fn a_file_gives_what_went_into_it() {
        let bytes = snapshot().encode().unwrap();
        assert!(bytes.len() < PAGE);
        assert_eq!(Snapshot::decode(&bytes), Ok(snapshot()));
    }

    #[test]
    fn one_bit_or_one_byte_less_is_damage() {
        let bytes = snapshot().encode().unwrap();
        for at in 0..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[at] ^= 1 << (at % 8);
            let problem = Snapshot::decode(&spoilt).unwrap_err();
            let expected = match at {
                0..8 => "is no snapshot",
                8..12 => "of the format, and this Spica reads version 2",
                _ => "is damaged",
            };
            assert!(problem.contains(expected), "{at}: {problem}");
            assert!(Snapshot::decode(&bytes[..at]).is_err());
        }
    }

    /// A checksum can be made by anybody.
    #[test]
    fn a_checksum_alone_makes_no_snapshot() {
        let sealed = |mut bytes: Vec<u8>| {
            let sum = Sha256::digest(&bytes);
            bytes.extend(sum);
            Snapshot::decode(&bytes)
        };
        let good = snapshot().encode().unwrap();
        let good = &good[..good.len() - SUM];
        assert!(sealed(good.to_vec()).is_ok());
        // Spoilt anywhere behind the magic, it is refused or understood: it does no harm.
        for at in 12..good.len() {
            let mut spoilt = good.to_vec();
            spoilt[at] = spoilt[at].wrapping_add(0x55);
            let _ = sealed(spoilt);
            let _ = sealed(good[..at].to_vec());
        }
        // More pages than the guest has room for.
        let mut many = snapshot();
        many.about.memory_mib = 0;
        many.pages = (0..40_000u32).map(|n| (n * PAGE as u32, Box::new([0; PAGE]))).collect();
        assert!(Snapshot::decode(&many.encode().unwrap()).unwrap_err().starts_with("is damaged"));
        let mut many = snapshot();
        many.disks[0] = (0..40_000u32).map(|n| (n * PAGE as u32, Box::new([0; PAGE]))).collect();
        assert!(Snapshot::decode(&many.encode().unwrap()).unwrap_err().starts_with("is damaged"));
        let mut many = snapshot();
        many.disks.resize(40, BTreeMap::new());
        assert!(Snapshot::decode(&many.encode().unwrap()).unwrap_err().starts_with("is damaged"));
        // Pages that do not follow each other.
        let mut odd = snapshot();
        odd.pages.insert(0x4000_0010, Box::new([0; PAGE]));
        assert!(Snapshot::decode(&odd.encode().unwrap()).is_err());
    }
}
