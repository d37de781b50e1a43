//! What is plugged into an emulated board, beside what it is sold with: disks, and a network card.

use std::fs::OpenOptions;
use std::path::PathBuf;

use spica_bundle::{Disk, DiskMode, DiskSource, GuestEntry, Mac, Network};

use crate::board::{BOARDS, Board};
use crate::error::{Context, Error, Result};
use crate::regular::{self, Most};

/// The switch of a guest that is described by options alone.
const SWITCH: &str = "lan";

/// Disks and a network card.
#[derive(Clone, Debug, Default)]
pub struct Plugged {
    /// Images of disks, raw; the board, and its guests, may change them.
    pub disks: Vec<PathBuf>,
    /// What QEMU connects the network card to: the value of its option `-netdev`, without an `id`.
    pub network: Option<String>,
}

impl Plugged {
    /// Refuses what the board has no place for, and files that are not there.
    ///
    /// # Errors
    /// What it is.
    pub fn check(&self, board: &Board) -> Result<()> {
        if !board.virtio && (!self.disks.is_empty() || self.network.is_some()) {
            let able: Vec<_> = BOARDS.iter().filter(|b| b.virtio).map(|b| b.name).collect();
            return Err(Error::usage(format!(
                "{} has no place for a disk or a network card; the boards that have are {}",
                board.name,
                able.join(", ")
            )));
        }
        for disk in &self.disks {
            let size = regular::size(disk, &Most::any()).map_err(|e| Error::failed(format!("--disk: {e}")))?;
            // QEMU opens it in the same way, but says less.
            let opened = OpenOptions::new().read(true).write(true).open(disk);
            opened.context(|| format!("--disk: cannot change {}", disk.display()))?;
            if disk.to_str().is_none() {
                return Err(Error::usage(format!(
                    "--disk: {} has a name that is not UTF-8; rename it",
                    disk.display()
                )));
            }
            if size == 0 || !size.is_multiple_of(512) {
                return Err(Error::usage(format!(
                    "--disk: {} has {size} bytes, which is no disk; expected a multiple of 512, such as \
                     `truncate -s 64M FILE` makes",
                    disk.display()
                )));
            }
        }
        Ok(())
    }

    /// QEMU's options. The disks are named `disk0` and so on, in the order of their addresses.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        for (number, disk) in self.disks.iter().enumerate() {
            // A comma in a name is written twice.
            let file = disk.display().to_string().replace(',', ",,");
            options.extend(["-drive".into(), format!("if=none,id=disk{number},format=raw,file={file}")]);
            options.extend(["-device".into(), format!("virtio-blk-device,drive=disk{number},serial=disk{number}")]);
        }
        if let Some(network) = &self.network {
            options.extend(["-netdev".into(), format!("{network},id=uplink")]);
            options.extend(["-device".into(), "virtio-net-device,netdev=uplink".into()]);
        }
        options
    }

    /// Gives all of it to the only guest. Says which switch gets the uplink.
    pub fn give_to(&self, guest: &mut GuestEntry) -> Option<String> {
        for number in 0..self.disks.len() {
            let name = format!("disk{number}");
            let source = DiskSource::HostDisk(name.clone());
            guest.disks.push(Disk { name, source, mode: DiskMode::ReadWrite });
        }
        self.network.as_ref()?;
        guest.options.networks.push(Network { name: SWITCH.to_string(), mac: Mac::generated(0, 0) });
        Some(SWITCH.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board;

    #[test]
    fn only_boards_with_places_take_something() {
        let network = Plugged { network: Some("user".into()), ..Plugged::default() };
        let error = network.check(board::find("cubieboard").unwrap()).unwrap_err();
        assert_eq!(
            error.message,
            "cubieboard has no place for a disk or a network card; the boards that have are virt"
        );
        network.check(board::find("virt").unwrap()).unwrap();
        Plugged::default().check(board::find("cubieboard").unwrap()).unwrap();
    }

    #[test]
    fn a_guest_gets_all() {
        let plugged = Plugged { disks: vec!["a,b".into(), "c".into()], network: Some("user".into()) };
        let options = plugged.options();
        assert_eq!(options[1], "if=none,id=disk0,format=raw,file=a,,b");
        assert_eq!(options[7], "virtio-blk-device,drive=disk1,serial=disk1");
        assert_eq!(options[8..], ["-netdev", "user,id=uplink", "-device", "virtio-net-device,netdev=uplink"]);
        let mut guest = GuestEntry::new("a", 64 << 20);
        assert_eq!(plugged.give_to(&mut guest).as_deref(), Some("lan"));
        assert_eq!(guest.disks[1].source, DiskSource::HostDisk("disk1".into()));
        assert_eq!(guest.options.networks.len(), 1);
        assert_eq!(Plugged::default().give_to(&mut guest), None);
    }
}
