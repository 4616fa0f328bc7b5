//! The logs of answers in files, to which records are only appended.
//!
//! Each answer has a file. A record is a line: a checksum, and JSON. A checksum covers the answer's
//! id and all records up to its own, so a record that is damaged, missing, repeated or moved fails
//! the check, and so do all records after it. Reading ends before that record. The rest of the file
//! is cut off, like a half-written record, and the answer counts as broken off there.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Phase};
use crate::store::{AnswerId, End, Entry, Name, Opening, Owner, Position, Tombstone, limit_of};

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
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => {
                Err(io::Error::other("another process uses the folder"))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Begins the log of an answer.
    pub(super) fn begin(&self, id: AnswerId, opening: &Opening) -> io::Result<LogFile> {
        let path = self.path_of(id);
        let mut log = LogFile::new(id, private().create_new(true).open(&path)?, path);
        let first = Record::Answer {
            caller: opening.caller,
            keep: opening.keep,
            request: String::from_utf8_lossy(&opening.request),
        };
        log.write([first]).map(|()| log)
    }

    /// Returns the ids of the answers that are in the folder.
    pub(super) fn ids(&self) -> io::Result<Vec<AnswerId>> {
        let names = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        Ok(names
            .iter()
            .filter_map(|name| name.to_str()?.strip_suffix(SUFFIX)?.parse().ok())
            .collect())
    }

    /// Reads the log of an answer, and the reason if the answer is gone. Removes a file without a
    /// valid beginning and returns `None`.
    pub(super) fn read(&self, id: AnswerId) -> io::Result<Option<(Answer, Option<Tombstone>)>> {
        let path = self.path_of(id);
        let text = fs::read(&path)?;
        let mut records = Records {
            text: &text,
            at: 0,
            checksum: start(id),
        };
        let Some((opening, gone)) = records.next().and_then(Record::opening) else {
            // The log leaves out the file name: the id in it gives access to the answer.
            tracing::warn!(
                bytes = text.len(),
                "removing the file of a kept answer: its first record is not valid"
            );
            fs::remove_file(&path)?;
            return Ok(None);
        };
        let mut answer = Answer::new(opening, None);
        let mut end = None;
        let (mut length, mut checksum) = (records.at, records.checksum);
        while let Some(record) = records.next() {
            match record {
                Record::Name(name) => answer.names.push(Name(name)),
                Record::Event(epoch, seq, text)
                    if (Position { epoch, seq }) > answer.events.last =>
                {
                    let at = Position { epoch, seq };
                    answer.events.last = at;
                    let bytes = Bytes::from(text.into_owned());
                    answer.events.push(&[Entry { at, bytes }]);
                }
                Record::End(how) => end = Some(how),
                Record::Epoch(epoch) => answer.next_epoch = epoch,
                // No process writes these.
                Record::Event(..) | Record::Answer { .. } | Record::Gone { .. } => break,
            }
            (length, checksum) = (records.at, records.checksum);
        }
        let lost = text.len() - length;
        if lost > 0 {
            tracing::warn!(
                kept = length,
                lost,
                "the file of a kept answer is damaged, or was not written to its end"
            );
        }
        answer.phase = end.map_or(Phase::Unwritten, Phase::Ended);
        let file = private().open(&path)?;
        file.set_len(length as u64)?;
        answer.log = Some(LogFile {
            length: length as u64,
            checksum,
            ..LogFile::new(id, file, path)
        });
        // Several processes may have written the lost events. No later process may give their
        // positions to other text.
        let lost_events = (lost / SHORTEST_EVENT) as u64;
        answer.next_epoch = answer
            .next_epoch
            .max(answer.events.last.epoch.saturating_add(1))
            .saturating_add(lost_events);
        if lost_events > 0 {
            answer.write([Record::Epoch(answer.next_epoch)]);
        }
        Ok(Some((answer, gone)))
    }

    fn path_of(&self, id: AnswerId) -> PathBuf {
        self.path.join(format!("{id}{SUFFIX}"))
    }
}

/// The log of an answer in a file.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    file: File,
    /// Bytes of whole records.
    length: u64,
    /// The checksum before the first record.
    start: u32,
    /// The checksum of the last record.
    checksum: u32,
}

impl LogFile {
    /// Returns the log of an answer in an empty file.
    fn new(id: AnswerId, file: File, path: PathBuf) -> Self {
        Self {
            path,
            file,
            length: 0,
            start: start(id),
            checksum: start(id),
        }
    }

