//! The classes of code points and the events between neighbours: the whole model, as two tables.

/// What a code point is. The discriminant is the index of its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    Lowercase,
    /// A lowercase letter that English seldom uses: many of them tell of another language, or of digests.
    RareLowercase,
    Uppercase,
    Digit,
    Blank,
    Newline,
    Punctuation,
    Control,
    Latin,
    LatinExtended,
    Vietnamese,
    Greek,
    Cyrillic,
    CyrillicExtended,
    Hebrew,
    Arabic,
    Devanagari,
    Bengali,
    Thai,
    Han,
    Kana,
    Hangul,
    WidePunctuation,
    Symbol,
    Emoji,
    /// Any script without a weight of its own, lone surrogates, and what is no character.
    Other,
}

/// What a code point and the one before it are together, besides their classes. `None` has no count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Event {
    /// A letter that follows neither a letter nor a digit.
    WordStart = Class::Other as u8 + 1,
    LetterAfterDigit,
    /// A letter beyond ASCII that follows an ASCII letter.
    AccentInWord,
    DigitStart,
    PunctuationAfterBlank,
    /// Punctuation that follows neither punctuation nor a blank.
    PunctuationStart,
    None,
}

const CLASSES: usize = Class::Other as usize + 1;

/// How many counts a text has.
pub const FEATURES: usize = Event::None as usize;

/// The counts by name, in the order of weights.
pub const FEATURE_NAMES: [&str; FEATURES] = [
    "lowercase",
    "rare_lowercase",
    "uppercase",
    "digits",
    "blanks",
    "newlines",
    "punctuation",
    "controls",
    "latin",
    "latin_extended",
    "vietnamese",
    "greek",
    "cyrillic",
    "cyrillic_extended",
    "hebrew",
    "arabic",
    "devanagari",
    "bengali",
    "thai",
    "han",
    "kana",
    "hangul",
    "wide_punctuation",
    "symbols",
    "emoji",
    "other",
    "word_starts",
    "letters_after_digits",
    "accents_in_words",
    "digit_starts",
    "punctuation_after_blanks",
    "punctuation_starts",
];

/// Ranges beyond ASCII with their ends, every bound a multiple of `GRAIN`. The rest is `Other`.
const RANGES: [(usize, usize, Class); 24] = [
    (0x0080, 0x00c0, Class::Symbol),
    (0x00c0, 0x0100, Class::Latin),
    (0x0100, 0x0250, Class::LatinExtended),
    (0x0370, 0x0400, Class::Greek),
    (0x0400, 0x0410, Class::CyrillicExtended),
    (0x0410, 0x0450, Class::Cyrillic),
    (0x0450, 0x0530, Class::CyrillicExtended),
    (0x0590, 0x0600, Class::Hebrew),
    (0x0600, 0x0700, Class::Arabic),
    (0x0750, 0x0780, Class::Arabic),
    (0x0900, 0x0980, Class::Devanagari),
    (0x0980, 0x0a00, Class::Bengali),
    (0x0e00, 0x0e80, Class::Thai),
    (0x1e00, 0x1f00, Class::Vietnamese),
    (0x1f00, 0x2000, Class::Greek),
    (0x2000, 0x2c00, Class::Symbol),
    (0x2e00, 0x2e80, Class::Symbol),
    (0x3000, 0x3040, Class::WidePunctuation),
    (0x3040, 0x3100, Class::Kana),
    (0x3400, 0xa000, Class::Han),
    (0xac00, 0xd7b0, Class::Hangul),
    (0xf900, 0xfb00, Class::Han),
    (0xfe00, 0xfe10, Class::Symbol),
    (0xff00, 0xfff0, Class::WidePunctuation),
];

const GRAIN: usize = 16;
const ASCII_CLASSES: [Class; 128] = ascii_classes();
const GRAIN_CLASSES: [Class; 0x1_0000 / GRAIN] = grain_classes();

/// `[before][class]`; the extra row is for the first code point of a text.
const EVENTS: [[Event; CLASSES]; CLASSES + 1] = events();

/// The row of `EVENTS` for the first code point of a text.
pub(crate) const BEFORE_TEXT: usize = CLASSES;

#[inline]
pub(crate) fn class_of(code: u32) -> Class {
    let index = code as usize;
    if let Some(class) = ASCII_CLASSES.get(index) {
        *class
    } else if let Some(class) = GRAIN_CLASSES.get(index / GRAIN) {
        *class
    } else if (0x1_f000..0x1_fb00).contains(&code) {
        Class::Emoji
    } else {
        Class::Other
    }
}

/// Returns the event of a code point of `class` behind one whose class has the index `before`.
#[inline]
pub(crate) fn event_of(before: usize, class: Class) -> Event {
    EVENTS[before][class as usize]
}

const fn ascii_classes() -> [Class; 128] {
    let mut classes = [Class::Control; 128];
    let mut code = 0_u8;
    while code < 128 {
        classes[code as usize] = match code {
            b'j' | b'k' | b'q' | b'x' | b'z' => Class::RareLowercase,
            b'a'..=b'z' => Class::Lowercase,
            b'A'..=b'Z' => Class::Uppercase,
            b'0'..=b'9' => Class::Digit,
            b' ' | b'\t' => Class::Blank,
            b'\n' | b'\r' => Class::Newline,
            b'!'..=b'~' => Class::Punctuation,
            _ => Class::Control,
        };
        code += 1;
    }
    classes
}

const fn grain_classes() -> [Class; 0x1_0000 / GRAIN] {
    let mut classes = [Class::Other; 0x1_0000 / GRAIN];
    let mut range = 0;
    while range < RANGES.len() {
        let (start, end, class) = RANGES[range];
        assert!(start % GRAIN == 0 && end % GRAIN == 0);
        let mut grain = start / GRAIN;
        while grain < end / GRAIN {
            classes[grain] = class;
            grain += 1;
        }
        range += 1;
    }
    classes
}

const fn events() -> [[Event; CLASSES]; CLASSES + 1] {
    let mut events = [[Event::None; CLASSES]; CLASSES + 1];
    let mut before = 0;
    while before <= CLASSES {
        let mut class = 0;
        while class < CLASSES {
            events[before][class] = event(before, class);
            class += 1;
        }
        before += 1;
    }
    events
}

const fn event(before: usize, class: usize) -> Event {
    const PUNCTUATION: usize = Class::Punctuation as usize;
    const DIGIT: usize = Class::Digit as usize;
    if is_letter(class) {
        if before == DIGIT {
            Event::LetterAfterDigit
        } else if !is_letter(before) {
            Event::WordStart
        } else if is_ascii_letter(before) && !is_ascii_letter(class) {
            Event::AccentInWord
        } else {
            Event::None
        }
    } else if class == DIGIT && before != DIGIT {
        Event::DigitStart
    } else if class == PUNCTUATION && before == Class::Blank as usize {
        Event::PunctuationAfterBlank
    } else if class == PUNCTUATION && before != PUNCTUATION {
        Event::PunctuationStart
    } else {
        Event::None
    }
}

const fn is_ascii_letter(class: usize) -> bool {
    class <= Class::Uppercase as usize
}

/// Whether a class is of a script whose words are made of several letters.
const fn is_letter(class: usize) -> bool {
    is_ascii_letter(class) || (Class::Latin as usize <= class && class <= Class::Thai as usize)
}
