use std::sync::Arc;

use async_graphql::{Context, InputObject};
use bitcoin::ScriptBuf;

use super::address::Address;
use super::descriptor_account::DescriptorAccount;
use super::descriptor_error::refuse_listed;
use super::holdings::script_hash;
use crate::api::accounts::DEFAULT_GAP_LIMIT;
use crate::api::context::{ServingContext, limits};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::scalars::Hex;
use crate::view::{Dependency, Ledger, View};

/// A descriptor of a wallet.
#[derive(Clone, Debug, InputObject)]
pub(crate) struct DescriptorInput {
    /// An output descriptor with public keys, or an extended public key alone, as in `descriptor(text:)`.
    pub(crate) text: String,
    /// The number of unused scripts in a row at which a branch ends, from 1 to `server.limits.pages.gapLimit`.
    #[graphql(default_with = "Some(DEFAULT_GAP_LIMIT)")]
    pub(crate) gap_limit: Option<i32>,
}

impl DescriptorInput {
    pub(crate) fn gap_limit(&self) -> i32 {
        self.gap_limit.unwrap_or(DEFAULT_GAP_LIMIT)
    }
}

/// Addresses, scripts and descriptors: at least one of the lists, and at most `server.limits.pages.idsPerList` entries in all of them
/// together. In a subscription at most `watchedItems` addresses and scripts and `watchedDescriptors` descriptors, which have at most
/// `watchedBranches` branches (`server.limits.subscriptions`) and `server.limits.pages.derivedScripts` scripts together.
#[derive(Clone, Debug, InputObject)]
pub(crate) struct LedgerInput {
    /// Addresses of this server's network. In `ledgers` and `ledgerSet` the entry of an invalid address says why, and adds
    /// nothing; everything else fails on it.
    pub(crate) addresses: Option<Vec<String>>,
    /// Full scriptPubKeys, including those without an address.
    pub(crate) scripts: Option<Vec<Hex>>,
    /// Descriptors: their scripts up to the gap limit. In a subscription the end moves on by itself as scripts are used.
    pub(crate) descriptors: Option<Vec<DescriptorInput>>,
}

impl LedgerInput {
    /// How many addresses and scripts are given.
    pub(crate) fn script_count(&self) -> usize {
        self.addresses.as_ref().map_or(0, Vec::len).saturating_add(self.scripts.as_ref().map_or(0, Vec::len))
    }

    /// What finding the accounts of the descriptors costs at most if few of their scripts were used, and what is asked of each.
    pub(crate) fn accounts_cost(&self, per_account: usize) -> usize {
        let descriptors = self.descriptors.iter().flatten();
        let costs =
            descriptors.map(|given| costs::account(&given.text, given.gap_limit, DEFAULT_GAP_LIMIT, per_account));
        costs.fold(0, usize::saturating_add)
    }

    /// Errors: BAD_USER_INPUT if no list is given; QUERY_LIMIT_EXCEEDED for too many entries, and for their cost.
    pub(super) fn check(&self, ctx: &Context<'_>) -> Result<(), ApiError> {
        if self.addresses.is_none() && self.scripts.is_none() && self.descriptors.is_none() {
            let fault = "has neither addresses nor scripts nor descriptors: give at least one of the lists";
            return Err(ApiError::bad_argument("of", fault));
        }
        let descriptors = self.descriptors.as_ref().map_or(0, Vec::len);
        limits(ctx)?.check_ids("of", self.script_count().saturating_add(descriptors))?;
        costs::spend(ctx, self.script_count())
    }

    /// All scripts as one ledger, also those of descriptors that were not used. With a descriptor it depends on which of its
    /// scripts were used.
    ///
    /// Errors: BAD_USER_INPUT for what is not an address or a descriptor of the network, and if nothing is given;
    /// QUERY_LIMIT_EXCEEDED.
    pub(crate) async fn resolve(self, ctx: &Context<'_>, view: &Arc<View>) -> Result<Ledger, ApiError> {
        self.check(ctx)?;
        let mut hashes = Vec::with_capacity(self.script_count());
        for (place, text) in self.addresses.into_iter().flatten().enumerate() {
            let address = Address::parse(view, &format!("of.addresses[{place}]"), &text)?;
            hashes.push(script_hash(address.script_pubkey()));
        }
        for script in self.scripts.into_iter().flatten() {
            hashes.push(script_hash(&ScriptBuf::from_bytes(script.into_bytes())));
        }
        for account in accounts(ctx, view, self.descriptors.unwrap_or_default()).await? {
            hashes.extend(account.derived_scripts().map(|derived| derived.hash));
        }
        Ok(view.ledger(hashes))
    }
}

/// The account of each descriptor.
///
/// Errors: BAD_USER_INPUT for a text that is not a descriptor of the network, and for a gap limit that is not positive;
/// QUERY_LIMIT_EXCEEDED.
pub(super) async fn accounts(
    ctx: &Context<'_>,
    view: &Arc<View>,
    descriptors: Vec<DescriptorInput>,
) -> Result<Vec<DescriptorAccount>, ApiError> {
    if descriptors.is_empty() {
        return Ok(Vec::new());
    }
    view.read_set().depends_on(Dependency::Head);
    let serving = ctx.data_opt::<Arc<ServingContext>>();
    let serving = serving.ok_or_else(|| ApiError::internal("the schema was built without a context"))?;
    let (limits, mut accounts) = (limits(ctx)?, Vec::with_capacity(descriptors.len()));
    for (place, given) in descriptors.into_iter().enumerate() {
        costs::spend(ctx, costs::descriptor(&given.text))?;
        let gap_limit = limits.check_gap_limit(&format!("of.descriptors[{place}].gapLimit"), given.gap_limit())?;
        let parsed = serving.derivation.parse(given.text, view.network()).await?;
        let descriptor = parsed.map_err(|error| refuse_listed("of", place, &error))?;
        let spend = |cost| costs::spend(ctx, cost);
        let (argument, account) = (format!("of.descriptors[{place}]"), (descriptor, gap_limit));
        accounts.push(DescriptorAccount::of_descriptor(view, serving, &argument, account, limits, spend).await?);
    }
    Ok(accounts)
}
