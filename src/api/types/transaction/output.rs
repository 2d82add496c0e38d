use std::sync::Arc;

use async_graphql::{ID, Object};
use bitcoin::OutPoint;

use super::input::Input;
use super::op_return::OpReturn;
use super::outpoint::OutPointObject;
use super::transaction::Transaction;
use crate::api::allowance::{ITEM_BYTES, find_together, find_transaction};
use crate::api::costs;
use crate::api::engine as async_graphql;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::global_id::{Variant, output_id};
use crate::api::scalars::{Hex, Sats, int};
use crate::api::types::block::BlockAt;
use crate::api::types::enums::{ScriptTypeEnum, SpendStatusEnum, UnspendableReasonEnum};
use crate::api::types::ledger::Script;
use crate::api::types::spend::OutputAgeObject;
use crate::chain::script::op_return;
use crate::chain::{self, address_of};
use crate::view::{self, Dependency, OutputPart, View};

/// An output, by its number in a transaction.
#[derive(Clone)]
pub(crate) struct Output {
    view: Arc<View>,
    transaction: Arc<view::Transaction>,
    vout: u32,
}

impl Output {
    pub(crate) fn new(view: &Arc<View>, transaction: &Arc<view::Transaction>, vout: u32) -> Self {
        view.note_transaction(transaction);
        Self { view: view.clone(), transaction: transaction.clone(), vout }
    }

    /// The output at an outpoint, `None` if the index knows no such transaction or it has no such output.
    pub(crate) fn find(view: &Arc<View>, outpoint: OutPoint) -> Result<Option<Self>, ApiError> {
        let found = find_transaction(view, |view| view.transaction(&outpoint.txid))?;
        Ok(found.and_then(|transaction| Self::of(view, &Arc::new(transaction), outpoint.vout)))
    }

    /// Returns what [`Output::find`] does, read together with what other fields ask for.
    pub(crate) async fn find_together(view: &Arc<View>, outpoint: OutPoint) -> Result<Option<Self>, ApiError> {
        let found = find_together(view, outpoint.txid).await?;
        Ok(found.and_then(|transaction| Self::of(view, &transaction, outpoint.vout)))
    }

    /// An output of a transaction, `None` if it has no such output.
    pub(crate) fn of(view: &Arc<View>, transaction: &Arc<view::Transaction>, vout: u32) -> Option<Self> {
        transaction.output(vout).map(|_| Self::new(view, transaction, vout))
    }

    fn outpoint_of(&self) -> OutPoint {
        OutPoint { txid: self.transaction.txid, vout: self.vout }
    }

    /// The amount and the script.
    pub(crate) fn part(&self) -> Result<OutputPart<'_>, ApiError> {
        let part = self.transaction.output(self.vout);
        part.ok_or_else(|| ApiError::internal(&format!("there is no output {}", self.outpoint_of())))
    }

    /// The transaction that contains it.
    pub(super) fn funding(&self) -> &view::Transaction {
        &self.transaction
    }

    fn spender(&self) -> Result<Option<view::Spender>, ApiError> {
        Ok(self.view.spender(&self.transaction, self.vout)?)
    }

    fn reason(&self) -> Result<Option<UnspendableReasonEnum>, ApiError> {
        Ok(self.view.unspendable(&self.transaction, self.vout)?.map(UnspendableReasonEnum::from))
    }

    fn status(&self, at: Option<BlockAt>) -> Result<Option<SpendStatusEnum>, ApiError> {
        let status = match at {
            None => {
                self.view.read_set().depends_on(Dependency::Head);
                self.view.spend_status(&self.transaction, self.vout)?
            }
            at => self.view.spend_status_at(&self.transaction, self.vout, &BlockAt::resolve(at, &self.view)?)?,
        };
        Ok(status.map(SpendStatusEnum::from))
    }
}

impl FieldCacheability for Output {
    const IMMUTABLE: &'static str = "id outpoint vout transaction value scriptPubKey asm scriptType address script \
        opReturn isCoinbase matureAtHeight";
    const BY_ARGUMENT: &'static str = "spendStatus";
    const UNTIL_NEXT_TIP: &'static str = "isMature spentBy spentHeight age lifespan";
    const UNTIL_NEXT_HEAD: &'static str = "unspendableReason spentInMempoolBy";
}

/// A transaction output: its amount, its script, and its spend status.
#[Object]
impl Output {
    /// `Output:`, the txid, a colon and the output index. For a transaction that a later one with the same txid
    /// overwrote (BIP30), `@` and the block hash follow; for one that exists only as bytes given to `decodeTransaction`, `+`
    /// and its wtxid.
    pub(crate) async fn id(&self) -> ID {
        output_id(self.outpoint_of(), Variant::of(&self.transaction)).into()
    }

    /// The outpoint: the txid and the output index.
    async fn outpoint(&self) -> Result<OutPointObject, ApiError> {
        OutPointObject::new(self.outpoint_of())
    }

    /// The index in the transaction, from 0.
    async fn vout(&self) -> Result<i32, ApiError> {
        int(self.vout)
    }

    /// The transaction that contains it.
    async fn transaction(&self) -> Transaction {
        Transaction::new(&self.view, self.transaction.clone())
    }

