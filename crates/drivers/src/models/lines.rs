//! What is between devices and an interrupt controller.

use std::cell::RefCell;
use std::rc::Rc;

/// Interrupt lines, a bit each: devices raise them, the controller looks.
pub type Lines = Rc<RefCell<[u32; 4]>>;

/// Raises or lowers a line.
pub fn set_line(lines: &Lines, line: u32, raised: bool) {
    let word = &mut lines.borrow_mut()[line as usize / 32];
    *word = *word & !(1 << (line % 32)) | u32::from(raised) << (line % 32);
}
