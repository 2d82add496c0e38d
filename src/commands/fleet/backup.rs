//! `btcgraph backup` and `btcgraph restore`. While a server has the index open, that server copies its live tables, and the
//! command moves the copy to the backup with the generations.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use btcgraph::chain::network;
use btcgraph::fleet::{self, BackupSource};
use btcgraph::index::{CopiedRows, Index, IndexError, IndexOptions, Snapshot};
use btcgraph::server::admin::Job;
use btcgraph::settings::Settings;
use btcgraph::view::Published;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::super::failure::{Exit, Failure, OrExit};
use super::super::{in_use, pieces};
use super::{refuse_wrong_blocks, with_current_files};

/// Copying reads every row once, so it needs little memory.
const CACHE_BYTES: usize = 64 << 20;

#[derive(Args)]
pub(in crate::commands) struct BackupArguments {
    /// The directory of the backup, which is made, or brought up to date
    #[arg(long, value_name = "DIRECTORY")]
    to: PathBuf,
}

#[derive(Args)]
pub(in crate::commands) struct RestoreArguments {
    /// The directory of the backup
    #[arg(long, value_name = "DIRECTORY")]
    from: PathBuf,
}

/// What the server answers, a line each.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CopyLine {
    /// Some rows are copied.
    Progress { done: u64, total: u64 },
    /// The last line: the files of the index.
    Done(BackupSource),
    /// The last line: it failed.
    Failed { exit: Exit, message: String },
    /// The last line: the server stops.
    Stopped,
}

/// Writes a backup, or brings it up to date.
pub(in crate::commands) async fn run(
    settings: &Settings,
    stop: CancellationToken,
    arguments: BackupArguments,
) -> Result<(), Failure> {
    let BackupArguments { to } = arguments;
    refuse_wrong_blocks(settings)?;
    // before the live tables are copied, which takes a while
    fleet::check_backup_directory(&settings.index_file(), &to)?;
    let written = with_current_files(async || {
        let source = source_of(settings, &stop).await?;
        let (to, to_stop) = (to.clone(), stop.clone());
        pieces::blocking(move || {
            let written = fleet::back_up(&source, &to, &to_stop);
            // the next backup makes another one
            let _ = fs::remove_file(&source.copy);
            Ok(written.map(|outcome| (source.tip, outcome)))
        })
        .await
    });
    match written.await {
        Ok(Ok((tip, outcome))) => {
            let height = tip.map(|(height, _)| height);
            info!(height, copied_files = outcome.copied, copied_bytes = outcome.bytes, "the backup is complete");
            Ok(())
        }
        _ if stop.is_cancelled() => stopped(),
        Ok(Err(error)) => Err(error.into()),
        Err(failure) => Err(failure),
    }
}

