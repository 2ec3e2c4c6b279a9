//! Whole images are whole, and each kind of damage is found.

mod images;

use agents_image_check::{Damage, Dimensions, Format, Refusal, check, check_all, inspect};
use images::{
    JPEG_FRAME, JPEG_SCAN, animated_webp, jpeg_segment, lossless, lossy, png, png_chunk, webp, whole_images,
    whole_jpeg, whole_png,
};

const SIZE: Dimensions = Dimensions { width: 5, height: 7 };

fn damage(data: &[u8]) -> Option<Damage> {
    inspect(data).expect("an image").damage
}

fn jpeg(parts: &[&[u8]]) -> Vec<u8> {
    [b"\xff\xd8".as_slice(), &parts.concat(), b"\xff\xd9"].concat()
}

#[test]
fn whole_images_are_whole_and_have_their_size() {
    let formats = [Format::Png, Format::Jpeg, Format::Gif, Format::WebP, Format::WebP, Format::WebP];
    for (image, format) in whole_images(b"pixels \xff\xff\x00").iter().zip(formats) {
        let found = inspect(image).expect("an image");
        assert_eq!((found.format, found.dimensions, found.damage), (format, Some(SIZE), None));
    }
}

#[test]
fn an_image_cut_anywhere_is_never_whole() {
    for image in whole_images(b"pixels \xff\xff\x00") {
        for length in 0..image.len() {
            assert!(!inspect(&image[..length]).is_ok_and(|cut| cut.damage.is_none()), "{length}");
        }
    }
}

#[test]
fn what_follows_the_end_is_not_looked_at() {
    let two = [whole_jpeg(b"one"), whole_jpeg(b"two")].concat();
    assert_eq!(damage(&two), None);
    assert_eq!(damage(&[whole_png(b"one"), b"more".to_vec()].concat()), None);
}

#[test]
fn bytes_of_no_known_type_are_refused() {
    for data in [
        b"".as_slice(),
        b"<Error>",
        b"\x89PNG\r\n\x1a",
        b"\xff\xd8",
        b"GIF88a\x01\0\x01\0\0\0\0",
        b"RIFF\0\0\0\0WAVE",
    ] {
        assert_eq!(inspect(data), Err(Refusal::UnknownType));
    }
}

