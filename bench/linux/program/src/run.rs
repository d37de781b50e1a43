//! One run of a program, timed.

use core::ffi::CStr;

use spica_freestanding::Arguments;
use spica_freestanding::linux::{exit, fork};
use spica_freestanding::output::{ERROR, OUTPUT, line};

use crate::linux::{exec, now, open, open_file, redirect, wait};
use crate::usage;

/// The exit status for a program that cannot be started, as shells have it.
const NOT_STARTED: u32 = 127;

/// Runs the program that the arguments name, and prints nanoseconds and exit status.
pub fn run(arguments: &Arguments) -> ! {
    let (mut input, mut target, mut at) = (None, None, 2);
    while let Some(argument) = arguments.get(at) {
        let file = match argument.to_bytes() {
            b"-i" => &mut input,
            b"-o" => &mut target,
            _ => break,
        };
        *file = arguments.get(at + 1);
        at += 2;
    }
    let Some(program) = arguments.get(at) else { usage("stopwatch run [-i FILE] [-o FILE] PROGRAM...") };
    // The files are opened before the clock starts, so that a missing one is not taken for the program's failure.
    let opened = |path: Option<&CStr>, flags| path.map(|p| open_file(p, flags));
    let input = opened(input, open::READ);
    let target = opened(target, open::WRITE | open::CREATE | open::TRUNCATE);

    let start = now();
    let child = fork();
    if child == 0 {
        if let Some(file) = input {
            redirect(file, 0);
        }
        if let Some(file) = target {
            redirect(file, 1);
        }
        let error = exec(program, arguments.from(at), arguments.environment());
        line(ERROR, format_args!("stopwatch: {} cannot be started: error {}", program.to_str().unwrap_or("?"), -error));
        exit(NOT_STARTED);
    }
    let status = wait(child);
    let end = now();
    line(OUTPUT, format_args!("{} {status}", end - start));
    exit(0);
}
