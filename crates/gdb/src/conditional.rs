//! Breakpoints with a condition that the board evaluates: a register has one of some values. GDB evaluates its own
//! conditions, and asks the board some questions for that each time; of these, it hears only if they hold.

use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, outputln};

use crate::Problem;
use crate::target::{Guest, address_of};

/// Values of a condition at most; the board has a bound for all of them.
const MOST_VALUES: usize = 8;

/// A register, R0 to R14, and the values that the guest stops for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    register: u8,
    values: Vec<u32>,
}

impl Condition {
    fn parse(words: &[&str]) -> Option<Condition> {
        let (name, values) = words.split_first()?;
        let register = match *name {
            "sp" => 13,
            "lr" => 14,
            name => name.strip_prefix('r')?.parse().ok().filter(|n| *n < 15)?,
        };
        let values: Option<Vec<u32>> = values.iter().map(|value| number(value)).collect();
        values.filter(|values| (1..=MOST_VALUES).contains(&values.len())).map(|values| Condition { register, values })
    }

    /// The register and each value.
    pub fn each(&self) -> impl Iterator<Item = (u8, u32)> {
        self.values.iter().map(|value| (self.register, *value))
    }

    /// In words.
    pub fn text(&self) -> String {
        let values: Vec<_> = self.values.iter().map(|value| format!("{value:#x}")).collect();
        format!("r{} is {}", self.register, values.join(" or "))
    }
}

/// A number as GDB's user writes it: hexadecimal behind `0x`, else decimal.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Guest<'_> {
    /// `break PLACE REGISTER VALUE…` and `unbreak PLACE`.
    pub(crate) fn break_if(&mut self, words: &[&str], out: &mut ConsoleOutput<'_>) {
        let (verb, place, rest) = match words {
            [verb, place, rest @ ..] => (*verb, *place, rest),
            _ => return outputln!(out, "what is missing is where: `break vfs_read r2 4096`, `unbreak vfs_read`"),
        };
        let pc = match (number(place), self.link.symbols()) {
            (Some(pc), _) => pc,
            (None, Some(file)) => match address_of(&file, place) {
                Some(pc) => pc,
                None => return outputln!(out, "the kernel has no function {place}"),
            },
            (None, None) => {
                return outputln!(out, "the kernel's names are not known: `monitor symbols` reads them");
            }
        };
        let done = match (verb, Condition::parse(rest)) {
            ("break", Some(condition)) => self.set_condition(pc, condition, out),
            ("unbreak", _) if rest.is_empty() => self.clear_condition(pc, out),
            ("unbreak", _) => return outputln!(out, "`unbreak` takes a place alone"),
            _ => return outputln!(out, "a condition is a register and values: `r2 4096`, `sp 0xc1401f68`, `r0 1 2 3`"),
        };
        if let Err(problem) = done {
            outputln!(out, "{problem}");
        }
    }

    fn set_condition(&mut self, pc: u32, condition: Condition, out: &mut ConsoleOutput<'_>) -> Result<(), Problem> {
        if self.conditional.contains_key(&pc) {
            self.forget_condition(pc)?;
        }
        let text = condition.text();
        self.conditional.insert(pc, condition);
        if !self.stops_always(pc)
            && let Err(problem) = self.set_conditions(pc)
        {
            self.conditional.remove(&pc);
            // What of it was set; the rest of the place's is set anew.
            let _ = self.ask(&format!("clear {pc:x}"));
            let _ = self.set_conditions(pc);
            return Err(problem);
        }
        outputln!(out, "a breakpoint at {pc:#x}, if {text}");
        Ok(())
    }

    fn clear_condition(&mut self, pc: u32, out: &mut ConsoleOutput<'_>) -> Result<(), Problem> {
        if !self.conditional.contains_key(&pc) {
            return Err(format!("there is no breakpoint with a condition at {pc:#x}"));
        }
        self.forget_condition(pc)?;
        outputln!(out, "no breakpoint with a condition at {pc:#x}");
        Ok(())
    }

    fn forget_condition(&mut self, pc: u32) -> Result<(), Problem> {
        self.conditional.remove(&pc);
        if self.stops_always(pc) {
            return Ok(());
        }
        // It is gone whatever the board says; system calls that are caught there are caught still.
        let _ = self.ask(&format!("clear {pc:x}"));
        self.set_conditions(pc)
    }
}
