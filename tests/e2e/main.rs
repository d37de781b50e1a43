//! End-to-end tests: Spica and its guests on emulated boards, by what they print.

mod balloon;
mod bare;
mod beaglebone;
mod bench;
mod bundles;
mod command_line;
mod contained;
mod drivers;
mod endings;
mod endurance;
mod fast_paths;
mod guest;
mod host_devices;
mod hostile;
mod image;
mod kernel_log;
mod life_cycle;
mod memory_modes;
mod profile;
mod remains;
mod several;
mod siege;
mod spilling;
mod switches;
mod system;
mod uboot;
