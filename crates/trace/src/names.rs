//! Names for the numbers in records.

use std::borrow::Cow;

use spica_dbt::trap as svc;
use spica_isa::Op;
use spica_trace_ring::record::{self, Record, class, trap};

/// A name, most of them of a few.
pub type Name = Cow<'static, str>;

/// System calls of 32-bit ARM Linux (EABI) that programs make often, in the order of their numbers, with how many
/// registers each reads.
const SYSTEM_CALLS: &[(u32, &str, u8)] = &[
    (0, "restart_syscall", 0),
    (1, "exit", 1),
    (2, "fork", 0),
    (3, "read", 3),
    (4, "write", 3),
    (5, "open", 3),
    (6, "close", 1),
    (9, "link", 2),
    (10, "unlink", 1),
    (11, "execve", 3),
    (12, "chdir", 1),
    (15, "chmod", 2),
    (19, "lseek", 3),
    (20, "getpid", 0),
    (21, "mount", 5),
    (29, "pause", 0),
    (33, "access", 2),
    (36, "sync", 0),
    (37, "kill", 2),
    (38, "rename", 2),
    (39, "mkdir", 2),
    (40, "rmdir", 1),
    (41, "dup", 1),
    (42, "pipe", 1),
    (45, "brk", 1),
    (54, "ioctl", 3),
    (57, "setpgid", 2),
    (60, "umask", 1),
    (63, "dup2", 2),
    (64, "getppid", 0),
    (66, "setsid", 0),
    (83, "symlink", 2),
    (85, "readlink", 3),
    (88, "reboot", 4),
    (91, "munmap", 2),
    (104, "setitimer", 3),
    (114, "wait4", 4),
    (116, "sysinfo", 1),
    (119, "sigreturn", 0),
    (120, "clone", 5),
    (122, "uname", 1),
    (125, "mprotect", 3),
    (140, "_llseek", 5),
    (141, "getdents", 3),
    (142, "_newselect", 5),
    (143, "flock", 2),
    (144, "msync", 3),
    (145, "readv", 3),
    (146, "writev", 3),
    (158, "sched_yield", 0),
    (162, "nanosleep", 2),
    (168, "poll", 3),
    (172, "prctl", 5),
    (173, "rt_sigreturn", 0),
    (174, "rt_sigaction", 4),
    (175, "rt_sigprocmask", 4),
    (177, "rt_sigtimedwait", 4),
    (179, "rt_sigsuspend", 2),
    (180, "pread64", 6),
    (181, "pwrite64", 6),
    (183, "getcwd", 2),
    (187, "sendfile", 4),
    (190, "vfork", 0),
    (191, "ugetrlimit", 2),
    (192, "mmap2", 6),
    (195, "stat64", 2),
    (196, "lstat64", 2),
    (197, "fstat64", 2),
    (199, "getuid32", 0),
    (200, "getgid32", 0),
    (201, "geteuid32", 0),
    (202, "getegid32", 0),
    (217, "getdents64", 3),
    (219, "mincore", 3),
    (220, "madvise", 3),
    (221, "fcntl64", 3),
    (224, "gettid", 0),
    (238, "tkill", 2),
    (239, "sendfile64", 4),
    (240, "futex", 6),
    (248, "exit_group", 1),
    (250, "epoll_create", 1),
    (251, "epoll_ctl", 4),
    (252, "epoll_wait", 4),
    (256, "set_tid_address", 1),
    (262, "clock_settime", 2),
    (263, "clock_gettime", 2),
    (264, "clock_getres", 2),
    (265, "clock_nanosleep", 4),
    (266, "statfs64", 3),
    (268, "tgkill", 3),
    (280, "waitid", 5),
    (281, "socket", 3),
    (282, "bind", 3),
    (283, "connect", 3),
    (284, "listen", 2),
    (285, "accept", 3),
    (289, "send", 4),
    (290, "sendto", 6),
    (291, "recv", 4),
    (292, "recvfrom", 6),
    (293, "shutdown", 2),
    (294, "setsockopt", 5),
    (295, "getsockopt", 5),
    (296, "sendmsg", 3),
    (297, "recvmsg", 3),
    (322, "openat", 4),
    (323, "mkdirat", 3),
    (327, "fstatat64", 4),
    (328, "unlinkat", 3),
    (332, "readlinkat", 4),
    (334, "faccessat", 3),
    (335, "pselect6", 6),
    (336, "ppoll", 5),
    (338, "set_robust_list", 2),
    (346, "epoll_pwait", 6),
    (356, "eventfd2", 2),
    (357, "epoll_create1", 1),
    (358, "dup3", 3),
    (359, "pipe2", 2),
    (366, "accept4", 4),
    (369, "prlimit64", 4),
    (379, "finit_module", 3),
    (384, "getrandom", 3),
    (397, "statx", 5),
    (398, "rseq", 4),
    (403, "clock_gettime64", 2),
    (407, "clock_nanosleep_time64", 4),
    (413, "pselect6_time64", 6),
    (414, "ppoll_time64", 5),
    (422, "futex_time64", 6),
    (435, "clone3", 2),
    (436, "close_range", 3),
    (439, "faccessat2", 4),
    (0x000f_0002, "cacheflush", 3),
    (0x000f_0005, "set_tls", 1),
];

