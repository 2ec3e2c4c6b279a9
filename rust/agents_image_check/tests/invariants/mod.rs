//! What holds for any bytes: the bodies of the fuzz target, which proptest runs as well.

use agents_image_check::{Damage, Format, Image, Refusal, check, check_all, inspect};

use crate::images::whole_images;

/// Inspects bytes, and holds what is true of the answer. That there is one is the larger half.
pub fn check_bytes(data: &[u8]) {
    let found = check(data);
    assert_eq!(found.image, inspect(data));
    assert_eq!(found, check_all(&[data])[0]);
    match found.image {
        Ok(image) => {
            assert!(image.dimensions.is_none_or(|size| size.width > 0 && size.height > 0));
            assert!(image.dimensions.is_some() || image.damage.is_some());
            check_end(data, image);
        }
        Err(Refusal::Malformed(_)) => assert!(data.len() >= 3),
        Err(Refusal::UnknownType) => assert!(!data.starts_with(b"GIF89a")),
    }
}

/// Holds that an image is read up to its end and no further.
fn check_end(data: &[u8], image: Image) {
    // The other two say by their last bytes, or their size, where they end.
    if matches!(image.format, Format::Png | Format::Gif) {
        let longer = inspect(&[data, b"\0"].concat()).expect("it begins alike");
        if image.damage != Some(Damage::Truncated) {
            assert_eq!(longer, image);
        }
        if let Ok(shorter) = inspect(&data[..data.len() - 1]) {
            assert!(shorter == image || shorter.damage == Some(Damage::Truncated));
        }
    }
}

/// Makes a whole image that holds the bytes, changes some of it as they say, and inspects every stage.
pub fn check_changed_image(data: &[u8]) {
    check_bytes(data);
    let Some(([kind, changes, behind @ ..], coded)) = data.split_first_chunk::<8>() else { return };
    let images = whole_images(coded);
    let mut image = images[usize::from(*kind) % images.len()].clone();
    // Coded pixels may hold what ends a scan; an image is whole all the same.
    assert!(inspect(&image).is_ok_and(|found| found.dimensions.is_some()));
    check_bytes(&image);
    for change in behind.as_chunks().0.iter().take(usize::from(*changes % 4)) {
        let [low, high, byte]: [u8; 3] = *change;
        let place = usize::from(u16::from_le_bytes([low, high])) % image.len();
        image[place] = byte;
    }
    check_bytes(&image);
    image.truncate(image.len() - usize::from(*changes / 4) % image.len());
    check_bytes(&image);
    if image.starts_with(b"\x89PNG\r\n\x1a\n") {
        let repaired = with_checksums(image);
        check_bytes(&repaired);
        let damage = inspect(&repaired).ok().and_then(|found| found.damage);
        assert_ne!(damage, Some(Damage::ChecksumMismatch));
    }
}

/// Writes the checksum of each PNG chunk, so that changed ones are looked into.
fn with_checksums(mut image: Vec<u8>) -> Vec<u8> {
    let mut start = 8;
    while let Some(length) = image.get(start..).and_then(|rest| rest.first_chunk()) {
        let end = start + 8 + u32::from_be_bytes(*length) as usize;
        let Some(checksum) = image.get(start + 4..end).map(crc32fast::hash) else { break };
        let Some(place) = image.get_mut(end..end + 4) else { break };
        place.copy_from_slice(&checksum.to_be_bytes());
        start = end + 4;
    }
    image
}
