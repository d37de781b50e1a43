//! `spica top`: what guests do, as a table that is renewed.
//!
//! The board is asked for what its guests did so far (`summary` of the monitor, a line for each); what they did in
//! between is the difference. The table is the same text on a terminal and for a script.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stdout};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue, style};
use spica_runner::control::client::Board;
use spica_runner::control::reply::{self, Summaries, Summary};
use spica_runner::error::{Context, Result};

use crate::signals::Signals;

/// How long the terminal or a script waits without looking for a signal.
const NAP: Duration = Duration::from_millis(100);

/// Columns of what happens in a second, and the figures that are added up for each.
const RATES: [(&str, &[&str]); 9] = [
    ("WAKES", &["wakes"]),
    ("IRQ", &["interrupts"]),
    ("SYSCALL", &["calls"]),
    ("FAULT", &["aborts", "undefined"]),
    ("SHADOW", &["fills"]),
    ("BRANCH", &["branches"]),
    ("EMULATE", &["emulated"]),
    ("DEVICE", &["devices"]),
    ("CODE", &["code"]),
];
/// Of these, those from this one on are traps that Rust answers for the guest's kernel.
const TRAPS: usize = 3;

/// When it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// After one table.
    Once,
    /// After this time.
    Passed(Duration),
    /// When it is asked to.
    Asked,
}

/// The order of guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Order {
    /// As `spica list` has them.
    Number,
    /// Who has most of the processor first.
    Processor,
    /// Who traps most first.
    Traps,
    /// Who has most memory first.
    Memory,
    /// By name.
    Name,
}

impl Order {
    fn next(self) -> Order {
        match self {
            Order::Number => Order::Processor,
            Order::Processor => Order::Traps,
            Order::Traps => Order::Memory,
            Order::Memory => Order::Name,
            Order::Name => Order::Number,
        }
    }
}

/// A line of the table.
struct Row<'a> {
    guest: &'a Summary,
    permille: u64,
    memory_mib: u64,
    rates: [u64; RATES.len()],
}

/// What the guests did between two moments.
struct Between<'a> {
    rows: Vec<Row<'a>>,
    milliseconds: u64,
}

impl<'a> Between<'a> {
    fn new(before: &Summaries, after: &'a Summaries) -> Between<'a> {
        let ticks = after.ticks.saturating_sub(before.ticks).max(1);
        let row = |guest: &'a Summary| {
            let old = before.guests.iter().find(|old| old.name == guest.name);
            let more = |figure: &str| guest.get(figure).saturating_sub(old.map_or(0, |old| old.get(figure)));
            // Ticks that are charged to a guest may be those of a turn that began before.
            let permille = (more("ran").saturating_mul(1000) / ticks).min(1000);
            let in_a_second = |count: u64| {
                let rounded = u128::from(count) * u128::from(after.hertz) + u128::from(ticks / 2);
                u64::try_from(rounded / u128::from(ticks)).unwrap_or(u64::MAX)
            };
            let rate = |figures: &[&str]| in_a_second(figures.iter().map(|figure| more(figure)).sum());
            Row {
                guest,
                permille,
                memory_mib: guest.get("memory").saturating_sub(guest.get("given")) >> 20,
                rates: RATES.map(|(_, figures)| rate(figures)),
            }
        };
        let milliseconds = u128::from(ticks) * 1000 / u128::from(after.hertz.max(1));
        let milliseconds = u64::try_from(milliseconds).unwrap_or(u64::MAX);
        Between { rows: after.guests.iter().map(row).collect(), milliseconds }
    }

    fn sort(&mut self, order: Order, turned: bool) {
        let rows = &mut self.rows;
        match order {
            Order::Number => {}
            Order::Processor => rows.sort_by_key(|row| std::cmp::Reverse(row.permille)),
            Order::Traps => rows.sort_by_key(|row| std::cmp::Reverse(row.rates[TRAPS..].iter().sum::<u64>())),
            Order::Memory => rows.sort_by_key(|row| std::cmp::Reverse(row.memory_mib)),
            Order::Name => rows.sort_by(|a, b| a.guest.name.cmp(&b.guest.name)),
        }
        if turned {
            rows.reverse();
        }
    }

