//! Fee estimates: `estimatesmartfee` (Core's `src/rpc/fees.cpp`). A node tracks each transaction from the mempool into
//! its block; here the estimate is a percentile of the feerates in the last blocks.

use bitcoin::Amount;
use serde::Serialize;

use super::backend::Backend;
use super::error::{RpcFailure, RpcResult, code, json};
use super::rpc::amounts::Btc;
use super::rpc::params::Params;
use super::transactions::fee;
use crate::chain::Feerate;

/// The highest target in blocks (`FeeEstimateHorizon::LONG_HALFLIFE` of Core's `policy/fees`).
const MAX_TARGET: i32 = 1_008;
/// The number of blocks that each mode uses.
const ECONOMICAL_BLOCKS: usize = 6;
const CONSERVATIVE_BLOCKS: usize = 12;

#[derive(Serialize)]
struct Estimate {
    #[serde(skip_serializing_if = "Option::is_none")]
    feerate: Option<Btc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<[&'static str; 1]>,
    blocks: i32,
}

pub(super) fn estimatesmartfee(node: &Backend, params: &Params) -> RpcResult {
    let target = params.integer(0)?;
    if !(1..=MAX_TARGET).contains(&target) {
        let message = format!("Invalid conf_target, must be between 1 and {MAX_TARGET}");
        return Err(RpcFailure::new(code::INVALID_PARAMETER, message));
    }
    let is_careful = match params.text(1).to_ascii_lowercase().as_str() {
        "" | "unset" | "economical" => false,
        "conservative" => true,
        _ => {
            let message = r#"Invalid estimate_mode parameter, must be one of: "unset", "economical", "conservative""#;
            return Err(RpcFailure::new(code::INVALID_PARAMETER, message));
        }
    };
    let (lowest, lately) = feerates(node, ECONOMICAL_BLOCKS)?;
    let Some(mut estimate) = enough_for(target, &lately) else {
        let errors = Some(["Insufficient data or no feerate found"]);
        return json(Estimate { feerate: None, errors, blocks: 0 });
    };
    if is_careful {
        let (_, longer) = feerates(node, CONSERVATIVE_BLOCKS)?;
        estimate = enough_for(target, &longer).map_or(estimate, |longer| longer.max(estimate));
    }
    let feerate = Some(Btc(Amount::from_sat(estimate.max(lowest).to_sat_per_kvb())));
    // no feerate guarantees the very next block
    json(Estimate { feerate, errors: None, blocks: target.max(2) })
}

/// The minimum feerate of the mempool, and the feerates in the last blocks, the lowest first.
fn feerates(node: &Backend, blocks: usize) -> Result<(Feerate, Vec<Feerate>), RpcFailure> {
    let locked = node.lock_world()?;
    let chain = locked.chain();
    let last = std::iter::successors(Some(chain.tip()), |hash| chain.parent(hash)).take(blocks);
    // blocks whose bodies are dropped are skipped
    let bodies = last.map_while(|hash| {
        let body = locked.archive.body(chain, &hash).ok()?;
        Some((body, locked.archive.spent(chain, &hash).ok()?))
    });
    let bodies: Vec<_> = bodies.collect();
    let lowest = locked.world.mempool().policy().min_relay;
    drop(locked);

    let mut paid = Vec::new();
    for (body, spent) in bodies {
        let (block, spent) =
            (body.block().map_err(RpcFailure::internal)?, spent.coins().map_err(RpcFailure::internal)?);
        let of = block.txdata.iter().skip(1).zip(&spent);
        paid.extend(of.filter_map(|(tx, spent)| Some(Feerate::of(fee(tx, spent)?, tx.weight()))));
    }
    paid.sort_unstable();
    Ok((lowest, paid))
}

/// The percentile of the feerates for a target, the lower the longer the wait; `None` if there are none.
fn enough_for(target: i32, paid: &[Feerate]) -> Option<Feerate> {
    let percent = match target {
        ..=2 => 60,
        3..=6 => 40,
        7..=24 => 20,
        _ => 5,
    };
    paid.get(paid.len().saturating_sub(1) * percent / 100).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_does_not_rise_with_the_target() {
        let paid: Vec<Feerate> = (1..=100).map(Feerate::from_sat_per_kvb).collect();
        let estimates: Vec<_> = (1..=MAX_TARGET).map(|target| enough_for(target, &paid).unwrap()).collect();
        assert!(estimates.is_sorted_by(|sooner, later| sooner >= later));
        assert_eq!((estimates[0], estimates[1_007]), (Feerate::from_sat_per_kvb(60), Feerate::from_sat_per_kvb(5)));
        assert_eq!(enough_for(2, &[]), None);
        assert_eq!(enough_for(1_008, &paid[..1]), Some(paid[0]));
    }
}
