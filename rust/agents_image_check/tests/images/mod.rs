//! Small whole images, put together part by part.

/// A PNG chunk with its checksum.
pub fn png_chunk(kind: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut chunk = u32::try_from(body.len()).expect("a small body").to_be_bytes().to_vec();
    chunk.extend_from_slice(&kind);
    chunk.extend_from_slice(body);
    chunk.extend_from_slice(&crc32fast::hash(&chunk[4..]).to_be_bytes());
    chunk
}

/// A PNG image of 5 times 7 pixels with these chunks after its header.
pub fn png(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    image.extend(png_chunk(*b"IHDR", b"\0\0\0\x05\0\0\0\x07\x08\x02\0\0\0"));
    for (kind, body) in chunks {
        image.extend(png_chunk(**kind, body));
    }
    image
}

pub fn whole_png(pixels: &[u8]) -> Vec<u8> {
    png(&[
        (b"tEXt", b"Title\0Desk"),
        (b"IDAT", pixels),
        (b"IDAT", pixels),
        (b"tIME", b"1234567"),
        (b"IEND", b""),
    ])
}

/// A JPEG segment with its length.
pub fn jpeg_segment(marker: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 2).expect("a small body");
    [&[0xff, marker], length.to_be_bytes().as_slice(), body].concat()
}

pub const JPEG_FRAME: &[u8] = b"\x08\0\x07\0\x05\x01\x01\x11\0";
pub const JPEG_SCAN: &[u8] = b"\x01\x01\0\0\x3f\0";

pub fn whole_jpeg(coded: &[u8]) -> Vec<u8> {
    let stuffed = coded.iter().flat_map(|byte| if *byte == 0xff { vec![0xff, 0] } else { vec![*byte] });
    let mut image = b"\xff\xd8".to_vec();
    image.extend(jpeg_segment(0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"));
    image.extend(jpeg_segment(0xc0, JPEG_FRAME));
    image.extend(jpeg_segment(0xda, JPEG_SCAN));
    image.extend(stuffed);
    image.extend(b"\xff\xd0!\xff\xd9");
    image
}

pub fn whole_gif(coded: &[u8]) -> Vec<u8> {
    let mut image = b"GIF89a\x05\0\x07\0\x80\0\0RGBrgb".to_vec();
    image.extend(b"\x21\xf9\x04\0\0\0\0\0");
    image.extend(b"\x2c\0\0\0\0\x05\0\x07\0\0\x02");
    for block in coded.chunks(255) {
        image.push(u8::try_from(block.len()).expect("at most 255"));
        image.extend_from_slice(block);
    }
    image.extend(b"\0\x3b");
    image
}

/// A RIFF file of WebP chunks, with the byte after an odd one.
pub fn webp(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut body = b"WEBP".to_vec();
    for (kind, content) in chunks {
        body.extend_from_slice(*kind);
        body.extend_from_slice(&u32::try_from(content.len()).expect("small").to_le_bytes());
        body.extend_from_slice(content);
        body.resize(body.len().next_multiple_of(2), 0);
    }
    let size = u32::try_from(body.len()).expect("small").to_le_bytes();
    [b"RIFF", size.as_slice(), &body].concat()
}

/// A lossy picture of 5 times 7 pixels whose first partition has three bytes.
pub fn lossy(coded: &[u8]) -> Vec<u8> {
    [b"\x70\0\0\x9d\x01\x2a\x05\0\x07\0abc", coded].concat()
}

/// A lossless picture of 5 times 7 pixels.
pub fn lossless(coded: &[u8]) -> Vec<u8> {
    [b"\x2f\x04\x80\x01\0", coded].concat()
}

pub fn animated_webp(coded: &[u8]) -> Vec<u8> {
    let picture = webp(&[(b"ALPH", b"odd"), (b"VP8 ", &lossy(coded))]);
    let frame = [&[0; 16], &picture[12..]].concat();
    webp(&[(b"VP8X", b"\x02\0\0\0\x04\0\0\x06\0\0"), (b"ANIM", &[0; 6]), (b"ANMF", &frame)])
}

pub fn whole_images(coded: &[u8]) -> [Vec<u8>; 6] {
    [
        whole_png(coded),
        whole_jpeg(coded),
        whole_gif(coded),
        webp(&[(b"VP8 ", &lossy(coded))]),
        webp(&[(b"VP8L", &lossless(coded))]),
        animated_webp(coded),
    ]
}
