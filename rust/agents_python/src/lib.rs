//! `dex_agents._native`: the Python face of the pure crates.
//!
//! The only crate that knows Python. It reads objects, calls a crate and hands back a value; what a
//! crate does not serve is told to the seam, which decides.

mod image_check;
mod json_objects;
mod json_text;
mod json_walk;
mod strings;
mod token_estimate;
mod ui_frames;

// The walk over a value relies on the GIL: with it, no other thread changes the value meanwhile.
/// The functions and constants that `_native.pyi` lists.
#[pyo3::pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use super::image_check::{check_image, check_images};
    #[pymodule_export]
    use super::json_objects::read_json_object;
    #[pymodule_export]
    use super::json_text::{encode_ascii, encode_compact_sorted, encode_unicode};
    #[pymodule_export]
    use super::token_estimate::TokenWeights;
    #[pymodule_export]
    use super::ui_frames::encode_ui_frames;

    /// The names of the weights that `TokenWeights` takes, in their order.
    #[pymodule_export]
    const TOKEN_FEATURE_NAMES: [&str; agents_token_estimate::FEATURES] = agents_token_estimate::FEATURE_NAMES;

    /// The version of the distribution this module was built for.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// `"release"`, or `"debug"` for a development build, which no bench may time.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const build_profile: &str = if cfg!(debug_assertions) { "debug" } else { "release" };
}
