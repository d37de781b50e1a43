//! What all PrimeCell peripherals share: the identification registers in the last 32 bytes of their 4 KiB frame.

/// The second half of every identification: "a PrimeCell".
const CELL_ID: [u8; 4] = [0x0d, 0xf0, 0x05, 0xb1];

/// PeriphID0-3 at 0xfe0 and PCellID0-3 at 0xff0, one byte each in a word; `None` outside of them. An AMBA bus driver
/// binds by these numbers and by nothing else.
pub(crate) fn id_register(peripheral: [u8; 4], offset: u32) -> Option<u32> {
    let index = (offset & 0xf) as usize / 4;
    match offset & !0xf {
        0xfe0 => peripheral.get(index).copied().map(u32::from),
        0xff0 => CELL_ID.get(index).copied().map(u32::from),
        _ => None,
    }
}
