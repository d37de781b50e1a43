//! Making a VM from its description: its memory, its share of the hypervisor's, and what its processor says that it is.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::fmt;

use spica_bundle::GuestSpec;
use spica_dbt::looks::Looks;
use spica_dbt::preemptive_flush::PreemptiveFlush;
use spica_dbt::{Capacity, Options};
use spica_mmu::{Chunk, Config, Shadow};
use spica_switches::Switches;
use spica_vcpu::cp15::has_thumbee;
use spica_vcpu::{Cpu, CpuId, VcpuPage};

use super::boot::Loading;
use super::counters::Counters;
use super::devices::Devices;
use super::mmu::Mmu;
use super::ram::Ram;
use super::tables::Tables;
use super::{Common, Vcpu, Vm};
use crate::arch::identity;
use crate::engine::blocks::Blocks;
use crate::engine::code::{self, CodePages, Room};
use crate::engine::in_place::{self, InPlace, Setup};
use crate::engine::{Engine, KernelEngine};
use crate::host::Host;
use crate::layout::{MEGABYTE, NEAR_CODE_SIZE, REGION_ENTRIES, REGION_START};
use crate::machine::{GuestMachine, Machine, MachineConfig};
use crate::memory::pool::{Exhausted, Share};
use crate::memory::{host_space::region_entries, ram as host_ram};
use crate::papers::SEPARATION;
use crate::world::{Context, announced_line};
use spica_ram::spans::Span;

/// How much of the hypervisor's memory a VM gets.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Pages of code, of the return mirror, and of what runs in place.
    pub room: Room,
    /// Records of the translator.
    pub capacity: Capacity,
    /// Bytes of shadow tables.
    pub table_bytes: u32,
    /// Address spaces kept; two host ASIDs each.
    pub spaces: u8,
    /// How the guest's kernel is to run in place; `None`: all of it runs by blocks.
    pub in_place: Option<Setup>,
}

impl Sizes {
    /// What a Linux distribution needs without ever flushing, in 12 MiB. By blocks: a boot of Debian fills 620 code
    /// pages with 37,000 blocks and 60,000 exits; kernel operations after that 90, 4,400 and 8,700 more, and all
    /// applications of the benchmark 150, 7,800 and 15,000. Some 1,700 pages of kernel text have places in the return
    /// mirror, most of them not for long. In place: a boot executes code of some 1,100 pages, most of which have their
    /// neighbours copied as well; what is sensitive in them has some 3,000 blocks in 19 code pages.
    pub const LINUX: Sizes = Sizes {
        room: Room { code: 896, mirror: 816, near: 128 },
        capacity: Capacity { blocks: 50_000, exits: 86_000, mirror_pages: 816 },
        table_bytes: MEGABYTE + 384 * 1024,
        spaces: 64,
        in_place: None,
    };

    /// The same where `guests` share the board: there are 254 ASIDs for all, and the hypervisor region has room for so
    /// much. `ram`: the bytes of RAM that this one has, for whose processes there is a 128th of that in shadow tables.
    /// `in_place`: how their kernels are to run in place.
    pub fn linux(guests: usize, ram: u32, in_place: Option<spica_options::InPlace>) -> Sizes {
        let spaces = (MAX_SPACES / guests.max(1)).min(Self::LINUX.spaces.into()) as u8;
        let in_place = in_place.map(|asked| Setup { base: asked.base, from_start: asked.from_start });
        if guests <= SPACIOUS {
            let table_bytes = Self::LINUX.table_bytes + ram / RAM_FOR_TABLES;
            return Sizes { table_bytes, spaces, in_place, ..Self::LINUX };
        }
        // The hypervisor region has room for less each: a large program has some of its code translated again and
        // again.
        let capacity = Capacity { blocks: 30 * 1024, exits: 47 * 1024, ..Self::LINUX.capacity };
        Sizes { room: Room { code: 512, ..Self::LINUX.room }, capacity, spaces, in_place, ..Self::LINUX }
    }

