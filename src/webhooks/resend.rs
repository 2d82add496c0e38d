//! Sends dead letters again, in their order, each with its id and body and with a new time and signature.

use std::io;
use std::path::Path;

use super::client::MessageSender;
use super::dead_letters::DeadLetters;
use super::hook::Hook;
use crate::outbound::TlsConfig;

/// What became of dead letters that were sent again.
#[derive(Debug, PartialEq, Eq)]
pub struct Resent {
    /// How many the receiver acknowledged.
    pub delivered: usize,
    /// How many are left: the one that failed, and those behind it.
    pub left: usize,
    /// Why that one failed.
    pub error: Option<String>,
}

/// Sends the dead letters of a hook until one fails, so that their order is kept. What is left is sent by the next call.
///
/// Errors: reading or writing the files fails.
pub async fn resend(hook: &Hook, tls: Option<TlsConfig>, directory: &Path) -> io::Result<Resent> {
    let letters = DeadLetters::new(directory, &hook.name);
    let mut sender = MessageSender::new(hook, tls);
    // those of an interrupted command, and behind them those that were added since. What is added from then on is left to the next
    // call: a receiver may refuse the events of a hook as fast as it takes its dead letters
    let rounds = if letters.are_left() { 2 } else { 1 };
    let mut before = 0;
    for _ in 0..rounds {
        let taken = letters.take()?;
        for (delivered, letter) in taken.iter().enumerate() {
            if let Err(failure) = sender.send(&letter.message).await {
                let left = &taken[delivered..];
                letters.leave(left)?;
                let (delivered, left) = (before + delivered, left.len() + letters.count()?);
                return Ok(Resent { delivered, left, error: Some(failure.reason.to_string()) });
            }
            // at every hundredth, so that an interruption repeats few
            let rest = &taken[delivered + 1..];
            if delivered % 100 == 99 && !rest.is_empty() {
                letters.leave(rest)?;
            }
        }
        // also if a crash has left half a line and no letter
        if letters.are_left() {
            letters.leave(&[])?;
        }
        before += taken.len();
    }
    Ok(Resent { delivered: before, left: 0, error: None })
}
