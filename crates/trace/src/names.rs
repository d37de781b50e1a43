//! Names for the numbers in records.

use std::borrow::Cow;

use spica_dbt::trap as svc;
use spica_isa::Op;
use spica_trace_ring::record::{self, Record, class, trap};

/// A name, most of them of a few.
pub type Name = Cow<'static, str>;

/// System calls of 32-bit ARM Linux (EABI) that programs make often, in the order of their numbers.
const SYSTEM_CALLS: &[(u32, &str)] = &[
    (0, "restart_syscall"),
    (1, "exit"),
    (2, "fork"),
    (3, "read"),
    (4, "write"),
    (5, "open"),
    (6, "close"),
    (9, "link"),
    (10, "unlink"),
    (11, "execve"),
    (12, "chdir"),
    (15, "chmod"),
    (19, "lseek"),
    (20, "getpid"),
    (21, "mount"),
    (29, "pause"),
    (33, "access"),
    (36, "sync"),
    (37, "kill"),
    (38, "rename"),
    (39, "mkdir"),
    (40, "rmdir"),
    (41, "dup"),
    (42, "pipe"),
    (45, "brk"),
    (54, "ioctl"),
    (57, "setpgid"),
    (60, "umask"),
    (63, "dup2"),
    (64, "getppid"),
    (66, "setsid"),
    (83, "symlink"),
    (85, "readlink"),
    (88, "reboot"),
    (91, "munmap"),
    (104, "setitimer"),
    (114, "wait4"),
    (116, "sysinfo"),
    (119, "sigreturn"),
    (120, "clone"),
    (122, "uname"),
    (125, "mprotect"),
    (140, "_llseek"),
    (141, "getdents"),
    (142, "_newselect"),
    (143, "flock"),
    (144, "msync"),
    (145, "readv"),
    (146, "writev"),
    (158, "sched_yield"),
    (162, "nanosleep"),
    (168, "poll"),
    (172, "prctl"),
    (173, "rt_sigreturn"),
    (174, "rt_sigaction"),
    (175, "rt_sigprocmask"),
    (177, "rt_sigtimedwait"),
    (179, "rt_sigsuspend"),
    (180, "pread64"),
    (181, "pwrite64"),
    (183, "getcwd"),
    (187, "sendfile"),
    (190, "vfork"),
    (191, "ugetrlimit"),
    (192, "mmap2"),
    (195, "stat64"),
    (196, "lstat64"),
    (197, "fstat64"),
    (199, "getuid32"),
    (200, "getgid32"),
    (201, "geteuid32"),
    (202, "getegid32"),
    (217, "getdents64"),
    (219, "mincore"),
    (220, "madvise"),
    (221, "fcntl64"),
    (224, "gettid"),
    (238, "tkill"),
    (239, "sendfile64"),
    (240, "futex"),
    (248, "exit_group"),
    (250, "epoll_create"),
    (251, "epoll_ctl"),
    (252, "epoll_wait"),
    (256, "set_tid_address"),
    (262, "clock_settime"),
    (263, "clock_gettime"),
    (264, "clock_getres"),
    (265, "clock_nanosleep"),
    (266, "statfs64"),
    (268, "tgkill"),
    (280, "waitid"),
    (281, "socket"),
    (282, "bind"),
    (283, "connect"),
    (284, "listen"),
    (285, "accept"),
    (289, "send"),
    (290, "sendto"),
    (291, "recv"),
    (292, "recvfrom"),
    (293, "shutdown"),
    (294, "setsockopt"),
    (295, "getsockopt"),
    (296, "sendmsg"),
    (297, "recvmsg"),
    (322, "openat"),
    (323, "mkdirat"),
    (327, "fstatat64"),
    (328, "unlinkat"),
    (332, "readlinkat"),
    (334, "faccessat"),
    (335, "pselect6"),
    (336, "ppoll"),
    (338, "set_robust_list"),
    (346, "epoll_pwait"),
    (356, "eventfd2"),
    (357, "epoll_create1"),
    (358, "dup3"),
    (359, "pipe2"),
    (366, "accept4"),
    (369, "prlimit64"),
    (379, "finit_module"),
    (384, "getrandom"),
    (397, "statx"),
    (398, "rseq"),
    (403, "clock_gettime64"),
    (407, "clock_nanosleep_time64"),
    (413, "pselect6_time64"),
    (414, "ppoll_time64"),
    (422, "futex_time64"),
    (435, "clone3"),
    (436, "close_range"),
    (439, "faccessat2"),
    (0x000f_0002, "cacheflush"),
    (0x000f_0005, "set_tls"),
];

/// A Linux guest's system call, by R7.
#[must_use]
pub fn system_call(number: u32) -> Name {
    match SYSTEM_CALLS.binary_search_by_key(&number, |(number, _)| *number) {
        Ok(at) => SYSTEM_CALLS[at].1.into(),
        Err(_) => format!("system call {number:#x}").into(),
    }
}

