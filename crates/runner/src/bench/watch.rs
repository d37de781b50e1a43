//! A board that runs to its end, its lines read on the way.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::console::{Ending, Lines};
use crate::error::{Error, Result};
use crate::prepare::Run;
use crate::qemu::{Event, Session};
use crate::spica::{HALTED, failure};

/// How much of the console an error shows.
const TAIL_LINES: usize = 25;
/// How long a kernel that panics, or a guest that has said its last line, may go on talking.
const LAST_WORDS: Duration = Duration::from_secs(20);

/// Whether a board is wanted any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// There is more to come.
    Continue,
    /// This was the guest's last line.
    Last,
    /// This was the last line that anybody wants: nothing more is waited for.
    Enough,
}

/// Boots a run and reads the guest's lines until it ends, well or not; `line` is called with each, and `spica` gets
/// the lines of Spica.
///
/// A guest that said its last line ends well, whatever it does then: boards cannot all be switched off. Under Spica it
/// is waited for all the same, for what Spica has to say at the end.
///
/// # Errors
/// If the guest ends before it said its last line, or prints nothing for as long as `stall`.
pub fn watch(
    run: &Run,
    log: &Path,
    stall: Duration,
    verbose: bool,
    spica: &mut Vec<String>,
    line: &mut dyn FnMut(&str) -> Flow,
) -> Result<()> {
    let mut session = Session::start(run.board, &run.boot(), Some(log), verbose)?;
    let mut lines = Lines::default();
    let (mut deadline, mut last, mut panicked) = (Instant::now() + stall, false, false);
    let mut enough = false;
    let ended = |session: &Session, why: String| Err(Error::failed(why).with_details(session.console(TAIL_LINES)));
    loop {
        match session.next(None, Some(deadline))? {
            Event::Guest(bytes) => {
                lines.feed(&bytes, |text| match line(text) {
                    Flow::Continue => {}
                    Flow::Last => last = true,
                    Flow::Enough => enough = true,
                });
                if enough || last && run.native {
                    return Ok(());
                }
                if !panicked {
                    deadline = Instant::now() + if last { LAST_WORDS } else { stall };
                }
            }
            Event::Spica(text) if text == HALTED => {
                return match failure(spica, &run.names) {
                    Some(report) => ended(&session, format!("Spica stopped the guest: {}", report[0])),
                    None if last => Ok(()),
                    None => ended(&session, "the guest switched itself off too early".into()),
                };
            }
            Event::Spica(text) => spica.push(text),
            Event::Ending(Ending::Panic) => {
                panicked = true;
                deadline = Instant::now() + LAST_WORDS;
            }
            Event::Ending(Ending::Off) if run.native => {
                return ended(&session, "the guest switched itself off too early".into());
            }
            Event::Ending(Ending::Restart) => return ended(&session, "the guest restarted".into()),
            Event::Quiet if panicked => return ended(&session, "the guest's kernel panicked".into()),
            Event::Quiet if last => return Ok(()),
            Event::Quiet => {
                let why = format!("the guest printed nothing for {} s", stall.as_secs());
                return Err(Error::timeout(why).with_details(session.console(TAIL_LINES)));
            }
            Event::Exited(_) if panicked => return ended(&session, "the guest's kernel panicked".into()),
            Event::Exited(_) if last => return Ok(()),
            Event::Exited(status) => {
                let why = format!("QEMU ended ({status})");
                let details = format!("{}\n{}", session.console(TAIL_LINES), session.said());
                return Err(Error::failed(why).with_details(details));
            }
            Event::Ending(_) | Event::Input(_) => {}
        }
    }
}
