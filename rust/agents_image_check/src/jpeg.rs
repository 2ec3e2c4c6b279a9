//! JPEG: markers and segments, with runs of coded pixels between them, from SOI to EOI.

use crate::reader::Reader;
use crate::{Damage, Dimensions, Inspected};

/// SOI, and the first byte of the marker after it.
pub(crate) const SIGNATURE: &[u8] = b"\xff\xd8\xff";

const START_OF_IMAGE: &[u8] = b"\xff\xd8";
const END_OF_IMAGE: &[u8] = b"\xff\xd9";

/// `None` unless a marker follows SOI and EOI ends the bytes.
pub(crate) fn inspect(data: &[u8]) -> Option<Inspected> {
    let after_marker = data.strip_prefix(SIGNATURE)?;
    let marker = after_marker.strip_suffix(END_OF_IMAGE)?.first()?;
    if [0x00, 0xff].contains(marker) {
        return None;
    }
    let mut walk = Walk { frame: None, has_pixels: false };
    let walked = walk.run(Reader::new(&data[START_OF_IMAGE.len()..]));
    let dimensions = walk.frame.filter(|frame| frame.height != 0);
    Some((dimensions, walked))
}

struct Walk {
    /// As the frame header says it; a height of 0 is still to come in a DNL segment.
    frame: Option<Dimensions>,
    has_pixels: bool,
}

impl Walk {
    fn run(&mut self, mut reader: Reader<'_>) -> Result<(), Damage> {
        loop {
            match next_marker(&mut reader)? {
                // EOI
                0xd9 => return self.finish(),
                // TEM stands alone.
                0x01 => {}
                // SOF, of any process: all but DHT, JPG and DAC
                0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => self.read_frame(&mut reader)?,
                // SOS
                0xda => self.read_scan(&mut reader)?,
                // DNL
                0xdc => self.read_line_count(&mut reader)?,
                // No marker, reserved ones, RST outside a scan, SOI
                0x00..=0xbf | 0xd0..=0xd8 => return Err(Damage::InvalidStructure),
                _ => {
                    segment(&mut reader)?;
                }
            }
        }
    }

    fn finish(&self) -> Result<(), Damage> {
        match self.frame {
            Some(frame) if frame.height == 0 => Err(Damage::InvalidHeader),
            Some(_) if self.has_pixels => Ok(()),
            _ => Err(Damage::NoImageData),
        }
    }

    fn read_frame(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        let body = segment(reader)?;
        let mut reader = Reader::new(body);
        if self.frame.is_some() {
            return Err(Damage::InvalidStructure);
        }
        let _precision = reader.byte()?;
        let (height, width) = (reader.u16_be()?, reader.u16_be()?);
        let components = reader.byte()?;
        if width == 0 || components == 0 || reader.rest().len() != 3 * usize::from(components) {
            return Err(Damage::InvalidHeader);
        }
        self.frame = Some(Dimensions { width: width.into(), height: height.into() });
        Ok(())
    }

    fn read_scan(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        let body = segment(reader)?;
        if self.frame.is_none() {
            return Err(Damage::InvalidStructure);
        }
        let components = Reader::new(body).byte()?;
        if !(1..=4).contains(&components) || body.len() != 4 + 2 * usize::from(components) {
            return Err(Damage::InvalidHeader);
        }
        let coded = reader.take(coded_length(reader.rest())?)?;
        self.has_pixels |= !coded.is_empty();
        Ok(())
    }

    fn read_line_count(&mut self, reader: &mut Reader<'_>) -> Result<(), Damage> {
        let mut reader = Reader::new(segment(reader)?);
        let lines = reader.u16_be()?;
        match &mut self.frame {
            _ if lines == 0 => Err(Damage::InvalidHeader),
            Some(frame) => {
                frame.height = lines.into();
                Ok(())
            }
            None => Err(Damage::InvalidStructure),
        }
    }
}

/// Returns the code after the next 0xff; more of them may stand before it.
fn next_marker(reader: &mut Reader<'_>) -> Result<u8, Damage> {
    if reader.byte()? != 0xff {
        return Err(Damage::InvalidStructure);
    }
    loop {
        match reader.byte()? {
            0xff => {}
            marker => return Ok(marker),
        }
    }
}

/// Takes a segment, and returns what comes after its length.
fn segment<'data>(reader: &mut Reader<'data>) -> Result<&'data [u8], Damage> {
    match usize::from(reader.u16_be()?).checked_sub(2) {
        Some(length) => reader.take(length),
        None => Err(Damage::InvalidStructure),
    }
}

/// Counts the bytes up to the marker that ends a scan. In it, 0xff is followed by 0 or a restart number.
fn coded_length(rest: &[u8]) -> Result<usize, Damage> {
    for index in memchr::memchr_iter(0xff, rest) {
        match rest.get(index + 1) {
            Some(0x00 | 0xd0..=0xd7 | 0xff) => {}
            Some(_) => return Ok(index),
            None => break,
        }
    }
    Err(Damage::Truncated)
}
