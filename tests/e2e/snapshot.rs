//! Snapshots: a guest that is put back goes on from there, on its board or on another run of it; what does not fit or
//! is damaged is refused, and harms nobody.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use object::{Object, ObjectSymbol};
use spica_cli::debugger::choose;
use spica_cli::snapshot::file::Snapshot;
use spica_cli::snapshot::{restore, save};
use spica_runner::control::client::Board as Running;
use spica_runner::project::{HOME_VARIABLE, Project};
use spica_tests::Machine;
use spica_tests::several::{BLANK, Board, Part, value};

use crate::install;

/// A guest that ticks every two milliseconds, for longer than any test.
const TICKING: [u32; 3] = [125_000, 1 << 30, 0];
/// One that ticks a thousand times, every ten, and says how that was.
const COUNTING: [u32; 3] = [625_000, 1000, 0];

/// A board that answers commands.
struct Saved {
    board: Board,
    run: String,
}

impl Saved {
    fn start(machine: Machine, parts: &[Part<'_>]) -> Saved {
        Self::start_with(machine, parts, "")
    }

    /// The same with words on Spica's command line.
    fn start_with(machine: Machine, parts: &[Part<'_>], words: &str) -> Saved {
        let mut board = Board::start_with(machine, parts, false, words);
        let run = board.serve();
        Saved { board, run }
    }

    /// Does something with a connection to the board.
    #[track_caller]
    fn with<T: Send + 'static>(&mut self, what: &str, act: impl FnOnce(&mut Running) -> T + Send + 'static) -> T {
        let run = self.run.clone();
        self.board.meanwhile(what, move || {
            let project = Project::find(None).expect("the project");
            act(&mut Running::find(&project, Some(&run)).expect("the board"))
        })
    }

    #[track_caller]
    fn save(&mut self, name: &'static str) -> Result<Snapshot, String> {
        self.with("a snapshot", move |board| {
            let guest = choose(board, Some(name)).expect("the guest");
            save(board, guest).map_err(|error| error.message)
        })
    }

    #[track_caller]
    fn restore(&mut self, name: &'static str, snapshot: &Snapshot) -> Result<(), String> {
        let snapshot = snapshot.clone();
        self.with("a guest that is put back", move |board| {
            let guest = choose(board, Some(name)).expect("the guest");
            restore(board, guest, &snapshot).map_err(|error| error.message)
        })
    }

    /// Runs the command: what it said, on standard output or else on standard error.
    #[track_caller]
    fn spica(&mut self, arguments: &[&str]) -> Result<String, String> {
        let arguments: Vec<String> = arguments.iter().map(|word| word.to_string()).collect();
        let run = self.run.clone();
        self.board.meanwhile("the command", move || {
            let project = Project::find(None).expect("the project");
            let mut command = Command::new(install::command(&project));
            command.args(arguments).args(["--run", &run]).env(HOME_VARIABLE, project.root()).stdin(Stdio::null());
            let output = command.output().expect("the command");
            let text = |bytes| String::from_utf8(bytes).expect("text");
            if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
        })
    }

    /// Waits until guest `name` has ticked `more` times, or has made as many system calls.
    #[track_caller]
    fn goes_on(&mut self, name: &str, more: u64) {
        let steps = |board: &mut Board| {
            let counters = board.counters(name);
            counters["guest.interrupts"] + counters["trap.system-call"]
        };
        let before = steps(&mut self.board);
        self.board.poll(&format!("{more} more steps of {name}"), |board| steps(board) >= before + more);
    }

    /// A guest that counts has come to its end for the `time`th time, and has lost and gained no time.
    #[track_caller]
    fn has_slept(&mut self, name: &str, time: usize) {
        let line = self.board.line(name, "slept", time);
        let of = |key| value(&line, key);
        assert_eq!((of("ticks"), of("backwards"), of("early")), (1000, 0, 0), "{line}");
        assert_eq!(of("elapsed") / 625_000, 1000, "{line}");
    }
}

/// A file of that name for a test.
fn file(name: &str) -> PathBuf {
    let project = Project::find(None).expect("the project");
    let directory = project.build("snapshots");
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(format!("{name}-{}", std::process::id()))
}

fn ticking(name: &str) -> Part<'_> {
    Part::new(name, "sleep", &TICKING)
}

