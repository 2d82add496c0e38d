//! The answers about soft forks (`getdeploymentinfo`) and compact block filters (`getblockfilter`).

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::chain::Height;

/// The start time of a deployment that is always active (`Consensus::BIP9Deployment::ALWAYS_ACTIVE`), below which no start time
/// is a time.
const FIRST_TIME: i64 = 0;
/// The timeout of a deployment without one (`Consensus::BIP9Deployment::NO_TIMEOUT`).
const NO_TIMEOUT: i64 = i64::MAX;

/// The soft forks that the node knows, as of a block, by name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "DeploymentInfo")]
pub struct Deployments(pub Vec<Deployment>);

/// A soft fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The node's name of it.
    pub name: String,
    /// Whether its rules hold for the mempool and the next block.
    pub is_active: bool,
    /// The height of the first block for which its rules hold; `None` while that is not decided.
    pub height: Option<Height>,
    /// How miners signal it (BIP9); `None` if its height is fixed in the program.
    pub signalled: Option<SignalledDeployment>,
}

/// The state of a deployment that miners signal (BIP9).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SignalledDeployment {
    /// The bit of the version; `None` while it is not signalled.
    pub bit: Option<u8>,
    start_time: i64,
    timeout: i64,
    /// The earliest height of the first block for which the rules can hold.
    pub min_activation_height: u32,
    /// The state for the block that was asked about.
    pub status: DeploymentStatus,
    /// The height of the first block with this state.
    pub since: u32,
    /// The state for the next block.
    pub status_next: DeploymentStatus,
    /// What was signalled in the current period; `None` if it does not matter.
    pub statistics: Option<SignalStatistics>,
}

impl SignalledDeployment {
    /// The median time past from which on it can be signalled, in seconds since 1970; `None` if it is always or never active.
    #[must_use]
    pub fn start_time(&self) -> Option<u32> {
        Some(self.start_time).filter(|time| *time >= FIRST_TIME).and_then(|time| u32::try_from(time).ok())
    }

    /// The median time past at which it fails, in seconds since 1970; `None` if it does not.
    #[must_use]
    pub fn timeout(&self) -> Option<u64> {
        Some(self.timeout).filter(|time| *time != NO_TIMEOUT).and_then(|time| u64::try_from(time).ok())
    }
}

/// What blocks signalled in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct SignalStatistics {
    /// Blocks in a period.
    pub period: u32,
    /// Signalling blocks that lock the deployment in; `None` once it is.
    pub threshold: Option<u32>,
    /// Blocks of the period so far.
    pub elapsed: u32,
    /// Those of them that signal it.
    pub count: u32,
    /// Whether the threshold can still be reached in this period; `None` once it is locked in.
    pub possible: Option<bool>,
}

/// The state of a deployment that miners signal (BIP9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentStatus {
    /// It cannot be signalled yet.
    Defined,
    /// It can be signalled.
    Started,
    /// It will become active.
    LockedIn,
    /// Its rules hold.
    Active,
    /// It timed out.
    Failed,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

/// The answer of `getdeploymentinfo`.
#[derive(Deserialize)]
struct DeploymentInfo {
    deployments: Map<String, Value>,
}

/// One deployment of it.
#[derive(Deserialize)]
struct DeploymentJson {
    active: bool,
    height: Option<u32>,
    bip9: Option<SignalledDeployment>,
}

impl From<DeploymentInfo> for Deployments {
    fn from(info: DeploymentInfo) -> Self {
        // one of a form that a later version of the node has is left out, and the others are reported
        let deployment = |(name, value): (String, Value)| {
            let DeploymentJson { active, height, bip9 } = serde_json::from_value(value).ok()?;
            Some(Deployment { name, is_active: active, height: height.map(Height::from), signalled: bip9 })
        };
        let mut found: Vec<_> = info.deployments.into_iter().filter_map(deployment).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Self(found)
    }
}

/// The compact filter of a block (BIP158).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CompactFilter {
    /// The filter, in hexadecimal digits.
    pub filter: String,
    /// The header of the filter (BIP157), byte-reversed, in hexadecimal digits.
    pub header: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deployments_are_read_in_the_forms_that_nodes_write() {
        let bip9 = |bit: Option<u8>, start: i64, timeout: i64| {
            json!({ "bit": bit, "start_time": start, "timeout": timeout, "min_activation_height": 7, "status": "locked_in",
                "since": 144, "status_next": "later", "statistics": { "period": 144, "elapsed": 7, "count": 6 } })
        };
        let answer = json!({ "hash": "00", "height": 1, "deployments": {
            "buried": { "type": "buried", "active": true, "height": 481_824 },
            "signalled": { "type": "bip9", "active": false, "bip9": bip9(Some(28), 1, 9_999_999_999) },
            "always": { "type": "bip9", "active": true, "height": 0, "bip9": bip9(None, -1, i64::MAX) },
            "other": { "type": "later" },
        } });
        let Deployments(read) = serde_json::from_value(answer).unwrap();
        let names: Vec<_> = read.iter().map(|one| (one.name.as_str(), one.is_active, one.height)).collect();
        let height = |height: u32| Some(Height::from(height));
        assert_eq!(names, [("always", true, height(0)), ("buried", true, height(481_824)), ("signalled", false, None)]);
        let [always, buried, signalled] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!(buried.signalled, None);
        let times = |one: &Deployment| one.signalled.as_ref().map(|one| (one.start_time(), one.timeout(), one.bit));
        assert_eq!(times(always), Some((None, None, None)));
        assert_eq!(times(signalled), Some((Some(1), Some(9_999_999_999), Some(28))));
        let signalled = signalled.signalled.clone().unwrap();
        assert_eq!((signalled.status, signalled.status_next), (DeploymentStatus::LockedIn, DeploymentStatus::Unknown));
        let statistics = SignalStatistics { period: 144, threshold: None, elapsed: 7, count: 6, possible: None };
        assert_eq!(signalled.statistics, Some(statistics));
    }
}
