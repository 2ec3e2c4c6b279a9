//! What is read of any text, beside what `serde_json` reads of it.

use agents_json_text::{Builder, Problem, ProblemKind, Read, ReadError, Scalar, read_object};
use serde_json::{Map, Number, Value};

/// Less than the depth at which `serde_json` gives up.
const MAX_DEPTH: usize = 100;

/// Reads a text, and holds what is true of the answer: the body of a fuzz target.
pub fn check(text: &str) {
    let theirs = serde_json::from_str::<Value>(text);
    let problem = match read(text) {
        Ok((value, Read { healed: false })) => return assert_eq!(Some(value), theirs.ok(), "{text:?}"),
        // Their strings hold no lone surrogates.
        Ok((_, Read { healed: true })) => return assert!(theirs.is_err(), "{text:?}"),
        Err(problem) => problem,
    };
    let place = place_of(text, &problem);
    let (before, behind) = text.split_at(place);
    let next = behind.chars().next();
    match &problem.kind {
        ProblemKind::NotJson => {
            assert!(theirs.is_err(), "{text:?}");
            // The text before the place can go on, and with the next character it cannot.
            let end = place + next.map_or(0, char::len_utf8);
            assert_eq!(read(&text[..end]), Err(problem));
            assert!(can_go_on(before), "{text:?}");
        }
        ProblemKind::CutOff => {
            assert!(theirs.is_err() && behind.is_empty(), "{text:?}");
        }
        ProblemKind::NotAnObject => {
            assert!(theirs.map_or(text.contains("\\u"), |value| !value.is_object()), "{text:?}");
        }
        ProblemKind::NumberOutOfRange => {
            assert!(theirs.is_err() && matches!(next, Some('-' | '0'..='9' | 'N' | 'I')), "{text:?}");
        }
        ProblemKind::RepeatedKey(_) => assert_eq!(next, Some('"'), "{text:?}"),
        ProblemKind::TooDeep => assert!(matches!(next, Some('[' | '{')), "{text:?}"),
    }
}

/// Whether text that is no object is the beginning of JSON text at least.
fn can_go_on(text: &str) -> bool {
    match read(text) {
        Ok(_) | Err(Problem { kind: ProblemKind::CutOff | ProblemKind::NotAnObject, .. }) => true,
        Err(_) => false,
    }
}

fn read(text: &str) -> Result<(Value, Read), Problem> {
    let mut tree = Tree { open: Vec::new(), root: Value::Null };
    match read_object(text, MAX_DEPTH, &mut tree) {
        Ok(read) => Ok((tree.root, read)),
        Err(ReadError::Problem(problem)) => Err(problem),
    }
}

fn place_of(text: &str, problem: &Problem) -> usize {
    let mut place = 0;
    for _ in 1..problem.line {
        place += text[place..].find('\n').expect("a line") + 1;
    }
    let mut characters = text[place..].char_indices().map(|(index, _)| index).chain([text.len() - place]);
    place + characters.nth(problem.column - 1).expect("a column")
}

/// A value as `serde_json` holds it.
struct Tree {
    /// Each with the key of its next value, if it is an object.
    open: Vec<(Value, String)>,
    root: Value,
}

impl Tree {
    fn add(&mut self, value: Value) {
        match self.open.last_mut() {
            Some((Value::Object(members), key)) => {
                members.insert(key.clone(), value);
            }
            Some((Value::Array(items), _)) => items.push(value),
            _ => self.root = value,
        }
    }
}

impl Builder for Tree {
    type Error = std::convert::Infallible;

    fn begin_object(&mut self) -> Result<(), Self::Error> {
        self.open.push((Value::Object(Map::new()), String::new()));
        Ok(())
    }

    fn begin_array(&mut self) -> Result<(), Self::Error> {
        self.open.push((Value::Array(Vec::new()), String::new()));
        Ok(())
    }

    fn end(&mut self) -> Result<(), Self::Error> {
        let (value, _) = self.open.pop().expect("what ends has begun");
        self.add(value);
        Ok(())
    }

    fn key(&mut self, key: &str) -> Result<bool, Self::Error> {
        let (value, next) = self.open.last_mut().expect("a key is in an object");
        key.clone_into(next);
        Ok(!value.as_object().expect("a key is in an object").contains_key(key))
    }

    fn scalar(&mut self, value: Scalar<'_>) -> Result<bool, Self::Error> {
        let value = match value {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::String(text) => Value::String(text.to_owned()),
            Scalar::Float(value) => Value::Number(Number::from_f64(value).expect("finite")),
            // Integers beyond 64 bits, and minus zero, are floats to them.
            Scalar::Integer(digits) => match (digits.parse::<u64>(), digits.parse::<i64>()) {
                (Ok(value), _) => Value::from(value),
                (_, Ok(value)) if value != 0 => Value::from(value),
                _ => match Number::from_f64(digits.parse().expect("digits")) {
                    Some(number) => Value::Number(number),
                    None => return Ok(false),
                },
            },
        };
        self.add(value);
        Ok(true)
    }
}
