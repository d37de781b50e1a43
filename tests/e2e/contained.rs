//! Spica fails while it works for a guest: that guest is over, and nobody else notices.

use spica_tests::Machine;
use spica_tests::several::{Board, Part, value};

/// What `crates/hypervisor/src/fault.rs` can do: a failed check, no memory, an access to nowhere, the end of the stack,
/// an undefined instruction.
const FAULTS: [u32; 5] = [0, 1, 2, 3, 4];
/// A failed check while something of all guests' is half changed.
const SHARED: u32 = 5;
/// On Spica's command line: guests may ask for faults.
const ALLOWED: &str = "spica.faults";
/// How Spica says so.
const FAILED: &str = "stopped by an internal error: ";

/// Guests that fail one after the other, beside one that watches over its memory and its clock, and one that looks for
/// what passes from one to another in the core.
fn others_go_on(machine: Machine) {
    let names = FAULTS.map(|fault| format!("fails{fault}"));
    let parameters = FAULTS.map(|fault| [20 + 15 * fault, fault]);
    let mut parts: Vec<_> =
        names.iter().zip(&parameters).map(|(name, list)| Part::new(name, "failing", list)).collect();
    // While unprivileged code runs, QEMU's vexpress-a9 takes SCTLR.A from the bank of the other security state.
    let looks = [0, 40, u32::from(machine == Machine::VexpressA9)];
    parts.push(Part::new("witness", "witness", &[200]));
    parts.push(Part::new("visitor", "leak", &looks));
    // Whoever failed is not started again, whatever the manifest says.
    parts[0] = parts[0].clone().with("restart", "\"always\"");
    let mut board = Board::start_with(machine, &parts, true, ALLOWED);

    for name in &names {
        board.spica(&format!("guest {name}: {FAILED}"), 1);
    }
    let before = board.console("witness").lines().filter(|line| line.starts_with("seen")).count();
    board.line("witness", "seen", before + 2);
    let console = board.console("witness").to_string();
    let (complete, _) = console.rsplit_once('\n').expect("complete lines");
    for line in complete.lines().filter(|line| line.starts_with("seen")) {
        assert_eq!((value(line, "wrong"), value(line, "backwards")), (0, 0), "{line}\n{}", board.tail());
    }
    let line = board.line("visitor", "looked", 1);
    for what in ["strange", "rights", "alignment", "reserved", "foreign", "window", "reached"] {
        assert_eq!(value(&line, what), 0, "{line}\n{}", board.tail());
    }
    assert_eq!(board.tell("check"), ["intact"], "{}", board.tail());

    // The monitor says what there is to say of them, and does nothing with them.
    for name in &names {
        assert_eq!(board.console(name), "up\n");
        assert_eq!(board.state(name), "failed");
        for verb in ["start", "reset", "stop", "pause", "resume", "shutdown", "regs", "stats"] {
            let problem = board.ask(&format!("{verb} {name}")).expect_err(verb);
            assert!(problem.contains("stopped by an internal error"), "{verb}: {problem}");
        }
    }
    let figures = board.tell("stats");
    assert!(figures.iter().any(|line| line.starts_with("stat witness ")), "{figures:?}");
    assert!(!figures.iter().any(|line| line.starts_with("stat fails")), "{figures:?}");
    assert!(board.tell("regs").iter().any(|line| line.contains("witness")));
    board.tell("reset witness");
    board.line("witness", "up", 2);
    assert!(!board.spica.iter().any(|line| line.starts_with("panic")), "{}", board.tail());
}

/// What ends the board: a failure with nobody left who could go on, and one in the middle of what belongs to all.
fn board_ends(machine: Machine) {
    let alone = [20, 0];
    let ended = [20, 0];
    let mut board = Board::start_with(machine, &[Part::new("alone", "failing", &alone)], true, ALLOWED);
    board.spica("panic: a guest asked for it", 1);
    board.until("end of the board", |board| board.halted.then_some(()));

    // The other is off by itself, and stays so.
    let parts = [Part::new("fails", "failing", &[60, 0]), Part::new("off", "end", &ended)];
    let mut board = Board::start_with(machine, &parts, true, ALLOWED);
    board.spica("panic: a guest asked for it", 1);
    board.until("end of the board", |board| board.halted.then_some(()));

    let parts = [Part::new("fails", "failing", &[20, SHARED]), Part::new("witness", "witness", &[200])];
    let mut board = Board::start_with(machine, &parts, true, ALLOWED);
    board.spica("panic: a guest asked for it, and something of all guests' is half changed", 1);
    board.until("end of the board", |board| board.halted.then_some(()));
}

/// Nobody can ask where the command line does not say so: the firmware knows no such function.
fn not_for_everybody(machine: Machine) {
    let mut board = Board::start(machine, &[Part::new("asks", "failing", &[0, 0])], true);
    assert_eq!(value(&board.line("asks", "answer", 1), "r0"), u32::MAX);
}

macro_rules! boards {
    ($($module:ident: $machine:ident;)*) => { $(
        mod $module {
            use super::*;

            #[test]
            fn others_go_on() {
                super::others_go_on(Machine::$machine);
            }

            #[test]
            fn board_ends() {
                super::board_ends(Machine::$machine);
                super::not_for_everybody(Machine::$machine);
            }
        }
    )* };
}

boards! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9;
}
