//! Guest translation-table walk, fault encoding and shadow translation tables
#![no_std]
