//! The counts against plain statements of what each of them is.

use agents_token_estimate::{Counts, FEATURE_NAMES, FEATURES};
use proptest::collection::vec;
use proptest::prelude::{Just, any, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy;

fn counts_of<C: Copy + Into<u32>>(text: &[C]) -> Counts {
    let mut counts = Counts::default();
    counts.add_code_points(text);
    counts
}

fn one_byte_counts_of(text: &[u8]) -> Counts {
    let mut counts = Counts::default();
    counts.add_one_byte(text);
    counts
}

fn codes(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

/// The counts that are not zero, by name.
fn named(counts: &Counts) -> Vec<(&'static str, u64)> {
    FEATURE_NAMES.into_iter().zip(*counts.values()).filter(|(_, count)| *count > 0).collect()
}

/// Bytes in runs, as text has them, and any bytes at all.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let run = prop_oneof![
        (b'a'..=b'z', 1..9_usize),
        (b'A'..=b'Z', 1..3_usize),
        (b'0'..=b'9', 1..5_usize),
        (b'!'..=b'/', 1..4_usize),
        (prop_oneof![Just(b' '), Just(b'\t'), Just(b'\n'), Just(b'\r')], 1..4_usize),
        (any::<u8>(), 1..3_usize),
    ];
    vec(run, 0..300).prop_map(|runs| {
        runs.into_iter().flat_map(|(byte, length)| std::iter::repeat_n(byte, length)).collect()
    })
}

proptest! {
    #[test]
    fn bytes_are_counted_as_the_code_points_they_are(bytes in bytes()) {
        prop_assert_eq!(one_byte_counts_of(&bytes), counts_of(&bytes));
    }

    #[test]
    fn the_width_of_the_code_points_does_not_matter(units in vec(any::<u16>(), 0..400)) {
        let codes: Vec<u32> = units.iter().map(|unit| u32::from(*unit)).collect();
        prop_assert_eq!(counts_of(&units), counts_of(&codes));
    }

    #[test]
    fn every_code_point_is_in_one_class(codes in vec(any::<u32>(), 0..400)) {
        let counts = counts_of(&codes);
        let events = FEATURE_NAMES.iter().position(|name| *name == "word_starts").expect("a feature");
        prop_assert_eq!(counts.values()[..events].iter().sum::<u64>(), codes.len() as u64);
    }

    #[test]
    fn a_sum_of_texts_is_what_they_count_alone(first in bytes(), second in bytes()) {
        let mut both = one_byte_counts_of(&first);
        both.add_one_byte(&second);
        let alone = [one_byte_counts_of(&first), one_byte_counts_of(&second)];
        let sums: Vec<u64> =
            alone[0].values().iter().zip(alone[1].values()).map(|(one, other)| one + other).collect();
        prop_assert_eq!(both.values().as_slice(), sums.as_slice());
    }
}

#[test]
fn the_bytes_of_every_pair_count_alike_wherever_they_stand() {
    for first in 0..=u8::MAX {
        for second in 0..=u8::MAX {
            let mut text = [b'~'; 242];
            text[120..122].copy_from_slice(&[first, second]);
            assert_eq!(one_byte_counts_of(&text), counts_of(&text), "{first:#x} {second:#x}");
        }
    }
}

#[test]
fn blocks_meet_without_a_gap() {
    let text: Vec<u8> = b"ab1 ;\n\xe9".iter().copied().cycle().take(1_000).collect();
    for end in 0..text.len() {
        assert_eq!(one_byte_counts_of(&text[..end]), counts_of(&text[..end]), "{end} bytes");
    }
}

#[test]
fn a_text_is_classes_and_starts() {
    assert_eq!(
        named(&counts_of(&codes("Café 2nd: (ключ)\n"))),
        [
            ("lowercase", 4),
            ("uppercase", 1),
            ("digits", 1),
            ("blanks", 2),
            ("newlines", 1),
            ("punctuation", 3),
            ("latin", 1),
            ("cyrillic", 4),
            ("word_starts", 2),
            ("letters_after_digits", 1),
            ("accents_in_words", 1),
            ("digit_starts", 1),
            ("punctuation_after_blanks", 1),
            ("punctuation_starts", 2),
        ]
    );
}

#[test]
fn no_text_has_no_counts() {
    assert_eq!(one_byte_counts_of(b""), Counts::default());
    assert_eq!(Counts::default().millitokens(&[u32::MAX; FEATURES]), 0);
}
