//! Strings and batches of any bytes, beside their plain definition.

#![no_main]

#[path = "../../agents_ui_frames/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::check(data));
