//! Virtual CPU state: register banks, exceptions, CP15, interpreter of sensitive instructions
#![no_std]
