//! `btcgraph demo`: all that `serve` is, over a simulated chain that goes on by itself. It keeps its files in a
//! temporary directory, which goes when it ends.

use std::path::Path;

use btcgraph::settings::{AdminAddress, Flag, Settings};
use btcgraph::sim::{LivingNode, Profile, SimNodeOptions};
use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::failure::{Exit, Failure, OrExit};
use super::flags::Flags;
use super::{pieces, serve};

/// What is simulated.
#[derive(Args, Clone, Copy)]
pub(super) struct DemoArguments {
    /// What goes on in the chain
    #[arg(long, value_enum, default_value_t = Kind::Demo)]
    profile: Kind,
    /// What all its choices follow from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// A small chain to look at: a block every 10 seconds or so, a few payments a second
    Demo,
    /// Full blocks of transactions of the shape of mainnet's, at its pace
    MainnetLike,
    /// Everything odd at once, to test an application with: reorganisations, replacements, all script types
    Hostile,
}

impl From<Kind> for Profile {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Demo => Profile::Demo,
            Kind::MainnetLike => Profile::MainnetLike,
            Kind::Hostile => Profile::Hostile,
        }
    }
}

/// What the demo brings itself. Most of it is known only when it runs; what stands here takes the place of what file and
/// environment say of the user's own node.
const OWN: [(&str, &str); 7] = [
    ("network", "regtest"),
    ("data_dir", "."),
    ("node.rpc_url", ""),
    ("node.rpc_cookie", ""),
    ("node.rpc_user", "demo"),
    ("node.rpc_password", "demo"),
    ("admin.listen", ""),
];

/// The settings of the demo: the user's own, but for what it brings itself.
///
/// Errors: a flag gives what the demo brings itself, or the settings cannot be read.
pub(super) fn settings(flags: Flags) -> Result<Settings, Failure> {
    let mut sources = flags.sources();
    let contradicts = |flag: &&Flag| OWN.iter().any(|(setting, _)| *setting == flag.setting);
    if let Some(flag) = sources.flags.iter().find(contradicts) {
        let message = format!("`btcgraph demo` has a chain and an index of its own: leave {} out", flag.name);
        return Err(Failure::new(Exit::Usage, message));
    }
    let own = OWN.map(|(setting, value)| Flag { name: "btcgraph demo", setting, value: value.to_owned() });
    sources.flags.extend(own);
    Ok(Settings::load(&sources)?)
}

/// Runs until `stop` is cancelled.
pub(super) async fn run(
    settings: &Settings,
    stop: CancellationToken,
    DemoArguments { profile, seed }: DemoArguments,
) -> Result<(), Failure> {
    let directory = tempfile::Builder::new().prefix("btcgraph-demo-").tempdir();
    let directory = directory.or_exit(Exit::Failed, "cannot make a temporary directory")?;
    let login = (settings.node.rpc_user.clone(), settings.node.rpc_password.expose().to_owned());
    let options = SimNodeOptions { login, ..SimNodeOptions::default() };
    let start =
        move || LivingNode::start(profile.into(), seed, options).or_exit(Exit::Failed, "cannot simulate a node");
    let living = pieces::blocking(start).await?;
    info!(seed, node = living.node().url(), "a simulated chain goes on by itself; ctrl-c ends it and leaves nothing");
    let served = serve::run(&settings_of(settings, directory.path(), living.node().url()), stop).await;
    drop(living);
    let path = directory.path().display().to_string();
    let removed = directory.close().or_exit(Exit::Failed, format!("cannot remove {path}"));
    served.and(removed)
}

fn settings_of(settings: &Settings, directory: &Path, node: String) -> Settings {
    let mut settings = settings.clone();
    directory.clone_into(&mut settings.data_dir);
    settings.admin.listen = AdminAddress::default_in(&settings.network_dir());
    settings.node.rpc_url = node;
    settings
}
