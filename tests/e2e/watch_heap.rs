//! A client that checks the heap of a guest's kernel: Debian's, with a module that misuses it, and without.

use std::time::{Duration, Instant};

use spica_cli::heap::{self, Checker, Fault, Findings, Kind};
use spica_cli::symbols;
use spica_kallsyms::Symbol;
use spica_runner::control::client::Board as Running;
use spica_runner::prepare::Request;
use spica_runner::project::Project;
use spica_tests::module::{MISUSES, Misuse, misuses_the_heap};

use crate::beside::beside;

/// Gives the guest the module, and has its kernel clear nothing, so that what was not written can be told from what
/// was.
fn module(project: &Project, request: &mut Request) {
    request.append = "init_on_alloc=0".to_string();
    let module = spica_tests::kernel_module(project, "net/rfkill/rfkill.ko").expect("a module");
    let module = misuses_the_heap(&std::fs::read(&module).expect("a module")).expect("a module that misuses the heap");
    request.overlay.file("lib/misuses-the-heap.ko", 0o644, &module);
}

fn start(board: &dyn Fn() -> Running, names: &[Symbol]) -> Checker {
    let allocator = symbols::allocator(&mut board(), 0, names).expect("the allocator");
    Checker::start(board(), 0, &allocator, true).expect("a checker")
}

/// Whether the code is a module's.
fn of_module(fault: &Fault) -> bool {
    (0xbf00_0000..0xc000_0000).contains(&fault.pc)
}

/// The module's errors are found, each with all that is to be known of it, and nothing else is, but for what the kernel
/// reads without having written it.
#[test]
fn what_a_module_does_wrong_is_found() {
    let script = "until read -t 1 line </dev/console; do insmod /lib/misuses-the-heap.ko 2>/dev/null; echo more; done; \
                  dmesg | grep -c -e BUG -e WARNING -e Oops || true";
    let (printed, findings) = beside("heap", module, script, Duration::from_secs(300), |board, names| {
        // Its own name for itself is that of its modules' directory.
        let release = symbols::release(&mut board(), 0).expect("a release");
        let module = spica_tests::kernel_module(&Project::find(None).expect("the project"), "").expect("modules");
        assert!(module.components().any(|part| part.as_os_str() == &*release), "{release}: {}", module.display());
        let mut checker = start(board, names);
        let allocator = symbols::allocator(&mut board(), 0, names).expect("the allocator");
        let second = Checker::start(board(), 0, &allocator, false).err().expect("a checker for two");
        assert!(second.message.contains("looks into it"), "{}", second.message);
        let begun = Instant::now();
        let twice = |fault: &&Fault| of_module(fault) && fault.times > 1;
        while checker.findings().expect("findings").faults.iter().filter(twice).count() < MISUSES.len() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", checker.findings());
            checker.wait(Instant::now() + Duration::from_millis(300), &|| false);
        }
        let tables = symbols::unwind_tables(&mut board(), 0, names).expect("tables");
        let findings = checker.end(names, &tables).expect("findings");
        println!("{}", heap::report(&findings, names));
        // It can be begun again, and left without a word.
        drop(start(board, names));
        findings
    });
    assert!(printed.contains("more"), "{printed}");
    assert!(printed.trim_end().ends_with("\n0"), "the guest has noticed it: {printed}");
    let Findings { faults, allocated, freed, uninitialised, to_the_end, .. } = findings;
    assert!(to_the_end && allocated > 100 && freed > 100, "{allocated} objects were allocated, {freed} freed");
    assert!(uninitialised > 100, "{uninitialised} objects were not cleared");
    let (faults, others): (Vec<_>, Vec<_>) =
        faults.iter().partition(|fault| of_module(fault) || fault.kind != Kind::Uninitialised);
    println!("{} places of the kernel read what they have not written", others.len());
    assert_eq!(faults.len(), MISUSES.len(), "{faults:x?}");
    for (fault, Misuse { kind, bytes, write, offset, size, behind }) in faults.iter().zip(MISUSES) {
        assert_eq!((fault.kind.name(), fault.bytes, fault.write), (kind, bytes, write), "{fault:x?}");
        assert_eq!((fault.address - fault.object.0, fault.object.1), (offset, size), "{fault:x?}");
        assert_eq!(fault.pc, fault.allocated_by + 4 * behind, "{fault:x?}");
        let freed_by = if fault.kind == Kind::UseAfterFree { fault.allocated_by + 8 } else { 0 };
        assert_eq!(fault.freed_by, freed_by, "{fault:x?}");
    }
}

/// Debian's kernel under load: programs, files, `/proc` and `/sys`, pipes, modules, the network. Whatever is found is a
/// false alarm.
#[test]
#[ignore = "three minutes of load, and what its boot takes"]
fn debian_has_no_false_alarms() {
    let script = "mkdir -p /tmp/many /mnt; i=0; ip link set lo up; \
                  until read -t 0 line </dev/console; do i=$((i+1)); \
                  ls -lR /proc/self /sys/class /sys/kernel /etc > /tmp/list 2>/dev/null; \
                  for n in 1 2 3 4 5 6 7 8; do echo $n$i > /tmp/many/a-file-with-some-name-$n; done; \
                  cat /tmp/many/* | sort | uniq -c | gzip | gunzip > /dev/null; \
                  find /tmp /etc -type f | xargs cat | sha256sum > /dev/null; \
                  mv /tmp/many/a-file-with-some-name-1 /tmp/many/another; ln -s another /tmp/many/link; rm /tmp/many/*; \
                  modprobe dummy; ip link set dummy0 up 2>/dev/null; ip addr add 10.9.8.7/24 dev dummy0 2>/dev/null; \
                  ping -c 2 -i 0.2 10.9.8.7 >/dev/null 2>&1; rmmod dummy; \
                  mount -t tmpfs none /mnt && cp /tmp/list /mnt && umount /mnt; \
                  (sleep 0.1 & kill $!; wait) 2>/dev/null; echo more; done; echo rounds $i";
    let (printed, findings) = beside("heap-load", module, script, Duration::from_secs(1200), |board, names| {
        let mut checker = start(board, names);
        checker.wait(Instant::now() + Duration::from_secs(180), &|| false);
        println!("{:?}", checker.findings());
        let tables = symbols::unwind_tables(&mut board(), 0, names).expect("tables");
        let findings = checker.end(names, &tables).expect("findings");
        print!("{}", heap::report(&findings, names));
        findings
    });
    let rounds = printed.lines().rev().find_map(|line| line.strip_prefix("rounds ")?.parse::<u32>().ok());
    println!("{rounds:?} rounds, {findings:?}");
    assert!(rounds.is_some_and(|rounds| rounds > 2), "{printed}");
    assert!(findings.to_the_end && findings.allocated > 20_000, "{findings:?}");
    let wrong: Vec<_> = findings.faults.iter().filter(|fault| fault.kind != Kind::Uninitialised).collect();
    assert_eq!(wrong, Vec::<&Fault>::new());
}
