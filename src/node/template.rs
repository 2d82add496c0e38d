//! The template of the next block (`getblocktemplate`), without the fields that only miners need.

use bitcoin::{Amount, BlockHash, Txid, Weight};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::chain::Height;

/// The RPC method.
pub(super) const METHOD: &str = "getblocktemplate";

/// The node's error for a template while it has no peers (`RPC_CLIENT_NOT_CONNECTED`, Core `rpc/protocol.h`).
pub const NOT_CONNECTED: i32 = -9;
/// The node's error for a template while it downloads the chain (`RPC_CLIENT_IN_INITIAL_DOWNLOAD`).
pub const DOWNLOADING: i32 = -10;

/// The block that the node would build next.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BlockTemplate {
    /// The block that it would extend.
    #[serde(rename = "previousblockhash")]
    pub previous: BlockHash,
    /// Its height.
    #[serde(deserialize_with = "height")]
    pub height: Height,
    /// Its transactions in order, without the coinbase.
    pub transactions: Vec<TemplateTransaction>,
}

/// A transaction of a template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TemplateTransaction {
    /// Its id.
    pub txid: Txid,
    /// Its fee.
    #[serde(deserialize_with = "sat")]
    pub fee: Amount,
    /// Its weight.
    pub weight: Weight,
}

/// The parameters of the call: the rules that the caller supports. The node refuses a caller without the rules of its
/// network, and ignores those of other networks.
pub(super) fn parameters() -> Vec<Value> {
    vec![json!({ "rules": ["segwit", "signet"] })]
}

fn height<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Height, D::Error> {
    u32::deserialize(deserializer).map(Height::from)
}

/// Unlike other methods, this one returns amounts in satoshi.
fn sat<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Amount, D::Error> {
    u64::deserialize(deserializer).map(Amount::from_sat)
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn a_template_is_read_without_what_miners_need() {
        let answer = json!({
            "capabilities": ["proposal"], "version": 536_870_912, "rules": ["csv", "!segwit", "taproot"],
            "previousblockhash": "01".repeat(32), "height": 7, "coinbasevalue": 5_000_000_250_u64, "bits": "207fffff",
            "transactions": [
                { "data": "00", "txid": "02".repeat(32), "hash": "03".repeat(32), "depends": [], "fee": 250, "sigops": 4,
                  "weight": 561 },
            ],
        });
        let template: BlockTemplate = serde_json::from_value(answer).unwrap();
        let transaction = TemplateTransaction {
            txid: Txid::from_byte_array([2; 32]),
            fee: Amount::from_sat(250),
            weight: Weight::from_wu(561),
        };
        let previous = BlockHash::from_byte_array([1; 32]);
        assert_eq!(template, BlockTemplate { previous, height: 7.into(), transactions: vec![transaction] });
    }
}
