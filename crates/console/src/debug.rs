//! What a debugger asks of a guest: the monitor's `debug GUEST …`, for programs. Numbers are hexadecimal.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::base64;

/// Bytes of memory that are read at once at most.
pub const READ_BYTES: usize = 256;
/// Bytes that are written at once at most: a line has 200 characters.
pub const WRITE_BYTES: usize = 64;
/// Bytes that are dumped for one question at most: 7.6 s at 115,200 baud, in which nobody else is answered.
pub const DUMP_BYTES: u32 = 0x1_0000;
/// Bytes of a line of a dump: 2,048 characters.
pub const DUMP_LINE: u32 = 1536;
/// Bytes of what `counts` says of a run: four, one, and eight, the lowest first.
pub const COUNT_BYTES: usize = 13;
/// Bytes of what `edges map` says of an edge: two, its number, the lower one first, and one, how often it was taken.
pub const EDGE_BYTES: usize = 3;
/// Bytes of a process's name in Linux (TASK_COMM_LEN), with a 0 at the end.
pub const NAME_BYTES: usize = 16;
/// Words of the stack that a sample has at most.
pub const SAMPLE_WORDS: usize = 64;
/// In the number of such a word: it is behind a call instruction.
pub const SAMPLE_CALL: u16 = 1 << 15;
/// And that call is not one of where the kernel was.
pub const SAMPLE_STALE: u16 = 1 << 14;
/// The number of a sample's word that is not one of the stack, but LR.
pub const SAMPLE_LR: u16 = 2048;
/// Words of the stack behind which a call is looked for, at most.
pub const SAMPLE_LOOKS: u32 = 128;
/// How many instructions samples are apart in the mean at least, and at most.
pub const SAMPLE_EVERY: core::ops::RangeInclusive<u32> = 5000..=1 << 28;
/// Bytes that are watched at once at most.
pub const WATCH_BYTES: u32 = 1 << 20;
/// Bytes that are searched for one question at most.
pub const FIND_BYTES: u32 = 0x40_0000;
/// Bytes that are searched for.
pub const PATTERN_BYTES: core::ops::RangeInclusive<usize> = 8..=32;

