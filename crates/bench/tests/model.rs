//! The cost model against figures worked out by hand.

use crate::common;
use spica_bench::events::{Event, Trap};
use spica_bench::model::costs::{Core, Range, Source, base_cpi, cost};
use spica_bench::model::{Handler, Handlers, cycles};
use spica_bench::results::*;

fn figures(native: f64, virtualised: f64, events: Option<Events>) -> Figures {
    Figures { native, virtualised, events, timing: None }
}

fn close(got: f64, wanted: f64) {
    assert!((got - wanted).abs() < 1e-9 * wanted.abs().max(1.0), "{got} is not {wanted}");
}

fn close_range(got: Range, wanted: Range) {
    close(got.low, wanted.low);
    close(got.mid, wanted.mid);
    close(got.high, wanted.high);
}

#[test]
fn without_events_there_is_nothing_to_model() {
    assert_eq!(cycles(Core::CortexA8, &figures(100.0, 300.0, None), &Handlers::default()), None);
    let nothing = Events { operations: 1, ..Events::default() };
    assert_eq!(cycles(Core::CortexA8, &figures(100.0, 300.0, Some(nothing)), &Handlers::default()), None);
}

#[test]
fn without_traps_it_is_instructions_times_cpi() {
    let counted = common::traps(&[(Trap::Mmio, 0)]);
    let c = cycles(Core::CortexA8, &figures(100.0, 300.0, Some(counted)), &Handlers::default()).unwrap();
    // Cortex-A8: 1.0, 1.5 and 2.5 cycles per instruction.
    close_range(c.native, Range::new(100.0, 150.0, 250.0));
    close_range(c.virtualised, Range::new(300.0, 450.0, 750.0));
    close_range(c.performance, Range::exactly(1.0 / 3.0));
    close_range(c.slowdown(), Range::exactly(3.0));
    close_range(c.parts.unwrap().cpu, Range::new(200.0, 300.0, 500.0));
    assert!(c.assumed.is_empty());
    // Exceptions follow from the traps: there were none. Nothing is known of the others.
    assert_eq!(c.left_out.len(), Event::ALL.len() - 2);
}

/// Counts that leave nothing to assume: all that traps do to the core was counted, and did not happen.
fn nothing_assumed(mut events: Events) -> Events {
    for event in [Event::CoprocessorWrite, Event::AsidWrite, Event::TtbrWrite, Event::Barrier, Event::TlbMiss] {
        events.native.entry(event.key().into()).or_insert(0);
        events.virtualised.entry(event.key().into()).or_insert(0);
    }
    events
}

#[test]
fn what_traps_do_to_the_core_is_assumed() {
    let events = common::traps(&[(Trap::UserCall, 100)]);
    let c = cycles(Core::CortexA8, &figures(100.0, 300.0, Some(events.clone())), &Handlers::default()).unwrap();
    let times = |event| c.assumed.iter().find(|(e, _)| *e == event).unwrap().1;
    // Vectors twice with a barrier each; from user to kernel view, one change of tables.
    assert_eq!(times(Event::CoprocessorWrite), Range::new(0.0, 2.0, 2.0));
    assert_eq!(times(Event::TtbrWrite), Range::new(0.0, 2.0, 2.0));
    assert_eq!(times(Event::AsidWrite), Range::new(0.0, 1.0, 1.0));
    assert_eq!(times(Event::Barrier), Range::new(0.0, 5.0, 5.0));
    assert_eq!(times(Event::TlbMiss), Range::new(0.0, 3.0, 12.0));
    // The exception is the same on both sides: 26, 46, 110 cycles. Middle: 2 × 20 + 2 × 15 + 15 + 5 × 15 + 3 × 24.
    close_range(c.native, Range::new(126.0, 196.0, 360.0));
    close(c.virtualised.mid, 450.0 + 46.0 + 232.0);
    close(c.virtualised.low, 326.0);
    // High: 2 × 60 + 2 × 60 + 60 + 5 × 100 + 12 × 144.
    close(c.virtualised.high, 750.0 + 110.0 + 2528.0);
    close(c.parts.unwrap().side_effects.mid, 72.0);

    let counted = figures(100.0, 300.0, Some(nothing_assumed(events)));
    let c = cycles(Core::CortexA8, &counted, &Handlers::default()).unwrap();
    assert!(c.assumed.is_empty(), "what was counted is not assumed as well");
    close(c.virtualised.mid, 450.0 + 46.0);
}

