//! The status of an output: spent by which input, immature, or unspendable.

use std::sync::Arc;

use bitcoin::constants::COINBASE_MATURITY;
use bitcoin::{OutPoint, Script};

use super::{Block, ConfirmedPlace, OutputPart, Transaction, View};
use crate::chain::Height;
use crate::chain::script::never_spendable;
use crate::index::{IndexError, SpendingInput, TxNum};
use crate::mempool::Entry;

/// Why an output can never be spent (the kinds of Core's coinstatsindex).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnspendableReason {
    /// Its script starts with OP_RETURN.
    OpReturn,
    /// Its script is longer than 10,000 bytes.
    OversizeScript,
    /// It is the output of the genesis block, which never entered the UTXO set.
    GenesisCoinbase,
    /// A later transaction with the same txid replaced it before it was spent (BIP30).
    Bip30Overwritten,
}

/// The status of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendStatus {
    /// No transaction of the active chain or of the mempool spends it.
    Unspent,
    /// A transaction of the mempool spends it, and none of the active chain does.
    SpentInMempool,
    /// A transaction of the active chain spends it.
    Spent,
    /// No transaction can ever spend it.
    Unspendable,
}

/// The input that spends an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spender {
    /// The position of the spending transaction.
    pub txnum: TxNum,
    /// The index of its input.
    pub vin: u32,
    /// The height of its block.
    pub height: Height,
    /// Whether it is known that the active chain has no later copy of the spending transaction: a later copy would spend the same
    /// outpoint, and so a later copy of the transaction with the output. False where the output is not known to be of the newest
    /// copy of that.
    pub is_newest: bool,
}

/// The lowest height of a block that may spend the coinbase of this height: 100 above it (Core `COINBASE_MATURITY`).
#[must_use]
pub fn mature_at(coinbase: Height) -> Height {
    Height::from(coinbase.to_u32().saturating_add(COINBASE_MATURITY))
}

impl Transaction {
    /// The lowest height of a block that may spend outputs of this transaction, if it is a coinbase of the active
    /// chain. `None` for all others.
    #[must_use]
    pub fn mature_at(&self) -> Option<Height> {
        self.place.filter(ConfirmedPlace::is_coinbase).map(|place| mature_at(place.height))
    }
}

impl View {
    /// The input on the active chain that spends this output, `None` while there is none.
    pub fn spender(&self, transaction: &Transaction, vout: u32) -> Result<Option<Spender>, IndexError> {
        let Some(place) = transaction.place else { return Ok(None) };
        self.spender_of_copy(place.txnum, vout, transaction.is_newest)
    }

    /// The input on the active chain that spends an output of the transaction at this position.
    fn spending_input(&self, funding: TxNum, vout: u32) -> Result<Option<SpendingInput>, IndexError> {
        self.head.chain.spender_near(&mut self.spend_cursor.lock(), funding, vout)
    }

    fn spender_of_copy(&self, funding: TxNum, vout: u32, is_newest: bool) -> Result<Option<Spender>, IndexError> {
        let Some(spender) = self.spending_input(funding, vout)? else { return Ok(None) };
        let height = self.head.chain.occurrence(spender.txnum)?.height;
        Ok(Some(Spender { txnum: spender.txnum, vin: spender.vin, height, is_newest }))
    }

    /// The input on the active chain that spends an output, `None` while there is none. For a txid that the chain
    /// contains twice (BIP30) the newest copy counts.
    pub fn spender_of_outpoint(&self, outpoint: &OutPoint) -> Result<Option<Spender>, IndexError> {
        let Some(funding) = self.latest_position(&outpoint.txid)? else { return Ok(None) };
        self.spender_of_copy(funding, outpoint.vout, true)
    }

    /// The transaction of a spending input.
    pub fn spending_transaction(&self, spender: Spender) -> Result<Transaction, IndexError> {
        if spender.is_newest { self.newest_at(spender.txnum) } else { self.transaction_at(spender.txnum) }
    }

    /// The input of a transaction of the mempool that spends this output, and that transaction; `None` while there is none.
    #[must_use]
    pub fn spender_in_mempool(&self, transaction: &Transaction, vout: u32) -> Option<(Arc<Entry>, u32)> {
        if transaction.replaced_in.is_some() || (transaction.place.is_none() && transaction.unconfirmed.is_none()) {
            return None;
        }
        let mempool = &self.head.mempool;
        let (txid, vin) = mempool.spender(&OutPoint { txid: transaction.txid, vout })?;
        Some((Arc::clone(mempool.get(&txid)?), vin))
    }

