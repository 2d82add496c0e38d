use std::sync::Arc;

use async_graphql::Object;
use bitcoin::Script;
use bitcoin::hashes::Hash;

use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{Hex, int};
use crate::api::types::enums::MinerEvidenceEnum;
use crate::api::types::transaction::Transaction;
use crate::chain::{Height, coinbase};
use crate::view::{self, View};

/// The coinbase of a block, with what its script and outputs contain beside amounts.
pub(crate) struct CoinbaseObject {
    transaction: Transaction,
    script_sig: Vec<u8>,
    witness_commitment: Option<[u8; 32]>,
    mature_at: Option<Height>,
    evidence: Option<MinerEvidenceEnum>,
}

impl CoinbaseObject {
    pub(crate) fn new(view: &Arc<View>, transaction: view::Transaction) -> Result<Self, ApiError> {
        let evidence = view.miner_of(transaction.raw())?.map(|(_, evidence)| evidence.into());
        let parts = &transaction.parts;
        let script_sig = parts.input.first().map_or_else(Vec::new, |input| input.script_sig.to_bytes());
        let scripts = parts.output.iter().map(|output| output.script_pubkey.as_script());
        let witness_commitment = coinbase::witness_commitment(scripts).map(Hash::to_byte_array);
        let mature_at = transaction.mature_at();
        let transaction = Transaction::new(view, transaction);
        Ok(Self { transaction, script_sig, witness_commitment, mature_at, evidence })
    }

    fn script(&self) -> &Script {
        Script::from_bytes(&self.script_sig)
    }
}

impl FieldCacheability for CoinbaseObject {
    const IMMUTABLE: &'static str = "text minerName scriptSigHex heightFromScript witnessCommitment transaction";
    const UNTIL_NEXT_TIP: &'static str = "matureAtHeight";
    const UNTIL_NEXT_HEAD: &'static str = "minerEvidence";
}

/// The coinbase of a block, decoded.
#[Object(name = "Coinbase")]
impl CoinbaseObject {
    /// The coinbase as a transaction.
    async fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// The scriptSig of the one input, 2 to 100 bytes. It has no effect but that from block version 2 on it begins with the
    /// height; the rest is for the miner to choose.
    async fn script_sig_hex(&self) -> Hex {
        Hex::new(self.script_sig.as_slice())
    }

    /// The readable text of the scriptSig: each run of at least four bytes of printable UTF-8, trimmed, joined by spaces.
    /// Empty if there is none. The miner chooses it: display it as text, never as markup.
    async fn text(&self) -> String {
        coinbase::text(self.script())
    }

    /// The name of the miner that made the template of the block, in a pool that leaves templates to its miners (DATUM): the
    /// second of the two tags behind the height. Null if the scriptSig has no such tags. The miner chooses it, and it proves
    /// nothing: display it as text, never as markup.
    async fn miner_name(&self) -> Option<&str> {
        coinbase::miner_name(self.script())
    }

    /// The height that the scriptSig begins with (BIP34). Null if it begins with anything else. For blocks of version 2 and
    /// later it is the height of the block; before, the bytes may mean something else.
    async fn height_from_script(&self) -> Result<Option<i32>, ApiError> {
        coinbase::height(self.script()).map(Height::to_u32).map(int).transpose()
    }

    /// The commitment to the witnesses of the block, 32 bytes as they are in the last output that has one (BIP141). Null if
    /// no output has one.
    async fn witness_commitment(&self) -> Option<Hex> {
        self.witness_commitment.map(Hex::new)
    }

    /// The lowest height of a block that may spend an output of the coinbase: 100 above its own height. Null if the block is
    /// stale.
    async fn mature_at_height(&self) -> Result<Option<i32>, ApiError> {
        self.mature_at.map(Height::to_u32).map(int).transpose()
    }

    /// What the pool of `Block.miner` was recognised by. Null if the block is ascribed to none.
    async fn miner_evidence(&self) -> Option<MinerEvidenceEnum> {
        self.evidence
    }
}
