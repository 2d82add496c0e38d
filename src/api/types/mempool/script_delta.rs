use std::sync::Arc;

use async_graphql::{Context, Object};
use bitcoin::ScriptBuf;

use crate::api::context::limits;
use crate::api::error::ApiError;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::page::{Page, PageArgs};
use crate::api::scalars::{Sats, SignedSats, UInt53, int_of};
use crate::api::types::ledger::Script;
use crate::chain::address_of;
use crate::view::{ScriptPlace, ScriptTotals, View};

/// What unconfirmed transactions do to a script.
#[derive(Clone)]
pub(crate) struct ScriptDelta {
    view: Arc<View>,
    script: Arc<ScriptBuf>,
    totals: ScriptTotals,
}

impl ScriptDelta {
    fn spent_sat(&self) -> u64 {
        self.totals.spent_confirmed.value.saturating_add(self.totals.spent_unconfirmed.value)
    }
}

/// The effect of mempool transactions on the balance of one script. Unspendable outputs are not counted.
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

    /// The sum of the transactions' outputs to the script, in satoshis, including outputs that are spent again:
    /// `balance.pendingIn` of the script.
    async fn received(&self) -> Result<Sats, ApiError> {
        Sats::new(self.totals.pending.value)
    }

    /// The sum of the script's outputs that the transactions spend, in satoshis, including outputs that they create
    /// themselves: `balance.spentInMempool` of the script.
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
    let request = args.read_by(limits(ctx)?, |cursor| {
        let place = scope.opened(cursor).and_then(|content| content.try_into().ok()).map(ScriptPlace);
        place.ok_or_else(|| scope.refusal(cursor))
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
