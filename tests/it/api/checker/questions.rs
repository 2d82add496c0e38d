//! Which question is asked, and what holds of the answers to all of them.

use btcgraph::sim::Rng;
use serde_json::Value;

use super::figures::{Checked, at, holds, int, same};
use super::known::Known;
use super::{blocks, ledgers, mempools, ranges, reorgs, transactions};

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Ledger,
    Set,
    Block,
    Range,
    Mempool,
    Relatives,
    BalanceChanges,
    Transactions,
    Reorgs,
}

/// Of 100 questions, how many are of each kind.
pub(super) const SHARES: [(usize, Kind); 9] = [
    (20, Kind::Ledger),
    (8, Kind::Set),
    (14, Kind::Block),
    (12, Kind::Range),
    (16, Kind::Mempool),
    (8, Kind::Relatives),
    (8, Kind::BalanceChanges),
    (8, Kind::Transactions),
    (6, Kind::Reorgs),
];

pub(super) struct Question {
    pub(super) kind: Kind,
    pub(super) document: String,
}

/// Any question about what is known.
pub(super) fn ask(known: &Known, random: &mut Rng) -> Question {
    let mut case = random.index(100);
    for (share, kind) in SHARES {
        if case < share {
            return Question::of(kind, known, random);
        }
        case -= share;
    }
    Question::of(Kind::Mempool, known, random)
}

impl Question {
    /// A question of this kind, or a simpler one if too little is known yet.
    pub(super) fn of(kind: Kind, known: &Known, random: &mut Rng) -> Self {
        let kind = match kind {
            Kind::Ledger | Kind::Set if known.scripts.len() < 10 => Kind::Transactions,
            other => other,
        };
        let kind = if kind == Kind::Transactions && known.txids.is_empty() { Kind::Block } else { kind };
        let parts = match kind {
            Kind::Ledger => ledgers::of_one(known, random),
            Kind::Set => ledgers::of_several(known, random),
            Kind::Block => blocks::parts(known, random),
            Kind::Range => ranges::parts(random),
            Kind::Mempool => mempools::sums(random),
            Kind::Relatives => mempools::relatives(random),
            Kind::BalanceChanges => mempools::balance_changes(),
            Kind::Transactions => transactions::parts(known, random),
            Kind::Reorgs => reorgs::parts(),
        };
        let snapshot = "snapshot { hash height mempoolSequence takenAt isInSync isMempoolInSync }";
        let document = format!(
            "{{ first: {snapshot} tip {{ hash height }} waiting: mempool {{ stats {{ sequence txCount totalFees }} }}
                {parts}
                last: {snapshot} }}"
        );
        Self { kind, document }
    }

    /// What does not fit in the answer.
    pub(super) fn check(&self, response: &Value) -> Checked {
        let data = &response["data"];
        if let Some(errors) = response.get("errors") {
            return ledgers::check_refusal(errors, data);
        }
        same("the state at both ends", at(data, "first"), at(data, "last"))?;
        for field in ["hash", "height"] {
            same(field, &at(data, "first")[field], &at(data, "tip")[field])?;
        }
        same("mempool sequence", at(data, "first.mempoolSequence"), at(data, "waiting.stats.sequence"))?;
        holds(
            "nothing waits and something pays",
            int(data, "waiting.stats.txCount") > 0 || int(data, "waiting.stats.totalFees") == 0,
        )?;
        match self.kind {
            Kind::Ledger => ledgers::check_one(data),
            Kind::Set => ledgers::check_several(data),
            Kind::Block => blocks::check(data),
            Kind::Range => ranges::check(data),
            Kind::Mempool => mempools::check_sums(data),
            Kind::Relatives => mempools::check_relatives(data),
            Kind::BalanceChanges => mempools::check_balance_changes(data),
            Kind::Transactions => transactions::check(data),
            Kind::Reorgs => reorgs::check(data),
        }
    }
}