    /// Takes that much of the hypervisor's memory, for a guest with `ram` bytes of RAM whose devices need `devices`
    /// bytes of the heap.
    ///
    /// # Errors
    /// If there is not so much.
    pub fn share(&self, ram: u32, devices: u32) -> Result<Share, Exhausted> {
        Share::take(self.heap_bytes(ram) + devices, self.block_bytes())
    }

    /// Bytes of the hypervisor's memory for a guest with `ram` bytes of RAM, all that its records can grow to included;
    /// without what its devices need.
    pub const fn bytes(&self, ram: u32) -> u32 {
        self.heap_bytes(ram) + self.block_bytes()
    }

    const fn heap_bytes(&self, ram: u32) -> u32 {
        // A word per page of RAM is what the shadow tables' records need.
        let twins = match self.in_place {
            Some(_) => in_place::heap_bytes(self.room.twins()),
            None => 0,
        };
        self.capacity.bytes() as u32 + twins + ram / 1024 + self.spaces as u32 * SPACE_RECORD + OTHER_RECORDS
    }

    /// The vCPU page with what assembly needs beside it, the code cache, and the shadow tables, which are aligned.
    const fn block_bytes(&self) -> u32 {
        // Aligned to its size, and what is behind it to less: that is what it takes at most.
        2 * VCPU_BYTES + code::block_bytes(self.room) + self.table_bytes.next_multiple_of(16 * 1024) + 16 * 1024
    }
}

/// A guest of 256 MiB costs 12 MiB more at most with 24 processes that take turns, and 14.5 with all that there may be.
const _: () = {
    let in_place = Some(Setup { base: None, from_start: false });
    let ram = 256 * MEGABYTE;
    assert!(Sizes { in_place, spaces: 24, ..Sizes::LINUX }.bytes(ram) <= 12 * MEGABYTE);
    let table_bytes = Sizes::LINUX.table_bytes + ram / RAM_FOR_TABLES;
    assert!(Sizes { in_place, table_bytes, ..Sizes::LINUX }.bytes(ram) <= 14 * MEGABYTE + MEGABYTE / 2);
};

/// That many guests find room in the hypervisor region as [`Sizes::LINUX`] is, and some devices for each.
const SPACIOUS: usize = 6;

/// Bytes of RAM for each byte of shadow tables beyond [`Sizes::LINUX`]'s. Each process that takes turns with others
/// needs 32 KiB, and each megabyte of addresses that it uses one or two more.
const RAM_FOR_TABLES: u32 = 128;

/// Address spaces for all guests together: each needs two ASIDs, and 0 and the host table's are taken.
const MAX_SPACES: usize = 127;

/// Bytes of the heap for the records of an address space.
const SPACE_RECORD: u32 = (Shadow::SPACE_BYTES as u32).next_multiple_of(1024);

/// Bytes of the heap for a guest's other records, all of a fixed size: of what is watched, of its machine.
const OTHER_RECORDS: u32 = 256 * 1024;

/// Entries of shadow tables that are dropped in one piece: some 30,000 instructions.
const PIECE: u32 = 250;

/// Why a guest cannot be made.
#[derive(Debug)]
pub enum CreateError {
    /// The board has not that much free memory in one piece.
    Memory {
        /// Bytes asked for.
        wanted: u32,
        /// Bytes of the largest free piece, in whole megabytes.
        largest: u64,
        /// Bytes that are free in all.
        free: u64,
        /// Bytes of all memory that can be used, free or not.
        all: u64,
    },
    /// The hypervisor's own memory is exhausted.
    Pool,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::Memory { wanted, largest, free, all } => write!(
                f,
                "memory: {} MiB wanted in one piece, but the largest free piece has {} MiB: of {} MiB that can be used, \
                 {} MiB are Spica's, the bundle's and other guests', and {} MiB are free in smaller pieces; name no more \
                 than the largest piece has, or take a board with more memory",
                wanted >> 20,
                largest >> 20,
                all >> 20,
                all.saturating_sub(*free).div_ceil(MEGABYTE.into()),
                free.saturating_sub(*largest) >> 20,
            ),
            CreateError::Pool => write!(f, "the hypervisor's own memory does not suffice for one more guest"),
        }
    }
}

