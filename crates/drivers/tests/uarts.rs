//! The drivers of the PL011 and the 16550 on models of them that are as slow as real ones (`uarts`).

use crate::support;
use spica_console::SerialPort;
use spica_drivers::error::BoardError;
use spica_drivers::find_serial;
use spica_drivers::models::bus::{self, Bus, Shared, attach};
use spica_drivers::models::uarts::{BYTE, Pl011, Uart16550};
use spica_drivers::tree::Tree;
use support::{blob, node, text, words};

const AT: u32 = 0x1000_0000;

fn driver(compatible: &str) -> Box<dyn SerialPort> {
    driver_of(compatible, 0x1000, 2, 4).unwrap_or_else(|error| panic!("{error}"))
}

/// The driver of a UART with so many bytes of registers, which are so far from each other, and so wide.
fn driver_of(compatible: &str, size: u32, shift: u32, width: u32) -> Result<Box<dyn SerialPort>, BoardError> {
    let properties = [
        text("compatible", compatible),
        words("reg", &[AT, size]),
        words("reg-shift", &[shift]),
        words("reg-io-width", &[width]),
    ];
    let cells = [words("#address-cells", &[1]), words("#size-cells", &[1])];
    let tree = blob(cells, [node("serial@10000000", properties, [])]);
    find_serial::<Bus>(Tree::new(&tree).unwrap()).map(|found| found.driver)
}

/// What there is to be read.
fn typed(port: &mut dyn SerialPort) -> Vec<u8> {
    std::iter::from_fn(|| port.get()).collect()
}

/// Sends `text` as Spica does while guests run: without waiting, by the interrupt that `raised` shows. Gives how often
/// that came.
fn send(port: &mut dyn SerialPort, text: &[u8], raised: impl Fn() -> bool) -> usize {
    let (mut at, mut interrupts) = (0, 0);
    loop {
        while at < text.len() && port.try_put(text[at]) {
            at += 1;
            // Some of them together.
            at += port.try_put_all(&text[at..text.len().min(at + at % 40)]);
        }
        if at == text.len() {
            break;
        }
        port.set_tx_interrupt(true);
        let mut patience = 100;
        while !raised() {
            bus::pass(BYTE / 2);
            patience -= 1;
            assert!(patience > 0, "the interrupt does not come, at byte {at}");
        }
        interrupts += 1;
        // What a handler does first, which may take the interrupt back.
        assert_eq!(port.get(), None);
    }
    port.set_tx_interrupt(false);
    assert!(!raised());
    bus::pass(100 * BYTE);
    assert!(!raised());
    interrupts
}

fn long_text() -> Vec<u8> {
    (0..1000u32).map(|n| (n % 251) as u8).collect()
}

#[test]
fn a_pl011_tells_when_there_is_room() {
    let uart: Shared<Pl011> = attach(AT, 0x1000, Pl011::default());
    let mut port = driver("arm,pl011");
    port.enable_rx_interrupt();
    let receive = uart.borrow().mask();
    let text = long_text();
    let interrupts = send(&mut *port, &text, || uart.borrow().raised());
    assert_eq!(uart.borrow().sent(), text);
    assert!((1000 / 16..1000 / 6).contains(&interrupts), "{interrupts}");
    // Again, and with a pause in which the interrupt is masked: the step to the mark is remembered.
    send(&mut *port, &text, || uart.borrow().raised());
    assert!((0..=16).any(|byte| !port.try_put(byte)), "it is never full");
    bus::pass(50 * BYTE);
    assert!(!uart.borrow().raised());
    port.set_tx_interrupt(true);
    assert!(uart.borrow().raised());
    port.set_tx_interrupt(false);
    assert_eq!(uart.borrow().mask(), receive, "what is received is another interrupt");
}

#[test]
fn a_16550_takes_a_fifo_at_once_and_tells_when_it_is_empty() {
    for (compatible, depth) in
        [("ns16550a", 16), ("snps,dw-apb-uart", 16), ("snps,dw-apb-uart", 64), ("ns16550a", 1), ("snps,dw-apb-uart", 1)]
    {
        // A bus for each thread.
        let round = move || a_16550(compatible, depth);
        std::thread::spawn(round).join().unwrap_or_else(|_| panic!("{compatible}, {depth}"));
    }
}

fn a_16550(compatible: &str, depth: usize) {
    let uart = attach(AT, 0x1000, Uart16550::new(depth));
    let mut port = driver(compatible);
    let text = long_text();
    let interrupts = send(&mut *port, &text, || uart.borrow().raised());
    assert_eq!(uart.borrow().sent(), text);
    assert_eq!(interrupts, 1000_usize.div_ceil(depth.min(16)) - 1, "{compatible}, {depth}");
    // Bytes that are received, and the interrupt for them, are there all the same.
    port.enable_rx_interrupt();
    assert!(uart.borrow().is_open());
    assert!(!uart.borrow().raised());
    for bytes in [&b"several bytes"[..depth.min(13)], b"x"] {
        uart.borrow_mut().receive(bytes);
        assert!(uart.borrow().raised());
        bus::pass(10 * BYTE);
        assert_eq!(typed(&mut *port), bytes);
        assert!(!uart.borrow().raised());
    }
}