#[test]
fn bytes_that_only_begin_like_an_image_are_refused() {
    for (data, format) in [
        (b"\x89PNG\r\n\x1a\n".as_slice(), Format::Png),
        (b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\0\0\0\0\x07\x08\x02\0\0\0crc!", Format::Png),
        (b"\xff\xd8\xff\xe0", Format::Jpeg),
        (b"\xff\xd8\xff\xff\xff\xd9", Format::Jpeg),
        (b"\xff\xd8\xff\xd9", Format::Jpeg),
        (b"GIF89a\x01\0\0\0\0\0\0", Format::Gif),
        (b"GIF89a\x01\0\x01\0\0\0", Format::Gif),
        (b"RIFF\x0c\0\0\0WEBPEXIF\0\0\0\0", Format::WebP),
        (b"RIFF\x0d\0\0\0WEBPVP8 \0\0\0\0", Format::WebP),
        (b"RIFF\x04\0\0\0WEBP", Format::WebP),
    ] {
        assert_eq!(inspect(data), Err(Refusal::Malformed(format)));
    }
}

#[test]
fn damage_of_png_is_found() {
    let mut flipped = whole_png(b"pixels");
    flipped[50] ^= 1;
    assert_eq!(damage(&flipped), Some(Damage::ChecksumMismatch));
    for (image, expected) in [
        (png(&[(b"IEND", b"")]), Damage::NoImageData),
        (png(&[(b"IDAT", b"a"), (b"tEXt", b""), (b"IDAT", b"b")]), Damage::InvalidStructure),
        (png(&[(b"IDAT", b"a"), (b"PLTE", b"RGB")]), Damage::InvalidStructure),
        (png(&[(b"IDAT", b"a"), (b"IEND", b"a")]), Damage::InvalidStructure),
        (png(&[(b"NEWS", b"a")]), Damage::InvalidStructure),
        (png(&[(b"ID@T", b"a")]), Damage::InvalidStructure),
        (png(&[(b"PLTE", b"RG")]), Damage::InvalidHeader),
        (png(&[(b"IDAT", b"a")]), Damage::Truncated),
        ([png(&[]), b"\x80\0\0\0IDAT".to_vec()].concat(), Damage::InvalidStructure),
        ([png(&[]), b"\x7f\xff\xff\xffIDAT".to_vec()].concat(), Damage::Truncated),
    ] {
        assert_eq!(damage(&image), Some(expected), "{image:?}");
    }
}

#[test]
fn colours_that_png_does_not_have_are_damage() {
    let image = |header: &[u8]| [b"\x89PNG\r\n\x1a\n".to_vec(), png_chunk(*b"IHDR", header)].concat();
    for header in [
        b"\0\0\0\x05\0\0\0\x07\x04\x02\0\0\0",
        b"\0\0\0\x05\0\0\0\x07\x08\x05\0\0\0",
        b"\x80\0\0\0\0\0\0\x07\x08\x02\0\0\0",
    ] {
        assert_eq!(damage(&image(header)), Some(Damage::InvalidHeader));
    }
    let indexed = [image(b"\0\0\0\x05\0\0\0\x07\x08\x03\0\0\0"), png_chunk(*b"IDAT", b"a")].concat();
    assert_eq!(damage(&indexed), Some(Damage::InvalidStructure));
}

#[test]
fn damage_of_jpeg_is_found() {
    let frame = jpeg_segment(0xc0, JPEG_FRAME);
    let scan = jpeg_segment(0xda, JPEG_SCAN);
    let no_lines = jpeg_segment(0xc2, b"\x08\0\0\0\x05\x01\x01\x11\0");
    for (image, expected) in [
        (jpeg(&[b"\xff\xe0\0\x10JFIF"]), Damage::Truncated),
        (jpeg(&[b"\xff\xe0\0\x01"]), Damage::InvalidStructure),
        (jpeg(&[&frame]), Damage::NoImageData),
        (jpeg(&[&frame, &scan]), Damage::NoImageData),
        (jpeg(&[&scan, b"coded"]), Damage::InvalidStructure),
        (jpeg(&[&frame, &frame]), Damage::InvalidStructure),
        (jpeg(&[&frame, b"junk"]), Damage::InvalidStructure),
        (jpeg(&[&frame, b"\xff\xd0"]), Damage::InvalidStructure),
        (jpeg(&[&no_lines, &scan, b"coded"]), Damage::InvalidHeader),
        (jpeg(&[&jpeg_segment(0xc0, b"\x08\0\x07\0\0\x01\x01\x11\0")]), Damage::InvalidHeader),
        (jpeg(&[&jpeg_segment(0xc0, b"\x08\0\x07")]), Damage::Truncated),
        (jpeg(&[&frame, &jpeg_segment(0xda, b"\0\0\x3f\0")]), Damage::InvalidHeader),
    ] {
        assert_eq!(damage(&image), Some(expected), "{image:?}");
    }
}

#[test]
fn a_jpeg_may_say_its_height_after_the_first_scan() {
    let frame = jpeg_segment(0xc0, b"\x08\0\0\0\x05\x01\x01\x11\0");
    let scan = jpeg_segment(0xda, JPEG_SCAN);
    let image = inspect(&jpeg(&[&frame, &scan, b"coded", &jpeg_segment(0xdc, b"\0\x07")])).expect("an image");
    assert_eq!((image.dimensions, image.damage), (Some(SIZE), None));
}

#[test]
fn damage_of_gif_is_found() {
    for (parts, expected) in [
        (b"\x3b".as_slice(), Damage::NoImageData),
        (b"\x2c\0\0\0\0\x05\0\x07\0\0\x02\0\x3b", Damage::NoImageData),
        (b"\x2c\0\0\0\0\x05\0\x07\0\0\x02\x01a\0", Damage::Truncated),
        (b"\x2c\0\0\0\0\x05\0\0\0\0\x02", Damage::InvalidHeader),
        (b"\x2c\0\0\0\0\x05\0\x07\0\0\x0c", Damage::InvalidHeader),
        (b"\x21\xfe\x04abc", Damage::Truncated),
        (b"\x00", Damage::InvalidStructure),
    ] {
        let image = [b"GIF87a\x05\0\x07\0\0\0\0", parts].concat();
        assert_eq!(damage(&image), Some(expected), "{image:?}");
    }
}

#[test]
fn damage_of_webp_is_found() {
    let mut too_long = webp(&[(b"VP8 ", &lossy(b""))]);
    too_long[16] += 2;
    let canvas: &[u8] = b"\x02\0\0\0\x04\0\0\x06\0\0";
    for (image, expected) in [
        (too_long, Damage::Truncated),
        (webp(&[(b"VP8 ", &lossy(b"")[..12])]), Damage::Truncated),
        (webp(&[(b"VP8 ", b"\x71\0\0\x9d\x01\x2a\x05\0\x07\0abc")]), Damage::InvalidHeader),
        (webp(&[(b"VP8 ", b"\x70\0\0\x9d\x01\x2b\x05\0\x07\0abc")]), Damage::InvalidHeader),
        (webp(&[(b"VP8L", &lossless(b"")[..4])]), Damage::Truncated),
        (webp(&[(b"VP8L", b"\x2f\x04\x80\x01\x20")]), Damage::InvalidHeader),
        (webp(&[(b"VP8X", canvas)]), Damage::NoImageData),
        (webp(&[(b"VP8X", canvas), (b"ANMF", &[0; 16])]), Damage::NoImageData),
        (webp(&[(b"VP8X", canvas), (b"ANMF", &[0; 15])]), Damage::Truncated),
        (webp(&[(b"VP8X", &canvas[..9])]), Damage::Truncated),
    ] {
        assert_eq!(damage(&image), Some(expected), "{image:?}");
    }
    assert_eq!(inspect(&webp(&[(b"VP8X", &canvas[..9])])).expect("an image").dimensions, None);
}

#[test]
fn images_on_threads_are_checked_as_one_by_one() {
    let images: Vec<Vec<u8>> = (0..9)
        .map(|index| whole_png(&vec![index; usize::from(index) * 90_000]))
        .chain([animated_webp(b"a"), vec![]])
        .collect();
    let borrowed: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
    let alone: Vec<_> = borrowed.iter().map(|image| check(image)).collect();
    assert_eq!(check_all(&borrowed), alone);
    assert_eq!(check_all(&[]), []);
}

#[test]
fn sha_256_is_that_of_fips_180() {
    let digest = check(b"abc").sha256;
    assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
    assert_eq!(digest[28..], [0xf2, 0x00, 0x15, 0xad]);
}
