//! Names of numbers.

use spica_machine::map;
use spica_trace::names;
use spica_trace_ring::Record;
use spica_trace_ring::record::{self, class, trap};

#[test]
fn devices_are_those_of_the_machine() {
    for (begin, bytes, name) in [
        (map::FLASH[0], 2 * map::FLASH_BANK, "flash"),
        (map::GICD, map::GIC_FRAME, "interrupt distributor"),
        (map::GICC, map::GIC_FRAME, "interrupt controller"),
        (map::UART, map::PRIMECELL_FRAME, "UART"),
        (map::RTC, map::PRIMECELL_FRAME, "real-time clock"),
        (map::GPIO, map::PRIMECELL_FRAME, "GPIO"),
        (map::VIRTIO, map::VIRTIO_SLOTS * map::VIRTIO_FRAME, "virtio"),
    ] {
        for pa in [begin.0, begin.0 + bytes - 1] {
            assert_eq!(names::device(pa), Some(name), "{pa:#x}");
        }
        assert_ne!(names::device(begin.0 + bytes), Some(name), "{begin}");
    }
    assert_eq!(names::device(map::RAM.0), None);
    for (spi, name) in [(map::UART_SPI, "UART"), (map::RTC_SPI, "real-time clock"), (map::GPIO_SPI, "GPIO")] {
        assert_eq!(names::interrupt(32 + spi), name);
    }
    assert_eq!(names::interrupt(16 + map::TIMER_VIRTUAL_PPI), "virtual timer");
    assert_eq!(names::interrupt(32 + map::VIRTIO_SPI + 3), "virtio 3");
    assert_eq!(names::notified_slot(map::VIRTIO.0 + 31 * map::VIRTIO_FRAME + 0x50), Some(31));
    assert_eq!(names::notified_slot(map::VIRTIO.0 + 0x54), None);
}

#[test]
fn system_calls_are_sorted() {
    for (number, name) in [(0, "restart_syscall"), (64, "getppid"), (439, "faccessat2"), (0x000f_0005, "set_tls")] {
        assert_eq!(names::system_call(number), name);
    }
    assert_eq!(names::system_call(7), "system call 0x7");
}

#[test]
fn traps_are_named_after_what_they_came_to() {
    let name = |class: u8, detail: u16, argument: u32| {
        let name = names::trap(&Record { kind: record::TRAP + class, detail, argument, ..Record::default() });
        name.into_owned()
    };
    assert_eq!(name(class::DATA_ABORT, trap::SHADOW_FAULT, 0), "shadow fault");
    assert_eq!(name(class::DATA_ABORT, trap::GUEST_ABORT | trap::SHADOW_FAULT, 0), "guest's abort");
    assert_eq!(name(class::DATA_ABORT, trap::DEVICE | trap::WRITE, 0x0900_0000), "UART write");
    assert_eq!(name(class::UNDEFINED, 0, 0), "return mirror miss");
    assert_eq!(name(class::UNDEFINED, trap::IN_PLACE, 0xe160_0070), "PSCI call");
    assert_eq!(name(class::PREFETCH_ABORT, trap::IN_PLACE, 0), "page of code");
    assert_eq!(name(class::SUPERVISOR_CALL, trap::IN_PLACE, 0xc010_0000), "replaced instruction");
    assert_eq!(name(class::DATA_ABORT, trap::IN_PLACE | trap::SHADOW_FAULT, 0), "shadow fault");
    assert_eq!(name(class::SUPERVISOR_CALL, spica_dbt::trap::INDIRECT as u16, 0), "indirect branch");
    // MCR p15, 0, R0, c8, c7, 0: TLBIALL; MRC p15, 0, R0, c1, c0, 0; WFI.
    for (word, expected) in [(0xee08_0f17, "TLB flush"), (0xee11_0f10, "MRC p15"), (0xe320_f003, "WFI")] {
        assert_eq!(name(class::SUPERVISOR_CALL, spica_dbt::trap::EMULATE as u16, word), expected);
    }
    // No kind is without a name, whatever a record says.
    for class in 0..8 {
        for detail in 0..=u16::MAX {
            assert!(!name(class, detail, u32::from(detail) << 16).is_empty());
        }
    }
}
