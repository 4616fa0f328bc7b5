//! Numbers as written, and their Rust types.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};

use super::SnapshotError;
use crate::json::Machine;

/// A number as written: `1.0` is not `1`, and no digit is lost.
///
/// Compared and hashed by its text. Serialized as an integer if it fits `u64` or `i64`, else as the
/// nearest `f64`; a number beyond `f64` is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number<'a> {
    text: &'a str,
}

/// A [`Number`] that owns its text.
///
/// A field of this type keeps the text in a snapshot. It does not if serde buffers values
/// (`flatten`, `untagged`, tagged enums), nor from another deserializer: there it holds the integer
/// or `f64` that serde passes.
///
/// ```
/// use restitch::value::{LiveValue, OwnedNumber};
///
/// let (mut document, mut value) = (restitch::Document::new(64), LiveValue::new());
/// document.push_with("[1.0, 123456789012345678901234567890]", &mut value)?;
/// let numbers: Vec<OwnedNumber> = value.snapshot()?;
/// assert_eq!(numbers[0].as_str(), "1.0");
/// assert_eq!(numbers[1].as_number().as_u128(), Some(123456789012345678901234567890));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedNumber {
    text: String,
}

/// The Rust type that fits a number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum NumberForm {
    Unsigned(u64),
    Negative(i64),
    Float(f64),
}

impl<'a> Number<'a> {
    /// Creates a number from a text that is a JSON number.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text }
    }

    /// Returns the number if `text` is a JSON number.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut machine = Machine::new(0);
        let starts = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let is_number =
            starts && machine.feed(text.as_bytes()) == Ok(text.len()) && machine.finish().is_ok();
        is_number.then_some(Self { text })
    }

    /// Returns the text.
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// Returns an integer (no fraction, no exponent) that fits.
    pub fn as_u64(self) -> Option<u64> {
        self.text.parse().ok()
    }

    /// Returns an integer that fits. `-0` is not an integer.
    pub fn as_i64(self) -> Option<i64> {
        self.integer()?.parse().ok()
    }

    /// Returns an integer that fits.
    pub fn as_u128(self) -> Option<u128> {
        self.text.parse().ok()
    }

    /// Returns an integer that fits. `-0` is not an integer.
    pub fn as_i128(self) -> Option<i128> {
        self.integer()?.parse().ok()
    }

    /// Returns the nearest `f64`; `None` beyond the largest.
    pub fn as_f64(self) -> Option<f64> {
        self.text
            .parse()
            .ok()
            .filter(|float: &f64| float.is_finite())
    }

    /// Returns the text unless it is `-0`: no integer has a negative zero.
    fn integer(self) -> Option<&'a str> {
        (self.text != "-0").then_some(self.text)
    }

    fn form(self) -> Option<NumberForm> {
        let unsigned = self.as_u64().map(NumberForm::Unsigned);
        unsigned
            .or_else(|| self.as_i64().map(NumberForm::Negative))
            .or_else(|| self.as_f64().map(NumberForm::Float))
    }

    /// Calls the visitor with the type that fits best.
    pub(super) fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SnapshotError> {
        match self.form() {
            Some(NumberForm::Unsigned(number)) => visitor.visit_u64(number),
            Some(NumberForm::Negative(number)) => visitor.visit_i64(number),
            Some(NumberForm::Float(number)) => visitor.visit_f64(number),
            None => Err(SnapshotError::for_good(OUT_OF_RANGE)),
        }
    }
}

impl OwnedNumber {
    /// Borrows the number.
    pub fn as_number(&self) -> Number<'_> {
        Number { text: &self.text }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<Number<'_>> for OwnedNumber {
    fn from(number: Number<'_>) -> Self {
        Self {
            text: number.text.to_owned(),
        }
    }
}

impl fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl fmt::Display for OwnedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Number<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.form() {
            Some(NumberForm::Unsigned(number)) => serializer.serialize_u64(number),
            Some(NumberForm::Negative(number)) => serializer.serialize_i64(number),
            Some(NumberForm::Float(number)) => serializer.serialize_f64(number),
            None => Err(S::Error::custom(OUT_OF_RANGE)),
        }
    }
}

impl Serialize for OwnedNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_number().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OwnedNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(TEXT, Taker { takes_text: true })
    }
}

/// Takes a number from any deserializer. A [`View`](super::View) passes a number as text if it is
/// asked for [`TEXT`]. Other deserializers pass the inner value of a newtype, where text does not
/// count as a number, or pass the number directly.
struct Taker {
    takes_text: bool,
}

impl<'de> Visitor<'de> for Taker {
    type Value = OwnedNumber;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<OwnedNumber, D::Error> {
        deserializer.deserialize_any(Self { takes_text: false })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OwnedNumber, E> {
        let number = Number::parse(text).filter(|_| self.takes_text);
        Ok(number
            .ok_or_else(|| E::invalid_type(Unexpected::Str(text), &self))?
            .into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<OwnedNumber, E> {
        Ok(OwnedNumber {
            text: number.to_string(),
        })
    }

    fn visit_i64<E>(self, number: i64) -> Result<OwnedNumber, E> {
        Ok(OwnedNumber {
            text: number.to_string(),
        })
    }

    fn visit_u128<E>(self, number: u128) -> Result<OwnedNumber, E> {
        Ok(OwnedNumber {
            text: number.to_string(),
        })
    }

    fn visit_i128<E>(self, number: i128) -> Result<OwnedNumber, E> {
        Ok(OwnedNumber {
            text: number.to_string(),
        })
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<OwnedNumber, E> {
        if !number.is_finite() {
            return Err(E::invalid_value(Unexpected::Float(number), &self));
        }
        // The debug form is shorter for large and small numbers. Both are JSON.
        Ok(OwnedNumber {
            text: format!("{number:?}"),
        })
    }
}

/// The name by which [`OwnedNumber`] asks a view's deserializer for the text of a number. No user's
/// type has this name.
pub(super) const TEXT: &str = "$restitch::value::Number";

const OUT_OF_RANGE: &str = "number out of range";

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn only_json_numbers_are_numbers() {
        for text in [
            "0",
            "-0",
            "1.0",
            "1e5",
            "-1.50E+2",
            "123456789012345678901234567890",
        ] {
            assert_eq!(Number::parse(text).map(Number::as_str), Some(text));
        }
        for text in [
            "", "-", "01", "1.", ".5", "1e", " 1", "1 ", "+1", "0x1", "NaN", "1,2", "null", "[1]",
        ] {
            assert_eq!(Number::parse(text), None, "{text}");
        }
    }
}
