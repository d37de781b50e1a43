//! Dynamic binary translator: blocks, translation rules, code cache, linking
#![no_std]
