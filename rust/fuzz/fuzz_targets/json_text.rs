//! Strings and numbers of any bytes, beside plain statements of Python's spelling.

#![no_main]

#[path = "../../agents_json_text/tests/invariants/written.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::check(data));
