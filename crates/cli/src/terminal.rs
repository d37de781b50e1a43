//! Progress on standard error: silence for what is quick, a line for what is not.
//!
//! A piece of work that takes less than two seconds says nothing. A longer one says what it does as soon as the two
//! seconds are over, and how long it took when it ends.

use std::any::Any;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spica_runner::progress::Listener;

const QUICK: Duration = Duration::from_secs(2);

/// What shows progress on standard error.
pub struct StandardError;

impl Listener for StandardError {
    fn say(&self, line: &str) {
        eprintln!("spica: {line}");
    }

    fn begin(&self, what: &str) -> Box<dyn Any + Send> {
        Box::new(Step::begin(what.into()))
    }

    fn pass(&self, output: &[u8]) {
        // Nobody to tell if this fails.
        let _ = std::io::stderr().write_all(output);
    }
}

/// A piece of work that is under way; it ends when this is dropped.
struct Step {
    end: Option<Sender<()>>,
    reporter: Option<JoinHandle<()>>,
}

impl Step {
    fn begin(what: String) -> Self {
        let (end, ended) = channel();
        let reporter = std::thread::spawn(move || {
            let start = Instant::now();
            if ended.recv_timeout(QUICK) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let mut err = std::io::stderr();
            // Failures to write are of no interest: nobody reads.
            if !err.is_terminal() {
                let _ = writeln!(err, "spica: {what} …");
                let _ = ended.recv();
                let _ = writeln!(err, "spica: {what}: {} s", start.elapsed().as_secs());
                return;
            }
            loop {
                let _ = write!(err, "\rspica: {what} … {} s", start.elapsed().as_secs());
                let _ = err.flush();
                if ended.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            let _ = writeln!(err, "\rspica: {what}: {} s  ", start.elapsed().as_secs());
        });
        Self { end: Some(end), reporter: Some(reporter) }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(reporter) = self.reporter.take() {
            let _ = reporter.join();
        }
    }
}
