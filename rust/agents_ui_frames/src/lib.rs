//! Frames the parts of a UI stream as server-sent events that every reader splits alike.
//!
//! One part is one event: `data: `, the part as JSON text on one line, a blank line. The strings hold no
//! character that any reader takes for the end of a line, and are UTF-8 whatever they were made of.
//! Adjacent deltas of one text share a frame, up to a bound. It knows no Python and no containers:
//! whoever walks a part places brackets and separators between [`begin_frame`] and [`end_frame`].
//!
//! ```
//! use agents_json_text::CodePoints;
//! use agents_ui_frames::{Delta, DeltaFrames, DeltaKind};
//!
//! let kind = DeltaKind::of(CodePoints::OneByte(b"text-delta")).unwrap();
//! let mut out = Vec::new();
//! let mut deltas = DeltaFrames::new(4096);
//! for text in [&b"two\nli"[..], b"nes"] {
//!     let delta = Delta { kind, id: CodePoints::OneByte(b"1"), text: CodePoints::OneByte(text) };
//!     deltas.write(&mut out, delta, None)?;
//! }
//! assert_eq!(out, b"data: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"two\\nlines\"}\n\n");
//! # Ok::<(), agents_ui_frames::EventIdError>(())
//! ```

#![forbid(unsafe_code)]

mod deltas;
mod frames;
mod strings;

pub use deltas::{Delta, DeltaFrames, DeltaKind};
pub use frames::{EventIdError, begin_frame, end_frame};
pub use strings::write_string;
