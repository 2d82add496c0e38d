use std::sync::Arc;

use async_graphql::{Context, Object};
use bitcoin::ScriptBuf;

use crate::api::context::limits;
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::block_id;
use crate::api::pagination::page::{Page, PageArgs};
use crate::api::scalars::{Sats, SignedSats, UInt53, int_of};
use crate::api::types::enums::SortOrder;
use crate::api::types::ledger::Script;
use crate::chain::address_of;
use crate::view::{Block, ScriptPlace, ScriptTotals, View};

/// What unconfirmed transactions, or those of a block, do to a script.
#[derive(Clone)]
pub(crate) struct ScriptDelta {
    view: Arc<View>,
    script: Arc<ScriptBuf>,
    totals: ScriptTotals,
}

impl ScriptDelta {
    fn spent_sat(&self) -> u64 {
        spent_sat(&self.totals)
    }
}

fn spent_sat(totals: &ScriptTotals) -> u64 {
    totals.spent_confirmed.value.saturating_add(totals.spent_unconfirmed.value)
}

impl FieldCacheability for ScriptDelta {
    const IMMUTABLE: &'static str = "script address net received spent txCount";
}

/// The effect of transactions on the balance of one script: of those in the mempool, or of those of a block. Unspendable outputs
/// are not counted.
#[Object]
impl ScriptDelta {
    /// The script with its history.
    async fn script(&self) -> Result<Script, ApiError> {
        self.view.count(self.script.len())?;
        Ok(Script::of(&self.view, self.script.as_ref().clone()))
    }

    /// The address of the script. Null for types without an address.
    async fn address(&self) -> Option<String> {
        address_of(&self.script, self.view.network())
    }

    /// `received` minus `spent`, in satoshis.
    async fn net(&self) -> Result<SignedSats, ApiError> {
        SignedSats::new(i128::from(self.totals.pending.value) - i128::from(self.spent_sat()))
    }

    /// The sum of the transactions' outputs to the script, in satoshis, including outputs that they spend
    /// again. Of mempool transactions `balance.pendingIn` of the script.
    async fn received(&self) -> Result<Sats, ApiError> {
        Sats::new(self.totals.pending.value)
    }

    /// The sum of the script's outputs that the transactions spend, in satoshis, including outputs that they create
    /// themselves. Of mempool transactions `balance.spentInMempool` of the script.
    async fn spent(&self) -> Result<Sats, ApiError> {
        Sats::new(self.spent_sat())
    }

    /// The number of the transactions that pay or spend the script.
    async fn tx_count(&self) -> Result<i32, ApiError> {
        int_of(self.totals.transactions)
    }
}

/// A page of the scripts that the mempool changes. A cursor is the place of the script in the order of all scripts there
/// can be, so nothing that happens makes it stale.
pub(crate) fn page(view: &Arc<View>, ctx: &Context<'_>, args: &PageArgs) -> Result<Connection<ScriptDelta>, ApiError> {
    let (scope, mempool) =
        (Scope::new("balanceChanges", crate::api::pagination::global_id::MEMPOOL_ID.to_owned()), view.mempool());
    let request = args.read_by(limits(ctx)?, |given| {
        let place = scope.opened(given.text).and_then(|content| content.try_into().ok()).map(ScriptPlace);
        place.ok_or_else(|| scope.refusal(given))
    })?;
    let places = mempool.script_places(request.from(), request.is_forwards());
    let page: Page<_, ScriptPlace> =
        request.page(|_| false, places.map(|place| Ok::<_, ApiError>((place, Some(())))))?;
    let lost = || ApiError::internal("a script of the mempool has no transaction that pays or spends it");
    Connection::with_cursors(
        page,
        Some(UInt53::count(mempool.script_count())?),
        |ScriptPlace(place)| Ok(scope.sealed(&place)),
        |place, ()| {
            let size = mempool.entry_with_script(place).ok_or_else(lost)?.raw.len();
            view.count(size)?;
            let found = mempool.script_at(place).ok_or_else(lost)?;
            let script = Arc::new(ScriptBuf::from_bytes(found.script_pubkey.into_vec()));
            Ok(ScriptDelta { view: view.clone(), script, totals: found.totals })
        },
    )
}

/// A page of the scripts whose balance a block changes, by `min_abs_net` at least, `None` for a stale block.
pub(crate) fn page_of_block(
    ctx: &Context<'_>,
    view: &Arc<View>,
    block: &Block,
    min_abs_net: Option<Sats>,
    args: &PageArgs,
) -> Result<Option<Connection<ScriptDelta>>, ApiError> {
    if !block.is_main() {
        return Ok(None);
    }
    let (hash, row) = (block.row.hash, &block.row);
    let least = min_abs_net.map_or(0, Sats::to_sat);
    // a cursor is a place among those that are left
    let scope = Scope::new("balanceChanges", block_id(hash)).filtered(format!("{least}"));
    let request = args.read(&scope, view, limits(ctx)?)?;
    let cost = u64::from(row.transactions) + u64::from(row.inputs) + u64::from(row.outputs);
    costs::spend(ctx, usize::try_from(cost).unwrap_or(usize::MAX))?;
    view.count(row.size.try_into().unwrap_or(usize::MAX))?;
    let Some(mut changes) = view.balance_changes::<ApiError>(block)? else { return Ok(None) };
    changes.retain(|change| change.totals.pending.value.abs_diff(spent_sat(&change.totals)) >= least);
    let count = UInt53::count(changes.len())?;
    let page = request.of(0..count.to_u64(), SortOrder::Asc);
    let delta = |position: u64, ()| {
        let change = usize::try_from(position).ok().and_then(|position| changes.get(position));
        let change = change.ok_or_else(|| ApiError::internal("a script that a block changes is missing"))?;
        Ok(ScriptDelta { view: view.clone(), script: Arc::new(change.script.clone()), totals: change.totals })
    };
    Connection::new(&scope, page, Some(count), |_| Ok(Some(hash)), delta).map(Some)
}
