//! The manifest as text, which the development machine writes and a board reads.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::Manifest;
use crate::guest::{DEFAULT_WEIGHT, DiskSource, FwCfgSource, GuestEntry, Restart};

impl Manifest {
    /// The manifest as text: what [`Manifest::parse`] reads back as the same guests, lines apart. What is as it would
    /// be without the key is left out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        if let Some(uplink) = &self.uplink {
            let _ = writeln!(out, "uplink = {}", quoted(uplink));
        }
        for guest in &self.guests {
            // Nothing fails that writes to a string.
            let _ = write_guest(&mut out, guest);
        }
        out
    }
}

fn write_guest(out: &mut String, guest: &GuestEntry) -> core::fmt::Result {
    let options = &guest.options;
    writeln!(out, "[[guest]]")?;
    let texts = [
        ("name", Some(&guest.name)),
        ("kernel", guest.kernel.as_ref()),
        ("initrd", guest.initrd.as_ref()),
        ("dtb", guest.dtb.as_ref()),
        ("append", Some(&guest.append).filter(|a| !a.is_empty())),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            writeln!(out, "{key} = {}", quoted(value))?;
        }
    }
    for (key, address) in [("load", guest.address.load), ("entry", guest.address.entry)] {
        if let Some(address) = address {
            writeln!(out, "{key} = {address:#x}")?;
        }
    }
    if !guest.flash.is_empty() {
        let names: Vec<_> = guest.flash.iter().map(|name| quoted(name)).collect();
        writeln!(out, "flash = [{}]", names.join(", "))?;
    }
    if let Some(system) = guest.system {
        writeln!(out, "system = \"{system}\"")?;
    }
    writeln!(out, "memory = \"{}M\"", guest.memory_bytes >> 20)?;
    if options.weight != DEFAULT_WEIGHT {
        writeln!(out, "weight = {}", options.weight)?;
    }
    if options.restart != Restart::default() {
        writeln!(out, "restart = \"{}\"", options.restart)?;
    }
    if !options.autostart {
        writeln!(out, "autostart = false")?;
    }
    if let Some(engine) = options.engine {
        writeln!(out, "engine = \"{engine}\"")?;
    }
    for (key, on) in [("console", options.console), ("rng", options.rng), ("balloon", options.balloon)] {
        if on {
            writeln!(out, "{key} = true")?;
        }
    }
    if !options.networks.is_empty() {
        write!(out, "networks = [")?;
        for (i, card) in options.networks.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(out, "{comma}{{ name = {}, mac = \"{}\" }}", quoted(&card.name), card.mac)?;
        }
        writeln!(out, "]")?;
    }
    for file in &guest.fw_cfg {
        writeln!(out, "[[guest.fw_cfg]]\nname = {}", quoted(&file.name))?;
        match &file.source {
            FwCfgSource::File(name) => writeln!(out, "file = {}", quoted(name))?,
            FwCfgSource::Text(text) => writeln!(out, "string = {}", quoted(text))?,
        }
    }
    for disk in &guest.disks {
        writeln!(out, "[[guest.disks]]\nname = {}\nmode = \"{}\"", quoted(&disk.name), disk.mode)?;
        match &disk.source {
            DiskSource::File(file) => writeln!(out, "file = {}", quoted(file))?,
            DiskSource::FirstHostDisk => writeln!(out, "host = true")?,
            DiskSource::HostDisk(name) => writeln!(out, "host = {}", quoted(name))?,
        }
    }
    Ok(())
}

/// `value` as a TOML basic string.
fn quoted(value: &str) -> String {
    let mut out = String::from('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&alloc::format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
