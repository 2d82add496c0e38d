//! Messages that a receiver did not take: one JSON object a line, in a file of the hook.
//!
//! ```text
//!   deliverer ── append ──► NAME.dead-letters.jsonl ── take ──► NAME.resending.jsonl ──► sent, or appended again
//! ```
//!
//! The server appends while the command that sends them again has its own file. What a crash leaves of a line is removed: the
//! journal still has its message.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::clock::now;
use super::journal::replace;
use super::limits::DEAD_LETTER_BYTES;
use super::message::{HookMessage, timestamp};
use crate::durable::sync_name;

/// A message that was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// When it was given up, as ISO 8601.
    pub failed_at: String,
    /// How often it was sent.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: String,
    /// What was sent.
    #[serde(flatten)]
    pub(crate) message: HookMessage,
}

/// The dead letters of a hook.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    path: PathBuf,
    resending: PathBuf,
}

/// Why a message did not become a dead letter.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAppended {
    /// The file is as long as it may be.
    #[error("{} has {DEAD_LETTER_BYTES} bytes: send its messages again with `btcgraph webhook resend`", _0.display())]
    Full(PathBuf),
    /// Writing it fails.
    #[error("cannot write {}: {_1}", _0.display())]
    Io(PathBuf, io::Error),
}

impl DeadLetters {
    /// Those of a hook in this directory.
    #[must_use]
    pub fn new(directory: &Path, hook: &str) -> Self {
        let path = |kind| directory.join(format!("{hook}.{kind}.jsonl"));
        Self { path: path("dead-letters"), resending: path("resending") }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a message. Once it returns, a power cut does not lose it.
    pub(crate) fn append(&self, message: &HookMessage, attempts: u32, error: String) -> Result<(), NotAppended> {
        let letter = DeadLetter { failed_at: timestamp(now()), attempts, error, message: message.clone() };
        self.append_letter(&letter)
    }

    fn append_letter(&self, letter: &DeadLetter) -> Result<(), NotAppended> {
        let failed = |error| NotAppended::Io(self.path.clone(), error);
        let mut line = serde_json::to_vec(letter).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        loop {
            let file = self.open().map_err(failed)?;
            if file.metadata().map_err(failed)?.len() >= DEAD_LETTER_BYTES {
                return Err(NotAppended::Full(self.path.clone()));
            }
            // if the command has taken the file in between, it may have read it without the line
            if self.write(file, &line).map_err(failed)? {
                return Ok(());
            }
        }
    }

    /// The file at its end, made if there is none.
    fn open(&self) -> io::Result<File> {
        remove_partial_line(&self.path)?;
        let mut options = OpenOptions::new();
        // the events of a wallet reveal its addresses and amounts
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.create(true).append(true).open(&self.path)
    }

    /// Appends a line to the opened file. Whether that is still the file of the dead letters.
    fn write(&self, mut file: File, line: &[u8]) -> io::Result<bool> {
        file.write_all(line)?;
        file.sync_all()?;
        sync_name(&self.path)?;
        fs::exists(&self.path)
    }

    /// Whether a command that was interrupted, or is under way, has left dead letters.
    pub(crate) fn are_left(&self) -> bool {
        self.resending.exists()
    }

    /// How many are not taken.
    pub(crate) fn count(&self) -> io::Result<usize> {
        match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            opened => BufReader::new(opened?).split(b'\n').try_fold(0, |count, line| line.map(|_| count + 1)),
        }
    }

    /// Takes the dead letters to send them again, the oldest first: those that an interrupted command has left, or else all that
    /// there are.
    ///
    /// Errors: the files cannot be read, or have a line that is none.
    pub(crate) fn take(&self) -> io::Result<Vec<DeadLetter>> {
        if !self.resending.exists() {
            match fs::rename(&self.path, &self.resending) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                renamed => renamed?,
            }
        }
        remove_partial_line(&self.resending)?;
        let mut letters = Vec::new();
        for (line, number) in BufReader::new(File::open(&self.resending)?).lines().zip(1..) {
            let line = line?;
            let letter = serde_json::from_str(&line).map_err(|error| {
                let reason = format!("line {number} of {} is no dead letter: {error}", self.resending.display());
                io::Error::new(io::ErrorKind::InvalidData, reason)
            })?;
            letters.push(letter);
        }
        Ok(letters)
    }

    /// Leaves these to be sent, of those that were taken.
    pub(crate) fn leave(&self, letters: &[DeadLetter]) -> io::Result<()> {
        if letters.is_empty() {
            return fs::remove_file(&self.resending);
        }
        let mut lines = Vec::new();
        for letter in letters {
            serde_json::to_writer(&mut lines, letter)?;
            lines.push(b'\n');
        }
        replace(&self.resending, &lines)
    }
}

