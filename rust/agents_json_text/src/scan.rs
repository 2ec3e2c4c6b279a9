//! Finding the bytes that a spelling does not copy as they are.
//!
//! A byte is *plain* if it is copied. `ASCII` keeps printable ASCII only; otherwise everything but
//! controls below U+0020 is kept. Quotes and backslashes never are.

/// Bytes of a vector register, and bytes judged in one step while text stays plain.
pub(crate) const LANES: usize = 16;
const STRIDE: usize = 2 * LANES;

const EACH: u64 = u64::from_le_bytes([0x01; 8]);
const TOP: u64 = u64::from_le_bytes([0x80; 8]);

/// Returns how many bytes of `bytes` are plain before the first that is not.
#[inline]
pub(crate) fn plain_prefix<const ASCII: bool>(bytes: &[u8]) -> usize {
    let (strides, rest) = bytes.as_chunks::<STRIDE>();
    let plain_strides = strides.iter().take_while(|stride| all_plain::<ASCII, _>(stride)).count();
    // What is left is judged together with bytes already judged, to stay at one step.
    if plain_strides == strides.len() && (rest.is_empty() || ends_plain::<ASCII>(bytes)) {
        return bytes.len();
    }
    let mut prefix = plain_strides * STRIDE;
    while let Some(lanes) = bytes[prefix..].first_chunk() {
        let plain = plain_lanes::<ASCII>(lanes);
        prefix += plain;
        if plain < LANES {
            return prefix;
        }
    }
    prefix + bytes[prefix..].iter().take_while(|byte| is_plain::<ASCII>(**byte)).count()
}

/// Whether the last bytes are plain: a stride of them or, of a text shorter than that, all.
#[inline]
fn ends_plain<const ASCII: bool>(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk::<STRIDE>() {
        all_plain::<ASCII, _>(last)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<LANES>(), bytes.last_chunk::<LANES>()) {
        all_plain::<ASCII, _>(first) & all_plain::<ASCII, _>(last)
    } else {
        false
    }
}

/// Judged without an early exit, so that the compiler uses vector registers.
#[inline]
fn all_plain<const ASCII: bool, const N: usize>(bytes: &[u8; N]) -> bool {
    bytes.iter().fold(true, |all, byte| all & is_plain::<ASCII>(*byte))
}

/// Returns how many bytes are plain before the first that is not, without a branch that depends on it:
/// where an escape stands is what a processor cannot predict.
#[inline]
fn plain_lanes<const ASCII: bool>(bytes: &[u8; LANES]) -> usize {
    let [low, high] = [bytes.first_chunk(), bytes.last_chunk()]
        .map(|half| half.map_or(0, |half| u64::from_le_bytes(*half)));
    let odd = u128::from(marks::<ASCII>(low)) | u128::from(marks::<ASCII>(high)) << 64;
    odd.trailing_zeros() as usize / 8
}

/// Narrows code points to bytes if all of them are printable ASCII without quote and backslash.
#[inline]
pub(crate) fn narrow_plain<C: Copy + Into<u32>>(code_points: &[C; LANES]) -> Option<[u8; LANES]> {
    let plain = code_points.iter().fold(true, |all, code_point| {
        let code: u32 = (*code_point).into();
        all & (0x20..=0x7e).contains(&code) & (code != 0x22) & (code != 0x5c)
    });
    plain.then(|| {
        code_points.map(|code_point| {
            let [byte, ..] = code_point.into().to_le_bytes();
            byte
        })
    })
}

#[inline]
fn is_plain<const ASCII: bool>(byte: u8) -> bool {
    (byte >= b' ') & (byte != b'"') & (byte != b'\\') & !(ASCII & (byte > b'~'))
}

/// Sets the top bit of each byte of a little-endian word that is not plain. A carry out of such a byte may
/// mark bytes above it as well: the lowest mark is exact.
#[inline]
pub(crate) fn marks<const ASCII: bool>(word: u64) -> u64 {
    let control = word.wrapping_sub(EACH * 0x20);
    let quote = (word ^ (EACH * 0x22)).wrapping_sub(EACH);
    let backslash = (word ^ (EACH * 0x5c)).wrapping_sub(EACH);
    let below = (control | quote | backslash) & !word;
    let above = if ASCII { word.wrapping_add(EACH) | word } else { 0 };
    (below | above) & TOP
}

/// Packs fewer than eight bytes into a little-endian word, zeros behind them.
///
/// Reads of fixed size that overlap take the place of a copy of `short.len()` bytes, which would cost more
/// than all else that is done with a short string.
#[inline]
pub(crate) fn short_word(short: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (short.first_chunk(), short.last_chunk()) {
        let high = u64::from(u32::from_le_bytes(*last)) << (8 * (short.len() - 4));
        return high | u64::from(u32::from_le_bytes(*first));
    }
    match *short {
        [a, b, c] => u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16,
        [a, b] => u64::from(a) | u64::from(b) << 8,
        [a] => u64::from(a),
        _ => 0,
    }
}

/// Packs fewer than eight bytes into a word, plain bytes behind them.
#[inline]
pub(crate) fn padded_word(short: &[u8]) -> u64 {
    short_word(short) | (EACH * u64::from(b'a')) << (8 * short.len())
}

#[cfg(test)]
mod tests {
    use super::{is_plain, padded_word, plain_prefix, short_word};
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    fn prefix_by_bytes<const ASCII: bool>(bytes: &[u8]) -> usize {
        bytes.iter().take_while(|byte| is_plain::<ASCII>(**byte)).count()
    }

    proptest! {
        #[test]
        fn a_prefix_ends_at_the_first_byte_that_is_not_plain(
            plain in 0..200_usize,
            rest in vec(any::<u8>(), 0..40),
        ) {
            let bytes = [vec![b'a'; plain], rest].concat();
            prop_assert_eq!(plain_prefix::<true>(&bytes), prefix_by_bytes::<true>(&bytes));
            prop_assert_eq!(plain_prefix::<false>(&bytes), prefix_by_bytes::<false>(&bytes));
        }

        #[test]
        fn a_word_holds_the_short_bytes_in_order(short in vec(any::<u8>(), 0..8)) {
            let mut expected = [0; 8];
            expected[..short.len()].copy_from_slice(&short);
            prop_assert_eq!(short_word(&short).to_le_bytes(), expected);
            expected[short.len()..].fill(b'a');
            prop_assert_eq!(padded_word(&short).to_le_bytes(), expected);
        }
    }

    #[test]
    fn every_byte_is_judged_alike_at_every_place() {
        for byte in 0..=u8::MAX {
            for place in 0..100 {
                let mut bytes = [b'a'; 100];
                bytes[place] = byte;
                assert_eq!(plain_prefix::<true>(&bytes), prefix_by_bytes::<true>(&bytes));
                assert_eq!(plain_prefix::<false>(&bytes), prefix_by_bytes::<false>(&bytes));
            }
        }
    }
}
