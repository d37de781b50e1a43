//! Controlling a board that runs, from another terminal.
//!
//! `spica run` listens on a socket in the directory of its run, below `build/run/`, for as long as the board is up. Who
//! connects ([`client`]) sends commands of Spica's monitor, a line each; [`server`] asks the board ([`answers`]) and
//! passes on what it says, line by line, with `ok` or `error MESSAGE` at the end. Two commands are not the monitor's:
//!
//! * `who` asks the run itself, not the board: `run NAME PID BOARD GUEST…`;
//! * `attach GUEST` makes the connection a terminal of the board's UART, on which that guest is shown; it ends with the
//!   connection.
//!
//! [`reply`] makes sense of the lines, as tables and as JSON.

pub mod answers;
pub mod client;
pub mod reply;
pub mod server;
mod socket;

#[cfg(test)]
mod tests;