    /// The current status of this output, the mempool included; `None` if it is neither in a block of the active chain
    /// nor in the mempool.
    pub fn spend_status(&self, transaction: &Transaction, vout: u32) -> Result<Option<SpendStatus>, IndexError> {
        let Some(output) = transaction.output(vout) else { return Ok(None) };
        // the newest copy is the one that counts at the tip, so that no other need be looked up (BIP30)
        let newest = transaction.place.filter(|place| transaction.is_newest && place.txnum != TxNum(0));
        let status = match newest {
            Some(place) => Some(status_of(output, || self.spending_input(place.txnum, vout))?),
            None if transaction.unconfirmed.is_some() => Some(status_of(output, || Ok(None))?),
            None => self.spend_status_at(transaction, vout, &self.tip_block()?)?,
        };
        let is_spent = status == Some(SpendStatus::Unspent) && self.spender_in_mempool(transaction, vout).is_some();
        Ok(if is_spent { Some(SpendStatus::SpentInMempool) } else { status })
    }

    /// The status of this output right after a block; `None` if no block up to it contains the output. For a txid that the
    /// chain contains twice (BIP30) the newest copy up to that block counts.
    pub fn spend_status_at(
        &self,
        transaction: &Transaction,
        vout: u32,
        at: &Block,
    ) -> Result<Option<SpendStatus>, IndexError> {
        let Some(place) = transaction.place else { return Ok(None) };
        let end = at.end_txnum()?;
        let own_copy = (transaction.replaced_in.is_some() && place.txnum < end).then_some(place.txnum);
        let copies = self.positions(&transaction.txid)?;
        let newest = copies.iter().copied().rfind(|copy| *copy < end);
        let copy = if transaction.replaced_in.is_some() { own_copy } else { newest };
        let Some(copy) = copy else { return Ok(None) };
        let Some(output) = transaction.output(vout) else { return Ok(None) };
        if copy == TxNum(0) || never_spendable(output.script_pubkey) {
            return Ok(Some(SpendStatus::Unspendable));
        }
        if self.spending_input(copy, vout)?.is_some_and(|spender| spender.txnum < end) {
            return Ok(Some(SpendStatus::Spent));
        }
        Ok(Some(if newest == Some(copy) { SpendStatus::Unspent } else { SpendStatus::Unspendable }))
    }

    /// Why this output can never be spent, `None` if it can or could.
    pub fn unspendable(&self, transaction: &Transaction, vout: u32) -> Result<Option<UnspendableReason>, IndexError> {
        let Some(output) = transaction.output(vout) else { return Ok(None) };
        if transaction.place.is_some_and(|place| place.txnum == TxNum(0)) {
            return Ok(Some(UnspendableReason::GenesisCoinbase));
        }
        if let Some(reason) = unspendable_script(output.script_pubkey) {
            return Ok(Some(reason));
        }
        let Some(place) = transaction.place else { return Ok(None) };
        let overwritten = !transaction.is_newest
            && self.latest_position(&transaction.txid)?.is_some_and(|latest| latest > place.txnum)
            && self.spending_input(place.txnum, vout)?.is_none();
        Ok(overwritten.then_some(UnspendableReason::Bip30Overwritten))
    }

    /// Whether the next block may spend outputs of this transaction, regarding coinbase maturity. False for the
    /// coinbase of a stale block, which no block of the active chain can spend.
    #[must_use]
    pub fn is_mature(&self, transaction: &Transaction) -> bool {
        !transaction.parts.is_coinbase()
            || transaction.mature_at().is_some_and(|height| height <= self.tip().height.next())
    }
}

/// The status of an output of the newest copy of its transaction. `spender` looks up the input of the active chain that spends it,
/// unless none can.
fn status_of(
    output: OutputPart<'_>,
    spender: impl FnOnce() -> Result<Option<SpendingInput>, IndexError>,
) -> Result<SpendStatus, IndexError> {
    if never_spendable(output.script_pubkey) {
        return Ok(SpendStatus::Unspendable);
    }
    Ok(if spender()?.is_some() { SpendStatus::Spent } else { SpendStatus::Unspent })
}

fn unspendable_script(script: &Script) -> Option<UnspendableReason> {
    if !never_spendable(script) {
        return None;
    }
    Some(if script.is_op_return() { UnspendableReason::OpReturn } else { UnspendableReason::OversizeScript })
}