fn counting(name: &str) -> Part<'_> {
    Part::new(name, "sleep", &COUNTING)
}

#[test]
fn a_guest_goes_back_and_on() {
    let parts = [
        Part::new("other", "sleep", &TICKING),
        counting("it"),
        ticking("large").with("memory", "\"32M\""),
        ticking("with-card").with("rng", "true"),
    ];
    let mut first = Saved::start(Machine::Cubieboard, &parts);
    first.board.line("it", "up", 1);
    first.goes_on("it", 100);
    let snapshot = first.save("it").expect("a snapshot");
    assert!(snapshot.pages.len() < 100, "{} pages of a small guest", snapshot.pages.len());

    // It goes on as if nothing had happened, and once more from there, when it has come to its end and begun anew.
    first.has_slept("it", 1);
    first.board.spica("guest it: powered off", 1);
    assert_eq!(first.restore("it", &snapshot).unwrap_err(), "it is off: `spica start it` turns it on");
    first.board.tell("start it");
    first.board.line("it", "up", 2);
    first.goes_on("it", 5);
    first.restore("it", &snapshot).expect("a guest that fits");
    first.has_slept("it", 2);
    first.board.spica("guest it: powered off", 2);
    assert_eq!(first.board.console("it").matches("up\n").count(), 2);

    // By the commands; one that is paused stays so.
    first.board.tell("start it");
    first.board.line("it", "up", 3);
    first.board.tell("pause it");
    let path = file("it");
    let name = path.to_str().expect("a name");
    let said = first.spica(&["save", "it", name]).expect("a file");
    assert!(said.starts_with(&format!("{name}: it, ")), "{said}");
    assert_eq!(first.board.state("it"), "paused");
    first.board.tell("resume it");
    assert_eq!(first.spica(&["restore", "1", name]), Ok(format!("{name}: it goes on from there\n")));
    first.has_slept("it", 3);
    first.board.spica("guest it: powered off", 3);

    // What does not fit says what would, and who is asked goes on.
    first.board.tell("start it");
    let of_memory = "the saved guest has 16M of memory and this one 32M: it needs one of 16M";
    assert_eq!(first.restore("large", &snapshot).unwrap_err(), of_memory);
    let no = first.restore("with-card", &snapshot).unwrap_err();
    let kinds = "the saved guest has no virtio devices, and this one source of random numbers: they must be the same";
    assert_eq!(no, kinds);
    let other = first.save("with-card").expect("a snapshot");
    let no = first.restore("it", &other).unwrap_err();
    let kinds = "the saved guest has source of random numbers, and this one no virtio devices: they must be the same";
    assert_eq!(no, kinds);
    let mut spoilt = std::fs::read(&path).expect("the file");
    spoilt[100] ^= 1;
    std::fs::write(&path, &spoilt).expect("the file");
    let no = first.spica(&["restore", "it", name]).unwrap_err();
    assert!(no.contains(name) && no.contains("is damaged"), "{no}");
    let no = first.spica(&["restore", "it", "/nowhere"]).unwrap_err();
    assert!(no.contains("cannot read /nowhere"), "{no}");
    for name in ["large", "with-card"] {
        first.goes_on(name, 10);
    }
    first.has_slept("it", 4);
    first.goes_on("other", 10);
    first.board.tell("check");
    let _ = std::fs::remove_file(&path);

    // Another run, which began long after that: the guest's clock is ahead of the board's.
    drop(first);
    let mut second = Saved::start(Machine::Cubieboard, &[counting("same")]);
    second.board.line("same", "up", 1);
    second.restore("same", &snapshot).expect("a guest that fits");
    second.has_slept("same", 1);
    // The only guest powers off behind that line, and the board with it.
    second.board.end();
    assert_eq!(second.board.last_counters("same")["guest.resets"], 0);
    drop(second);

    // Another processor.
    let mut third = Saved::start(Machine::VexpressA9, &[counting("other")]);
    third.board.line("other", "up", 1);
    let no = third.restore("other", &snapshot).unwrap_err();
    assert!(no.starts_with("it was saved on another processor: its MIDR is 0x41"), "{no}");
    third.has_slept("other", 1);
}

