//! The guest machine: memory map, devices, device tree
#![no_std]
