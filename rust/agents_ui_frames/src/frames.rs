//! What stands around the JSON text of one event.

use std::error::Error;
use std::fmt;

use agents_json_text::CodePoints;

/// An event ID that an event stream cannot carry: it holds a line end, NUL or a lone surrogate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventIdError;

impl fmt::Display for EventIdError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an event ID holds no line end, no NUL and no lone surrogate")
    }
}

impl Error for EventIdError {}

/// Appends what stands before the JSON text.
#[inline]
pub fn begin_frame(out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
}

/// Appends what stands behind the JSON text: the line of the event ID, if there is one, and the blank line.
///
/// # Errors
///
/// The event ID cannot be carried; what was appended is then of no use.
#[inline]
pub fn end_frame(out: &mut Vec<u8>, event_id: Option<CodePoints<'_>>) -> Result<(), EventIdError> {
    if let Some(event_id) = event_id {
        out.extend_from_slice(b"\nid: ");
        match event_id {
            CodePoints::OneByte(bytes) => write_event_id(out, bytes)?,
            CodePoints::TwoBytes(units) => write_event_id(out, units)?,
            CodePoints::FourBytes(code_points) => write_event_id(out, code_points)?,
        }
    }
    out.extend_from_slice(b"\n\n");
    Ok(())
}

fn write_event_id<C: Copy + Into<u32>>(out: &mut Vec<u8>, event_id: &[C]) -> Result<(), EventIdError> {
    for code_point in event_id {
        let character = char::from_u32((*code_point).into()).ok_or(EventIdError)?;
        if matches!(character, '\0' | '\n' | '\r') {
            return Err(EventIdError);
        }
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(())
}
