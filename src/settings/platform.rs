//! The directories of this platform (home, btcgraph's data, the data of a Bitcoin Core node) and its memory. They are read
//! once; nothing derived from them does I/O.

use std::path::{Path, PathBuf};

use bitcoin::Network;

use super::values::ByteSize;
use crate::chain::network;

/// The directories in default settings, and the memory that bounds a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The user's home directory.
    pub home: PathBuf,
    /// The default directory of btcgraph's files.
    pub data: PathBuf,
    /// The default directory of Bitcoin Core's files.
    pub node_data: PathBuf,
    /// The physical memory of the machine, in whole MiB; `None` where it is not known.
    pub memory: Option<ByteSize>,
}

impl Platform {
    /// The directories of the user who runs this process. `None` when no home directory is known, as in some
    /// containers and services.
    #[must_use]
    pub fn of_this_user() -> Option<Self> {
        let base = directories::BaseDirs::new()?;
        let project = directories::ProjectDirs::from("", "", "btcgraph")?;
        Some(Platform {
            node_data: node_data(std::env::consts::OS, base.home_dir(), base.data_dir(), base.data_local_dir()),
            data: project.data_dir().to_owned(),
            home: base.home_dir().to_owned(),
            memory: memory(),
        })
    }

    /// The cookie that a node of `network` writes by default.
    #[must_use]
    pub fn node_cookie(&self, network: Network) -> PathBuf {
        self.node_data.join(network::core_data_subdirectory(network)).join(".cookie")
    }

    /// The directory where a node of `network` keeps its block files by default.
    #[must_use]
    pub fn node_blocks(&self, network: Network) -> PathBuf {
        self.node_data.join(network::core_data_subdirectory(network)).join("blocks")
    }
}

#[cfg(target_os = "linux")]
fn memory() -> Option<ByteSize> {
    let info = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion)] // as wide as the machine's words
    let bytes = u64::from(info.totalram).checked_mul(info.mem_unit.into())?;
    Some(ByteSize::new(bytes >> 20 << 20)).filter(|memory| memory.to_bytes() > 0)
}

#[cfg(not(target_os = "linux"))]
fn memory() -> Option<ByteSize> {
    None
}

/// The node's RPC address unless it is set.
pub(super) fn rpc_url(network: Network) -> String {
    format!("http://127.0.0.1:{}", network::rpc_port(network))
}

/// Bitcoin Core's data directory (Core `common/args.cpp`, `GetDefaultDataDir`). On Windows it is in the local application
/// data since 29.0, but stays in the roaming ones where an older version had made it.
fn node_data(os: &str, home: &Path, data: &Path, local_data: &Path) -> PathBuf {
    match os {
        "macos" => data.join("Bitcoin"),
        "windows" if data.join("Bitcoin").is_dir() => data.join("Bitcoin"),
        "windows" => local_data.join("Bitcoin"),
        _ => home.join(".bitcoin"),
    }
}

/// `path` with a leading `~` replaced by the home directory.
pub(super) fn expand_home(path: &Path, home: &Path) -> PathBuf {
    path.strip_prefix("~").map_or_else(|_| path.to_owned(), |rest| home.join(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_data_is_looked_for_where_core_keeps_it() {
        let found = |os| node_data(os, Path::new("/home"), Path::new("/data"), Path::new("/local"));
        assert_eq!(found("linux"), Path::new("/home/.bitcoin"));
        assert_eq!(found("freebsd"), Path::new("/home/.bitcoin"));
        assert_eq!(found("macos"), Path::new("/data/Bitcoin"));
        assert_eq!(found("windows"), Path::new("/local/Bitcoin"));
    }

    #[test]
    fn on_windows_an_older_nodes_data_is_found() {
        let old = tempfile::tempdir().unwrap();
        std::fs::create_dir(old.path().join("Bitcoin")).unwrap();
        let found = node_data("windows", Path::new("/home"), old.path(), Path::new("/local"));
        assert_eq!(found, old.path().join("Bitcoin"));
    }

    #[test]
    fn the_cookie_is_in_the_networks_folder() {
        let platform = Platform { home: "/h".into(), data: "/d".into(), node_data: "/h/.bitcoin".into(), memory: None };
        let cookies = network::ALL.map(|network| platform.node_cookie(network).display().to_string());
        assert_eq!(
            cookies,
            [
                "/h/.bitcoin/.cookie",
                "/h/.bitcoin/testnet3/.cookie",
                "/h/.bitcoin/testnet4/.cookie",
                "/h/.bitcoin/signet/.cookie",
                "/h/.bitcoin/regtest/.cookie"
            ]
        );
    }

    #[test]
    fn only_a_leading_tilde_of_its_own_is_the_home_directory() {
        for (path, expanded) in
            [("~", "/h/"), ("~/a/b", "/h/a/b"), ("/a/~", "/a/~"), ("a", "a"), ("~user/a", "~user/a"), ("", "")]
        {
            assert_eq!(expand_home(Path::new(path), Path::new("/h")), Path::new(expanded), "{path}");
        }
    }
}
