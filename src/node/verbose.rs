//! A block decoded by the node (`getblock` with verbosity 3): what each input spends and which fee each transaction
//! pays, with exact amounts. For checking the index against the node; too slow for building it.

use bitcoin::{Amount, BlockHash, OutPoint, ScriptBuf, TxOut, Txid};
use serde::Deserialize;

use super::amounts::ExactAmount;
use crate::chain::Height;

/// A block as the node decodes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "wire::WireBlock")]
pub struct VerboseBlock {
    /// The block's hash.
    pub hash: BlockHash,
    /// The block's height.
    pub height: Height,
    /// The transactions, the coinbase first.
    pub transactions: Vec<VerboseTransaction>,
}

/// A transaction as the node decodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerboseTransaction {
    /// The transaction's id.
    pub txid: Txid,
    /// Its inputs.
    pub inputs: Vec<VerboseInput>,
    /// Its outputs.
    pub outputs: Vec<TxOut>,
    /// Its fee; `None` for the coinbase, and when the node has no undo data of the block.
    pub fee: Option<Amount>,
}

/// An input as the node decodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerboseInput {
    /// The output that it spends; `None` in a coinbase.
    pub outpoint: Option<OutPoint>,
    /// What that output is; `None` in a coinbase, and when the node has no undo data of the block.
    pub spent: Option<SpentOutput>,
}

/// An output that an input spends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpentOutput {
    /// Value and script.
    pub output: TxOut,
    /// The height of the block that created it.
    pub height: Height,
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
}

/// The structure of the JSON.
mod wire {
    use super::{
        BlockHash, Deserialize, ExactAmount, Height, OutPoint, ScriptBuf, SpentOutput, TxOut, Txid, VerboseBlock,
        VerboseInput, VerboseTransaction,
    };

    #[derive(Deserialize)]
    pub(super) struct WireBlock {
        hash: BlockHash,
        height: u32,
        tx: Vec<WireTransaction>,
    }

    #[derive(Deserialize)]
    struct WireTransaction {
        txid: Txid,
        vin: Vec<WireInput>,
        vout: Vec<WireOutput>,
        fee: Option<ExactAmount>,
    }

    #[derive(Deserialize)]
    struct WireInput {
        txid: Option<Txid>,
        vout: Option<u32>,
        prevout: Option<WirePrevout>,
    }

    #[derive(Deserialize)]
    struct WirePrevout {
        generated: bool,
        height: u32,
        value: ExactAmount,
        #[serde(rename = "scriptPubKey")]
        script: WireScript,
    }

    #[derive(Deserialize)]
    struct WireOutput {
        value: ExactAmount,
        #[serde(rename = "scriptPubKey")]
        script: WireScript,
    }

    #[derive(Deserialize)]
    struct WireScript {
        hex: ScriptBuf,
    }

    impl From<WireBlock> for VerboseBlock {
        fn from(block: WireBlock) -> Self {
            VerboseBlock {
                hash: block.hash,
                height: Height::from(block.height),
                transactions: block.tx.into_iter().map(VerboseTransaction::from).collect(),
            }
        }
    }

    impl From<WireTransaction> for VerboseTransaction {
        fn from(transaction: WireTransaction) -> Self {
            VerboseTransaction {
                txid: transaction.txid,
                inputs: transaction.vin.into_iter().map(VerboseInput::from).collect(),
                outputs: transaction.vout.into_iter().map(|output| tx_out(output.value, output.script)).collect(),
                fee: transaction.fee.map(|fee| fee.0),
            }
        }
    }

    impl From<WireInput> for VerboseInput {
        fn from(input: WireInput) -> Self {
            VerboseInput {
                outpoint: input.txid.zip(input.vout).map(|(txid, vout)| OutPoint { txid, vout }),
                spent: input.prevout.map(|prevout| SpentOutput {
                    output: tx_out(prevout.value, prevout.script),
                    height: Height::from(prevout.height),
                    is_coinbase: prevout.generated,
                }),
            }
        }
    }

    fn tx_out(value: ExactAmount, script: WireScript) -> TxOut {
        TxOut { value: value.0, script_pubkey: script.hex }
    }
}
