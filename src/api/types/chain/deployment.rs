use async_graphql::{Enum, Object, SimpleObject};

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{DateTime, int};
use crate::view;

/// The state of a soft fork that miners signal (BIP9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum Bip9State {
    /// Blocks cannot signal it yet.
    Defined,
    /// Blocks can signal it.
    Started,
    /// Enough blocks signalled it: its rules will hold.
    LockedIn,
    /// Its rules hold.
    Active,
    /// Too few blocks signalled it in time. Its rules never hold.
    Failed,
}

impl Bip9State {
    /// `None` for a state that this version does not know.
    fn of(status: view::DeploymentStatus) -> Option<Self> {
        Some(match status {
            view::DeploymentStatus::Defined => Self::Defined,
            view::DeploymentStatus::Started => Self::Started,
            view::DeploymentStatus::LockedIn => Self::LockedIn,
            view::DeploymentStatus::Active => Self::Active,
            view::DeploymentStatus::Failed => Self::Failed,
            view::DeploymentStatus::Unknown => return None,
        })
    }
}

/// What the blocks of a period signal. Counts of blocks.
#[derive(SimpleObject)]
pub(crate) struct Bip9Statistics {
    /// The number of blocks in a period.
    period_block_count: i32,
    /// The number of signalling blocks in one period that locks the soft fork in. Null once it is locked in.
    threshold_block_count: Option<i32>,
    /// The number of blocks of the current period so far.
    elapsed_block_count: i32,
    /// The number of blocks of the current period that signal the soft fork.
    signalling_block_count: i32,
    /// Whether the threshold can still be reached in the current period. Null once the soft fork is locked in.
    is_possible: Option<bool>,
}

impl FieldCacheability for Bip9Statistics {
    const NEVER: &'static str =
        "periodBlockCount thresholdBlockCount elapsedBlockCount signallingBlockCount isPossible";
}

/// How miners decide on a soft fork.
pub(crate) struct Bip9DeploymentObject(view::SignalledDeployment);

impl FieldCacheability for Bip9DeploymentObject {
    const NEVER: &'static str =
        "bit signallingStartAt timeoutAt minActivationHeight bip9State sinceHeight nextBip9State statistics";
}

/// How miners decide on a soft fork by signalling it in their blocks (BIP9).
#[Object(name = "Bip9Deployment")]
impl Bip9DeploymentObject {
    /// The bit of `Block.version` that signals it, from 0 to 28. Null while blocks cannot signal it, and afterwards.
    async fn bit(&self) -> Option<i32> {
        self.0.bit.map(i32::from)
    }

    /// The median time past from which on blocks can signal it. Null if it is always active, or can never become so.
    async fn signalling_start_at(&self) -> Option<DateTime> {
        self.0.start_time().map(DateTime::from_unix)
    }

    /// The median time past at which it fails if it is not locked in. Null if it never fails.
    async fn timeout_at(&self) -> Option<DateTime> {
        self.0.timeout().map(DateTime::from_seconds)
    }

    /// The lowest height from which on the rules can hold, however early it is locked in.
    async fn min_activation_height(&self) -> Result<i32, ApiError> {
        int(self.0.min_activation_height)
    }

    /// The state for the block of this answer. Null if the node reports a state that this version does not know.
    async fn bip9_state(&self) -> Option<Bip9State> {
        Bip9State::of(self.0.status)
    }

    /// The height of the first block with this state.
    async fn since_height(&self) -> Result<i32, ApiError> {
        int(self.0.since)
    }

    /// The state for the next block. Null if the node reports a state that this version does not know.
    async fn next_bip9_state(&self) -> Option<Bip9State> {
        Bip9State::of(self.0.status_next)
    }

    /// What the blocks of the current period signal. Null unless it is STARTED or LOCKED_IN.
    async fn statistics(&self) -> Option<Result<Bip9Statistics, ApiError>> {
        let view::SignalStatistics { period, threshold, elapsed, count, possible } = self.0.statistics?;
        let statistics = || {
            Ok(Bip9Statistics {
                period_block_count: int(period)?,
                threshold_block_count: threshold.map(int).transpose()?,
                elapsed_block_count: int(elapsed)?,
                signalling_block_count: int(count)?,
                is_possible: possible,
            })
        };
        Some(statistics())
    }
}

/// A soft fork.
pub(crate) struct DeploymentObject(pub(crate) view::Deployment);

impl FieldCacheability for DeploymentObject {
    const NEVER: &'static str = "name isActive activationHeight bip9";
}

/// A soft fork, as the Bitcoin node knows it.
#[Object(name = "Deployment")]
impl DeploymentObject {
    /// The node's name of it, such as `segwit`.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether its rules hold for the next block and for the mempool.
    async fn is_active(&self) -> bool {
        self.0.is_active
    }

    /// The height of the first block for which its rules hold, past or future. Null while that is not decided.
    async fn activation_height(&self) -> Result<Option<i32>, ApiError> {
        self.0.height.map(|height| int(height.to_u32())).transpose()
    }

    /// How miners decide on it. Null if it is buried: the node's program has its height.
    async fn bip9(&self) -> Option<Bip9DeploymentObject> {
        self.0.signalled.clone().map(Bip9DeploymentObject)
    }
}