impl Vm {
    /// Takes the memory of a guest, in one piece: its RAM, and behind it that of its flash.
    ///
    /// # Errors
    /// If no free piece is as large.
    pub fn memory(spec: &GuestSpec<'static>) -> Result<Ram, CreateError> {
        let flash = spec.flash_bytes();
        let wanted = spec.memory_bytes + flash[0] + flash[1];
        let host_pa = host_ram::take(spica_addr::HostPa(0), wanted, MEGABYTE).ok_or_else(|| CreateError::Memory {
            wanted,
            largest: host_ram::largest_piece(),
            free: host_ram::free_bytes(),
            all: host_ram::banks().iter().map(Span::len).sum(),
        })?;
        let banks = [0, 1].map(|bank| (Machine::FLASH[bank], flash[bank]));
        // SAFETY: just taken, for this guest.
        Ok(unsafe { Ram::new(Machine::RAM, host_pa, spec.memory_bytes, banks) })
    }

    /// A VM as its description asks for, with this memory. It waits for an [`Image`](super::boot::Image) to be loaded.
    ///
    /// # Errors
    /// What is missing, and what would be right.
    pub fn create(
        spec: &GuestSpec<'static>,
        ram: Ram,
        switches: Switches,
        sizes: Sizes,
        mut share: Share,
        devices: Devices,
        host: &mut Host,
    ) -> Result<Vm, CreateError> {
        let page = share.alloc(VCPU_BYTES, VCPU_BYTES).ok_or(CreateError::Pool)?;
        let code = CodePages::new(&mut share, sizes.room, page.pa()).ok_or(CreateError::Pool)?;
        let in_place = sizes.in_place.map(|setup| Box::new(InPlace::new(setup, sizes.room.twins())));
        let tables = Tables::new(share.alloc(sizes.table_bytes, 16 * 1024).ok_or(CreateError::Pool)?);
        let thumbee = has_thumbee(&cpu_id());
        let options = Options { thumbee, ..switches.translation };
        let engine = KernelEngine::new(Blocks::new(code, options, sizes.capacity), in_place);

        let asids = host.take_asids(2 * sizes.spaces).ok_or(CreateError::Pool)?;
        let region = region_entries();
        let (kernel_region, _) = kernel_entries(&engine);
        let mut shadow = Shadow::new(&Config {
            ram: &[Chunk { guest: Machine::RAM, host: ram.host(), megabytes: ram.size() / MEGABYTE }],
            region_first_mb: (REGION_START / MEGABYTE) as usize,
            region_kernel: &kernel_region,
            region_user: &region,
            asids,
            max_spaces: sizes.spaces.into(),
            share_kernel: switches.share_kernel,
            watch_pages: switches.watch_pages,
            keep_tables: switches.keep_tables,
            piece: PIECE,
            separation: SEPARATION,
        })
        .map_err(|_| CreateError::Pool)?;

        for (guest, at, bytes) in ram.flash().into_iter().filter(|&(_, _, bytes)| bytes != 0) {
            if !shadow.add_rom(guest, at, bytes) {
                return Err(CreateError::Pool);
            }
        }

        let flash = ram.flash().map(|(_, _, bytes)| bytes);
        // SAFETY: the block begins with a page for that, aligned, and lives for ever, as blocks do.
        let vcpu_page: &'static mut VcpuPage = unsafe { &mut *page.as_ptr().cast() };
        // Firmware is built for QEMU's own processor, which has long descriptors, and does not ask.
        let id = CpuId { lpae: flash != [0; 2], ..cpu_id() };
        let cpu = Cpu::new(vcpu_page, id);
        let mut mmu = Mmu::new(shadow, tables);
        if cpu.id.lpae {
            mmu.allow_long();
        }
        let context = page.as_ptr().wrapping_byte_add(VCPU_PAGE_BYTES as usize).cast::<Context>();
        // SAFETY: that is the rest of the block, which has room for it, is aligned, and nobody else's.
        let context: &'static mut Context = unsafe {
            context.write(Context::new(cpu, engine.blocks.jump_cache(), mmu.spaces()));
            &mut *context
        };
        let common = Common {
            name: spec.name.to_string(),
            ram,
            machine: Machine::new(&MachineConfig {
                rtc_base_seconds: host.wall_clock(),
                virtio: devices.plugs(),
                flash,
                fw_cfg: devices.fw_cfg(),
            }),
            devices,
            engine,
            switches,
            counters: Counters::default(),
            code_map: Box::default(),
            backlog: Default::default(),
            volatile: Default::default(),
            snapshot: Box::new([0; 1024]),
            later: None,
            preemptive_flush: PreemptiveFlush::default(),
            looks: Looks::default(),
            trapped: None,
            watches: Default::default(),
            samples: None,
            checker: None,
            uncounting: false,
            missed: Default::default(),
            start: host.now(),
            overhead: sizes.bytes(spec.memory_bytes),
        };
        let mut vm = Vm { vcpu: Vcpu::new(context, mmu), common, loading: Loading::default() };
        if let Some(base) = vm.common.engine.base_from_start() {
            vm.begin_in_place(base);
        }
        Ok(vm)
    }
}

