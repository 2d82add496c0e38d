//! The address of the admin socket, where `serve` listens for commands.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

/// The address of the admin socket.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum AdminAddress {
    /// A Unix socket at this path.
    Unix(PathBuf),
    /// A port of a loopback address.
    Tcp(SocketAddr),
}

impl AdminAddress {
    /// The default: a Unix socket in the network's folder, or a loopback port on systems without Unix sockets.
    #[must_use]
    pub fn default_in(network_dir: &Path) -> Self {
        if cfg!(unix) {
            AdminAddress::Unix(network_dir.join("admin.sock"))
        } else {
            AdminAddress::Tcp(([127, 0, 0, 1], 8081).into())
        }
    }

    /// Whether the setting is empty.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, AdminAddress::Unix(path) if path.as_os_str().is_empty())
    }

    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            AdminAddress::Unix(path) => Some(path),
            AdminAddress::Tcp(_) => None,
        }
    }
}

/// Text that is no [`AdminAddress`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAdminAddress {
    /// Neither a path nor an address.
    #[error(
        "{0:?} is neither the path of a socket (with a slash in it, as in \"./admin.sock\") nor a loopback address and \
         a port, as in \"127.0.0.1:8081\""
    )]
    Neither(String),
    /// An address that is not loopback.
    #[error(
        "{0} can be reached from other machines, and every client of it may command the server: set a loopback \
         address, as in \"127.0.0.1:8081\""
    )]
    NotLoopback(SocketAddr),
    /// Any free port, which no command can find.
    #[error("{0} is another port at each start, which no command can find: set a fixed one, as in \"127.0.0.1:8081\"")]
    AnyPort(SocketAddr),
}

impl TryFrom<String> for AdminAddress {
    type Error = NotAnAdminAddress;

    fn try_from(text: String) -> Result<Self, NotAnAdminAddress> {
        match text.parse::<SocketAddr>() {
            Ok(address) if !address.ip().is_loopback() => Err(NotAnAdminAddress::NotLoopback(address)),
            Ok(address) if address.port() == 0 => Err(NotAnAdminAddress::AnyPort(address)),
            Ok(address) => Ok(AdminAddress::Tcp(address)),
            Err(_) if text.is_empty() || text.contains(std::path::is_separator) => Ok(AdminAddress::Unix(text.into())),
            Err(_) => Err(NotAnAdminAddress::Neither(text)),
        }
    }
}

impl Serialize for AdminAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            AdminAddress::Unix(path) => path.serialize(serializer),
            AdminAddress::Tcp(address) => serializer.collect_str(address),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminAddress::Unix(path) => path.display().fmt(f),
            AdminAddress::Tcp(address) => address.fmt(f),
        }
    }
}
