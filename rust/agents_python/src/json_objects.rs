//! Python values of JSON text that is read strictly.

use agents_json_text::{Builder, Problem, ProblemKind, ReadError, Scalar, read_object};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

/// An object and whether text in it was healed; or what is wrong, with line, column and the key that is
/// repeated.
#[derive(IntoPyObject)]
pub enum ReadObject<'py> {
    Object(Bound<'py, PyAny>, bool),
    Problem(&'static str, usize, usize, Option<String>),
}

/// Reads JSON text of one object, nested at most `max_depth` deep.
#[pyfunction]
#[pyo3(signature = (text, max_depth, /))]
pub fn read_json_object<'py>(text: &Bound<'py, PyString>, max_depth: usize) -> PyResult<ReadObject<'py>> {
    let mut tree = Tree { py: text.py(), open: Vec::new(), root: None };
    match read_object(text.to_str()?, max_depth, &mut tree) {
        Ok(read) => {
            let root = tree.root.ok_or_else(|| PyValueError::new_err("JSON text without a value"))?;
            Ok(ReadObject::Object(root, read.healed))
        }
        Err(ReadError::Problem(Problem { kind, line, column })) => {
            let name = kind.name();
            let key = if let ProblemKind::RepeatedKey(key) = kind { Some(key) } else { None };
            Ok(ReadObject::Problem(name, line, column, key))
        }
        Err(ReadError::Builder(error)) => Err(error),
    }
}

/// A value that grows where its text is read. Nobody else sees it before it is whole.
struct Tree<'py> {
    py: Python<'py>,
    open: Vec<Container<'py>>,
    root: Option<Bound<'py, PyAny>>,
}

enum Container<'py> {
    /// With the key of the next value.
    Object(Bound<'py, PyDict>, Option<Bound<'py, PyString>>),
    Array(Bound<'py, PyList>),
}

impl<'py> Tree<'py> {
    fn add(&mut self, value: Bound<'py, PyAny>) -> PyResult<()> {
        match self.open.last_mut() {
            Some(Container::Object(object, key)) => object.set_item(key.take(), value),
            Some(Container::Array(array)) => array.append(value),
            None => {
                self.root = Some(value);
                Ok(())
            }
        }
    }

    /// Takes an integer unless the interpreter was told to read fewer digits than this one has.
    fn add_integer(&mut self, digits: &str) -> PyResult<bool> {
        let integer = if let Ok(small) = digits.parse::<i64>() {
            PyInt::new(self.py, small).into_any()
        } else {
            match self.py.get_type::<PyInt>().call1((digits,)) {
                Ok(integer) => integer,
                Err(error) if error.is_instance_of::<PyValueError>(self.py) => return Ok(false),
                Err(error) => return Err(error),
            }
        };
        self.add(integer)?;
        Ok(true)
    }
}

impl Builder for Tree<'_> {
    type Error = PyErr;

    fn begin_object(&mut self) -> PyResult<()> {
        let object = PyDict::new(self.py);
        self.add(object.clone().into_any())?;
        self.open.push(Container::Object(object, None));
        Ok(())
    }

    fn begin_array(&mut self) -> PyResult<()> {
        let array = PyList::empty(self.py);
        self.add(array.clone().into_any())?;
        self.open.push(Container::Array(array));
        Ok(())
    }

    fn end(&mut self) -> PyResult<()> {
        self.open.pop();
        Ok(())
    }

    fn key(&mut self, key: &str) -> PyResult<bool> {
        let Some(Container::Object(object, next)) = self.open.last_mut() else { return Ok(true) };
        let key = PyString::new(self.py, key);
        let is_new = !object.contains(&key)?;
        *next = Some(key);
        Ok(is_new)
    }

    fn scalar(&mut self, value: Scalar<'_>) -> PyResult<bool> {
        let value = match value {
            Scalar::Null => self.py.None().into_bound(self.py),
            Scalar::Bool(value) => PyBool::new(self.py, value).to_owned().into_any(),
            Scalar::Integer(digits) => return self.add_integer(digits),
            Scalar::Float(value) => PyFloat::new(self.py, value).into_any(),
            Scalar::String(text) => PyString::new(self.py, text).into_any(),
        };
        self.add(value)?;
        Ok(true)
    }
}
