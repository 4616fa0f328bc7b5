//! What went over the wire, in files: `--trace DIR`.
//!
//! ```text
//!  000-request.json   000-response.txt   the first call
//!  001-request.json   001-response.txt   the first continuation, and so on
//!  001-2-request.json 001-2-response.txt the same, asked again: it was refused, and nothing counted
//!  001-contexts.json                     what was known at the cut that it was asked at
//! ```
//! Headers are not written: they hold the key. Where a body quotes it, `[key]` stands.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memmem;

use crate::proxy::Tap;

/// Writes what it sees to a folder.
#[derive(Debug)]
pub(super) struct Trace {
    folder: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    /// The call that is made now, and how often it has been asked for.
    call: Option<(u32, u32)>,
    /// The response that comes now.
    response: Option<File>,
    redactor: Redactor,
    /// What could not be written first.
    error: Option<io::Error>,
}

impl Trace {
    /// A trace in `folder`, which is made. `key` is left out of everything.
    pub(super) fn new(folder: &Path, key: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let open = Open { call: None, response: None, redactor: Redactor::new(key), error: None };
        Ok(Self { folder: folder.to_owned(), open: Mutex::new(open) })
    }

    /// What could not be written, once all is over.
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
    /// How often this call has been asked for, with this time.
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

/// Leaves a key out of text that comes in pieces.
#[derive(Debug)]
struct Redactor {
    key: String,
    /// The end of what came: the key may stand across it and what follows.
    held: Vec<u8>,
}

impl Redactor {
    fn new(key: &str) -> Self {
        Self { key: key.to_owned(), held: Vec::new() }
    }

    /// What is certain of all that has come.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        if self.key.is_empty() {
            return std::mem::take(&mut self.held);
        }
        let (mut certain, mut from) = (Vec::with_capacity(self.held.len()), 0);
        for at in memmem::find_iter(&self.held, &self.key) {
            certain.extend_from_slice(self.held.get(from..at).unwrap_or_default());
            certain.extend_from_slice(b"[key]");
            from = at + self.key.len();
        }
        let end = self.held.len().saturating_sub(self.key.len() - 1).max(from);
        certain.extend_from_slice(self.held.get(from..end).unwrap_or_default());
        self.held.drain(..end);
        certain
    }

    /// The rest. What follows is another text.
    fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
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
    fn a_key_is_left_out_however_it_comes() {
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
