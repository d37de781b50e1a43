//! What a part is given to work with: how long, with which seed, on how many threads; and where it says how it gets on.
//!
//! Oracles say that something is wrong by panicking, as tests do. [`attempt`] catches that and makes a message of it,
//! so that the same code serves tests and parts, and a case can be tried again while it is made smaller.

use crate::part::Failure;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// When a part is to stop.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After this time.
    Time(Duration),
    /// After so many cases: the same each time, which is what a test wants.
    Cases(u64),
}

/// One part's piece of work.
pub struct Work {
    limit: Limit,
    start: Instant,
    /// Where random parts begin.
    pub seed: u64,
    /// Threads to use.
    pub jobs: usize,
    /// A directory for what outlives the run: how far an exhaustive part has come, inputs that a fuzzer found.
    pub state: PathBuf,
    cases: AtomicU64,
    notes: Mutex<BTreeMap<String, u64>>,
    doing: Mutex<String>,
    stopped: AtomicBool,
}

impl Work {
    /// Work that begins now.
    #[must_use]
    pub fn new(limit: Limit, seed: u64, jobs: usize, state: PathBuf) -> Work {
        Work {
            limit,
            start: Instant::now(),
            seed,
            jobs: jobs.max(1),
            state,
            cases: AtomicU64::new(0),
            notes: Mutex::default(),
            doing: Mutex::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether it is time to stop.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
            || match self.limit {
                Limit::Time(time) => self.start.elapsed() >= time,
                Limit::Cases(cases) => self.done() >= cases,
            }
    }

    /// The time that is left; a long one where cases are counted.
    #[must_use]
    pub fn left(&self) -> Duration {
        match self.limit {
            Limit::Time(time) => time.saturating_sub(self.start.elapsed()),
            Limit::Cases(_) => Duration::from_secs(3600),
        }
    }

    /// When to stop.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Cases done so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.cases.load(Ordering::Relaxed)
    }

    /// More cases are done.
    pub fn count(&self, cases: u64) {
        self.cases.fetch_add(cases, Ordering::Relaxed);
    }

    /// Something that has to be covered happened so many times.
    pub fn note(&self, what: &str, times: u64) {
        let mut notes = self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match notes.get_mut(what) {
            Some(count) => *count += times,
            None => drop(notes.insert(what.into(), times)),
        }
    }

    /// What happened how many times.
    #[must_use]
    pub fn notes(&self) -> BTreeMap<String, u64> {
        self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// The numbers of all cases of a random part; those of the next seed come so far behind that no run gets there.
    #[must_use]
    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.seed << 32..u64::MAX
    }

    /// What is being done, for the progress line: "word 0x1234_0000 of 2^32".
    pub fn say(&self, doing: impl Into<String>) {
        *self.doing.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = doing.into();
    }

    /// What was said last.
    #[must_use]
    pub fn doing(&self) -> String {
        self.doing.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Runs the cases of these numbers, on all threads, until the work is over, there are no more, or one fails. `new`
    /// makes what a thread needs, `case` runs one case with it and panics if something is wrong. Each counts as `size`
    /// cases, or where that is 0 as what `case` counts itself. Gives what the threads had in the end.
    ///
    /// # Errors
    /// The number of a case that failed, and what it said.
    pub fn cases<T: Send>(
        &self,
        numbers: std::ops::Range<u64>,
        size: u64,
        new: impl Fn() -> T + Sync,
        case: impl Fn(&mut T, u64) + Sync,
    ) -> Result<Vec<T>, (u64, String)> {
        let next = AtomicU64::new(numbers.start);
        let first: Mutex<Option<(u64, String)>> = Mutex::new(None);
        let run = || {
            let mut things = new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                // Counted by number, and not by what is done: the cases are the same on any number of threads.
                let enough = matches!(self.limit, Limit::Cases(cases) if (number - numbers.start) * size >= cases);
                if number >= numbers.end || enough || self.is_over() {
                    return things;
                }
                if let Err(message) = attempt(|| case(&mut things, number)) {
                    self.stopped.store(true, Ordering::Relaxed);
                    let mut first = first.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if first.as_ref().is_none_or(|(other, _)| number < *other) {
                        *first = Some((number, message));
                    }
                    return things;
                }
                self.count(size);
            }
        };
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.jobs).map(|_| scope.spawn(run)).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<T>>()
        });
        match first.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(failed) => Err(failed),
            None => Ok(all),
        }
    }
}

thread_local! {
    /// What the panic of an attempt said; nothing while no attempt is under way.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `what`; a panic becomes a message, with the place where it was raised.
///
/// # Errors
/// The message of the panic.
pub fn attempt<T>(what: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let ours = SAID.with_borrow_mut(|said| {
                if let Some(said) = said {
                    let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
                    *said = format!("{}{place}", info.payload_as_str().unwrap_or("a panic"));
                }
                said.is_some()
            });
            if !ours {
                usual(info);
            }
        }));
    });
    SAID.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(what));
    let said = SAID.take().unwrap_or_default();
    result.map_err(|_| said)
}

/// A case's failure as an error of its part, from what [`attempt`] gave.
///
/// # Errors
/// If the attempt failed.
pub fn verdict<T>(case: &str, result: Result<T, String>) -> Result<T, Failure> {
    result.map_err(|message| Failure::of(case, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(limit: Limit) -> Work {
        Work::new(limit, 10, 2, PathBuf::new())
    }

    #[test]
    fn as_many_cases_as_wanted_are_run_once_each() {
        let work = work(Limit::Cases(100));
        let seen = work.cases(10..1000, 1, Vec::new, |seen: &mut Vec<u64>, number| seen.push(number)).unwrap();
        let mut seen: Vec<u64> = seen.into_iter().flatten().collect();
        seen.sort_unstable();
        assert_eq!(seen, (10..110).collect::<Vec<_>>());
        assert_eq!(work.done(), 100);
    }

    #[test]
    fn the_case_that_panics_is_named() {
        let work = work(Limit::Cases(100));
        let error = work.cases(10..1000, 1, || (), |(), number| assert_ne!(number, 12, "that one")).unwrap_err();
        assert_eq!(error.0, 12);
        assert!(error.1.contains("that one") && error.1.contains("work.rs"), "{}", error.1);
    }

    #[test]
    fn time_ends_it() {
        let work = work(Limit::Time(Duration::from_millis(20)));
        work.cases(work.numbers(), 1, || (), |(), _| std::thread::sleep(Duration::from_millis(1))).unwrap();
        assert!(work.is_over() && work.done() > 0);
    }

    #[test]
    fn notes_add_up() {
        let work = work(Limit::Cases(1));
        work.note("a rule", 2);
        work.note("a rule", 3);
        assert_eq!(work.notes()["a rule"], 5);
    }
}
