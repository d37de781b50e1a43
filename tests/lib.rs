//! End-to-end tests on emulated boards.