/// A question or a wish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Debug {
    /// `attach`: who asks is the guest's debugger. It has one at most.
    Attach,
    /// `detach`: no longer. Breakpoints go, and the guest goes on.
    Detach,
    /// `halt`: it is to stand between two instructions.
    Halt,
    /// `go`: it is to go on.
    Go,
    /// `step`: it is to execute one instruction.
    Step,
    /// `clock stands` or `clock runs`: while it stands, its clocks stand as well, as from the beginning; or they do
    /// not.
    Clock {
        /// The latter.
        runs: bool,
    },
    /// `wait`: answered when the guest stands, with `halted PC WHY`, or is off, with `off`, or has lost its debugger,
    /// with `detached`.
    Wait,
    /// `regs GROUP`: answered with the registers of a group, `regs VALUE…`.
    Registers(Group),
    /// `set GROUP N VALUE`.
    Set(Group, usize, u32),
    /// `read SPACE ADDRESS COUNT`: answered with `memory BYTES`, which may be fewer.
    Read(Space, u32, usize),
    /// `write SPACE ADDRESS BYTES`.
    Write(Space, u32, Vec<u8>),
    /// `break ADDRESS`; or `break ADDRESS N VALUE`: only if that is in register N of the present mode. Of several of
    /// these at an address, one is enough. Bit 0 of the address says the state: 1 for T32.
    Break(u32, Option<(u8, u32)>),
    /// `clear ADDRESS`: all that there are.
    Clear(u32),
    /// `catch ttbr`: it is to stand when its kernel has changed TTBR0; `catch ttbr VALUE`: when it has set it to this,
    /// apart from the low seven bits. `wait` is answered with `halted PC ttbr OLD NEW` then.
    CatchTtbr(Option<u32>),
    /// `uncatch ttbr`: no longer.
    UncatchTtbr,
    /// `watch KIND ADDRESS COUNT`: it is to stand when so many bytes, [`WATCH_BYTES`] at most, of a virtual address are
    /// accessed. `wait` is answered with `halted PC watch KIND ADDRESS` then.
    Watch(Watch, u32, u32),
    /// `unwatch KIND ADDRESS COUNT`.
    Unwatch(Watch, u32, u32),
    /// `count`: what its kernel executes is counted from now on, until it has lost its debugger. `count EVERY`: with
    /// samples, so many instructions apart in the mean ([`SAMPLE_EVERY`]). `count EVERY FROM TO`: the kernel's code has
    /// these addresses.
    Count(Option<(u32, Option<core::ops::Range<u32>>)>),
    /// `uncount`: no longer. What was counted is kept until then.
    Uncount,
    /// `counts`: answered with `counted MISSED UNCOUNTED`, and lines `counts BASE64` of what was counted, of
    /// [`COUNT_BYTES`] each: the address of a run of instructions, how many these are, and how often it was executed.
    Counts,
    /// `samples`: answered with `sampled TAKEN LOST`, decimal, and the samples that have not been read, in lines
    /// `samples BASE64`. Each has the number of its words (a byte); PC; TPIDRURO; and its words, each with its
    /// number on the stack from SP on and marks (two bytes), and itself.
    Samples,
    /// `heap …`: see [`Heap`].
    Heap(Heap),
    /// `sharing …`: see [`Sharing`].
    Sharing(Sharing),
    /// `edges …`: see [`Edges`].
    Edges(Edges),
    /// `dump ADDRESS COUNT`: answered with guest physical memory, in lines `memory BASE64`, up to where there is none.
    /// The guest need not stand, nor have a debugger.
    Dump(u32, u32),
    /// `find ADDRESS COUNT BYTES`: answered with `found ADDRESS` if these bytes begin somewhere in so much guest
    /// physical memory. The guest need not stand, nor have a debugger.
    Find(u32, u32, Vec<u8>),
    /// `save`: answered with the state of the processor and the devices, in lines `state BASE64`; or with `busy SLOT`
    /// as long as the virtio device in that slot is in the midst of something.
    Save,
    /// `base DISK`: has the board look at what is below the guest's disk of this number, which `save` and `check` need.
    /// Answered with `base COUNT`, the pages that were written to that disk; with `left BYTES` if there is more to look
    /// at: it is to be asked again; or with nothing, if there is no such disk.
    Base(u32),
    /// `pages ADDRESS`: answered with pages of memory from there on that are not blank, in lines `page ADDRESS BASE64`
    /// of what `spica_snapshot` packs, and `next ADDRESS` if there may be more. Blank is RAM that is 0 and flash that
    /// is 0xff. `pages ADDRESS DISK`: what was written to a disk, where what was not is blank. This goes for all
    /// questions about pages.
    Pages(u32, Option<u32>),
    /// `sums ADDRESS`: answered with checksums of pages from there on, in lines `sums ADDRESS BASE64`, 8 bytes for each
    /// page, the lowest first, and `next ADDRESS` if there are more. Of a disk, those of blank pages are left out.
    Sums(u32, Option<u32>),
    /// `stage OFFSET BASE64`: a piece of a state that is to be put back. The first has offset 0.
    Stage(usize, Vec<u8>),
    /// `check`: whether that state can be put back. Nothing has changed by then.
    Check,
    /// `replace`: memory is going to be replaced: from now on the guest cannot go on but by `restore`. If its debugger
    /// is lost before, it is off.
    Replace,
    /// `put ADDRESS SUM BASE64`: a page, its checksum, and what `spica_snapshot` made of it.
    Put(u32, u64, Vec<u8>, Option<u32>),
    /// `blank ADDRESS COUNT`: so many bytes are blank.
    Blank(u32, u32, Option<u32>),
    /// `restore`: the state is put back, and the guest stands where it was when it was saved.
    Restore,
}

