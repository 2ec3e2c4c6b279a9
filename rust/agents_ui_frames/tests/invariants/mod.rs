//! What holds for any text and any batch: the body of the fuzz target, which a test runs as well.

use std::fmt::Write;

use agents_json_text::CodePoints;
use agents_ui_frames::{Delta, DeltaFrames, DeltaKind, write_string};

/// Takes bytes for a string, an event ID and batches: what comes out has the defined spelling, and is whole frames
/// of valid UTF-8 and nothing else.
pub fn check(bytes: &[u8]) {
    let deltas: Vec<(bool, Vec<u8>)> =
        bytes.split(|byte| byte % 16 == 7).map(|text| (text.len() % 3 == 0, text.to_vec())).collect();
    let max_joined_bytes = bytes.len() / 3;
    assert_eq!(frames(&deltas, max_joined_bytes), joined(&deltas, max_joined_bytes));
    let units: Vec<u16> = bytes.as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let codes: Vec<u32> = units.iter().map(|unit| u32::from(*unit)).collect();
    assert_eq!(written(CodePoints::TwoBytes(&units)), spelled(&codes));
    let (id, text) = bytes.split_at(bytes.len() / 3);
    let mut out = Vec::new();
    let mut frames = DeltaFrames::new(bytes.len() / 2);
    let mut written = 0;
    for text in text.chunks(5) {
        let (id, text) = (CodePoints::OneByte(id), CodePoints::OneByte(text));
        let delta = Delta { kind: kind("TOOL_CALL_ARGS"), id, text };
        let carried = frames.write(&mut out, delta, Some(id));
        let line = id_is_one_line(bytes, bytes.len() / 3);
        assert_eq!(carried.is_ok(), line);
        if !line {
            return;
        }
        written += 1;
    }
    let text = String::from_utf8(out).expect("UTF-8");
    let whole: Vec<&str> = text.split_terminator("\n\n").collect();
    assert!(whole.len() <= written && (text.is_empty() || text.ends_with("\n\n")));
    for frame in whole {
        let (data, id) = frame.split_once("\nid: ").expect("an event ID");
        assert!(
            data.starts_with("data: {\"type\":\"TOOL_CALL_ARGS\",\"toolCallId\":\"") && data.ends_with("\"}")
        );
        assert!(!data.contains(['\n', '\r', '\u{85}']) && !id.contains(['\n', '\r', '\0']));
    }
}

fn id_is_one_line(bytes: &[u8], end: usize) -> bool {
    !bytes[..end].iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r'))
}

/// The definition of a string, one UTF-16 code unit at a time.
pub fn spelled(codes: &[u32]) -> String {
    let units: Vec<u16> = codes
        .iter()
        .flat_map(|code| match char::from_u32(*code) {
            Some(character) => character.encode_utf16(&mut [0; 2]).to_vec(),
            None => vec![u16::try_from(*code).expect("a surrogate")],
        })
        .collect();
    let mut text = String::from('"');
    for character in char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')) {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\0'..' ' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                write!(text, "\\u{:04x}", u32::from(character)).expect("a String takes all");
            }
            _ => text.push(character),
        }
    }
    text.push('"');
    text
}

pub fn written(text: CodePoints<'_>) -> String {
    let mut out = b"before".to_vec();
    write_string(&mut out, text);
    let text = String::from_utf8(out).expect("UTF-8");
    text.strip_prefix("before").expect("writers append").to_owned()
}

pub fn kind(name: &str) -> &'static DeltaKind {
    DeltaKind::of(CodePoints::OneByte(name.as_bytes())).expect("a kind of delta")
}

pub fn frames(deltas: &[(bool, Vec<u8>)], max_joined_bytes: usize) -> String {
    let mut out = Vec::new();
    let mut frames = DeltaFrames::new(max_joined_bytes);
    for (other, text) in deltas {
        let id = CodePoints::OneByte(if *other { b"two" } else { b"one" });
        let delta = Delta { kind: kind("text-delta"), id, text: CodePoints::OneByte(text) };
        frames.write(&mut out, delta, None).expect("no event ID");
    }
    String::from_utf8(out).expect("UTF-8")
}

/// The definition of joining: take one more as long as it is of the same text and there is room.
pub fn joined(deltas: &[(bool, Vec<u8>)], max_joined_bytes: usize) -> String {
    let mut texts: Vec<(bool, String)> = Vec::new();
    for (other, text) in deltas {
        let codes: Vec<u32> = text.iter().map(|byte| u32::from(*byte)).collect();
        let text = spelled(&codes);
        let text = &text[1..text.len() - 1];
        match texts.last_mut() {
            Some((last, so_far)) if last == other && so_far.len() + text.len() <= max_joined_bytes => {
                so_far.push_str(text);
            }
            _ => texts.push((*other, text.to_owned())),
        }
    }
    texts.iter().fold(String::new(), |mut out, (other, text)| {
        let id = if *other { "two" } else { "one" };
        write!(out, "data: {{\"type\":\"text-delta\",\"id\":\"{id}\",\"delta\":\"{text}\"}}\n\n")
            .expect("a String takes all");
        out
    })
}
