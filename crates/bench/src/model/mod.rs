//! The cost model: from counts to cycles, after ARMvisor's section 4.
//!
//! QEMU counts instructions and charges nothing for what is dear on silicon: taking an exception, missing in the TLB,
//! talking to a coprocessor. The model adds that up. A side's cycles are
//!
//! > instructions × base CPI + Σ events × cost per event
//!
//! for the bare board (T_host) and for the guest (T_guest) alike, with the costs of [`costs`]. ARMvisor's *guest
//! performance ratio* is GPR = T_host / T_guest, between 0 and 1, where 1 is native speed. T_guest = T_native +
//! T_virt, and the paper takes T_virt apart:
//!
//! * T_cpu: emulating sensitive and exception-generating instructions, in a trap or in translated code;
//! * T_mem: the guest's own aborts, shadow tables, and keeping the two in step;
//! * T_io: emulating devices. The paper defines it but prints T_idle in its place in equation 3;
//! * T_suspend: the hypervisor's own interrupts, while the guest waits;
//! * ε: side effects: the misses of TLBs that the hypervisor has disturbed.
//!
//! Here T_mem, T_io and T_suspend are the number of such traps times what one costs: its handler's instructions
//! ([`Handlers`]) at base CPI, the exception itself unless the bare board takes the same one, and what else the trap
//! does to the core ([`effects`]). ε is the excess of TLB misses, counted or assumed. T_cpu is the rest of T_virt: all
//! the sensitive instructions, and all that binary translation adds. Parts are worked out with all costs low, middle
//! or high.
//!
//! **What the model does not know it leaves out, and says so.** An event is priced if it was counted, or follows from
//! the traps, on *both* sides ([`Cycles::priced`]). What traps do to the core is assumed within a range where it was
//! not counted ([`Cycles::assumed`]). The rest is listed in [`Cycles::left_out`]: the guest's own TLB and cache
//! operations among it, which the bare board really performs and the hypervisor emulates by instructions that are
//! counted, so leaving them out is not to the guest's advantage. The model has no caches of its own: ordinary misses
//! are in the base CPI, the same on both sides, so what a bigger code footprint does to the caches is not in it.
//! Without counts of events there is nothing to model.

pub mod costs;
pub mod effects;

use std::collections::BTreeMap;

use crate::events::{Event, Trap};
use crate::results::{Board, Events, Figures, Group, Measurement, Results};
use costs::{Core, Range, Source};

/// Instructions that the hypervisor executes to handle a trap.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Handler {
    /// Instructions per trap.
    pub instructions: Range,
    /// How that is known.
    pub source: Source,
}

/// The traps that T_mem, T_io and T_suspend are made of, and which of the three.
const PARTS: [(Trap, Part); 6] = [
    (Trap::HiddenFault, Part::Memory),
    (Trap::GuestAbort, Part::Memory),
    (Trap::ProtectedWrite, Part::Memory),
    (Trap::Mmio, Part::Device),
    (Trap::Interrupt, Part::Suspend),
    (Trap::Sleep, Part::Suspend),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Memory,
    Device,
    Suspend,
}

/// Traps that are exceptions on the bare board too.
const NATIVE: [Trap; 5] = [Trap::UserCall, Trap::KernelCall, Trap::Undefined, Trap::GuestAbort, Trap::Interrupt];

/// Machine operations (`bench/machine`) that are one trap of a class. The guest's own abort is with the delivery, and
/// the return behind it.
const ALONE: [(&str, Trap); 5] = [
    ("mmio-uart-status", Trap::Mmio),
    ("mmio-controller-read", Trap::Mmio),
    ("mmio-write", Trap::Mmio),
    ("tlb-evict-cold", Trap::HiddenFault),
    ("data-abort-user", Trap::GuestAbort),
];

/// The trap that a machine operation measures, and how often one operation takes it.
fn measured_trap(name: &str, figures: &Figures) -> Option<(Trap, f64)> {
    let Some(events) = &figures.events else {
        return ALONE.iter().find(|(alone, _)| *alone == name).map(|&(_, trap)| (trap, 1.0));
    };
    let all: u64 = events.traps.values().sum();
    let (name, &most) = events.traps.iter().max_by_key(|&(_, count)| count)?;
    let clear = most > 0 && most as f64 >= 0.9 * all as f64;
    Trap::from_key(name).filter(|_| clear).map(|trap| (trap, most as f64 / events.operations as f64))
}

/// Handlers' lengths, by trap.
#[derive(Clone, PartialEq, Debug)]
pub struct Handlers(BTreeMap<Trap, Handler>);

impl Default for Handlers {
    /// Nothing measured: an estimate for all.
    fn default() -> Self {
        let estimate = Handler {
            instructions: Range::new(100.0, 500.0, 3000.0),
            source: Source::Estimate("no machine operation measures it alone"),
        };
        Handlers(PARTS.iter().map(|&(trap, _)| (trap, estimate)).collect())
    }
}