/// The files of the index: of the settings, or of the server that has it open.
async fn source_of(settings: &Settings, stop: &CancellationToken) -> Result<BackupSource, Failure> {
    let (here, to_stop) = (settings.clone(), stop.clone());
    let opened = pieces::blocking(move || {
        let options = IndexOptions { cache_bytes: CACHE_BYTES, ..pieces::index_options(&here) };
        match Index::open_existing(&options) {
            Err(error @ IndexError::InUse { .. }) => Ok(Err(error)),
            index => Ok(Ok(copy(&here, &index?.snapshot()?, &to_stop, &mut |_| {})?)),
        }
    });
    match opened.await? {
        Ok(source) => Ok(source),
        Err(error) => tokio::select! {
            source = ask(settings, &error) => source,
            () = stop.cancelled() => Err(fleet::FleetError::Stopped.into()),
        },
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is the result of the commands that call it")]
fn stopped() -> Result<(), Failure> {
    info!("stopped; run the command again to complete the backup");
    Ok(())
}

/// Restores a backup into a data directory without an index.
pub(in crate::commands) async fn run_restore(
    settings: &Settings,
    stop: CancellationToken,
    arguments: RestoreArguments,
) -> Result<(), Failure> {
    let (settings, to_stop) = (settings.clone(), stop.clone());
    let restored = pieces::blocking(move || {
        Ok(fleet::restore(&arguments.from, &settings.index_file(), settings.network, &to_stop)?)
    });
    match restored.await {
        Ok(outcome) => {
            let height = outcome.tip.map(|(height, _)| height);
            info!(
                height,
                files = outcome.files,
                "restored; `btcgraph verify` checks all of it, and `btcgraph serve` goes on from there"
            );
            Ok(())
        }
        Err(_) if stop.is_cancelled() => {
            info!("stopped; run the command again to restore");
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// Copies the live tables of a snapshot beside the index.
fn copy(
    settings: &Settings,
    snapshot: &Snapshot,
    stop: &CancellationToken,
    progress: &mut dyn FnMut(CopiedRows),
) -> Result<BackupSource, Failure> {
    let absolute = |path: &Path| -> Result<PathBuf, Failure> {
        std::path::absolute(path).or_exit(Exit::Index, format!("cannot resolve the path {}", path.display()))
    };
    let index = absolute(&settings.index_file())?;
    let path = Index::copying_path(&index);
    snapshot.copy_to(&path, &mut |rows| {
        progress(rows);
        if stop.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let all = |paths: Vec<PathBuf>| paths.iter().map(|path| absolute(path)).collect::<Result<Vec<_>, _>>();
    Ok(BackupSource {
        index,
        network: network::name(settings.network).to_owned(),
        tip: snapshot.tip().map(|tip| (tip.height.to_u32(), tip.hash)),
        copy: path,
        generations: all(snapshot.generation_files())?,
        optional: all(snapshot.optional_files())?,
    })
}

/// Asks the server that has the index open for a copy.
async fn ask(settings: &Settings, error: &IndexError) -> Result<BackupSource, Failure> {
    let answer = in_use::ask_about_index(settings, "/backup", error).await?;
    info!(socket = %settings.admin.listen, "the server that has the index open copies it");
    let broken = "the server ended the copy early; its log may say why";
    let mut lines = answer.lines();
    while let Some(line) = lines.next_line().await.or_exit(Exit::Failed, broken)? {
        match serde_json::from_str(&line).or_exit(Exit::Failed, "the server has another version")? {
            CopyLine::Progress { .. } => {}
            CopyLine::Done(source) => return Ok(source),
            CopyLine::Failed { exit, message } => return Err(Failure::new(exit, message)),
            CopyLine::Stopped => {
                return Err(Failure::new(Exit::Failed, "the server stopped before the copy was complete"));
            }
        }
    }
    Err(Failure::new(Exit::Failed, broken))
}

/// Copies the live tables of a running server, for [`ask`], on a thread of its own. Errors: it has another index open.
pub(in crate::commands) fn answer(
    asked: &[u8],
    job: Job,
    settings: &Settings,
    published: &Published,
) -> Result<(), String> {
    in_use::check_asked_text(settings, asked)?;
    let head = published.head().ok_or("the index is empty yet: wait until the server has indexed a block")?;
    let settings = settings.clone();
    let work = move || {
        info!("copying the live tables for a backup");
        let copied = copy(&settings, &head.chain, job.stop(), &mut |rows| {
            job.tell(json(&CopyLine::Progress { done: rows.done, total: rows.total }));
        });
        let last = match copied {
            Ok(source) => CopyLine::Done(source),
            Err(_) if job.stop().is_cancelled() => CopyLine::Stopped,
            Err(failure) => CopyLine::Failed { exit: failure.exit(), message: failure.message() },
        };
        drop(head);
        job.finish(json(&last));
    };
    if let Err(error) = std::thread::Builder::new().name("backup".into()).spawn(work) {
        error!(%error, "cannot start a thread for copying the index");
    }
    Ok(())
}

fn json(line: &CopyLine) -> String {
    serde_json::to_string(line).unwrap_or_else(|error| {
        error!(%error, "cannot encode the progress of the copy");
        String::new()
    })
}
