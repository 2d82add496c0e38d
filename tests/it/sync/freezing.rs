//! Following a node with an index that imports in bulk and freezes blocks: it agrees with the model and with an index whose
//! blocks are all live, through reorganisations of any depth, restarts and kills.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bitcoin::Block;
use bitcoin::consensus::encode::serialize_hex;
use btcgraph::chain::Height;
use btcgraph::index::{Index, IndexOptions, RawStorage};
use btcgraph::live::Live;
use btcgraph::node::Node;
use btcgraph::sim::{Hostile, Rng, SimChain, SimNode, SimNodeOptions, World};
use btcgraph::sync::{FreezeBounds, Freezing, SyncError, read_frozen_blocks};
use btcgraph::view::Published;
use serde_json::json;

use crate::node::sim_node::client;
use crate::support::agree::assert_agrees;
use crate::support::bitcoind::{RealNode, wait_for};
use crate::support::following::{catch_up, freezing};
use crate::support::indexed::{Indexed, options};
use crate::support::model::Model;
use crate::support::program::{btcgraph_on, run as run_program};
use crate::support::test_process::TestProcess;

/// A simulated node, and an index that follows it and keeps few blocks live.
pub(crate) struct FrozenFollower {
    pub(crate) sim: SimNode,
    pub(crate) node: Node,
    pub(crate) indexed: Indexed,
    bounds: FreezeBounds,
    pub(crate) raw_transactions: Option<RawStorage>,
    /// The directory with the node's block files, which are read then.
    pub(crate) blocks_dir: Option<PathBuf>,
}

impl FrozenFollower {
    pub(crate) fn start(chain: SimChain, bounds: FreezeBounds) -> Self {
        let sim = SimNode::start(Arc::new(Mutex::new(World::new(chain))), SimNodeOptions::default()).unwrap();
        Self { node: client(&sim), sim, indexed: Indexed::empty(), bounds, raw_transactions: None, blocks_dir: None }
    }

    /// Follows up to the node's tip, and freezes what is due.
    pub(crate) fn catch_up(&mut self) {
        self.try_to_catch_up().unwrap();
    }

    /// Follows up to the node's tip, and freezes what is due.
    pub(crate) fn try_to_catch_up(&mut self) -> Result<(), SyncError> {
        let Indexed { index, directory } = &mut self.indexed;
        let freezing = Freezing {
            raw_transactions: self.raw_transactions,
            blocks: read_frozen_blocks(index, &self.node, self.blocks_dir.clone()).unwrap(),
            blocks_dir: self.blocks_dir.clone(),
            ..freezing(index, &self.node, directory.path(), self.bounds)
        };
        catch_up(&self.node, index, &Published::default(), &Live::default(), Some(freezing))
    }

    pub(crate) fn blocks(&self) -> Vec<Arc<Block>> {
        self.sim.with(|world| world.chain().active_blocks().cloned().collect()).unwrap()
    }

    /// Compares the index with the model and with an index that has all its rows live. Returns the height up to which blocks
    /// are frozen.
    pub(crate) fn assert_agrees(&mut self) -> Option<u32> {
        self.catch_up();
        let blocks = self.blocks();
        let snapshot = self.indexed.index.snapshot().unwrap();
        assert_agrees(&snapshot, &Model::of(blocks.iter().map(AsRef::as_ref)));
        assert_eq!(self.indexed.rows(), Indexed::of(blocks.iter().map(AsRef::as_ref), 20).rows());
        snapshot.frozen().map(|frozen| frozen.height.to_u32())
    }

    pub(crate) fn restart(&mut self) {
        let directory = std::mem::replace(&mut self.indexed, Indexed::empty()).directory;
        self.indexed = Indexed::within(directory);
    }

    pub(crate) fn tip(&self) -> u32 {
        self.indexed.index.snapshot().unwrap().tip().unwrap().height.to_u32()
    }
}

pub(crate) fn hostile_chain(seed: u64, blocks: u32) -> (SimChain, Hostile) {
    let (mut chain, mut hostile) = (SimChain::new(seed), Hostile::new(seed));
    for _ in 0..blocks {
        hostile.mine(&mut chain).unwrap();
    }
    (chain, hostile)
}

