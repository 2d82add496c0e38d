//! `btcgraph verify`: checks the index against itself and against the node. While a server has the index open, that
//! server runs the check.

mod check;
mod command;
mod remote;
mod watch;

pub(super) use check::VerifyArguments;
pub(super) use command::run;
pub(super) use remote::answer;
