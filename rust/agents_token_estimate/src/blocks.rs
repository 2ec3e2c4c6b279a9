//! Counting many bytes at once: the tables of `classes`, spelled as comparisons without a branch, which
//! become vector instructions.

use crate::classes::{Class, Event, FEATURES};

/// Bytes counted in one step: few enough for every count to fit a byte, whole vector registers.
pub(crate) const BLOCK: usize = 240;

/// Bytes counted in one step where fewer than a block are left.
pub(crate) const SMALL_BLOCK: usize = 32;

/// Adds the classes of the code points `current`, each one byte, and their events behind `previous`, the
/// same bytes one place earlier.
pub(crate) fn count_block<const N: usize>(
    previous: &[u8; N],
    current: &[u8; N],
    counts: &mut [u64; FEATURES],
) {
    // Most blocks are ASCII alone, and the comparisons of that are the fewest.
    if previous.is_ascii() && current.is_ascii() {
        count_bytes::<N, true>(previous, current, counts);
    } else {
        count_bytes::<N, false>(previous, current, counts);
    }
}

fn count_bytes<const N: usize, const ASCII: bool>(
    previous: &[u8; N],
    current: &[u8; N],
    counts: &mut [u64; FEATURES],
) {
    const { assert!(N <= u8::MAX as usize) }
    let mut classes = [0_u8; 9];
    let mut events = [0_u8; 6];
    for (before, byte) in previous.iter().zip(current) {
        let [before, byte] = [Kind::of::<ASCII>(*before), Kind::of::<ASCII>(*byte)];
        let was_letter = before.ascii_letter() | before.latin;
        let letter = byte.ascii_letter() | byte.latin;
        let class_flags = [
            byte.lowercase,
            byte.rare,
            byte.uppercase,
            byte.digit,
            byte.blank,
            byte.newline,
            byte.punctuation,
            byte.latin,
            byte.symbol,
        ];
        let event_flags = [
            letter & !(was_letter | before.digit),
            letter & before.digit,
            byte.latin & before.ascii_letter(),
            byte.digit & !before.digit,
            byte.punctuation & before.blank,
            byte.punctuation & !(before.punctuation | before.blank),
        ];
        for (count, flag) in classes.iter_mut().zip(class_flags) {
            *count = count.wrapping_add(u8::from(flag));
        }
        for (count, flag) in events.iter_mut().zip(event_flags) {
            *count = count.wrapping_add(u8::from(flag));
        }
    }
    let [lowercase, rare, uppercase, digit, blank, newline, punctuation, latin, symbol] =
        classes.map(u64::from);
    let counted = lowercase + uppercase + digit + blank + newline + punctuation + latin + symbol;
    let [word, after_digit, accent, digits, after_blank, start] = events.map(u64::from);
    for (feature, count) in [
        (Class::Lowercase as usize, lowercase - rare),
        (Class::RareLowercase as usize, rare),
        (Class::Uppercase as usize, uppercase),
        (Class::Digit as usize, digit),
        (Class::Blank as usize, blank),
        (Class::Newline as usize, newline),
        (Class::Punctuation as usize, punctuation),
        (Class::Control as usize, N as u64 - counted),
        (Class::Latin as usize, latin),
        (Class::Symbol as usize, symbol),
        (Event::WordStart as usize, word),
        (Event::LetterAfterDigit as usize, after_digit),
        (Event::AccentInWord as usize, accent),
        (Event::DigitStart as usize, digits),
        (Event::PunctuationAfterBlank as usize, after_blank),
        (Event::PunctuationStart as usize, start),
    ] {
        counts[feature] += count;
    }
}

/// The class of one byte, as flags.
#[expect(clippy::struct_excessive_bools, reason = "flags of a vector lane")]
#[derive(Clone, Copy)]
struct Kind {
    lowercase: bool,
    /// Counted as lowercase, too.
    rare: bool,
    uppercase: bool,
    digit: bool,
    blank: bool,
    newline: bool,
    punctuation: bool,
    latin: bool,
    symbol: bool,
}

impl Kind {
    #[inline]
    fn of<const ASCII: bool>(byte: u8) -> Self {
        let lowercase = byte.wrapping_sub(b'a') < 26;
        let uppercase = byte.wrapping_sub(b'A') < 26;
        let digit = byte.wrapping_sub(b'0') < 10;
        let visible = byte.wrapping_sub(b'!') < 94;
        Self {
            lowercase,
            rare: (byte.wrapping_sub(b'j') < 2) | (byte == b'q') | (byte == b'x') | (byte == b'z'),
            uppercase,
            digit,
            blank: (byte == b' ') | (byte == b'\t'),
            newline: (byte == b'\n') | (byte == b'\r'),
            punctuation: visible & !(lowercase | uppercase | digit),
            latin: !ASCII & (byte >= 0xc0),
            symbol: !ASCII & (byte.wrapping_sub(0x80) < 0x40),
        }
    }

    #[inline]
    fn ascii_letter(self) -> bool {
        self.lowercase | self.uppercase
    }
}
