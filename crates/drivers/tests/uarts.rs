//! The drivers of the PL011 and the 16550 on models of them that are as slow as real ones (`uarts`).

mod support;

use spica_console::SerialPort;
use spica_drivers::find_serial;
use spica_drivers::models::bus::{self, Bus, Shared, attach};
use spica_drivers::models::uarts::{BYTE, Pl011, Uart16550};
use spica_drivers::tree::Tree;
use support::{blob, node, text, words};

const AT: u32 = 0x1000_0000;

fn driver(compatible: &str) -> Box<dyn SerialPort> {
    let properties = [
        text("compatible", compatible),
        words("reg", &[AT, 0x1000]),
        words("reg-shift", &[2]),
        words("reg-io-width", &[4]),
    ];
    let cells = [words("#address-cells", &[1]), words("#size-cells", &[1])];
    let tree = blob(cells, [node("serial@10000000", properties, [])]);
    find_serial::<Bus>(Tree::new(&tree).unwrap()).map(|found| found.driver).unwrap_or_else(|error| panic!("{error}"))
}

/// Sends `text` as Spica does while guests run: without waiting, by the interrupt that `raised` shows. Gives how often
/// that came.
fn send(port: &mut dyn SerialPort, text: &[u8], raised: impl Fn() -> bool) -> usize {
    let (mut at, mut interrupts) = (0, 0);
    loop {
        while at < text.len() && port.try_put(text[at]) {
            at += 1;
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
    assert!(!uart.borrow().raised());
    uart.borrow_mut().received.extend(b"typed");
    assert!(uart.borrow().raised());
    let typed: Vec<u8> = std::iter::from_fn(|| port.get()).collect();
    assert_eq!(typed, b"typed");
    assert!(!uart.borrow().raised());
}
