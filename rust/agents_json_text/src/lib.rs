//! Spells strings, floats and integers exactly as Python's `json.dumps` does, and reads objects strictly.
//!
//! The *writer* is one of scalars: each function appends to a byte buffer and cannot fail. It knows no
//! Python and no containers; whoever walks lists and dicts places brackets and separators. The reader,
//! [`read_object`], tells a [`Builder`] what it reads.
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
mod objects;
mod scan;
mod strings;
mod surrogates;

pub use numbers::{write_float, write_integer};
pub use objects::{Builder, MAX_INTEGER_DIGITS, Problem, ProblemKind, Read, ReadError, Scalar, read_object};
pub use strings::{CodePoints, write_ascii_string, write_unicode_string};
