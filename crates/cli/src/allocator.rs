//! The allocator of a guest's kernel, as `spica watch heap` has to know it: where objects are allocated and freed, and
//! where that code returns.
//!
//! It is SLUB of Linux 6.1 and what is like it: functions are known by their names and arguments, their returns and
//! what else is needed by their code, so that no debug symbols are needed and no version is assumed beyond that.

use std::collections::BTreeMap;
use std::ops::Range;

use spica_console::debug::Hook;
use spica_isa::{Mem, Offset, Op, Operand2, ShiftType, decode};
use spica_kallsyms::Symbol;
use spica_runner::error::{Error, Result};

use crate::counts::code_range;
use crate::kernel_code::{Names, Read, instructions, popped, target};

/// What the board has to know of an allocator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocator {
    /// The first address of the kernel's linear map.
    pub base: u32,
    /// Where a `struct kmem_cache` has the size of its objects.
    pub object_size: u32,
    /// Where it has what initialises them once, if that is known.
    pub constructor: Option<u32>,
    /// Where the address of the array of `struct page` is, and bytes of one.
    pub pages: (u32, u32),
    /// Where its code is to be told of.
    pub hooks: BTreeMap<u32, Hook>,
    /// The kernel's code and its modules'.
    pub kernel: Range<u32>,
    /// Its code, which accesses what nobody else may.
    pub code: Range<u32>,
    /// Code that copies, whatever is there.
    pub copies: Vec<Range<u32>>,
}

/// Functions, what is told of them, and whether they have to be there.
const FUNCTIONS: [(&str, Hook, bool); 9] = [
    ("kmem_cache_alloc", Hook::Allocate, true),
    ("kmem_cache_alloc_lru", Hook::Allocate, false),
    ("kmem_cache_alloc_node", Hook::Allocate, false),
    ("__kmem_cache_alloc_node", Hook::AllocateSize, true),
    ("kmem_cache_alloc_bulk", Hook::AllocateMany, true),
    ("__ksize", Hook::Size, true),
    ("kmem_cache_free", Hook::Free, true),
    ("__kmem_cache_free", Hook::FreeFor, true),
    ("kmem_cache_free_bulk", Hook::FreeMany, true),
];

/// Functions that copy; who has what they copy may not look at it.
const COPIES: [&str; 6] = ["memcpy", "__memcpy", "mmiocpy", "memmove", "__memmove", "copy_page"];

/// Functions that are first and last in what mm/slub.c is compiled to.
const FIRST: [&str; 4] = ["validate_show", "slab_attr_show", "init_object", "check_slab"];
const LAST: [&str; 5] =
    ["slabinfo_write", "slabinfo_show_stats", "get_slabinfo", "__kmem_cache_create", "sysfs_slab_release"];
/// Bytes of it, at most.
const MOST_CODE: u32 = 0x2_0000;
/// What the linear map begins at a multiple of.
const LINEAR: u32 = 512 << 20;

fn unknown(what: &str) -> Error {
    Error::failed(format!("the allocator of this kernel is not known, which is to be that of Linux 6.1, SLUB: {what}"))
}

fn needed(names: Names<'_>, name: &str) -> Result<Range<u32>> {
    names.range(name).ok_or_else(|| unknown(&format!("it has no {name}")))
}

