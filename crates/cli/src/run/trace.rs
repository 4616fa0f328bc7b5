//! `--trace DIR`: writes requests, responses and contexts to files.
//!
//! ```text
//!  000-request.json   000-response.txt   the first call
//!  001-request.json   001-response.txt   the first continuation, and so on
//!  001-2-request.json 001-2-response.txt the same, asked again after a refusal that does not count
//!  001-contexts.json                     the contexts of the cut before it
//! ```
//! Headers are not written, since they have the key. If a body quotes the key, plain or escaped,
//! `[key]` replaces it. Prompts and answers are private: files and folders are created for their
//! owner only.

use parking_lot::Mutex;
use restitch_proxy::{Redactor, Tap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes calls to a folder.
#[derive(Debug)]
pub(super) struct Trace {
    folder: PathBuf,
    open: Mutex<OpenTrace>,
}

#[derive(Debug)]
struct OpenTrace {
    /// The open call, and how often it was made.
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
        make_folder(folder)?;
        let open = OpenTrace {
            call: None,
            response: None,
            redactor: Redactor::new(key),
            error: None,
        };
        Ok(Self {
            folder: folder.to_owned(),
            open: Mutex::new(open),
        })
    }

    /// Ends the trace. Fails if something could not be written.
    pub(super) fn finish(&self) -> io::Result<()> {
        let mut open = self.open.lock();
        open.end();
        open.error.take().map_or(Ok(()), Err)
    }

    /// Writes one file of a call.
    pub(super) fn write(&self, call: u32, name: &str, content: &[u8]) {
        let mut open = self.open.lock();
        let whole = open.redactor.another().whole(content);
        open.check(make_file(&self.path(call, name)).and_then(|mut file| file.write_all(&whole)));
    }

    fn path(&self, call: u32, name: &str) -> PathBuf {
        self.folder.join(format!("{call:03}-{name}"))
    }
}

impl Tap for Trace {
    fn request(&self, call: u32, body: &[u8]) {
        let again = match self.open.lock().again(call) {
            1 => String::new(),
            again => format!("{again}-"),
        };
        self.write(call, &format!("{again}request.json"), body);
        let mut open = self.open.lock();
        open.end();
        let created = make_file(&self.path(call, &format!("{again}response.txt")));
        open.response = created.map_err(|error| open.check(Err(error))).ok();
    }

    fn response(&self, bytes: &[u8]) {
        let mut open = self.open.lock();
        let certain = open.redactor.push(bytes);
        open.append(&certain);
    }
}

impl OpenTrace {
    /// Counts how often this call was made, including this time.
    fn again(&mut self, call: u32) -> u32 {
        let again = self
            .call
            .filter(|(last, _)| *last == call)
            .map_or(1, |(_, again)| again.saturating_add(1));
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

/// Creates the folder for its owner only, if it does not exist. A symbolic link with its name is
/// not followed.
fn make_folder(folder: &Path) -> io::Result<()> {
    if fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the folder is a symbolic link",
        ));
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Creates a file for its owner only, replacing a file of an earlier run. A symbolic link with its
/// name is removed, not followed.
fn make_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    // A newly created file is not a link.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