    /// As text, each line with an end.
    fn text(&self, board: &str) -> String {
        let busy: u64 = self.rows.iter().map(|row| row.permille).sum();
        let name = self.rows.iter().map(|row| row.guest.name.len()).chain(["GUEST".len()]).max().unwrap_or(0);
        let (count, end) = (self.rows.len(), if self.rows.len() == 1 { "" } else { "s" });
        let (whole, tenths, milliseconds) = (busy / 10, busy % 10, self.milliseconds);
        let mut text = format!("{board}, {count} guest{end}: {whole}.{tenths} % of {milliseconds} ms\n");
        let _ = write!(text, "{:<name$}  STATE       PROCESSOR  MEMORY", "GUEST");
        for (title, _) in RATES {
            let _ = write!(text, " {title:>7}");
        }
        text.push('\n');
        for Row { guest, permille, memory_mib, rates } in &self.rows {
            let share = format!("{}.{} %", permille / 10, permille % 10);
            let _ = write!(text, "{:<name$}  {:<10}  {share:>9}  {memory_mib:>5}M", guest.name, guest.state);
            for rate in rates {
                let _ = write!(text, " {rate:>7}");
            }
            text.push('\n');
        }
        text
    }
}

/// What is asked for by a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Leave,
    Renew,
    NextOrder,
    Turn,
}

fn wish(key: KeyEvent) -> Option<Wish> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        _ if key.kind == KeyEventKind::Release => None,
        KeyCode::Char('c') if control => Some(Wish::Leave),
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Leave),
        KeyCode::Char(' ') => Some(Wish::Renew),
        KeyCode::Char('s') => Some(Wish::NextOrder),
        KeyCode::Char('r') => Some(Wish::Turn),
        _ => None,
    }
}

/// The terminal while it shows the table: it is put back in order when this goes, whatever happens.
struct Screen;

impl Screen {
    fn open() -> Result<Screen> {
        let no = || "cannot use the terminal".to_string();
        enable_raw_mode().context(no)?;
        let screen = Screen;
        execute!(stdout(), EnterAlternateScreen, cursor::Hide).context(no)?;
        Ok(screen)
    }

