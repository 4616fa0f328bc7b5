//! The logs of answers in files, to which records are only appended.
//!
//! Each answer has a file. A record is a line that says what it is, and where the line ends with a length, that many bytes and a
//! line end. A record that a process has not written to its end is not read, and is cut off before the next one.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use super::answer::{Answer, Phase, size};
use crate::store::{AnswerId, End, Entry, Gone, Name, Opening, limit_of};

/// A folder with the logs of answers, which one process has for itself.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens a folder, and creates it if it is missing. Fails if another process uses it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(path)?;
        let lock = private().create(true).open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(io::Error::other("another process uses the folder")),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Begins the log of an answer.
    pub(super) fn begin(&self, id: AnswerId, opening: &Opening) -> io::Result<LogFile> {
        let path = self.path_of(id);
        let mut log = LogFile { file: private().create_new(true).open(&path)?, path: LogPath(path), length: 0 };
        let Opening { caller, keep, request } = opening;
        let line = format!("answer {} {} {}", hex(caller), keep.as_millis(), request.len());
        log.write(&record(&line, request)).map(|()| log)
    }

    /// Returns the ids of the answers that are in the folder.
    pub(super) fn ids(&self) -> io::Result<Vec<AnswerId>> {
        let names = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        Ok(names.iter().filter_map(|name| name.to_str()?.strip_suffix(SUFFIX)?.parse().ok()).collect())
    }

    /// Reads the log of an answer, and why the answer is gone, if it is. `None`: the beginning was not written, and the file is
    /// removed.
    pub(super) fn read(&self, id: AnswerId) -> io::Result<Option<(Answer, Option<Gone>)>> {
        let path = self.path_of(id);
        let text = fs::read(&path)?;
        let mut records = Records { text: &text, at: 0 };
        let (opening, gone) = match records.next() {
            Some(Record::Answer(opening)) => (opening, None),
            Some(Record::Gone(opening, why)) => (opening, Some(why)),
            _ => {
                fs::remove_file(&path)?;
                return Ok(None);
            }
        };
        let mut answer = Answer::new(opening, None);
        answer.phase = Phase::Unwritten;
        let mut length = records.at;
        while let Some(record) = records.next() {
            match record {
                Record::Name(name) => answer.names.push(name),
                Record::Event(entry) if entry.at > answer.last => {
                    answer.last = entry.at;
                    answer.bytes += size(&entry);
                    answer.entries.push_back(entry);
                }
                Record::End(end) => answer.phase = Phase::Ended(end),
                // No process writes these.
                Record::Event(_) | Record::Answer(_) | Record::Gone(..) => break,
            }
            length = records.at;
        }
        let file = private().open(&path)?;
        file.set_len(length as u64)?;
        answer.log = Some(LogFile { path: LogPath(path), file, length: length as u64 });
        Ok(Some((answer, gone)))
    }

    fn path_of(&self, id: AnswerId) -> PathBuf {
        self.path.join(format!("{id}{SUFFIX}"))
    }
}

/// The file of a log that nobody writes.
#[derive(Debug)]
pub(super) struct LogPath(PathBuf);

impl LogPath {
    /// Removes the file.
    pub(super) fn remove(self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, "the file of a kept answer cannot be removed");
        }
    }
}

/// The log of an answer in a file.
#[derive(Debug)]
pub(super) struct LogFile {
    path: LogPath,
    file: File,
    /// Bytes of whole records.
    length: u64,
}