impl Handlers {
    /// What the machine operations of a configuration say: what one takes as a guest beyond what it takes on the bare
    /// board, where it is one trap by its definition (`ALONE`), or nearly all traps that were counted are of one class.
    /// Other classes keep their estimate.
    #[must_use]
    pub fn measured(results: &Results, board: Board, configuration: &str) -> Handlers {
        let mut handlers = Handlers::default();
        let here = |m: &&Measurement| m.board == board && m.group == Group::Machine && m.configuration == configuration;
        for measurement in results.measurements.iter().filter(here) {
            let Some(figures) = measurement.figures() else { continue };
            let Some((trap, times)) = measured_trap(&measurement.workload, figures) else { continue };
            let instructions = (figures.virtualised - figures.native) / times;
            if instructions > 0.0 && PARTS.iter().any(|&(t, _)| t == trap) {
                let old = handlers.0.get(&trap).filter(|h| h.source == Source::Measured);
                // Several operations may show the same handler: the shortest shows it with the least beside it.
                if old.is_none_or(|h| instructions < h.instructions.mid) {
                    let instructions = Range::exactly(instructions);
                    handlers.0.insert(trap, Handler { instructions, source: Source::Measured });
                }
            }
        }
        handlers
    }

    /// Sets a handler's length.
    pub fn set(&mut self, trap: Trap, handler: Handler) {
        self.0.insert(trap, handler);
    }

    /// A handler's length, for the traps that have a part of T_virt of their own.
    #[must_use]
    pub fn get(&self, trap: Trap) -> Option<&Handler> {
        self.0.get(&trap)
    }

    /// All, in the order of the traps.
    pub fn iter(&self) -> impl Iterator<Item = (Trap, &Handler)> {
        self.0.iter().map(|(&trap, handler)| (trap, handler))
    }
}

/// What became of T_virt, in cycles per operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parts {
    /// T_cpu. Below 0 where the handlers were estimated too long: the other parts then exceed the whole.
    pub cpu: Range,
    /// T_mem.
    pub memory: Range,
    /// T_io.
    pub device: Range,
    /// T_suspend.
    pub suspend: Range,
    /// ε.
    pub side_effects: Range,
}

/// An event that the model put a price on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Priced {
    /// The event.
    pub event: Event,
    /// How often it happens per operation on the bare board.
    pub native: f64,
    /// How often it happens per operation as a guest.
    pub virtualised: f64,
    /// Whether a side was not counted but follows from the traps.
    pub derived: bool,
}

/// What the model makes of a measurement. All in cycles per operation.
#[derive(Clone, PartialEq, Debug)]
pub struct Cycles {
    /// T_host.
    pub native: Range,
    /// T_guest.
    pub virtualised: Range,
    /// GPR = T_host / T_guest. Low and high are its true bounds over all costs within their ranges, each chosen by
    /// itself, which lie further apart than the ratios with all costs low and all costs high.
    pub performance: Range,
    /// T_virt taken apart, if traps were counted.
    pub parts: Option<Parts>,
    /// The events that are in it by their count.
    pub priced: Vec<Priced>,
    /// The events that are in it as effects of traps, with how often they are assumed to happen per operation as a
    /// guest.
    pub assumed: Vec<(Event, Range)>,
    /// The events that are not in it.
    pub left_out: Vec<Event>,
}

impl Cycles {
    /// T_virt = T_guest − T_native.
    #[must_use]
    pub fn virtualisation(&self) -> Range {
        Range {
            low: self.virtualised.low - self.native.low,
            mid: self.virtualised.mid - self.native.mid,
            high: self.virtualised.high - self.native.high,
        }
    }

    /// How many times slower than natively: the inverse of the guest performance ratio.
    #[must_use]
    pub fn slowdown(&self) -> Range {
        let Range { low, mid, high } = self.performance;
        Range { low: 1.0 / high, mid: 1.0 / mid, high: 1.0 / low }
    }
}

/// How often an event happens per operation on a side, and whether that was derived from the traps.
fn count(events: &Events, event: Event, guest: bool) -> Option<(f64, bool)> {
    let counts = if guest { &events.virtualised } else { &events.native };
    if let Some(&n) = counts.get(event.key()) {
        return Some((n as f64 / events.operations as f64, false));
    }
    let is_exception = matches!(event, Event::ExceptionEntry | Event::ExceptionReturn);
    if !is_exception || events.traps.is_empty() {
        return None;
    }
    let of = |trap: &Trap| events.traps_per_operation(*trap).unwrap_or(0.0);
    let derived = if guest { events.all_traps_per_operation()? } else { NATIVE.iter().map(of).sum() };
    Some((derived, true))
}

/// How often an event is assumed to happen per operation, as an effect of the traps.
fn assumed(events: &Events, event: Event) -> Option<Range> {
    let mut sum = None;
    for &trap in Trap::ALL {
        let Some(count) = events.traps_per_operation(trap).filter(|n| *n > 0.0) else { continue };
        for effect in effects::effects(trap).into_iter().filter(|e| e.event == event) {
            sum = Some(sum.unwrap_or(Range::exactly(0.0)) + effect.times * count);
        }
    }
    sum
}

