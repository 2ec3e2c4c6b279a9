//! SHA-256, type, size and structure of PNG, JPEG, GIF and WebP images, without decoding a pixel.
//!
//! Bytes are an *image* when they begin, and for JPEG and WebP also end, as one: [`inspect`] refuses the
//! rest. An image is *damaged* when following it from part to part does not reach its end: [`Damage`] says
//! why. What comes after the end is not looked at, since cameras append further pictures there.
//!
//! Every function takes bytes of strangers: none panics, reads past the end or allocates by a size that
//! the bytes claim.
//!
//! ```
//! use agents_image_check::{Damage, Dimensions, Format, inspect};
//!
//! let image = inspect(b"GIF89a\x02\x00\x03\x00\x00\x00\x00").expect("a header is enough");
//! assert_eq!(image.format, Format::Gif);
//! assert_eq!(image.dimensions, Some(Dimensions { width: 2, height: 3 }));
//! assert_eq!(image.damage, Some(Damage::Truncated));
//! ```

#![forbid(unsafe_code)]

mod batch;
mod gif;
mod jpeg;
mod png;
mod reader;
mod webp;

pub use batch::check_all;

/// The types that are recognised, by their bytes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Portable Network Graphics.
    Png,
    /// JPEG, with or without JFIF or Exif.
    Jpeg,
    /// GIF, still or animated.
    Gif,
    /// WebP, still or animated.
    WebP,
}

impl Format {
    /// The media type, such as `image/png`.
    pub const fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

/// Why an image cannot be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The bytes end before the image does.
    Truncated,
    /// A PNG chunk does not match its checksum.
    ChecksumMismatch,
    /// A header holds a value that the format does not have.
    InvalidHeader,
    /// A part stands where none of its kind can, or is none.
    InvalidStructure,
    /// The image is whole and shows nothing: no picture is in it.
    NoImageData,
}

impl Damage {
    /// The name that Python knows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::ChecksumMismatch => "checksum_mismatch",
            Self::InvalidHeader => "invalid_header",
            Self::InvalidStructure => "invalid_structure",
            Self::NoImageData => "no_image_data",
        }
    }
}

/// Width and height in pixels, as the header claims them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its type.
    pub format: Format,
    /// Its size, or `None` where a JPEG or WebP image does not get as far as to say it.
    pub dimensions: Option<Dimensions>,
    /// Why it cannot be read to its end, if so.
    pub damage: Option<Damage>,
}

/// Why bytes are not an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// They begin like none of the types.
    UnknownType,
    /// They begin like this type and are none.
    Malformed(Format),
}

/// All that is known about some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// Their SHA-256.
    pub sha256: [u8; 32],
    /// What image they are, or why none.
    pub image: Result<Image, Refusal>,
}

/// Hashes and inspects bytes.
pub fn check(data: &[u8]) -> Check {
    Check { sha256: sha256(data), image: inspect(data) }
}

/// Returns the SHA-256 of bytes.
pub fn sha256(data: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, data).as_ref());
    digest
}

/// Says what image bytes are.
///
/// # Errors
///
/// [`Refusal`] for bytes that are no image; damage is no reason to refuse one.
pub fn inspect(data: &[u8]) -> Result<Image, Refusal> {
    let (format, image) = if data.starts_with(png::SIGNATURE) {
        (Format::Png, png::inspect(data))
    } else if data.starts_with(jpeg::SIGNATURE) {
        (Format::Jpeg, jpeg::inspect(data))
    } else if gif::SIGNATURES.iter().any(|signature| data.starts_with(signature)) {
        (Format::Gif, gif::inspect(data))
    } else if webp::is_webp(data) {
        (Format::WebP, webp::inspect(data))
    } else {
        return Err(Refusal::UnknownType);
    };
    let (dimensions, walked) = image.ok_or(Refusal::Malformed(format))?;
    Ok(Image { format, dimensions, damage: walked.err() })
}

/// What a well-formed image says of itself: its size, and whether its end can be reached.
type Inspected = (Option<Dimensions>, Result<(), Damage>);
