//! The webhooks of `serve`, and `btcgraph webhook`, which sends their dead letters again.

use std::time::Duration;

use btcgraph::api::Schema;
use btcgraph::outbound::TlsConfig;
use btcgraph::settings::{Settings, WebhookSettings};
use btcgraph::webhooks::{self, DeadLetters, Hook, Resent, SigningKeys, Webhooks, WebhooksError};
use clap::{Args, Subcommand};

use super::config;
use super::failure::{Exit, Failure, OrExit};

/// How long the end of a request may take when the command ends.
const SHUTDOWN: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(super) struct WebhookArguments {
    #[command(subcommand)]
    action: WebhookAction,
}

#[derive(Subcommand)]
enum WebhookAction {
    /// Send the dead letters of a webhook again, in their order, until one fails; `serve` may be running
    Resend {
        /// Name of the webhook
        name: String,
    },
}

/// The hooks of the settings, which do not deliver yet.
pub(super) async fn of(settings: &Settings, schema: &Schema) -> Result<Webhooks, Failure> {
    let hooks = settings.webhook.iter().map(hook).collect::<Result<Vec<_>, _>>()?;
    let hooks = Webhooks::new(hooks, schema, &settings.webhooks_dir(), TlsConfig::of_system).await;
    hooks.map_err(|error| match error {
        WebhooksError::Hook { .. } => Failure::new(Exit::Usage, error),
        _ => Failure::new(Exit::Failed, error),
    })
}

/// The hook of these settings, with its secrets.
fn hook(settings: &WebhookSettings) -> Result<Hook, Failure> {
    let name = &settings.name;
    let text = if settings.secret_env.is_empty() {
        let path = &settings.secret_file;
        if path.as_os_str().is_empty() {
            settings.secret.expose().to_owned()
        } else {
            let tried = format!("cannot read {}, the secret_file of the webhook {name}", path.display());
            std::fs::read_to_string(path).or_exit(Exit::Usage, tried)?
        }
    } else {
        let variable = &settings.secret_env;
        let tried = format!("the environment has no text in {variable}, the secret_env of the webhook {name}");
        std::env::var(variable).or_exit(Exit::Usage, tried)?
    };
    let keys = SigningKeys::parse(&text);
    Ok(settings.to_hook(keys.or_exit(Exit::Usage, format!("the webhook {name} has no secret"))?))
}

/// Runs `btcgraph webhook`.
pub(super) fn run(settings: &Settings, arguments: &WebhookArguments) -> Result<(), Failure> {
    let WebhookAction::Resend { name } = &arguments.action;
    let Some(of_name) = settings.webhook.iter().find(|hook| hook.name == *name) else {
        let names: Vec<_> = settings.webhook.iter().map(|hook| hook.name.as_str()).collect();
        let message = format!("the settings have no webhook {name:?}; they have: {}", names.join(", "));
        return Err(Failure::new(Exit::Usage, message));
    };
    let hook = hook(of_name)?;
    let directory = settings.webhooks_dir();
    let tls = if hook.target.is_secure() {
        Some(TlsConfig::of_system().or_exit(Exit::Failed, "cannot check receivers")?)
    } else {
        None
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.or_exit(Exit::Failed, "cannot start the runtime")?;
    let tried = format!("cannot send the dead letters of {}", DeadLetters::new(&directory, name).path().display());
    let resent = runtime.block_on(webhooks::resend(&hook, tls, &directory)).or_exit(Exit::Failed, tried);
    runtime.shutdown_timeout(SHUTDOWN);
    let Resent { delivered, left, error } = resent?;
    match error {
        None => config::to_stdout(&format!("delivered {delivered}\n")),
        Some(error) => {
            let message =
                format!("delivered {delivered}, left {left}: {error}; run the command again to send the rest");
            Err(Failure::new(Exit::Failed, message))
        }
    }
}
