//! `btcgraph demo`: `serve` over a simulated chain that grows by itself. Its files are in a temporary directory, which is
//! removed at the end.

use std::path::PathBuf;

use bitcoin::hex::DisplayHex;
use btcgraph::settings::{AdminAddress, Flag, Secret, Settings};
use btcgraph::sim::{LivingNode, Profile, SimNodeOptions, demo_block_weight, demo_pools};
use clap::{Args, ValueEnum};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::failure::{Exit, Failure, OrExit};
use super::flags::Flags;
use super::{pieces, serve, shutdown};

/// What is simulated.
#[derive(Args, Clone, Copy)]
pub(super) struct DemoArguments {
    /// The kind of chain
    #[arg(long, value_enum, default_value_t = ProfileName::Demo)]
    profile: ProfileName,
    /// The seed of the simulation
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProfileName {
    /// A small chain to look at: a block every 10 seconds or so, a few payments a second
    Demo,
    /// Some 3,200 transactions a block, with as many inputs and outputs as on mainnet, every ten minutes or so
    MainnetLike,
    /// All unusual cases at once, to test an application: reorganisations, replacements, all script types
    Hostile,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Demo => Profile::Demo,
            ProfileName::MainnetLike => Profile::MainnetLike,
            ProfileName::Hostile => Profile::Hostile,
        }
    }
}

/// The settings that the demo sets itself. Most values are known only when it runs; these override what file and environment
/// say of the user's own node.
const OWN: [(&str, &str); 10] = [
    ("network", "regtest"),
    ("data_dir", "."),
    ("node.rpc_url", ""),
    ("node.rpc_cookie", ""),
    ("node.rpc_user", "demo"),
    ("node.rpc_password", "made up for each run"),
    ("node.blocks_dir", ""),
    ("node.zmq", ""),
    ("index.temporary_dir", ""),
    ("admin.listen", ""),
];

/// The settings that the demo takes from its flags, or else from here: file and environment are for the user's own server.
const UNLESS_GIVEN: [(&str, &str); 3] =
    [("server.listen", "127.0.0.1:8080"), ("server.port_file", ""), ("api.broadcast", "true")];

/// The settings of the demo: the user's own, except for those that it sets itself.
///
/// Errors: a flag gives a setting that the demo sets itself, or the settings cannot be read.
pub(super) fn settings(flags: Flags) -> Result<Settings, Failure> {
    let mut sources = flags.sources();
    let contradicts = |flag: &&Flag| OWN.iter().any(|(setting, _)| *setting == flag.setting);
    if let Some(flag) = sources.flags.iter().find(contradicts) {
        let message = format!("`btcgraph demo` has a chain and an index of its own: leave {} out", flag.name);
        return Err(Failure::new(Exit::Usage, message));
    }
    let is_given = |setting: &str| sources.flags.iter().any(|flag| flag.setting == setting);
    let unless_given = UNLESS_GIVEN.into_iter().filter(|(setting, _)| !is_given(setting));
    let own = unless_given.chain(OWN);
    let own: Vec<_> =
        own.map(|(setting, value)| Flag { name: "btcgraph demo", setting, value: value.to_owned() }).collect();
    sources.flags.extend(own);
    Ok(Settings::load(&sources)?)
}

/// Runs until `stop` is cancelled, or the simulation fails.
pub(super) async fn run(
    settings: &Settings,
    stop: CancellationToken,
    DemoArguments { profile, seed }: DemoArguments,
) -> Result<(), Failure> {
    // a terminal that closes must not leave the directory behind
    shutdown::on_hangup(&stop).or_exit(Exit::Failed, "cannot listen for signals")?;
    let directory = tempfile::Builder::new().prefix("btcgraph-demo-").tempdir();
    let directory =
        directory.or_exit(Exit::Failed, "cannot create a temporary directory; set TMPDIR to another one")?;
    let mut settings = settings.clone();
    directory.path().clone_into(&mut settings.data_dir);
    settings.index.temporary_dir = settings.network_dir();
    settings.admin.listen = AdminAddress::default_in(&settings.network_dir());
    // the simulated node has no block files
    settings.node.blocks_dir = PathBuf::new();
    settings.node.rpc_password = password()?;
    if settings.index.pools_file().is_none() {
        let file = directory.path().join("pools.json");
        std::fs::write(&file, demo_pools()).or_exit(Exit::Failed, format!("cannot write {}", file.display()))?;
        settings.index.pools_file = file;
    }

    if let ProfileName::Demo = profile {
        settings.mempool.block_weight = demo_block_weight();
    }

    let login = (settings.node.rpc_user.clone(), settings.node.rpc_password.expose().to_owned());
    let options = SimNodeOptions { login, ..SimNodeOptions::default() };
    let end = stop.child_token();
    let (report, mut failure) = oneshot::channel();
    let cancel = end.clone();
    let failed = move |error| {
        // the receiver is dropped only when the demo has ended
        let _ = report.send(error);
        cancel.cancel();
    };
    let start = move || {
        LivingNode::start(profile.into(), seed, options, failed).or_exit(Exit::Failed, "cannot simulate a node")
    };
    let living = pieces::blocking(start).await?;
    if stop.is_cancelled() {
        return Ok(());
    }
    settings.node.rpc_url = living.node().url();
    info!(seed, node = settings.node.rpc_url, "a simulated chain is running; ctrl-c ends it and removes its files");
    let served = serve::run(&settings, end, serve::ServeArguments::default()).await;
    drop(living);
    let lived = match failure.try_recv() {
        Ok(error) => Err(error).or_exit(Exit::Failed, "the simulation failed"),
        Err(_) => Ok(()),
    };
    let path = directory.path().display().to_string();
    let removed = directory.close().or_exit(Exit::Failed, format!("cannot remove {path}"));
    lived.and(served).and(removed)
}

/// A random password, unknown to other users of this machine.
fn password() -> Result<Secret, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).or_exit(Exit::Failed, "the operating system has no random numbers")?;
    Ok(Secret::from(bytes.to_lower_hex_string()))
}