/// What a guest has written to its disk goes back with it: over the same file, and where there is room.
#[test]
fn a_disk_goes_back() {
    let base = file("base");
    let mut bytes = vec![0; 1 << 20];
    bytes[300_000] = 1;
    std::fs::write(&base, &bytes).expect("a file");
    let with = |name, file: &str, more: &str| {
        Part::new(name, "disk", &[8]).with("disks", &format!("[{{ file = \"{file}\"{more} }}]"))
    };
    let base = base.to_str().expect("a name");
    let parts = [
        with("it", BLANK, ""),
        with("elsewhere", base, ""),
        with("read-only", BLANK, ", mode = \"read-only\""),
        Part::new("without", "sleep", &TICKING),
    ];
    let mut first = Saved::start(Machine::Cubieboard, &parts);
    let key = |saved: &mut Saved, name: &str, key: &str, line: &str, time| {
        saved.board.show(Some(name));
        saved.board.type_keys(key);
        saved.board.line(name, line, time);
    };
    first.board.line("it", "up", 1);
    let blank = first.save("it").expect("a snapshot");
    assert_eq!((blank.disks.len(), blank.about.disk_pages), (1, 0));
    key(&mut first, "it", "w", "wrote failed=00000000", 1);
    let written = first.save("it").expect("a snapshot");
    assert_eq!((written.disks[0].len(), written.about.disk_pages), (8, 8));
    // Eight pieces of zeroes, eight of what was written, and so on; each time a kept driver goes on.
    for (time, snapshot, wrong) in [(1, &blank, 8 << 10), (1, &written, 0), (2, &written, 0), (2, &blank, 8 << 10)] {
        first.restore("it", snapshot).expect("a guest that fits");
        key(&mut first, "it", "r", &format!("read wrong={wrong:08x}"), time);
    }
    // By a file, into a guest that has written something else.
    let path = file("disk");
    written.write(&path).expect("a file");
    key(&mut first, "it", "p", "partly wrong=00000000", 1);
    let name = path.to_str().expect("a name");
    first.spica(&["restore", "it", name]).expect("a guest that fits");
    key(&mut first, "it", "r", "read wrong=00000000", 3);
    assert_eq!(first.save("it").expect("a snapshot").disks, written.disks);

    // What it is over has to be the same.
    let no = first.restore("elsewhere", &written).unwrap_err();
    assert!(no.starts_with("its disk disk0 is another one: the saved guest's file has 1024 KiB and the check"), "{no}");
    let no = first.restore("read-only", &written).unwrap_err();
    let other = "the saved guest's disk disk0 is copy-on-write, and this one's read-only: it must be copy-on-write";
    assert_eq!(no, other);
    let no = first.restore("without", &written).unwrap_err();
    assert_eq!(no, "the saved guest has disk, and this one no virtio devices: they must be the same");
    let read_only = first.save("read-only").expect("a snapshot");
    first.restore("read-only", &read_only).expect("a guest that fits");
    key(&mut first, "elsewhere", "w", "wrote failed=00000000", 1);
    key(&mut first, "read-only", "w", "wrote failed=00000008", 1);

    // Half of a disk is none.
    let mut spoilt = written.clone();
    spoilt.disks[0].insert(1 << 20, Box::new([7; 4096]));
    let no = first.restore("it", &spoilt).unwrap_err();
    assert_eq!(no, "there is no page at 100000 of disk 0, or no room for it");
    let lost = "guest it: was not restored to the end: it is off, and what it had written to its disks is gone";
    first.board.spica(lost, 1);
    first.board.tell("start it");
    key(&mut first, "it", "r", &format!("read wrong={:08x}", 8 << 10), 3);
    first.board.tell("check");
    drop(first);

    // Another run, with room for four pages.
    let words = "spica.overlay=16";
    let mut second = Saved::start_with(Machine::Cubieboard, &[with("it", BLANK, "")], words);
    second.board.line("it", "up", 1);
    let no = second.restore("it", &written).unwrap_err();
    assert!(no.starts_with("the saved guest has written 32 KiB to its disk disk0, for which this one has no"), "{no}");
    second.restore("it", &blank).expect("a guest that fits");
    key(&mut second, "it", "w", "wrote failed=00000004", 1);
    for path in [base, name] {
        let _ = std::fs::remove_file(path);
    }
}

