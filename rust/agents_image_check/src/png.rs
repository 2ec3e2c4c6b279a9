//! PNG: a signature, then chunks with checksums from `IHDR` to `IEND`.

use crate::reader::{Reader, length};
use crate::{Damage, Dimensions, Inspected};

pub(crate) const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Lengths and sizes have 31 bits.
const MAX_NUMBER: u32 = 0x7fff_ffff;

const INDEXED_COLOUR: u8 = 3;

/// `None` unless an `IHDR` chunk with a size comes first.
pub(crate) fn inspect(data: &[u8]) -> Option<Inspected> {
    let mut reader = Reader::new(data.get(SIGNATURE.len()..)?);
    if reader.array().ok()? != *b"\0\0\0\x0dIHDR" {
        return None;
    }
    let (width, height) = (reader.u32_be().ok()?, reader.u32_be().ok()?);
    // Colours, methods and the checksum are read by the walk, and must be there.
    reader.take(5 + 4).ok()?;
    if width == 0 || height == 0 {
        return None;
    }
    Some((Some(Dimensions { width, height }), walk(data)))
}

/// Which chunks have been met.
#[derive(PartialEq)]
enum Stage {
    Start,
    Header,
    Palette,
    ImageData,
    AfterImageData,
}

fn walk(data: &[u8]) -> Result<(), Damage> {
    let mut reader = Reader::new(&data[SIGNATURE.len()..]);
    let mut stage = Stage::Start;
    let mut colour = 0;
    loop {
        let claimed = reader.u32_be()?;
        let kind_and_body = reader.rest();
        let kind: [u8; 4] = reader.array()?;
        if claimed > MAX_NUMBER || !kind.iter().all(u8::is_ascii_alphabetic) {
            return Err(Damage::InvalidStructure);
        }
        let body = reader.take(length(claimed))?;
        let checksum = reader.u32_be()?;
        if crc32fast::hash(&kind_and_body[..kind.len() + body.len()]) != checksum {
            return Err(Damage::ChecksumMismatch);
        }
        match (&kind, &stage) {
            (b"IHDR", Stage::Start) => {
                colour = read_colour(body)?;
                stage = Stage::Header;
            }
            (b"PLTE", Stage::Header) => {
                if body.is_empty() || body.len() > 3 * 256 || body.len() % 3 != 0 {
                    return Err(Damage::InvalidHeader);
                }
                stage = Stage::Palette;
            }
            (b"IDAT", Stage::Header) if colour == INDEXED_COLOUR => return Err(Damage::InvalidStructure),
            (b"IDAT", Stage::Header | Stage::Palette | Stage::ImageData) => stage = Stage::ImageData,
            (b"IEND", Stage::Header | Stage::Palette) => return Err(Damage::NoImageData),
            (b"IEND", _) if body.is_empty() => return Ok(()),
            // A decoder skips what it does not know only if the first letter is small.
            _ if kind[0].is_ascii_uppercase() => return Err(Damage::InvalidStructure),
            (_, Stage::ImageData) => stage = Stage::AfterImageData,
            _ => {}
        }
    }
}

/// Returns the colour type of an `IHDR` chunk whose values are those of PNG.
fn read_colour(body: &[u8]) -> Result<u8, Damage> {
    let mut reader = Reader::new(body);
    let (width, height) = (reader.u32_be()?, reader.u32_be()?);
    let [depth, colour, compression, filter, interlace] = reader.array()?;
    let depths: &[u8] = match colour {
        0 => &[1, 2, 4, 8, 16],
        INDEXED_COLOUR => &[1, 2, 4, 8],
        2 | 4 | 6 => &[8, 16],
        _ => &[],
    };
    let known = depths.contains(&depth) && compression == 0 && filter == 0 && interlace <= 1;
    if known && width <= MAX_NUMBER && height <= MAX_NUMBER { Ok(colour) } else { Err(Damage::InvalidHeader) }
}
