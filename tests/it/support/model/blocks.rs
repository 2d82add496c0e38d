//! What one block says, and sums over blocks.

use std::collections::BTreeMap;

use bitcoin::block::Header;
use bitcoin::{BlockHash, Script, Work};

use super::super::quantiles::feerate_quantiles;
use super::TxNum;

/// What a block made unspendable, by the kinds of Core's `gettxoutsetinfo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unspendable {
    pub(crate) genesis_block: u64,
    /// Unspent outputs of an earlier copy of a transaction, booked where they were overwritten.
    pub(crate) bip30: u64,
    pub(crate) scripts: u64,
    pub(crate) unclaimed_rewards: u64,
}

/// Outputs of one script type, as count and value: those created, spent, and lost to the UTXO set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfType {
    pub(crate) created: (u64, u64),
    pub(crate) spent: (u64, u64),
    pub(crate) unspendable: (u64, u64),
}

/// One block. All figures are of this block alone but those of the unspent outputs, which are as of this block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockTotals {
    pub(crate) hash: BlockHash,
    pub(crate) header: Header,
    pub(crate) median_time: u32,
    pub(crate) work: Work,
    pub(crate) size: u32,
    pub(crate) stripped_size: u32,
    pub(crate) weight: u32,
    pub(crate) first_txnum: TxNum,
    pub(crate) transactions: u32,
    /// Without the coinbase's.
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    /// Without the coinbase's.
    pub(crate) input_value: u64,
    pub(crate) output_value: u64,
    pub(crate) coinbase_value: u64,
    pub(crate) subsidy: u64,
    pub(crate) fees: u64,
    /// Fee and weight of each transaction but the coinbase.
    pub(crate) fees_and_weights: Vec<(u64, u32)>,
    /// Count, size and weight of the transactions with a witness but the coinbase.
    pub(crate) segwit: (u32, u32, u32),
    pub(crate) taproot_outputs: u32,
    /// Count of the outputs, and bytes of their scripts.
    pub(crate) op_returns: (u32, u32),
    /// Value times age in seconds of what is spent.
    pub(crate) coin_age: u128,
    /// By the name of the type.
    pub(crate) types: BTreeMap<&'static str, OfType>,
    pub(crate) unspendable: Unspendable,
    pub(crate) utxo_count: u64,
    pub(crate) utxo_value: u64,
}

/// Sums over the blocks of a chain, one of its blocks the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) transactions: u64,
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    pub(crate) input_value: u128,
    pub(crate) output_value: u128,
    pub(crate) fees: u64,
    pub(crate) subsidy: u64,
    pub(crate) size: u64,
    pub(crate) weight: u64,
    pub(crate) paying_weight: u64,
    pub(crate) work: Option<Work>,
    pub(crate) empty_blocks: u32,
    /// Of the genesis block, by duplicates, by scripts, unclaimed.
    pub(crate) unspendable: [u64; 4],
    /// Count, size and weight of the transactions with a witness but the coinbases.
    pub(crate) segwit: (u64, u64, u64),
    pub(crate) taproot_outputs: u64,
    /// Count of the outputs, and bytes of their scripts.
    pub(crate) op_returns: (u64, u64),
    pub(crate) coin_age: u128,
    /// Of each feerate quantile of the blocks.
    pub(crate) feerate_quantiles: [u64; 7],
    /// In the order of [`TYPES`].
    pub(crate) types: [OfType; TYPES.len()],
}

/// The types of scripts.
pub(crate) const TYPES: [&str; 12] = [
    "P2pk",
    "P2pkh",
    "P2sh",
    "P2wpkh",
    "P2wsh",
    "P2tr",
    "P2a",
    "P2ms",
    "OpReturn",
    "WitnessUnknown",
    "Nonstandard",
    "Empty",
];

impl Sums {
    pub(super) fn plus(&self, block: &BlockTotals) -> Self {
        let lost = block.unspendable;
        let lost = [lost.genesis_block, lost.bip30, lost.scripts, lost.unclaimed_rewards];
        let (segwit, op_returns, feerates) = (block.segwit, block.op_returns, feerate_quantiles(block));
        let mut sums = Self {
            transactions: self.transactions + u64::from(block.transactions),
            inputs: self.inputs + u64::from(block.inputs),
            outputs: self.outputs + u64::from(block.outputs),
            input_value: self.input_value + u128::from(block.input_value),
            output_value: self.output_value + u128::from(block.output_value),
            fees: self.fees + block.fees,
            subsidy: self.subsidy + block.subsidy,
            size: self.size + u64::from(block.size),
            weight: self.weight + u64::from(block.weight),
            paying_weight: self.paying_weight
                + block.fees_and_weights.iter().map(|(_, weight)| u64::from(*weight)).sum::<u64>(),
            work: Some(self.work.map_or(block.work, |work| work + block.work)),
            empty_blocks: self.empty_blocks + u32::from(block.transactions == 1),
            unspendable: [0, 1, 2, 3].map(|kind| self.unspendable[kind] + lost[kind]),
            segwit: (
                self.segwit.0 + u64::from(segwit.0),
                self.segwit.1 + u64::from(segwit.1),
                self.segwit.2 + u64::from(segwit.2),
            ),
            taproot_outputs: self.taproot_outputs + u64::from(block.taproot_outputs),
            op_returns: (self.op_returns.0 + u64::from(op_returns.0), self.op_returns.1 + u64::from(op_returns.1)),
            coin_age: self.coin_age + block.coin_age,
            feerate_quantiles: [0, 1, 2, 3, 4, 5, 6].map(|at| self.feerate_quantiles[at] + feerates[at]),
            types: self.types,
        };
        for (name, more) in &block.types {
            let sum = &mut sums.types[TYPES.iter().position(|known| known == name).expect("is a type")];
            let pairs = [(&mut sum.created, more.created), (&mut sum.spent, more.spent)];
            for (sum, more) in pairs.into_iter().chain([(&mut sum.unspendable, more.unspendable)]) {
                *sum = (sum.0 + more.0, sum.1 + more.1);
            }
        }
        sums
    }
}

/// The name of the type of a script.
pub(crate) fn type_of(script: &Script) -> &'static str {
    match script {
        _ if script.is_empty() => "Empty",
        _ if script.is_op_return() => "OpReturn",
        _ if script.is_p2pk() => "P2pk",
        _ if script.is_p2pkh() => "P2pkh",
        _ if script.is_p2sh() => "P2sh",
        _ if script.is_p2wpkh() => "P2wpkh",
        _ if script.is_p2wsh() => "P2wsh",
        _ if script.is_p2tr() => "P2tr",
        _ if script.as_bytes() == [0x51, 0x02, 0x4e, 0x73] => "P2a",
        _ if script.is_multisig() => "P2ms",
        _ if script.witness_version().is_some_and(|version| version.to_num() > 0) => "WitnessUnknown",
        _ => "Nonstandard",
    }
}
