//! All hooks of a server: their thread, and the check of their settings.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use async_graphql::futures_util::StreamExt;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::client::MessageSender;
use super::dead_letters::DeadLetters;
use super::deliverer::Deliverer;
use super::hook::Hook;
use super::journal::HookJournal;
use super::metrics::HookMetrics;
use super::subscription::{self, EventDetail, StreamItem};
use crate::api::{Schema, code};
use crate::outbound::{NoCertificates, TlsConfig};

/// How long the check of a hook may take. Over an index that is ready, the first event would be waited for.
const CHECK_TIMEOUT: Duration = Duration::from_millis(200);
/// The pause before a hook runs again that an internal fault has ended.
const FAULT_PAUSE: Duration = Duration::from_mins(1);
/// How long what still runs may take when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the hooks do not run.
#[derive(Debug, thiserror::Error)]
pub enum WebhooksError {
    /// A hook requests what the schema does not have.
    #[error("the webhook {hook}: its {setting} are wrong: {reason}")]
    Hook {
        /// Its name.
        hook: String,
        /// The setting that requests it.
        setting: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A hook sends to https.
    #[error(transparent)]
    Tls(#[from] NoCertificates),
    /// The directory of the hooks cannot be created.
    #[error("the directory of the webhooks {path} cannot be created: {source}")]
    Directory {
        /// The directory.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The thread of the hooks cannot be started.
    #[error("the thread of the webhooks cannot be started: {0}")]
    Thread(io::Error),
}

/// The hooks of a server.
pub struct Webhooks {
    metrics: Vec<(String, Arc<HookMetrics>)>,
    deliverers: Vec<HookParts>,
    thread: Option<JoinHandle<()>>,
}

/// What a deliverer of a hook is made of, each time it is started.
struct HookParts {
    hook: Arc<Hook>,
    schema: Schema,
    journal: HookJournal,
    dead_letters: DeadLetters,
    metrics: Arc<HookMetrics>,
    tls: Option<TlsConfig>,
}

impl HookParts {
    fn deliverer(&self) -> Deliverer {
        Deliverer {
            hook: self.hook.clone(),
            schema: self.schema.clone(),
            journal: self.journal.clone(),
            dead_letters: self.dead_letters.clone(),
            metrics: self.metrics.clone(),
            sender: MessageSender::new(&self.hook, self.tls.clone()),
        }
    }

    /// Delivers until it is dropped. An internal fault ends one message and not the hook.
    async fn run(self) {
        loop {
            let mut task = JoinSet::new();
            task.spawn(self.deliverer().run());
            task.join_next().await;
            error!(hook = self.hook.name, "an internal fault has ended a webhook; it starts again in a minute");
            sleep(FAULT_PAUSE).await;
        }
    }
}

impl Webhooks {
    /// The hooks, with their files in a directory. `tls` gives the certificate authorities, if a hook needs them.
    ///
    /// Errors: a hook's settings do not fit the schema, or what it needs is missing.
    pub async fn new(
        hooks: Vec<Hook>,
        schema: &Schema,
        directory: &Path,
        tls: impl FnOnce() -> Result<TlsConfig, NoCertificates>,
    ) -> Result<Self, WebhooksError> {
        let tls = if hooks.iter().any(|hook| hook.target.is_secure()) { Some(tls()?) } else { None };
        let (mut metrics, mut deliverers) = (Vec::new(), Vec::new());
        for hook in hooks {
            check(&hook, schema).await?;
            let journal = HookJournal::new(directory, &hook.name)
                .map_err(|source| WebhooksError::Directory { path: directory.display().to_string(), source })?;
            let counters = Arc::<HookMetrics>::default();
            metrics.push((hook.name.clone(), counters.clone()));
            deliverers.push(HookParts {
                dead_letters: DeadLetters::new(directory, &hook.name),
                hook: Arc::new(hook),
                schema: schema.clone(),
                journal,
                metrics: counters,
                tls: tls.clone(),
            });
        }
        Ok(Self { metrics, deliverers, thread: None })
    }

    /// The counters of each hook, by its name.
    #[must_use]
    pub fn metrics(&self) -> Vec<(String, Arc<HookMetrics>)> {
        self.metrics.clone()
    }

    /// Delivers on a thread of their own until `stop` is cancelled.
    pub fn start(&mut self, stop: CancellationToken) -> Result<(), WebhooksError> {
        if self.deliverers.is_empty() {
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (runtime, deliverers) = (runtime.map_err(WebhooksError::Thread)?, std::mem::take(&mut self.deliverers));
        info!(hooks = deliverers.len(), "delivering webhooks");
        let run = move || {
            runtime.block_on(async move {
                let mut tasks = JoinSet::new();
                for parts in deliverers {
                    tasks.spawn(parts.run());
                }
                stop.cancelled().await;
            });
            // a name that is still being resolved
            runtime.shutdown_timeout(STOP_TIMEOUT);
        };
        let thread = std::thread::Builder::new().name("webhooks".to_owned()).spawn(run);
        self.thread = Some(thread.map_err(WebhooksError::Thread)?);
        Ok(())
    }

    /// Waits until the thread has ended, after `stop` was cancelled.
    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // a panic is logged where it happens
            let _ = thread.join();
        }
    }
}

/// The codes of a request that can never be answered.
const IS_WRONG: [&str; 5] = [
    code::GRAPHQL_PARSE_FAILED,
    code::GRAPHQL_VALIDATION_FAILED,
    code::QUERY_LIMIT_EXCEEDED,
    code::BAD_USER_INPUT,
    code::FEATURE_DISABLED,
];

/// Validates what a hook asks of the schema: its kinds and depths, and then its fields. What it watches is checked when the index is
/// ready.
async fn check(hook: &Hook, schema: &Schema) -> Result<(), WebhooksError> {
    let wrong =
        |setting: &'static str, reason: String| WebhooksError::Hook { hook: hook.name.clone(), setting, reason };
    if let Some(fields) = &hook.fields {
        subscription::check_fields(fields).map_err(|reason| wrong("fields", reason))?;
    }
    for (setting, detail) in [("kinds or depths", EventDetail::Position), ("fields", EventDetail::Full)] {
        let mut events = schema.subscribe(subscription::request(hook, detail, None), None);
        let Ok(Some(response)) = timeout(CHECK_TIMEOUT, events.next()).await else { continue };
        if let StreamItem::Failure { code, message } = subscription::read(response)
            && IS_WRONG.contains(&code.as_str())
        {
            return Err(wrong(setting, message));
        }
    }
    Ok(())
}