/// What is said of the heap of a guest's kernel, so that it is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heap {
    /// `heap begin BASE OBJECT_SIZE PAGES BYTES FROM TO`: where the linear map begins, where a cache has its objects'
    /// size, the array of pages and the bytes of its elements, and the kernel's code. What was found before is
    /// forgotten.
    Begin {
        /// Of the linear map.
        base: u32,
        /// An offset, with two fields in front of it.
        object_size: u32,
        /// An address, and the bytes of an element.
        pages: (u32, u32),
        /// Addresses, up to the second.
        code: (u32, u32),
    },
    /// `heap hook ADDRESS KIND`: what is told of before the A32 instruction there is executed.
    Hook(u32, Hook),
    /// `heap skip FROM TO`: this code, which is the allocator's, is not checked.
    Skip(u32, u32),
    /// `heap uninitialised CONSTRUCTOR`: reads of what nobody has written since it was allocated are errors, too. A
    /// cache has there the address of what initialises its objects once, or 0.
    Uninitialised(u32),
    /// `heap copies FROM TO`: this code may read what nobody has written: it copies.
    Copies(u32, u32),
    /// `heap on`: from now on, until it has lost its debugger.
    On,
    /// `heap off`: no longer. What was found is kept until then.
    Off,
    /// `heap errors`: answered with `heap ON ALLOCATED FREED LOOKED FORGOTTEN LOST UNINITIALISED`, decimal, of which
    /// the first is 1 as long as it is checked, and the last says how many objects were not cleared for who allocated
    /// them; and a line for each error, hexadecimal but for the last: `fault KIND r|w BYTES PC ADDRESS START SIZE
    /// ALLOCATED_BY FREED_BY TIMES`. Kinds are `freed`, `outside`, `uninitialised`, and of freeing `twice` and
    /// `within`. Each has a sample ([`Debug::Samples`]) of when it happened first, in the same order.
    Errors,
}

/// A place of a kernel's allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// `alloc`: R0 is the cache of which an object is wanted, LR who wants it.
    Allocate,
    /// `alloc-size`: R3 is also its size, and the word at SP who wants it.
    AllocateSize,
    /// `alloc-many`: R0 is the cache, R3 an array.
    AllocateMany,
    /// `size`: R0 is an object of which it is asked how much may be used.
    Size,
    /// `return N`: one of these returns, with R0, behind an instruction that takes `N` words from the stack.
    Return(u8),
    /// `clear`: the allocator clears R2 bytes from R0 on.
    Clear,
    /// `free`: object R1 of cache R0 is freed by LR.
    Free,
    /// `free-for`: the same by R2.
    FreeFor,
    /// `free-many`: R1 objects are freed, which are in an array at R2, of cache R0 if that is not 0.
    FreeMany,
    /// `free-pages`: 2 to the power of R1 pages from that of `struct page` R0 on are no slab any more.
    FreePages,
}

impl Hook {
    const ALL: [(&str, Hook); 9] = [
        ("alloc", Hook::Allocate),
        ("alloc-size", Hook::AllocateSize),
        ("alloc-many", Hook::AllocateMany),
        ("size", Hook::Size),
        ("clear", Hook::Clear),
        ("free", Hook::Free),
        ("free-for", Hook::FreeFor),
        ("free-many", Hook::FreeMany),
        ("free-pages", Hook::FreePages),
    ];

    /// As it is written.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Hook::Return(words) => alloc::format!("return {words:x}"),
            _ => Hook::ALL.iter().find(|(_, hook)| *hook == self).map_or("", |(name, _)| name).to_string(),
        }
    }
}

/// What is said of who uses the lines of a guest's memory, so that it is noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// `sharing begin BASE`: where the kernel's linear map begins. What was found before is forgotten.
    Begin(u32),
    /// `sharing at ADDRESS PLACE`: what is told of before the A32 instruction there is executed.
    At(u32, Place),
    /// `sharing on`: from now on, until it has lost its debugger.
    On,
    /// `sharing off`: no longer. What was found is kept until then.
    Off,
    /// `sharing contexts`: answered with `sharing ON LOOKED SWITCHES LOST`, decimal: the first is 1 as long as it is
    /// noted, then how many accesses were looked at, how often there was another process, and how many lines that
    /// several use had no room; and with a line `context NUMBER TASK` for each process that is told apart.
    Contexts,
    /// `sharing lines`: answered with a line for each line of memory that several use, one of which writes: `line
    /// ADDRESS`, and for each user `CONTEXT r|w|rw TURNS LOAD STORE`, of which the last two are instructions, or 0.
    Lines,
}

