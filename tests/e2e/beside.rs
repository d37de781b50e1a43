//! A guest that does something, and a client that looks into it meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use spica_cli::symbols;
use spica_kallsyms::Symbol;
use spica_runner::board;
use spica_runner::control::client::Board as Running;
use spica_runner::exec::{Script, exec};
use spica_runner::prepare::{Request, prepare};
use spica_runner::project::Project;

/// Runs Debian with what `give` gives it and a script, and `watch` beside it, which is given the kernel's names; the
/// script is told when that is done, by a line, if it prints something. What the guest has printed, and what `watch`
/// has found.
pub fn beside<T: Send + 'static>(
    name: &str,
    give: impl FnOnce(&Project, &mut Request),
    script: &str,
    time: Duration,
    watch: impl FnOnce(&dyn Fn() -> Running, &[Symbol]) -> T + Send + 'static,
) -> (String, T) {
    let project = Project::find(None).expect("the project");
    let label = format!("{name}-{}", std::process::id());
    let board = board::find("cubieboard").expect("a board");
    let mut request = Request { unpacked: true, label: Some(label.clone()), ..Request::new(board) };
    give(&project, &mut request);
    let script = Script::new(script, &mut request.overlay);
    let run = prepare(&project, &request).expect("a run");
    let (begins, begun) = mpsc::channel();
    let is_done = Arc::new(AtomicBool::new(false));
    let done = is_done.clone();
    let watcher = thread::spawn(move || {
        begun.recv().expect("a guest");
        let project = Project::find(None).expect("the project");
        let board = || Running::find(&project, Some(&label)).expect("the board");
        let names = symbols::names(&mut board(), 0).expect("names");
        let found = watch(&board, &names);
        done.store(true, Ordering::SeqCst);
        found
    });
    let mut printed = Vec::new();
    let outcome = exec(&run, &script.expect("a script"), time, None, false, &mut |bytes| {
        printed.extend_from_slice(bytes);
        let _ = begins.send(());
        let over = is_done.swap(false, Ordering::SeqCst) || watcher.is_finished();
        Ok(if over { b"\n".to_vec() } else { Vec::new() })
    });
    let printed = String::from_utf8_lossy(&printed).replace('\r', "");
    assert_eq!(outcome.expect("a status").status, 0, "{printed}");
    (printed, watcher.join().expect("a watcher"))
}
