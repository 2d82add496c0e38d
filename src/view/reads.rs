//! What an answer was made from, and so how long it stays the answer.
//!
//! ```text
//!   fixed facts of blocks far below the tip        for ever
//!   the main chain up to the tip                   while the tip is the tip
//!   anything else of a Head: mempool, stale blocks while the Head is the Head
//!   the node, the clock, the server itself         not a moment
//! ```
//!
//! Whoever reads says so here: what the fields of an answer say of themselves, and which blocks and transactions they say
//! it of. The least lasting of all that was read decides. Who wants to know hands a [`Reads`] in with the request and asks
//! it afterwards; how that is told to clients is the server's business.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bitcoin::BlockHash;

use super::{Block, Head, Transaction};
use crate::chain::{Height, coinbase};
use crate::index::Tip;

/// On what something that was read depends, the most lasting first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// On the objects it was read of alone, which never change once they are deep enough in the main chain.
    Object,
    /// On the main chain up to its tip, and nothing else.
    Chain,
    /// On the Head: also on the mempool, stale blocks, and what was observed of either.
    Head,
    /// On more than a Head: the node, the clock, the server.
    Moment,
}

impl Basis {
    /// Its place in the order.
    const fn place(self) -> u8 {
        match self {
            Self::Object => 0,
            Self::Chain => 1,
            Self::Head => 2,
            Self::Moment => 3,
        }
    }
}

/// How long an answer stays what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lasting {
    /// Unless a reorganisation is deeper than was thought possible.
    ForEver,
    /// Whenever this block is the tip.
    WhileTip(BlockHash),
    /// While the Head with this tip and this [mark](Head::mark) is the newest.
    WhileHead(BlockHash, u64),
    /// Perhaps no longer.
    AMoment,
}

impl Lasting {
    /// Whether an answer that was so lasting is still the answer, now that this Head is the newest.
    #[must_use]
    pub fn holds(&self, head: &Head) -> bool {
        match *self {
            Self::ForEver => true,
            Self::WhileTip(tip) => tip == head.tip.hash,
            Self::WhileHead(tip, mark) => (tip, mark) == (head.tip.hash, head.mark),
            Self::AMoment => false,
        }
    }

    /// The state that it holds with, as text; `None` if there is none to name.
    #[must_use]
    pub fn state(&self) -> Option<String> {
        match self {
            Self::WhileTip(tip) => Some(format!("t.{tip}")),
            Self::WhileHead(tip, mark) => Some(format!("h.{tip}.{mark:016x}")),
            Self::ForEver | Self::AMoment => None,
        }
    }

    /// What [`state`](Self::state) wrote; `None` if it did not write that.
    #[must_use]
    pub fn with_state(text: &str) -> Option<Self> {
        let read = match text.split('.').collect::<Vec<_>>().as_slice() {
            ["t", tip] => Self::WhileTip(tip.parse().ok()?),
            ["h", tip, mark] => Self::WhileHead(tip.parse().ok()?, u64::from_str_radix(mark, 16).ok()?),
            _ => return None,
        };
        // numbers can be written in several ways
        (read.state().as_deref() == Some(text)).then_some(read)
    }
}

/// Notes of what one answer was made from. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Reads(Arc<Notes>);

#[derive(Debug, Default)]
struct Notes {
    /// The [place](Basis::place) of the least lasting so far.
    basis: AtomicU8,
    /// The height of the highest block that was read, plus one; 0 for none.
    above: AtomicU64,
    /// The Head that is read.
    head: OnceLock<(Tip, u64)>,
}

impl Reads {
    /// Notes that something depends on this.
    pub fn depends_on(&self, basis: Basis) {
        self.0.basis.fetch_max(basis.place(), Ordering::Relaxed);
    }

    /// Whether the answer lasts no longer than a moment, so that nothing else need be noted.
    #[must_use]
    pub fn is_of_the_moment(&self) -> bool {
        self.0.basis.load(Ordering::Relaxed) >= Basis::Moment.place()
    }

    /// Notes from which Head is read.
    pub(super) fn of_head(&self, head: &Head) {
        let read = (head.tip, head.mark);
        if *self.0.head.get_or_init(|| read) != read {
            self.depends_on(Basis::Moment);
        }
    }

    /// Notes that a block is read. A stale one may become one of the main chain again, or be forgotten.
    pub(super) fn of_block(&self, block: &Block) {
        if block.is_main() { self.up_to(block.height) } else { self.depends_on(Basis::Head) }
    }

    /// Notes that a transaction is read, where coinbases hold their height from this one on (BIP34). One that is in no
    /// block of the main chain waits for that, or is forgotten.
    pub(super) fn of_transaction(&self, transaction: &Transaction, rule_from: u32) {
        let Some(place) = transaction.place else { return self.depends_on(Basis::Head) };
        self.up_to(place.height);
        let Some(input) = transaction.parts.input.first().filter(|_| transaction.parts.is_coinbase()) else { return };
        if self.may_come_again(coinbase::height(&input.script_sig), place.height, rule_from) {
            self.depends_on(Basis::Chain);
        }
    }

