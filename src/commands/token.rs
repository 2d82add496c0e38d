//! `btcgraph token`: makes a token for a client, and the line of settings by which the server knows it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use btcgraph::server::Token;
use clap::Args;

use super::config;
use super::failure::{Exit, Failure, OrExit};

/// Whose token, and what it is good for.
#[derive(Args)]
pub(super) struct TokenArguments {
    /// Name of the client, for the log
    name: String,
    /// What it may spend a minute, in units of cost (`server.limits.complexity` says what one query may); 0 for any
    #[arg(long, default_value_t = 0)]
    cost: u32,
    /// Let it send transactions, where api.broadcast is on
    #[arg(long)]
    may_broadcast: bool,
}

/// What tokens begin with, so that those who search for secrets that got lost find them.
const PREFIX: &str = "btcgraph_";

/// Prints a new token and its line. Nobody keeps the token.
pub(super) fn run(TokenArguments { name, cost, may_broadcast }: &TokenArguments) -> Result<(), Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).or_exit(Exit::Failed, "the operating system has no random numbers")?;
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let line = Token::new(name, &token, *cost, *may_broadcast).ok_or_else(|| {
        let message = "the name of a token has letters, digits, dots, dashes and underscores, 64 at most";
        Failure::new(Exit::Usage, message)
    })?;
    config::to_stdout(&format!(
        "# for the client, who sends it as `Authorization: Bearer …`; it is shown this once:\n#   {token}\n\
         # for the settings, one line in server.tokens for each client:\n[server]\ntokens = \"\"\"\n{line}\n\"\"\"\n"
    ))
}
