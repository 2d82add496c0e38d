//! The login sent with each RPC: read once, and read again from the cookie file when the node refuses it, since a
//! restarted node writes a new cookie.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use bitcoincore_rpc::jsonrpc::base64;
use parking_lot::Mutex;

use super::error::NodeError;
use super::options::Auth;

/// A cookie has some 75 bytes; a longer file is not a cookie.
const MAX_COOKIE_BYTES: u64 = 1024;

pub(super) struct Credentials {
    auth: Auth,
    /// The current `Authorization` header, once it is made.
    header: Mutex<Option<Arc<str>>>,
}

impl Credentials {
    pub(super) fn new(auth: Auth) -> Credentials {
        Credentials { auth, header: Mutex::new(None) }
    }

    /// The value of the `Authorization` header.
    pub(super) fn header(&self) -> Result<Arc<str>, NodeError> {
        let mut header = self.header.lock();
        match &*header {
            Some(header) => Ok(Arc::clone(header)),
            None => Ok(Arc::clone(header.insert(make_header(&self.auth)?))),
        }
    }

    /// The header to use after the node refused `rejected`; `None` when there is no other.
    pub(super) fn header_after(&self, rejected: &str) -> Result<Option<Arc<str>>, NodeError> {
        let mut header = self.header.lock();
        if header.as_deref() == Some(rejected) {
            *header = None;
        }
        let current = match &*header {
            // another thread was refused earlier and has read the file again
            Some(header) => Arc::clone(header),
            None => Arc::clone(header.insert(make_header(&self.auth)?)),
        };
        Ok((*current != *rejected).then_some(current))
    }

    /// The cookie file or user of the login, without the secret.
    pub(super) fn login(&self) -> String {
        match &self.auth {
            Auth::Cookie(path) => format!("the cookie file {}", path.display()),
            Auth::UserPassword { user, .. } => format!("user {user:?}"),
        }
    }
}

fn make_header(auth: &Auth) -> Result<Arc<str>, NodeError> {
    let login = match auth {
        Auth::Cookie(path) => read_cookie(path)?,
        Auth::UserPassword { user, password } => format!("{user}:{password}"),
    };
    Ok(format!("Basic {}", base64::encode(login)).into())
}

fn read_cookie(path: &Path) -> Result<String, NodeError> {
    let unreadable = |cause: io::Error| NodeError::NoCookie { path: path.to_owned(), cause };
    let mut text = String::new();
    File::open(path).map_err(unreadable)?.take(MAX_COOKIE_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    let cookie = text.trim();
    if !cookie.contains(':') || cookie.contains(char::is_whitespace) {
        let problem = format!("{} is not a cookie file of bitcoind, which is one line user:secret", path.display());
        return Err(NodeError::Settings { setting: "node.rpc_cookie", problem });
    }
    Ok(cookie.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_cookie_is_replaced_only_by_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".cookie");
        std::fs::write(&path, "__cookie__:one").unwrap();
        let credentials = Credentials::new(Auth::Cookie(path.clone()));
        let first = credentials.header().unwrap();
        assert_eq!(&*first, format!("Basic {}", base64::encode("__cookie__:one")));
        assert_eq!(credentials.header_after(&first).unwrap(), None);

        std::fs::write(&path, "__cookie__:two\n").unwrap();
        assert_eq!(credentials.header().unwrap(), first, "the file is read again only after a refusal");
        let second = credentials.header_after(&first).unwrap().unwrap();
        assert_eq!(&*second, format!("Basic {}", base64::encode("__cookie__:two")));
        assert_eq!(credentials.header().unwrap(), second);
        assert_eq!(credentials.header_after(&first).unwrap(), Some(second), "a late refusal of the first one");
    }

    #[test]
    fn a_missing_cookie_is_transient_and_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let header = |path: std::path::PathBuf| Credentials::new(Auth::Cookie(path)).header();
        let missing = header(folder.path().join(".cookie")).unwrap_err();
        assert!(matches!(missing, NodeError::NoCookie { .. }) && missing.is_transient());
        let other = folder.path().join("bitcoin.conf");
        std::fs::write(&other, "rpcport = 8332\n").unwrap();
        assert!(matches!(header(other), Err(NodeError::Settings { setting: "node.rpc_cookie", .. })));
    }
}