    /// Whether a coinbase that says this height may be in a later block, too, which is then the one with its txid (BIP30):
    /// before the rule any that does not say its own, and after it those that happen to say one that is still to come.
    fn may_come_again(&self, says: Option<Height>, own: Height, rule_from: u32) -> bool {
        let tip = self.0.head.get().map_or(0, |(tip, _)| tip.height.to_u32());
        says != Some(own) && (tip < rule_from || says.is_some_and(|says| says.to_u32() > tip))
    }

    /// Notes that the main chain is read up to this height.
    pub(super) fn up_to(&self, height: Height) {
        self.0.above.fetch_max(u64::from(height.to_u32()) + 1, Ordering::Relaxed);
    }

    /// How long what was made from all of this lasts, where blocks that have this many others on top do not change.
    #[must_use]
    pub fn lasting(&self, depth: u32) -> Lasting {
        let Some((tip, mark)) = self.0.head.get() else { return Lasting::AMoment };
        let basis = self.0.basis.load(Ordering::Relaxed);
        if basis >= Basis::Moment.place() {
            return Lasting::AMoment;
        }
        if basis >= Basis::Head.place() {
            return Lasting::WhileHead(tip.hash, *mark);
        }
        // an answer that was made from no block is of no age
        let highest = self.0.above.load(Ordering::Relaxed).checked_sub(1);
        let on_top = highest.and_then(|highest| u64::from(tip.height.to_u32()).checked_sub(highest));
        let is_deep = on_top.is_some_and(|on_top| on_top >= u64::from(depth));
        if basis == Basis::Object.place() && is_deep { Lasting::ForEver } else { Lasting::WhileTip(tip.hash) }
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;

    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written_and_in_no_other_way() {
        let tip = BlockHash::from_byte_array([7; 32]);
        for lasting in [Lasting::WhileTip(tip), Lasting::WhileHead(tip, 0), Lasting::WhileHead(tip, u64::MAX)] {
            assert_eq!(Lasting::with_state(&lasting.state().unwrap()), Some(lasting));
        }
        assert_eq!((Lasting::ForEver.state(), Lasting::AMoment.state()), (None, None));
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
            assert_eq!(Lasting::with_state(&text), None, "{text}");
        }
    }

    #[test]
    fn nothing_lasts_of_which_no_head_is_known_and_nothing_is_for_ever_without_a_block() {
        assert_eq!(Reads::default().lasting(0), Lasting::AMoment);
        let tip = Tip { height: 5.into(), hash: BlockHash::all_zeros() };
        let reads = Reads(Arc::new(Notes { head: (tip, 1).into(), ..Notes::default() }));
        assert_eq!(reads.lasting(0), Lasting::WhileTip(tip.hash));
    }

    #[test]
    fn a_coinbase_may_come_again_before_the_rule_and_after_it_at_the_height_that_it_says_by_chance() {
        let tip = Tip { height: 300.into(), hash: BlockHash::all_zeros() };
        let reads = Reads(Arc::new(Notes { head: (tip, 1).into(), ..Notes::default() }));
        for (says, rule_from, expected) in [
            (Some(7), 301, false),
            (None, 301, true),
            (Some(6), 301, true),
            (Some(7), 300, false),
            (None, 300, false),
            (Some(300), 300, false),
            (Some(301), 300, true),
        ] {
            assert_eq!(
                reads.may_come_again(says.map(Height::from), 7.into(), rule_from),
                expected,
                "{says:?} {rule_from}"
            );
        }
    }

    #[test]
    fn the_least_lasting_of_all_that_was_read_decides() {
        let tip = Tip { height: 5.into(), hash: BlockHash::all_zeros() };
        let reads = Reads(Arc::new(Notes { head: (tip, 1).into(), ..Notes::default() }));
        reads.up_to(2.into());
        assert_eq!((reads.lasting(3), reads.lasting(4)), (Lasting::ForEver, Lasting::WhileTip(tip.hash)));
        // the highest decides, whatever comes after it
        reads.up_to(3.into());
        reads.up_to(0.into());
        assert_eq!((reads.lasting(2), reads.lasting(3)), (Lasting::ForEver, Lasting::WhileTip(tip.hash)));
        for (basis, lasting) in [
            (Basis::Object, Lasting::ForEver),
            (Basis::Chain, Lasting::WhileTip(tip.hash)),
            (Basis::Object, Lasting::WhileTip(tip.hash)),
            (Basis::Head, Lasting::WhileHead(tip.hash, 1)),
            (Basis::Chain, Lasting::WhileHead(tip.hash, 1)),
            (Basis::Moment, Lasting::AMoment),
            (Basis::Head, Lasting::AMoment),
        ] {
            reads.depends_on(basis);
            assert_eq!(reads.lasting(2), lasting, "{basis:?}");
        }
    }
}
