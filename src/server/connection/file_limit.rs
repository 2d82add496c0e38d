//! How many files, connections among them, the operating system lets this process have open at once.

use crate::limits::Limits;

/// For all that is no connection of a client: the index, the log, the node, the threads' own.
const OTHERS: usize = 200;

/// As many of these connections as the process can have, with its limit of open files raised as far as possible. Fewer are
/// logged: as a warning if the settings name a number.
pub(crate) fn fit(connections: usize) -> usize {
    let Some(files) = raise() else { return connections };
    let fitting = fitting(connections, files);
    if fitting == connections {
        return fitting;
    }
    if connections == Limits::default().connections {
        tracing::info!(
            connections = fitting,
            files,
            "the number of connections is limited by the open files of this process"
        );
    } else {
        tracing::warn!(
            "server.max_connections is {connections}, but this process may open only {files} files, enough for \
             {fitting} connections: raise the limit to {} (ulimit -Hn, LimitNOFILE= in a unit of systemd) or lower \
             the setting",
            connections.saturating_add(OTHERS)
        );
    }
    fitting
}

fn fitting(connections: usize, files: u64) -> usize {
    let files = usize::try_from(files).unwrap_or(usize::MAX);
    connections.min(files.saturating_sub(OTHERS).max(1))
}

/// Raises the soft limit to the hard one, and says what it is then; `None` for no limit.
#[cfg(unix)]
fn raise() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        // macOS allows less than it says; what there was remains
        Err(error) => {
            tracing::debug!(%error, "cannot raise the limit of open files");
            current
        }
    }
}

/// Windows has no such limit.
#[cfg(not(unix))]
fn raise() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_has_to_be_open_is_left_room_for() {
        for (connections, files, expected) in
            [(100, 300, 100), (100, 299, 99), (100, 10, 1), (25_000, 1_024, 824), (25_000, u64::MAX, 25_000)]
        {
            assert_eq!(fitting(connections, files), expected);
        }
    }

    #[cfg(unix)]
    #[test]
    fn as_many_files_may_be_open_as_the_process_can_have() {
        use rustix::process::{Resource, getrlimit};
        let most = raise();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, most);
        assert!(cfg!(target_os = "macos") || most == now.maximum);
    }
}
