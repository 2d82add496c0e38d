//! `btcgraph token`: makes a token for a client, and its line for the settings of the server.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use btcgraph::server::Token;
use clap::Args;

use super::config;
use super::failure::{Exit, Failure, OrExit};

/// The client of the token, and its permissions.
#[derive(Args)]
pub(super) struct TokenArguments {
    /// Name of the client, for the log
    name: String,
    /// Budget a minute, in units of cost (`server.limits.requests.complexity` is the maximum of one query); 0 for no limit
    #[arg(long, default_value_t = 0)]
    cost: u32,
    /// Let the client send transactions, if api.broadcast is on
    #[arg(long)]
    may_broadcast: bool,
}

/// The prefix of tokens, so that scanners for leaked secrets recognise them.
const PREFIX: &str = "btcgraph_";

/// Prints a new token and its line. The token is not stored.
pub(super) fn run(TokenArguments { name, cost, may_broadcast }: &TokenArguments) -> Result<(), Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).or_exit(Exit::Failed, "the operating system has no random numbers")?;
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let line = Token::new(name, &token, *cost, *may_broadcast).ok_or_else(|| {
        let message = "the name of a token may have letters, digits, dots, dashes and underscores, 64 at most";
        Failure::new(Exit::Usage, message)
    })?;
    config::to_stdout(&format!(
        "# for the client, which sends it as `Authorization: Bearer …`; it is not shown again:\n#   {token}\n\
         # for the settings, one line in server.tokens for each client:\n[server]\ntokens = \"\"\"\n{line}\n\"\"\"\n"
    ))
}