#[test]
fn an_index_that_freezes_agrees_with_the_model_through_reorganisations() {
    let (chain, mut hostile) = hostile_chain(61, 160);
    let mut followed = FrozenFollower::start(chain, FreezeBounds { depth: 5, every: 20, transactions: u64::MAX });
    // in bulk
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - 5));
    let mut change = |followed: &FrozenFollower, depth, length| {
        followed.sim.with(|world| world.change_chain(|chain| hostile.branch(chain, depth, length))).unwrap().unwrap();
    };
    // a few blocks stay live
    change(&followed, 2, 15);
    let frozen = followed.assert_agrees();
    assert!(frozen.unwrap() < followed.tip() - 10, "{frozen:?}");
    // and are frozen with others into a second generation
    change(&followed, 1, 12);
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - 5));
    // through the cut, through a whole generation, and down to one block
    for depth in [9, 60, followed.tip() - 1] {
        followed.restart();
        change(&followed, depth, depth + 2);
        followed.assert_agrees();
        assert!(!followed.indexed.index.has_shadowed_rows().unwrap());
    }
    // the reorganisation left no block of the first generations: those that no commit names are removed at a start
    followed.restart();
    followed.catch_up();
    let left = fs::read_dir(followed.indexed.directory.path().join("index.frozen")).unwrap().count();
    let frozen = followed.indexed.index.snapshot().unwrap().frozen().unwrap();
    assert_eq!((left, frozen.height.to_u32()), (2, followed.tip() - 5));
}

#[test]
fn few_blocks_are_frozen_once_they_have_enough_transactions() {
    let (chain, mut hostile) = hostile_chain(66, 140);
    let transactions = |blocks: &[Arc<Block>]| blocks.iter().map(|block| block.txdata.len()).sum::<usize>();
    let depth = 5;
    let mut followed = FrozenFollower::start(chain, FreezeBounds { depth, every: 1_000, transactions: 60 });
    let older = followed.blocks().len() - 5;
    assert!(transactions(&followed.blocks()[..older]) >= 60);
    // not in bulk: a node with so few blocks is followed from the first one
    let frozen = followed.assert_agrees().unwrap();
    assert_eq!(frozen, followed.tip() - depth);
    let first = usize::try_from(frozen).unwrap() + 1;
    loop {
        followed.sim.with(|world| world.change_chain(|chain| hostile.mine(chain))).unwrap().unwrap();
        let blocks = followed.blocks();
        let are_enough = transactions(&blocks[first..blocks.len() - 5]) >= 60;
        let expected = if are_enough { u32::try_from(blocks.len() - 6).unwrap() } else { frozen };
        assert_eq!(followed.assert_agrees(), Some(expected));
        if are_enough {
            break;
        }
    }
    assert!(followed.tip() - depth > frozen + 1, "one block was enough");
}

#[test]
fn a_generation_without_a_name_is_put_into_force_at_the_next_start() {
    let (chain, _) = hostile_chain(62, 150);
    let mut followed = FrozenFollower::start(chain, FreezeBounds { depth: 5, every: 20, transactions: u64::MAX });
    followed.catch_up();
    // the file is there, and the commit that names it is lost
    let frozen = followed.indexed.directory.path().join("index.frozen");
    let generation = fs::read_dir(&frozen).unwrap().next().unwrap().unwrap().path();
    let aside = followed.indexed.directory.path().join("aside");
    fs::copy(&generation, &aside).unwrap();
    let built = fs::metadata(&aside).unwrap().modified().unwrap();
    let directory = std::mem::replace(&mut followed.indexed, Indexed::empty()).directory;
    fs::remove_dir_all(&frozen).unwrap();
    fs::remove_file(options(directory.path()).path).unwrap();
    fs::create_dir(&frozen).unwrap();
    fs::rename(&aside, &generation).unwrap();
    followed.indexed = Indexed::within(directory);
    assert_eq!(followed.assert_agrees(), Some(followed.tip() - 5));
    // the whole generation was not built again
    let left: Vec<_> = fs::read_dir(&frozen).unwrap().map(|entry| entry.unwrap().metadata().unwrap()).collect();
    assert_eq!(left.iter().map(fs::Metadata::modified).map(Result::unwrap).collect::<Vec<_>>(), [built]);
}

#[test]
fn files_that_are_no_generations_of_the_index_are_never_removed() {
    let (chain, _) = hostile_chain(65, 130);
    let mut followed = FrozenFollower::start(chain, FreezeBounds { depth: 5, every: 20, transactions: u64::MAX });
    let frozen = followed.indexed.directory.path().join("index.frozen");
    fs::create_dir(&frozen).unwrap();
    let stray = frozen.join("stray.redb");
    fs::write(&stray, b"no database").unwrap();
    followed.catch_up();
    followed.restart();
    followed.catch_up();
    assert_eq!(fs::read(&stray).unwrap(), b"no database");
}