/// Whatever is put back, the guest bears it, or Spica refuses it; nobody else is harmed.
#[test]
fn what_is_put_back_may_be_anything() {
    let parts = [Part::new("other", "sleep", &TICKING), Part::new("it", "sleep", &TICKING)];
    let mut board = Saved::start(Machine::Cubieboard, &parts);
    board.board.line("it", "up", 1);
    board.goes_on("it", 10);
    let snapshot = board.save("it").expect("a snapshot");
    let (mut refused, mut taken) = (0, 0);
    let mut seed = 1u32;
    for round in 0..40 {
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        let mut spoilt = snapshot.clone();
        // One bit may well be what the guest could have set; some bytes are hardly ever.
        for _ in 0..=random() % 4 {
            let at = random() as usize % spoilt.state.len();
            if round % 2 == 1 {
                spoilt.state[at] ^= 1 << (random() % 8);
                break;
            }
            spoilt.state[at] = random() as u8;
        }
        if round % 8 == 0 {
            spoilt.state.truncate(random() as usize % spoilt.state.len());
        }
        match board.restore("it", &spoilt) {
            Ok(()) => taken += 1,
            Err(problem) => {
                let known = ["damaged", "another", "needs one of", "must be the same", "turned off", "is off"];
                assert!(known.iter().any(|part| problem.contains(part)), "{problem}");
                refused += 1;
            }
        }
        board.goes_on("other", 1);
        if !["running", "waiting"].contains(&board.board.state("it").as_str()) {
            board.board.ask("start it").expect("a guest that can begin");
        }
    }
    assert!(refused > 5 && taken > 5, "{refused} refused, {taken} taken");
    // A page that nobody has a place for.
    let mut spoilt = snapshot.clone();
    spoilt.pages.insert(0x1000, Box::new([7; 4096]));
    let no = board.restore("it", &spoilt).unwrap_err();
    assert_eq!(no, "the snapshot has a page for 0x00001000, where the guest has no memory");
    board.board.spica("guest it: was not restored to the end: it is off", 1);
    board.board.tell("start it");
    board.restore("it", &snapshot).expect("a guest that fits");
    board.goes_on("it", 10);
    board.goes_on("other", 10);
    board.board.tell("check");
    assert_eq!(board.board.console("other").matches("up\n").count(), 1);

    // Whoever leaves in between leaves no half of a guest.
    let state = snapshot.state.clone();
    board.with("half of it", move |running| {
        let mut ask = |question: &str| running.ask(&format!("debug 1 {question}")).map_err(|error| error.message);
        assert!(ask("replace").unwrap_err().contains("nobody debugs it"));
        for question in ["attach", "halt", "wait"] {
            ask(question).expect(question);
        }
        let early = "the memory of it is not being replaced: `replace` comes first";
        assert_eq!(ask("restore").unwrap_err(), early);
        assert_eq!(ask("blank 40000000 1000").unwrap_err(), early);
        assert!(ask("check").unwrap_err().contains("damaged"), "nothing was staged");
        ask(&format!("stage 0 {}", spica_console::base64::encode(&state))).expect("a piece");
        assert!(ask("stage 1 AAAA").unwrap_err().contains("pieces follow each other"));
        ask("check").expect("a state that fits");
        ask("replace").expect("a guest that stands");
        for wrong in ["go", "step", "save", "replace", "check"] {
            let no = ask(wrong).unwrap_err();
            assert!(no.contains("is being replaced"), "{wrong}: {no}");
        }
        assert!(running.ask("resume 1").unwrap_err().message.contains("is being replaced"));
        let mut ask = |question: &str| running.ask(&format!("debug 1 {question}")).map_err(|error| error.message);
        for nowhere in ["blank 3ffff000 1000", "blank 40ffe000 4000", "blank 40000800 1000", "blank 90000000 1000"] {
            assert!(ask(nowhere).unwrap_err().contains("there is no page of memory"), "{nowhere}");
        }
        let page = spica_console::base64::encode(&[0xee; 4096]);
        let sum = spica_snapshot::sum(&[0xee; 4096]);
        assert!(ask(&format!("put 40001000 {:016x} {page}", sum + 1)).unwrap_err().contains("damaged on its way"));
        assert!(ask(&format!("put 3ffff000 {sum:016x} {page}")).unwrap_err().contains("no page of memory"));
        ask(&format!("put 40001000 {sum:016x} {page}")).expect("a page");
    });
    board.board.spica("guest it: was not restored to the end: it is off", 2);
    assert_eq!(board.board.state("it"), "off");
    board.board.tell("start it");
    board.goes_on("it", 10);
    board.goes_on("other", 10);
}