impl LogFile {
    /// Returns a file that takes no bytes.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn full(path: PathBuf) -> io::Result<Self> {
        Ok(Self { file: File::options().append(true).open("/dev/full")?, path: LogPath(path), length: 0 })
    }

    pub(super) fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        let records = entries.iter().map(|Entry { at, bytes }| record(&format!("event {at} {}", bytes.len()), bytes));
        self.write(&records.collect::<Vec<_>>().concat())
    }

    pub(super) fn name(&mut self, name: Name) -> io::Result<()> {
        self.write(&name_record(name))
    }

    pub(super) fn end(&mut self, end: End) -> io::Result<()> {
        self.write(format!("end {}\n", if end == End::Whole { WHOLE } else { BROKEN }).as_bytes())
    }

    /// Replaces all records: of an answer that is gone only the reason stays, in the first record, and its names.
    pub(super) fn replace(&mut self, opening: &Opening, names: &[Name], why: Gone) -> io::Result<()> {
        self.file.set_len(0)?;
        self.length = 0;
        let reason = match why {
            Gone::Expired => EXPIRED,
            Gone::Dropped(limit) => limit,
        };
        let mut records = format!("gone {} {} {reason}\n", hex(&opening.caller), opening.keep.as_millis()).into_bytes();
        names.iter().for_each(|name| records.extend(name_record(*name)));
        self.write(&records)
    }

    /// Closes the file.
    pub(super) fn close(self) -> LogPath {
        self.path
    }

    /// Appends whole records. Where that fails, nothing of them stays.
    fn write(&mut self, records: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(records);
        match written {
            Ok(()) => self.length += records.len() as u64,
            // If this fails, too, a later reader stops at the half of a record.
            Err(_) => self.file.set_len(self.length)?,
        }
        written
    }
}

/// What a log says.
enum Record {
    Answer(Opening),
    Name(Name),
    Event(Entry),
    End(End),
    Gone(Opening, Gone),
}

/// The records of a log, up to the first one that is not whole.
struct Records<'a> {
    text: &'a [u8],
    /// After the last record.
    at: usize,
}

impl Records<'_> {
    fn next(&mut self) -> Option<Record> {
        let rest = self.text.get(self.at..)?;
        let line_end = memchr::memchr(b'\n', rest)?;
        let mut words = std::str::from_utf8(&rest[..line_end]).ok()?.split(' ');
        let (kind, mut after) = (words.next()?, line_end + 1);
        let mut bytes = |length: &str| {
            let end = after.checked_add(length.parse().ok()?)?;
            let bytes = rest.get(after..end).filter(|_| rest.get(end) == Some(&b'\n'))?;
            after = end + 1;
            Some(Bytes::copy_from_slice(bytes))
        };
        let record = match kind {
            "answer" => Record::Answer(Opening {
                caller: from_hex(words.next()?)?,
                keep: Duration::from_millis(words.next()?.parse().ok()?),
                request: bytes(words.next()?)?,
            }),
            "name" => Record::Name(Name(from_hex(words.next()?)?)),
            "event" => Record::Event(Entry { at: words.next()?.parse().ok()?, bytes: bytes(words.next()?)? }),
            "end" => Record::End(match words.next()? {
                WHOLE => End::Whole,
                BROKEN => End::Broken,
                _ => return None,
            }),
            "gone" => {
                let (caller, keep) = (from_hex(words.next()?)?, Duration::from_millis(words.next()?.parse().ok()?));
                let why = match words.next()? {
                    EXPIRED => Gone::Expired,
                    limit => Gone::Dropped(limit_of(limit)),
                };
                Record::Gone(Opening { caller, keep, request: Bytes::new() }, why)
            }
            _ => return None,
        };
        self.at += after;
        Some(record)
    }
}

/// Returns options that let nobody but the user of the process read a new file, and append to it.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.append(true);
    options
}

fn name_record(name: Name) -> Vec<u8> {
    format!("name {}\n", hex(&name.0)).into_bytes()
}

fn record(line: &str, bytes: &[u8]) -> Vec<u8> {
    [line.as_bytes(), b"\n", bytes, b"\n"].concat()
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(written: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let pairs = written.as_bytes().as_chunks::<2>();
    if pairs.0.len() != bytes.len() || !pairs.1.is_empty() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs.0) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

const LOCK: &str = "lock";
const SUFFIX: &str = ".log";
const WHOLE: &str = "whole";
const BROKEN: &str = "broken";
const EXPIRED: &str = "expired";

#[cfg(test)]
mod tests;