#[test]
fn a_server_starts_again_with_a_mempool_that_spends_outputs_of_frozen_blocks() {
    let Some(mut real) = RealNode::start(&[]) else { return };
    let address = real.wallet_address("bech32");
    real.mine_to(&address, 110);
    let directory = tempfile::tempdir().unwrap();
    let bounds = [("BTCGRAPH_INDEX__FREEZE_DEPTH", "2"), ("BTCGRAPH_INDEX__FREEZE_EVERY", "3")];
    let mut served = TestProcess::start_with(&real, directory.path(), &bounds);
    served.wait_for_height(110);
    real.must("sendtoaddress", &[json!(address), json!(1)]);
    let unconfirmed = |served: &TestProcess| {
        served.query("{ mempool { stats { txCount } } }")["data"]["mempool"]["stats"]["txCount"] == 1
    };
    let wait = |served: &TestProcess| {
        wait_for("the transaction", Duration::from_mins(1), || unconfirmed(served).then_some(()));
    };
    wait(&served);
    assert!(served.stop().success());
    // the outputs are read from the node, once it is connected
    let mut served = TestProcess::start_with(&real, directory.path(), &bounds);
    wait(&served);
    assert!(served.stop().success());
    real.stop();
    let mut served = TestProcess::start_with(&real, directory.path(), &bounds);
    assert_eq!(served.query("{ tip { height } }"), json!({ "data": { "tip": { "height": 110 } } }));
    real.start_again();
    wait(&served);
    assert!(served.stop().success());
}

