use std::ops::Deref;
use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use bitcoin::hashes::{Hash, HashEngine, sha256};

use super::derived_address::DerivedAddress;
use super::descriptor_branch::DescriptorBranch;
use super::descriptor_error::refuse;
use super::ledger_fields::LedgerFields;
use crate::api::accounts::{DerivedScript, DiscoveredAccount};
use crate::api::context::{ServingContext, limits};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::connection::Connection;
use crate::api::pagination::cursor::Scope;
use crate::api::pagination::global_id::descriptor_account_id;
use crate::api::pagination::page::PageArgs;
use crate::api::scalars::{UInt53, int, int_of};
use crate::api::types::enums::{ScriptTypeEnum, SortOrder};
use crate::chain;
use crate::chain::descriptor::{MOST_BRANCHES, OutputDescriptor};
use crate::limits::Limits;
use crate::view::View;

/// The used scripts of a descriptor as one ledger.
#[derive(Clone)]
pub(crate) struct DescriptorAccount {
    view: Arc<View>,
    account: Arc<DiscoveredAccount>,
    id: String,
    fields: LedgerFields,
}

impl DescriptorAccount {
    /// The account of a descriptor.
    ///
    /// Errors: BAD_USER_INPUT for a text that is not a descriptor of the network; QUERY_LIMIT_EXCEEDED.
    pub(crate) async fn of(
        view: &Arc<View>,
        serving: &ServingContext,
        (text, gap_limit): (String, i32),
        limits: &Limits,
        spend: impl Fn(usize) -> Result<(), ApiError>,
    ) -> Result<Self, ApiError> {
        let gap_limit = limits.check_gap_limit("gapLimit", gap_limit)?;
        let descriptor = serving.derivation.parse(text, view.network()).await?.map_err(|error| refuse(&error))?;
        Self::of_descriptor(view, serving, "text", (descriptor, gap_limit), limits, spend).await
    }

    /// The account of a descriptor that was parsed, up to a gap limit that was checked. `argument` is where it was given.
    ///
    /// Errors: QUERY_LIMIT_EXCEEDED.
    pub(crate) async fn of_descriptor(
        view: &Arc<View>,
        serving: &ServingContext,
        argument: &str,
        (descriptor, gap_limit): (OutputDescriptor, u32),
        limits: &Limits,
        spend: impl Fn(usize) -> Result<(), ApiError>,
    ) -> Result<Self, ApiError> {
        let cache = &serving.derivation;
        let account =
            DiscoveredAccount::discover(cache, view, argument, (descriptor, gap_limit), limits, spend).await?;
        let mut engine = sha256::Hash::engine();
        engine.input(&gap_limit.to_be_bytes());
        engine.input(account.descriptor.text().as_bytes());
        let id = descriptor_account_id(&sha256::Hash::from_engine(engine));
        // what was never used adds nothing to any figure
        let scripts = account.used_scripts().map(|used| (used.hash, used.name()));
        let fields = LedgerFields::new(view, id.clone(), scripts.collect::<Vec<_>>());
        Ok(Self { view: view.clone(), account: Arc::new(account), id, fields })
    }

    /// What names the account: `id`.
    pub(crate) fn id_text(&self) -> &str {
        &self.id
    }

    /// The scripts with a history.
    pub(crate) fn used_scripts(&self) -> impl Iterator<Item = &DerivedScript> {
        self.account.used_scripts()
    }

    /// All scripts up to the gap limit.
    pub(crate) fn derived_scripts(&self) -> impl Iterator<Item = &DerivedScript> {
        self.account.derived_scripts()
    }

    fn branch(&self, number: i32) -> Result<DescriptorBranch, ApiError> {
        DescriptorBranch::at(&self.view, &self.account, number)
    }

    /// A page of the derived addresses. A cursor holds branch and index, so nothing that happens makes it stale.
    fn page(
        &self,
        ctx: &Context<'_>,
        branch: Option<i32>,
        used: Option<bool>,
        args: &PageArgs,
    ) -> Result<Connection<DerivedAddress>, ApiError> {
        if let Some(number) = branch {
            self.branch(number)?;
        }
        let scope = Scope::new("addresses", self.id.clone()).filtered(format!("{branch:?} {used:?}"));
        let request = args.read(&scope, &self.view, limits(ctx)?)?;
        let mut positions = Vec::new();
        for (number, found) in (0_u32..).zip(&self.account.branches) {
            if branch.is_some_and(|branch| u32::try_from(branch) != Ok(number)) {
                continue;
            }
            let wanted = (0..found.derived()).filter(|index| used.is_none_or(|used| found.is_used(*index) == used));
            positions.extend(wanted.map(|index| u64::from(number) << 32 | u64::from(index)));
        }
        let total = UInt53::count(positions.len())?;
        let walk = request.walk(0..u64::MAX, SortOrder::Asc);
        positions.retain(|position| walk.positions.contains(position));
        if !walk.ascending {
            positions.reverse();
        }
        let rows = positions.into_iter().map(|position| Ok::<_, ApiError>((position, Some(()))));
        let page = request.page(|_| false, rows)?;
        Connection::new(
            &scope,
            page,
            Some(total),
            |_| Ok(None),
            |position, ()| {
                let lost = || ApiError::internal("a derived script is missing");
                let (number, index) = place_of(position).ok_or_else(lost)?;
                let branch = self.account.branches.get(number).ok_or_else(lost)?;
                let derived = branch.script(index).ok_or_else(lost)?;
                Ok(DerivedAddress::new(&self.view, derived, branch.path.as_deref(), (number, index)))
            },
        )
    }
}