/// What is said of the edges of a kernel's control flow, so that they are counted by processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edges {
    /// `edges begin BASE`: where the kernel's linear map begins. What was counted before is forgotten.
    Begin(u32),
    /// `edges at ADDRESS PLACE`: what is told of before the A32 instruction there is executed.
    At(u32, Place),
    /// `edges skip FROM TO`: what begins in this code is not counted.
    Skip(u32, u32),
    /// `edges only BYTES`: processes of this name have a map of their own, and those of no other name but where that is
    /// said, too.
    Only([u8; NAME_BYTES]),
    /// `edges on`: from now on, until it has lost its debugger; of all processes alike.
    On,
    /// `edges names OFFSET`: a `struct task_struct` has its name there. From now on processes have maps by their
    /// names, and what was counted before is forgotten.
    Names(u32),
    /// `edges off`: no longer. What was counted is kept until then.
    Off,
    /// `edges maps`: answered with `edges ON SWITCHES`, decimal: the first is 1 as long as they are counted; with a
    /// line `task ADDRESS` for some of the processes that have run, as long as it is not known where their names are;
    /// and with a line `map NUMBER BYTES` for each name that has a map. Map 0 is of interrupts, 1 of all other
    /// processes.
    Maps,
    /// `edges map NUMBER`: answered with lines `edges BASE64` of the edges that were taken, of [`EDGE_BYTES`] each.
    Map(usize),
}

fn edges<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Edges, String> {
    Ok(match words.next() {
        Some("begin") => Edges::Begin(number(words.next())?),
        Some("at") => Edges::At(number(words.next())?, place(words)?),
        Some("skip") => Edges::Skip(number(words.next())?, number(words.next())?),
        Some("only") => {
            let bytes = bytes(words.next(), 1..=NAME_BYTES - 1).filter(|bytes| !bytes.contains(&0));
            let bytes = bytes.ok_or("a name is 1 to f pairs, hexadecimal, of digits, and has no 0")?;
            let mut name = [0; NAME_BYTES];
            name[..bytes.len()].copy_from_slice(&bytes);
            Edges::Only(name)
        }
        Some("on") => Edges::On,
        Some("names") => Edges::Names(number(words.next())?),
        Some("off") => Edges::Off,
        Some("maps") => Edges::Maps,
        Some("map") => Edges::Map(number(words.next())? as usize),
        _ => {
            let known = "`begin`, `at`, `skip`, `only`, `on`, `names`, `off`, `maps` or `map`";
            return Err(alloc::format!("what is said of edges is {known}"));
        }
    })
}

/// A place of a kernel at which somebody else begins to use memory, or to be who runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// `switch N`: to the task that register N points to, one of R0 to R14.
    Switch(u8),
    /// `interrupt`: its handler begins.
    Interrupt,
    /// `return N`: it returns, behind an instruction that takes `N` words from the stack.
    Return(u8),
    /// `named`: the task that R0 points to gets the name that R1 points to.
    Named,
}

impl Place {
    /// As it is written.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Place::Switch(register) => alloc::format!("switch {register:x}"),
            Place::Interrupt => "interrupt".to_string(),
            Place::Return(words) => alloc::format!("return {words:x}"),
            Place::Named => "named".to_string(),
        }
    }
}

fn place<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Place, String> {
    Ok(match words.next() {
        Some("switch") => {
            let register = number(words.next()).ok().filter(|n| *n < 15).ok_or("a register is 0 to e")?;
            Place::Switch(register as u8)
        }
        Some("interrupt") => Place::Interrupt,
        Some("return") => Place::Return(popped(words.next())?),
        Some("named") => Place::Named,
        _ => return Err("a place is `switch`, `interrupt`, `return` or `named`".to_string()),
    })
}

