//! The socket itself: a port of a loopback address, or a Unix socket that only its owner may open.
//!
//! A Unix socket leaves a file, which a killed process does not remove. A file at which no process accepts connections is
//! replaced; otherwise another server runs.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;

/// A socket that listens. Its file, if it has one, is removed when this is dropped.
pub struct AdminSocket {
    listening: Listening,
    file: Option<SocketFile>,
}

pub(crate) enum Listening {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

/// Why the socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process listens there.
    #[error("another server listens at {0} already: stop it first, or choose another admin.listen (--admin)")]
    InUse(String),
    /// The file is no socket, and is not replaced.
    #[error("{path} exists and is not a socket: choose another admin.listen (--admin), or move it away", path = path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// More than a socket's address can hold.
    #[error("the path {path} is too long for a socket: choose a shorter admin.listen (--admin)", path = path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("cannot {doing} {place}: {source}. Choose another admin.listen (--admin)")]
    System {
        /// The operation.
        doing: &'static str,
        /// Its address or path.
        place: String,
        /// Its error.
        source: io::Error,
    },
}

impl AdminSocket {
    /// Listens at a port. That the address is loopback is for the caller to see to.
    ///
    /// Errors: [`SocketError::InUse`], `System`.
    pub async fn tcp(address: SocketAddr) -> Result<Self, SocketError> {
        match TcpListener::bind(address).await {
            Ok(listener) => Ok(Self { listening: Listening::Tcp(listener), file: None }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(SocketError::InUse(address.to_string())),
            Err(source) => {
                Err(SocketError::System { doing: "listen at the address", place: address.to_string(), source })
            }
        }
    }

    /// Listens at a path, in a directory that is made if it does not exist. Needs a runtime.
    ///
    /// Errors: [`SocketError`].
    #[cfg(unix)]
    pub async fn unix(path: &Path) -> Result<Self, SocketError> {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

        if std::os::unix::net::SocketAddr::from_pathname(path).is_err() {
            return Err(SocketError::TooLong { path: path.into() });
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(system("make the directory", directory))?;
        refuse_if_in_use(path).await?;
        // made where no other user can open it, and moved to its place when none may: its first mode is as the
        // process has it for all files. Moving replaces what a dead server left
        let private = tempfile::Builder::new()
            .prefix(".")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(directory)
            .map_err(system("write to the directory", directory))?;
        let unfinished = private.path().join("s");
        let listen = || -> io::Result<Self> {
            let listener = tokio::net::UnixListener::bind(&unfinished)?;
            fs::set_permissions(&unfinished, Permissions::from_mode(0o600))?;
            fs::rename(&unfinished, path)?;
            let file = Some(SocketFile { id: file_id(path)?, path: path.into() });
            Ok(Self { listening: Listening::Unix(listener), file })
        };
        listen().map_err(system("listen at the socket", path))
    }

    /// This system has none.
    #[cfg(not(unix))]
    pub async fn unix(path: &Path) -> Result<Self, SocketError> {
        Err(system("listen at the socket", path)(io::ErrorKind::Unsupported.into()))
    }

    /// The file is to be kept for as long as the listener is used.
    pub(crate) fn into_parts(self) -> (Listening, Option<SocketFile>) {
        (self.listening, self.file)
    }
}

/// An existing file must be a socket at which no process accepts connections.
#[cfg(unix)]
async fn refuse_if_in_use(path: &Path) -> Result<(), SocketError> {
    use std::os::unix::fs::FileTypeExt;

    match path.symlink_metadata() {
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket { path: path.into() }),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("look at the socket", path)(error)),
    }
    match tokio::net::UnixStream::connect(path).await {
        Ok(_) => Err(SocketError::InUse(path.display().to_string())),
        // its queue of connections is full
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::InUse(path.display().to_string())),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(system("look at the socket", path)(error)),
    }
}

fn system<'p>(doing: &'static str, path: &'p Path) -> impl Fn(io::Error) -> SocketError + use<'p> {
    move |source| SocketError::System { doing, place: path.display().to_string(), source }
}

/// The file of a Unix socket, removed when dropped unless another socket has taken its place.
pub(crate) struct SocketFile {
    path: PathBuf,
    id: FileId,
}

/// Device and inode.
type FileId = (u64, u64);

#[cfg(unix)]
fn file_id(path: &Path) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt;

    let found = path.symlink_metadata()?;
    Ok((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn file_id(_: &Path) -> io::Result<FileId> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if file_id(&self.path).is_ok_and(|id| id == self.id)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "the admin socket cannot be removed");
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn entries(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_alone_in_a_directory_of_its_own_and_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/admin.sock");
        let socket = AdminSocket::unix(&path).await.unwrap();
        assert_eq!(path.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(entries(path.parent().unwrap()), ["admin.sock"]);
        UnixStream::connect(&path).unwrap();
        drop(socket);
        assert_eq!(entries(path.parent().unwrap()), [""; 0]);
    }

    #[tokio::test]
    async fn what_a_dead_server_left_is_replaced_and_a_living_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a socket's file outlives it");
        let living = AdminSocket::unix(&path).await.unwrap();
        assert!(matches!(AdminSocket::unix(&path).await, Err(SocketError::InUse(_))));
        UnixStream::connect(&path).unwrap();
        drop(living);
        drop(AdminSocket::unix(&path).await.unwrap());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(AdminSocket::unix(&path).await, Err(SocketError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_socket_that_took_the_place_of_another_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let first = AdminSocket::unix(&path).await.unwrap();
        fs::remove_file(&path).unwrap();
        let _second = AdminSocket::unix(&path).await.unwrap();
        drop(first);
        UnixStream::connect(&path).unwrap();
    }

    #[tokio::test]
    async fn a_path_that_no_socket_can_have_is_refused_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let error = AdminSocket::unix(&directory.path().join("x".repeat(200))).await.err().unwrap();
        assert!(error.to_string().contains("--admin"), "{error}");
        assert_eq!(entries(directory.path()), [""; 0]);
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_refused() {
        let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let error = AdminSocket::tcp(taken.local_addr().unwrap()).await.err();
        assert!(matches!(error, Some(SocketError::InUse(_))));
    }
}
