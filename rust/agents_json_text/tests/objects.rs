//! Objects that are read strictly, and texts that are refused.

#[path = "invariants/read.rs"]
mod invariants;

use agents_json_text::{Builder, ProblemKind, ReadError, Scalar, read_object};
use proptest::collection::vec;
use proptest::prelude::{any, prop_oneof, proptest};
use proptest::sample::select;
use proptest::strategy::Strategy;

/// What a reader may take for something else, whole and in parts.
const TOKENS: [&str; 64] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\"",
    "\\",
    " ",
    "\n",
    "\t",
    "\r",
    "{\"a\":",
    "\"a\":",
    "\"b\":",
    "\"c\"",
    "{}",
    "[]",
    "[1,",
    "true",
    "tru",
    "false",
    "null",
    "nul",
    "NaN",
    "Infinity",
    "-Infinity",
    "-Inf",
    "0",
    "-0",
    "01",
    "1",
    "9",
    "-",
    "+",
    ".",
    "e",
    "E",
    "1.5",
    "1.",
    "1e5",
    "1e999",
    "-1e999",
    "1e-999",
    "0.1",
    "18446744073709551616",
    "9007199254740993",
    "\\n",
    "\\/",
    "\\x",
    "\\u",
    "\\u0041",
    "\\u00",
    "\\ud83d",
    "\\ude00",
    "\\uD83D\\uDE00",
    "\\ud83d\\u",
    "\u{0}",
    "\u{1f}",
    "\u{7f}",
    "\u{feff}",
    "\u{4f60}",
    "\u{1f600}",
];

fn texts() -> impl Strategy<Value = String> {
    let tokens = vec(select(TOKENS.as_slice()), 0..24).prop_map(|tokens| tokens.concat());
    prop_oneof![
        2 => tokens.clone(),
        3 => tokens.clone().prop_map(|inside| format!("{{\"a\":{inside}}}")),
        2 => tokens.prop_map(|inside| format!("{{\"a\":\"{inside}\"}}")),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn texts_are_read_as_another_parser_reads_them(text in texts()) {
        invariants::check(&text);
    }
}

/// Says what it is told, in one line.
#[derive(Default)]
struct Told(String);

impl Builder for Told {
    type Error = &'static str;

    fn begin_object(&mut self) -> Result<(), Self::Error> {
        self.0.push('{');
        Ok(())
    }

    fn begin_array(&mut self) -> Result<(), Self::Error> {
        self.0.push('[');
        Ok(())
    }

    fn end(&mut self) -> Result<(), Self::Error> {
        self.0.push_str(" end");
        Ok(())
    }

    fn key(&mut self, key: &str) -> Result<bool, Self::Error> {
        self.0.extend([" ", key, "="]);
        Ok(key != "repeated")
    }

    fn scalar(&mut self, value: Scalar<'_>) -> Result<bool, Self::Error> {
        if value == Scalar::String("stop") {
            return Err("stopped");
        }
        self.0.extend([" ".to_owned(), format!("{value:?}")]);
        Ok(value != Scalar::Integer("13"))
    }
}

fn problem(text: &str, max_depth: usize) -> (ProblemKind, usize, usize) {
    match read_object(text, max_depth, &mut Told::default()) {
        Err(ReadError::Problem(problem)) => (problem.kind, problem.line, problem.column),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_builder_is_told_every_part_in_order() {
    let mut told = Told::default();
    let read = read_object(r#" {"a": [1, -2.50, "x\n"], "b": {}, "c": [true, null]} "#, 2, &mut told);
    assert!(!read.expect("an object").healed);
    assert_eq!(
        told.0,
        r#"{ a=[ Integer("1") Float(-2.5) String("x\n") end b={ end c=[ Bool(true) Null end end"#
    );
}

#[test]
fn lone_surrogates_are_healed() {
    let mut told = Told::default();
    let read = read_object(r#"{"\ud800": "\ude00\ud83d\ude00"}"#, 1, &mut told);
    assert!(read.expect("an object").healed);
    assert_eq!(told.0, "{ \u{fffd}= String(\"\u{fffd}\u{1f600}\") end");
}

#[test]
fn the_first_problem_is_told_with_its_place() {
    for (text, kind, line, column) in [
        ("", ProblemKind::CutOff, 1, 1),
        ("{\"a\": 1,\n \"\u{1f600}\": tru}", ProblemKind::NotJson, 2, 10),
        ("{\"a\": 1,\n", ProblemKind::CutOff, 2, 1),
        ("{\"a\": [NaN, 1e999", ProblemKind::NumberOutOfRange, 1, 8),
        ("{\"a\": [13]}", ProblemKind::NumberOutOfRange, 1, 8),
        ("{\"a\": {\"repeated\" :", ProblemKind::RepeatedKey("repeated".to_owned()), 1, 8),
        (" [1]", ProblemKind::NotAnObject, 1, 2),
        ("{\"a\": [[[", ProblemKind::TooDeep, 1, 9),
    ] {
        assert_eq!(problem(text, 3), (kind, line, column), "{text:?}");
    }
}

#[test]
fn an_escape_that_is_wrong_and_cut_off_is_wrong() {
    for (text, kind, column) in [
        (r#"{"\u1"}"#, ProblemKind::NotJson, 6),
        (r#"{"\u\u1"#, ProblemKind::NotJson, 5),
        (r#"{"\\u1x"#, ProblemKind::CutOff, 8),
        (r#"{"\u00"#, ProblemKind::CutOff, 7),
    ] {
        assert_eq!(problem(text, 1), (kind, 1, column), "{text:?}");
    }
}

#[test]
fn a_text_of_any_depth_is_refused_without_recursion() {
    let text = "[".repeat(1_000_000);
    assert_eq!(problem(&text, 128), (ProblemKind::TooDeep, 1, 129));
}

#[test]
fn a_builder_that_stops_is_listened_to() {
    let read = read_object(r#"{"a": "stop"}"#, 1, &mut Told::default());
    assert_eq!(read, Err(ReadError::Builder("stopped")));
}
