//! The versions of the packed tables. Each file records those of its tables, and is refused if one is newer than what this
//! program reads. An older one that it still reads is read as it is.

use std::ops::RangeInclusive;
use std::path::Path;

use super::super::error::IndexError;

/// The versions of a table that this program reads. It writes the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::index) struct TableVersions {
    pub(in crate::index) name: &'static str,
    pub(in crate::index) readable: RangeInclusive<u32>,
}

impl TableVersions {
    pub(in crate::index) const fn new(name: &'static str, readable: RangeInclusive<u32>) -> Self {
        Self { name, readable }
    }

    /// The version to write.
    pub(in crate::index) const fn newest(&self) -> u32 {
        *self.readable.end()
    }

    /// Errors: [`IndexError::TableVersion`] if this program does not read the version that was found in a file.
    pub(in crate::index) fn check(&self, path: &Path, found: u32) -> Result<(), IndexError> {
        if self.readable.contains(&found) {
            return Ok(());
        }
        let (oldest, newest) = (self.readable.start(), self.readable.end());
        let reads = if oldest == newest {
            format!("reads version {newest}")
        } else {
            format!("reads versions {oldest} to {newest}")
        };
        Err(IndexError::TableVersion { path: path.to_path_buf(), table: self.name.to_owned(), found, reads })
    }
}

/// The error of a file with a table that this program does not know.
pub(in crate::index) fn unknown_table(path: &Path, table: &str, found: u32) -> IndexError {
    let reads = "does not know that table".to_owned();
    IndexError::TableVersion { path: path.to_path_buf(), table: table.to_owned(), found, reads }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_not_read_are_refused_with_those_that_are() {
        let path = Path::new("/frozen/0-9.redb");
        let refusal = |readable, found| {
            TableVersions::new("history", readable).check(path, found).map_err(|error| error.to_string())
        };
        assert_eq!([refusal(2..=4, 2), refusal(2..=4, 4)], [Ok(()), Ok(())]);
        assert_eq!(
            refusal(2..=4, 5).unwrap_err(),
            "/frozen/0-9.redb has version 5 of table `history`, but this version of btcgraph reads versions 2 to 4: run the \
             version that wrote it, or remove the index and import again"
        );
        assert!(refusal(2..=4, 1).unwrap_err().contains("version 1 of table `history`"));
        assert!(refusal(1..=1, 2).unwrap_err().contains("reads version 1:"));
        assert!(unknown_table(path, "sats", 1).to_string().contains("does not know that table:"));
    }
}
