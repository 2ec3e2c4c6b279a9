//! JSON strings without a line end in them.
//!
//! The event stream format ends lines at CR and LF only, and JSON escapes those. Readers that split text with
//! a library's idea of lines also stop at U+0085, U+2028 and U+2029, so these are escaped as well. Everything
//! else above U+007F is UTF-8: half the bytes of an escape, and no work for who reads it.

use agents_json_text::CodePoints;

/// Code points judged in one step while text stays plain.
const LANES: usize = 16;

/// The longest spelling of one code point: an escaped UTF-16 code unit.
const LONGEST: usize = 6;

/// Appends `text` as a JSON string.
///
/// Surrogates that are a pair become the character they stand for, any other becomes U+FFFD.
#[inline]
pub fn write_string(out: &mut Vec<u8>, text: CodePoints<'_>) {
    out.push(b'"');
    write_text(out, text);
    out.push(b'"');
}

/// Appends what [`write_string`] puts between the quotes.
#[inline]
pub(crate) fn write_text(out: &mut Vec<u8>, text: CodePoints<'_>) {
    match text {
        CodePoints::OneByte(bytes) => write_narrow(out, bytes),
        CodePoints::TwoBytes(units) => write_wide(out, units),
        CodePoints::FourBytes(code_points) => write_wide(out, code_points),
    }
}

#[inline]
fn write_narrow(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    loop {
        let (plain, odd) = rest.split_at(plain_prefix(rest));
        out.extend_from_slice(plain);
        if odd.is_empty() {
            return;
        }
        // What is odd seldom stands alone: the next few are looked at one by one.
        let (block, behind) = odd.split_at(odd.len().min(LANES));
        write_block(out, block, block.len());
        rest = behind;
    }
}

/// Returns how many bytes are copied as they are before the first that is not.
#[inline]
fn plain_prefix(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<LANES>();
    let plain_blocks = blocks.iter().take_while(|block| narrow_plain(block).is_some()).count();
    let prefix = plain_blocks * LANES;
    prefix + bytes[prefix..].iter().take_while(|byte| is_plain(u32::from(**byte))).count()
}

fn write_wide<C: Copy + Into<u32>>(out: &mut Vec<u8>, text: &[C]) {
    let mut rest = text;
    while !rest.is_empty() {
        let block: Option<&[C; LANES]> = rest.first_chunk();
        if let Some(bytes) = block.and_then(narrow_plain) {
            out.extend_from_slice(&bytes);
            rest = &rest[LANES..];
        } else if let Some(bytes) = block.and_then(three_bytes_each) {
            out.extend_from_slice(bytes.as_flattened());
            rest = &rest[LANES..];
        } else {
            let taken = write_block(out, rest, rest.len().min(LANES));
            rest = &rest[taken..];
        }
    }
}

/// Narrows code points to bytes if all of them are copied as they are. Judged without an early exit, so that
/// the compiler uses vector registers.
#[inline]
fn narrow_plain<C: Copy + Into<u32>>(block: &[C; LANES]) -> Option<[u8; LANES]> {
    let plain = block.iter().fold(true, |all, code_point| all & is_plain((*code_point).into()));
    plain.then(|| {
        block.map(|code_point| {
            let [byte, ..] = code_point.into().to_le_bytes();
            byte
        })
    })
}

/// Spells code points if all of them take three bytes of UTF-8, as those of most Asian scripts do.
#[inline]
fn three_bytes_each<C: Copy + Into<u32>>(block: &[C; LANES]) -> Option<[[u8; 3]; LANES]> {
    let all = block.iter().fold(true, |all, code_point| all & takes_three_bytes((*code_point).into()));
    all.then(|| block.map(|code_point| three_bytes(code_point.into())))
}

#[inline]
fn is_plain(code: u32) -> bool {
    (0x20..0x80).contains(&code) & (code != 0x22) & (code != 0x5c)
}

#[inline]
fn takes_three_bytes(code: u32) -> bool {
    ((0x800..0xd800).contains(&code) | (0xe000..0x1_0000).contains(&code)) & (code & !1 != 0x2028)
}

