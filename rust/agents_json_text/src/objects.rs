//! Strict reading of JSON text of one object, as a model writes it for arguments.
//!
//! What is read means the same to every reader: one object and nothing around it, no key twice, numbers that
//! a reader can hold, text without lone surrogates, no more levels than are allowed. The first thing in the
//! text that is wrong is the one that is told, and where.

use std::borrow::Cow;

use jiter::{Jiter, JiterError, JiterErrorType, JsonErrorType, Peek};

use crate::surrogates::heal_escapes;

/// Digits of the longest integer: what Python agrees to read, and more than anybody means.
pub const MAX_INTEGER_DIGITS: usize = 4300;

/// A value that holds no other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'text> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// The digits of an integer, with its sign, at most [`MAX_INTEGER_DIGITS`] of them.
    Integer(&'text str),
    /// A number with a fraction or an exponent, which is finite.
    Float(f64),
    /// The text between quotes, without escapes.
    String(&'text str),
}

/// Puts a value together while its text is read.
///
/// A value belongs to the container that was begun last and has not ended: behind the last key, if that is an
/// object.
pub trait Builder {
    /// Why building had to stop, which is no fault of the text.
    type Error;

    /// An object begins.
    ///
    /// # Errors
    ///
    /// Building has to stop.
    fn begin_object(&mut self) -> Result<(), Self::Error>;

    /// An array begins.
    ///
    /// # Errors
    ///
    /// Building has to stop.
    fn begin_array(&mut self) -> Result<(), Self::Error>;

    /// The container that was begun last ends.
    ///
    /// # Errors
    ///
    /// Building has to stop.
    fn end(&mut self) -> Result<(), Self::Error>;

    /// Takes a key of an object, or says with `false` that the object has it already.
    ///
    /// # Errors
    ///
    /// Building has to stop.
    fn key(&mut self, key: &str) -> Result<bool, Self::Error>;

    /// Takes a value, or says with `false` that it is a number which cannot be held.
    ///
    /// # Errors
    ///
    /// Building has to stop.
    fn scalar(&mut self, value: Scalar<'_>) -> Result<bool, Self::Error>;
}

/// What is known of a text that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Whether the text holds escapes of lone surrogates, in whose place U+FFFD was read.
    pub healed: bool,
}

/// Why a text was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError<E> {
    /// The text is wrong.
    Problem(Problem),
    /// The builder had to stop.
    Builder(E),
}

/// The first thing in a text that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// The line, from 1.
    pub line: usize,
    /// The character in its line, from 1.
    pub column: usize,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// What comes before this character can begin JSON text, with this character it cannot.
    NotJson,
    /// The text ends where JSON text does not.
    CutOff,
    /// The text is JSON of something else than an object; the place is that of its value.
    NotAnObject,
    /// A number has no finite value, or too many digits.
    NumberOutOfRange,
    /// An object has this key, which begins here, already.
    RepeatedKey(String),
    /// An object or array begins here inside as many others as are allowed.
    TooDeep,
}

impl ProblemKind {
    /// The name that Python knows.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::CutOff => "cut_off",
            Self::NotAnObject => "not_an_object",
            Self::NumberOutOfRange => "number_out_of_range",
            Self::RepeatedKey(_) => "repeated_key",
            Self::TooDeep => "too_deep",
        }
    }
}

/// Reads JSON text of one object.
///
/// Takes memory for at most `max_depth` open containers, and never recurses.
///
/// # Errors
///
/// The first problem of the text, or what stopped the builder.
pub fn read_object<B: Builder>(
    text: &str,
    max_depth: usize,
    builder: &mut B,
) -> Result<Read, ReadError<B::Error>> {
    let healed = heal_escapes(text.as_bytes());
    let mut reader =
        Reader { text: &healed, jiter: Jiter::new(&healed), builder, open: Vec::new(), max_depth };
    match reader.read() {
        Ok(()) => Ok(Read { healed: matches!(healed, Cow::Owned(_)) }),
        Err(Stop::At(place, kind)) => Err(ReadError::Problem(problem_at(text, place, kind))),
        Err(Stop::Builder(error)) => Err(ReadError::Builder(error)),
    }
}

fn problem_at(text: &str, place: usize, kind: ProblemKind) -> Problem {
    let before = &text.as_bytes()[..place];
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    Problem {
        kind,
        line: 1 + memchr::memchr_iter(b'\n', before).count(),
        column: 1 + text.get(line_start..place).map_or(0, |line| line.chars().count()),
    }
}

enum Stop<E> {
    /// The byte of the text, or its end, where something is wrong.
    At(usize, ProblemKind),
    Builder(E),
}

#[derive(Clone, Copy)]
enum Container {
    Object,
    Array,
}

struct Reader<'text, 'builder, B> {
    text: &'text [u8],
    jiter: Jiter<'text>,
    builder: &'builder mut B,
    open: Vec<Container>,
    max_depth: usize,
}