/// Removes what follows the last line break of a file.
fn remove_partial_line(path: &Path) -> io::Result<()> {
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut last = [0];
    if file.metadata()?.len() == 0 {
        return Ok(());
    }
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(());
    }
    let content = fs::read(path)?;
    let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(u64::try_from(whole).unwrap_or(u64::MAX))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u32) -> HookMessage {
        HookMessage {
            id: format!("msg_{number}"),
            kind: "chain.block_connected".to_owned(),
            created_at: 1_700_000_000,
            body: format!("{{\"line\":\"a\\nb\",\"number\":{number}}}"),
            cursor: "c".to_owned(),
            is_snapshot: false,
        }
    }

    #[test]
    fn dead_letters_are_lines_of_json_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let letters = DeadLetters::new(directory.path(), "shop");
        assert!(letters.take().unwrap().is_empty());
        for number in 1..=3 {
            letters.append(&message(number), 16, "the receiver responded 500".to_owned()).unwrap();
        }
        let text = fs::read_to_string(letters.path()).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains(r#""attempts":16,"error":"the receiver responded 500","id":"msg_1""#), "{text}");
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&fs::metadata(letters.path()).unwrap()) & 0o077, 0);
        let taken = letters.take().unwrap();
        assert_eq!(taken.iter().map(|letter| &letter.message).cloned().collect::<Vec<_>>(), [1, 2, 3].map(message));
    }

    #[test]
    fn letters_that_are_taken_and_left_come_before_new_ones() {
        let directory = tempfile::tempdir().unwrap();
        let letters = DeadLetters::new(directory.path(), "shop");
        for number in 1..=3 {
            letters.append(&message(number), 1, String::new()).unwrap();
        }
        let taken = letters.take().unwrap();
        assert_eq!(letters.count().unwrap(), 0);
        letters.append(&message(4), 1, String::new()).unwrap();
        letters.leave(&taken[1..]).unwrap();
        assert_eq!((letters.count().unwrap(), letters.are_left()), (1, true));
        let ids = || letters.take().unwrap().iter().map(|letter| letter.message.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(), ["msg_2", "msg_3"]);
        assert_eq!(ids(), ["msg_2", "msg_3"], "an interrupted command has lost none");
        letters.leave(&[]).unwrap();
        assert_eq!(ids(), ["msg_4"]);
    }

    #[test]
    fn a_file_that_is_taken_while_a_line_is_added_is_not_the_file_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let letters = DeadLetters::new(directory.path(), "shop");
        letters.append(&message(1), 1, String::new()).unwrap();
        let opened = letters.open().unwrap();
        assert_eq!(letters.take().unwrap().len(), 1);
        assert!(!letters.write(opened, b"{}\n").unwrap(), "so the line is added once more");
        let opened = letters.open().unwrap();
        assert!(letters.write(opened, b"{}\n").unwrap());
    }

    #[test]
    fn a_full_file_takes_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let letters = DeadLetters::new(directory.path(), "shop");
        let mut file = File::create(letters.path()).unwrap();
        file.set_len(DEAD_LETTER_BYTES - 1).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"\n").unwrap();
        let refused = letters.append(&message(1), 1, String::new()).unwrap_err();
        assert!(matches!(refused, NotAppended::Full(_)), "{refused}");
        assert_eq!(fs::metadata(letters.path()).unwrap().len(), DEAD_LETTER_BYTES);
    }

    #[test]
    fn half_a_line_of_a_crash_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let letters = DeadLetters::new(directory.path(), "shop");
        let crash = || OpenOptions::new().append(true).open(letters.path()).unwrap().write_all(b"{\"id\":").unwrap();
        letters.append(&message(1), 1, String::new()).unwrap();
        crash();
        letters.append(&message(2), 1, String::new()).unwrap();
        crash();
        let ids = letters.take().unwrap().iter().map(|letter| letter.message.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids, ["msg_1", "msg_2"]);
    }

    #[test]
    fn a_line_that_is_none_is_reported_with_its_number() {
        let directory = tempfile::tempdir().unwrap();
        let letters = DeadLetters::new(directory.path(), "shop");
        letters.append(&message(1), 1, String::new()).unwrap();
        OpenOptions::new().append(true).open(letters.path()).unwrap().write_all(b"{}\n").unwrap();
        let error = letters.take().unwrap_err().to_string();
        assert!(error.starts_with("line 2 of ") && error.contains("is no dead letter"), "{error}");
        assert_eq!(fs::read_to_string(&letters.resending).unwrap().lines().count(), 2);
    }
}
