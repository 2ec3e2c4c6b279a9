//! Image checks of any buffer, with the GIL released.
//!
//! The crate's unsafe code for buffers is all here.

use agents_image_check::{Check, Refusal};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyTuple};
use std::slice::from_raw_parts;

/// Bytes from which on other threads may run meanwhile: fewer take less than the change of threads.
const LONG: usize = 2048;

/// SHA-256 in hexadecimal, length, media type by its first bytes, whether it is an image of that type,
/// width, height, damage.
type Checked = (String, usize, Option<&'static str>, bool, Option<u32>, Option<u32>, Option<&'static str>);

/// Hashes and inspects the bytes of one buffer.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub fn check_image(data: &Bound<'_, PyAny>) -> PyResult<Checked> {
    let content = Content::of(data)?;
    let bytes = content.bytes();
    let inspect = || agents_image_check::check(bytes);
    let check = if bytes.len() < LONG { inspect() } else { data.py().detach(inspect) };
    Ok(checked(bytes, &check))
}

/// Hashes and inspects the bytes of several buffers, on several threads where that helps.
#[pyfunction]
#[pyo3(signature = (images, /))]
pub fn check_images(images: &Bound<'_, PyTuple>) -> PyResult<Vec<Checked>> {
    let contents = images.iter().map(|data| Content::of(&data)).collect::<PyResult<Vec<_>>>()?;
    let bytes: Vec<&[u8]> = contents.iter().map(Content::bytes).collect();
    let checks = images.py().detach(|| agents_image_check::check_all(&bytes));
    Ok(bytes.iter().zip(&checks).map(|(bytes, check)| checked(bytes, check)).collect())
}

fn checked(bytes: &[u8], check: &Check) -> Checked {
    let sha256 = hexadecimal(&check.sha256);
    match check.image {
        Ok(image) => {
            let (width, height) = image.dimensions.map(|size| (size.width, size.height)).unzip();
            let damage = image.damage.map(agents_image_check::Damage::name);
            (sha256, bytes.len(), Some(image.format.mime_type()), true, width, height, damage)
        }
        Err(Refusal::Malformed(format)) => {
            (sha256, bytes.len(), Some(format.mime_type()), false, None, None, None)
        }
        Err(Refusal::UnknownType) => (sha256, bytes.len(), None, false, None, None, None),
    }
}

fn hexadecimal(digest: &[u8; 32]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let pairs = digest.map(|byte| [byte >> 4, byte & 0xf].map(|digit| DIGITS[usize::from(digit)]));
    String::from_utf8_lossy(pairs.as_flattened()).into_owned()
}

/// Bytes that nobody changes while they are looked at without the GIL.
enum Content<'py> {
    Bytes(Bound<'py, PyBytes>),
    /// Bytes that belong to a `bytes` object, through a view of it.
    View(PyBuffer<u8>),
}

impl<'py> Content<'py> {
    /// Borrows what is immutable, which is `bytes` and a view of it. Anything else may change at any
    /// moment, and is copied first: a thirtieth of what hashing it costs.
    fn of(data: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone()));
        }
        if let Ok(view) = data.cast::<PyMemoryView>()
            && view.getattr("obj")?.is_instance_of::<PyBytes>()
            && let Ok(buffer) = PyBuffer::get(data)
            && buffer.is_c_contiguous()
        {
            return Ok(Self::View(buffer));
        }
        let copy = PyMemoryView::from(data)?.call_method0("tobytes")?;
        Ok(Self::Bytes(copy.cast_into()?))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.as_bytes(),
            Self::View(buffer) if buffer.len_bytes() == 0 => &[],
            // SAFETY: the buffer is contiguous and not empty, so that its pointer is that of `len_bytes`
            // bytes. It keeps its memory alive, which is that of a `bytes` object and never changes.
            Self::View(buffer) => unsafe { from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) },
        }
    }
}
