use super::*;
use std::string::ToString;
use std::vec::Vec;

const W: Width = Width::Word;

/// A controller as Linux leaves it: Group 0 on, mask 0xf0, every SPI and PPI disabled at priority 0xa0.
fn linux() -> Gic {
    let mut gic = Gic::new();
    gic.dist_write(GICD_CTLR, W, 1);
    for word in (0..INTERRUPTS).step_by(4) {
        gic.dist_write(0x400 + word, W, 0xa0a0_a0a0);
    }
    gic.cpu_write(GICC_PMR, W, 0xf0);
    gic.cpu_write(GICC_CTLR, W, 1);
    gic
}

fn enable(gic: &mut Gic, intid: u32) {
    gic.dist_write(0x100 + intid / 32 * 4, W, 1 << (intid % 32));
}

fn priority(gic: &mut Gic, intid: u32, priority: u32) {
    gic.dist_write(0x400 + intid, Width::Byte, priority);
}

fn iar(gic: &mut Gic) -> u32 {
    gic.cpu_read(GICC_IAR, W)
}

fn eoi(gic: &mut Gic, intid: u32) {
    gic.cpu_write(GICC_EOIR, W, intid);
}

fn bit(gic: &mut Gic, base: u32, intid: u32) -> bool {
    gic.dist_read(base + intid / 32 * 4, W) & (1 << (intid % 32)) != 0
}

#[test]
fn reset_state() {
    let mut gic = Gic::new();
    assert!(!gic.irq_asserted() && !gic.fiq_asserted());
    assert_eq!(gic.dist_read(GICD_CTLR, W), 0);
    assert_eq!(gic.dist_read(GICD_TYPER, W), 8, "288 interrupts, one CPU");
    assert_eq!(gic.dist_read(0xfe8, W) >> 4 & 0xf, 2, "GICv2");
    assert_eq!(gic.dist_read(0x100, W), 0xffff, "SGIs are enabled for ever");
    assert_eq!(gic.dist_read(0xc00, W), 0xaaaa_aaaa);
    assert_eq!(gic.cpu_read(GICC_BPR, W), 2);
    assert_eq!(gic.cpu_read(GICC_ABPR, W), 3);
    assert_eq!(gic.cpu_read(GICC_RPR, W), 0xff);
    assert_eq!(iar(&mut gic), 1023);
    assert_eq!(gic.cpu_read(GICC_HPPIR, W), 1023);
}

#[test]
fn level_interrupt_from_line_to_end() {
    let mut gic = linux();
    gic.set_line(33, true);
    assert!(!gic.irq_asserted(), "disabled");
    assert!(bit(&mut gic, 0x200, 33), "and yet pending");
    enable(&mut gic, 33);
    assert!(gic.irq_asserted());
    assert_eq!(gic.cpu_read(GICC_HPPIR, W), 33);
    assert_eq!(iar(&mut gic), 33);
    assert!(!gic.irq_asserted());
    assert!(bit(&mut gic, 0x300, 33) && bit(&mut gic, 0x200, 33), "active, and pending for the line is high");
    assert_eq!(gic.cpu_read(GICC_RPR, W), 0xa0);
    assert_eq!(iar(&mut gic), 1023);
    eoi(&mut gic, 33);
    assert!(gic.irq_asserted(), "the line is still high");
    assert_eq!(iar(&mut gic), 33);
    gic.set_line(33, false);
    eoi(&mut gic, 33);
    assert!(!gic.irq_asserted());
    assert!(!bit(&mut gic, 0x300, 33) && !bit(&mut gic, 0x200, 33));
    assert_eq!(gic.cpu_read(GICC_RPR, W), 0xff);
}

#[test]
fn a_level_that_falls_before_acknowledgement_is_spurious() {
    let mut gic = linux();
    enable(&mut gic, 33);
    gic.set_line(33, true);
    gic.set_line(33, false);
    assert!(!gic.irq_asserted());
    assert_eq!(iar(&mut gic), 1023);
}

#[test]
fn edge_interrupt_is_remembered_once() {
    let mut gic = linux();
    gic.dist_write(0xc00 + 48 / 4, W, 2);
    assert_eq!(gic.dist_read(0xc00 + 48 / 4, W), 2);
    enable(&mut gic, 48);
    gic.set_line(48, true);
    gic.set_line(48, false);
    assert!(gic.irq_asserted(), "the edge counts");
    assert_eq!(iar(&mut gic), 48);
    assert!(!bit(&mut gic, 0x200, 48));
    gic.set_line(48, true);
    assert!(bit(&mut gic, 0x200, 48), "active and pending");
    assert!(!gic.irq_asserted(), "but not signalled while active");
    eoi(&mut gic, 48);
    assert!(gic.irq_asserted());
    assert_eq!(iar(&mut gic), 48);
    eoi(&mut gic, 48);
    assert!(!gic.irq_asserted(), "high, but no new edge");
}

