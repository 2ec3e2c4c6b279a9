//! Text that a model wrote, read as `serde_json` reads it.

#![no_main]

#[path = "../../agents_json_text/tests/invariants/read.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|text: &str| invariants::check(text));
