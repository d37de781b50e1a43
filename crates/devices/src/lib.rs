//! Device models of the guest machine: no knowledge of the host
#![no_std]
