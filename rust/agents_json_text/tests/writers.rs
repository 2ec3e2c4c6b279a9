//! The writers against plain statements of what Python's `json.dumps` and `repr` do.

use std::fmt::Write;

use agents_json_text::{CodePoints, write_ascii_string, write_float, write_integer, write_unicode_string};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = b"before".to_vec();
    write(&mut out);
    let text = String::from_utf8(out).expect("writers write UTF-8");
    text.strip_prefix("before").expect("writers append").to_owned()
}

fn float(value: f64) -> String {
    written(|out| write_float(out, value))
}

/// The definition of the ASCII spelling, one code point at a time.
fn escaped(code_points: impl IntoIterator<Item = u32>) -> String {
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

/// What stands between the quotes of a string.
fn inside(string: &str) -> &str {
    &string[1..string.len() - 1]
}

/// Code points up to `highest`, mostly plain, so that runs of every length meet every escape.
fn code_points(highest: u32) -> impl Strategy<Value = Vec<u32>> {
    vec(prop_oneof![6 => 0x20..=0x7e_u32, 1 => 0..=0x7f_u32, 1 => 0..=highest], 0..120)
}

proptest! {
    #[test]
    fn one_byte_strings_are_escaped_to_ascii(codes in code_points(0xff)) {
        let bytes: Vec<u8> = codes.iter().map(|code| u8::try_from(*code).expect("one byte")).collect();
        let text = written(|out| write_ascii_string(out, CodePoints::OneByte(&bytes)));
        prop_assert_eq!(text, escaped(codes));
    }

    #[test]
    fn two_byte_strings_are_escaped_to_ascii(codes in code_points(0xffff)) {
        let units: Vec<u16> = codes.iter().map(|code| u16::try_from(*code).expect("two bytes")).collect();
        let text = written(|out| write_ascii_string(out, CodePoints::TwoBytes(&units)));
        prop_assert_eq!(text, escaped(codes));
    }

    #[test]
    fn four_byte_strings_are_escaped_to_ascii(codes in code_points(0x10_ffff)) {
        let text = written(|out| write_ascii_string(out, CodePoints::FourBytes(&codes)));
        prop_assert_eq!(text, escaped(codes));
    }

    #[test]
    fn readable_strings_escape_controls_quotes_and_backslashes_only(codes in code_points(0x10_ffff)) {
        let original: String = codes.iter().filter_map(|code| char::from_u32(*code)).collect();
        let mut expected = String::from('"');
        for character in original.chars() {
            match character {
                '"' | '\\' | '\0'..' ' => expected.push_str(inside(&escaped([u32::from(character)]))),
                _ => expected.push(character),
            }
        }
        expected.push('"');
        prop_assert_eq!(written(|out| write_unicode_string(out, &original)), expected);
    }

    #[test]
    fn integers_are_decimal(value in any::<i64>()) {
        prop_assert_eq!(written(|out| write_integer(out, value)), value.to_string());
    }

    #[test]
    fn floats_read_back_as_the_same_bits(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        let text = float(value);
        if value.is_finite() {
            prop_assert_eq!(text.parse::<f64>().expect("a float").to_bits(), bits);
        }
    }

    #[test]
    fn floats_are_laid_out_as_repr_lays_them_out(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        let text = float(value);
        let fixed = value == 0.0 || (1e-4..1e16).contains(&value.abs());
        if value.is_finite() && fixed {
            prop_assert!(text.contains('.') && !text.contains('e'), "{}", text);
        } else if value.is_finite() {
            let (_, exponent) = text.split_once('e').expect("an exponent");
            prop_assert!(exponent.starts_with(['+', '-']) && exponent.len() >= 3, "{}", text);
            prop_assert!(!text.contains(".0e"), "{}", text);
        }
    }
}

#[test]
fn floats_between_the_layouts_are_spelled_as_python_spells_them() {
    for (value, text) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-0.000_099_9, "-9.99e-05"),
        (0.000_012_34, "1.234e-05"),
        (1.25e-7, "1.25e-07"),
        (1e-10, "1e-10"),
        (9_999_999_999_999_998.0, "9999999999999998.0"),
        (1e16, "1e+16"),
        (1.5e16, "1.5e+16"),
        (1e22, "1e+22"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
    ] {
        assert_eq!(float(value), text);
    }
}

#[test]
fn of_two_shortest_floats_equally_near_the_even_one_is_written() {
    assert_eq!(float(1_113_178_120_592_002.0 + 0.25), "1113178120592002.2");
    assert_eq!(float(1_113_178_120_592_002.0 + 0.75), "1113178120592002.8");
}

#[test]
fn floats_that_are_not_finite_are_words() {
    assert_eq!(float(f64::NAN), "NaN");
    assert_eq!(float(f64::INFINITY), "Infinity");
    assert_eq!(float(f64::NEG_INFINITY), "-Infinity");
}

#[test]
fn integers_reach_both_ends() {
    assert_eq!(written(|out| write_integer(out, i64::MIN)), "-9223372036854775808");
    assert_eq!(written(|out| write_integer(out, i64::MAX)), "9223372036854775807");
}