/// Finds the allocator of a kernel that has these names, in the order of their addresses.
///
/// # Errors
/// If it is not one that is known, or cannot be read.
pub fn find(names: &[Symbol], read: &mut Read<'_>) -> Result<Allocator> {
    let kernel = code_range(names).unwrap_or_default();
    let names = Names(names);
    let base = needed(names, "kmem_cache_alloc")?.start / LINEAR * LINEAR;
    let size = needed(names, "kmem_cache_size")?;
    let object_size = field_returned(&read(size)?).ok_or_else(|| unknown("kmem_cache_size is not as it was"))?;
    if !(12..0x100).contains(&object_size) {
        return Err(unknown("a cache has its sizes elsewhere"));
    }
    let pages = pages(&read(needed(names, "kfree")?)?).ok_or_else(|| unknown("pages are found in another way"))?;
    let code = code_of(names)?;
    let clears: Vec<u32> =
        ["memset", "__memset", "mmioset"].iter().filter_map(|name| names.range(name)).map(|it| it.start).collect();
    let mut hooks = BTreeMap::new();
    for (name, hook, needed) in FUNCTIONS {
        let function = match names.range(name) {
            None if !needed => continue,
            function => function.ok_or_else(|| unknown(&format!("it has no {name}")))?,
        };
        if hook != Hook::Size && !code.contains(&function.start) {
            return Err(unknown(&format!("{name} is not where the rest of it is")));
        }
        hooks.insert(function.start, hook);
        if !matches!(hook, Hook::Allocate | Hook::AllocateSize | Hook::AllocateMany | Hook::Size) {
            continue;
        }
        let mut returns = 0;
        for (at, instruction) in instructions(function.start, &read(function.clone())?) {
            if let Some(words) = popped(&instruction) {
                hooks.insert(at, Hook::Return(words));
                returns += 1;
            } else if let Some(target) = target(at, &instruction)
                && clears.contains(&target)
            {
                hooks.insert(at, Hook::Clear);
            }
        }
        if returns == 0 {
            return Err(unknown(&format!("{name} does not return")));
        }
    }
    let frees = needed(names, "__free_pages")?.start;
    let before = hooks.len();
    for (at, instruction) in instructions(code.start, &read(code.clone())?) {
        if target(at, &instruction) == Some(frees) {
            hooks.insert(at, Hook::FreePages);
        }
    }
    if hooks.len() == before {
        return Err(unknown("it gives no pages back"));
    }
    let constructor = match names.range("ctor_show") {
        Some(function) => field_read(&read(function)?),
        None => None,
    };
    let copies = COPIES.iter().filter_map(|name| names.range(name)).collect();
    Ok(Allocator { base, object_size, constructor, pages, hooks, code, copies, kernel })
}

/// Where the code of mm/slub.c is.
fn code_of(names: Names<'_>) -> Result<Range<u32>> {
    let ranges = |of: &[&str]| of.iter().filter_map(|name| names.range(name)).collect::<Vec<_>>();
    let start = ranges(&FIRST).iter().map(|range| range.start).min();
    let end = ranges(&LAST).iter().map(|range| range.end).max();
    let code = start.zip(end).map(|(start, end)| start..end);
    code.filter(|code| code.start < code.end && code.end - code.start <= MOST_CODE)
        .ok_or_else(|| unknown("its functions do not lie together"))
}

/// Which field of what R0 points to a function returns.
fn field_returned(words: &[u32]) -> Option<u32> {
    words.iter().map(|&word| decode(word)).find_map(|instruction| match instruction.op {
        Op::Mem(Mem { load: true, rt, rn, offset: Offset::Imm(offset), add: true, pre: true, .. })
            if rt.n() == 0 && rn.n() == 0 =>
        {
            Some(offset.into())
        }
        _ => None,
    })
}

/// Which field of what R0 points to a function reads first.
fn field_read(words: &[u32]) -> Option<u32> {
    words.iter().map(|&word| decode(word)).find_map(|instruction| match instruction.op {
        Op::Mem(Mem { load: true, rn, offset: Offset::Imm(offset), add: true, pre: true, .. }) if rn.n() == 0 => {
            Some(offset.into())
        }
        _ => None,
    })
}

/// What a register has, as far as it matters.
#[derive(Clone, Copy)]
enum Value {
    Constant(u32),
    /// The word at this address.
    Loaded(u32),
}

