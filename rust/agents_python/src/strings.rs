//! Python's strings as they are stored: read without a copy, made without a second look.
//!
//! The crate's unsafe code for strings is all here.

use agents_json_text::CodePoints;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::slice::from_raw_parts;

/// Returns the code points of `text` as Python stores them.
///
/// Unlike UTF-8, which Python would make and keep beside the string for as long as that lives.
#[inline]
pub(crate) fn code_points<'text>(text: &'text Bound<'_, PyString>) -> PyResult<CodePoints<'text>> {
    let object = text.as_ptr();
    // SAFETY: `object` is a live str. Once it is ready, which since Python 3.12 it always is, it holds
    // `length` code points of its kind, aligned for that kind, and never changes them.
    unsafe {
        #[allow(deprecated)]
        if ffi::PyUnicode_READY(object) != 0 {
            return Err(PyErr::fetch(text.py()));
        }
        let length = ffi::PyUnicode_GET_LENGTH(object).unsigned_abs();
        let data = ffi::PyUnicode_DATA(object);
        Ok(match ffi::PyUnicode_KIND(object) {
            ffi::PyUnicode_1BYTE_KIND => CodePoints::OneByte(from_raw_parts(data.cast(), length)),
            ffi::PyUnicode_2BYTE_KIND => CodePoints::TwoBytes(from_raw_parts(data.cast(), length)),
            _ => CodePoints::FourBytes(from_raw_parts(data.cast(), length)),
        })
    }
}

/// Makes a string of bytes that are all ASCII, without reading them once more to find that out.
pub(crate) fn ascii_string<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    debug_assert!(bytes.is_ascii());
    let length = ffi::Py_ssize_t::try_from(bytes.len())?;
    // SAFETY: `PyUnicode_New` returns a new str, or null with an exception set. An ASCII str of `length`
    // holds that many bytes, and nobody else sees it before they are filled.
    unsafe {
        let text = Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_New(length, 0x7f))?;
        let data = ffi::PyUnicode_DATA(text.as_ptr()).cast::<u8>();
        data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        Ok(text.cast_into_unchecked())
    }
}
