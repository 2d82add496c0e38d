//! The block files that are open, for reads of a few bytes each.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parking_lot::Mutex;

/// The most files that are open. The disk cannot reuse the space of a file that the node deletes while it is open, some
/// 128 MiB each; opening a file takes some microseconds.
const MOST: usize = 16;

/// An LRU of open files by their number.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(Mutex<VecDeque<(u32, Arc<File>)>>);

impl OpenFiles {
    /// The file of a number, opened by `open` unless it is open.
    pub(super) fn get(&self, number: u32, open: impl FnOnce() -> io::Result<File>) -> io::Result<Arc<File>> {
        if let Some(file) = self.take(number) {
            self.put(number, &file);
            return Ok(file);
        }
        // not under the lock: a slow disk delays only those who need this file
        let file = Arc::new(open()?);
        self.put(number, &file);
        Ok(file)
    }

    fn take(&self, number: u32) -> Option<Arc<File>> {
        let mut files = self.0.lock();
        let at = files.iter().position(|(open, _)| *open == number)?;
        files.remove(at).map(|(_, file)| file)
    }

    fn put(&self, number: u32, file: &Arc<File>) {
        let mut files = self.0.lock();
        files.retain(|(open, _)| *open != number);
        files.push_front((number, Arc::clone(file)));
        files.truncate(MOST);
    }
}

/// Reads as many bytes as the file has from an offset, up to the length of `bytes`, and returns their number. The file has
/// no position that threads would share.
pub(super) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < bytes.len() {
        let at = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        match file.read_at(&mut bytes[count..], at) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_least_recently_used_file_is_closed() {
        let (files, opened) = (OpenFiles::default(), Cell::new(0));
        let get = |number: usize| {
            let open = || {
                opened.set(opened.get() + 1);
                tempfile::tempfile()
            };
            files.get(u32::try_from(number).unwrap(), open).unwrap();
            opened.get()
        };
        (0..MOST).for_each(|number| assert_eq!(get(number), number + 1));
        assert_eq!(get(0), MOST);
        assert_eq!(get(MOST), MOST + 1);
        assert_eq!(get(0), MOST + 1, "it was used after the others");
        assert_eq!(get(1), MOST + 2, "it was closed");
    }
}
