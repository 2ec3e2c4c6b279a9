//! Text of every width, counted alike whichever way it is counted.

#![no_main]

#[path = "../../agents_token_estimate/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::check(data));
