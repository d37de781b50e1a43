//! An emulated board that executes pieces of code natively: QEMU with `tests/bare/stepper.S`, and the memory that it
//! shares with this process as a file.

use super::record::{Record, WORDS};
use crate::translator::{CODE_PAGES, Memory};
use spica_dbt::layout::PAGE;
use spica_runner::project::{self, Project};
use spica_tests::bare::{Guest, build};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Where the board's memory begins, and what of it the stepper has: nothing there is a piece's.
pub const RAM: u32 = 0x4000_0000;
pub const RAM_SIZE: u32 = 32 << 20;
/// As in `stepper.S`.
const PAGES: u32 = 0x4010_0000;
const KNOWN: u32 = 0x401f_f000;
const BATCH: u32 = 0x4020_0000;
const PAGE_COUNT: usize = 7;
const PAGE_BYTES: usize = PAGE_COUNT * PAGE as usize;
/// A batch takes far less than a second. Code that does not come back is a failure like any other.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the stepper gets: memory, and states to start pieces of code from; afterwards, what has become of them.
pub struct Batch {
    pub cases: Vec<Native>,
}

/// One of a batch.
pub struct Native {
    /// The seven pages.
    pub bytes: Vec<u8>,
    /// Their second-level descriptors.
    descriptors: [u32; PAGE_COUNT],
    pub pieces: Vec<Record>,
}

impl Native {
    pub fn new(memory: &Memory, pieces: Vec<Record>) -> Native {
        let descriptor = |n: usize| {
            // Small page; for all or the kernel alone; never executed where there is no code (B3.5.1).
            let rights = if memory.kernel_only[n] { 0x10 } else { 0x30 };
            let never = u32::from(n >= CODE_PAGES as usize);
            if memory.present[n] { (PAGES + n as u32 * PAGE) | rights | 2 | never } else { 0 }
        };
        Native { bytes: memory.bytes.clone(), descriptors: std::array::from_fn(descriptor), pieces }
    }
}

/// Physical address of a code word, for a patch.
pub fn code_at(va: u32) -> u32 {
    PAGES + (va - crate::translator::CODE)
}

/// A running board.
pub struct Stepper {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<u8>,
    memory: File,
    scratch: PathBuf,
}

impl Stepper {
    /// Builds the program and starts the board.
    ///
    /// # Errors
    /// If that does not work.
    pub fn start() -> Result<Stepper, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let project = Project::find(None).map_err(|e| e.to_string())?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let scratch = project.build(&format!("bare/stepper-{}-{number}", std::process::id()));
        project::create_dir(&scratch).map_err(|e| e.to_string())?;
        let stepper = Stepper::start_in(&project, &scratch);
        if stepper.is_err() {
            let _ = std::fs::remove_dir_all(&scratch);
        }
        stepper
    }

    fn start_in(project: &Project, scratch: &Path) -> Result<Stepper, String> {
        let guest = Guest { name: "stepper", parameters: &[], payload: &[] };
        let kernel = build(scratch, project, &guest).map_err(|e| e.to_string())?;
        // Not written to a disk, where there is memory that looks like one.
        let shared = Path::new("/dev/shm");
        let directory = if shared.is_dir() { shared } else { scratch };
        let name = scratch.file_name().unwrap_or_default().to_string_lossy();
        let path = directory.join(format!("spica-{name}"));
        let mut options = File::options();
        let memory = options.read(true).write(true).create(true).truncate(true).open(&path);
        let memory = memory.map_err(|e| format!("{}: {e}", path.display()))?;
        memory.set_len(RAM_SIZE.into()).map_err(|e| e.to_string())?;
        let mut command = Command::new("qemu-system-arm");
        // Blocks of one instruction: one that changes the next is followed to the letter.
        command.args(["-M", "virt,memory-backend=ram", "-cpu", "cortex-a15", "-m", "32M", "-singlestep"]);
        let file = format!("memory-backend-file,id=ram,size=32M,share=on,mem-path={}", path.display());
        command.args(["-object", &file, "-display", "none", "-monitor", "none", "-serial", "stdio", "-nodefaults"]);
        command.arg("-kernel").arg(&kernel).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| format!("cannot start qemu-system-arm: {e}"))?;
        let (stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for byte in BufReader::new(stdout).bytes().map_while(Result::ok) {
                if send.send(byte).is_err() {
                    return;
                }
            }
        });
        let stepper = Stepper { child, stdin, answers, memory, scratch: scratch.into() };
        let answer = stepper.answers.recv_timeout(PATIENCE);
        // The board has it open; nobody else needs its name.
        let _ = std::fs::remove_file(&path);
        answer.map(|_| stepper).map_err(|_| "the stepper does not start".into())
    }

    fn at(address: u32) -> u64 {
        u64::from(address - RAM)
    }

    /// What the board's CTR, SCTLR and TTBR0 hold.
    pub fn known(&self) -> [u32; 3] {
        let mut bytes = [0; 12];
        self.memory.read_exact_at(&mut bytes, Stepper::at(KNOWN)).expect("the board's memory");
        std::array::from_fn(|n| u32::from_le_bytes(bytes[4 * n..][..4].try_into().expect("four bytes")))
    }

    /// Executes a batch.
    ///
    /// # Errors
    /// If it does not come back, and what then is known.
    pub fn run(&mut self, batch: &mut Batch) -> Result<(), String> {
        let mut bytes = Vec::new();
        bytes.extend((batch.cases.len() as u32).to_le_bytes());
        for case in &batch.cases {
            bytes.extend((case.pieces.len() as u32).to_le_bytes());
            bytes.extend(case.descriptors.iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend(&case.bytes);
            bytes.extend(case.pieces.iter().flat_map(|piece| piece.0).flat_map(u32::to_le_bytes));
        }
        assert!(BATCH as usize + bytes.len() <= (RAM + RAM_SIZE) as usize, "too much for one batch");
        self.memory.write_all_at(&bytes, Stepper::at(BATCH)).expect("the board's memory");
        let sent = self.stdin.write_all(b".").and_then(|()| self.stdin.flush());
        sent.map_err(|e| format!("the board is gone: {e}"))?;
        self.answers.recv_timeout(PATIENCE).map_err(|_| "native code does not come back".to_string())?;
        self.memory.read_exact_at(&mut bytes, Stepper::at(BATCH)).expect("the board's memory");
        let mut rest = &bytes[4..];
        let mut take = |length: usize| {
            let (taken, behind) = rest.split_at(length);
            rest = behind;
            taken
        };
        for case in &mut batch.cases {
            take(4 + 4 * PAGE_COUNT);
            case.bytes.copy_from_slice(take(PAGE_BYTES));
            for piece in &mut case.pieces {
                let words = take(4 * WORDS);
                piece.0 =
                    std::array::from_fn(|n| u32::from_le_bytes(words[4 * n..][..4].try_into().expect("four bytes")));
            }
        }
        Ok(())
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}
