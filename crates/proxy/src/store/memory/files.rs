//! The logs of answers in files, to which records are only appended.
//!
//! Each answer has a file. A record is a line with its kind, its fields and a checksum. If the last
//! field is a length, that many bytes and a line end follow the line. A checksum covers the
//! answer's id and all records up to its own, so a record that is damaged, missing, repeated or
//! moved fails the check, and so do all records after it. Reading ends before that record. The rest
//! of the file is cut off, like a half-written record, and the answer counts as broken off there.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use super::answer::{Answer, Phase};
use crate::store::{AnswerId, End, Entry, Name, Opening, Owner, Tombstone, limit_of};

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
        let Opening {
            caller,
            keep,
            request,
            owner: _,
        } = opening;
        let mut records = log.records();
        records.add(
            &format!(
                "answer {} {} {}",
                hex(caller),
                keep.as_millis(),
                request.len()
            ),
            Some(request),
        );
        log.write(&records).map(|()| log)
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
            checksum: Checksum::of(id),
        };
        let (opening, gone) = match records.next() {
            Some(Record::Answer(opening)) => (opening, None),
            Some(Record::Tombstone(opening, why)) => (opening, Some(why)),
            _ => {
                // The log leaves out the file name: the id in it gives access to the answer.
                tracing::warn!(
                    bytes = text.len(),
                    "removing the file of a kept answer: its first record is not valid"
                );
                fs::remove_file(&path)?;
                return Ok(None);
            }
        };
        let mut answer = Answer::new(opening, None);
        let mut end = None;
        let (mut length, mut checksum) = (records.at, records.checksum);
        while let Some(record) = records.next() {
            match record {
                Record::Name(name) => answer.names.push(name),
                Record::Event(entry) if entry.at > answer.events.last => {
                    answer.events.last = entry.at;
                    answer.events.push(&[entry]);
                }
                Record::End(how) => end = Some(how),
                Record::Epoch(epoch) => answer.next_epoch = epoch,
                // No process writes these.
                Record::Event(_) | Record::Answer(_) | Record::Tombstone(..) => break,
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
            path: LogPath(path),
            file,
            length: length as u64,
            start: Checksum::of(id),
            checksum,
        });
        // Several processes may have written the lost events. No later process may give their
        // positions to other text.
        let lost_events = (lost / SHORTEST_EVENT) as u64;
        answer.next_epoch = answer
            .next_epoch
            .max(answer.events.last.epoch.saturating_add(1))
            .saturating_add(lost_events);
        if lost_events > 0 {
            let epoch = answer.next_epoch;
            answer.write(|log| log.epoch(epoch));
        }
        Ok(Some((answer, gone)))
    }

    fn path_of(&self, id: AnswerId) -> PathBuf {
        self.path.join(format!("{id}{SUFFIX}"))
    }
}

/// The file of a log without a writer.
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
    /// The checksum before the first record.
    start: Checksum,
    /// The checksum of the last record.
    checksum: Checksum,
}

impl LogFile {
    /// Returns the log of an answer in an empty file.
    fn new(id: AnswerId, file: File, path: PathBuf) -> Self {
        Self {
            path: LogPath(path),
            file,
            length: 0,
            start: Checksum::of(id),
            checksum: Checksum::of(id),
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

    pub(super) fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut records = self.records();
        for Entry { at, bytes } in entries {
            records.add(&format!("event {at} {}", bytes.len()), Some(bytes));
        }
        self.write(&records)
    }

    pub(super) fn name(&mut self, name: Name) -> io::Result<()> {
        self.record(&format!("name {}", hex(&name.0)))
    }

    pub(super) fn end(&mut self, end: End) -> io::Result<()> {
        let how = if end == End::Whole { WHOLE } else { BROKEN };
        self.record(&format!("end {how}"))
    }

    /// Appends the epoch of the next process.
    fn epoch(&mut self, next: u64) -> io::Result<()> {
        self.record(&format!("epoch {next}"))
    }

    /// Appends one record without bytes.
    fn record(&mut self, line: &str) -> io::Result<()> {
        let mut records = self.records();
        records.add(line, None);
        self.write(&records)
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
        let reason = match why {
            Tombstone::Expired => EXPIRED,
            Tombstone::Dropped(limit) => limit,
        };
        let mut records = self.records();
        records.add(
            &format!(
                "gone {} {} {reason}",
                hex(&opening.caller),
                opening.keep.as_millis()
            ),
            None,
        );
        for name in names {
            records.add(&format!("name {}", hex(&name.0)), None);
        }
        self.write(&records)
    }

    /// Closes the file.
    pub(super) fn close(self) -> LogPath {
        self.path
    }

    /// Begins a batch of records after the last one.
    fn records(&self) -> NewRecords {
        NewRecords {
            text: Vec::new(),
            checksum: self.checksum,
        }
    }

    /// Appends whole records. After an error the file has its former length.
    fn write(&mut self, records: &NewRecords) -> io::Result<()> {
        let written = self.file.write_all(&records.text);
        match written {
            Ok(()) => {
                (self.length, self.checksum) =
                    (self.length + records.text.len() as u64, records.checksum);
            }
            // If this fails, too, a later reader stops at the half of a record.
            Err(_) => self.file.set_len(self.length)?,
        }
        written
    }
}

/// A batch of records to append to a log.
struct NewRecords {
    text: Vec<u8>,
    /// The checksum of the batch's last record.
    checksum: Checksum,
}

impl NewRecords {
    /// Adds a record. `line`: its kind and fields. The last field is the length of `bytes`, if any.
    fn add(&mut self, line: &str, bytes: Option<&[u8]>) {
        self.checksum = self.checksum.after(line, bytes.unwrap_or_default());
        self.text
            .extend(format!("{line} {}\n", self.checksum).into_bytes());
        if let Some(bytes) = bytes {
            self.text.extend([bytes, b"\n"].concat());
        }
    }
}

/// The CRC-32 of an answer's id and of its log up to the end of a record.
#[derive(Clone, Copy, Debug)]
struct Checksum(u32);

impl Checksum {
    /// Returns the checksum before the first record. A file with the name of another answer fails
    /// the check.
    fn of(id: AnswerId) -> Self {
        Self(crc32fast::hash(&id.0))
    }

