//! Names of files that outlast a power cut.
//!
//! The content of a file is durable once it is synchronised itself; that it is there, and under which name, once the directory
//! that it is in is synchronised too.

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes the names in a directory durable, where the system lets directories be synchronised. The empty path is the current
/// directory.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

/// Makes the name of a file or a directory durable.
pub fn sync_name(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_directory)
}
