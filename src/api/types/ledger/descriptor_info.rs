use std::sync::Arc;

use async_graphql::{Context, Enum, Object};
use bitcoin::{Network, NetworkKind};

use super::derived_address::DerivedAddress;
use super::descriptor_branch::branch_place;
use super::descriptor_error::DescriptorErrorObject;
use crate::api::accounts::{DerivationCache, batch_cost};
use crate::api::context::{ServingContext, limits};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::pagination::page::list_size;
use crate::api::scalars::int_of;
use crate::api::types::enums::ScriptTypeEnum;
use crate::chain::descriptor::{DescriptorError, OutputDescriptor};
use crate::chain::{self, AddressError};
use crate::limits::DERIVED_TOGETHER;
use crate::view::View;

/// The networks that extended keys are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum KeyNetwork {
    /// Mainnet: xpub, ypub, zpub.
    Mainnet,
    /// All other networks: tpub, upub, vpub.
    Test,
}

/// What a text is as a descriptor.
pub(crate) struct DescriptorInfo {
    view: Arc<View>,
    serving: Arc<ServingContext>,
    /// Also of a descriptor of another network, `None` if the text is none at all.
    descriptor: Option<Arc<OutputDescriptor>>,
    error: Option<DescriptorError>,
}

/// The network that a descriptor is of, if this is why it is refused.
fn other_network(error: &DescriptorError) -> Option<Network> {
    match error {
        DescriptorError::Network { asked: Network::Bitcoin } => Some(Network::Testnet),
        DescriptorError::Network { .. } => Some(Network::Bitcoin),
        DescriptorError::Address(AddressError::Network { belongs_to, .. }) => belongs_to.first().copied(),
        _ => None,
    }
}

impl DescriptorInfo {
    /// What a text is on the network of a view.
    pub(crate) async fn of(view: Arc<View>, serving: Arc<ServingContext>, text: String) -> Result<Self, ApiError> {
        let cache: &DerivationCache = &serving.derivation;
        let (descriptor, error) = match cache.parse(text.clone(), view.network()).await? {
            Ok(descriptor) => (Some(descriptor), None),
            Err(error) => match other_network(&error) {
                Some(other) => (cache.parse(text, other).await?.ok(), Some(error)),
                None => (None, Some(error)),
            },
        };
        Ok(Self { view, descriptor: descriptor.map(Arc::new), serving, error })
    }

    async fn derived(
        &self,
        ctx: &Context<'_>,
        branch: i32,
        from_index: i32,
        first: i32,
    ) -> Result<Vec<DerivedAddress>, ApiError> {
        let from = u32::try_from(from_index).map_err(|_| {
            ApiError::bad_argument("fromIndex", format!("is {from_index}, and an index cannot be negative"))
        })?;
        let count = list_size(limits(ctx)?, first)?;
        let Some(descriptor) = self.descriptor.as_ref().filter(|_| self.error.is_none()) else { return Ok(Vec::new()) };
        let branch = branch_place(branch, descriptor.branches())?;
        let path = descriptor.path(branch);
        let mut derived = Vec::with_capacity(count);
        let (mut index, network) = (from, self.view.network());
        while derived.len() < count {
            costs::spend(ctx, batch_cost(descriptor))?;
            let scripts = self.serving.derivation.batch(descriptor, branch, index / DERIVED_TOGETHER, network).await?;
            let place = usize::try_from(index % DERIVED_TOGETHER).unwrap_or(usize::MAX);
            let Some(scripts) = scripts.get(place..).filter(|scripts| !scripts.is_empty()) else { break };
            for script in scripts.iter().take(count.saturating_sub(derived.len())) {
                derived.push(DerivedAddress::new(&self.view, script, path.as_deref(), (branch, index)));
                index = index.saturating_add(1);
            }
            if !descriptor.is_ranged() {
                break;
            }
        }
        Ok(derived)
    }

    /// The type of the scripts, if it is the same for all.
    async fn type_of_scripts(&self, ctx: &Context<'_>) -> Result<Option<ScriptTypeEnum>, ApiError> {
        let Some(descriptor) = self.descriptor.as_ref().filter(|found| found.has_one_script_type()) else {
            return Ok(None);
        };
        costs::spend(ctx, batch_cost(descriptor))?;
        let scripts = self.serving.derivation.batch(descriptor, 0, 0, self.view.network()).await?;
        Ok(scripts.first().map(|first| chain::ScriptType::of(&first.script).into()))
    }
}