#[test]
fn pending_can_be_set_and_cleared_by_software() {
    let mut gic = linux();
    enable(&mut gic, 40);
    gic.dist_write(0x204, W, 1 << 8);
    assert!(gic.irq_asserted());
    gic.dist_write(0x284, W, 1 << 8);
    assert!(!gic.irq_asserted());
    gic.dist_write(0x204, W, 1 << 8);
    assert_eq!(iar(&mut gic), 40);
    eoi(&mut gic, 40);
    assert!(!gic.irq_asserted(), "acknowledged, hence no longer pending");
    gic.set_line(40, true);
    gic.dist_write(0x284, W, 1 << 8);
    assert!(gic.irq_asserted(), "a level cannot be cleared");
    gic.dist_write(0x280, W, !0);
    gic.dist_write(0x200, W, 0xffff);
    assert_eq!(gic.dist_read(0x200, W), 0, "SGIs do not become pending this way");
}

#[test]
fn highest_priority_first_then_lowest_number() {
    let mut gic = linux();
    for intid in [29, 33, 60, 287] {
        enable(&mut gic, intid);
        gic.set_line(intid, true);
    }
    priority(&mut gic, 287, 0x20);
    let order: Vec<u32> = (0..5)
        .map(|_| {
            let intid = iar(&mut gic);
            gic.set_line(intid, false);
            eoi(&mut gic, intid);
            intid
        })
        .collect();
    assert_eq!(order, [287, 29, 33, 60, 1023]);
}

#[test]
fn priority_mask_lets_only_higher_ones_through() {
    let mut gic = linux();
    enable(&mut gic, 33);
    gic.set_line(33, true);
    gic.cpu_write(GICC_PMR, W, 0xa0);
    assert!(!gic.irq_asserted(), "equal is not higher");
    assert_eq!(iar(&mut gic), 1023);
    assert_eq!(gic.cpu_read(GICC_HPPIR, W), 33, "HPPIR does not care");
    gic.cpu_write(GICC_PMR, W, 0xa8);
    assert!(gic.irq_asserted());
    gic.cpu_write(GICC_PMR, W, 0xff);
    assert_eq!(gic.cpu_read(GICC_PMR, W), 0xf8, "five bits");
}

#[test]
fn preemption_nests_and_unwinds() {
    let mut gic = linux();
    for (intid, level) in [(40, 0xa0), (41, 0x80), (42, 0x40)] {
        enable(&mut gic, intid);
        priority(&mut gic, intid, level);
    }
    gic.set_line(40, true);
    assert_eq!(iar(&mut gic), 40);
    gic.set_line(42, true);
    assert!(gic.irq_asserted(), "0x40 preempts 0xa0");
    assert_eq!(iar(&mut gic), 42);
    gic.set_line(41, true);
    assert!(!gic.irq_asserted(), "0x80 does not preempt 0x40");
    assert_eq!(gic.cpu_read(GICC_RPR, W), 0x40);
    assert_eq!(gic.cpu_read(GICC_APR, W), 1 << (0x40 >> 3) | 1 << (0xa0 >> 3));
    gic.set_line(42, false);
    eoi(&mut gic, 42);
    assert_eq!(gic.cpu_read(GICC_RPR, W), 0xa0);
    assert!(gic.irq_asserted(), "but it does preempt 0xa0");
    assert_eq!(iar(&mut gic), 41);
    gic.set_line(41, false);
    eoi(&mut gic, 41);
    gic.set_line(40, false);
    eoi(&mut gic, 40);
    assert_eq!(gic.cpu_read(GICC_RPR, W), 0xff);
}

#[test]
fn binary_point_joins_priorities_into_groups() {
    let mut gic = linux();
    for (intid, level) in [(40, 0xb8), (41, 0xa0)] {
        enable(&mut gic, intid);
        priority(&mut gic, intid, level);
    }
    gic.cpu_write(GICC_BPR, W, 4);
    gic.set_line(40, true);
    assert_eq!(iar(&mut gic), 40);
    gic.set_line(41, true);
    assert_eq!(gic.cpu_read(GICC_RPR, W), 0xa0, "the group's priority");
    assert!(!gic.irq_asserted(), "the same group: 101xx");
    gic.cpu_write(GICC_BPR, W, 0);
    assert_eq!(gic.cpu_read(GICC_BPR, W), 2, "no finer than that");
}

