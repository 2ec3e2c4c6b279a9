//! Escapes of lone surrogates, which no text can hold.

use std::borrow::Cow;

/// Bytes of an escaped UTF-16 code unit: `\uXXXX`.
const ESCAPE: usize = 6;

/// Returns JSON text in which each escape of a lone surrogate is that of U+FFFD.
///
/// Both have the same length, so places in the text stay what they are. A backslash outside a string may be
/// taken for the start of an escape; such a text is no JSON before and after.
pub(crate) fn heal_escapes(text: &[u8]) -> Cow<'_, [u8]> {
    let mut healed = Cow::Borrowed(text);
    let mut place = 0;
    while let Some(distance) = text.get(place..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        let escape = place + distance;
        place = escape
            + match escaped_unit_at(text, escape) {
                Some(0xd800..0xdc00)
                    if matches!(escaped_unit_at(text, escape + ESCAPE), Some(0xdc00..0xe000)) =>
                {
                    2 * ESCAPE
                }
                Some(0xd800..0xe000) => {
                    healed.to_mut()[escape..escape + ESCAPE].copy_from_slice(b"\\ufffd");
                    ESCAPE
                }
                _ => 2,
            };
    }
    healed
}

fn escaped_unit_at(text: &[u8], place: usize) -> Option<u16> {
    let [b'\\', b'u', digits @ ..] = text.get(place..place + ESCAPE)? else { return None };
    digits.iter().try_fold(0, |unit, digit| {
        let value = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(value).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::heal_escapes;

    #[test]
    fn lone_surrogates_are_healed_and_pairs_are_kept() {
        for (text, expected) in [
            (r"plain", r"plain"),
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"\uD83D\uDE00\uD83D", r"\uD83D\uDE00\ufffd"),
            (r"\ude00\ud83d", r"\ufffd\ufffd"),
            (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
            (r"\\ud83d", r"\\ud83d"),
            (r"\\\ud83d", r"\\\ufffd"),
            (r"\ud83d\u12", r"\ufffd\u12"),
            (r"\ud83d\n", r"\ufffd\n"),
            (r"\ud83", r"\ud83"),
            ("\\", "\\"),
        ] {
            assert_eq!(heal_escapes(text.as_bytes()), expected.as_bytes());
        }
    }
}
