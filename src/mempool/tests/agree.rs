//! Compares a snapshot with the model's list of transactions.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bitcoin::{OutPoint, Txid};

use super::model::{Left, Model, Present, inputs};
use super::stage::{script, script_hash};
use crate::mempool::{
    Coins, Departure, Entry, FeeBins, FeeFraction, FeerateKind, MempoolEventKind, MempoolSnapshot, Prevout,
    PrevoutSource, Rank, Remainder, ScriptTotals,
};

type Rate = (u64, u64);

fn compare(one: Rate, other: Rate) -> Ordering {
    (u128::from(one.0) * u128::from(other.1)).cmp(&(u128::from(other.0) * u128::from(one.1)))
}

fn own(present: &Present) -> Rate {
    let spent: u64 = present.arrival.prevouts.iter().map(|prevout| prevout.value).sum();
    let paid: u64 = present.transaction.output.iter().map(|output| output.value.to_sat()).sum();
    (spent - paid, present.transaction.weight().to_wu())
}

fn sum<'a>(members: impl IntoIterator<Item = &'a Txid>, model: &Model) -> Rate {
    let rates = members.into_iter().map(|txid| own(&model.present[txid]));
    rates.fold((0, 0), |sum, rate| (sum.0 + rate.0, sum.1 + rate.1))
}

/// Core's selection over the whole mempool, the best looked for among all each time; then, cluster by cluster, packages
/// are joined to those before them for as long as that raises what these pay.
fn effective(model: &Model) -> BTreeMap<Txid, Rate> {
    let mut left: BTreeSet<Txid> = model.present.keys().copied().collect();
    let mut clusters: BTreeMap<Txid, Vec<BTreeSet<Txid>>> = BTreeMap::new();
    while !left.is_empty() {
        let package = |txid: &Txid| {
            let mut package: BTreeSet<Txid> = model.ancestors(txid).intersection(&left).copied().collect();
            package.insert(*txid);
            package
        };
        let worth = |txid: &Txid| {
            let (alone, together) = (own(&model.present[txid]), sum(&package(txid), model));
            if compare(alone, together) == Ordering::Less { alone } else { together }
        };
        let best =
            left.iter().max_by(|one, other| compare(worth(one), worth(other)).then(Reverse(one).cmp(&Reverse(other))));
        let package = package(best.unwrap());
        left.retain(|txid| !package.contains(txid));
        clusters.entry(cluster(model, package.first().unwrap())).or_default().push(package);
    }
    let mut rates = BTreeMap::new();
    for mut chunks in clusters.into_values() {
        let improvable = |chunks: &Vec<BTreeSet<Txid>>| {
            (1..chunks.len())
                .find(|&at| compare(sum(&chunks[at], model), sum(&chunks[at - 1], model)) == Ordering::Greater)
        };
        while let Some(at) = improvable(&chunks) {
            let joined = chunks.remove(at);
            chunks[at - 1].extend(joined);
        }
        for chunk in chunks {
            let rate = sum(&chunk, model);
            rates.extend(chunk.into_iter().map(|txid| (txid, rate)));
        }
    }
    rates
}

/// The lowest txid that is connected to this one.
fn cluster(model: &Model, txid: &Txid) -> Txid {
    let mut found = BTreeSet::from([*txid]);
    loop {
        let mut wider = found.clone();
        for other in model.present.keys() {
            let parents = model.parents(other);
            if found.contains(other) {
                wider.extend(parents);
            } else if parents.iter().any(|parent| found.contains(parent)) {
                wider.insert(*other);
            }
        }
        if wider.len() == found.len() {
            return *found.first().unwrap();
        }
        found = wider;
    }
}