/// The branch and the index at a position of the list of addresses.
fn place_of(position: u64) -> Option<(usize, u32)> {
    Some((usize::try_from(position >> 32).ok()?, u32::try_from(position & u64::from(u32::MAX)).ok()?))
}

impl Deref for DescriptorAccount {
    type Target = LedgerFields;

    fn deref(&self) -> &LedgerFields {
        &self.fields
    }
}

impl FieldCacheability for DescriptorAccount {
    const IMMUTABLE: &'static str = "id descriptor checksum scriptType isRanged gapLimit";
    const UNTIL_NEXT_HEAD: &'static str =
        "branches usedCount nextUnused addresses stats balance balanceHistory utxos transactions coinbaseBlocks";
}

/// The account of a wallet: every script of a descriptor that a transaction paid or spent, as one ledger. The server follows
/// each branch until as many scripts in a row as `gapLimit` says were not used, on the main chain or in the mempool. Scripts
/// behind such a gap are not part of the account: a wallet that leaves larger gaps needs a higher limit.
#[Object]
impl DescriptorAccount {
    /// `DescriptorAccount:` followed by a hash of the canonical descriptor and the gap limit. The server does not store
    /// accounts: `node` returns null for this id.
    pub(crate) async fn id(&self) -> ID {
        self.id.clone().into()
    }

    /// The descriptor in its canonical form, with its checksum: hardened steps as `h`, and an extended key alone as the
    /// descriptor of its receive and change addresses.
    async fn descriptor(&self) -> String {
        self.account.descriptor.text().to_owned()
    }

    /// The checksum of the descriptor (BIP380).
    async fn checksum(&self) -> String {
        self.account.descriptor.checksum().to_owned()
    }

    /// The type of the scripts. Null for `combo`, whose branches differ in it (BIP384).
    async fn script_type(&self) -> Option<ScriptTypeEnum> {
        let first = self.account.branches.first().and_then(|branch| branch.script(0))?;
        self.account.descriptor.has_one_script_type().then(|| chain::ScriptType::of(&first.script).into())
    }

    /// Whether each branch has many scripts: whether a key of the descriptor ends with `/*`.
    async fn is_ranged(&self) -> bool {
        self.account.descriptor.is_ranged()
    }

    /// The number of unused scripts in a row at which a branch ends, as requested.
    async fn gap_limit(&self) -> Result<i32, ApiError> {
        int(self.account.gap_limit)
    }

    /// The branches: one for each path of the multipath step `<…>`, one without such a step. `combo` has as many for each type
    /// of scripts: P2PK, P2PKH and, with a compressed key, P2WPKH and P2SH-P2WPKH. At most 16.
    #[graphql(complexity = "costs::list(MOST_BRANCHES, child_complexity)")]
    async fn branches(&self) -> Vec<DescriptorBranch> {
        DescriptorBranch::all(&self.view, &self.account)
    }

    /// The number of used addresses of all branches.
    async fn used_count(&self) -> Result<i32, ApiError> {
        int_of(self.account.branches.iter().map(|branch| branch.used().len()).sum::<usize>())
    }

    /// The address behind the last used one of a branch, which no transaction has paid yet: the next to give out. Null if
    /// the descriptor is not ranged and its address was used.
    async fn next_unused(
        &self,
        #[graphql(
            desc = "The number of the branch: of `<0;1>`, 0 to receive a payment and 1 for change. Branch 0 of `combo` pays public keys, \
                    which have no address: name that of another type.",
            default_with = "Some(0)"
        )]
        branch: Option<i32>,
    ) -> Option<Result<DerivedAddress, ApiError>> {
        self.branch(branch.unwrap_or_default()).map(|branch| branch.next()).transpose()
    }

    /// The addresses up to the gap limit, branch by branch, in the order of their indexes.
    #[graphql(complexity = "costs::page(first, last, child_complexity)")]
    async fn addresses(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only addresses of the branch with this number.")] branch: Option<i32>,
        #[graphql(desc = "Only addresses that were used, or only those that were not.")] used: Option<bool>,
        #[graphql(desc = "Maximum number of items from the start, or after `after`; 25 without `first` and `last`.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after the item with this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items from the end, or before `before`.")] last: Option<i32>,
        #[graphql(desc = "Only items before the item with this cursor.")] before: Option<String>,
    ) -> Option<Result<Connection<DerivedAddress>, ApiError>> {
        Some(self.page(ctx, branch, used, &PageArgs { first, after, last, before }))
    }

    #[graphql(flatten)]
    async fn fields(&self) -> &LedgerFields {
        &self.fields
    }
}