impl FieldCacheability for DescriptorInfo {
    const IMMUTABLE: &'static str = "isValid error descriptor checksum keyNetwork scriptType isRanged isMultipath \
        branchCount isSolvable isPrivate derivedAddresses";
}

/// What a text is as a descriptor (BIPs 380 to 389) or as an extended public key of a wallet's account.
#[Object]
impl DescriptorInfo {
    /// Whether the text is a descriptor of this network without private keys, which `descriptor` accepts.
    async fn is_valid(&self) -> bool {
        self.error.is_none()
    }

    /// Why it is not. Null if it is valid.
    async fn error(&self) -> Option<Result<DescriptorErrorObject, ApiError>> {
        self.error.as_ref().map(DescriptorErrorObject::new)
    }

    /// The descriptor in its canonical form, with its checksum: hardened steps as `h`, and an extended key alone as the
    /// descriptor of its receive and change addresses. Null if the text is not a descriptor of any network.
    async fn descriptor(&self) -> Option<String> {
        self.descriptor.as_ref().map(|descriptor| descriptor.text().to_owned())
    }

    /// The checksum of `descriptor`.
    async fn checksum(&self) -> Option<String> {
        self.descriptor.as_ref().map(|descriptor| descriptor.checksum().to_owned())
    }

    /// The networks that its extended keys are for. Null if it has none.
    async fn key_network(&self) -> Option<KeyNetwork> {
        Some(match self.descriptor.as_ref()?.key_network()? {
            NetworkKind::Main => KeyNetwork::Mainnet,
            NetworkKind::Test => KeyNetwork::Test,
        })
    }

    /// The type of its scripts. Null for `combo`, which has several, and if the text is not a descriptor of any network.
    #[graphql(complexity = "costs::more(costs::DERIVED_BATCH, 0)")]
    async fn script_type(&self, ctx: &Context<'_>) -> Option<Result<ScriptTypeEnum, ApiError>> {
        self.type_of_scripts(ctx).await.transpose()
    }

    /// Whether it derives many scripts: whether a key ends with `/*`. Null if the text is not a descriptor of any network.
    async fn is_ranged(&self) -> Option<bool> {
        self.descriptor.as_ref().map(|descriptor| descriptor.is_ranged())
    }

    /// Whether it has a multipath step `<…>`, and so several branches (BIP389). Null if the text is not a descriptor of any
    /// network.
    async fn is_multipath(&self) -> Option<bool> {
        self.descriptor.as_ref().map(|descriptor| descriptor.is_multipath())
    }

    /// The number of branches: of paths in the multipath step, 1 without one; of `combo`, times the number of its types of
    /// scripts. Null if the text is not a descriptor of any network.
    async fn branch_count(&self) -> Option<Result<i32, ApiError>> {
        self.descriptor.as_ref().map(|descriptor| int_of(descriptor.branches()))
    }

    /// Whether it says what spends its scripts: true except for `addr` and `raw`. Null if the text is not a descriptor of
    /// any network.
    async fn is_solvable(&self) -> Option<bool> {
        self.descriptor.as_ref().map(|descriptor| descriptor.is_solvable())
    }

    /// Whether the text contains a private key. The server accepts only public ones, and stores and repeats neither.
    async fn is_private(&self) -> bool {
        self.error == Some(DescriptorError::PrivateKey)
    }

    /// Addresses of a branch, in the order of their indexes, whether they were used or not. Empty if the descriptor is not
    /// valid; one at most if it is not ranged.
    #[graphql(complexity = "costs::derived_list(first, child_complexity)")]
    async fn derived_addresses(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The number of the branch, from 0.", default_with = "Some(0)")] branch: Option<i32>,
        #[graphql(desc = "The index of the first address.", default_with = "Some(0)")] from_index: Option<i32>,
        #[graphql(
            desc = "The number of addresses, at most `server.limits.pages.pageSize`.",
            default_with = "Some(10)"
        )]
        first: Option<i32>,
    ) -> Option<Result<Vec<DerivedAddress>, ApiError>> {
        let (branch, from_index) = (branch.unwrap_or_default(), from_index.unwrap_or_default());
        Some(self.derived(ctx, branch, from_index, first.unwrap_or(10)).await)
    }
}
