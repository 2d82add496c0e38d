//! The inputs of an answer, which decide how long it stays valid.
//!
//! ```text
//!   immutable facts of blocks far below the tip           Immutable
//!   the main chain up to the tip                          UntilNextTip
//!   other parts of a Head: the mempool, stale blocks      UntilNextHead
//!   the node, the clock, the server itself                NoStore
//! ```
//!
//! Every resolver records its reads here: the dependency of each field, and the blocks and transactions it reads. The
//! strongest dependency decides. The server passes a [`ReadSet`] with the request and reads the result afterwards; how
//! clients learn of it is up to the server.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bitcoin::BlockHash;

use crate::chain::{Height, coinbase};
use crate::index::Tip;
use crate::view::block::Block;
use crate::view::head::Head;
use crate::view::transaction::Transaction;

/// What a read value depends on, the weakest dependency first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// Its object only, which never changes once it is deep enough in the main chain.
    Object,
    /// The main chain up to its tip.
    Chain,
    /// The Head: also the mempool, stale blocks, and observations of either.
    Head,
    /// More than a Head: the node, the clock, the server.
    External,
}

impl Dependency {
    /// Its position in the order.
    const fn position(self) -> u8 {
        match self {
            Self::Object => 0,
            Self::Chain => 1,
            Self::Head => 2,
            Self::External => 3,
        }
    }
}

/// How long an answer stays valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Freshness {
    /// Forever, unless a reorganisation is deeper than the configured depth.
    Immutable,
    /// While this block is the tip.
    UntilNextTip(BlockHash),
    /// While the Head with this tip and [id](Head::id) is the newest.
    UntilNextHead(BlockHash, u64),
    /// It may be outdated at once.
    NoStore,
}

impl Freshness {
    /// Whether the answer is still valid while this Head is the newest.
    #[must_use]
    pub fn is_current(&self, head: &Head) -> bool {
        match *self {
            Self::Immutable => true,
            Self::UntilNextTip(tip) => tip == head.tip.hash,
            Self::UntilNextHead(tip, id) => (tip, id) == (head.tip.hash, head.id),
            Self::NoStore => false,
        }
    }

    /// The state on which it depends, as text; `None` if it depends on none or on more.
    #[must_use]
    pub fn state(&self) -> Option<String> {
        match self {
            Self::UntilNextTip(tip) => Some(format!("t.{tip}")),
            Self::UntilNextHead(tip, id) => Some(format!("h.{tip}.{id:016x}")),
            Self::Immutable | Self::NoStore => None,
        }
    }

    /// Parses the result of [`state`](Self::state); `None` for any other text.
    #[must_use]
    pub fn with_state(text: &str) -> Option<Self> {
        let read = match text.split('.').collect::<Vec<_>>().as_slice() {
            ["t", tip] => Self::UntilNextTip(tip.parse().ok()?),
            ["h", tip, id] => Self::UntilNextHead(tip.parse().ok()?, u64::from_str_radix(id, 16).ok()?),
            _ => return None,
        };
        // a number has several spellings, of which one is valid
        (read.state().as_deref() == Some(text)).then_some(read)
    }
}

/// The reads of one answer. Cheap to clone; all clones share one record.
#[derive(Clone, Debug, Default)]
pub struct ReadSet(Arc<RecordedReads>);

#[derive(Debug, Default)]
struct RecordedReads {
    /// The [position](Dependency::position) of the strongest dependency so far.
    dependency: AtomicU8,
    /// The height of the highest block read, plus one; 0 for none.
    above: AtomicU64,
    /// The Head that the answer reads.
    head: OnceLock<(Tip, u64)>,
}

impl ReadSet {
    /// Records a dependency.
    pub fn depends_on(&self, dependency: Dependency) {
        // each field records one, and nearly all what is recorded already: reading is cheaper
        if self.0.dependency.load(Ordering::Relaxed) < dependency.position() {
            self.0.dependency.fetch_max(dependency.position(), Ordering::Relaxed);
        }
    }