    /// The amount in satoshis.
    async fn value(&self) -> Result<Sats, ApiError> {
        Sats::of(self.part()?.value)
    }

    /// The script that a spend must satisfy.
    async fn script_pub_key(&self) -> Result<Hex, ApiError> {
        let script = self.part()?.script_pubkey;
        self.view.count(script.len())?;
        Ok(Hex::new(script.to_bytes()))
    }

    /// The script in human-readable form, as Bitcoin Core writes it: pushes of up to 4 bytes as decimal numbers, longer ones
    /// in hexadecimal, other opcodes by name. `[error]` stands for a push that the script ends within.
    async fn asm(&self) -> Result<String, ApiError> {
        let script = self.part()?.script_pubkey;
        self.view.count(script.len())?;
        Ok(chain::asm(script))
    }

    /// The type of the script.
    async fn script_type(&self) -> Result<ScriptTypeEnum, ApiError> {
        Ok(chain::ScriptType::of(self.part()?.script_pubkey).into())
    }

    /// The address of the script. Null for types without an address (P2PK, bare multisig, OP_RETURN, ...).
    async fn address(&self) -> Option<Result<String, ApiError>> {
        match self.part() {
            Ok(part) => address_of(part.script_pubkey, self.view.network()).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    /// The script with its history.
    async fn script(&self) -> Result<Script, ApiError> {
        let script = self.part()?.script_pubkey;
        self.view.count(script.len())?;
        Ok(Script::of(&self.view, script.to_owned()))
    }

    /// The data of the output, if its script starts with OP_RETURN. Null otherwise.
    async fn op_return(&self) -> Option<Result<OpReturn, ApiError>> {
        let script = match self.part() {
            Ok(part) => part.script_pubkey,
            Err(error) => return Some(Err(error)),
        };
        let (payload, pushes) = op_return(script)?;
        // payload, pushes and text: the same bytes up to three times
        let bytes = script.len().saturating_mul(3).saturating_add(pushes.len().saturating_mul(ITEM_BYTES));
        Some(self.view.count(bytes).map(|()| OpReturn::new(payload, &pushes)).map_err(ApiError::from))
    }

    /// Whether a coinbase created the output, which then must mature before it can be spent.
    async fn is_coinbase(&self) -> bool {
        self.transaction.parts.is_coinbase()
    }

    /// The lowest height of a block that may spend the output: 100 above its own height. Null unless it is a coinbase
    /// output on the main chain.
    async fn mature_at_height(&self) -> Option<Result<i32, ApiError>> {
        Some(int(self.transaction.mature_at()?.to_u32()))
    }

    /// Whether the output is mature: always true for outputs that are not coinbase outputs; true for coinbase outputs
    /// once the next block may spend them.
    async fn is_mature(&self) -> bool {
        self.view.is_mature(&self.transaction)
    }

    /// Whether the output is spent. Null while neither a block of the main chain nor the mempool contains its
    /// transaction, and with `at` before the block that created it.
    async fn spend_status(
        &self,
        #[graphql(
            desc = "The state right after this block, without the mempool; the current state if not given."
        )]
        at: Option<BlockAt>,
    ) -> Option<Result<SpendStatusEnum, ApiError>> {
        self.status(at).transpose()
    }

    /// Why the output can never be spent. Null if it can be, or already was.
    async fn unspendable_reason(&self) -> Option<Result<UnspendableReasonEnum, ApiError>> {
        self.reason().transpose()
    }

    /// The main chain input that spends the output. Null if there is none.
    async fn spent_by(&self) -> Option<Result<Input, ApiError>> {
        let spender = self.spender().transpose()?;
        Some(spender.and_then(|spender| Input::spending(&self.view, spender)))
    }

    /// The mempool inputs that spend the output. At most one in the mempool of a single node.
    #[graphql(complexity = "costs::list(1, child_complexity)")]
    async fn spent_in_mempool_by(&self) -> Result<Vec<Input>, ApiError> {
        let Some((entry, vin)) = self.view.spender_in_mempool(&self.transaction, self.vout) else {
            return Ok(Vec::new());
        };
        let spending = find_transaction(&self.view, |view| Ok(view.unconfirmed(&entry)))?;
        Ok(spending.map(|spending| Input::new(&self.view, &Arc::new(spending), vin)).into_iter().collect())
    }

    /// How long the output has been unspent: from its block to the tip. Null if a main chain transaction spends it, if it can
    /// never be spent, and while no main chain block contains it.
    async fn age(&self) -> Option<Result<OutputAgeObject, ApiError>> {
        let age = self.view.output_age(&self.transaction, self.vout).map_err(ApiError::from).transpose()?;
        Some(age.and_then(OutputAgeObject::new))
    }

    /// How long the output was unspent: from its block to the main chain block that spends it. Null while there is none.
    async fn lifespan(&self) -> Option<Result<OutputAgeObject, ApiError>> {
        let lifespan = self.view.output_lifespan(&self.transaction, self.vout).map_err(ApiError::from).transpose()?;
        Some(lifespan.and_then(OutputAgeObject::new))
    }

    /// The height of the block that spends the output. Null if there is none.
    async fn spent_height(&self) -> Option<Result<i32, ApiError>> {
        Some(self.spender().transpose()?.and_then(|spender| int(spender.height.to_u32())))
    }
}