pub(super) fn check(snapshot: &MempoolSnapshot, model: &Model) {
    let by_sequence = model.by_sequence();
    let order: Vec<Txid> = by_sequence.iter().map(|present| present.arrival.txid).collect();
    assert_eq!(snapshot.by_arrival(..).map(|entry| entry.txid).collect::<Vec<_>>(), order);

    let totals = snapshot.totals();
    let vsize = |present: &Present| u64::try_from(present.transaction.vsize()).unwrap();
    assert_eq!(totals.count, u64::try_from(model.present.len()).unwrap());
    assert_eq!((totals.fee, totals.weight), sum(model.present.keys(), model));
    assert_eq!(totals.vsize, by_sequence.iter().map(|present| vsize(present)).sum::<u64>());
    assert_eq!(
        totals.outputs,
        by_sequence.iter().map(|present| u64::try_from(present.transaction.output.len()).unwrap()).sum::<u64>()
    );
    assert_eq!(
        totals.size,
        by_sequence.iter().map(|present| u64::try_from(present.arrival.raw.len()).unwrap()).sum::<u64>()
    );

    check_entries(snapshot, model);
    check_orders(snapshot, model);
    check_scripts(snapshot, model);

    let events: Vec<MempoolEventKind> = snapshot.events_after(0).unwrap().map(|event| event.kind).collect();
    assert_eq!(events, model.events);
    assert_eq!(snapshot.departed_len(), model.departed.len());
    for (txid, Left { departure, along_with, arrival, sequence }) in &model.departed {
        let departed = snapshot.departed(txid).unwrap();
        assert_eq!((departed.departure, departed.along_with), (*departure, *along_with));
        assert_eq!(departed.sequence, *sequence);
        assert_eq!(departed.entry.as_ref().unwrap().raw, arrival.raw);
        if let (Departure::Replaced { by }, None) = (departure, along_with) {
            assert!(snapshot.replaces(by).any(|replaced| replaced.txid == *txid));
        }
    }
}

fn check_entries(snapshot: &MempoolSnapshot, model: &Model) {
    let outputs: BTreeMap<OutPoint, Prevout> = model.outputs().into_iter().collect();
    for (txid, present) in &model.present {
        let entry = snapshot.get(txid).unwrap();
        assert_eq!((entry.fee, entry.weight), own(present));
        assert_eq!(
            (entry.sequence, entry.policy_vsize()),
            (present.sequence, u64::try_from(present.transaction.vsize()).unwrap())
        );
        assert_eq!(snapshot.by_wtxid(&present.arrival.wtxid), Some(entry));
        for ((vin, input), prevout) in (0..).zip(inputs(&present.transaction)).zip(&entry.prevouts) {
            assert_eq!(outputs.get(&input), Some(&prevout.into()));
            assert_eq!(snapshot.spender(&input), Some((*txid, vin)));
        }
        let set = |entries: &[Arc<Entry>]| entries.iter().map(|entry| entry.txid).collect::<BTreeSet<_>>();
        assert_eq!(set(&snapshot.parents(txid)), model.parents(txid));
        let children: BTreeSet<Txid> =
            model.present.keys().filter(|other| model.parents(other).contains(txid)).copied().collect();
        assert_eq!(set(&snapshot.children(txid)), children);
        for (found, expected) in
            [(snapshot.ancestors(txid), model.ancestors(txid)), (snapshot.descendants(txid), model.descendants(txid))]
        {
            assert_eq!(set(&found.entries), expected);
            assert_eq!((found.sums.fee, found.sums.weight), sum(&expected, model));
            assert_eq!(found.sums.count, u64::try_from(expected.len()).unwrap());
        }
    }
}