#[inline]
fn three_bytes(code: u32) -> [u8; 3] {
    [0xe0 | low_byte(code >> 12), continuation(code >> 6), continuation(code)]
}

/// Appends the first `length` code points, at most [`LANES`], and one more if it ends a pair of surrogates.
/// Returns how many were taken.
///
/// They are put into room made for the longest spelling, so that the end of what is written stays in a
/// register.
#[inline]
fn write_block<C: Copy + Into<u32>>(out: &mut Vec<u8>, text: &[C], length: usize) -> usize {
    let start = out.len();
    out.resize(start + LANES * LONGEST, 0);
    let room = &mut out[start..];
    let mut end = 0;
    let mut taken = 0;
    while taken < length {
        let code: u32 = text[taken].into();
        taken += 1;
        if let Some(shown) = SHOWN_ASCII.get(code as usize) {
            room[end..end + LONGEST].copy_from_slice(&shown.bytes);
            end += shown.length;
        } else if takes_three_bytes(code) {
            room[end..end + 3].copy_from_slice(&three_bytes(code));
            end += 3;
        } else {
            let next = text.get(taken).map(|code_point| (*code_point).into());
            let (shown, pair) = spell_odd(code, next);
            room[end..end + LONGEST].copy_from_slice(&shown.bytes);
            end += shown.length;
            taken += usize::from(pair);
        }
    }
    out.truncate(start + end);
    taken
}

/// What stands for a code point: the first `length` bytes count.
#[derive(Clone, Copy)]
struct Shown {
    bytes: [u8; LONGEST],
    length: usize,
}

/// What stands for each ASCII character. Read from a table, because which character comes next is what a
/// processor cannot predict.
const SHOWN_ASCII: [Shown; 128] = {
    let digits = b"0123456789abcdef";
    let mut table = [Shown { bytes: [0; LONGEST], length: 1 }; 128];
    let mut byte = 0;
    while byte < 128 {
        let letter = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            _ => 0,
        };
        table[byte as usize] = if letter != 0 {
            Shown { bytes: [b'\\', letter, 0, 0, 0, 0], length: 2 }
        } else if byte < b' ' {
            let (high, low) = (digits[(byte >> 4) as usize], digits[(byte & 15) as usize]);
            Shown { bytes: [b'\\', b'u', b'0', b'0', high, low], length: 6 }
        } else {
            Shown { bytes: [byte, 0, 0, 0, 0, 0], length: 1 }
        };
        byte += 1;
    }
    table
};

/// Spells a code point that is neither ASCII nor one of three bytes, and says whether `next` is in it.
#[inline]
fn spell_odd(code: u32, next: Option<u32>) -> (Shown, bool) {
    let shown = |bytes, length| Shown { bytes, length };
    match (code, next) {
        (0x85, _) => (shown(*b"\\u0085", 6), false),
        (0x2028, _) => (shown(*b"\\u2028", 6), false),
        (0x2029, _) => (shown(*b"\\u2029", 6), false),
        (0..0x800, _) => {
            let first = 0xc0 | low_byte(code >> 6);
            (shown([first, continuation(code), 0, 0, 0, 0], 2), false)
        }
        (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) => {
            (four_bytes(0x1_0000 + ((code & 0x3ff) << 10 | second & 0x3ff)), true)
        }
        (0xd800..0xe000, _) => (shown([0xef, 0xbf, 0xbd, 0, 0, 0], 3), false),
        _ => (four_bytes(code), false),
    }
}

#[inline]
fn four_bytes(code: u32) -> Shown {
    let first = 0xf0 | low_byte(code >> 18 & 7);
    let bytes = [first, continuation(code >> 12), continuation(code >> 6), continuation(code), 0, 0];
    Shown { bytes, length: 4 }
}

#[inline]
fn continuation(code: u32) -> u8 {
    0x80 | low_byte(code & 0x3f)
}

#[inline]
fn low_byte(code: u32) -> u8 {
    let [byte, ..] = code.to_le_bytes();
    byte
}