/// A Linux guest's system call, by R7.
#[must_use]
pub fn system_call(number: u32) -> Name {
    match known(number) {
        Some((_, name, _)) => (*name).into(),
        None => format!("system call {number:#x}").into(),
    }
}

fn known(number: u32) -> Option<&'static (u32, &'static str, u8)> {
    let at = SYSTEM_CALLS.binary_search_by_key(&number, |(number, ..)| *number).ok()?;
    SYSTEM_CALLS.get(at)
}

/// How many registers a Linux guest's system call reads, from R0 on; all seven, if that is not known.
#[must_use]
pub fn arguments(number: u32) -> usize {
    known(number).map_or(7, |(.., arguments)| (*arguments).into())
}

/// What Linux calls an error by its number (asm-generic/errno-base.h, errno.h), of those that programs often get.
#[must_use]
pub fn error(number: u32) -> Option<&'static str> {
    ERRORS.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

const ERRORS: &[(u32, &str)] = &[
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (8, "ENOEXEC"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (32, "EPIPE"),
    (34, "ERANGE"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (61, "ENODATA"),
    (75, "EOVERFLOW"),
    (88, "ENOTSOCK"),
    (95, "EOPNOTSUPP"),
    (97, "EAFNOSUPPORT"),
    (98, "EADDRINUSE"),
    (101, "ENETUNREACH"),
    (104, "ECONNRESET"),
    (107, "ENOTCONN"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (115, "EINPROGRESS"),
];

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
        class::SUPERVISOR_CALL if detail(trap::IN_PLACE) => "replaced instruction".into(),
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
        class::UNDEFINED if detail(trap::IN_PLACE) => interpreted(record.argument),
        class::PREFETCH_ABORT if detail(trap::IN_PLACE) => "page of code".into(),
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
        svc::EXCEPTION_RETURN | svc::LENT_EXCEPTION_RETURN | svc::LENT_VECTOR_RETURN => "exception return",
        svc::TLB_PAGE | svc::TLB_RANGE => "TLB flush: page",
        svc::UNPRIVILEGED_LOAD => "unprivileged load",
        svc::UNPRIVILEGED_STORE => "unprivileged store",
        svc::VFP => "FPEXC",
        svc::COUNTER => "timer's counter",
        svc::TTBR0 => "TTBR0",
        svc::CONTEXTIDR => "CONTEXTIDR",
        svc::CLEAN_LINE | svc::FORGET_LINE => "cache line",
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
