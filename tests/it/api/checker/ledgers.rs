//! What scripts hold and did: figures, coins and transactions add up.

use std::collections::BTreeSet;

use bitcoin::hashes::{Hash, sha256};
use btcgraph::sim::Rng;
use serde_json::{Value, json};

use super::figures::{Checked, at, count, flag, holds, int, list, rows, same, sum, text, whole};
use super::known::{Known, KnownScript};

const FIGURES: &str = "
    stats { txCount mempoolTxCount receivedCount received spentCount spent utxoCount used firstSeenBlock { height }
        lastSeenBlock { height } minedBlockCount statusHash }
    balance { confirmed immature spentInMempool pendingIn unconfirmedDelta total spendable }";
const LISTS: &str = "
    utxos(first: 50) { totalCount totalValue pageInfo { hasNextPage } nodes { outpoint { text } value } }
    coins: utxos(first: 50, filter: { includeSpentInMempool: true }) { pageInfo { hasNextPage } nodes {
        outpoint { text } value height confirmations isCoinbase matureAtHeight spentInMempoolByTxid spendability { isSpendable reasons } } }
    transactions(first: 50) { pageInfo { hasNextPage } nodes {
        net received spent balanceAfter sentToSelf transaction { txid isCoinbase state confirmations
        block { height } mempoolEntry { isSpendingUnconfirmed } } } }";

/// One script, by itself or by its address, with its balance of a while ago.
pub(super) fn of_one(known: &Known, random: &mut Rng) -> String {
    let script = random.choose(&known.scripts).cloned().unwrap();
    let height = known.height.saturating_sub(random.below(20));
    format!(
        "ledger: {} {{ {FIGURES} {LISTS} }}
         then: {} {{ balance(at: {{ height: {height} }}) {{ confirmed }} }}
         moment: block(height: {height}) {{ height }}",
        field(&script, random),
        field(&script, random),
    )
}

/// Some scripts as one, and each of them alone.
pub(super) fn of_several(known: &Known, random: &mut Rng) -> String {
    let mut scripts: Vec<KnownScript> = Vec::new();
    for _ in 0..random.between(2, 5) {
        let script = random.choose(&known.scripts).unwrap();
        if !scripts.contains(script) {
            scripts.push(script.clone());
        }
    }
    let (mut addresses, mut hexes) = (Vec::new(), Vec::new());
    let mut members = Vec::new();
    for (number, script) in scripts.iter().enumerate() {
        members.push(format!("member{number}: {} {{ {FIGURES} }}", field(script, random)));
        match &script.address {
            Some(address) if random.chance(50) => addresses.push(address),
            _ => hexes.push(&script.hex),
        }
    }
    let of = format!("ledgerSet(of: {{ addresses: {}, scripts: {} }})", json!(addresses), json!(hexes));
    format!("ledger: {of} {{ {FIGURES} {LISTS} }} {}", members.join("\n"))
}

fn field(script: &KnownScript, random: &mut Rng) -> String {
    match &script.address {
        Some(address) if random.chance(50) => format!("address(address: \"{address}\")"),
        _ => format!("script(scriptPubKey: \"{}\")", script.hex),
    }
}

/// Refused is only what is asked of a moment that is not there yet.
pub(super) fn check_refusal(errors: &Value, data: &Value) -> Checked {
    let too_early =
        |error: &Value| error["extensions"]["code"] == "BAD_USER_INPUT" && error["path"] == json!(["then", "balance"]);
    let refused = errors.as_array().is_some_and(|errors| errors.iter().all(too_early)) && data["moment"].is_null();
    holds("an error", refused)
}

pub(super) fn check_one(data: &Value) -> Checked {
    check(data)?;
    let then = int(data, "then.balance.confirmed");
    let moment = int(data, "moment.height");
    let Some(entries) = whole(at(data, "ledger"), "transactions") else { return Ok(()) };
    let until =
        |entry: &&Value| at(entry, "transaction.block.height").as_i64().is_some_and(|at| i128::from(at) <= moment);
    let blocks = entries.iter().filter(|entry| !at(entry, "transaction.block").is_null());
    same("what was held then", then, sum(blocks.filter(until), "net"))
}

