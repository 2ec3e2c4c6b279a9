//! Estimates how many tokens a model's tokenizer makes of a text, without its vocabulary.
//!
//! Each code point has a *class*, and some pairs of neighbours are an *event*, such as the start of a word.
//! A text's estimate is the sum of its counts, each times a weight that was fitted to one family of
//! tokenizers. Counts and weights are whole numbers, so that every sum is exact whatever the order.
//!
//! ```
//! use agents_token_estimate::{Counts, FEATURE_NAMES};
//!
//! let mut counts = Counts::default();
//! counts.add_one_byte(b"order 1042");
//! let weights = FEATURE_NAMES.map(|name| u32::from(name == "word_starts" || name == "digit_starts") * 1_000);
//! assert_eq!(counts.millitokens(&weights), 2_000);
//! ```

#![forbid(unsafe_code)]

mod blocks;
mod classes;
mod counts;

pub use classes::{FEATURE_NAMES, FEATURES};
pub use counts::Counts;
