//! Calls, of the records of a guest with two tasks.

use spica_trace::calls::{Calls, Outcome};
use spica_trace_ring::record::{self, NOBODY};

use super::Recorder;

/// Stacks of two tasks, and their `task_struct`s.
const FIRST: (u32, u32) = (0xf000_5fb0, 0xc100_0000);
const SECOND: (u32, u32) = (0xf000_9fb0, 0xc100_2000);

fn call(recorder: &mut Recorder, time: u64, number: u32, first: u32) {
    recorder.add(time, record::SYSTEM_CALL, 0, [0, 0x1_0004, number]);
    for (n, kind) in [record::CALL_R0, record::CALL_R2, record::CALL_R4].into_iter().enumerate() {
        let value = first + 2 * n as u32;
        recorder.add(time, kind, 0, [0, value, value + 1]);
    }
    recorder.add(time, record::CALL_R6, 0, [0, first + 6, 0]);
}

fn returns(recorder: &mut Recorder, time: u64, sp: u32, to: u32, result: u32) {
    recorder.add(time, record::EXCEPTION_RETURN, 0, [0, sp, to]);
    recorder.add(time, record::RETURN_R0, 0, [0, result, 0]);
}

fn lines(recorder: &Recorder) -> String {
    let recording = recorder.recording();
    let mut text = String::new();
    Calls::new(&recording).calls.iter().for_each(|call| call.write(&recording, 0, &mut text).expect("text"));
    text
}

#[test]
fn a_call_is_of_who_returned_last_and_ends_when_that_one_returns() {
    let mut recorder = Recorder::default();
    call(&mut recorder, 5, 3, 0x100);
    returns(&mut recorder, 10, FIRST.0, 0x8000, 7);
    call(&mut recorder, 20, 322, 100);
    returns(&mut recorder, 30, SECOND.0 - 8, 0x9000, 1);
    recorder.task(35, FIRST.1, FIRST.0 - 0x100);
    call(&mut recorder, 40, 20, 0);
    returns(&mut recorder, 41, SECOND.0, 0x1_0004, 42);
    returns(&mut recorder, 50, FIRST.0, 0x1_0005, (-2_i32).cast_unsigned());
    call(&mut recorder, 60, 4, 0);
    returns(&mut recorder, 70, FIRST.0, 0x2_0000, 11);
    let expected = "   0.000000 ? read(0x100, 0x101, 0x102) = ?
   0.000015 sh[c1000000] openat(0x64, 0x65, 0x66, 0x67) = -2 ENOENT <0.000030>
   0.000035 stack[f0008000] getpid() = 0x2a <0.000001>
   0.000055 sh[c1000000] write(0, 1, 2) = ? goes on at 0x20000 <0.000010>
";
    assert_eq!(lines(&recorder), expected);
}

#[test]
fn what_was_lost_is_not_guessed() {
    let mut recorder = Recorder::default();
    returns(&mut recorder, 10, FIRST.0, 0x8000, 7);
    recorder.add(20, record::SYSTEM_CALL, 0, [0, 0x1_0004, 0x1234]);
    recorder.add(20, record::CALL_R0, 0, [0, 1, 2]);
    recorder.add(30, record::LOST, NOBODY, [0, 0, 5]);
    returns(&mut recorder, 40, FIRST.0, 0x1_0004, 1);
    let recording = recorder.recording();
    let calls = Calls::new(&recording);
    assert_eq!((calls.lost, calls.calls.len(), calls.calls[0].outcome), (5, 1, Outcome::Unknown));
    assert_eq!(lines(&recorder), "   0.000010 stack[f0004000] system call 0x1234(1, 2, ?, ?, ?, ?, ?) = ?\n");
    let mut json = String::new();
    calls.calls[0].write_json(&recording, 0, &mut json).expect("text");
    let expected = "{\"time\":0.000010000,\"task\":null,\"name\":null,\"number\":4660,\"call\":\"system call 0x1234\",\
                    \"arguments\":[1,2,null,null,null,null,null],\"result\":null,\"seconds\":null}\n";
    assert_eq!(json, expected);
}
