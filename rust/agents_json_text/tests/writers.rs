//! The writers against plain statements of what Python's `json.dumps` and `repr` do.

#[path = "invariants/written.rs"]
mod invariants;

use agents_json_text::{CodePoints, write_float, write_integer, write_unicode_string};
use invariants::{ascii_text, check, check_float, escaped, readable, written};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy;

fn float(value: f64) -> String {
    written(|out| write_float(out, value))
}

/// Code points up to `highest`, mostly plain, so that runs of every length meet every escape.
fn code_points(highest: u32) -> impl Strategy<Value = Vec<u32>> {
    vec(prop_oneof![6 => 0x20..=0x7e_u32, 1 => 0..=0x7f_u32, 1 => 0..=highest], 0..120)
}

proptest! {
    #[test]
    fn one_byte_strings_are_escaped_to_ascii(codes in code_points(0xff)) {
        let bytes: Vec<u8> = codes.iter().map(|code| u8::try_from(*code).expect("one byte")).collect();
        prop_assert_eq!(ascii_text(CodePoints::OneByte(&bytes)), escaped(codes));
    }

    #[test]
    fn two_byte_strings_are_escaped_to_ascii(codes in code_points(0xffff)) {
        let units: Vec<u16> = codes.iter().map(|code| u16::try_from(*code).expect("two bytes")).collect();
        prop_assert_eq!(ascii_text(CodePoints::TwoBytes(&units)), escaped(codes));
    }

    #[test]
    fn four_byte_strings_are_escaped_to_ascii(codes in code_points(0x10_ffff)) {
        prop_assert_eq!(ascii_text(CodePoints::FourBytes(&codes)), escaped(codes));
    }

    #[test]
    fn readable_strings_escape_controls_quotes_and_backslashes_only(codes in code_points(0x10_ffff)) {
        let original: String = codes.iter().filter_map(|code| char::from_u32(*code)).collect();
        prop_assert_eq!(written(|out| write_unicode_string(out, &original)), readable(&original));
    }

    #[test]
    fn integers_are_decimal(value in any::<i64>()) {
        prop_assert_eq!(written(|out| write_integer(out, value)), value.to_string());
    }

    #[test]
    fn floats_are_what_repr_says_of_them(bits in any::<u64>(), hundredths in any::<i32>()) {
        check_float(f64::from_bits(bits));
        check_float(f64::from(hundredths) / 100.0);
    }

    #[test]
    fn any_bytes_are_written_as_they_should(data in vec(any::<u8>(), 0..200)) {
        check(&data);
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