#[test]
fn split_end_of_interrupt() {
    let mut gic = linux();
    gic.cpu_write(GICC_CTLR, W, 1 | CTLR_EOIMODE);
    for intid in [33, 34] {
        enable(&mut gic, intid);
        gic.set_line(intid, true);
    }
    assert_eq!(iar(&mut gic), 33);
    eoi(&mut gic, 33);
    assert!(bit(&mut gic, 0x300, 33), "still active");
    assert_eq!(iar(&mut gic), 34, "but its priority runs no more");
    eoi(&mut gic, 34);
    assert!(!gic.irq_asserted());
    gic.cpu_write(GICC_DIR, W, 33);
    assert!(gic.irq_asserted() && !bit(&mut gic, 0x300, 33));
}

#[test]
fn software_generated_interrupts() {
    let mut gic = linux();
    gic.dist_write(GICD_SGIR, W, 1 << 16 | 5);
    assert_eq!(iar(&mut gic), 5);
    eoi(&mut gic, 5);
    gic.dist_write(GICD_SGIR, W, 2 << 24 | 6);
    assert_eq!(iar(&mut gic), 6);
    eoi(&mut gic, 6);
    gic.dist_write(GICD_SGIR, W, 1 << 24 | 7);
    gic.dist_write(GICD_SGIR, W, 2 << 16 | 7);
    gic.dist_write(GICD_SGIR, W, 3 << 24 | 1 << 16 | 7);
    assert!(!gic.irq_asserted(), "all but me, CPU 1, reserved");
    gic.dist_write(0xf20, W, 1 << 16);
    assert_eq!(gic.dist_read(0xf20, W), 1 << 16);
    assert_eq!(gic.dist_read(0xf12, Width::Byte), 1);
    gic.dist_write(0xf12, Width::Byte, 2);
    assert!(gic.irq_asserted(), "not from CPU 1");
    gic.dist_write(0xf12, Width::Byte, 1);
    assert!(!gic.irq_asserted());
    gic.dist_write(0xf2f, Width::Byte, 1);
    assert_eq!(iar(&mut gic), 15);
}

#[test]
fn forwarding_stops_where_it_is_switched_off() {
    let mut gic = linux();
    enable(&mut gic, 33);
    gic.set_line(33, true);
    gic.dist_write(GICD_CTLR, W, 0);
    assert!(!gic.irq_asserted());
    assert_eq!(gic.cpu_read(GICC_HPPIR, W), 1023);
    gic.dist_write(GICD_CTLR, W, 1);
    assert!(gic.irq_asserted());
    gic.cpu_write(GICC_CTLR, W, 0);
    assert!(!gic.irq_asserted());
    assert_eq!(iar(&mut gic), 1023);
    gic.cpu_write(GICC_CTLR, W, 1);
    gic.dist_write(0x184, W, 1 << 1);
    assert!(!gic.irq_asserted());
}

#[test]
fn group_0_as_fiq_and_group_1_as_irq() {
    let mut gic = linux();
    gic.dist_write(GICD_CTLR, W, 3);
    gic.cpu_write(GICC_CTLR, W, 3 | CTLR_FIQEN);
    gic.dist_write(0x084, W, 1 << 2);
    enable(&mut gic, 33);
    enable(&mut gic, 34);
    gic.set_line(34, true);
    assert!(gic.irq_asserted() && !gic.fiq_asserted());
    assert_eq!(iar(&mut gic), 1022, "Group 1 through the register of Group 0");
    assert_eq!(gic.cpu_read(GICC_AHPPIR, W), 34);
    gic.set_line(33, true);
    assert!(gic.fiq_asserted() && !gic.irq_asserted());
    assert_eq!(gic.cpu_read(GICC_AIAR, W), 1023, "Group 0 through the register of Group 1");
    assert_eq!(iar(&mut gic), 33);
    gic.set_line(33, false);
    eoi(&mut gic, 33);
    assert_eq!(gic.cpu_read(GICC_AIAR, W), 34);
    gic.cpu_write(GICC_AEOIR, W, 34);
    gic.cpu_write(GICC_CTLR, W, 3 | CTLR_ACKCTL);
    assert_eq!(iar(&mut gic), 34, "AckCtl opens it");
}

