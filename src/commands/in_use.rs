//! What `verify`, `publish` and `backup` have in common while a server has the index open: they ask that server, which answers
//! for no other index.

use std::fs;
use std::path::{Path, PathBuf};

use btcgraph::index::IndexError;
use btcgraph::settings::Settings;

use super::admin::{self, AdminAnswer};
use super::failure::{Exit, Failure, OrExit};

/// The path of the index of the settings, as commands and a running server name it to each other.
pub(super) fn canonical_index(settings: &Settings) -> Result<PathBuf, Failure> {
    let file = settings.index_file();
    fs::canonicalize(&file).or_exit(Exit::Index, format!("cannot resolve the path of the index {}", file.display()))
}

/// Sends a request to the server that has the index open.
///
/// Errors: `in_use` if no server responds; the server refuses.
pub(super) async fn ask(
    settings: &Settings,
    path: &str,
    body: &[u8],
    in_use: &IndexError,
) -> Result<AdminAnswer, Failure> {
    let address = &settings.admin.listen;
    let tried = format!("{in_use}. No `btcgraph serve` responds at {address} (--admin)");
    let answer = admin::ask(address, path, body).await.or_exit(Exit::Index, tried)?;
    if answer.status == 200 { Ok(answer) } else { Err(Failure::new(Exit::Failed, answer.reason().await)) }
}

/// Sends the path of the index to the server that has it open.
///
/// Errors: as [`ask`].
pub(super) async fn ask_about_index(
    settings: &Settings,
    path: &str,
    in_use: &IndexError,
) -> Result<AdminAnswer, Failure> {
    let index = canonical_index(settings)?;
    ask(settings, path, index.to_string_lossy().as_bytes(), in_use).await
}

/// Checks that a request is about the index of this server: another server may listen at the socket by now.
pub(super) fn check_asked(settings: &Settings, asked: &Path) -> Result<(), Failure> {
    let index = canonical_index(settings)?;
    // a path that is not UTF-8 is sent as text, too
    if index.to_string_lossy() == asked.to_string_lossy() {
        return Ok(());
    }
    let (ours, asked) = (index.display(), asked.display());
    let message = format!("the server at this socket has the index {ours} open, not {asked}: set another --admin");
    Err(Failure::new(Exit::Index, message))
}

/// The same of a request that is the path alone.
pub(super) fn check_asked_text(settings: &Settings, asked: &[u8]) -> Result<(), String> {
    check_asked(settings, Path::new(&*String::from_utf8_lossy(asked))).map_err(|failure| failure.message())
}