impl<'text, B: Builder> Reader<'text, '_, B> {
    fn read(&mut self) -> Result<(), Stop<B::Error>> {
        let mut next = self.jiter.peek().map_err(|error| self.stop(&error))?;
        let (first, place) = (next, self.jiter.current_index());
        loop {
            let begun = self.read_value(next)?;
            match self.find_next_value(begun)? {
                Some(peek) => next = peek,
                None => break,
            }
        }
        self.jiter.finish().map_err(|error| self.stop(&error))?;
        if first == Peek::Object { Ok(()) } else { Err(Stop::At(place, ProblemKind::NotAnObject)) }
    }

    /// Reads a scalar, or begins a container and says so.
    fn read_value(&mut self, peek: Peek) -> Result<bool, Stop<B::Error>> {
        let place = self.jiter.current_index();
        if matches!(peek, Peek::Object | Peek::Array) {
            if self.open.len() == self.max_depth {
                return Err(Stop::At(place, ProblemKind::TooDeep));
            }
            let (container, begun) = if peek == Peek::Object {
                (Container::Object, self.builder.begin_object())
            } else {
                (Container::Array, self.builder.begin_array())
            };
            begun.map_err(Stop::Builder)?;
            self.open.push(container);
            return Ok(true);
        }
        let taken = match peek {
            Peek::String => match self.jiter.known_str() {
                Ok(text) => self.builder.scalar(Scalar::String(text)),
                Err(error) => return Err(self.stop(&error)),
            },
            Peek::Null => {
                self.jiter.known_null().map_err(|error| self.stop(&error))?;
                self.builder.scalar(Scalar::Null)
            }
            Peek::True | Peek::False => {
                let value = self.jiter.known_bool(peek).map_err(|error| self.stop(&error))?;
                self.builder.scalar(Scalar::Bool(value))
            }
            _ => {
                let number = self.read_number(peek, place)?;
                self.builder.scalar(number)
            }
        };
        match taken {
            Ok(true) => Ok(false),
            Ok(false) => Err(Stop::At(place, ProblemKind::NumberOutOfRange)),
            Err(error) => Err(Stop::Builder(error)),
        }
    }

    fn read_number(&mut self, peek: Peek, place: usize) -> Result<Scalar<'text>, Stop<B::Error>> {
        let out_of_range = Stop::At(place, ProblemKind::NumberOutOfRange);
        let rest = &self.text[place..];
        if [&b"NaN"[..], b"Infinity", b"-Infinity"].iter().any(|word| rest.starts_with(word)) {
            return Err(out_of_range);
        }
        match self.jiter.known_number_bytes(peek) {
            Ok(_) => {}
            Err(JiterError {
                error_type: JiterErrorType::JsonError(JsonErrorType::NumberOutOfRange),
                ..
            }) => return Err(out_of_range),
            Err(error) => return Err(self.stop(&error)),
        }
        let literal = self.jiter.slice_to_current(place);
        let Ok(literal) = str::from_utf8(literal) else { return Err(out_of_range) };
        if literal.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
            return Ok(Scalar::Integer(literal));
        }
        match literal.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Scalar::Float(value)),
            _ => Err(out_of_range),
        }
    }

    /// Ends the containers that have no further value, and finds that of the one that has.
    fn find_next_value(&mut self, mut begun: bool) -> Result<Option<Peek>, Stop<B::Error>> {
        while let Some(container) = self.open.last() {
            let next = match container {
                Container::Array if begun => self.jiter.known_array(),
                Container::Array => self.jiter.array_step(),
                Container::Object => self.read_key(begun)?,
            };
            match next.map_err(|error| self.stop(&error))? {
                Some(peek) => return Ok(Some(peek)),
                None => self.builder.end().map_err(Stop::Builder)?,
            }
            self.open.pop();
            begun = false;
        }
        Ok(None)
    }

    fn read_key(&mut self, begun: bool) -> Result<Result<Option<Peek>, JiterError>, Stop<B::Error>> {
        let place = self.jiter.current_index();
        let key = if begun { self.jiter.known_object() } else { self.jiter.next_key() };
        match key {
            Ok(Some(key)) => match self.builder.key(key) {
                Ok(true) => Ok(self.jiter.peek().map(Some)),
                Ok(false) => {
                    let key = key.to_owned();
                    // Between a key and what is before it nothing else has quotes.
                    let quote = memchr::memchr(b'"', &self.text[place..]).unwrap_or(0);
                    Err(Stop::At(place + quote, ProblemKind::RepeatedKey(key)))
                }
                Err(error) => Err(Stop::Builder(error)),
            },
            Ok(None) => Ok(Ok(None)),
            Err(error) => Ok(Err(error)),
        }
    }

    fn stop(&self, error: &JiterError) -> Stop<B::Error> {
        let place = error.index.min(self.text.len());
        let place =
            wrong_digit_of_last_escape(self.text).filter(|_| place == self.text.len()).unwrap_or(place);
        let kind = if place == self.text.len() { ProblemKind::CutOff } else { ProblemKind::NotJson };
        Stop::At(place, kind)
    }
}

/// Finds the character that makes an escape wrong which the end of the text makes too short as well: the
/// parser tells of the end alone.
fn wrong_digit_of_last_escape(text: &[u8]) -> Option<usize> {
    let tail = text.len().saturating_sub(5);
    memchr::memmem::find_iter(&text[tail..], b"\\u").find_map(|distance| {
        let escape = tail + distance;
        let backslashes = text[..=escape].iter().rev().take_while(|byte| **byte == b'\\').count();
        let digits = escape + 2;
        let wrong = text[digits..].iter().position(|byte| !byte.is_ascii_hexdigit())?;
        (backslashes % 2 == 1).then_some(digits + wrong)
    })
}
