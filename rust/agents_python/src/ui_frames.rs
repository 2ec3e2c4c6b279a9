//! A batch of UI stream parts as server-sent events.

use agents_json_text::{CodePoints, write_float};
use agents_ui_frames::{Delta, DeltaFrames, DeltaKind, EventIdError, begin_frame, end_frame, write_string};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::json_walk::{Keys, NotServed, Served, Spelling, Walk, keep_scratch, take_scratch};
use crate::strings::code_points;

/// Returns the frames of `parts`, or `None` if they are no list of dicts of plain JSON values.
///
/// `event_ids` has one string for each part. Adjacent deltas of one text share a frame as long as that text
/// has at most `max_joined_bytes`.
#[pyfunction]
#[pyo3(signature = (parts, event_ids, max_joined_bytes, /))]
pub fn encode_ui_frames<'py>(
    parts: &Bound<'py, PyAny>,
    event_ids: Option<&Bound<'py, PyList>>,
    max_joined_bytes: isize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Ok(max_joined_bytes) = usize::try_from(max_joined_bytes) else {
        return Err(PyValueError::new_err(format!("max_joined_bytes: {max_joined_bytes} is negative")));
    };
    let Ok(parts) = parts.cast_exact::<PyList>() else { return Ok(None) };
    if event_ids.is_some_and(|ids| ids.len() != parts.len()) {
        return Err(PyValueError::new_err("event_ids: one for each part is needed"));
    }
    let mut deltas = DeltaFrames::new(max_joined_bytes);
    let mut walk = Walk::<FrameText>::new(take_scratch());
    for (index, part) in parts.iter().enumerate() {
        let event_id = match event_ids {
            Some(ids) => Some(ids.get_item(index)?.cast_into::<PyString>()?),
            None => None,
        };
        let event_id = event_id.as_ref().map(code_points).transpose()?;
        match write_part(&mut walk, &mut deltas, &part, event_id) {
            Ok(()) => {}
            Err(Problem::NotServed) => return Ok(None),
            Err(Problem::EventId(error)) => {
                return Err(PyValueError::new_err(format!("event_ids[{index}]: {error}")));
            }
        }
    }
    let frames = PyBytes::new(parts.py(), &walk.out);
    keep_scratch(walk.out);
    Ok(Some(frames))
}

enum Problem {
    NotServed,
    EventId(EventIdError),
}

impl From<NotServed> for Problem {
    fn from(_: NotServed) -> Self {
        Self::NotServed
    }
}

impl From<EventIdError> for Problem {
    fn from(error: EventIdError) -> Self {
        Self::EventId(error)
    }
}

fn write_part(
    walk: &mut Walk<FrameText>,
    deltas: &mut DeltaFrames,
    part: &Bound<'_, PyAny>,
    event_id: Option<CodePoints<'_>>,
) -> Result<(), Problem> {
    let part = part.cast_exact::<PyDict>().map_err(|_| NotServed)?;
    if let Some((kind, id, text)) = as_delta(part) {
        let delta = Delta { kind, id: points(&id)?, text: points(&text)? };
        deltas.write(&mut walk.out, delta, event_id)?;
    } else {
        begin_frame(&mut walk.out);
        walk.write_value(part)?;
        end_frame(&mut walk.out, event_id)?;
    }
    Ok(())
}

type DeltaParts<'py> = (&'static DeltaKind, Bound<'py, PyString>, Bound<'py, PyString>);

/// Takes a part for a delta if it has the members of one, in their order, and no other.
fn as_delta<'py>(part: &Bound<'py, PyDict>) -> Option<DeltaParts<'py>> {
    if part.len() != 3 {
        return None;
    }
    let mut members = part.iter();
    let mut member = |key: &str| {
        let (name, value) = members.next()?;

        let name = name.cast_exact::<PyString>().ok()?;
        let is_named =
            matches!(code_points(name).ok()?, CodePoints::OneByte(bytes) if bytes == key.as_bytes());
        if is_named { value.cast_into_exact::<PyString>().ok() } else { None }
    };
    let kind = DeltaKind::of(code_points(&member("type")?).ok()?)?;
    Some((kind, member(kind.id_key)?, member(kind.text_key)?))
}

fn points<'text>(text: &'text Bound<'_, PyString>) -> Result<CodePoints<'text>, NotServed> {
    code_points(text).map_err(|_| NotServed)
}

struct FrameText;

impl Spelling for FrameText {
    const SEPARATOR: &'static [u8] = b",";
    const COLON: &'static [u8] = b":";
    const KEYS: Keys = Keys::Strings;

    fn write_string(out: &mut Vec<u8>, text: &Bound<'_, PyString>) -> Served {
        write_string(out, points(text)?);
        Ok(())
    }

    /// JSON has no word for what is not finite: `null` stands for it, as in `JSON.stringify`.
    fn write_float(out: &mut Vec<u8>, value: f64) {
        if value.is_finite() {
            write_float(out, value);
        } else {
            out.extend_from_slice(b"null");
        }
    }
}
