//! What drives the board's UART.

/// A serial port: bytes out and in, polled or announced by an interrupt.
pub trait SerialPort: Send {
    /// Sends a byte if the transmitter has room now. False if it has none.
    fn try_put(&mut self, byte: u8) -> bool;
    /// Sends as many of these bytes as the transmitter has room for now. How many.
    fn try_put_all(&mut self, bytes: &[u8]) -> usize {
        bytes.iter().take_while(|&&byte| self.try_put(byte)).count()
    }
    /// Sends a byte, waiting for room: at 115,200 baud, 87 µs. Only where nobody runs whom that delays.
    fn put(&mut self, byte: u8) {
        while !self.try_put(byte) {}
    }
    /// While `on`, the line is raised when the transmitter has room again. To be turned on only after
    /// [`try_put`](Self::try_put) found no room, or sent as many bytes as any FIFO takes: some UARTs tell of the moment
    /// at which their FIFO runs low, not of the state.
    fn set_tx_interrupt(&mut self, on: bool);
    /// A byte that has arrived. When this has returned `None`, the receive interrupt is no longer raised. It may take
    /// back a transmit interrupt: see afterwards whether there is room.
    fn get(&mut self) -> Option<u8>;
    /// From now on the line is raised while there is something to [`get`](Self::get).
    fn enable_rx_interrupt(&mut self);

    /// Much is going to be typed, by a program, or no longer. A port that can raises its interrupt for several bytes
    /// at once then, and makes whoever types a single one wait a little.
    fn expect_much(&mut self, _much: bool) {}
}
