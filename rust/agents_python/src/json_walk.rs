//! The walk over Python values, whose JSON text the crates spell.
//!
//! Only exact `dict`, `list`, `tuple`, `str`, `int`, `float`, `bool` and `None` are served. For
//! anything else, and for whatever `json.dumps` might refuse, the answer is [`NotServed`] and the seam asks
//! `json.dumps` itself: its text and its exceptions are right by definition.
//!
//! Nothing in the walk runs Python code or lets go of the GIL, so it sees a value at one moment, whatever
//! other threads do to it.

use std::cell::Cell;
use std::marker::PhantomData;

use agents_json_text::write_integer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Containers inside one another that are walked here: less than half of what Python's usual recursion
/// limit lets `json.dumps` take, and little enough for the stack of any thread.
const MAX_DEPTH: usize = 400;

/// The largest buffer that a thread keeps for its next call.
const KEPT_CAPACITY: usize = 256 * 1024;

thread_local! {
    /// Room to write in, kept because growing a new buffer costs as much as a small value. It is taken
    /// out while in use, so that a call inside a call would find an empty one.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The value, or a part of it, is not spelled here.
pub(crate) struct NotServed;

pub(crate) type Served = Result<(), NotServed>;

/// What differs from one JSON text to another.
pub(crate) trait Spelling {
    /// Between two members or items.
    const SEPARATOR: &'static [u8];
    /// Between a key and its value.
    const COLON: &'static [u8];
    /// The order of members, and whether keys that are no strings are spelled as strings.
    const KEYS: Keys;

    fn write_string(out: &mut Vec<u8>, text: &Bound<'_, PyString>) -> Served;

    fn write_float(out: &mut Vec<u8>, value: f64);
}

/// What is done with the keys of an object.
#[derive(PartialEq, Eq)]
pub(crate) enum Keys {
    /// In their order; numbers, bools and `None` as well.
    Any,
    /// In their order; strings only.
    Strings,
    /// Sorted by code point; strings only.
    SortedStrings,
}

/// Hands out the buffer of this thread, empty.
pub(crate) fn take_scratch() -> Vec<u8> {
    let mut out = SCRATCH.take();
    out.clear();
    out
}

/// Keeps a buffer for the next call.
pub(crate) fn keep_scratch(out: Vec<u8>) {
    if out.capacity() <= KEPT_CAPACITY {
        SCRATCH.set(out);
    }
}

/// One text in the making.
pub(crate) struct Walk<S: Spelling> {
    /// What was written; between values its owner may write to it as well.
    pub(crate) out: Vec<u8>,
    depth: usize,
    /// The container on the path from the root that was entered last at a depth that is a power of
    /// two. Meeting it again is a cycle, and no cycle is walked more than three times before that:
    /// enough to keep its text small, at the price of one comparison a container.
    landmark: *mut ffi::PyObject,
    spelling: PhantomData<S>,
}

impl<S: Spelling> Walk<S> {
    pub(crate) fn new(out: Vec<u8>) -> Self {
        Self { out, depth: 0, landmark: std::ptr::null_mut(), spelling: PhantomData }
    }

    pub(crate) fn write_value(&mut self, value: &Bound<'_, PyAny>) -> Served {
        if let Ok(text) = value.cast_exact::<PyString>() {
            S::write_string(&mut self.out, text)
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.write_container(value, |walk| walk.write_dict(dict))
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.write_container(value, |walk| walk.write_items(list.iter()))
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            self.write_container(value, |walk| walk.write_items(tuple.iter()))
        } else {
            self.write_bare(value)
        }
    }

    /// Writes what has no quotes and no parts: a number, a bool or `None`.
    fn write_bare(&mut self, value: &Bound<'_, PyAny>) -> Served {
        if let Ok(integer) = value.cast_exact::<PyInt>() {
            return self.write_integer(integer);
        } else if let Ok(float) = value.cast_exact::<PyFloat>() {
            S::write_float(&mut self.out, float.value());
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            self.out.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
        } else if value.is_none() {
            self.out.extend_from_slice(b"null");
        } else {
            return Err(NotServed);
        }
        Ok(())
    }

    /// Appends an integer of any size that Python agrees to spell in decimal.
    fn write_integer(&mut self, integer: &Bound<'_, PyInt>) -> Served {
        let mut overflow = 0;
        // SAFETY: `integer` is a live, exact int, for which the call neither fails nor runs code.
        let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(integer.as_ptr(), &raw mut overflow) };
        if overflow == 0 {
            write_integer(&mut self.out, value);
        } else {
            let digits = integer.str().map_err(|_| NotServed)?;
            self.out.extend_from_slice(digits.to_str().map_err(|_| NotServed)?.as_bytes());
        }
        Ok(())
    }

    fn write_container(
        &mut self,
        container: &Bound<'_, PyAny>,
        write: impl FnOnce(&mut Self) -> Served,
    ) -> Served {
        let container = container.as_ptr();
        if self.depth == MAX_DEPTH || container == self.landmark {
            return Err(NotServed);
        }
        let outer_landmark = self.landmark;
        self.depth += 1;
        if self.depth.is_power_of_two() {
            self.landmark = container;
        }
        write(self)?;
        self.depth -= 1;
        self.landmark = outer_landmark;
        Ok(())
    }

    fn write_items<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>) -> Served {
        self.out.push(b'[');
        for (index, item) in items.enumerate() {
            self.write_separator(index);
            self.write_value(&item)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn write_dict(&mut self, dict: &Bound<'_, PyDict>) -> Served {
        if dict.is_empty() {
            self.out.extend_from_slice(b"{}");
            return Ok(());
        }
        self.out.push(b'{');
        if S::KEYS == Keys::SortedStrings {
            self.write_sorted_members(dict)?;
        } else {
            self.write_members(dict)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn write_members(&mut self, dict: &Bound<'_, PyDict>) -> Served {
        for (index, (key, value)) in dict.iter().enumerate() {
            self.write_separator(index);
            if let Ok(text) = key.cast_exact::<PyString>() {
                S::write_string(&mut self.out, text)?;
            } else if S::KEYS == Keys::Strings {
                return Err(NotServed);
            } else {
                self.out.push(b'"');
                self.write_bare(&key)?;
                self.out.push(b'"');
            }
            self.out.extend_from_slice(S::COLON);
            self.write_value(&value)?;
        }
        Ok(())
    }

    /// Appends members in the order of their keys. UTF-8 sorts by code point, as Python does; keys of
    /// another type sort by Python's own comparison and are not served.
    fn write_sorted_members(&mut self, dict: &Bound<'_, PyDict>) -> Served {
        let members: Vec<_> = dict.iter().collect();
        let mut sorted = Vec::with_capacity(members.len());
        for (key, value) in &members {
            let key = key.cast_exact::<PyString>().map_err(|_| NotServed)?;
            sorted.push((key.to_str().map_err(|_| NotServed)?, key, value));
        }
        sorted.sort_unstable_by_key(|(utf8, ..)| *utf8);
        for (index, (_, key, value)) in sorted.into_iter().enumerate() {
            self.write_separator(index);
            S::write_string(&mut self.out, key)?;
            self.out.extend_from_slice(S::COLON);
            self.write_value(value)?;
        }
        Ok(())
    }

    fn write_separator(&mut self, index: usize) {
        if index > 0 {
            self.out.extend_from_slice(S::SEPARATOR);
        }
    }
}