fn check_orders(snapshot: &MempoolSnapshot, model: &Model) {
    let ranked = |rates: &BTreeMap<Txid, Rate>| {
        let mut order: Vec<Txid> = model.by_sequence().iter().map(|present| present.arrival.txid).collect();
        order.sort_by(|one, other| compare(rates[other], rates[one])); // stable
        order
    };
    let own: BTreeMap<Txid, Rate> = model.present.iter().map(|(txid, present)| (*txid, own(present))).collect();
    assert_eq!(snapshot.by_feerate(..).map(|(_, entry)| entry.txid).collect::<Vec<_>>(), ranked(&own));
    let value = |present: &Present| present.transaction.output.iter().map(|output| output.value.to_sat()).sum();
    let values: BTreeMap<Txid, Rate> =
        model.present.iter().map(|(txid, present)| (*txid, (value(present), 1))).collect();
    assert_eq!(snapshot.by_value(..).map(|(_, entry)| entry.txid).collect::<Vec<_>>(), ranked(&values));
    let effective = effective(model);
    for (txid, (fee, weight)) in &effective {
        assert_eq!(snapshot.effective_feerate(txid), Some(FeeFraction::new(*fee, *weight)));
    }
    assert_eq!(snapshot.by_effective_feerate(..).map(|(_, entry)| entry.txid).collect::<Vec<_>>(), ranked(&effective));

    // a page after any of them starts with the next, in both directions
    let ranks: Vec<Rank<FeeFraction>> = snapshot.by_effective_feerate(..).map(|(rank, _)| rank).collect();
    for (at, rank) in ranks.iter().enumerate() {
        let behind = (Bound::Excluded(*rank), Bound::Unbounded);
        assert_eq!(snapshot.by_effective_feerate(behind).next().map(|(rank, _)| rank), ranks.get(at + 1).copied());
        let before = snapshot.by_effective_feerate(..*rank).next_back().map(|(rank, _)| rank);
        assert_eq!(before, at.checked_sub(1).map(|at| ranks[at]));
    }

    // all fit into one block, each after its ancestors
    let next = snapshot.projected_blocks(1, Remainder::Left);
    let blocks = snapshot.projected_blocks(9, Remainder::Left);
    assert_eq!(next, blocks.iter().take(1).cloned().collect::<Vec<_>>());
    assert_eq!(blocks.len(), usize::from(!model.present.is_empty()));
    let mut placed = BTreeSet::new();
    for sequence in blocks.iter().flat_map(|block| &block.sequences) {
        let txid = snapshot.by_sequence(*sequence).unwrap().txid;
        assert!(model.parents(&txid).is_subset(&placed), "a parent comes first");
        assert_eq!(snapshot.projected_place(&txid).map(|place| place.position), Some(placed.len()));
        placed.insert(txid);
    }
    assert_eq!(placed.len(), model.present.len());
    for kind in [FeerateKind::Own, FeerateKind::Effective] {
        let bins = snapshot.fee_histogram(kind, &FeeBins::Filled(300));
        assert_eq!(bins.last().map_or(0, |bin| bin.cumulative_vsize), snapshot.totals().vsize);
    }
}

fn check_scripts(snapshot: &MempoolSnapshot, model: &Model) {
    for number in [0, 1, 2, 3, 9] {
        let mut expected = ScriptTotals::default();
        let mut touching = Vec::new();
        let count =
            |coins: &mut Coins, value: u64| *coins = Coins { count: coins.count + 1, value: coins.value + value };
        for present in model.by_sequence().into_iter().rev().filter(|_| number != 9) {
            let entry = snapshot.get(&present.arrival.txid).unwrap();
            let mut appears = false;
            for prevout in entry.prevouts.iter().filter(|prevout| *prevout.script_pubkey == *script(number)) {
                appears = true;
                let unconfirmed = prevout.source == PrevoutSource::Unconfirmed;
                count(
                    if unconfirmed { &mut expected.spent_unconfirmed } else { &mut expected.spent_confirmed },
                    prevout.value,
                );
            }
            for output in &present.transaction.output {
                if output.script_pubkey.as_bytes() == script(number) {
                    appears = true;
                    count(&mut expected.pending, output.value.to_sat());
                }
            }
            if appears {
                expected.transactions += 1;
                touching.push(present.arrival.txid);
            }
        }
        assert_eq!(snapshot.script_totals(&script_hash(number)), expected, "script {number}");
        assert_eq!(
            snapshot.script(&script_hash(number), u64::MAX).map(|entry| entry.txid).collect::<Vec<_>>(),
            touching
        );
    }
}