fn sharing<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Sharing, String> {
    Ok(match words.next() {
        Some("begin") => Sharing::Begin(number(words.next())?),
        Some("at") => Sharing::At(number(words.next())?, place(words)?),
        Some("on") => Sharing::On,
        Some("off") => Sharing::Off,
        Some("contexts") => Sharing::Contexts,
        Some("lines") => Sharing::Lines,
        _ => {
            let known = "`begin`, `at`, `on`, `off`, `contexts` or `lines`";
            return Err(alloc::format!("what is said of who uses memory is {known}"));
        }
    })
}

/// How many words a return takes from the stack.
fn popped(word: Option<&str>) -> Result<u8, String> {
    number(word)?.try_into().map_err(|_| "no instruction takes so much from the stack".to_string())
}

fn heap<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Heap, String> {
    Ok(match words.next() {
        Some("begin") => Heap::Begin {
            base: number(words.next())?,
            object_size: number(words.next())?,
            pages: (number(words.next())?, number(words.next())?),
            code: (number(words.next())?, number(words.next())?),
        },
        Some("hook") => {
            let address = number(words.next())?;
            let hook = match words.next() {
                Some("return") => Hook::Return(popped(words.next())?),
                name => {
                    let found = Hook::ALL.iter().find(|(known, _)| Some(*known) == name);
                    found.map(|(_, hook)| *hook).ok_or("there is no such hook")?
                }
            };
            Heap::Hook(address, hook)
        }
        Some("skip") => Heap::Skip(number(words.next())?, number(words.next())?),
        Some("uninitialised") => Heap::Uninitialised(number(words.next())?),
        Some("copies") => Heap::Copies(number(words.next())?, number(words.next())?),
        Some("on") => Heap::On,
        Some("off") => Heap::Off,
        Some("errors") => Heap::Errors,
        _ => {
            let known = "`begin`, `hook`, `skip`, `uninitialised`, `copies`, `on`, `off` or `errors`";
            return Err(alloc::format!("what is said of a heap is {known}"));
        }
    })
}

/// Bytes of memory that are blanked with one question at most.
pub const BLANK_BYTES: u32 = 0x1_0000;
/// Bytes of what is put back with one question at most: a page.
pub const PUT_BYTES: usize = 4096;

/// What accesses of memory are watched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// `w`: writes.
    Write,
    /// `r`: reads.
    Read,
    /// `a`: both.
    Access,
}

impl Watch {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Watch::Write => "w",
            Watch::Read => "r",
            Watch::Access => "a",
        }
    }
}

/// Registers that are shown together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// `core`: R0 to R14 of the present mode, PC, CPSR.
    Core,
    /// `banked`: SP and LR of User mode; SP, LR, SPSR of Supervisor, Abort, Undefined, IRQ, FIQ mode; R8 to R12 of FIQ
    /// mode.
    Banked,
    /// `system`: SCTLR, CPACR, TTBR0, TTBR1, TTBCR, DACR, DFSR, IFSR, DFAR, IFAR, VBAR, CONTEXTIDR, TPIDRURW, TPIDRURO,
    /// TPIDRPRW, FPEXC.
    System,
    /// `vfp`: D0 to D31, the low half of each first, and FPSCR.
    Vfp,
}

impl Group {
    const ALL: [(&str, Group); 4] =
        [("core", Group::Core), ("banked", Group::Banked), ("system", Group::System), ("vfp", Group::Vfp)];

    /// How many words it has.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Group::Core => 17,
            Group::Banked => 22,
            Group::System => 16,
            Group::Vfp => 65,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Group::ALL.iter().find(|(_, group)| *group == self).map_or("", |(name, _)| name)
    }
}

/// What an address is an address of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// `va`: what the guest's own tables say now.
    Virtual,
    /// `pa`: guest physical memory.
    Physical,
}

