//! GIF: a screen descriptor, then extensions and frames up to the trailer.

use crate::reader::Reader;
use crate::{Damage, Dimensions, Inspected};

pub(crate) const SIGNATURES: [&[u8]; 2] = [b"GIF87a", b"GIF89a"];

const EXTENSION: u8 = 0x21;
const FRAME: u8 = 0x2c;
const TRAILER: u8 = 0x3b;

/// `None` unless a screen descriptor with a size follows the signature.
pub(crate) fn inspect(data: &[u8]) -> Option<Inspected> {
    let mut reader = Reader::new(data.get(SIGNATURES[0].len()..)?);
    let [width0, width1, height0, height1, flags, _background, _aspect] = reader.array().ok()?;
    let (width, height) = (u16::from_le_bytes([width0, width1]), u16::from_le_bytes([height0, height1]));
    if width == 0 || height == 0 {
        return None;
    }
    let dimensions = Dimensions { width: width.into(), height: height.into() };
    Some((Some(dimensions), walk(reader, flags)))
}

fn walk(mut reader: Reader<'_>, screen_flags: u8) -> Result<(), Damage> {
    skip_colour_table(&mut reader, screen_flags)?;
    let mut has_frame = false;
    loop {
        match reader.byte()? {
            EXTENSION => {
                let _label = reader.byte()?;
                skip_sub_blocks(&mut reader)?;
            }
            FRAME => has_frame |= read_frame(&mut reader)?,
            TRAILER if has_frame => return Ok(()),
            TRAILER => return Err(Damage::NoImageData),
            _ => return Err(Damage::InvalidStructure),
        }
    }
}

/// Follows a frame to its end, and says whether it holds any data.
fn read_frame(reader: &mut Reader<'_>) -> Result<bool, Damage> {
    let [_, _, _, _, width0, width1, height0, height1, flags] = reader.array()?;
    if [width0, width1] == [0, 0] || [height0, height1] == [0, 0] {
        return Err(Damage::InvalidHeader);
    }
    skip_colour_table(reader, flags)?;
    // Codes of LZW have at most 12 bits, and begin one longer than this size.
    if !(1..=11).contains(&reader.byte()?) {
        return Err(Damage::InvalidHeader);
    }
    skip_sub_blocks(reader)
}

fn skip_colour_table(reader: &mut Reader<'_>, flags: u8) -> Result<(), Damage> {
    if flags & 0x80 != 0 {
        reader.take(3 << ((flags & 7) + 1))?;
    }
    Ok(())
}

/// Skips sub-blocks up to the empty one that ends them, and says whether there were any.
fn skip_sub_blocks(reader: &mut Reader<'_>) -> Result<bool, Damage> {
    let mut any = false;
    loop {
        match reader.byte()? {
            0 => return Ok(any),
            length => reader.take(length.into())?,
        };
        any = true;
    }
}
