//! Boots boards, and measures on them: everything that the `spica` command, the end-to-end tests and `spica prove`
//! share.
//!
//! Nothing here reads arguments or knows a terminal: requests are values, results are returned, and what goes on
//! meanwhile a [`progress::Listener`] hears.
//!
//! The way of a run: [`prepare`] turns a [`prepare::Request`] into a [`prepare::Run`], for which it fetches the guest
//! ([`guest`], by [`apt`]), makes its initial RAM disk ([`initramfs`], [`modules`]), builds the hypervisor ([`image`])
//! and packs the bundle. [`qemu`] starts a [`board`] with it and gives its [`console`] as events, which either a person
//! sees or a command's caller ([`exec`]). While it runs, others may ask it things ([`control`]). Several guests
//! ([`guests`], [`files`], [`fit`]) can also be packed for a real board ([`pack`]). Whatever is read whole is a
//! [`regular`] file, and each run has a [`scratch`] directory. [`project`] says where all that is, for the sources and
//! for an [`install`]ed command, and [`needed`] which programs of the distribution are used.
//!
//! [`mod@bench`] and [`profile`] measure: they plan boots, start them with QEMU's counting plugin, and collect what is
//! counted. What the figures mean is the business of the crates `spica-bench` and `spica-profile`. The model of time
//! needs a newer QEMU than the rest ([`emulator`]), and so does the checker of what QEMU forgives ([`silicon`]).

pub mod apt;
pub mod attacks;
pub mod bare;
pub mod bench;
pub mod board;
pub mod console;
pub mod control;
pub mod debian;
pub mod emulator;
pub mod endurance;
pub mod error;
pub mod exec;
pub mod files;
pub mod fit;
pub mod guest;
pub mod guests;
pub mod image;
pub mod initramfs;
pub mod install;
pub mod line;
pub mod modules;
pub mod names;
pub mod needed;
pub mod pack;
pub mod plugged;
pub mod prepare;
pub mod process;
pub mod profile;
pub mod progress;
pub mod project;
pub mod qemu;
pub mod regular;
pub mod scratch;
pub mod silicon;
pub mod spica;
pub mod system;
pub mod uimage;
pub mod unpacked;