/// Understands what is behind `debug GUEST`.
///
/// # Errors
/// What is wrong.
pub fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Debug, String> {
    let verb = words.next().ok_or("`debug` needs a guest and a verb; it is for `spica gdb`")?;
    let debug = match verb {
        "attach" => Debug::Attach,
        "detach" => Debug::Detach,
        "halt" => Debug::Halt,
        "go" => Debug::Go,
        "step" => Debug::Step,
        "wait" => Debug::Wait,
        "regs" => Debug::Registers(group(words.next())?),
        "set" => Debug::Set(group(words.next())?, number(words.next())? as usize, number(words.next())?),
        "read" => {
            let (space, address, bytes) = (space(words.next())?, number(words.next())?, number(words.next())? as usize);
            if !(1..=READ_BYTES).contains(&bytes) {
                return Err("at most 100 bytes, hexadecimal, are read at once".to_string());
            }
            Debug::Read(space, address, bytes)
        }
        "write" => {
            let bytes = |word| bytes(word, 1..=WRITE_BYTES).ok_or("bytes are 1 to 40 pairs, hexadecimal, of digits");
            Debug::Write(space(words.next())?, number(words.next())?, bytes(words.next())?)
        }
        "break" => {
            let address = number(words.next())?;
            let condition = match words.next() {
                None => None,
                register => {
                    let register = number(register).ok().filter(|n| *n < 15).ok_or("a register is 0 to e")?;
                    Some((register as u8, number(words.next())?))
                }
            };
            Debug::Break(address, condition)
        }
        "clear" => Debug::Clear(number(words.next())?),
        "catch" => {
            ttbr(words.next())?;
            Debug::CatchTtbr(match words.next() {
                None => None,
                value => Some(number(value)?),
            })
        }
        "uncatch" => ttbr(words.next()).map(|()| Debug::UncatchTtbr)?,
        "watch" => Debug::Watch(watch(words.next())?, number(words.next())?, count(words.next(), WATCH_BYTES)?),
        "unwatch" => Debug::Unwatch(watch(words.next())?, number(words.next())?, count(words.next(), WATCH_BYTES)?),
        "count" => Debug::Count(match words.next() {
            None => None,
            every => {
                let every = number(every).ok().filter(|every| SAMPLE_EVERY.contains(every));
                let every = every.ok_or_else(|| {
                    let (least, most) = (SAMPLE_EVERY.start(), SAMPLE_EVERY.end());
                    alloc::format!("samples are {least:x} to {most:x} instructions apart")
                })?;
                let range = match words.next() {
                    None => None,
                    from => Some(number(from)?..number(words.next())?),
                };
                Some((every, range))
            }
        }),
        "uncount" => Debug::Uncount,
        "counts" => Debug::Counts,
        "samples" => Debug::Samples,
        "heap" => Debug::Heap(heap(&mut words)?),
        "clock" => match words.next() {
            Some("stands") => Debug::Clock { runs: false },
            Some("runs") => Debug::Clock { runs: true },
            _ => return Err("a clock `stands` or `runs`".to_string()),
        },
        "sharing" => Debug::Sharing(sharing(&mut words)?),
        "edges" => Debug::Edges(edges(&mut words)?),
        "dump" => Debug::Dump(number(words.next())?, count(words.next(), DUMP_BYTES)?),
        "find" => {
            let pattern = |word| bytes(word, PATTERN_BYTES).ok_or("a pattern is 8 to 20 pairs, hexadecimal, of digits");
            Debug::Find(number(words.next())?, count(words.next(), FIND_BYTES)?, pattern(words.next())?)
        }
        "save" => Debug::Save,
        "base" => Debug::Base(number(words.next())?),
        "pages" => Debug::Pages(number(words.next())?, disk(words.next())?),
        "sums" => Debug::Sums(number(words.next())?, disk(words.next())?),
        "stage" => Debug::Stage(number(words.next())? as usize, packed(words.next())?),
        "check" => Debug::Check,
        "replace" => Debug::Replace,
        "put" => {
            let (address, sum) = (number(words.next())?, words.next().unwrap_or(""));
            let digits = sum.len() == 16 && sum.bytes().all(|b| b.is_ascii_hexdigit());
            let sum = u64::from_str_radix(sum, 16).ok().filter(|_| digits).ok_or("a checksum has 16 digits")?;
            Debug::Put(address, sum, packed(words.next())?, disk(words.next())?)
        }
        "blank" => Debug::Blank(number(words.next())?, count(words.next(), BLANK_BYTES)?, disk(words.next())?),
        "restore" => Debug::Restore,
        _ => return Err(alloc::format!("`debug GUEST {verb}` is nothing that can be asked")),
    };
    match words.next() {
        None => Ok(debug),
        Some(word) => Err(alloc::format!("`{word}` is one word too many")),
    }
}

