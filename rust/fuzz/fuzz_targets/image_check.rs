//! Bytes of strangers, and whole images that are changed: no panic, and what must hold of any answer.

#![no_main]

#[path = "../../agents_image_check/tests/images/mod.rs"]
mod images;
#[path = "../../agents_image_check/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::check_changed_image(data));
