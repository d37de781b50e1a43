//! A board of the least that there must be, and what a test adds: an interrupt controller, and the core's own timer.
//! The controller is the AM335x's, which has nothing to do with that timer on a real board, but whose specifiers are
//! short.

use dtoolkit::model::DeviceTreeNode;
use spica_drivers::error::BoardError;
use spica_drivers::models::am33xx::Chip;
use spica_drivers::models::bus::Bus;
use spica_drivers::tree::Tree;

use super::{blob, node, text, words};

/// The devices of a board.
pub type Board = spica_drivers::Board<Bus>;

/// Takes over the board. `frequency` is what the timer's node says about that.
pub fn discover(frequency: Option<u32>, others: impl IntoIterator<Item = DeviceTreeNode>) -> Result<Board, BoardError> {
    let _chip = Chip::new();
    let intc = [
        text("compatible", "ti,am33xx-intc"),
        words("#interrupt-cells", &[1]),
        words("reg", &[0x4820_0000, 0x1000]),
        words("phandle", &[1]),
    ];
    let timer = [text("compatible", "arm,armv7-timer"), words("interrupts", &[13, 14, 11, 10])];
    let timer = timer.into_iter().chain(frequency.map(|hertz| words("clock-frequency", &[hertz])));
    let devices = [node("interrupt-controller@48200000", intc, []), node("timer", timer, [])];
    let tree = blob(
        [words("interrupt-parent", &[1]), words("#address-cells", &[1]), words("#size-cells", &[1])],
        devices.into_iter().chain(others),
    );
    Board::discover(Tree::new(&tree).unwrap(), "/none")
}
