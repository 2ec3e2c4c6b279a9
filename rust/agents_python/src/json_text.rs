//! The three spellings of `json_text`: the strings are the crate's, the walk is shared.

use agents_json_text::{write_ascii_string, write_float, write_unicode_string};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::json_walk::{Keys, NotServed, Served, Spelling, Walk, keep_scratch, take_scratch};
use crate::strings::{ascii_string, code_points};

/// Returns `json.dumps(value)`, or `None` for a value that is not served.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub fn encode_ascii<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyString>>> {
    encode::<Ascii>(value, ascii_string)
}

/// Returns `json.dumps(value, ensure_ascii=False)`, or `None` for a value that is not served.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub fn encode_unicode<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyString>>> {
    encode::<Unicode>(value, PyString::from_bytes)
}

/// Returns `json.dumps(value, sort_keys=True, separators=(",", ":"))`, or `None` for a value that is
/// not served.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub fn encode_compact_sorted<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyString>>> {
    encode::<CompactSorted>(value, ascii_string)
}

type MakeString<'py> = fn(Python<'py>, &[u8]) -> PyResult<Bound<'py, PyString>>;

fn encode<'py, S: Spelling>(
    value: &Bound<'py, PyAny>,
    make_string: MakeString<'py>,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let mut walk = Walk::<S>::new(take_scratch());
    let text = match walk.write_value(value) {
        Ok(()) => make_string(value.py(), &walk.out).map(Some),
        Err(NotServed) => Ok(None),
    };
    keep_scratch(walk.out);
    text
}

struct Ascii;

impl Spelling for Ascii {
    const SEPARATOR: &'static [u8] = b", ";
    const COLON: &'static [u8] = b": ";
    const KEYS: Keys = Keys::Any;

    /// Read as it is stored, so that nothing is cached in it.
    fn write_string(out: &mut Vec<u8>, text: &Bound<'_, PyString>) -> Served {
        write_ascii_string(out, code_points(text).map_err(|_| NotServed)?);
        Ok(())
    }

    fn write_float(out: &mut Vec<u8>, value: f64) {
        write_float(out, value);
    }
}

struct Unicode;

impl Spelling for Unicode {
    const SEPARATOR: &'static [u8] = Ascii::SEPARATOR;
    const COLON: &'static [u8] = Ascii::COLON;
    const KEYS: Keys = Ascii::KEYS;

    /// Readable text is UTF-8, which a string with a lone surrogate has not.
    fn write_string(out: &mut Vec<u8>, text: &Bound<'_, PyString>) -> Served {
        write_unicode_string(out, text.to_str().map_err(|_| NotServed)?);
        Ok(())
    }

    fn write_float(out: &mut Vec<u8>, value: f64) {
        write_float(out, value);
    }
}

struct CompactSorted;

impl Spelling for CompactSorted {
    const SEPARATOR: &'static [u8] = b",";
    const COLON: &'static [u8] = b":";
    const KEYS: Keys = Keys::SortedStrings;

    fn write_string(out: &mut Vec<u8>, text: &Bound<'_, PyString>) -> Served {
        Ascii::write_string(out, text)
    }

    fn write_float(out: &mut Vec<u8>, value: f64) {
        write_float(out, value);
    }
}
