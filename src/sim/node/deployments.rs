//! The soft forks of a simulated chain (`getdeploymentinfo`, Core's `src/rpc/blockchain.cpp`): all that regtest has are active
//! from its first blocks on (Core's `CRegTestParams`).

use bitcoin::BlockHash;
use serde_json::{Map, json};

use super::backend::Backend;
use super::error::{RpcFailure, RpcResult};
use super::rpc::params::Params;

/// Soft forks with a fixed height, and the first height for which their rules hold.
const BURIED: [(&str, u32); 5] = [("bip34", 1), ("bip66", 1), ("bip65", 1), ("csv", 1), ("segwit", 0)];
/// The start time of a deployment that is always active (`Consensus::BIP9Deployment::ALWAYS_ACTIVE`).
const ALWAYS_ACTIVE: i64 = -1;

pub(super) fn getdeploymentinfo(node: &Backend, params: &Params) -> RpcResult {
    let locked = node.lock_world()?;
    let chain = locked.chain();
    let hash: BlockHash = if params.get(0).is_null() { chain.tip() } else { params.hash(0, "blockhash")? };
    let height = chain.height_of(&hash).ok_or_else(RpcFailure::block_not_found)?.to_u32();
    let mut deployments = Map::new();
    for (name, first) in BURIED {
        let active = height.saturating_add(1) >= first;
        deployments.insert(name.to_owned(), json!({ "type": "buried", "active": active, "height": first }));
    }
    let bip9 = json!({
        "start_time": ALWAYS_ACTIVE,
        "timeout": i64::MAX,
        "min_activation_height": 0,
        "status": "active",
        "since": 0,
        "status_next": "active",
    });
    let taproot = json!({ "type": "bip9", "height": 0, "active": true, "bip9": bip9 });
    deployments.insert("taproot".to_owned(), taproot);
    super::error::json(json!({ "hash": hash, "height": height, "deployments": deployments }))
}
