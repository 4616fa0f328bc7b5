//! Secrets of the operator: the tokens of clients and the keys of upstreams. Reads them from the
//! environment or from files, which may change while the proxy runs.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::setup::SetupError;

/// Where a secret is: `env:VARIABLE` or `file:PATH` in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum SecretSource {
    /// A variable of the environment.
    Variable(String),
    /// A file, which has the secret alone.
    File(PathBuf),
}

impl TryFrom<String> for SecretSource {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        match text.split_once(':') {
            Some(("env", name)) => Self::variable(name),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            // The text is not repeated, since it may be the secret.
            _ => Err("a secret is `env:VARIABLE` or `file:PATH`: is this the secret itself?"),
        }
    }
}

impl From<SecretSource> for String {
    fn from(source: SecretSource) -> Self {
        match source {
            SecretSource::Variable(name) => format!("env:{name}"),
            SecretSource::File(path) => format!("file:{}", path.display()),
        }
    }
}

impl SecretSource {
    /// Returns the variable of this name.
    pub(crate) fn variable(name: &str) -> Result<Self, &'static str> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_name = !name.is_empty()
            && name.bytes().all(is_plain)
            && !name.starts_with(|c: char| c.is_ascii_digit());
        // Most secrets have other characters. The text is not repeated, since it may be one.
        match is_name {
            true => Ok(Self::Variable(name.to_owned())),
            false => Err("this is not a variable's name: is it the value itself?"),
        }
    }
}

/// A secret with its source.
#[derive(Clone)]
pub(super) struct Secret {
    source: SecretSource,
    value: Arc<str>,
    /// The fewest characters that it must have.
    least: usize,
}

impl Secret {
    /// Reads a secret of at least `least` characters. `user`: the flag, the route or the token that
    /// needs it, for the error, which never contains the secret. `variable` returns the value of a
    /// variable of the environment.
    pub(super) fn read(
        source: SecretSource,
        least: usize,
        user: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, SetupError> {
        let value = match &source {
            SecretSource::Variable(name) => {
                let value = variable(name).filter(|value| !value.is_empty());
                let value = match value {
                    Some(value) => checked(&value, least).map_err(|why| format!("{name} {why}")),
                    None => Err(format!("the environment has no {name}, or nothing in it")),
                };
                value.map_err(|why| SetupError::Setting(format!("{user}: {why}")))?
            }
            SecretSource::File(path) => {
                read_file(path, least).map_err(|why| SetupError::File(format!("{user}: {why}")))?
            }
        };
        Ok(Self {
            source,
            value,
            least,
        })
    }

    /// Returns the secret itself.
    pub(super) fn value(&self) -> &str {
        &self.value
    }

    /// Returns its file, if it has one.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.source {
            SecretSource::File(path) => Some(path),
            SecretSource::Variable(_) => None,
        }
    }

    /// Reads its file again. `None`: the file still has this secret, or there is no file. The error
    /// names the file.
    pub(super) fn read_again(&self) -> Result<Option<Self>, String> {
        let Some(path) = self.file() else {
            return Ok(None);
        };
        let value = read_file(path, self.least)?;
        Ok((value != self.value).then(|| Self {
            value,
            ..self.clone()
        }))
    }

    /// Returns whether another secret is read from the same source, and checked alike.
    pub(super) fn is_of_same(&self, other: &Self) -> bool {
        other.source == self.source && other.least == self.least
    }

    /// Takes over the value of a newer reading of the same file.
    pub(super) fn update(&mut self, newer: &[Self]) {
        if let Some(newer) = newer.iter().find(|newer| self.is_of_same(newer)) {
            self.value = Arc::clone(&newer.value);
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Reads the secret in a file, without the line end after it.
fn read_file(path: &Path, least: usize) -> Result<Arc<str>, String> {
    let named = |mistake: &dyn fmt::Display| format!("{}: {mistake}", path.display());
    let read = || -> io::Result<Option<Vec<u8>>> {
        // Opening a pipe would wait for a writer.
        if !fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        File::open(path)?
            .take(LONGEST + 1)
            .read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    };
    let bytes = read()
        .map_err(|error| named(&error))?
        .ok_or_else(|| named(&"a secret is read from a regular file alone"))?;
    if bytes.len() as u64 > LONGEST {
        return Err(named(&format_args!(
            "a secret has at most {LONGEST} bytes, and the file has more"
        )));
    }
    let text = String::from_utf8_lossy(&bytes);
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(named(&"the file is empty"));
    }
    checked(secret, least).map_err(|mistake| named(&format_args!("the secret {mistake}")))
}

/// Checks a secret. The error does not repeat it.
fn checked(secret: &str, least: usize) -> Result<Arc<str>, String> {
    // A header can carry it.
    if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has characters other than visible ASCII, such as a line end".to_owned());
    }
    if secret.len() < least {
        return Err(format!(
            "is too short: it needs at least {least} characters, so that it can't be guessed"
        ));
    }
    Ok(secret.into())
}

// Orchestrators replace a mounted secret within a minute of its change, so this adds little.
/// The interval between two readings of the files.
pub(super) const POLL: Duration = Duration::from_secs(10);

// A signed token of a cloud provider has some 2,000 bytes.
/// The most bytes of a file with a secret.
const LONGEST: u64 = 8 << 10;

// 16 random characters from an alphabet of 16 have 64 bits: too many to guess over a network.
/// The fewest characters of a client's token.
pub(super) const SHORTEST_TOKEN: usize = 16;
// The provider chooses its keys.
/// The fewest characters of an upstream's key.
pub(super) const SHORTEST_UPSTREAM_KEY: usize = 1;