    /// Returns the checksum of the next record.
    fn after(self, line: &str, bytes: &[u8]) -> Self {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.0);
        hasher.update(line.as_bytes());
        hasher.update(bytes);
        Self(hasher.finalize())
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// A record of a log.
enum Record {
    Answer(Opening),
    Name(Name),
    Event(Entry),
    End(End),
    /// The epoch of the next process.
    Epoch(u64),
    Tombstone(Opening, Tombstone),
}

/// The records of a log, up to the first half-written or damaged one.
struct Records<'a> {
    text: &'a [u8],
    /// After the last record.
    at: usize,
    /// The checksum of the last record.
    checksum: Checksum,
}

impl Records<'_> {
    fn next(&mut self) -> Option<Record> {
        let rest = self.text.get(self.at..)?;
        let line_end = memchr::memchr(b'\n', rest)?;
        let (line, written) = std::str::from_utf8(&rest[..line_end])
            .ok()?
            .rsplit_once(' ')?;
        let (mut words, mut payload, mut after) = (line.split(' '), &b""[..], line_end + 1);
        let kind = words.next()?;
        let mut bytes = |length: &str| {
            let end = after.checked_add(length.parse().ok()?)?;
            payload = rest
                .get(after..end)
                .filter(|_| rest.get(end) == Some(&b'\n'))?;
            after = end + 1;
            Some(Bytes::copy_from_slice(payload))
        };
        let record = match kind {
            "answer" => Record::Answer(Opening {
                caller: from_hex(words.next()?)?,
                keep: Duration::from_millis(words.next()?.parse().ok()?),
                request: bytes(words.next()?)?,
                owner: Owner::default(),
            }),
            "name" => Record::Name(Name(from_hex(words.next()?)?)),
            "event" => Record::Event(Entry {
                at: words.next()?.parse().ok()?,
                bytes: bytes(words.next()?)?,
            }),
            "end" => Record::End(match words.next()? {
                WHOLE => End::Whole,
                BROKEN => End::Broken,
                _ => return None,
            }),
            "epoch" => Record::Epoch(words.next()?.parse().ok()?),
            "gone" => {
                let (caller, keep) = (
                    from_hex(words.next()?)?,
                    Duration::from_millis(words.next()?.parse().ok()?),
                );
                let why = match words.next()? {
                    EXPIRED => Tombstone::Expired,
                    limit => Tombstone::Dropped(limit_of(limit)),
                };
                Record::Tombstone(
                    Opening {
                        caller,
                        keep,
                        request: Bytes::new(),
                        owner: Owner::default(),
                    },
                    why,
                )
            }
            _ => return None,
        };
        let checksum = self.checksum.after(line, payload);
        if checksum.to_string() != written {
            return None;
        }
        (self.at, self.checksum) = (self.at + after, checksum);
        Some(record)
    }
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

/// The length of the shortest record of an event: `event 1-1 0 00000000` and two line ends.
const SHORTEST_EVENT: usize = 22;
const LOCK: &str = "lock";
const SUFFIX: &str = ".log";
const WHOLE: &str = "whole";
const BROKEN: &str = "broken";
const EXPIRED: &str = "expired";

#[cfg(test)]
mod tests;
