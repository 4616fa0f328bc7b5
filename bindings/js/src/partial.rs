//! Partial JSON: one text to its complete part, or to its repair.

use napi::bindgen_prelude::Either;
use napi::{Error, Result, Status};
use napi_derive::napi;
use restitch::internal::document::read_whole;
use restitch::repair::{RepairLevel, RepairOptions};
use restitch::{Document, SourceLocation, SyntaxError};

/// A deviation in a text.
#[napi(object, object_from_js = false)]
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong, and where.
    pub message: String,
    /// The number of bytes before it, in UTF-8.
    pub byte: f64,
    /// Its index in the string.
    pub index: f64,
    /// The line, from 1 on.
    pub line: f64,
    /// The column in characters, from 1 on.
    pub column: f64,
    /// The JSON Pointer of the value that is due or open there.
    pub path: String,
    /// The text is right up to its end, and ends too early.
    pub is_truncated: bool,
}

impl Failure {
    fn at(message: String, text: &str, place: &SourceLocation, is_truncated: bool) -> Self {
        let before = text.get(..place.offset).unwrap_or(text);
        Self {
            message,
            byte: place.offset as f64,
            index: before.encode_utf16().count() as f64,
            line: place.line as f64,
            column: place.column as f64,
            path: place.path.clone(),
            is_truncated,
        }
    }

    /// Returns the failure for a deviation in a document.
    pub(crate) fn of(document: &Document, error: &SyntaxError) -> Self {
        let place = document.explain(error);
        let message = format!("{}: {place}", error.kind);
        Self::at(message, document.text(), &place, error.is_truncated())
    }

    /// Returns the failure for a text without JSON.
    pub(crate) fn without_json(text: &str) -> Self {
        Self::at(
            "there is no JSON in the text".to_owned(),
            text,
            &SourceLocation::at(text, text.len()),
            true,
        )
    }
}

/// Returns the JSON of a text for `JSON.parse`: its complete part if `partial`, otherwise the
/// whole document.
#[napi]
pub fn json_of(text: String, partial: bool) -> Either<String, Failure> {
    let (document, (), result) = read_whole(&text);
    match result {
        Err(error) if document.root_start().is_some() && !(partial && error.is_truncated()) => {
            Either::B(Failure::of(&document, &error))
        }
        _ => document
            .complete()
            .map_or_else(|| Either::B(Failure::without_json(&text)), Either::A),
    }
}

/// Returns the complete part of a text that is cut off; `None` if nothing of a document is certain.
#[napi]
pub fn complete(text: String) -> Either<Option<String>, Failure> {
    let (document, (), result) = read_whole(&text);
    match result {
        Err(error) if !error.is_truncated() => Either::B(Failure::of(&document, &error)),
        _ => Either::A(document.complete()),
    }
}

/// The result of a repair.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct Repaired {
    /// The repaired JSON, or the complete part of a text that is malformed or cut off.
    pub json: String,
    /// `valid`, `repaired`, `truncated` or `malformed`.
    pub status: String,
    /// The changes, as JSON.
    pub repairs: String,
}

/// Repairs the mistakes that models make in JSON.
#[napi]
pub fn repair(text: String, level: String) -> Result<Repaired> {
    let level = RepairLevel::named(&level)
        .map_err(|error| Error::new(Status::InvalidArg, format!("level: {error}")))?;
    let repaired = restitch::shape::repair(&text, &RepairOptions::new(level));
    let status = repaired.status.as_str().to_owned();
    let repairs = serde_json::to_string(&repaired.repairs).unwrap_or_default();
    Ok(Repaired {
        json: repaired.into_owned().json.into(),
        status,
        repairs,
    })
}