/// From code that makes of an address the `struct page` of its page: where the array's address is, and the bytes of an
/// element. It is a product, or a shift, that is added to what was loaded.
fn pages(words: &[u32]) -> Option<(u32, u32)> {
    let mut values: [Option<Value>; 16] = [None; 16];
    for &word in words {
        let of = |values: &[Option<Value>; 16], n: u32| values[(n & 15) as usize];
        // MLA (A8.8.100).
        if word & 0x0fe0_00f0 == 0x0020_0090 {
            let factors = [of(&values, word), of(&values, word >> 8)];
            let bytes = factors.into_iter().find_map(|value| match value {
                Some(Value::Constant(bytes)) => Some(bytes),
                _ => None,
            });
            if let (Some(Value::Loaded(at)), Some(bytes)) = (of(&values, word >> 12), bytes) {
                return Some((at, bytes));
            }
            values[(word >> 16 & 15) as usize] = None;
            continue;
        }
        match decode(word).op {
            Op::MoveWide { top, rd, imm } => {
                let place = &mut values[rd.n() as usize];
                *place = match (top, *place) {
                    (false, _) => Some(Value::Constant(imm.into())),
                    (true, Some(Value::Constant(low))) => Some(Value::Constant(low & 0xffff | u32::from(imm) << 16)),
                    (true, _) => None,
                };
            }
            Op::Mem(Mem { load: true, rt, rn, offset: Offset::Imm(offset), add: true, pre: true, .. }) => {
                values[rt.n() as usize] = match values[rn.n() as usize] {
                    Some(Value::Constant(base)) => Some(Value::Loaded(base.wrapping_add(offset.into()))),
                    _ => None,
                };
            }
            Op::DataProcessing { op: spica_isa::DpOp::Mov, rd, op2: Operand2::Imm(imm), .. } => {
                values[rd.n() as usize] = Some(Value::Constant(imm.value()));
            }
            Op::DataProcessing { op, rd, rn, op2, .. } => {
                if let (
                    spica_isa::DpOp::Add,
                    Some(Value::Loaded(at)),
                    Operand2::Shifted { shift: ShiftType::Lsl, amount, .. },
                ) = (op, values[rn.n() as usize], op2)
                    && amount != 0
                {
                    return Some((at, 1 << amount));
                }
                if !op.is_test() {
                    values[rd.n() as usize] = None;
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use spica_isa::Cond;
    use spica_isa::asm::b;

    /// PUSH of R4 and LR, and the same registers back with the PC; BX LR; NOP.
    const PUSH: u32 = 0xe92d_4010;
    const POP: u32 = 0xe8bd_8010;
    const BX_LR: u32 = 0xe12f_ff1e;
    const NOP: u32 = 0xe320_f000;
    /// Each function has so many words.
    const WORDS: u32 = 8;
    const START: u32 = 0xc010_0000;

    const NAMES: [&str; 15] = [
        "ctor_show",
        "kfree",
        "__ksize",
        "kmem_cache_size",
        "memset",
        "__free_pages",
        "slab_attr_show",
        "kmem_cache_alloc",
        "__kmem_cache_alloc_node",
        "kmem_cache_alloc_bulk",
        "kmem_cache_free",
        "__kmem_cache_free",
        "kmem_cache_free_bulk",
        "__free_slab",
        "get_slabinfo",
    ];

    fn at(name: &str) -> u32 {
        START + 4 * WORDS * NAMES.iter().position(|known| *known == name).expect("a name") as u32
    }

    /// A kernel: its names, and its code.
    fn kernel() -> (Vec<Symbol>, Vec<u32>) {
        let mut names: Vec<Symbol> =
            NAMES.iter().map(|name| Symbol { address: at(name), kind: b'T', name: (*name).to_string() }).collect();
        let end = START + 4 * WORDS * NAMES.len() as u32;
        names.push(Symbol { address: end, kind: b'T', name: "_etext".to_string() });
        let mut words = vec![NOP; (WORDS as usize) * NAMES.len()];
        let mut put = |name: &str, code: &[u32]| {
            let first = (at(name) - START) as usize / 4;
            words[first..first + code.len()].copy_from_slice(code);
        };
        let call = |from: &str, n: u32, to: &str| {
            let offset = at(to).wrapping_sub(at(from) + 4 * n + 8).cast_signed();
            b(Cond::Al, offset).expect("near")
        };
        // LDR R2, [R0, #56]; MOV R3, R1
        put("ctor_show", &[0xe590_2038, 0xe1a0_3001, BX_LR]);
        // LDR R0, [R0, #16]
        put("kmem_cache_size", &[0xe590_0010, BX_LR]);
        // MOVW R2, #0xdc40; MOVT R2, #0xc15d; MOV R1, #36; LDR R0, [R2]; LSR R3, R3, #12; MLA R0, R1, R3, R0
        put("kfree", &[0xe30d_2c40, 0xe34c_215d, 0xe3a0_1024, 0xe592_0000, 0xe1a0_3623, 0xe020_0391, BX_LR]);
        put("__ksize", &[PUSH, NOP, POP, 0x012f_ff1e, BX_LR]);
        for name in ["kmem_cache_alloc", "__kmem_cache_alloc_node", "kmem_cache_alloc_bulk"] {
            // BL, for B.
            put(name, &[PUSH, call(name, 1, "memset") | 1 << 24, NOP, POP]);
        }
        put("__free_slab", &[NOP, call("__free_slab", 1, "__free_pages")]);
        (names, words)
    }

    fn found(names: &[Symbol], words: &[u32]) -> Result<Allocator> {
        find(names, &mut |range: Range<u32>| {
            let word = |address: u32| (address - START) as usize / 4;
            Ok(words[word(range.start)..word(range.end)].to_vec())
        })
    }

    #[test]
    fn an_allocator_is_found_by_its_names_and_code() {
        let (names, words) = kernel();
        let Allocator { base, object_size, constructor, pages, hooks, code, .. } =
            found(&names, &words).expect("an allocator");
        assert_eq!((base, object_size, pages), (0xc000_0000, 16, (0xc15d_dc40, 36)));
        assert_eq!(constructor, Some(0x38));
        assert_eq!(code, at("slab_attr_show")..at("get_slabinfo") + 4 * WORDS);
        let mut expected = BTreeMap::from([
            (at("__ksize"), Hook::Size),
            (at("__ksize") + 8, Hook::Return(2)),
            (at("__ksize") + 12, Hook::Return(0)),
            (at("__ksize") + 16, Hook::Return(0)),
            (at("kmem_cache_free"), Hook::Free),
            (at("__kmem_cache_free"), Hook::FreeFor),
            (at("kmem_cache_free_bulk"), Hook::FreeMany),
            (at("__free_slab") + 4, Hook::FreePages),
        ]);
        for (name, hook) in [
            ("kmem_cache_alloc", Hook::Allocate),
            ("__kmem_cache_alloc_node", Hook::AllocateSize),
            ("kmem_cache_alloc_bulk", Hook::AllocateMany),
        ] {
            expected.extend([(at(name), hook), (at(name) + 4, Hook::Clear), (at(name) + 12, Hook::Return(2))]);
        }
        assert_eq!(hooks, expected);
    }

    #[test]
    fn pages_may_have_a_power_of_two() {
        // ADD R0, R0, R3, LSL #5 instead of the product.
        let words = [0xe30d_2c40, 0xe34c_215d, 0xe592_0004, 0xe1a0_3623, 0xe080_0283];
        assert_eq!(pages(&words), Some((0xc15d_dc44, 32)));
        assert_eq!(pages(&words[1..]), None);
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is_missing() {
        for (n, name) in NAMES.iter().enumerate() {
            let (mut names, words) = kernel();
            names.remove(n);
            if ["slab_attr_show", "get_slabinfo", "__free_slab", "memset", "ctor_show"].contains(name) {
                continue;
            }
            let error = found(&names, &words).expect_err("it is not there");
            assert!(error.message.contains("SLUB"), "{name}: {}", error.message);
        }
        for (name, word) in [("kmem_cache_size", 0), ("kfree", 5), ("kmem_cache_alloc", 3), ("__free_slab", 1)] {
            let (names, mut words) = kernel();
            words[(at(name) - START) as usize / 4 + word] = NOP;
            assert!(found(&names, &words).is_err(), "{name}");
        }
    }
}
