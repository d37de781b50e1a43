//! The shadow tables and the real registers behind a step: nothing is mapped that the guest's tables do not allow, and
//! nothing but the guest's RAM ever.

use alloc::format;
use alloc::string::String;

use spica_addr::{GuestPa, GuestVa, HostPa};
use spica_mmu::{MAX_ALIASED, Mapping, Permission, Regime, View, lookup};

use crate::arch::cp15::{Contextidr, Dacr, SysRegRead, Ttbr0};
use crate::host_cpu::HostSpace;
use crate::layout::{HOST_DOMAIN, MEGABYTE, REGION_SIZE, REGION_START};
use crate::papers::SEPARATION;
use crate::vm::{Vm, regime};
use crate::world::Privilege;
use spica_mmu::Separation;

/// The bits of a small page and of a section that are not address, permission to write, or XN (spica_mmu::host says
/// why so).
const PAGE: u32 = 0b10 | 0b11 << 2 | 0b001 << 6 | 0b10 << 4 | 1 << 11;
const PAGE_WRITABLE: u32 = 1 << 4;
const PAGE_XN: u32 = 1;
const SECTION: u32 = 0b10 | 0b11 << 2 | 0b001 << 12 | 0b10 << 10 | 1 << 17;
const SECTION_WRITABLE: u32 = 1 << 10;
const SECTION_XN: u32 = 1 << 4;

/// What an entry of the shadow says.
struct Shadowed {
    va: u32,
    view: View,
    host: u32,
    writable: bool,
    xn: bool,
    domain: u32,
    section: bool,
}

/// The real registers as the view that was left needs them.
pub fn check_core(vm: &mut Vm, privilege: Privilege, hostile: bool) -> Result<(), String> {
    let registers = *vm.vcpu.context.view_registers(privilege);
    let noted = vm.vcpu.context.dacr_in_force(privilege).raw();
    let (ttbr0, contextidr, dacr) = (Ttbr0::read_raw(), Contextidr::read_raw(), Dacr::read_raw());
    if (ttbr0, contextidr, dacr) != (registers.ttbr0, registers.contextidr, noted) {
        return Err(format!(
            "in the core TTBR0 {ttbr0:#x}, ASID {contextidr:#x}, DACR {dacr:#x}, but {:#x}, {:#x}, {noted:#x} was noted",
            registers.ttbr0, registers.contextidr,
        ));
    }
    if dacr & 0xaaaa_aaaa != 0 || dacr >> 30 != 1 {
        return Err(format!("the real DACR is {dacr:#x}"));
    }
    let page = &vm.vcpu.context.cpu.page;
    let view = SEPARATION.dacr_of(privilege.view());
    let guest = match (privilege, view) {
        // The kernel's write of DACR may be what it was left for.
        (Privilege::Kernel, _) => page.dacr_real,
        (Privilege::User, View::User) => page.dacr,
        (Privilege::User, View::Kernel) => vm.vcpu.context.kernel.guest_dacr,
    };
    if hostile { Ok(()) } else { check_dacr(dacr, guest, view) }
}

/// Closed may be what the guest has opened and not used yet.
fn check_dacr(real: u32, guest: u32, view: View) -> Result<(), String> {
    if real & !SEPARATION.host_dacr(guest, view).raw() == 0 {
        Ok(())
    } else {
        Err(format!("{view:?} view: the real DACR is {real:#x}, the guest's {guest:#x}"))
    }
}

/// Behind a step, which ended in the kernel: the tables that assembly has for both views are those of the active
/// space, and what the guest has closed is closed.
pub fn check_views(vm: &Vm, hostile: bool) -> Result<(), String> {
    if !hostile {
        check_dacr(vm.vcpu.context.kernel.dacr.raw(), vm.vcpu.context.cpu.page.dacr, View::Kernel)?;
    }
    for (view, registers) in [(View::Kernel, &vm.vcpu.context.kernel), (View::User, &vm.vcpu.context.user)] {
        let root = vm.vcpu.mmu.shadow().root(view);
        if !vm.vcpu.mmu.is_stale()
            && (registers.ttbr0 & !0x3fff, registers.contextidr) != (root.ttbr0.0, root.asid.into())
        {
            return Err(format!(
                "{view:?} tables at {:#x}, but the space's are at {:#x}",
                registers.ttbr0, root.ttbr0.0
            ));
        }
    }
    Ok(())
}

/// The active space's shadow tables. If `hostile`, they need not be what the guest's are, but are of its RAM.
pub fn check(vm: &mut Vm, host_space: HostSpace<'_>, hostile: bool) -> Result<(), String> {
    let views: &[View] = if SEPARATION == Separation::Tables { &[View::Kernel, View::User] } else { &[View::Kernel] };
    for &view in views {
        let root = vm.vcpu.mmu.shadow().root(view).ttbr0;
        for megabyte in 0..4096 {
            let va = megabyte * MEGABYTE;
            if (REGION_START..REGION_START + REGION_SIZE).contains(&va) {
                continue;
            }
            let entry = vm.vcpu.mmu.tables().word(HostPa(root.0 + 4 * megabyte));
            let domain = entry >> 5 & 0xf;
            match entry & 0b11 {
                0 => {}
                1 => check_table(vm, host_space, view, va, entry, hostile)?,
                _ => {
                    let bits = entry & !(0xfff0_0000 | 0xf << 5 | SECTION_WRITABLE | SECTION_XN);
                    let (writable, xn) = (entry & SECTION_WRITABLE != 0, entry & SECTION_XN != 0);
                    let host = entry & 0xfff0_0000;
                    let shadowed = Shadowed { va, view, host, writable, xn, domain, section: true };
                    require(vm, host_space, &shadowed, entry, bits == SECTION, hostile)?;
                }
            }
        }
    }
    Ok(())
}