/// The devices of a guest's machine: where each begins and ends, and its name (`spica_machine::map`).
const DEVICES: [(u32, u32, &str); 7] = [
    (0, 0x0800_0000, "flash"),
    (0x0800_0000, 0x0801_0000, "interrupt distributor"),
    (0x0801_0000, 0x0802_0000, "interrupt controller"),
    (0x0900_0000, 0x0900_1000, "UART"),
    (0x0901_0000, 0x0901_1000, "real-time clock"),
    (0x0903_0000, 0x0903_1000, "GPIO"),
    (0x0a00_0000, 0x0a00_4000, "virtio"),
];

/// The device at a physical address of the guest's.
#[must_use]
pub fn device(pa: u32) -> Option<&'static str> {
    DEVICES.iter().find(|(begin, end, _)| (*begin..*end).contains(&pa)).map(|(_, _, name)| *name)
}

/// The virtio slot whose driver has told its device, by this write, that there is something to do (QueueNotify).
#[must_use]
pub fn notified_slot(pa: u32) -> Option<u32> {
    (device(pa) == Some("virtio") && pa & 0x1ff == 0x50).then_some((pa & 0x3fff) >> 9)
}

/// An interrupt of a guest's machine.
#[must_use]
pub fn interrupt(number: u32) -> Name {
    match number {
        0..=15 => format!("SGI {number}").into(),
        27 => "virtual timer".into(),
        29 | 30 => "physical timer".into(),
        33 => "UART".into(),
        34 => "real-time clock".into(),
        39 => "GPIO".into(),
        48..=79 => format!("virtio {}", number - 48).into(),
        _ => format!("interrupt {number}").into(),
    }
}

/// What a trap was for that Rust answered.
#[must_use]
pub fn trap(record: &Record) -> Name {
    let detail = |bit: u16| record.detail & bit != 0;
    let user = detail(trap::FROM_USER);
    match record.kind - record::TRAP {
        class::SUPERVISOR_CALL if user => "system call".into(),
        class::SUPERVISOR_CALL => supervisor_call(record),
        class::DATA_ABORT | class::PREFETCH_ABORT if detail(trap::GUEST_ABORT) => "guest's abort".into(),
        class::DATA_ABORT if detail(trap::DEVICE) => {
            let access = if detail(trap::WRITE) { "write" } else { "read" };
            format!("{} {access}", device(record.argument).unwrap_or("device")).into()
        }
        class::DATA_ABORT if detail(trap::CODE_WRITE) => "write to code".into(),
        class::DATA_ABORT | class::PREFETCH_ABORT if detail(trap::SHADOW_FAULT) => "shadow fault".into(),
        class::DATA_ABORT => "data abort".into(),
        class::PREFETCH_ABORT if user => "prefetch abort".into(),
        class::UNDEFINED if user => "undefined instruction".into(),
        class::UNDEFINED | class::PREFETCH_ABORT => "return mirror miss".into(),
        class::IRQ | class::FIQ => "host interrupt".into(),
        _ => "trap".into(),
    }
}

fn supervisor_call(record: &Record) -> Name {
    let number = u32::from(record.detail & trap::NUMBER);
    match number {
        svc::LINK => "unlinked branch",
        svc::INDIRECT => "indirect branch",
        svc::EMULATE => return interpreted(record.argument),
        svc::DACR => "DACR",
        svc::EXCEPTION_RETURN => "exception return",
        svc::TLB_PAGE | svc::TLB_RANGE => "TLB flush: page",
        svc::UNPRIVILEGED_LOAD => "unprivileged load",
        svc::UNPRIVILEGED_STORE => "unprivileged store",
        svc::VFP => "FPEXC",
        svc::COUNTER => "timer's counter",
        svc::TTBR0 => "TTBR0",
        svc::CONTEXTIDR => "CONTEXTIDR",
        svc::CLEAN_LINE => "cache line",
        svc::CLOSED_RETURN => "closed return",
        _ if number & !0xf == svc::CLOSED => "closed branch",
        _ => "trap",
    }
    .into()
}

/// An instruction that Spica interpreted, by what it is for.
fn interpreted(word: u32) -> Name {
    let what = match spica_isa::decode(word).op {
        Op::CoprocMove { load, reg, .. } if reg.coproc == 15 => match (reg.crn, reg.crm, reg.opc2) {
            (8, _, 1 | 3) => "TLB flush: page",
            (8, _, 2) => "TLB flush: ASID",
            (8, ..) => "TLB flush",
            (7, ..) => "cache maintenance",
            (14, ..) => "timer",
            _ if load => "MRC p15",
            _ => "MCR p15",
        },
        Op::CoprocMove2 { coproc: 15, .. } => "timer's counter",
        Op::WaitForInterrupt | Op::WaitForEvent => "WFI",
        Op::CoprocMove { .. } | Op::CoprocMove2 { .. } | Op::CoprocData { .. } | Op::CoprocMem { .. } => "coprocessor",
        Op::VfpSystem { .. } => "VFP system register",
        Op::Mrs { .. } | Op::MsrReg { .. } | Op::MsrImm { .. } | Op::ChangeState { .. } => "status register",
        Op::SecureMonitorCall { .. } | Op::HypervisorCall { .. } => "PSCI call",
        Op::SupervisorCall { .. } => "system call of the kernel",
        _ => "interpreted",
    };
    what.into()
}
