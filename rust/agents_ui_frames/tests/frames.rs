//! Strings and frames against plain statements of what they must be.

mod invariants;

use agents_json_text::CodePoints;
use agents_ui_frames::{Delta, DeltaFrames, EventIdError, begin_frame, end_frame, write_string};
use invariants::{check, frames, joined, kind, spelled, written};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy;

/// Code points up to `highest`, mostly plain, so that runs of every length meet every escape.
fn code_points(highest: u32) -> impl Strategy<Value = Vec<u32>> {
    let surrogates = 0xd7ff.min(highest)..=0xe000.min(highest);
    let separators = 0x2027.min(highest)..=0x202a.min(highest);
    vec(
        prop_oneof![
            12 => 0x20..=0x7e_u32,
            2 => 0..=0xff_u32,
            1 => 0..=highest,
            1 => surrogates,
            1 => separators,
        ],
        0..120,
    )
}

/// A batch: which text each delta belongs to, and what it adds.
fn batch() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    vec((any::<bool>(), vec(any::<u8>(), 0..20)), 0..40)
}

proptest! {
    #[test]
    fn one_byte_strings_have_the_defined_spelling(codes in code_points(0xff)) {
        let bytes: Vec<u8> = codes.iter().map(|code| u8::try_from(*code).expect("one byte")).collect();
        prop_assert_eq!(written(CodePoints::OneByte(&bytes)), spelled(&codes));
    }

    #[test]
    fn two_byte_strings_have_the_defined_spelling(codes in code_points(0xffff)) {
        let units: Vec<u16> = codes.iter().map(|code| u16::try_from(*code).expect("two bytes")).collect();
        prop_assert_eq!(written(CodePoints::TwoBytes(&units)), spelled(&codes));
    }

    #[test]
    fn four_byte_strings_have_the_defined_spelling(codes in code_points(0x10_ffff)) {
        prop_assert_eq!(written(CodePoints::FourBytes(&codes)), spelled(&codes));
    }

    #[test]
    fn values_that_are_no_code_points_neither_panic_nor_end_a_line(codes in vec(any::<u32>(), 0..80)) {
        let mut out = Vec::new();
        write_string(&mut out, CodePoints::FourBytes(&codes));
        prop_assert!(!out.contains(&b'\n') && !out.contains(&b'\r'));
    }

    #[test]
    fn deltas_are_joined_while_they_follow_each_other_and_have_room(
        deltas in batch(),
        max_joined_bytes in 0..200_usize,
    ) {
        prop_assert_eq!(frames(&deltas, max_joined_bytes), joined(&deltas, max_joined_bytes));
    }
}

#[test]
fn code_points_at_the_edges_have_the_defined_spelling_alone_and_in_runs() {
    let edges = [
        [0x1f, 0x20],
        [0x7f, 0x80],
        [0x7ff, 0x800],
        [0x2027, 0x202a],
        [0xd7ff, 0xe000],
        [0xffff, 0x1_0000],
        [0x10_fffe, 0x10_ffff],
        [0xd800, 0xdc00],
        [0xdbff, 0xdfff],
        [0xdbff, 0xe000],
        [0xdfff, 0xdbff],
    ];
    for edge in edges {
        for times in 1..40 {
            let codes = edge.repeat(times);
            assert_eq!(written(CodePoints::FourBytes(&codes)), spelled(&codes));
        }
        for code in edge {
            let run = vec![code; 33];
            assert_eq!(written(CodePoints::FourBytes(&run)), spelled(&run));
        }
    }
}

#[test]
fn mutated_bytes_are_framed_whole() {
    let seeds: [&[u8]; 4] = [
        b"id: 17\ndata: {\"type\":\"text-delta\"}\n\n",
        "plain \u{85}\u{2028}\u{2029}\u{1f600}\u{fffd} text with \u{0} and \r\n".as_bytes(),
        &[0x3d, 0xd8, 0x00, 0xde, 0x3d, 0xd8, 0x28, 0x20, 0x00, 0xde, 0x85, 0x00],
        &[b'a'; 97],
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut chance = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    for seed in seeds {
        check(seed);
        let mut bytes = seed.to_vec();
        for _ in 0..5_000 {
            match chance(4) {
                0 if bytes.len() < 300 => {
                    let place = chance(bytes.len() + 1);
                    bytes.insert(place, [0, b'\n', b'\r', b'"', 0xd8, 0xdc, 0x20, 0x28][chance(8)]);
                }
                1 if bytes.len() > 2 => {
                    let place = chance(bytes.len());
                    bytes.remove(place);
                }
                2 => bytes.truncate(chance(bytes.len() + 20).max(2)),
                _ => {
                    let place = chance(bytes.len());
                    bytes[place] = u8::try_from(chance(256)).expect("a byte");
                }
            }
            check(&bytes);
            if bytes.len() < 8 {
                bytes = seed.to_vec();
            }
        }
    }
}

#[test]
fn a_frame_between_two_deltas_keeps_them_apart() {
    let delta = |text| Delta {
        kind: kind("text-delta"),
        id: CodePoints::OneByte(b"1"),
        text: CodePoints::OneByte(text),
    };
    let mut out = Vec::new();
    let mut frames = DeltaFrames::new(100);
    frames.write(&mut out, delta(b"a"), None).expect("no event ID");
    begin_frame(&mut out);
    out.extend_from_slice(b"{}");
    end_frame(&mut out, None).expect("no event ID");
    frames.write(&mut out, delta(b"b"), None).expect("no event ID");
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!(text.matches("data: ").count(), 3);
}

#[test]
fn deltas_of_different_kinds_are_kept_apart_even_under_one_id() {
    let (id, text) = (CodePoints::OneByte(b"1"), CodePoints::OneByte(b"x"));
    let mut out = Vec::new();
    let mut frames = DeltaFrames::new(100);
    for name in ["text-delta", "reasoning-delta"] {
        frames.write(&mut out, Delta { kind: kind(name), id, text }, None).expect("no event ID");
    }
    assert_eq!(String::from_utf8(out).expect("UTF-8").matches("data: ").count(), 2);
}

#[test]
fn a_joined_frame_has_the_event_id_of_its_last_delta() {
    let (id, text) = (CodePoints::OneByte(b"1"), CodePoints::OneByte(b"x"));
    let mut out = Vec::new();
    let mut frames = DeltaFrames::new(100);
    for event_id in [&b"7"[..], b"8"] {
        let delta = Delta { kind: kind("reasoning-delta"), id, text };
        frames.write(&mut out, delta, Some(CodePoints::OneByte(event_id))).expect("one line");
    }
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!(text, "data: {\"type\":\"reasoning-delta\",\"id\":\"1\",\"delta\":\"xx\"}\nid: 8\n\n");
}

#[test]
fn an_event_id_is_one_line_of_unicode() {
    for refused in [&[0x61_u16, 0x0a][..], &[0x0d], &[0], &[0xd800]] {
        assert_eq!(end_frame(&mut Vec::new(), Some(CodePoints::TwoBytes(refused))), Err(EventIdError));
    }
    let mut out = Vec::new();
    end_frame(&mut out, Some(CodePoints::FourBytes(&[0x20, 0xe9, 0x1_f600]))).expect("one line");
    assert_eq!(String::from_utf8(out).expect("UTF-8"), "\nid:  é\u{1f600}\n\n");
}
