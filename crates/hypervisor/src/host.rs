//! The host as virtual machines see it: the time, one timer, the console, interrupts.

use alloc::collections::VecDeque;
use core::ops::RangeInclusive;

use spica_machine::map::COUNTER_HZ;

use crate::arch::barrier;
use crate::board::Board;
use crate::console;
use crate::layout::HOME_ASID;

/// The escape key: Ctrl-], as telnet has it.
const ESCAPE: u8 = 0x1d;
/// Bytes of input that are kept until the guest takes them.
const INPUT_BYTES: usize = 4096;

/// See the module's text.
pub struct Host {
    board: Board,
    input: VecDeque<u8>,
    escape: bool,
    /// Host ASIDs that no VM has yet.
    asids: RangeInclusive<u8>,
    /// Guest counter ticks per host timer tick, as [`whole_and_fraction`] gives it.
    ratio: (u64, u64),
    /// The inverse of that.
    inverse: (u64, u64),
    /// Seconds since 1970 when the host's timer stood at `boot_ticks`.
    boot_time: u64,
    boot_ticks: u64,
    /// The deadline that the timer is set to; the outer `None` where it was used up.
    armed: Option<Option<u64>>,
    /// The guest's deadline behind it, with that guest's start: most of the time nothing has changed.
    armed_for: Option<(u64, Option<u64>)>,
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `over / under` as a whole number and a fraction of 2^64, rounded up.
const fn whole_and_fraction(over: u32, under: u32) -> (u64, u64) {
    let (whole, rest) = ((over / under) as u64, (over % under) as u128);
    (whole, (rest << 64).div_ceil(under as u128) as u64)
}

/// `value` times a ratio of [`whole_and_fraction`], without a division: guests ask for the time often.
fn scaled(value: u64, (whole, fraction): (u64, u64)) -> u64 {
    value.saturating_mul(whole).saturating_add(((u128::from(value) * u128::from(fraction)) >> 64) as u64)
}

impl Host {
    /// The host on `board`, whose devices are ours from now on; it is `time` seconds since 1970.
    pub fn new(mut board: Board, time: u64) -> Host {
        let frequency = board.timer.driver.frequency();
        let common = gcd(COUNTER_HZ, frequency);
        console::enable_rx_interrupt();
        if let Some(line) = board.console_line {
            board.interrupts.driver.enable(line);
        }
        board.interrupts.driver.enable(board.timer_line);
        let boot_ticks = board.timer.driver.now();
        Host {
            board,
            input: VecDeque::new(),
            escape: false,
            // 0 owns nothing, 1 is home's.
            asids: HOME_ASID as u8 + 1..=u8::MAX,
            ratio: whole_and_fraction(COUNTER_HZ / common, frequency / common),
            inverse: whole_and_fraction(frequency / common, COUNTER_HZ / common),
            boot_time: time,
            boot_ticks,
            armed: None,
            armed_for: None,
        }
    }

    /// Gives the board back.
    pub fn into_board(self) -> Board {
        self.board
    }

    /// Takes `count` ASIDs for a VM.
    pub fn take_asids(&mut self, count: u8) -> Option<RangeInclusive<u8>> {
        let (first, last) = (*self.asids.start(), *self.asids.end());
        let end = first.checked_add(count)?;
        if count == 0 || end > last {
            return None;
        }
        self.asids = end..=last;
        Some(first..=end - 1)
    }

    /// Host time, in ticks of the host's timer.
    pub fn now(&mut self) -> u64 {
        self.board.timer.driver.now()
    }

    /// Seconds since 1970, for a guest's clock.
    pub fn wall_clock(&mut self) -> u64 {
        let passed = self.now() - self.boot_ticks;
        self.boot_time + passed / u64::from(self.board.timer.driver.frequency())
    }

    /// A guest's counter, which was 0 at host time `start`.
    pub fn guest_now(&mut self, start: u64) -> u64 {
        let passed = self.now() - start;
        // Exact as long as `passed` times the ratio's denominator is below 2^64.
        scaled(passed, self.ratio)
    }

    /// Sees to an interrupt of the host when the guest's counter reaches `deadline`.
    pub fn arm_timer(&mut self, start: u64, deadline: Option<u64>) {
        if self.armed_for == Some((start, deadline)) {
            return;
        }
        self.armed_for = Some((start, deadline));
        // Rounded up by two ticks at most: never early, or the guest would be woken for nothing. No division here either.
        let at = deadline.map(|ticks| {
            let passed = scaled(ticks, self.inverse).saturating_add(2);
            start.saturating_add(passed)
        });
        if self.armed != Some(at) {
            self.board.timer.driver.set_deadline(at);
            self.armed = Some(at);
        }
    }

    /// A byte of the guest's to the console.
    pub fn console_put(&mut self, byte: u8) {
        console::write(&[byte]);
    }

    /// Acknowledges and serves all interrupts that wait.
    pub fn serve_interrupts(&mut self) {
        while let Some(line) = self.board.interrupts.driver.acknowledge() {
            if line == self.board.timer_line {
                self.board.timer.driver.acknowledge();
                self.armed = None;
                self.armed_for = None;
            } else if Some(line) == self.board.console_line {
                while let Some(byte) = console::read() {
                    if byte == ESCAPE {
                        self.escape = true;
                    } else if self.input.len() < INPUT_BYTES {
                        self.input.push_back(byte);
                    }
                }
            }
            self.board.interrupts.driver.end(line);
        }
    }

    /// The next byte of input, left in place.
    pub fn peek_input(&self) -> Option<u8> {
        self.input.front().copied()
    }

    /// Takes the byte that was looked at.
    pub fn pop_input(&mut self) {
        self.input.pop_front();
    }

    /// Whether the escape key was pressed since the last call.
    pub fn take_escape(&mut self) -> bool {
        core::mem::take(&mut self.escape)
    }

    /// Sleeps until an interrupt waits.
    pub fn wait(&mut self) {
        barrier::wait_for_interrupt();
    }
}
