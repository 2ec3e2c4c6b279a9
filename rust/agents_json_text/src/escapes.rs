//! What stands for the characters that a string does not show as they are.

/// What a string shows for an ASCII character: itself, or its escape.
///
/// Read from a table, because which character comes next is what a processor cannot predict. The first
/// `length` bytes count; storing all six is cheaper than storing that many.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) bytes: [u8; 6],
    pub(crate) length: usize,
}

/// What a string shows for each ASCII character.
pub(crate) const SHOWN_ASCII: [Shown; 128] = {
    let mut shown = [Shown { bytes: [0; 6], length: 0 }; 128];
    let mut byte = 0;
    while byte < 128 {
        let letter = short_escape(byte);
        shown[byte as usize] = if letter != 0 {
            Shown { bytes: [b'\\', letter, 0, 0, 0, 0], length: 2 }
        } else if byte >= b' ' && byte <= b'~' {
            Shown { bytes: [byte, 0, 0, 0, 0, 0], length: 1 }
        } else {
            Shown { bytes: escaped_unit(byte as u16), length: 6 }
        };
        byte += 1;
    }
    shown
};

/// Appends the escape of an ASCII character that has one.
#[inline]
pub(crate) fn write_ascii_escape(out: &mut Vec<u8>, byte: u8) {
    let shown = &SHOWN_ASCII[usize::from(byte)];
    let end = out.len() + shown.length;
    out.extend_from_slice(&shown.bytes);
    out.truncate(end);
}

/// The letter behind the backslash, or 0 where the code unit is written out.
const fn short_escape(byte: u8) -> u8 {
    match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => 0,
    }
}

/// Spells a UTF-16 code unit as `\uXXXX`.
#[inline]
pub(crate) const fn escaped_unit(unit: u16) -> [u8; 6] {
    let [high, low] = unit.to_be_bytes();
    let [a, b] = HEX_PAIRS[high as usize];
    let [c, d] = HEX_PAIRS[low as usize];
    [b'\\', b'u', a, b, c, d]
}

/// Spells a UTF-16 code unit as `\uXXXX`, in the first six bytes of a little-endian word.
#[inline]
pub(crate) const fn escaped_word(unit: u16) -> u64 {
    let [high, low] = unit.to_be_bytes();
    let [high, low] = [HEX_PAIRS[high as usize], HEX_PAIRS[low as usize]];
    let digits = u16::from_le_bytes(high) as u64 | (u16::from_le_bytes(low) as u64) << 16;
    u16::from_le_bytes(*b"\\u") as u64 | digits << 16
}

const HEX_PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut value = 0;
    while value < 256 {
        pairs[value] = [digits[value >> 4], digits[value & 15]];
        value += 1;
    }
    pairs
};