pub(super) fn check_several(data: &Value) -> Checked {
    check(data)?;
    let members = data.as_object().unwrap().iter().filter(|(name, _)| name.starts_with("member"));
    let members: Vec<_> = members.map(|(_, member)| member).collect();
    let set = at(data, "ledger");
    members.iter().try_for_each(|member| check_counts(member))?;
    for part in ["confirmed", "immature", "spentInMempool", "pendingIn", "unconfirmedDelta", "total", "spendable"] {
        let path = format!("balance.{part}");
        same(&path, int(set, &path), sum(members.iter().copied(), &path))?;
    }
    for part in ["receivedCount", "received", "spentCount", "spent", "utxoCount"] {
        let path = format!("stats.{part}");
        same(&path, int(set, &path), sum(members.iter().copied(), &path))?;
    }
    for part in ["txCount", "mempoolTxCount", "minedBlockCount"] {
        let path = format!("stats.{part}");
        let most = members.iter().map(|member| int(member, &path)).max().unwrap();
        let count = int(set, &path);
        holds(&path, (most..=sum(members.iter().copied(), &path)).contains(&count))?;
    }
    same("used", flag(set, "stats.used"), members.iter().any(|member| flag(member, "stats.used")))?;
    let heights = |path: &str| -> Vec<i128> {
        let seen = members.iter().filter(|member| !at(member, path).is_null());
        seen.map(|member| int(member, &format!("{path}.height"))).collect()
    };
    let seen = |path: &str| (!at(set, path).is_null()).then(|| int(set, &format!("{path}.height")));
    same("first seen", seen("stats.firstSeenBlock"), heights("stats.firstSeenBlock").into_iter().min())?;
    same("last seen", seen("stats.lastSeenBlock"), heights("stats.lastSeenBlock").into_iter().max())
}

/// What holds of one ledger.
fn check(data: &Value) -> Checked {
    let ledger = at(data, "ledger");
    let balance = |part: &str| int(ledger, &format!("balance.{part}"));
    let stats = |part: &str| int(ledger, &format!("stats.{part}"));
    same("received and spent", stats("received") - stats("spent"), balance("confirmed"))?;
    same("unspent outputs", stats("receivedCount") - stats("spentCount"), stats("utxoCount"))?;
    same("delta", balance("pendingIn") - balance("spentInMempool"), balance("unconfirmedDelta"))?;
    same("total", balance("confirmed") + balance("unconfirmedDelta"), balance("total"))?;
    holds("more can be spent than is mature", balance("spendable") <= balance("confirmed") - balance("immature"))?;
    check_counts(ledger)?;
    check_coins(ledger, int(data, "tip.height"))?;
    check_entries(ledger, int(data, "tip.height"))
}

/// What holds of the counts of a ledger by themselves.
fn check_counts(ledger: &Value) -> Checked {
    let stats = |part: &str| int(ledger, &format!("stats.{part}"));
    let used = stats("receivedCount") > 0 || int(ledger, "balance.pendingIn") > 0;
    holds("paid and not used", !used || flag(ledger, "stats.used"))?;
    let entries = stats("receivedCount") + stats("spentCount");
    holds("more transactions than entries", stats("txCount") <= entries)?;
    holds("paid by no transaction", (stats("txCount") == 0) == (entries == 0))?;
    holds("more coinbases than outputs", stats("minedBlockCount") <= stats("receivedCount"))?;
    holds("more coinbases than transactions", stats("minedBlockCount") <= stats("txCount"))
}

fn check_coins(ledger: &Value, tip: i128) -> Checked {
    let balance = |part: &str| int(ledger, &format!("balance.{part}"));
    if let Some(held) = whole(ledger, "utxos") {
        same("the sum of all coins", sum(held, "value"), balance("total"))?;
        if let Some(total) = at(ledger, "utxos.totalValue").as_i64() {
            same("the value of all coins", i128::from(total), balance("total"))?;
        }
        if let Some(total) = at(ledger, "utxos.totalCount").as_i64() {
            same("the number of coins", i128::from(total), count(held))?;
        }
    }
    let Some(coins) = whole(ledger, "coins") else { return Ok(()) };
    let part = |is: &dyn Fn(&Value) -> bool| sum(coins.iter().filter(|coin| is(coin)), "value");
    let confirmed = |coin: &Value| !at(coin, "height").is_null();
    let spent = |coin: &Value| !at(coin, "spentInMempoolByTxid").is_null();
    let immature = |coin: &Value| flag(coin, "isCoinbase") && int(coin, "matureAtHeight") > tip + 1;
    let ok = |coin: &Value| flag(coin, "spendability.isSpendable");
    same("confirmed coins", part(&confirmed), balance("confirmed"))?;
    same("their number", count(coins.iter().filter(|coin| confirmed(coin))), int(ledger, "stats.utxoCount"))?;
    same("unconfirmed coins", part(&|coin| !confirmed(coin)), balance("pendingIn"))?;
    same("coins that the mempool spends", part(&spent), balance("spentInMempool"))?;
    same("immature coins", part(&immature), balance("immature"))?;
    same("coins that can be spent", part(&ok), balance("spendable"))?;
    let mut left: BTreeSet<_> = BTreeSet::new();
    for coin in coins {
        let expected = if confirmed(coin) { tip + 1 - int(coin, "height") } else { 0 };
        same("confirmations of a coin", int(coin, "confirmations"), expected)?;
        if flag(coin, "isCoinbase") {
            same("maturity", int(coin, "matureAtHeight"), int(coin, "height") + 100)?;
        }
        let mut obstacles = BTreeSet::new();
        for (is, obstacle) in
            [(!confirmed(coin), "UNCONFIRMED"), (immature(coin), "IMMATURE"), (spent(coin), "SPENT_IN_MEMPOOL")]
        {
            obstacles.extend(is.then_some(obstacle));
        }
        same("whether it can be spent", ok(coin), obstacles.is_empty())?;
        same("why not", list(coin, "spendability.reasons").iter().filter_map(Value::as_str).collect(), obstacles)?;
        if !spent(coin) {
            left.insert((text(coin, "outpoint.text"), int(coin, "value")));
        }
    }
    let Some(held) = whole(ledger, "utxos") else { return Ok(()) };
    same(
        "coins that are left",
        held.iter().map(|coin| (text(coin, "outpoint.text"), int(coin, "value"))).collect(),
        left,
    )
}