    /// Returns a file that takes no bytes.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn full(path: PathBuf) -> io::Result<Self> {
        Ok(Self::new(
            AnswerId([0; 16]),
            File::options().append(true).open("/dev/full")?,
            path,
        ))
    }

    /// Replaces all records: of an answer that is gone only the reason stays, in the first record,
    /// and its names.
    pub(super) fn replace(
        &mut self,
        opening: &Opening,
        names: &[Name],
        why: Tombstone,
    ) -> io::Result<()> {
        self.file.set_len(0)?;
        (self.length, self.checksum) = (0, self.start);
        let gone = Record::Gone {
            caller: opening.caller,
            keep: opening.keep,
            limit: match why {
                Tombstone::Expired => None,
                Tombstone::Dropped(limit) => Some(limit.into()),
            },
        };
        let names = names.iter().map(|name| Record::Name(name.0));
        self.write(std::iter::once(gone).chain(names))
    }

    /// Appends whole records. After an error the file has its former length.
    pub(super) fn write<'r>(
        &mut self,
        records: impl IntoIterator<Item = Record<'r>>,
    ) -> io::Result<()> {
        let (mut text, mut checksum) = (String::new(), self.checksum);
        for record in records {
            let record = serde_json::to_string(&record)?;
            checksum = after(checksum, &record);
            text += &format!("{checksum:08x} {record}\n");
        }
        let written = self.file.write_all(text.as_bytes());
        match written {
            Ok(()) => {
                (self.length, self.checksum) = (self.length + text.len() as u64, checksum);
            }
            // If this fails, too, a later reader stops at the half of a record.
            Err(_) => self.file.set_len(self.length)?,
        }
        written
    }
}

/// Removes the file of a log.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(%error, "the file of a kept answer cannot be removed");
    }
}

/// A record of a log.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Record<'a> {
    Answer {
        caller: [u8; 32],
        keep: Duration,
        #[serde(borrow)]
        request: Cow<'a, str>,
    },
    Name([u8; 32]),
    /// The epoch and the number of its position, and its text.
    Event(u64, u64, #[serde(borrow)] Cow<'a, str>),
    End(End),
    /// The epoch of the next process.
    Epoch(u64),
    Gone {
        caller: [u8; 32],
        keep: Duration,
        /// The limit that was reached. `None`: it has expired.
        #[serde(borrow)]
        limit: Option<Cow<'a, str>>,
    },
}

impl<'a> Record<'a> {
    pub(super) fn event(entry: &'a Entry) -> Self {
        let Position { epoch, seq } = entry.at;
        Self::Event(epoch, seq, String::from_utf8_lossy(&entry.bytes))
    }

    /// Returns the beginning of an answer, if the record is one, and the reason if it is gone.
    fn opening(self) -> Option<(Opening, Option<Tombstone>)> {
        let (caller, keep, request, gone) = match self {
            Self::Answer {
                caller,
                keep,
                request,
            } => (caller, keep, Bytes::from(request.into_owned()), None),
            Self::Gone {
                caller,
                keep,
                limit,
            } => {
                let of_limit = |limit: Cow<'_, str>| Tombstone::Dropped(limit_of(&limit));
                let why = limit.map_or(Tombstone::Expired, of_limit);
                (caller, keep, Bytes::new(), Some(why))
            }
            _ => return None,
        };
        let opening = Opening {
            caller,
            keep,
            request,
            owner: Owner::default(),
        };
        Some((opening, gone))
    }
}

/// The records of a log, up to the first half-written or damaged one.
struct Records<'a> {
    text: &'a [u8],
    /// After the last record.
    at: usize,
    /// The checksum of the last record.
    checksum: u32,
}

impl<'a> Records<'a> {
    fn next(&mut self) -> Option<Record<'a>> {
        let rest = self.text.get(self.at..)?;
        let end = memchr::memchr(b'\n', rest)?;
        let line = std::str::from_utf8(rest.get(..end)?).ok()?;
        let (written, record) = line.split_once(' ')?;
        let checksum = after(self.checksum, record);
        if format!("{checksum:08x}") != written {
            return None;
        }
        (self.at, self.checksum) = (self.at + end + 1, checksum);
        serde_json::from_str(record).ok()
    }
}

/// Returns the checksum before the first record. A file with the name of another answer fails the
/// check.
fn start(id: AnswerId) -> u32 {
    crc32fast::hash(&id.0)
}

/// Returns the checksum of the next record.
fn after(checksum: u32, record: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(checksum);
    hasher.update(record.as_bytes());
    hasher.finalize()
}

/// Returns options with which only the user of the process can read a new file, and with which
/// writes append.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.append(true);
    options
}

/// The length of the shortest record of an event: `00000000 {"event":[1,1,""]}` and a line end.
const SHORTEST_EVENT: usize = 28;
const LOCK: &str = "lock";
const SUFFIX: &str = ".log";

#[cfg(test)]
mod tests;
