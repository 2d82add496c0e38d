//! Accounts of wallets, by their descriptors.

use std::sync::Arc;

use async_graphql::{Context, Object};

use super::root::QueryRoot;
use crate::api::accounts::DEFAULT_GAP_LIMIT;
use crate::api::context::{ServingContext, limits};
use crate::api::costs;
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::types::ledger::{DescriptorAccount, DescriptorInfo};

/// Derives the scripts of wallets.
pub(crate) struct AccountQuery {
    pub(crate) root: QueryRoot,
    pub(crate) serving: Arc<ServingContext>,
}

impl AccountQuery {
    async fn account(
        &self,
        ctx: &Context<'_>,
        text: String,
        gap_limit: Option<i32>,
    ) -> Result<DescriptorAccount, ApiError> {
        costs::spend(ctx, costs::descriptor(&text))?;
        let (view, gap_limit) = (self.root.view(ctx)?, gap_limit.unwrap_or(DEFAULT_GAP_LIMIT));
        let spend = |cost| costs::spend(ctx, cost);
        DescriptorAccount::of(&view, &self.serving, (text, gap_limit), limits(ctx)?, spend).await
    }
}

impl FieldCacheability for AccountQuery {
    const IMMUTABLE: &'static str = "validateDescriptor";
    const UNTIL_NEXT_HEAD: &'static str = "descriptor";
}

#[Object]
impl AccountQuery {
    /// The account of a wallet by its descriptor or extended public key: one ledger of all its used addresses, with the
    /// next unused ones. The server writes neither the
    /// descriptor nor its addresses to the disk. It costs more the higher the gap limit is, and the more keys the descriptor has.
    /// Example: `{ descriptor(text:
    /// "wpkh(xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8/<0;1>/*)")
    /// { balance { total } nextUnused { address path } transactions(first: 10) { nodes { net } } } }`.
    #[graphql(complexity = "costs::account(&text, gap_limit, DEFAULT_GAP_LIMIT, child_complexity)")]
    async fn descriptor(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "An output descriptor (BIPs 380 to 389) with public keys of this server's network, with or without its \
                    checksum: pk, pkh, wpkh, combo, sh, wsh, tr, rawtr, multi, sortedmulti, multi_a and sortedmulti_a within tr, \
                    miniscript, addr or raw; one with `<0;1>` has a receive and a change branch. Or an extended public key alone, which \
                    stands for its receive and change addresses: xpub for pkh (BIP44), ypub for sh(wpkh) (BIP49), zpub for \
                    wpkh (BIP84), on other networks tpub, upub and vpub. Anything else fails with BAD_USER_INPUT; \
                    `validateDescriptor` says more."
        )]
        text: String,
        #[graphql(
            desc = "The number of unused scripts in a row at which a branch ends, from 1 to `server.limits.pages.gapLimit`.",
            default_with = "Some(DEFAULT_GAP_LIMIT)"
        )]
        gap_limit: Option<i32>,
    ) -> Option<Result<DescriptorAccount, ApiError>> {
        Some(self.account(ctx, text, gap_limit).await)
    }

    /// What a text is as a descriptor: whether it is valid here, what is wrong with it and where, its canonical form with the
    /// checksum, and its first addresses.
    /// Example: `{ validateDescriptor(text:
    /// "wpkh(xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8/0/*)")
    /// { isValid error { code message position } descriptor derivedAddresses(first: 3) { address } } }`.
    #[graphql(complexity = "costs::validated_descriptor(&text, child_complexity)")]
    async fn validate_descriptor(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Any text.")] text: String,
    ) -> Option<Result<DescriptorInfo, ApiError>> {
        Some(match costs::spend(ctx, costs::descriptor(&text)).and_then(|()| self.root.view(ctx)) {
            Ok(view) => DescriptorInfo::of(view, self.serving.clone(), text).await,
            Err(error) => Err(error),
        })
    }
}
