//! Bytes of strangers: images with parts changed, and noise behind a signature.

mod images;
mod invariants;

use agents_image_check::inspect;
use images::whole_images;
use invariants::{check_bytes, check_changed_image};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_oneof, proptest};
use proptest::sample::{Index, select};
use proptest::strategy::{Just, Strategy};

const SIGNATURES: [&[u8]; 6] = [
    b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR",
    b"\xff\xd8\xff\xc0",
    b"GIF89a",
    b"RIFF\0\0\0\0WEBPVP8X",
    b"RIFF\0\0\0\0WEBPVP8 ",
    b"RIFF\0\0\0\0WEBPVP8L",
];

#[derive(Clone, Debug)]
enum Mutation {
    Set(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    FixRiffSize,
    EndLikeJpeg,
}

impl Mutation {
    fn apply(&self, data: &mut Vec<u8>) {
        let place = |index: &Index| index.index(data.len() + 1);
        match self {
            Self::Set(index, byte) => {
                let place = place(index);
                data.get_mut(place).into_iter().for_each(|old| *old = *byte);
            }
            Self::Cut(index) => data.truncate(place(index)),
            Self::Insert(index, bytes) => {
                let place = place(index);
                data.splice(place..place, bytes.iter().copied());
            }
            Self::Remove(index, count) => {
                let start = place(index);
                data.drain(start..data.len().min(start + count));
            }
            Self::FixRiffSize => {
                let size = u32::try_from(data.len().saturating_sub(8)).expect("small").to_le_bytes();
                if let Some(place) = data.get_mut(4..8) {
                    place.copy_from_slice(&size);
                }
            }
            Self::EndLikeJpeg => data.extend(b"\xff\xd9"),
        }
    }
}

/// Bytes that mean something somewhere: markers, lengths, block codes.
fn telling_bytes() -> impl Strategy<Value = u8> {
    prop_oneof![
        any::<u8>(),
        select(b"\x00\x01\x02\x08\x21\x2c\x3b\x7f\x80\xc0\xd9\xda\xdc\xfe\xff".as_slice())
    ]
}

fn mutations() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => (any::<Index>(), telling_bytes()).prop_map(|(index, byte)| Mutation::Set(index, byte)),
        1 => any::<Index>().prop_map(Mutation::Cut),
        1 => (any::<Index>(), vec(telling_bytes(), 1..20)).prop_map(|(index, bytes)| Mutation::Insert(index, bytes)),
        1 => (any::<Index>(), 1..20_usize).prop_map(|(index, count)| Mutation::Remove(index, count)),
        2 => Just(Mutation::FixRiffSize),
        1 => Just(Mutation::EndLikeJpeg),
    ]
}

proptest! {
    #[test]
    fn changed_images_are_inspected_without_a_panic(
        which in any::<Index>(),
        coded in vec(telling_bytes(), 0..600),
        changes in vec(mutations(), 0..8),
    ) {
        let images = whole_images(&coded);
        let mut image = which.get(&images).clone();
        for change in &changes {
            change.apply(&mut image);
        }
        check_bytes(&image);
    }

    #[test]
    fn noise_behind_a_signature_is_inspected_without_a_panic(
        signature in select(SIGNATURES.as_slice()),
        noise in vec(telling_bytes(), 0..300),
    ) {
        let mut data = [signature, &noise].concat();
        check_bytes(&data);
        Mutation::FixRiffSize.apply(&mut data);
        Mutation::EndLikeJpeg.apply(&mut data);
        check_bytes(&data);
    }

    #[test]
    fn any_bytes_make_an_image_and_its_changes(data in vec(any::<u8>(), 0..400)) {
        check_changed_image(&data);
    }

    #[test]
    fn a_png_with_one_bit_flipped_behind_its_signature_is_not_whole(
        coded in vec(any::<u8>(), 0..100), place in any::<Index>(), bit in 0..8_u8,
    ) {
        let mut image = whole_images(&coded)[0].clone();
        let place = 8 + place.index(image.len() - 8);
        image[place] ^= 1 << bit;
        prop_assert!(!inspect(&image).is_ok_and(|found| found.damage.is_none()));
    }
}
