//! The bundle of guests that a board boots: archive and manifest
#![no_std]
