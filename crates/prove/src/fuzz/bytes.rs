//! Bytes of a fuzzer as numbers and choices: what is at an end reads as 0, so any bytes mean something.

/// A place in the bytes.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// From the beginning.
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes(bytes)
    }

    /// Whether all are used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `N` bytes.
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.0.len().min(N);
        let mut array = [0; N];
        array[..taken].copy_from_slice(&self.0[..taken]);
        self.0 = &self.0[taken..];
        array
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// A halfword.
    pub fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// A word.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// A double word.
    pub fn double(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A bit.
    pub fn bit(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// A value for a register: small, or all bits from the input.
    pub fn value(&mut self) -> u32 {
        match self.byte() % 4 {
            0 => u32::from(self.byte()),
            1 => 1 << (self.byte() % 32),
            2 => !(u32::from(self.byte())),
            _ => self.word(),
        }
    }

    /// The rest.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
