//! `--trace DIR`: writes requests, responses and contexts to files.
//!
//! ```text
//!  000-request.json   000-response.txt   the first call
//!  001-request.json   001-response.txt   the first continuation, and so on
//!  001-2-request.json 001-2-response.txt the same, asked again after a refusal that does not count
//!  001-contexts.json                     the contexts of the cut before it
//! ```
//! Headers are not written, since they have the key. If a body quotes the key, it is replaced by `[key]`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memmem;

use crate::proxy::Tap;

/// Writes calls to a folder.
#[derive(Debug)]
pub(super) struct Trace {
    folder: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    /// The open call, and how often it was asked for.
    call: Option<(u32, u32)>,
    /// The response of the open call.
    response: Option<File>,
    redactor: Redactor,
    /// The first error of writing.
    error: Option<io::Error>,
}

impl Trace {
    /// Makes a trace in `folder`, and the folder. `key` is removed from everything.
    pub(super) fn new(folder: &Path, key: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let open = Open { call: None, response: None, redactor: Redactor::new(key), error: None };
        Ok(Self { folder: folder.to_owned(), open: Mutex::new(open) })
    }

    /// Ends the trace. Fails if something could not be written.
    pub(super) fn finish(&self) -> io::Result<()> {
        let mut open = self.open();
        open.end();
        open.error.take().map_or(Ok(()), Err)
    }

    /// Writes one file of a call.
    pub(super) fn write(&self, call: u32, name: &str, content: &[u8]) {
        let mut open = self.open();
        let whole = Redactor::new(&open.redactor.key).whole(content);
        open.check(fs::write(self.path(call, name), whole));
    }

    fn path(&self, call: u32, name: &str) -> PathBuf {
        self.folder.join(format!("{call:03}-{name}"))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap for Trace {
    fn request(&self, call: u32, body: &[u8]) {
        let again = match self.open().again(call) {
            1 => String::new(),
            again => format!("{again}-"),
        };
        self.write(call, &format!("{again}request.json"), body);
        let mut open = self.open();
        open.end();
        let created = File::create(self.path(call, &format!("{again}response.txt")));
        open.response = created.map_err(|error| open.check(Err(error))).ok();
    }

    fn response(&self, bytes: &[u8]) {
        let mut open = self.open();
        let certain = open.redactor.push(bytes);
        open.append(&certain);
    }
}

impl Open {
    /// Counts how often this call was asked for, including this time.
    fn again(&mut self, call: u32) -> u32 {
        let again = self.call.filter(|(last, _)| *last == call).map_or(1, |(_, again)| again.saturating_add(1));
        self.call = Some((call, again));
        again
    }

    fn end(&mut self) {
        let rest = self.redactor.finish();
        self.append(&rest);
        self.response = None;
    }

    fn append(&mut self, bytes: &[u8]) {
        if let Some(written) = self.response.as_mut().map(|file| file.write_all(bytes)) {
            self.check(written);
        }
    }

    fn check(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }
}

/// Removes a key from text that arrives in pieces.
#[derive(Debug)]
struct Redactor {
    key: String,
    /// The end of the text so far, which may begin with a part of the key.
    pending: Vec<u8>,
}

impl Redactor {
    fn new(key: &str) -> Self {
        Self { key: key.to_owned(), pending: Vec::new() }
    }

    /// Takes text, and returns all that is certain.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        if self.key.is_empty() {
            return std::mem::take(&mut self.pending);
        }
        let (mut certain, mut from) = (Vec::with_capacity(self.pending.len()), 0);
        for at in memmem::find_iter(&self.pending, &self.key) {
            certain.extend_from_slice(self.pending.get(from..at).unwrap_or_default());
            certain.extend_from_slice(b"[key]");
            from = at + self.key.len();
        }
        let end = self.pending.len().saturating_sub(self.key.len() - 1).max(from);
        certain.extend_from_slice(self.pending.get(from..end).unwrap_or_default());
        self.pending.drain(..end);
        certain
    }

    /// Returns the rest, and begins a new text.
    fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut whole = self.push(bytes);
        whole.append(&mut self.finish());
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::Redactor;

    #[test]
    fn a_key_is_removed_however_it_is_split() {
        let text = b"data: sk-secretsk-sk-secret. sk-secre";
        let expected = "data: [key]sk-[key]. sk-secre";
        for size in 1..=text.len() {
            let mut redactor = Redactor::new("sk-secret");
            let mut out: Vec<u8> = text.chunks(size).flat_map(|chunk| redactor.push(chunk)).collect();
            out.append(&mut redactor.finish());
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{size}");
        }
        assert_eq!(Redactor::new("").whole(text), text);
    }
}