fn check_table(
    vm: &mut Vm,
    host_space: HostSpace<'_>,
    view: View,
    va: u32,
    entry: u32,
    hostile: bool,
) -> Result<(), String> {
    for index in 0..256 {
        let page = vm.vcpu.mmu.tables().word(HostPa((entry & !0x3ff) + 4 * index));
        if page == 0 {
            continue;
        }
        let bits = page & !(0xffff_f000 | PAGE_WRITABLE | PAGE_XN);
        let (writable, xn) = (page & PAGE_WRITABLE != 0, page & PAGE_XN != 0);
        let (va, host, domain) = (va | index << 12, page & 0xffff_f000, entry >> 5 & 0xf);
        let shadowed = Shadowed { va, view, host, writable, xn, domain, section: false };
        require(vm, host_space, &shadowed, page, bits == PAGE, hostile)?;
    }
    Ok(())
}

/// One entry.
fn require(
    vm: &mut Vm,
    host_space: HostSpace<'_>,
    entry: &Shadowed,
    word: u32,
    plain: bool,
    hostile: bool,
) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{:?} view at {:#010x}: {word:#010x} {what}", entry.view, entry.va));
    let place = vm.common.ram.place();
    let size = if entry.section { MEGABYTE } else { 4096 };
    let offset = entry.host.wrapping_sub(place.host);
    if offset >= place.size || place.size - offset < size {
        return wrong("is not the guest's RAM");
    }
    if !plain {
        return wrong("has other attributes than any that we make");
    }
    if entry.view == View::Kernel && SEPARATION == Separation::Tables && !entry.xn {
        return wrong("can be executed by translated code");
    }
    let pa = GuestPa(place.base + offset);
    if entry.writable && !entry.section && vm.vcpu.mmu.shadow().is_code_page(pa) {
        return wrong("lets a page of code be written");
    }
    if entry.writable && !entry.section && !is_hinted(vm, offset / 4096, entry.va >> 12) {
        return wrong("is writable, and its hint does not say so");
    }
    if hostile {
        return Ok(());
    }
    let regime = with_closed_domains_open(&regime(&vm.vcpu.context.cpu));
    let Ok(mapping) = lookup(&vm.common.ram.at(host_space), &regime, GuestVa(entry.va)) else {
        return wrong("is there, and the guest has nothing");
    };
    if mapping.pa != pa || entry.section && !mapping.size.is_first_level() {
        return wrong("is another page than the guest's");
    }
    if !vm.vcpu.mmu.shadow().may_hold(entry.view, mapping.domain) {
        return wrong("is of a domain that was closed when user code last ran");
    }
    allowed(entry, &regime, &mapping).or_else(wrong)
}

/// What the guest's mapping allows of an entry.
fn allowed(entry: &Shadowed, regime: &Regime, mapping: &Mapping) -> Result<(), &'static str> {
    // By domains, it is the entry's that says for whom it is: User mode may do less than the kernel, and has its entry
    // then.
    let user = match SEPARATION {
        Separation::Tables => entry.view == View::User,
        Separation::Domains => entry.domain < 8,
    };
    let permission = mapping.permission(regime, !user);
    if permission == Permission::None {
        return Err("can be read, and the guest may not");
    }
    if entry.writable && permission != Permission::ReadWrite {
        return Err("can be written, and the guest may not");
    }
    if user && !entry.xn && mapping.never_executes(regime, false) {
        return Err("can be executed, and the guest may not");
    }
    let domain = match (SEPARATION, mapping.domain) {
        (Separation::Tables, _) if user => HOST_DOMAIN,
        (Separation::Tables, domain) => domain.into(),
        (Separation::Domains, domain @ 0..6) => u32::from(domain) + if user { 0 } else { 8 },
        (Separation::Domains, _) => {
            if user {
                7
            } else {
                14
            }
        }
    };
    if domain == entry.domain { Ok(()) } else { Err("is of another domain") }
}

/// Domains that are decided about by the real DACR are there whether open or not.
fn with_closed_domains_open(regime: &Regime) -> Regime {
    let mut dacr = regime.dacr;
    for domain in 0..15 {
        let resolved = SEPARATION == Separation::Domains && domain >= 6;
        if !resolved && regime.dacr >> (2 * domain) & 1 == 0 {
            dacr = dacr & !(0b11 << (2 * domain)) | 0b01 << (2 * domain);
        }
    }
    Regime { dacr, ..*regime }
}

/// Whether the records say that page `index` of RAM may be written at `number`, by what `Shadow::page_hints` and
/// `Shadow::aliases` promise.
fn is_hinted(vm: &mut Vm, index: u32, number: u32) -> bool {
    const AND_LINEAR: u32 = 0x10_0000;
    const SEVERAL: u32 = 0x4000_0000;
    const ANYWHERE: u32 = u32::MAX - 1;
    let (hints, aliases) = (vm.vcpu.context.tables.hints, vm.vcpu.context.tables.aliases);
    // SAFETY: the hints have a word for each page of RAM, of which `index` is one, and one before the first.
    let (hint, linear) = unsafe { (hints.add(index as usize).read(), hints.sub(1).read().wrapping_add(index)) };
    let several = hint ^ SEVERAL;
    if several < MAX_ALIASED {
        // SAFETY: there are five words for each number below MAX_ALIASED.
        let known = unsafe { core::slice::from_raw_parts(aliases.add(5 * several as usize), 4) };
        return known.contains(&number);
    }
    hint == ANYWHERE
        || hint == number
        || hint & !0xf_ffff == AND_LINEAR && (hint & 0xf_ffff == number || linear == number)
}