fn packed(word: Option<&str>) -> Result<Vec<u8>, String> {
    let bytes = word.and_then(base64::decode).filter(|bytes| (1..=PUT_BYTES).contains(&bytes.len()));
    bytes.ok_or_else(|| alloc::format!("bytes are 1 to {PUT_BYTES} in base64"))
}

fn disk(word: Option<&str>) -> Result<Option<u32>, String> {
    word.map(|word| number(Some(word))).transpose()
}

fn ttbr(word: Option<&str>) -> Result<(), String> {
    if word == Some("ttbr") { Ok(()) } else { Err("what is caught is `ttbr`".to_string()) }
}

fn group(word: Option<&str>) -> Result<Group, String> {
    let found = Group::ALL.iter().find(|(name, _)| Some(*name) == word);
    found.map(|(_, group)| *group).ok_or_else(|| "registers are `core`, `banked`, `system` or `vfp`".to_string())
}

fn space(word: Option<&str>) -> Result<Space, String> {
    match word {
        Some("va") => Ok(Space::Virtual),
        Some("pa") => Ok(Space::Physical),
        _ => Err("an address is `va` or `pa`".to_string()),
    }
}

fn watch(word: Option<&str>) -> Result<Watch, String> {
    let found = [Watch::Write, Watch::Read, Watch::Access].into_iter().find(|kind| Some(kind.name()) == word);
    found.ok_or_else(|| "a watchpoint is one of `w`, `r` or `a`".to_string())
}

fn number(word: Option<&str>) -> Result<u32, String> {
    let digits = |word: &&str| word.bytes().all(|b| b.is_ascii_hexdigit());
    let value = word.filter(digits).and_then(|word| u32::from_str_radix(word, 16).ok());
    value.ok_or_else(|| "a number is 1 to 8 hexadecimal digits".to_string())
}

fn count(word: Option<&str>, most: u32) -> Result<u32, String> {
    let count = number(word)?;
    let fits = (1..=most).contains(&count);
    fits.then_some(count).ok_or_else(|| alloc::format!("a count is 1 to {most:x}"))
}

fn bytes(word: Option<&str>, fit: core::ops::RangeInclusive<usize>) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|digit| digit as u8);
    let pairs = word.unwrap_or("").as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect();
    bytes.filter(|bytes| fit.contains(&bytes.len()))
}

/// Where `pattern`, of [`PATTERN_BYTES`], is first in `bytes`.
///
/// It looks at words: of each place where the pattern may be, one word lies wholly in it.
#[must_use]
pub fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    let part = |n: usize| Some(u32::from_le_bytes(*pattern.get(n..)?.first_chunk()?));
    let [a, b, c, d] = [part(0)?, part(1)?, part(2)?, part(3)?];
    for (n, word) in bytes.as_chunks::<4>().0.iter().enumerate() {
        let word = u32::from_le_bytes(*word);
        if word != a && word != b && word != c && word != d {
            continue;
        }
        // The earliest place first.
        for (before, part) in [d, c, b, a].into_iter().enumerate().map(|(n, part)| (3 - n, part)) {
            if word == part
                && let Some(at) = (4 * n).checked_sub(before)
                && bytes[at..].starts_with(pattern)
            {
                return Some(at);
            }
        }
    }
    None
}