/// Bytes of the vCPU page.
const VCPU_PAGE_BYTES: u32 = 4096;
/// The same with what assembly needs beside it, in one megabyte, which the core maps by one entry of its TLB: there are
/// 32 in a Cortex-A8, and the fast path of a trap needs both.
const VCPU_BYTES: u32 = (VCPU_PAGE_BYTES + size_of::<Context>() as u32).next_power_of_two();

/// The room for a code cache near a guest's kernel, in megabytes.
const NEAR_MB: usize = (NEAR_CODE_SIZE / MEGABYTE) as usize;

/// First-level entries of the hypervisor region for a guest's kernel, and of a code cache that is near that.
pub(super) fn kernel_entries(engine: &KernelEngine) -> ([u32; REGION_ENTRIES], [u32; NEAR_MB]) {
    let (mut region, mut near) = (region_entries(), [0; NEAR_MB]);
    for (va, entry) in engine.blocks.first_level() {
        match region.get_mut((va.wrapping_sub(REGION_START) / MEGABYTE) as usize) {
            Some(place) => *place = entry,
            None => near[((va - engine.region().0) / MEGABYTE) as usize] = entry,
        }
    }
    (region, near)
}

/// What the guest's identification registers say: the host's own, less what a guest of ours must not see.
fn cpu_id() -> CpuId {
    let mut id = identity::read();
    // One line for both caches (CTR, B4.1.42: log2 of words).
    let log2_words = (announced_line() / 4).ilog2();
    id.ctr = id.ctr & !0x000f_000f | log2_words << 16 | log2_words;
    // One set of one way: loops by set and way end at once (CCSIDR, B4.1.19).
    id.ccsidr_data &= 0xf000_0007;
    id.ccsidr_instr &= 0xf000_0007;
    // A multiprocessing core that is alone says so (MPIDR.U, B4.1.106), or the guest looks for an SCU.
    if id.mpidr >> 31 != 0 {
        id.mpidr = 0xc000_0000;
    }
    id.tcmtr = 0;
    // No performance monitors, no debug registers in CP14 but the baseline ones, which are there on every core
    // (ID_DFR0, B4.1.82; DBGDIDR.Version, C11.11.15), no virtualisation, no generic timer but the device tree's.
    id.dfr0 = (id.dfr0 & 0xf00).min(0x400) | 0x0f00_0000;
    id.dbgdidr = id.dbgdidr & !0x000f_0000 | 4 << 16;
    id.pfr[1] &= !0x000f_f000;
    // Short descriptors with PXN at most (VMSA, B4.1.89): no large physical addresses.
    id.mmfr[0] = id.mmfr[0] & !0xf | (id.mmfr[0] & 0xf).min(4);
    id
}
