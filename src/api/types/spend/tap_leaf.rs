use std::sync::Arc;

use async_graphql::Object;

use crate::api::extensions::cacheability::FieldCacheability;
use crate::api::scalars::Hex;
use crate::api::types::ledger::Script;
use crate::chain::spend::TapLeaf;
use crate::view::View;

/// A leaf of the tree of a taproot output.
pub(crate) struct TapLeafObject {
    view: Arc<View>,
    leaf: TapLeaf,
}

impl TapLeafObject {
    pub(crate) fn new(view: &Arc<View>, leaf: TapLeaf) -> Self {
        Self { view: view.clone(), leaf }
    }
}

impl FieldCacheability for TapLeafObject {
    const IMMUTABLE: &'static str = "script leafVersion internalKey controlBlock";
}

/// The leaf of the script tree of a P2TR output by which an input spends it, and the proof that the output commits to it
/// (BIP341).
#[Object(name = "TapLeaf")]
impl TapLeafObject {
    /// The script of the leaf.
    async fn script(&self) -> Script {
        Script::of(&self.view, self.leaf.script.clone())
    }

    /// The leaf version, which says by which rules the script runs: 192 for tapscript (BIP342).
    async fn leaf_version(&self) -> i32 {
        self.leaf.version.into()
    }

    /// The internal key of the output: the 32 bytes of its x coordinate (BIP340).
    async fn internal_key(&self) -> Hex {
        Hex::new(self.leaf.internal_key)
    }

    /// The control block: the leaf version with the parity of the output key, the internal key, and the sibling hashes on
    /// the path from the leaf to the root of the tree.
    async fn control_block(&self) -> Hex {
        Hex::new(self.leaf.control_block.as_slice())
    }
}