    /// Shows a text, as much of it as there is room for.
    fn show(&self, text: &str) -> std::io::Result<()> {
        let (columns, lines) = size().unwrap_or((80, 24));
        let mut out = stdout().lock();
        for (at, line) in (0..lines).zip(text.lines().chain(std::iter::repeat(""))) {
            let line: String = line.chars().take(columns.into()).collect();
            queue!(out, cursor::MoveTo(0, at), style::Print(line), Clear(ClearType::UntilNewLine))?;
        }
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is left to tell if this fails.
        let _ = execute!(stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

fn ask(board: &mut Board) -> Result<Summaries> {
    reply::summaries(&board.ask("summary")?)
}

/// Shows what the guests of a board do, anew each time that `every` has passed.
///
/// # Errors
/// If the board does not answer, or the terminal cannot be used.
pub fn show(mut board: Board, every: Duration, until: Until, order: Order) -> Result<()> {
    let signals = Signals::keep().context(|| "cannot wait for Ctrl-C")?;
    let begun = Instant::now();
    let end = match until {
        Until::Passed(time) => Some(begun + time),
        Until::Once | Until::Asked => None,
    };
    let on_terminal = until != Until::Once && stdout().is_terminal() && std::io::stdin().is_terminal();
    let (mut order, mut turned) = (order, false);
    let mut before = ask(&mut board)?;
    let screen = if on_terminal { Some(Screen::open()?) } else { None };
    if let Some(screen) = &screen {
        let _ = screen.show("spica top: counting …");
    }
    let mut next = begun + every;
    loop {
        let due = end.map_or(next, |end| end.min(next));
        let mut again = None;
        while Instant::now() < due && again.is_none() {
            if signals.has_come() {
                return Ok(());
            }
            let nap = NAP.min(due.saturating_duration_since(Instant::now()));
            if screen.is_none() {
                std::thread::sleep(nap);
            } else if poll(nap).context(|| "cannot read the terminal")?
                && let Event::Key(key) = read().context(|| "cannot read the terminal")?
            {
                again = wish(key);
            }
        }
        match again {
            Some(Wish::Leave) => return Ok(()),
            Some(Wish::NextOrder) => order = order.next(),
            Some(Wish::Turn) => turned = !turned,
            Some(Wish::Renew) | None => {}
        }
        let after = ask(&mut board)?;
        let mut between = Between::new(&before, &after);
        between.sort(order, turned);
        let title = format!("{} ({})", board.who.board, board.who.run);
        let text = between.text(&title);
        let shown = match &screen {
            Some(screen) => {
                let by = order.to_possible_value().map_or(String::new(), |name| name.get_name().to_string());
                screen.show(&format!("{text}\nq: leave   s: sorted by {by}   r: the other way round   space: now"))
            }
            None => stdout().lock().write_all(text.as_bytes()),
        };
        // Whoever reads no further wants no more.
        if shown.is_err() || until == Until::Once {
            return Ok(());
        }
        if again.is_none_or(|wish| wish == Wish::Renew) {
            before = after;
            next = Instant::now() + every;
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summaries(text: &str) -> Summaries {
        reply::summaries(&text.lines().map(str::to_string).collect::<Vec<_>>()).expect("summaries")
    }

    fn both() -> (Summaries, Summaries) {
        let before = "time 1000 1000\n\
                      summary web running ran=100 wakes=5 calls=1000 fills=7 memory=134217728 given=0\n\
                      summary database waiting ran=50 calls=9 memory=268435456 given=0";
        let after = "time 3000 1000\n\
                     summary web running ran=1600 wakes=45 calls=3000 fills=8 memory=134217728 given=67108864\n\
                     summary database off ran=51 calls=9 aborts=4 undefined=2 memory=268435456 given=0";
        (summaries(before), summaries(after))
    }

    #[test]
    fn the_table_has_what_happened_in_a_second() {
        let (before, after) = both();
        let text = Between::new(&before, &after).text("virt (lab)");
        let expected = "\
virt (lab), 2 guests: 75.0 % of 2000 ms
GUEST     STATE       PROCESSOR  MEMORY   WAKES     IRQ SYSCALL   FAULT  SHADOW  BRANCH EMULATE  DEVICE    CODE
web       running        75.0 %     64M      20       0    1000       0       1       0       0       0       0
database  off             0.0 %    256M       0       0       0       3       0       0       0       0       0
";
        assert_eq!(text, expected);
    }

    #[test]
    fn guests_have_an_order() {
        let (before, after) = both();
        let mut between = Between::new(&before, &after);
        let mut names = |order, turned| -> Vec<String> {
            between.sort(order, turned);
            between.rows.iter().map(|row| row.guest.name.clone()).collect()
        };
        assert_eq!(names(Order::Memory, false), ["database", "web"]);
        assert_eq!(names(Order::Processor, false), ["web", "database"]);
        assert_eq!(names(Order::Traps, false), ["database", "web"]);
        assert_eq!(names(Order::Name, true), ["web", "database"]);
        let all: Vec<_> = std::iter::successors(Some(Order::Number), |order| Some(order.next())).take(5).collect();
        assert!(Order::value_variants().iter().all(|order| all.contains(order)));
    }

    #[test]
    fn a_board_that_starts_anew_is_no_riddle() {
        let (before, after) = both();
        let between = Between::new(&after, &before);
        assert!(between.rows.iter().all(|row| row.permille == 0 && row.rates == [0; RATES.len()]));
        let between = Between::new(&Summaries::default(), &after);
        assert_eq!(between.rows[0].permille, 533);
    }

    #[test]
    fn keys() {
        let key = |code| wish(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(key(KeyCode::Char('q')), Some(Wish::Leave));
        assert_eq!(key(KeyCode::Char('c')), None);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(wish(control_c), Some(Wish::Leave));
        assert_eq!(key(KeyCode::Char('s')), Some(Wish::NextOrder));
    }
}