fn check_entries(ledger: &Value, tip: i128) -> Checked {
    let mut txids = BTreeSet::new();
    let (mut waiting, mut done) = (Vec::new(), Vec::new());
    for entry in rows(ledger, "transactions") {
        let (received, spent) = (int(entry, "received"), int(entry, "spent"));
        same("net", int(entry, "net"), received - spent)?;
        // what it spends or is paid may be worth nothing
        holds("coins that moved", flag(entry, "sentToSelf") || received == 0 || spent == 0)?;
        holds("an entry comes twice", txids.insert(text(entry, "transaction.txid")))?;
        let block = at(entry, "transaction.block");
        match text(entry, "transaction.state") {
            "MEMPOOL" => {
                holds("an unconfirmed entry behind a confirmed one", done.is_empty())?;
                holds("a block of an unconfirmed entry", block.is_null())?;
                same("confirmations of an unconfirmed entry", int(entry, "transaction.confirmations"), 0)?;
                waiting.push(entry);
            }
            "CONFIRMED" => {
                same(
                    "confirmations of an entry",
                    int(entry, "transaction.confirmations"),
                    tip + 1 - int(block, "height"),
                )?;
                done.push(entry);
            }
            other => return Err(format!("an entry is {other}")),
        }
    }
    if let Some(newest) = rows(ledger, "transactions").first()
        && let Some(after) = at(newest, "balanceAfter").as_i64()
    {
        same("what is held after all", i128::from(after), int(ledger, "balance.total"))?;
    }
    for pair in rows(ledger, "transactions").windows(2) {
        if let (Some(after), Some(before)) =
            (at(&pair[0], "balanceAfter").as_i64(), at(&pair[1], "balanceAfter").as_i64())
        {
            same("what is held after one more", i128::from(after), i128::from(before) + int(&pair[0], "net"))?;
        }
    }
    if whole(ledger, "transactions").is_none() {
        return Ok(());
    }
    let figure = |path: &str| int(ledger, path);
    same("unconfirmed entries", count(&waiting), figure("stats.mempoolTxCount"))?;
    same("what they pay", sum(waiting.iter().copied(), "received"), figure("balance.pendingIn"))?;
    same("what they spend", sum(waiting.iter().copied(), "spent"), figure("balance.spentInMempool"))?;
    same("confirmed entries", count(&done), figure("stats.txCount"))?;
    same("what those paid", sum(done.iter().copied(), "received"), figure("stats.received"))?;
    same("what those spent", sum(done.iter().copied(), "spent"), figure("stats.spent"))?;
    same("status", at(ledger, "stats.statusHash").as_str(), status(&done, &waiting).as_deref())?;
    let coinbases = done.iter().filter(|entry| flag(entry, "transaction.isCoinbase"));
    same("coinbases", count(coinbases), figure("stats.minedBlockCount"))?;
    let height = |entry: Option<&&Value>| entry.map(|entry| int(entry, "transaction.block.height"));
    let seen = |path: &str| (!at(ledger, path).is_null()).then(|| int(ledger, &format!("{path}.height")));
    same("first seen", seen("stats.firstSeenBlock"), height(done.last()))?;
    same("last seen", seen("stats.lastSeenBlock"), height(done.first()))?;
    same("whether it was used", flag(ledger, "stats.used"), !rows(ledger, "transactions").is_empty())
}

/// The status that an Electrum server shows for these entries, each list newest first; none without an entry.
fn status(done: &[&Value], waiting: &[&Value]) -> Option<String> {
    let confirmed = done.iter().rev().map(|entry| (entry, int(entry, "transaction.block.height")));
    let unconfirmed = waiting.iter().rev().map(|entry| {
        let has_unconfirmed_inputs = flag(entry, "transaction.mempoolEntry.isSpendingUnconfirmed");
        (entry, if has_unconfirmed_inputs { -1 } else { 0 })
    });
    let line = |(entry, height): (&&Value, i128)| format!("{}:{height}:", text(entry, "transaction.txid"));
    let lines: String = confirmed.chain(unconfirmed).map(line).collect();
    (!lines.is_empty()).then(|| sha256::Hash::hash(lines.as_bytes()).to_string())
}
