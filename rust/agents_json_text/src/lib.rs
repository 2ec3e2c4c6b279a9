//! Spells strings, floats and integers exactly as Python's `json.dumps` does.
//!
//! A *writer* of scalars: each function appends to a byte buffer and cannot fail. It knows no
//! Python and no containers; whoever walks lists and dicts places brackets and separators.
//!
//! ```
//! use agents_json_text::CodePoints;
//!
//! let mut out = Vec::new();
//! agents_json_text::write_ascii_string(&mut out, CodePoints::OneByte(b"caf\xe9\x7f"));
//! agents_json_text::write_float(&mut out, 1e-5);
//! assert_eq!(out, br#""caf\u00e9\u007f"1e-05"#);
//! ```

#![forbid(unsafe_code)]

mod escapes;
mod numbers;
mod scan;
mod strings;

pub use numbers::{write_float, write_integer};
pub use strings::{CodePoints, write_ascii_string, write_unicode_string};
