//! What a block pays its miner: the coinbase transaction with the block's height (BIP34), its extra
//! nonce and its commitment to witnesses (BIP141).

use bitcoin::hashes::Hash;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{
    Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, WitnessMerkleNode, Wtxid,
    absolute, merkle_tree, transaction,
};

use super::ChainError;
use super::utxo::total;
use crate::chain::Height;

/// What remains of the 100 bytes of a coinbase script for a tag, after the height and the extra nonce.
const MAX_TAG: usize = 80;
/// What a witness commitment starts with, after OP_RETURN and the length of the push (BIP141).
const COMMITMENT_HEADER: [u8; 4] = [0xaa, 0x21, 0xa9, 0xed];

/// What a coinbase pays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reward {
    outputs: Vec<TxOut>,
    rest: Option<ScriptBuf>,
    withheld: Amount,
}

impl Reward {
    /// Subsidy and fees, all to one script.
    #[must_use]
    pub fn to(script: ScriptBuf) -> Self {
        Reward { rest: Some(script), ..Reward::default() }
    }

    /// These outputs and nothing else; what they do not claim is lost.
    #[must_use]
    pub fn exactly(outputs: Vec<TxOut>) -> Self {
        Reward { outputs, ..Reward::default() }
    }

    /// One more output of a fixed value, before the one that takes the rest.
    #[must_use]
    pub fn and(mut self, value: Amount, script_pubkey: ScriptBuf) -> Self {
        self.outputs.push(TxOut { value, script_pubkey });
        self
    }

    /// Leaves this much unclaimed.
    #[must_use]
    pub fn withholding(mut self, amount: Amount) -> Self {
        self.withheld = amount;
        self
    }

    pub(super) fn into_outputs(self, earned: Amount) -> Result<Vec<TxOut>, ChainError> {
        let fixed = total(&self.outputs);
        let claimed = fixed.checked_add(self.withheld).unwrap_or(Amount::MAX);
        let rest = earned.checked_sub(claimed).ok_or(ChainError::RewardTooHigh { claimed, earned })?;
        let mut outputs = self.outputs;
        outputs.extend(self.rest.map(|script_pubkey| TxOut { value: rest, script_pubkey }));
        if outputs.is_empty() { Err(ChainError::EmptyReward) } else { Ok(outputs) }
    }
}

/// Whether any input has a witness.
pub(super) fn has_witness(tx: &Transaction) -> bool {
    tx.input.iter().any(|input| !input.witness.is_empty())
}

/// The coinbase of a block with these other transactions. Without an extra nonce it is what Core's miner makes
/// (`BlockAssembler::CreateNewBlock` of `node/miner.cpp`): OP_0 behind the height, and a commitment whether or not there
/// are witnesses.
pub(super) fn build(
    height: Height,
    extra_nonce: Option<u64>,
    tag: &[u8],
    mut outputs: Vec<TxOut>,
    transactions: &[Transaction],
) -> Result<Transaction, ChainError> {
    let script = Builder::new().push_int(i64::from(height.to_u32()));
    let mut script = match extra_nonce {
        Some(extra_nonce) => script.push_slice(extra_nonce.to_le_bytes()),
        None => script.push_int(0),
    };
    if tag.len() > MAX_TAG {
        return Err(ChainError::LongTag(tag.len()));
    }
    if !tag.is_empty() {
        script = script.push_slice(pushable(tag));
    }
    let mut witness = Witness::new();
    if extra_nonce.is_none() || transactions.iter().any(has_witness) {
        let reserved = [0; 32];
        outputs.push(TxOut { value: Amount::ZERO, script_pubkey: commitment(transactions, &reserved) });
        witness.push(reserved);
    }
    Ok(Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: OutPoint::null(),
            script_sig: script.into_script(),
            sequence: Sequence::MAX,
            witness,
        }],
        output: outputs,
    })
}

fn commitment(transactions: &[Transaction], reserved: &[u8; 32]) -> ScriptBuf {
    let wtxids = transactions.iter().map(Transaction::compute_wtxid);
    let leaves = std::iter::once(Wtxid::all_zeros()).chain(wtxids).map(Wtxid::to_raw_hash);
    let root =
        merkle_tree::calculate_root(leaves).map_or_else(WitnessMerkleNode::all_zeros, WitnessMerkleNode::from_raw_hash);
    let commitment = Block::compute_witness_commitment(&root, reserved);
    ScriptBuf::new_op_return(pushable(&[&COMMITMENT_HEADER[..], commitment.as_byte_array()].concat()))
}

/// Bytes as a script can push them. A push takes up to 4 GiB; what is pushed here is below 100 bytes.
fn pushable(bytes: &[u8]) -> PushBytesBuf {
    PushBytesBuf::try_from(bytes.to_vec()).unwrap_or_default()
}
