//! Strings, in the two spellings of `json.dumps`: escaped to ASCII, or as they are.
//!
//! For the first a string comes as Python stores it, as code points of one, two or four bytes; for the
//! second as UTF-8.

use crate::escapes::{SHOWN_ASCII, escaped_unit, escaped_word, write_ascii_escape};
use crate::scan::{LANES, marks, narrow_plain, padded_word, plain_prefix, short_word};

/// The code points of a string, as wide as the widest of them needs.
///
/// Surrogates may stand alone. Values above U+10FFFF are no code points: what is written for them is
/// unspecified.
#[derive(Clone, Copy, Debug)]
pub enum CodePoints<'text> {
    /// None is above U+00FF.
    OneByte(&'text [u8]),
    /// None is above U+FFFF.
    TwoBytes(&'text [u16]),
    /// Any.
    FourBytes(&'text [u32]),
}

/// Appends `text` as `json.dumps(text)` does: all but printable ASCII is escaped, DEL and lone surrogates
/// included.
#[inline]
pub fn write_ascii_string(out: &mut Vec<u8>, text: CodePoints<'_>) {
    match text {
        CodePoints::OneByte(bytes) => {
            if !write_short_plain::<true>(out, bytes) {
                write_narrow(out, bytes);
            }
        }
        CodePoints::TwoBytes(units) => write_wide(out, units),
        CodePoints::FourBytes(code_points) => write_wide(out, code_points),
    }
}

/// Appends `text` as `json.dumps(text, ensure_ascii=False)` does: UTF-8, where only controls below U+0020,
/// quotes and backslashes are escaped.
#[inline]
pub fn write_unicode_string(out: &mut Vec<u8>, text: &str) {
    if write_short_plain::<false>(out, text.as_bytes()) {
        return;
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, odd) = rest.split_at(plain_prefix::<false>(rest));
        out.extend_from_slice(plain);
        let [byte, behind @ ..] = odd else { break };
        write_ascii_escape(out, *byte);
        rest = behind;
    }
    out.push(b'"');
}

/// Appends fewer than 16 plain bytes in quotes, or says that `bytes` are not that.
///
/// Most keys and many values end here, so the text is put together in registers and stored once; what was
/// stored too much is cut off.
#[inline]
fn write_short_plain<const ASCII: bool>(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    const QUOTE: u64 = b'"' as u64;
    let end = out.len() + bytes.len() + 2;
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) if bytes.len() < 16 => {
            let [first, last] = [u64::from_le_bytes(*first), u64::from_le_bytes(*last)];
            if (marks::<ASCII>(first) | marks::<ASCII>(last)) != 0 {
                return false;
            }
            let behind = bytes.len() - 8;
            let rest = last.unbounded_shr(64 - 8 * u32_of(behind)) | QUOTE << (8 * behind);
            let words = [first << 8 | QUOTE, rest << 8 | first >> 56, rest >> 56];
            out.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
        }
        (None, _) => {
            if marks::<ASCII>(padded_word(bytes)) != 0 {
                return false;
            }
            let word = short_word(bytes) | QUOTE << (8 * bytes.len());
            let words = [word << 8 | QUOTE, word >> 56];
            out.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
        }
        _ => return false,
    }
    out.truncate(end);
    true
}

#[inline]
fn u32_of(small: usize) -> u32 {
    u32::try_from(small).unwrap_or(u32::MAX)
}

fn write_narrow(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text;
    loop {
        let (plain, odd) = rest.split_at(plain_prefix::<true>(rest));
        out.extend_from_slice(plain);
        let [byte, behind @ ..] = odd else { break };
        if byte.is_ascii() {
            write_ascii_escape(out, *byte);
        } else {
            out.extend_from_slice(&escaped_unit(u16::from(*byte)));
        }
        rest = behind;
    }
    out.push(b'"');
}

/// Appends a string with characters above U+00FF, a few code points at a time: those that are all plain are
/// narrowed to bytes, any others are looked at one by one.
fn write_wide<C: Copy + Into<u32>>(out: &mut Vec<u8>, text: &[C]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let (chunks, rest) = text.as_chunks::<LANES>();
    for chunk in chunks {
        if let Some(bytes) = narrow_plain(chunk) {
            out.extend_from_slice(&bytes);
        } else if !write_units(out, chunk) {
            write_mixed(out, chunk);
        }
    }
    write_mixed(out, rest);
    out.push(b'"');
}

/// Appends code points if all of them are one code unit above ASCII, as those of most scripts are: where each
/// escape stands is known beforehand. Says whether they are.
#[inline]
fn write_units<C: Copy + Into<u32>>(out: &mut Vec<u8>, chunk: &[C; LANES]) -> bool {
    let all =
        chunk.iter().fold(true, |all, code_point| all & (0x80..0x1_0000).contains(&(*code_point).into()));
    if all {
        // Each word is two bytes too long, and the next is stored over them.
        let mut room = [0; 6 * LANES + 2];
        for (index, code_point) in chunk.iter().enumerate() {
            let word = escaped_word(low_unit((*code_point).into()));
            room[6 * index..6 * index + 8].copy_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&room[..6 * LANES]);
    }
    all
}

/// Appends at most [`LANES`] code points. They are put into room made for the longest escapes, so that the
/// end of what is written stays in a register.
#[inline]
fn write_mixed<C: Copy + Into<u32>>(out: &mut Vec<u8>, text: &[C]) {
    let longest = if size_of::<C>() > 2 { 12 } else { 6 };
    let start = out.len();
    out.resize(start + text.len() * longest, 0);
    let room = &mut out[start..];
    let mut end = 0;
    for code_point in text {
        let code: u32 = (*code_point).into();
        if let Some(shown) = SHOWN_ASCII.get(code as usize) {
            room[end..end + 6].copy_from_slice(&shown.bytes);
            end += shown.length;
        } else if code < 0x1_0000 {
            room[end..end + 6].copy_from_slice(&escaped_unit(low_unit(code)));
            end += 6;
        } else {
            let code = code.wrapping_sub(0x1_0000);
            let high = escaped_unit(0xd800 | low_unit(code >> 10 & 0x3ff));
            let low = escaped_unit(0xdc00 | low_unit(code & 0x3ff));
            room[end..end + 6].copy_from_slice(&high);
            room[end + 6..end + 12].copy_from_slice(&low);
            end += 12;
        }
    }
    out.truncate(start + end);
}

#[inline]
fn low_unit(code: u32) -> u16 {
    let [low, high, ..] = code.to_le_bytes();
    u16::from_le_bytes([low, high])
}
