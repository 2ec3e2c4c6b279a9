//! Integers and floats, as Python's `repr` spells them.

/// Below this magnitude Python switches to exponents.
const SMALLEST_FIXED: f64 = 1e-4;

/// Appends `value` in decimal.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the shortest text that reads back as `value`, laid out as `repr(float)` lays it out.
///
/// Values that are not finite become the words `NaN`, `Infinity` and `-Infinity`, the default of
/// `json.dumps`. Where two shortest candidates are equally near, the even digit wins.
pub fn write_float(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        out.extend_from_slice(if value.is_nan() {
            b"NaN"
        } else if value > 0.0 {
            b"Infinity"
        } else {
            b"-Infinity"
        });
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value).as_bytes();
    if value == 0.0 || value.abs() >= SMALLEST_FIXED {
        out.extend_from_slice(text);
    } else {
        write_small(out, text);
    }
}

/// Appends a value nearer to zero than 1e-4: Python writes an exponent of two digits at least.
fn write_small(out: &mut Vec<u8>, text: &[u8]) {
    let magnitude = if let [b'-', magnitude @ ..] = text {
        out.push(b'-');
        magnitude
    } else {
        text
    };
    // The shortest printer still writes 1e-5..1e-4 without an exponent.
    if let [b'0', b'.', b'0', b'0', b'0', b'0', digits @ ..] = magnitude {
        write_mantissa(out, digits);
        out.extend_from_slice(b"e-05");
    } else if let [mantissa @ .., b'e', b'-', exponent] = magnitude {
        out.extend_from_slice(mantissa);
        out.extend_from_slice(&[b'e', b'-', b'0', *exponent]);
    } else {
        out.extend_from_slice(magnitude);
    }
}

fn write_mantissa(out: &mut Vec<u8>, digits: &[u8]) {
    match digits {
        [first] => out.push(*first),
        [first, rest @ ..] => {
            out.extend_from_slice(&[*first, b'.']);
            out.extend_from_slice(rest);
        }
        [] => {}
    }
}
