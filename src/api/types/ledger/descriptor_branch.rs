use std::sync::Arc;

use async_graphql::Object;

use super::derived_address::DerivedAddress;
use crate::api::accounts::{AccountBranch, DiscoveredAccount};
use crate::api::error::ApiError;
use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::{int, int_of};
use crate::view::View;

/// The argument `branch` as one of so many. Errors: BAD_USER_INPUT if there is none with this number.
pub(crate) fn branch_place(number: i32, count: usize) -> Result<usize, ApiError> {
    usize::try_from(number).ok().filter(|place| *place < count).ok_or_else(|| {
        ApiError::bad_argument("branch", format!("is {number}, and the descriptor has {count}, counted from 0"))
    })
}

/// A branch of an account.
#[derive(Clone)]
pub(crate) struct DescriptorBranch {
    view: Arc<View>,
    account: Arc<DiscoveredAccount>,
    number: usize,
}

impl DescriptorBranch {
    /// All branches of an account.
    pub(crate) fn all(view: &Arc<View>, account: &Arc<DiscoveredAccount>) -> Vec<Self> {
        let branch = |number| Self { view: view.clone(), account: account.clone(), number };
        (0..account.branches.len()).map(branch).collect()
    }

    /// The branch with this number. Errors: BAD_USER_INPUT if there is none.
    pub(crate) fn at(view: &Arc<View>, account: &Arc<DiscoveredAccount>, number: i32) -> Result<Self, ApiError> {
        let number = branch_place(number, account.branches.len())?;
        Ok(Self { view: view.clone(), account: account.clone(), number })
    }

    fn branch(&self) -> Option<&AccountBranch> {
        self.account.branches.get(self.number)
    }

    fn address_at(&self, index: Option<u32>) -> Option<DerivedAddress> {
        let (branch, index) = (self.branch()?, index?);
        let derived = branch.script(index)?;
        Some(DerivedAddress::new(&self.view, derived, branch.path.as_deref(), (self.number, index)))
    }

    /// The address behind the last used one.
    pub(crate) fn next(&self) -> Option<DerivedAddress> {
        self.address_at(self.branch().and_then(AccountBranch::next_unused))
    }
}

impl FieldCacheability for DescriptorBranch {
    const IMMUTABLE: &'static str = "index path isChange";
    const UNTIL_NEXT_HEAD: &'static str = "usedCount derivedCount lastUsed nextUnused";
}

/// A branch of an account: one path of the multipath step `<…>` of its descriptor, or the whole descriptor without such a
/// step; of `combo`, that with one type of scripts. Of `<0;1>`, branch 0 has the addresses to receive payments, and branch 1
/// those for change (BIP389).
#[Object]
impl DescriptorBranch {
    /// The number of the branch, from 0: the position of its path in the multipath step. Of `combo`, the branches of P2PK come
    /// first, then those of P2PKH, P2WPKH and P2SH-P2WPKH.
    async fn index(&self) -> Result<i32, ApiError> {
        int_of(self.number)
    }

    /// The derivation path of its addresses, with `*` for the index, as in `m/84h/0h/0h/0/*`; see `DerivedAddress.path`.
    async fn path(&self) -> Option<String> {
        self.branch()?.path.clone()
    }

    /// Whether it has the addresses for change: the second of two paths (BIP389).
    async fn is_change(&self) -> bool {
        self.account.descriptor.is_change(self.number)
    }

    /// The number of addresses that a transaction on the main chain or in the mempool paid or spent, up to the gap limit.
    async fn used_count(&self) -> Result<i32, ApiError> {
        int_of(self.branch().map_or(0, |branch| branch.used().len()))
    }

    /// The number of addresses up to the gap limit: the index of the last used one, plus 1, plus the gap limit.
    async fn derived_count(&self) -> Result<i32, ApiError> {
        int(self.branch().map_or(0, AccountBranch::derived))
    }

    /// The used address with the highest index. Null if none was used.
    async fn last_used(&self) -> Option<DerivedAddress> {
        self.address_at(self.branch()?.used().last().copied())
    }

    /// The address behind the last used one, which no transaction has paid yet. Addresses before it that were not used are
    /// passed over, because they may have been given out. Null if the descriptor is not ranged and its address was used.
    async fn next_unused(&self) -> Option<DerivedAddress> {
        self.next()
    }
}