#[test]
fn byte_accesses() {
    let mut gic = linux();
    gic.dist_write(0x400 + 35, Width::Byte, 0xff);
    assert_eq!(gic.dist_read(0x400 + 32, W), 0xf8a0_a0a0);
    assert_eq!(gic.dist_read(0x400 + 35, Width::Byte), 0xf8);
    gic.dist_write(0x400 + 34, Width::Half, 0x1020);
    assert_eq!(gic.dist_read(0x400 + 32, W), 0x1020_a0a0);
    gic.dist_write(0x105, Width::Byte, 0x80);
    assert_eq!(gic.dist_read(0x104, W), 1 << 15, "a lane of a set register sets only there");
    gic.dist_write(0x186, Width::Half, 0xffff);
    assert_eq!(gic.dist_read(0x104, W), 1 << 15, "and of a clear register clears only there");
    gic.dist_write(0x185, Width::Byte, 0x80);
    assert_eq!(gic.dist_read(0x104, W), 0);
    gic.dist_write(0xc0b, Width::Byte, 0x80);
    assert_eq!(gic.dist_read(0xc08, W), 0x8000_0000);
    assert_eq!(gic.dist_read(0x800, Width::Byte), 1, "Linux takes its CPU mask from here");
}

#[test]
fn fixed_fields_stay() {
    let mut gic = linux();
    gic.dist_write(0x180, W, !0);
    assert_eq!(gic.dist_read(0x180, W), 0xffff);
    gic.dist_write(0xc00, W, 0);
    gic.dist_write(0xc04, W, !0);
    assert_eq!([gic.dist_read(0xc00, W), gic.dist_read(0xc04, W)], [0xaaaa_aaaa, 0]);
    gic.dist_write(0x820, W, 0);
    assert_eq!(gic.dist_read(0x820, W), 0x0101_0101);
    // Behind the last interrupt there is nothing.
    for offset in [0x0a4, 0x124, 0x224, 0x324, 0x520, 0x920, 0xc48] {
        gic.dist_write(offset, W, !0);
        assert_eq!(gic.dist_read(offset, W), 0, "{offset:#x}");
    }
}

#[test]
fn lines_that_do_not_exist_are_ignored() {
    let mut gic = linux();
    for intid in [0, 15, 288, 1023, u32::MAX] {
        gic.set_line(intid, true);
    }
    assert!(!gic.irq_asserted());
}

#[test]
fn ending_what_is_not_running_changes_nothing() {
    let mut gic = linux();
    eoi(&mut gic, 1023);
    eoi(&mut gic, 33);
    assert_eq!(gic.cpu_read(GICC_RPR, W), 0xff);
    enable(&mut gic, 33);
    gic.set_line(33, true);
    assert_eq!(iar(&mut gic), 33);
    eoi(&mut gic, 1023);
    assert_eq!(gic.cpu_read(GICC_RPR, W), 0xa0);
}

#[test]
fn report_lists_what_waits() {
    let mut gic = linux();
    enable(&mut gic, 33);
    gic.set_line(33, true);
    gic.set_line(39, true);
    let report = gic.to_string();
    assert!(report.contains("pending: 33 39\n") && report.contains("disabled: 39\n"), "{report}");
    assert!(report.contains("irq true"), "{report}");
}

