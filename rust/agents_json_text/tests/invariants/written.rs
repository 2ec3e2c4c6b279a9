//! What is written for any text and any number, beside plain statements of what `json.dumps` and `repr` do.

use std::fmt::Write;

use agents_json_text::{CodePoints, write_ascii_string, write_float, write_integer, write_unicode_string};

/// Writes bytes as strings of every width, as readable text, and as numbers: the body of a fuzz target.
pub fn check(data: &[u8]) {
    let codes: Vec<u32> = data.iter().map(|byte| u32::from(*byte)).collect();
    assert_eq!(ascii_text(CodePoints::OneByte(data)), escaped(codes));
    let units: Vec<u16> = data.as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let codes = units.iter().map(|unit| u32::from(*unit));
    assert_eq!(ascii_text(CodePoints::TwoBytes(&units)), escaped(codes));
    let codes: Vec<u32> = data
        .as_chunks()
        .0
        .iter()
        .map(|three: &[u8; 3]| u32::from_le_bytes([three[0], three[1], three[2], 0]) % 0x11_0000)
        .collect();
    assert_eq!(ascii_text(CodePoints::FourBytes(&codes)), escaped(codes));
    let text = String::from_utf8_lossy(data);
    assert_eq!(written(|out| write_unicode_string(out, &text)), readable(&text));
    for eight in data.as_chunks().0 {
        let (integer, float) = (i64::from_le_bytes(*eight), f64::from_le_bytes(*eight));
        assert_eq!(written(|out| write_integer(out, integer)), integer.to_string());
        check_float(float);
        #[expect(clippy::cast_precision_loss, reason = "any float will do")]
        check_float(integer as f64 / 100.0);
    }
}

/// Returns what a writer appends.
pub fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = b"before".to_vec();
    write(&mut out);
    let text = String::from_utf8(out).expect("writers write UTF-8");
    text.strip_prefix("before").expect("writers append").to_owned()
}

/// Returns the ASCII spelling of a text.
pub fn ascii_text(text: CodePoints<'_>) -> String {
    written(|out| write_ascii_string(out, text))
}

/// The definition of the ASCII spelling, one code point at a time.
pub fn escaped(code_points: impl IntoIterator<Item = u32>) -> String {
    let mut text = String::from('"');
    for code in code_points {
        match code {
            0x22 => text.push_str("\\\""),
            0x5c => text.push_str("\\\\"),
            0x0a => text.push_str("\\n"),
            0x0d => text.push_str("\\r"),
            0x09 => text.push_str("\\t"),
            0x08 => text.push_str("\\b"),
            0x0c => text.push_str("\\f"),
            0x20..=0x7e => text.push(char::from_u32(code).expect("printable ASCII")),
            0x1_0000.. => {
                let offset = code - 0x1_0000;
                write!(text, "\\u{:04x}\\u{:04x}", 0xd800 | offset >> 10, 0xdc00 | offset & 0x3ff)
                    .expect("a String takes all");
            }
            _ => write!(text, "\\u{code:04x}").expect("a String takes all"),
        }
    }
    text.push('"');
    text
}

/// The definition of the readable spelling.
pub fn readable(original: &str) -> String {
    let mut text = String::from('"');
    for character in original.chars() {
        match character {
            '"' | '\\' | '\0'..' ' => {
                let string = escaped([u32::from(character)]);
                text.push_str(&string[1..string.len() - 1]);
            }
            _ => text.push(character),
        }
    }
    text.push('"');
    text
}

/// Holds what `repr` says of a float: it reads back as the same bits, has as few digits as any such text, and
/// an exponent below 1e-4 and from 1e16 on.
pub fn check_float(value: f64) {
    let text = written(|out| write_float(out, value));
    if !value.is_finite() {
        assert!(["NaN", "Infinity", "-Infinity"].contains(&text.as_str()));
        return;
    }
    assert_eq!(text.parse::<f64>().expect("a float").to_bits(), value.to_bits());
    let (digits, exponent) = digits_of(&text);
    assert_eq!(digits.len(), digits_of(&format!("{value:e}")).0.len());
    let sign = if value.is_sign_negative() { "-" } else { "" };
    assert_eq!(text, format!("{sign}{}", laid_out(&digits, exponent)));
}

/// Returns the digits that count, and the power of ten of the first.
fn digits_of(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.trim_start_matches('-').split_once('.').unwrap_or((mantissa, ""));
    let whole = whole.trim_start_matches('-');
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let zeros = i32::try_from(all.len() - digits.len()).expect("a short text");
    let places = i32::try_from(whole.len()).expect("a short text");
    match digits.trim_end_matches('0') {
        "" => ("0".to_owned(), 0),
        digits => (digits.to_owned(), exponent.parse::<i32>().expect("an exponent") + places - 1 - zeros),
    }
}

fn laid_out(digits: &str, exponent: i32) -> String {
    if !(-4..16).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{first}{point}{rest}e{sign}{:02}", exponent.abs());
    }
    let Ok(places) = usize::try_from(exponent + 1) else {
        return format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    };
    match digits.split_at_checked(places) {
        Some(("", fraction)) => format!("0.{fraction}"),
        Some((whole, fraction)) => format!("{whole}.{}", if fraction.is_empty() { "0" } else { fraction }),
        None => format!("{digits:0<places$}.0"),
    }
}
