//! Programs that do nothing but stand at a known place.
//!
//! Guest user code runs at its own virtual addresses, with and without Spica. So a breakpoint of QEMU's debugger at an
//! address that nothing else in the guest uses stops the board at the same point of the guest's life in both cases,
//! just before the instruction there, and QEMU then knows how many instructions have been executed since reset. The
//! guest itself does not notice: the debugger reads nothing and writes nothing.
//!
//! A marker is a static program of one page, written here byte by byte because no compiler for the guest is needed for
//! a handful of instructions.

/// The user address at which [`INIT`] begins: no Linux program or library is linked or loaded there.
const BASE: u32 = 0x5b1c_a000;
/// Where the code begins in a page: behind the ELF headers.
const CODE: u32 = 0x80;

/// A place that a debugger can stop at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    page: u32,
}

/// The first instruction of the first process.
pub const INIT: Marker = Marker { page: BASE };
/// The first instruction of a program that a shell starts.
pub const SHELL: Marker = Marker { page: BASE + 0x1_0000 };
/// Before a workload.
pub const BEFORE: Marker = Marker { page: BASE + 0x2_0000 };
/// Behind it.
pub const BEHIND: Marker = Marker { page: BASE + 0x3_0000 };
/// Between its two times, if it is done twice.
pub const MIDDLE: Marker = Marker { page: BASE + 0x4_0000 };
/// The script turns to the next workload.
pub const NEXT: Marker = Marker { page: BASE + 0x5_0000 };
/// Behind the last one.
pub const END: Marker = Marker { page: BASE + 0x6_0000 };
/// No program: the first instruction of the board.
pub const RESET: Marker = Marker { page: 0 };

/// Those that the script of the workloads starts.
pub const IN_WORKLOADS: [Marker; 5] = [NEXT, BEFORE, MIDDLE, BEHIND, END];

impl Marker {
    /// Where to stop.
    #[must_use]
    pub const fn address(self) -> u32 {
        self.page + CODE
    }

    /// The program that begins at the marker and then becomes another one; with `then` empty, it ends.
    #[must_use]
    pub fn program(self, then: &str) -> Vec<u8> {
        let mut words: Vec<u32> = vec![
            0xe28f_0010, // add r0, pc, #16: the name
            0xe28f_1000, // add r1, pc, #…: the arguments, see below
            0xe3a0_2000, // mov r2, #0: no environment
            0xe3a0_700b, // mov r7, #11: execve
            0xef00_0000, // svc #0
            0xeaff_fffe, // b .: there is nothing to go on with
        ];
        let mut data = Vec::new();
        if then.is_empty() {
            words = vec![0xe3a0_0000, 0xe3a0_7001, 0xef00_0000]; // exit(0)
        } else {
            data.extend_from_slice(then.as_bytes());
            data.push(0);
            data.resize(data.len().next_multiple_of(4), 0);
            // PC is two instructions ahead.
            words[1] |= 4 * 6 + data.len() as u32 - 12;
            data.extend((self.address() + 4 * 6).to_le_bytes());
            data.extend([0; 4]);
        }
        let length = CODE + 4 * words.len() as u32 + data.len() as u32;
        let mut file = Vec::new();
        file.extend(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0");
        let mut put = |value: u32, bytes: usize| file.extend(&value.to_le_bytes()[..bytes]);
        // The header: an executable for ARM, hard-float EABI 5, with one program header.
        for (value, bytes) in [(2, 2), (40, 2), (1, 4), (self.address(), 4), (52, 4), (0, 4), (0x0500_0400, 4)] {
            put(value, bytes);
        }
        for value in [52, 32, 1, 0, 0, 0] {
            put(value, 2);
        }
        // Loaded whole, readable and executable.
        for value in [1, 0, self.page, self.page, length, length, 5, 0x1000] {
            put(value, 4);
        }
        file.resize(CODE as usize, 0);
        file.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        file.extend(data);
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object, ObjectSegment};

    #[test]
    fn a_marker_begins_where_it_says() {
        for (marker, then) in [(INIT, "/spica/init"), (SHELL, "")] {
            let bytes = marker.program(then);
            let file = object::File::parse(&bytes[..]).unwrap();
            assert_eq!(file.entry(), u64::from(marker.address()));
            let segment = file.segments().next().unwrap();
            assert_eq!(segment.address() + u64::from(CODE), file.entry());
            assert_eq!(segment.size(), bytes.len() as u64);
        }
    }

    #[test]
    fn arguments_are_where_the_code_looks() {
        let bytes = INIT.program("/spica/init");
        let word = |at: u32| u32::from_le_bytes(bytes[at as usize..][..4].try_into().unwrap());
        let at = |instruction: u32| CODE + 4 * instruction + 8 + (word(CODE + 4 * instruction) & 0xff);
        assert_eq!(&bytes[at(0) as usize..][..12], b"/spica/init\0");
        assert_eq!(word(at(1)), BASE + at(0));
        assert_eq!(word(at(1) + 4), 0);
    }
}