/// Works out the cycles of a measurement on a core; none if no events were counted.
#[must_use]
pub fn cycles(core: Core, figures: &Figures, handlers: &Handlers) -> Option<Cycles> {
    let events = figures.events.as_ref()?;
    let (mut priced, mut effects, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for &event in Event::ALL {
        match (count(events, event, false), count(events, event, true), assumed(events, event)) {
            (Some((native, a)), Some((virtualised, b)), _) => {
                priced.push(Priced { event, native, virtualised, derived: a || b });
            }
            (_, _, Some(times)) => effects.push((event, times)),
            _ => left_out.push(event),
        }
    }
    if priced.is_empty() {
        return None;
    }

    // Each term: how often natively, how often as a guest, and what one costs.
    let mut terms = vec![(figures.native, figures.virtualised, costs::base_cpi(core).cycles)];
    terms.extend(priced.iter().map(|p| (p.native, p.virtualised, costs::cost(core, p.event).cycles)));
    terms.extend(effects.iter().map(|&(event, times)| (0.0, 1.0, times * costs::cost(core, event).cycles)));
    let sum = |of: fn(&(f64, f64, Range)) -> f64| terms.iter().fold(Range::exactly(0.0), |sum, t| sum + t.2 * of(t));
    let (native, virtualised) = (sum(|t| t.0), sum(|t| t.1));
    let middle = native.mid / virtualised.mid;
    let performance =
        Range { low: extreme(&terms, middle, |a, b| a < b), mid: middle, high: extreme(&terms, middle, |a, b| a > b) };
    let mut result = Cycles { native, virtualised, performance, parts: None, priced, assumed: effects, left_out };
    if !events.traps.is_empty() {
        result.parts = Some(parts(core, &result, events, handlers));
    }
    Some(result)
}

/// The extreme of Σ native × cost / Σ guest × cost, where each cost may be anything within its range; `better` says
/// which.
///
/// For a guess λ of the ratio, Σ (native − λ guest) × cost is extreme where each cost is at the end of its range that
/// its factor's sign asks for; the ratio there is a better guess, until nothing changes (Dinkelbach's method). Every
/// step moves to another corner with a better ratio, so it ends.
fn extreme(terms: &[(f64, f64, Range)], start: f64, better: fn(f64, f64) -> bool) -> f64 {
    let mut ratio = start;
    loop {
        let (mut over, mut under) = (0.0, 0.0);
        for &(native, guest, cost) in terms {
            let factor = native - ratio * guest;
            let cost = if better(factor, 0.0) { cost.high } else { cost.low };
            over += native * cost;
            under += guest * cost;
        }
        let next = over / under;
        if !better(next, ratio) {
            return ratio;
        }
        ratio = next;
    }
}

fn parts(core: Core, cycles: &Cycles, events: &Events, handlers: &Handlers) -> Parts {
    let price = |event| costs::cost(core, event).cycles;
    let cpi = costs::base_cpi(core).cycles;
    let exception = price(Event::ExceptionEntry) + price(Event::ExceptionReturn);
    // What a trap does to the core, the TLB's misses aside, which are a part by themselves. Where that was counted, it
    // is the counted excess that is shared out as the assumptions have it, and no more than the assumptions.
    let share = |event: Event| {
        let Some(priced) = cycles.priced.iter().find(|p| p.event == event) else {
            return if cycles.assumed.iter().any(|(e, _)| *e == event) { 1.0 } else { 0.0 };
        };
        match assumed(events, event) {
            Some(all) if all.mid > 0.0 => ((priced.virtualised - priced.native) / all.mid).clamp(0.0, 1.0),
            _ => 0.0,
        }
    };
    let effects = |trap| {
        let here = effects::effects(trap).into_iter().filter(|e| e.event != Event::TlbMiss);
        here.fold(Range::exactly(0.0), |sum, e| sum + e.times * price(e.event) * share(e.event))
    };
    let part = |which: Part| {
        let mut sum = Range::exactly(0.0);
        for (trap, _) in PARTS.into_iter().filter(|&(_, part)| part == which) {
            let count = events.traps_per_operation(trap).unwrap_or(0.0);
            let Some(handler) = handlers.get(trap) else { continue };
            let own = if NATIVE.contains(&trap) { 0.0 } else { 1.0 };
            sum = sum + (handler.instructions * cpi + exception * own + effects(trap)) * count;
        }
        sum
    };
    let (memory, device, suspend) = (part(Part::Memory), part(Part::Device), part(Part::Suspend));
    let counted =
        cycles.priced.iter().find(|p| p.event == Event::TlbMiss).map(|p| Range::exactly(p.virtualised - p.native));
    let guessed = cycles.assumed.iter().find(|(event, _)| *event == Event::TlbMiss).map(|(_, times)| *times);
    let side_effects = counted.or(guessed).unwrap_or(Range::exactly(0.0)) * price(Event::TlbMiss);
    let others = memory + device + suspend + side_effects;
    let all = cycles.virtualisation();
    let cpu = Range { low: all.low - others.low, mid: all.mid - others.mid, high: all.high - others.high };
    Parts { cpu, memory, device, suspend, side_effects }
}