#[test]
fn events_are_priced_on_both_sides_or_not_at_all() {
    let mut events = Events { operations: 10, ..Events::default() };
    events.native.insert(Event::TlbMiss.key().into(), 10);
    events.virtualised.insert(Event::TlbMiss.key().into(), 40);
    events.virtualised.insert(Event::Barrier.key().into(), 500);
    let c = cycles(Core::CortexA8, &figures(100.0, 300.0, Some(events)), &Handlers::default()).unwrap();
    // A miss is 24, 24 or 144 cycles: 1 natively and 4 as a guest. Barriers were not counted natively.
    close_range(c.native, Range::new(124.0, 174.0, 394.0));
    close_range(c.virtualised, Range::new(396.0, 546.0, 1326.0));
    assert_eq!(c.priced.len(), 1);
    assert!(c.left_out.contains(&Event::Barrier) && !c.left_out.contains(&Event::TlbMiss));
    close(c.performance.mid, 174.0 / 546.0);
}

#[test]
fn the_ratio_has_its_true_bounds() {
    let mut events = Events { operations: 1, ..Events::default() };
    events.native.insert(Event::TlbMiss.key().into(), 1);
    events.virtualised.insert(Event::TlbMiss.key().into(), 10);
    let c = cycles(Core::CortexA8, &figures(100.0, 200.0, Some(events)), &Handlers::default()).unwrap();
    // Instructions double, misses grow tenfold. The ratio is worst with dear misses and cheap instructions, and best
    // the other way round: neither is all costs low (124 / 440) or all high (394 / 1940).
    close(c.performance.low, (100.0 + 144.0) / (200.0 + 1440.0));
    close(c.performance.high, (250.0 + 24.0) / (500.0 + 240.0));
    assert!(c.performance.low < 394.0 / 1940.0 && 124.0 / 440.0 < c.performance.high);
}

#[test]
fn exceptions_follow_from_the_traps() {
    // Per operation 1 system call, which is an exception natively too, and 3 emulated instructions, which are not.
    let events = common::traps(&[(Trap::UserCall, 100), (Trap::Coprocessor, 300)]);
    let c =
        cycles(Core::CortexA8, &figures(100.0, 300.0, Some(nothing_assumed(events))), &Handlers::default()).unwrap();
    let entry = c.priced.iter().find(|p| p.event == Event::ExceptionEntry).unwrap();
    assert!(entry.derived);
    close(entry.native, 1.0);
    close(entry.virtualised, 4.0);
    // Entry 13/26/60 and return 13/20/50.
    close_range(c.native, Range::new(126.0, 196.0, 360.0));
    close_range(c.virtualised, Range::new(404.0, 634.0, 1190.0));
}

#[test]
fn counted_exceptions_go_before_derived_ones() {
    let mut events = common::traps(&[(Trap::UserCall, 100)]);
    for event in [Event::ExceptionEntry, Event::ExceptionReturn] {
        events.native.insert(event.key().into(), 200);
        events.virtualised.insert(event.key().into(), 300);
    }
    let c =
        cycles(Core::CortexA8, &figures(100.0, 300.0, Some(nothing_assumed(events))), &Handlers::default()).unwrap();
    let entry = c.priced.iter().find(|p| p.event == Event::ExceptionEntry).unwrap();
    assert!(!entry.derived);
    close(entry.native, 2.0);
    close(entry.virtualised, 3.0);
}

#[test]
fn the_overhead_is_taken_apart() {
    let mut events = common::traps(&[
        (Trap::Coprocessor, 100),
        (Trap::HiddenFault, 100),
        (Trap::GuestAbort, 100),
        (Trap::Mmio, 200),
        (Trap::Interrupt, 100),
    ]);
    events.native.insert(Event::TlbMiss.key().into(), 100);
    events.virtualised.insert(Event::TlbMiss.key().into(), 300);
    let mut handlers = Handlers::default();
    let exactly = |n: f64| Handler { instructions: Range::exactly(n), source: Source::Measured };
    handlers.set(Trap::HiddenFault, exactly(200.0));
    handlers.set(Trap::GuestAbort, exactly(100.0));
    handlers.set(Trap::Mmio, exactly(300.0));
    handlers.set(Trap::Interrupt, exactly(50.0));
    let c = cycles(Core::CortexA8, &figures(1000.0, 3000.0, Some(nothing_assumed(events))), &handlers).unwrap();
    let parts = c.parts.unwrap();
    // Middle costs: CPI 1.5, entry and return 46, a TLB miss 24. The guest's own abort and the interrupt are
    // exceptions on the bare board too.
    close(parts.memory.mid, (200.0 * 1.5 + 46.0) + 100.0 * 1.5);
    close(parts.device.mid, 2.0 * (300.0 * 1.5 + 46.0));
    close(parts.suspend.mid, 50.0 * 1.5);
    close(parts.side_effects.mid, 2.0 * 24.0);
    // 1500 + 2 × 46 + 24 natively, 4500 + 6 × 46 + 72 as a guest: of the difference of 3232, the rest is T_cpu.
    close(c.virtualisation().mid, 3232.0);
    close(parts.cpu.mid, 3232.0 - 496.0 - 992.0 - 75.0 - 48.0);
}

