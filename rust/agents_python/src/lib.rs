//! `dex_agents._native`: the Python face of the pure crates.
//!
//! The only crate that knows Python. It reads objects, calls a crate and hands back a value; what a
//! crate does not serve is told to the seam, which decides.

mod json_text;
mod strings;

// The walk over a value relies on the GIL: with it, no other thread changes the value meanwhile.
/// The functions and constants that `_native.pyi` lists.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::json_text::{encode_ascii, encode_compact_sorted, encode_unicode};

    /// The version of the distribution this module was built for.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// `"release"`, or `"debug"` for a development build, which no bench may time.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const build_profile: &str = if cfg!(debug_assertions) { "debug" } else { "release" };
}