#[test]
fn a_pl011_tells_what_comes_in() {
    let uart = attach(AT, 0x1000, Pl011::default());
    let mut port = driver("arm,pl011");
    uart.borrow_mut().receive(b"before");
    bus::pass(10 * BYTE);
    assert!(!uart.borrow().raised(), "nobody has asked for the interrupt");
    port.enable_rx_interrupt();
    assert!(uart.borrow().raised());
    assert_eq!(typed(&mut *port), b"before");
    // Below the mark, after a pause; at the mark, at once.
    for (bytes, pause) in [(&b"x"[..], true), (b"12345678", false), (b"sixteen bytes...", false), (b"more", true)] {
        assert!(!uart.borrow().raised());
        uart.borrow_mut().receive(bytes);
        assert_eq!(uart.borrow().raised(), !pause);
        bus::pass(4 * BYTE);
        assert!(uart.borrow().raised());
        assert_eq!(typed(&mut *port), bytes);
    }
    assert!(!uart.borrow().raised());
    bus::pass(10 * BYTE);
    assert!(!uart.borrow().raised());
    port.set_tx_interrupt(true);
    uart.borrow_mut().receive(b"12345678");
    assert!(uart.borrow().raised(), "what is sent is another interrupt");
}

#[test]
fn a_pl011_without_fifos_works_byte_by_byte() {
    let uart = attach(AT, 0x1000, Pl011::new(false));
    let mut port = driver("arm,pl011");
    port.enable_rx_interrupt();
    let text = long_text();
    assert_eq!(send(&mut *port, &text, || uart.borrow().raised()), 999);
    assert_eq!(uart.borrow().sent(), text);
    for byte in b"typed" {
        uart.borrow_mut().receive(&[*byte]);
        assert!(uart.borrow().raised());
        assert_eq!(typed(&mut *port), [*byte]);
        assert!(!uart.borrow().raised());
    }
}

#[test]
fn a_pl011_that_could_only_send_is_turned_on_behind_its_last_words() {
    let uart = attach(AT, 0x1000, Pl011::deaf());
    uart.borrow_mut().send(b"Starting kernel");
    let mut port = driver("arm,pl011");
    assert_eq!(uart.borrow().sent(), b"Starting kernel");
    uart.borrow_mut().receive(b"x");
    assert_eq!(typed(&mut *port), b"x");
    port.put(b'y');
    bus::pass(2 * BYTE);
    assert_eq!(uart.borrow().sent(), b"Starting kernely");
}

#[test]
fn an_interrupt_of_a_byte_that_was_read_already_is_taken_back() {
    let pl011 = attach(AT, 0x1000, Pl011::default());
    let mut port = driver("arm,pl011");
    port.enable_rx_interrupt();
    pl011.borrow_mut().raise_late();
    assert_eq!(port.get(), None);
    assert!(!pl011.borrow().raised(), "it would come for ever");
    bus::clear();
    let design_ware = attach(AT, 0x1000, Uart16550::new(64));
    let mut port = driver("snps,dw-apb-uart");
    port.enable_rx_interrupt();
    design_ware.borrow_mut().raise_late();
    assert_eq!(port.get(), None);
    assert!(!design_ware.borrow().raised(), "it would come for ever");
    design_ware.borrow_mut().receive(b"x");
    assert_eq!(typed(&mut *port), b"x");
}

#[test]
fn a_design_ware_uart_that_was_busy_is_settled() {
    let uart = attach(AT, 0x1000, Uart16550::new(16));
    let mut port = driver("snps,dw-apb-uart");
    port.enable_rx_interrupt();
    uart.borrow_mut().busy_detect = true;
    uart.borrow_mut().receive(b"x");
    assert!(uart.borrow().raised());
    assert_eq!(typed(&mut *port), b"x");
    assert!(!uart.borrow().raised());
}

#[test]
fn registers_of_a_16550_may_be_bytes() {
    let uart = attach(AT, 8, Uart16550::new(16));
    uart.borrow_mut().narrow = true;
    let mut port = driver_of("ns16550a", 8, 0, 1).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(send(&mut *port, b"a line that is longer than a FIFO", || uart.borrow().raised()), 2);
    port.enable_rx_interrupt();
    uart.borrow_mut().receive(b"typed");
    assert_eq!(typed(&mut *port), b"typed");
}

#[test]
fn registers_that_are_too_few_are_an_error() {
    for (compatible, size, shift, width) in
        [("arm,pl011", 0x44, 2, 4), ("ns16550a", 5, 0, 1), ("ns16550a", 8, 0, 4), ("snps,dw-apb-uart", 0x7c, 2, 4)]
    {
        let error = driver_of(compatible, size, shift, width).err().unwrap();
        assert_eq!(error.property, "reg", "{error}");
    }
    assert_eq!(driver_of("ns16550a", 0x1000, 5, 4).err().unwrap().property, "reg-shift");
}
