//! Token estimates of Python's strings, read as they are stored.

use agents_json_text::CodePoints;
use agents_token_estimate::{Counts, FEATURES};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::strings::code_points;

/// Code points from which on other threads may run meanwhile: a count of fewer takes less than the change
/// of threads.
const LONG: usize = 64 * 1024;

/// The weights of one family of tokenizers, in thousandths of a token.
#[pyclass(frozen, module = "dex_agents._native")]
pub struct TokenWeights([u32; FEATURES]);

#[pymethods]
impl TokenWeights {
    #[new]
    #[pyo3(signature = (weights, /))]
    fn new(weights: [u32; FEATURES]) -> Self {
        Self(weights)
    }

    /// Returns what the texts are estimated at together, in thousandths of a token.
    #[pyo3(signature = (texts, /))]
    fn estimate_millitokens(&self, py: Python<'_>, texts: &Bound<'_, PyTuple>) -> PyResult<u64> {
        let texts = texts.iter().map(Bound::cast_into::<PyString>).collect::<Result<Vec<_>, _>>()?;
        let stored = texts.iter().map(code_points).collect::<PyResult<Vec<_>>>()?;
        let estimate = || weigh(&stored, &self.0);
        Ok(if stored.iter().map(length).sum::<usize>() < LONG { estimate() } else { py.detach(estimate) })
    }
}

fn weigh(texts: &[CodePoints<'_>], weights: &[u32; FEATURES]) -> u64 {
    let mut counts = Counts::default();
    for text in texts {
        match text {
            CodePoints::OneByte(bytes) => counts.add_one_byte(bytes),
            CodePoints::TwoBytes(units) => counts.add_code_points(units),
            CodePoints::FourBytes(code_points) => counts.add_code_points(code_points),
        }
    }
    counts.millitokens(weights)
}

fn length(text: &CodePoints<'_>) -> usize {
    match text {
        CodePoints::OneByte(bytes) => bytes.len(),
        CodePoints::TwoBytes(units) => units.len(),
        CodePoints::FourBytes(code_points) => code_points.len(),
    }
}
