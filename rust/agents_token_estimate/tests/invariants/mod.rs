//! What holds for any text: the body of the fuzz target, which a test runs as well.

use agents_token_estimate::{Counts, FEATURES};

/// Counts `data` as text of each width, and holds what must be true of any text.
pub fn check(data: &[u8]) {
    let mut narrow = Counts::default();
    narrow.add_one_byte(data);
    let mut wide = Counts::default();
    wide.add_code_points(&data.iter().map(|byte| u32::from(*byte)).collect::<Vec<_>>());
    assert_eq!(narrow, wide);

    let units: Vec<u16> = data.as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let codes: Vec<u32> = data.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four)).collect();
    let mut counts = Counts::default();
    counts.add_code_points(&units);
    counts.add_code_points(&codes);
    // Each is of one class and of one event at most.
    let total: u64 = counts.values().iter().sum();
    let length = (units.len() + codes.len()) as u64;
    assert!((length..=2 * length).contains(&total));
    assert!(counts.millitokens(&[u32::MAX; FEATURES]) >= counts.millitokens(&[1; FEATURES]));
}
