//! The coinbase transaction: the reward of the miner, the block's height (BIP34), the extra nonce and the witness
//! commitment (BIP141).

use bitcoin::hashes::Hash;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::{
    Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, WitnessMerkleNode, Wtxid,
    absolute, merkle_tree, transaction,
};

use super::ChainError;
use super::utxo::total;
use crate::chain::Height;

/// The most bytes of a tag: the 100 bytes of a coinbase script without the height and the extra nonce.
const MAX_TAG: usize = 80;
/// The header of a witness commitment, after OP_RETURN and the length of the push (BIP141).
const COMMITMENT_HEADER: [u8; 4] = [0xaa, 0x21, 0xa9, 0xed];

/// The outputs of a coinbase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reward {
    outputs: Vec<TxOut>,
    rest: Option<ScriptBuf>,
    withheld: Amount,
}

impl Reward {
    /// Pays subsidy and fees to one script.
    #[must_use]
    pub fn to(script: ScriptBuf) -> Self {
        Reward { rest: Some(script), ..Reward::default() }
    }

    /// Pays these outputs alone; the rest of subsidy and fees is lost.
    #[must_use]
    pub fn exactly(outputs: Vec<TxOut>) -> Self {
        Reward { outputs, ..Reward::default() }
    }

    /// Adds an output of a fixed value before the one that takes the rest.
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

/// The coinbase of a block with these other transactions. Without an extra nonce it equals that of Core's miner
/// (`BlockAssembler::CreateNewBlock` of `node/miner.cpp`): OP_0 after the height, and a commitment whether or not there
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

/// Bytes in the type that a script pushes. A push has up to 4 GiB; all pushes here are below 100 bytes.
fn pushable(bytes: &[u8]) -> PushBytesBuf {
    PushBytesBuf::try_from(bytes.to_vec()).unwrap_or_default()
}
