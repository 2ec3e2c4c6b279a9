//! WebP: a RIFF file of chunks, the first of which holds a picture or announces several.

use crate::reader::{Reader, length};
use crate::{Damage, Dimensions, Inspected};

/// `RIFF`, the size and `WEBP`.
const HEADER_LENGTH: usize = 12;

/// That, and the header of a first chunk.
const MINIMUM_LENGTH: usize = HEADER_LENGTH + 8;

/// What an animation frame says of itself before its chunks.
const FRAME_HEADER_LENGTH: usize = 16;

pub(crate) fn is_webp(data: &[u8]) -> bool {
    data.starts_with(b"RIFF") && data.get(8..HEADER_LENGTH) == Some(b"WEBP")
}

/// `None` unless the RIFF size is that of the data and a picture chunk comes first.
pub(crate) fn inspect(data: &[u8]) -> Option<Inspected> {
    let claimed = u32::from_le_bytes(*data.get(4..)?.first_chunk()?);
    let chunks = data.get(HEADER_LENGTH..)?;
    let size_agrees = u64::from(claimed) + 8 == data.len() as u64;
    if !size_agrees || data.len() < MINIMUM_LENGTH {
        return None;
    }
    let mut reader = Reader::new(chunks);
    let (kind, claimed) = (reader.array().ok()?, reader.u32_le().ok()?);
    let body = &reader.rest()[..reader.rest().len().min(length(claimed))];
    let dimensions = match &kind {
        b"VP8X" => canvas(body),
        b"VP8L" => lossless_picture(body),
        b"VP8 " => lossy_picture(body).map(|(size, _)| size),
        _ => return None,
    };
    Some((dimensions.ok(), walk(chunks)))
}

fn walk(chunks: &[u8]) -> Result<(), Damage> {
    let mut reader = Reader::new(chunks);
    let mut has_picture = false;
    while !reader.rest().is_empty() {
        let (kind, body) = chunk(&mut reader)?;
        match &kind {
            b"VP8X" => {
                canvas(body)?;
            }
            b"ANMF" => has_picture |= has_frame_picture(body)?,
            b"VP8 " | b"VP8L" => {
                whole_picture(kind, body)?;
                has_picture = true;
            }
            _ => {}
        }
    }
    if has_picture { Ok(()) } else { Err(Damage::NoImageData) }
}

/// Follows the chunks of an animation frame, and says whether a picture is among them.
fn has_frame_picture(body: &[u8]) -> Result<bool, Damage> {
    let mut reader = Reader::new(body);
    reader.take(FRAME_HEADER_LENGTH)?;
    let mut has_picture = false;
    while !reader.rest().is_empty() {
        let (kind, body) = chunk(&mut reader)?;
        if matches!(&kind, b"VP8 " | b"VP8L") {
            whole_picture(kind, body)?;
            has_picture = true;
        }
    }
    Ok(has_picture)
}

/// Takes a chunk, and the byte after one of odd length.
fn chunk<'data>(reader: &mut Reader<'data>) -> Result<([u8; 4], &'data [u8]), Damage> {
    let kind = reader.array()?;
    let claimed = reader.u32_le()?;
    let body = reader.take(length(claimed))?;
    reader.take(body.len() % 2)?;
    Ok((kind, body))
}

/// Reads the size in a `VP8X` chunk: one less than it is, in 24 bits.
fn canvas(body: &[u8]) -> Result<Dimensions, Damage> {
    let mut reader = Reader::new(body);
    let [_flags, _, _, _, w0, w1, w2, h0, h1, h2] = reader.array()?;
    Ok(Dimensions {
        width: u32::from_le_bytes([w0, w1, w2, 0]) + 1,
        height: u32::from_le_bytes([h0, h1, h2, 0]) + 1,
    })
}

/// Reads a picture's header, and checks that the first part of a lossy one is there.
fn whole_picture(kind: [u8; 4], body: &[u8]) -> Result<(), Damage> {
    if kind == *b"VP8L" {
        return lossless_picture(body).map(|_| ());
    }
    let (_, first_part) = lossy_picture(body)?;
    Reader::new(body).take(LOSSY_HEADER_LENGTH + first_part).map(|_| ())
}

/// The frame tag, the start code, and width and height.
const LOSSY_HEADER_LENGTH: usize = 10;

/// Reads the header of a VP8 key frame: its size, and the length of its first partition.
fn lossy_picture(body: &[u8]) -> Result<(Dimensions, usize), Damage> {
    let mut reader = Reader::new(body);
    let [t0, t1, t2, start_code @ .., w0, w1, h0, h1]: [u8; LOSSY_HEADER_LENGTH] = reader.array()?;
    let tag = u32::from_le_bytes([t0, t1, t2, 0]);
    // Two bits of scale stand above each size.
    let width = u16::from_le_bytes([w0, w1]) & 0x3fff;
    let height = u16::from_le_bytes([h0, h1]) & 0x3fff;
    let is_key_frame = tag & 1 == 0;
    if !is_key_frame || start_code != [0x9d, 0x01, 0x2a] || width == 0 || height == 0 {
        return Err(Damage::InvalidHeader);
    }
    Ok((Dimensions { width: width.into(), height: height.into() }, length(tag >> 5)))
}

/// Reads the header of a lossless picture: one less than its size, in 14 bits each.
fn lossless_picture(body: &[u8]) -> Result<Dimensions, Damage> {
    let mut reader = Reader::new(body);
    let signature = reader.byte()?;
    let bits = reader.u32_le()?;
    let version = bits >> 29;
    if signature != 0x2f || version != 0 {
        return Err(Damage::InvalidHeader);
    }
    Ok(Dimensions { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 })
}
