//! The check of an index that a server has open: requested by the command, run by the server.
//!
//! The command sends a [`VerifyRequest`], the server answers with a [`Line`] of JSON for each step and one for the end. When
//! the command ends early, so does the check.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use btcgraph::index::IndexError;
use btcgraph::node::StopFlag;
use btcgraph::server::admin::Job;
use btcgraph::settings::Settings;
use btcgraph::view::{Head, Published};
use serde::{Deserialize, Serialize};
use tracing::{error, info};

use super::super::failure::{Exit, Failure, OrExit};
use super::super::{in_use, pieces};
use super::check::{Asked, CheckResult, Outcome, Subject, VerifyArguments, ask_node, check};
use super::watch::Watch;

/// How many times the node is asked for its UTXO set until it is that of the tip.
const TRIES: u32 = 3;
/// The longest time in which the server follows the node between two attempts.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between reads of the server's tip during that time.
const TIP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What the command sends.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifyRequest {
    /// The index file, because another server may listen at the socket by now.
    index: PathBuf,
    temporary_dir: PathBuf,
    arguments: VerifyArguments,
}

/// What the server answers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// Some of a phase is done.
    Progress { phase: String, done: u64, total: u64 },
    /// The last line: the check is done.
    Done(CheckResult),
    /// The last line: the check failed.
    Failed { exit: Exit, message: String },
    /// The last line: the server stops.
    Stopped,
}

/// Asks the server that has the index of the settings open for the check.
pub(super) async fn ask(
    settings: &Settings,
    arguments: VerifyArguments,
    error: &IndexError,
) -> Result<Outcome, Failure> {
    let directory = &settings.index.temporary_dir;
    let temporary_dir =
        std::path::absolute(directory).or_exit(Exit::Usage, format!("--temporary-dir {}", directory.display()))?;
    let request = VerifyRequest { index: in_use::canonical_index(settings)?, temporary_dir, arguments };
    let question = serde_json::to_vec(&request).or_exit(Exit::Failed, "cannot encode the request")?;
    let answer = in_use::ask(settings, "/verify", &question, error).await?;
    info!(socket = %settings.admin.listen, "the server that has the index open checks it");
    let (mut lines, mut watch) = (answer.lines(), Watch::default());
    let broken = "the server ended the check early; its log may say why";
    while let Some(line) = lines.next_line().await.or_exit(Exit::Failed, broken)? {
        let line = serde_json::from_str(&line).or_exit(Exit::Failed, "the server has another version");
        if let Ok(Line::Progress { phase, done, total }) = &line {
            watch.step(phase, *done, *total);
            continue;
        }
        watch.finish();
        return match line? {
            Line::Done(verdict) => Ok(Outcome::Done(verdict)),
            Line::Failed { exit, message } => Err(Failure::new(exit, message)),
            Line::Stopped | Line::Progress { .. } => {
                Err(Failure::new(Exit::Incomplete, "INCOMPLETE: the server stopped before the check was done"))
            }
        };
    }
    watch.finish();
    Err(Failure::new(Exit::Failed, broken))
}

/// Runs the check that a command requests, on a thread of its own. Errors: the request is not of this version.
pub(crate) fn answer(question: &[u8], job: Job, settings: &Settings, published: &Published) -> Result<(), String> {
    let question: VerifyRequest = serde_json::from_slice(question)
        .map_err(|error| format!("this request is not of the server's version of btcgraph: {error}"))?;
    let (stop, mut settings, published) = (pieces::stop_flag(job.stop()), settings.clone(), published.clone());
    settings.index.temporary_dir.clone_from(&question.temporary_dir);
    let work = move || {
        info!("checking the index");
        let last = match answer_checked(&question, &job, &settings, &published, &stop) {
            Ok(Outcome::Done(verdict)) => {
                info!(differences = verdict.differences, complete = verdict.is_complete, "checked the index");
                Line::Done(verdict)
            }
            Ok(Outcome::Stopped) => {
                info!("the check of the index was stopped");
                Line::Stopped
            }
            Err(failure) => Line::Failed { exit: failure.exit(), message: failure.message() },
        };
        job.finish(json(&last));
    };
    // not a thread of the runtime, which the process waits for at its end: the node may take minutes to answer
    if let Err(error) = std::thread::Builder::new().name("verify".into()).spawn(work) {
        error!(%error, "cannot start a thread for checking the index");
    }
    Ok(())
}

fn answer_checked(
    question: &VerifyRequest,
    job: &Job,
    settings: &Settings,
    published: &Published,
    stop: &StopFlag,
) -> Result<Outcome, Failure> {
    in_use::check_asked(settings, &question.index)?;
    let mut head = newest(published)?;
    let mut asked = None;
    if !question.arguments.without_node {
        match ask_at_tip(&mut head, settings, published, stop) {
            Err(_) if stop.is_raised() => return Ok(Outcome::Stopped),
            answer => asked = Some(answer?),
        }
    }
    // the rest of the memory is the cache of the index
    let memory = pieces::buffer_bytes(settings);
    let subject = Subject { snapshot: &head.chain, checksums_match: false };
    check(&subject, settings, memory, &question.arguments, asked, stop, &mut |progress| {
        let phase = progress.phase.to_owned();
        job.tell(json(&Line::Progress { phase, done: progress.done, total: progress.total }));
    })
}

fn newest(published: &Published) -> Result<Arc<Head>, Failure> {
    let empty = "the index is empty yet: wait until the server has indexed a block";
    published.head().ok_or_else(|| Failure::new(Exit::Failed, empty))
}

/// Requests from the node what to compare with. If it is at another block than `head`, which this server follows to in a
/// moment, `head` becomes the newest, and the node is asked again.
fn ask_at_tip(
    head: &mut Arc<Head>,
    settings: &Settings,
    published: &Published,
    stop: &StopFlag,
) -> Result<Asked, Failure> {
    for _ in 1..TRIES {
        let asked = ask_node(settings, stop, Some(head.tip))?;
        if asked.is_at_tip() {
            return Ok(asked);
        }
        let deadline = Instant::now() + FOLLOW_TIMEOUT;
        while newest(published)?.tip == head.tip && Instant::now() < deadline {
            stop.sleep(TIP_POLL_INTERVAL)?;
        }
        *head = newest(published)?;
    }
    ask_node(settings, stop, Some(head.tip))
}

fn json(line: &Line) -> String {
    serde_json::to_string(line).unwrap_or_else(|error| {
        error!(%error, "cannot encode the progress of the check");
        String::new()
    })
}