/// A guest with two address spaces, whose user code comes on demand, and which checks what it finds: it is put back in
/// the midst of that, again and again, and at last with a word changed that ends it.
#[test]
fn a_guest_at_work_goes_back() {
    let part = |name, engine| Part::new(name, "userland", &[]).with("engine", engine);
    let ticking = Part::new("other", "sleep", &TICKING);
    let parts = [ticking, part("blocks", "\"blocks\""), part("in-place", "\"in-place\"")];
    let mut board = Saved::start(Machine::Cubieboard, &parts);
    // Those at work say nothing, and a board does not hear before it speaks.
    board.board.line("other", "up", 1);
    for name in ["blocks", "in-place"] {
        board.goes_on(name, 50);
        let mut snapshot = board.save(name).expect("a snapshot");
        for time in 0..3 {
            board.restore(name, &snapshot).unwrap_or_else(|problem| panic!("{name}, {time}: {problem}"));
            board.goes_on(name, 20);
        }
        let go_on = address_in(&board.board, name, "go_on");
        let page = snapshot.pages.get_mut(&(go_on & !0xfff)).expect("the page of `go_on`");
        let word = &mut page[go_on as usize % 4096..][..4];
        assert_eq!(word, [1, 0, 0, 0], "{name}");
        word.fill(0);
        // Into the other one, which has the other engine.
        let other = if name == "blocks" { "in-place" } else { "blocks" };
        board.restore(other, &snapshot).expect("a guest that fits");
        board.board.spica(&format!("guest {other}: powered off"), 1);
        let console = board.board.console(other);
        let (_, wrong) = console.rsplit_once("wrong=").expect("what it found");
        assert_eq!(wrong.lines().next(), Some("00000000"), "{console}");
        board.board.tell(&format!("start {other}"));
    }
    board.board.tell("check");
}

/// The address of a symbol of a guest's.
fn address_in(board: &Board, guest: &str, name: &str) -> u32 {
    let bytes = std::fs::read(board.symbols(guest)).expect("the guest");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    file.symbols().find(|symbol| symbol.name() == Ok(name)).expect(name).address() as u32
}

/// A guest executes what it has copied from text that runs in place: it does what it should in another run, by blocks,
/// and from there in place again, where nobody has replaced that instruction before.
#[test]
fn what_is_copied_from_text_in_place_goes_with_the_guest() {
    let words = "spica.engine=in-place-from-start@0x40000000";
    let mut first = Saved::start_with(Machine::Cubieboard, &[Part::new("it", "copies", &[])], words);
    let right = |saved: &mut Saved, name: &str, time| {
        saved.board.show(Some(name));
        saved.board.type_keys("x");
        assert_eq!(saved.board.line(name, "copy", time), "copy wrong=00000000", "{name}");
    };
    first.board.line("it", "up word=000000ef", 1);
    right(&mut first, "it", 1);
    let snapshot = first.save("it").expect("a snapshot");
    right(&mut first, "it", 2);
    first.restore("it", &snapshot).expect("a guest that fits");
    right(&mut first, "it", 3);
    drop(first);

    let blocks = Part::new("blocks", "copies", &[]).with("engine", "\"blocks\"");
    let mut second = Saved::start_with(Machine::Cubieboard, &[blocks, ticking("in-place")], words);
    second.board.line("blocks", "up word=000000e1", 1);
    second.restore("blocks", &snapshot).expect("a guest that fits");
    right(&mut second, "blocks", 1);
    let again = second.save("blocks").expect("a snapshot");
    second.restore("in-place", &again).expect("a guest that fits");
    right(&mut second, "in-place", 1);
}

