//! Deltas: parts that add text to what an earlier part began, and may share a frame.

use std::ops::Range;

use agents_json_text::CodePoints;

use crate::frames::{EventIdError, begin_frame, end_frame};
use crate::strings::write_text;

/// The spelling of one type of delta: an object of three members in this order, all strings.
#[derive(Debug)]
pub struct DeltaKind {
    /// The value of the first member, `type`.
    pub type_name: &'static str,
    /// The key of what the text belongs to.
    pub id_key: &'static str,
    /// The key of the added text.
    pub text_key: &'static str,
    opening: &'static [u8],
    middle: &'static [u8],
}

macro_rules! delta_kinds {
    ($($type_name:literal $id_key:literal $text_key:literal),* $(,)?) => {
        [$(DeltaKind {
            type_name: $type_name,
            id_key: $id_key,
            text_key: $text_key,
            opening: concat!("{\"type\":\"", $type_name, "\",\"", $id_key, "\":\"").as_bytes(),
            middle: concat!("\",\"", $text_key, "\":\"").as_bytes(),
        }),*]
    };
}

/// The first three are of the AI SDK's UI message stream, the others of AG-UI.
static DELTA_KINDS: [DeltaKind; 6] = delta_kinds![
    "text-delta" "id" "delta",
    "reasoning-delta" "id" "delta",
    "tool-input-delta" "toolCallId" "inputTextDelta",
    "TEXT_MESSAGE_CONTENT" "messageId" "delta",
    "REASONING_MESSAGE_CONTENT" "messageId" "delta",
    "TOOL_CALL_ARGS" "toolCallId" "delta",
];

impl DeltaKind {
    /// Returns the kind whose `type` this is.
    #[inline]
    pub fn of(type_name: CodePoints<'_>) -> Option<&'static Self> {
        let CodePoints::OneByte(name) = type_name else { return None };
        DELTA_KINDS.iter().find(|kind| kind.type_name.as_bytes() == name)
    }
}

/// More text.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'text> {
    /// How it is spelled.
    pub kind: &'static DeltaKind,
    /// What the text belongs to.
    pub id: CodePoints<'text>,
    /// The added text; a surrogate at its end is lone, whatever comes next.
    pub text: CodePoints<'text>,
}

/// Writes deltas, those of one text that follow each other into one frame.
#[derive(Debug)]
pub struct DeltaFrames {
    max_joined_bytes: usize,
    last: Option<Frame>,
}

#[derive(Debug)]
struct Frame {
    kind: &'static DeltaKind,
    id: Range<usize>,
    text: Range<usize>,
    end: usize,
}

impl DeltaFrames {
    /// Joins deltas as long as their text, as it is spelled, has at most `max_joined_bytes`. One delta is never
    /// split; zero joins none but empty ones.
    pub fn new(max_joined_bytes: usize) -> Self {
        Self { max_joined_bytes, last: None }
    }

    /// Appends a delta to the last frame in `out`, if that is a delta of the same text, or else in a frame of
    /// its own. A frame has the event ID of the last delta in it.
    ///
    /// # Errors
    ///
    /// The event ID cannot be carried; what was appended is then of no use.
    #[inline]
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        delta: Delta<'_>,
        event_id: Option<CodePoints<'_>>,
    ) -> Result<(), EventIdError> {
        let start = out.len();
        begin_frame(out);
        out.extend_from_slice(delta.kind.opening);
        let id_start = out.len();
        write_text(out, delta.id);
        let id = id_start..out.len();
        out.extend_from_slice(delta.kind.middle);
        let text_start = out.len();
        write_text(out, delta.text);
        let mut frame = Frame { kind: delta.kind, id, text: text_start..out.len(), end: 0 };
        // Spelled first and moved then: IDs are compared as readers see them, and no text is measured twice.
        if let Some(last) = self.last.take_if(|last| last.end == start)
            && self.may_join(out, &last, &frame)
        {
            let length = frame.text.len();
            out.copy_within(frame.text, last.text.end);
            frame = Frame { text: last.text.start..last.text.end + length, ..last };
            out.truncate(frame.text.end);
        }
        out.extend_from_slice(b"\"}");
        end_frame(out, event_id)?;
        frame.end = out.len();
        self.last = Some(frame);
        Ok(())
    }

    fn may_join(&self, out: &[u8], last: &Frame, next: &Frame) -> bool {
        std::ptr::eq(last.kind, next.kind)
            && last.text.len() + next.text.len() <= self.max_joined_bytes
            && out[last.id.clone()] == out[next.id.clone()]
    }
}