    /// Whether the answer has an external dependency, so that no other matters.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.0.dependency.load(Ordering::Relaxed) >= Dependency::External.position()
    }

    /// Records the Head that the answer reads.
    pub(in crate::view) fn add_head(&self, head: &Head) {
        let read = (head.tip, head.id);
        if *self.0.head.get_or_init(|| read) != read {
            self.depends_on(Dependency::External);
        }
    }

    /// The newest block of the Head that the answer reads; `None` if it reads none.
    #[must_use]
    pub fn tip(&self) -> Option<Tip> {
        self.0.head.get().map(|(tip, _)| *tip)
    }

    /// Records a block. A stale block may return to the main chain or be deleted.
    pub(in crate::view) fn add_block(&self, block: &Block) {
        if block.is_main() { self.add_chain_up_to(block.height) } else { self.depends_on(Dependency::Head) }
    }

    /// Records a transaction; `rule_from` is the height from which coinbases contain their height (BIP34). A transaction
    /// outside the main chain may be mined or deleted.
    pub(in crate::view) fn add_transaction(&self, transaction: &Transaction, rule_from: u32) {
        let Some(place) = transaction.place else { return self.depends_on(Dependency::Head) };
        self.add_chain_up_to(place.height);
        if !place.is_coinbase() {
            return;
        }
        let Some(script_sig) = transaction.parts.first_script_sig() else { return };
        if self.may_recur(coinbase::height(script_sig), place.height, rule_from) {
            self.depends_on(Dependency::Chain);
        }
    }

    /// Whether a later block may contain the same coinbase, which then replaces it (BIP30): before the rule any coinbase
    /// without its own height, after it only one with the height of a future block.
    fn may_recur(&self, says: Option<Height>, own: Height, rule_from: u32) -> bool {
        let tip = self.0.head.get().map_or(0, |(tip, _)| tip.height.to_u32());
        says != Some(own) && (tip < rule_from || says.is_some_and(|says| says.to_u32() > tip))
    }

    /// Records the main chain up to this height.
    pub(in crate::view) fn add_chain_up_to(&self, height: Height) {
        self.0.above.fetch_max(u64::from(height.to_u32()) + 1, Ordering::Relaxed);
    }

    /// How long the answer stays valid, if blocks with this many others on top are immutable.
    #[must_use]
    pub fn freshness(&self, depth: u32) -> Freshness {
        let Some((tip, id)) = self.0.head.get() else { return Freshness::NoStore };
        let dependency = self.0.dependency.load(Ordering::Relaxed);
        if dependency >= Dependency::External.position() {
            return Freshness::NoStore;
        }
        if dependency >= Dependency::Head.position() {
            return Freshness::UntilNextHead(tip.hash, *id);
        }
        // an answer without a block has no depth
        let highest = self.0.above.load(Ordering::Relaxed).checked_sub(1);
        let on_top = highest.and_then(|highest| u64::from(tip.height.to_u32()).checked_sub(highest));
        let is_deep = on_top.is_some_and(|on_top| on_top >= u64::from(depth));
        if dependency == Dependency::Object.position() && is_deep {
            Freshness::Immutable
        } else {
            Freshness::UntilNextTip(tip.hash)
        }
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn a_state_has_exactly_one_text() {
        let tip = BlockHash::from_byte_array([7; 32]);
        for freshness in
            [Freshness::UntilNextTip(tip), Freshness::UntilNextHead(tip, 0), Freshness::UntilNextHead(tip, u64::MAX)]
        {
            assert_eq!(Freshness::with_state(&freshness.state().unwrap()), Some(freshness));
        }
        assert_eq!((Freshness::Immutable.state(), Freshness::NoStore.state()), (None, None));
        let hash = "0a".repeat(32);
        for text in [
            String::new(),
            "t".to_owned(),
            "t.".to_owned(),
            format!("x.{hash}"),
            format!("t.{}", hash.to_uppercase()),
            format!("t.{hash}."),
            format!("t.{}", &hash[2..]),
            format!("h.{hash}"),
            format!("h.{hash}.0"),
            format!("h.{hash}.+000000000000001"),
            format!("h.{hash}.000000000000000g"),
        ] {
            assert_eq!(Freshness::with_state(&text), None, "{text}");
        }
    }

    #[test]
    fn an_answer_without_a_head_or_a_block_is_not_immutable() {
        assert_eq!(ReadSet::default().freshness(0), Freshness::NoStore);
        let tip = Tip { height: 5.into(), hash: BlockHash::all_zeros() };
        let reads = ReadSet(Arc::new(RecordedReads { head: (tip, 1).into(), ..RecordedReads::default() }));
        assert_eq!(reads.freshness(0), Freshness::UntilNextTip(tip.hash));
    }

    #[test]
    fn a_coinbase_may_recur_unless_bip34_prevents_it() {
        let tip = Tip { height: 300.into(), hash: BlockHash::all_zeros() };
        let reads = ReadSet(Arc::new(RecordedReads { head: (tip, 1).into(), ..RecordedReads::default() }));
        for (says, rule_from, expected) in [
            (Some(7), 301, false),
            (None, 301, true),
            (Some(6), 301, true),
            (Some(7), 300, false),
            (None, 300, false),
            (Some(300), 300, false),
            (Some(301), 300, true),
        ] {
            assert_eq!(reads.may_recur(says.map(Height::from), 7.into(), rule_from), expected, "{says:?} {rule_from}");
        }
    }

    #[test]
    fn the_strongest_dependency_decides() {
        let tip = Tip { height: 5.into(), hash: BlockHash::all_zeros() };
        let reads = ReadSet(Arc::new(RecordedReads { head: (tip, 1).into(), ..RecordedReads::default() }));
        reads.add_chain_up_to(2.into());
        assert_eq!((reads.freshness(3), reads.freshness(4)), (Freshness::Immutable, Freshness::UntilNextTip(tip.hash)));
        // the highest decides, whatever is recorded after it
        reads.add_chain_up_to(3.into());
        reads.add_chain_up_to(0.into());
        assert_eq!((reads.freshness(2), reads.freshness(3)), (Freshness::Immutable, Freshness::UntilNextTip(tip.hash)));
        for (dependency, freshness) in [
            (Dependency::Object, Freshness::Immutable),
            (Dependency::Chain, Freshness::UntilNextTip(tip.hash)),
            (Dependency::Object, Freshness::UntilNextTip(tip.hash)),
            (Dependency::Head, Freshness::UntilNextHead(tip.hash, 1)),
            (Dependency::Chain, Freshness::UntilNextHead(tip.hash, 1)),
            (Dependency::External, Freshness::NoStore),
            (Dependency::Head, Freshness::NoStore),
        ] {
            reads.depends_on(dependency);
            assert_eq!(reads.freshness(2), freshness, "{dependency:?}");
        }
    }
}