#[test]
fn files_of_an_index_that_was_removed_do_not_stop_another() {
    let Some(real) = RealNode::start(&[]) else { return };
    real.mine(40);
    let directory = tempfile::tempdir().unwrap();
    let import = || {
        let mut program = btcgraph_on(&real, directory.path(), &["import"]);
        program.env("BTCGRAPH_INDEX__FREEZE_DEPTH", "3").env("BTCGRAPH_INDEX__FREEZE_EVERY", "4");
        program.env_remove("BTCGRAPH_INDEX__SALT");
        let (code, printed) = run_program(&mut program);
        assert_eq!(code, Some(0), "{printed}");
        printed
    };
    let network = directory.path().join("regtest");
    let generations = || -> Vec<_> {
        fs::read_dir(network.join("index.frozen")).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    import();
    let first = generations();
    // a generation that is in no index now may be of one that is put back
    fs::remove_file(network.join("index.redb")).unwrap();
    let printed = import();
    assert!(printed.contains("a generation is not used"), "{printed}");
    assert!(generations().len() == 2 && generations().contains(&first[0]), "{:?}", generations());
    // an import that was complete, and is not in force
    fs::rename(&first[0], network.join("index.building")).unwrap();
    fs::remove_file(network.join("index.redb")).unwrap();
    let printed = import();
    assert!(printed.contains("does not belong to the index"), "{printed}");
    assert!(!network.join("index.building").exists());
}

#[test]
fn an_import_killed_when_it_was_complete_is_put_into_force() {
    let Some(real) = RealNode::start(&[]) else { return };
    real.mine(40);
    let directory = tempfile::tempdir().unwrap();
    let network = directory.path().join("regtest");
    let import = || {
        let mut program = btcgraph_on(&real, directory.path(), &["import"]);
        program.env("BTCGRAPH_INDEX__FREEZE_DEPTH", "3").env("BTCGRAPH_INDEX__FREEZE_EVERY", "4");
        let (code, printed) = run_program(&mut program);
        assert_eq!(code, Some(0), "{printed}");
        printed
    };
    assert!(import().contains("importing in bulk"));
    // it was killed before it removed the last of its runs
    let generation = fs::read_dir(network.join("index.frozen")).unwrap().next().unwrap().unwrap().path();
    fs::rename(&generation, network.join("index.building")).unwrap();
    fs::remove_file(network.join("index.redb")).unwrap();
    let run = network.join("import-regtest/transactions-01.run");
    fs::write(&run, "left").unwrap();
    let printed = import();
    assert!(printed.contains("the imported blocks are in the index"), "{printed}");
    assert!(!printed.contains("importing in bulk"), "{printed}");
    assert!(!run.exists());
}

/// What the program does when it is killed.
#[derive(Clone, Copy, PartialEq)]
enum KillMoment {
    Importing,
    Freezing,
    /// A generation has its name, and the index may not name it yet.
    PuttingIntoForce,
}

impl KillMoment {
    const ALL: [Self; 3] = [Self::Importing, Self::Freezing, Self::PuttingIntoForce];

    /// Whether it is this moment for a program with this log that was started with so many generations in its index.
    fn is_now(self, network: &Path, log: &Path, generations: usize) -> bool {
        // the file of a program that was killed before may lie there still
        let has_begun = |line| fs::read_to_string(log).unwrap().contains(line);
        match self {
            Self::Importing => has_begun("importing in bulk") && network.join("index.building").exists(),
            Self::Freezing => has_begun("freezing blocks") && network.join("index.freezing").exists(),
            Self::PuttingIntoForce => count_generations(network) > generations,
        }
    }

    /// About how long it lasts, in us.
    fn duration(self) -> u64 {
        match self {
            Self::Importing | Self::Freezing => 100_000,
            Self::PuttingIntoForce => 5_000,
        }
    }
}

fn count_generations(network: &Path) -> usize {
    fs::read_dir(network.join("index.frozen")).map_or(0, Iterator::count)
}

/// Kills the program ten times at random moments of each kind, while the chain grows and reorganises: at least once between the
/// name of a generation and the commit that names it. What it leaves is the index of a program that was never killed. Imports
/// begin afresh: they last less than the interval of their checkpoints.
#[test]
fn a_program_that_is_killed_while_it_imports_and_freezes_loses_nothing() {
    let Some(real) = RealNode::start(&[]) else { return };
    let (mut chain, mut hostile) = (SimChain::new(63), Hostile::new(63));
    let submit = |blocks: &[Arc<Block>]| {
        for block in blocks {
            real.must("submitblock", &[json!(serialize_hex(block.as_ref()))]);
        }
    };
    let first: Vec<_> = (0..140).map(|_| hostile.mine(&mut chain).unwrap()).collect();
    submit(&first);
    let directory = tempfile::tempdir().unwrap();
    let network = directory.path().join("regtest");
    let log = directory.path().join("log");
    let import = || {
        let mut program = btcgraph_on(&real, directory.path(), &["import"]);
        program.env("BTCGRAPH_INDEX__FREEZE_DEPTH", "3").env("BTCGRAPH_INDEX__FREEZE_EVERY", "4");
        program
    };
    let succeed = |program: &mut Command| {
        let (code, printed) = run_program(program);
        assert_eq!(code, Some(0), "{printed}");
    };
    let import_and_verify = || {
        succeed(&mut import());
        succeed(&mut btcgraph_on(&real, directory.path(), &["verify"]));
    };
    let mut rng = Rng::new(64);
    for moment in KillMoment::ALL {
        let (mut kills, mut attempts, mut latest) = (0, 0, moment.duration());
        // whether a program found a generation that the one before had given its name, and that no commit names
        let mut is_left = false;
        while kills < 10 || moment == KillMoment::PuttingIntoForce && !is_left {
            attempts += 1;
            assert!(attempts < 200, "killed at the moment {kills} times, before a commit: {is_left}");
            if moment != KillMoment::Importing {
                // enough for another generation
                let blocks: Vec<_> = (0..4).map(|_| hostile.mine(&mut chain).unwrap()).collect();
                submit(&blocks);
            } else if count_generations(&network) > 0 {
                // it was complete before it was killed
                import_and_verify();
                fs::remove_dir_all(&network).unwrap();
            }
            let generations = count_generations(&network);
            let mut running = import().stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
            let mut is_seen = false;
            while running.try_wait().unwrap().is_none() {
                is_seen = moment.is_now(&network, &log, generations);
                thread::sleep(Duration::from_micros(if is_seen { rng.below(latest) } else { 100 }));
                if is_seen {
                    break;
                }
            }
            let is_running = running.try_wait().unwrap().is_none();
            let _ = running.kill();
            running.wait().unwrap();
            let lines = ["a generation that was complete is in force", "removing a generation that is not used"];
            let printed = fs::read_to_string(&log).unwrap();
            is_left |= lines.iter().any(|line| printed.contains(line));
            if is_running && moment.is_now(&network, &log, generations) {
                kills += 1;
                if moment == KillMoment::PuttingIntoForce && !is_left {
                    // it lasts until the program ends, and the commit comes early
                    latest = (latest * 3 / 4).max(100);
                }
                if kills % 3 == 1 {
                    submit(&hostile.branch(&mut chain, 5, 7).unwrap());
                }
            } else if is_seen {
                // it had gone on: the next are killed earlier
                latest = (latest * 3 / 4).max(2);
            }
        }
    }
    import_and_verify();

    let path = network.join("index.redb");
    let index = Index::open(&IndexOptions { path, salt: None, ..options(directory.path()) }).unwrap();
    let node = btcgraph::node::NodeOptions::new(
        bitcoin::Network::Regtest,
        real.rpc_url(),
        btcgraph::node::Auth::Cookie(real.cookie_path()),
    );
    read_frozen_blocks(&index, &Node::connect(node).unwrap(), Some(real.blocks_dir())).unwrap();
    let snapshot = index.snapshot().unwrap();
    assert_agrees(&snapshot, &Model::of(chain.active_blocks().map(AsRef::as_ref)));
    assert!(snapshot.frozen().unwrap().height > Height::from(130));
    let left: Vec<_> = fs::read_dir(&network).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.len() <= 4, "{left:?}");
}
