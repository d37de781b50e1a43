//! A board at a serial line of this machine, on which Spica runs already: a real one. It can be asked and controlled as
//! a board that `spica run` has started.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::termios::{ControlModes, OptionalActions, tcgetattr, tcsetattr};

use crate::control::reply;
use crate::control::server::{Server, Who};
use crate::error::{Context, Error, Result};
use crate::progress::Step;
use crate::project::Project;
use crate::qemu::Session;
use crate::scratch::Scratch;

/// Bits in a second: what U-Boot leaves most boards' lines at.
pub const BAUD: u32 = 115_200;

/// How long a board may take until it says which guests it has. It may be busy printing.
const PATIENCE: Duration = Duration::from_secs(10);

/// A board at a line, which others can control as long as this is there.
#[derive(Debug)]
pub struct Line {
    /// What the board prints, and what is typed.
    pub session: Session,
    /// Its guests' names.
    pub guests: Vec<String>,
    _scratch: Scratch,
}

impl Line {
    /// The board at the line `path`, of so many bits in a second. Others find it by `label`, or by the number of this
    /// process. All that comes over the line is written to `log`, too, if there is one.
    ///
    /// # Errors
    /// If the line cannot be used, or no Spica answers there.
    pub fn attach(project: &Project, path: &Path, baud: u32, label: Option<&str>, log: Option<File>) -> Result<Self> {
        let line = open(path, baud)?;
        let problem = || format!("cannot use {}", path.display());
        let mut session = Session::over(None, line.try_clone().context(problem)?, line, None, log)?;
        let step = Step::begin(format!("asking the board at {} for its guests", path.display()));
        let answer = session.question("list", Instant::now() + PATIENCE)?;
        drop(step);
        let answer = answer.ok_or_else(|| {
            Error::failed(format!(
                "nobody answers at {}: is Spica running on the board, and its line at {baud} baud?",
                path.display()
            ))
        })?;
        let guests: Vec<String> = reply::guests(&answer)?.into_iter().map(|guest| guest.name).collect();
        let scratch = Scratch::new(&project.build("run"))?;
        let run = label.map_or_else(|| std::process::id().to_string(), str::to_string);
        // A word, as all that is told of a run.
        let board = path.display().to_string().replace(char::is_whitespace, "_");
        session.serve(Server::open(scratch.path(), Who { run, board, guests: guests.clone() })?);
        Ok(Self { session, guests, _scratch: scratch })
    }
}

/// Opens a line, for us alone, and sets it up: 8 bits, no parity, no handshake.
fn open(path: &Path, baud: u32) -> Result<OwnedFd> {
    let problem = || format!("cannot use {}", path.display());
    let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).context(problem)?;
    file.try_lock().map_err(|_| Error::failed(format!("{}: somebody else uses the line", problem())))?;
    let mut modes = tcgetattr(&file).map_err(|_| Error::failed(format!("{}: it is no serial line", problem())))?;
    modes.make_raw();
    // Whether there is a carrier is of no interest.
    modes.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
    modes.control_modes -= ControlModes::CRTSCTS;
    modes.set_speed(baud).map_err(|_| Error::usage(format!("no line has {baud} baud")))?;
    tcsetattr(&file, OptionalActions::Now, &modes).context(problem)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_line_says_so() {
        let open = |path: &str, baud| open(Path::new(path), baud).expect_err(path).message;
        assert!(open("/dev/null", BAUD).ends_with("it is no serial line"));
        assert!(open("/dev/no-such-line", BAUD).contains("cannot use /dev/no-such-line"));
    }
}