/// What is told beforehand of the next accesses is what they do, from whatever state.
#[test]
fn outlook_is_what_comes() {
    let mut seed = 7u64;
    let mut next = |below: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32 % below
    };
    // Times that each kind of outlook was met: spurious, acknowledged, ended, and the three kinds of `End`.
    let mut met = [0; 6];
    let mut gic = linux();
    // What was told last, and how often it stood.
    let (mut said, mut stood, mut rounds) = (gic.outlook(), 0, 0);
    for round in 0..300_000 {
        if round % 100 == 0 {
            gic = linux();
            assert!(gic.take_changed(), "a new one is another");
            said = gic.outlook();
        }
        let intid = [0, 3, 27, 29, 33, 40, 70, 287][next(8) as usize];
        match next(24) {
            0..3 => enable(&mut gic, intid),
            3 => gic.dist_write(0x180 + intid / 32 * 4, W, 1 << (intid % 32)),
            4 => priority(&mut gic, intid, next(32) << 3),
            5..9 => gic.set_line(intid, true),
            9..13 => gic.set_line(intid, false),
            13 => gic.dist_write(GICD_SGIR, W, 2 << 24 | next(4)),
            14 | 15 => _ = iar(&mut gic),
            16..19 => {
                let any = gic.active().filter(|_| next(4) != 0).unwrap_or(intid);
                eoi(&mut gic, any);
            }
            19 => gic.dist_write(0xc00 + intid / 16 * 4, W, next(u32::MAX)),
            20 => gic.cpu_write([GICC_BPR, GICC_PMR][next(2) as usize], W, next(256)),
            21 => gic.cpu_write(GICC_CTLR, W, [1, 1, 1, 0, 3, 1 | CTLR_EOIMODE, 1 | CTLR_FIQEN][next(7) as usize]),
            22 => gic.dist_write(0x80 + intid / 32 * 4, W, u32::from(next(4) == 0) << (intid % 32)),
            _ => gic.dist_write([0x200, 0x280][next(2) as usize] + intid / 32 * 4, W, 1 << (intid % 32)),
        }
        let outlook = gic.outlook();
        if !gic.take_changed() {
            stood += 1;
            assert_eq!(outlook, said, "{round}");
        }
        said = outlook;
        let Some(Outlook { acknowledge, end, then }) = outlook else { continue };
        // Together, and one by one.
        let lines = [27, 30].map(|intid| (intid, next(2) != 0));
        let acknowledged = acknowledge.filter(|_| next(2) != 0);
        let ended = acknowledged.or(end).filter(|_| next(2) != 0);
        let (mut together, mut apart) = (gic.clone(), gic.clone());
        assert_eq!(together.catch_up(acknowledged.is_some(), lines, ended), acknowledged, "{round}");
        if acknowledged.is_some() {
            iar(&mut apart);
        }
        for (intid, high) in lines {
            apart.set_line(intid, high);
        }
        if let Some(intid) = ended {
            eoi(&mut apart, intid);
        }
        assert_eq!(together.to_string(), apart.to_string(), "{round}");
        assert_eq!(together.outlook(), apart.outlook(), "{round}");
        // All over, with lines that fell and have risen again, or not.
        if let Some(intid) = acknowledge {
            let (mut round_trip, mut apart) = (gic.clone(), gic.clone());
            if round_trip.comes_round(intid, lines) {
                rounds += 1;
                iar(&mut apart);
                if lines.iter().any(|&(line, _)| line == intid) {
                    apart.set_line(intid, false);
                }
                eoi(&mut apart, intid);
                for (intid, high) in lines {
                    apart.set_line(intid, high);
                }
                assert!(!round_trip.take_changed(), "{round}");
            }
            // Now, and when the lines have fallen.
            for _ in 0..2 {
                assert_eq!(round_trip.to_string(), apart.to_string(), "{round}");
                assert_eq!(round_trip.outlook(), apart.outlook(), "{round}");
                for gic in [&mut round_trip, &mut apart] {
                    [intid, 27, 30].into_iter().for_each(|line| gic.set_line(line, false));
                }
            }
        }
        let mut ahead = gic.clone();
        match acknowledge {
            None => {
                met[0] += 1;
                let before = ahead.to_string();
                assert_eq!(iar(&mut ahead), SPURIOUS, "{round}");
                assert_eq!(ahead.to_string(), before, "{round}");
            }
            Some(intid) => {
                met[1] += 1;
                assert!(gic.irq_asserted(), "{round}");
                assert_eq!(iar(&mut ahead), intid, "{round}");
                assert!(!ahead.irq_asserted() && !ahead.fiq_asserted(), "{round}");
                assert_eq!(iar(&mut ahead), SPURIOUS, "{round}");
                met[3 + then as usize] += 1;
                if then != End::Consequential {
                    if then == End::QuietIfLow {
                        ahead.set_line(intid, false);
                    }
                    eoi(&mut ahead, intid);
                    assert!(!ahead.irq_asserted() && !ahead.fiq_asserted(), "{round}: the end of {intid}");
                }
            }
        }
        if let Some(intid) = end {
            met[2] += 1;
            assert_eq!(acknowledge, None, "{round}");
            let mut ended = gic.clone();
            eoi(&mut ended, intid);
            assert!(!ended.irq_asserted() && !ended.fiq_asserted(), "{round}: the end of {intid}");
        }
    }
    assert!(met.iter().all(|&times| times > 100), "{met:?}");
    assert!(stood > 10_000, "{stood}");
    assert!(rounds > 100, "{rounds}");
}