/// Debian's shell with a variable, a file and a clock; and with an optimised kprobe, whose code the kernel has copied
/// from text that runs in place, with what stands for others there (docs/in-place.md); and with a disk.
#[test]
fn debian_goes_back() {
    debian(false);
}

/// The same, and then in another run, whose own Debian has hardly begun, and by the other engine.
#[test]
#[ignore = "some minutes: all of Debian's memory over a serial line"]
fn debian_goes_on_elsewhere() {
    debian(true);
}

fn debian(elsewhere: bool) {
    let part = |name, engine| Part {
        name,
        guest: None,
        keys: format!("memory = \"64M\"\nrng = true\nengine = \"{engine}\"\ndisks = [{{ file = \"{BLANK}\" }}]\n"),
    };
    let shell = |board: &mut Board, name: &str, text: &str| {
        board.show(Some(name));
        board.type_keys(&format!("{text}\r"));
    };
    let mut first = Saved::start(Machine::Cubieboard, &[part("debian", "in-place")]);
    first.board.until("a shell", |board| board.console("debian").contains("root@debian:").then_some(()));
    let board = &mut first.board;
    shell(board, "debian", "mount -t debugfs none /sys/kernel/debug; cd /sys/kernel/debug/tracing");
    shell(board, "debian", "echo 'p:opened path_openat' > kprobe_events; echo 1 > events/kprobes/opened/enable");
    shell(board, "debian", "until grep -q OPTIMIZED ../kprobes/list; do sleep 0.1; done; echo it is $((6 * 7))");
    board.line("debian", "it is 42", 1);
    shell(board, "debian", "echo old > /dev/vda; sync");
    shell(board, "debian", "file=/tmp/state; echo old > $file; n=0; date +%s > /tmp/began");
    shell(board, "debian", "while read -r line; do n=$((n + 1)); echo said $n $line, $(cat $file); done");
    shell(board, "debian", "one");
    board.line("debian", "said 1 one, old", 1);
    let snapshot = first.save("debian").expect("a snapshot");
    let board = &mut first.board;
    shell(board, "debian", "two");
    board.line("debian", "said 2 two, old", 1);
    shell(board, "debian", "\u{4}");
    shell(board, "debian", "echo new > $file; echo new > /dev/vda; sync; n=100; echo it is $n $(cat $file)");
    board.line("debian", "it is 100 new", 1);
    first.restore("debian", &snapshot).expect("a guest that fits");
    let board = &mut first.board;
    shell(board, "debian", "three");
    board.line("debian", "said 2 three, old", 1);
    shell(board, "debian", "\u{4}");
    // What it knows of its disk is what is there.
    let of_disk = "echo $(head -n 1 /dev/vda); echo 3 > /proc/sys/vm/drop_caches; echo and $(head -n 1 /dev/vda)";
    shell(board, "debian", of_disk);
    board.line("debian", "old", 1);
    board.line("debian", "and old", 1);
    // Its source of random numbers works as before.
    shell(board, "debian", "head -c 20000 /dev/hwrng | wc -c");
    board.line("debian", "20000", 1);
    drop(first);
    if !elsewhere {
        return;
    }

    let mut second = Saved::start(Machine::Cubieboard, &[part("debian", "blocks")]);
    second.restore("debian", &snapshot).expect("a guest that fits");
    let board = &mut second.board;
    shell(board, "debian", "four");
    board.line("debian", "said 2 four, old", 1);
    shell(board, "debian", "\u{4}");
    shell(board, "debian", of_disk);
    board.line("debian", "and old", 1);
    shell(board, "debian", "echo $((6 * 7)) seconds more: $(( $(date +%s) - $(cat /tmp/began) < 600 ))");
    board.line("debian", "42 seconds more: 1", 1);
    // The probe has seen each file that was opened.
    shell(board, "debian", "echo > trace; : < /proc/version; echo $(grep -c 'opened: (path_openat' trace) more");
    board.line("debian", "3 more", 1);
    shell(board, "debian", "head -c 20001 /dev/hwrng | wc -c");
    board.line("debian", "20001", 1);
}
