//! `btcgraph man` and `btcgraph completions`: what packages install beside the program, made from its command line.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::config;
use super::failure::{Exit, Failure, OrExit};

#[derive(Args)]
pub(super) struct ManArguments {
    /// Directory for the pages; it is made if it does not exist
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

#[derive(Args)]
pub(super) struct CompletionArguments {
    /// The shell that reads the script
    shell: Shell,
}

/// Writes a page of section 1 for the program, and one for each of its commands.
pub(super) fn write_pages(mut command: Command, ManArguments { to }: &ManArguments) -> Result<(), Failure> {
    // else each page describes a command `help`, which only repeats what the pages say
    command = command.disable_help_subcommand(true);
    // flags that may follow any command become flags of each
    command.build();
    let written = fs::create_dir_all(to).and_then(|()| clap_mangen::generate_to(command, to));
    written.or_exit(Exit::Failed, format!("cannot write the man pages into {}", to.display()))
}

/// Prints a script that completes commands, flags and values.
pub(super) fn print_completions(mut command: Command, arguments: &CompletionArguments) -> Result<(), Failure> {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    config::to_stdout(&String::from_utf8_lossy(&script))
}