#[test]
fn machine_operations_measure_the_handlers() {
    let machine = |workload: &str, native: f64, ratio: f64, counts: &[(Trap, u64)]| {
        let m = common::measured(Board::Cubieboard, "default", Group::Machine, workload, native, ratio);
        common::with_events(m, common::traps(counts))
    };
    let mut results = Results::new(common::run(), common::configurations());
    // 20 instructions natively, 520 as a guest, and one trap each.
    results.put(machine("mmio", 20.0, 26.0, &[(Trap::Mmio, 100), (Trap::Interrupt, 2)]));
    // The same trap, with more beside it.
    results.put(machine("mmio-write", 20.0, 46.0, &[(Trap::Mmio, 100)]));
    // Two kinds of trap, neither of which it measures alone.
    results.put(machine("mixed", 20.0, 26.0, &[(Trap::HiddenFault, 50), (Trap::Interrupt, 50)]));
    let handlers = Handlers::measured(&results, Board::Cubieboard, "default");
    assert_eq!(handlers.get(Trap::Mmio).unwrap().source, Source::Measured);
    close(handlers.get(Trap::Mmio).unwrap().instructions.mid, 500.0);
    for trap in [Trap::HiddenFault, Trap::Interrupt] {
        assert!(matches!(handlers.get(trap).unwrap().source, Source::Estimate(_)), "{trap}");
    }
    // Nothing was counted, but by its definition the operation is one trap.
    results.put(common::measured(Board::Cubieboard, "default", Group::Machine, "tlb-evict-cold", 1.25, 801.0));
    let handlers = Handlers::measured(&results, Board::Cubieboard, "default");
    close(handlers.get(Trap::HiddenFault).unwrap().instructions.mid, 1000.0);
    let elsewhere = Handlers::measured(&results, Board::VexpressA9, "default");
    assert_eq!(elsewhere, Handlers::default());
}

#[test]
fn the_extremes_are_found_as_by_trying_all_corners() {
    // Two events and the CPI: eight corners.
    for seed in 1..40u64 {
        let n = |k: u64| (seed * 7919 * k) % 23;
        let mut events = Events { operations: 1, ..Events::default() };
        for (event, k) in [(Event::TlbMiss, 3), (Event::Barrier, 5)] {
            events.native.insert(event.key().into(), n(k));
            events.virtualised.insert(event.key().into(), n(k + 1));
        }
        let f = figures(1.0 + n(11) as f64, 1.0 + n(13) as f64, Some(events.clone()));
        let c = cycles(Core::CortexA9, &f, &Handlers::default()).unwrap();
        let (cpi, miss, barrier) = (
            base_cpi(Core::CortexA9).cycles,
            cost(Core::CortexA9, Event::TlbMiss).cycles,
            cost(Core::CortexA9, Event::Barrier).cycles,
        );
        let (mut low, mut high) = (f64::INFINITY, 0f64);
        for corner in 0..8 {
            let pick = |bit: u32, r: Range| if corner >> bit & 1 == 1 { r.high } else { r.low };
            let (i, m, b) = (pick(0, cpi), pick(1, miss), pick(2, barrier));
            let side = |instructions: f64, counts: &std::collections::BTreeMap<String, u64>| {
                instructions * i + counts["tlb-miss"] as f64 * m + counts["barrier"] as f64 * b
            };
            let ratio = side(f.native, &events.native) / side(f.virtualised, &events.virtualised);
            low = low.min(ratio);
            high = high.max(ratio);
        }
        close(c.performance.low, low);
        close(c.performance.high, high);
    }
}

#[test]
fn what_traps_do_is_shared_out_as_far_as_it_was_counted() {
    // A hidden fault is assumed to write TTBR0 four times; it did so once.
    let mut events = nothing_assumed(common::traps(&[(Trap::HiddenFault, 100)]));
    events.virtualised.insert(Event::TtbrWrite.key().into(), 100);
    let mut handlers = Handlers::default();
    handlers.set(Trap::HiddenFault, Handler { instructions: Range::exactly(200.0), source: Source::Measured });
    let c = cycles(Core::CortexA8, &figures(1000.0, 3000.0, Some(events.clone())), &handlers).unwrap();
    // 200 instructions at 1.5 cycles, an exception of 46, one write of 15.
    close(c.parts.unwrap().memory.mid, 300.0 + 46.0 + 15.0);
    // And five times: the assumption is all that is shared out.
    events.virtualised.insert(Event::TtbrWrite.key().into(), 500);
    let c = cycles(Core::CortexA8, &figures(1000.0, 3000.0, Some(events)), &handlers).unwrap();
    close(c.parts.unwrap().memory.mid, 300.0 + 46.0 + 60.0);
}
