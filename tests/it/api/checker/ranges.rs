//! Sums over blocks, by prefixes and one by one, and where all coins are.

use btcgraph::sim::Rng;
use serde_json::Value;

use super::figures::{Checked, at, count, int, rows, same, sum};

pub(super) fn parts(random: &mut Rng) -> String {
    let blocks = random.between(1, 24);
    format!(
        "chain {{
            summary {{ blockCount totals {{ txCount outputCount size }} last24h {{ toHeight }} }}
            range(of: {{ lastBlocks: {blocks} }}) {{ fromHeight toHeight blockCount txCount inputCount outputCount outputValue fees
                subsidy size weight utxoDelta emptyBlockCount }}
            supply {{ height subsidyIssued circulating unspendable genesis bip30 unspendableScripts unclaimedRewards
                immatureCoinbase }} }}
         tipBlock: tip {{ cumulative {{ txCount outputCount size subsidy unspendable }} }}
         blocks(first: {blocks}) {{ totalCount nodes {{ hash height txCount size weight totalFees subsidy unclaimedReward
            coinbaseValue stats {{ inputCount outputCount totalInputValue totalOutputValue utxoDelta }}
            previousBlock {{ hash }} }} }}"
    )
}

pub(super) fn check(data: &Value) -> Checked {
    let (tip, range, blocks) = (int(data, "tip.height"), at(data, "chain.range"), rows(data, "blocks"));
    same("newest of the blocks", at(&blocks[0], "hash"), at(data, "tip.hash"))?;
    for (height, pair) in (0..).zip(blocks.windows(2)) {
        same("order of the blocks", at(&pair[0], "previousBlock.hash"), at(&pair[1], "hash"))?;
        same("height", int(&pair[0], "height"), tip - height)?;
    }
    same("range", (int(range, "fromHeight"), int(range, "toHeight")), (tip + 1 - count(blocks), tip))?;
    same("blocks", int(range, "blockCount"), count(blocks))?;
    for (part, path) in [
        ("txCount", "txCount"),
        ("inputCount", "stats.inputCount"),
        ("outputCount", "stats.outputCount"),
        ("outputValue", "stats.totalOutputValue"),
        ("fees", "totalFees"),
        ("subsidy", "subsidy"),
        ("size", "size"),
        ("weight", "weight"),
        ("utxoDelta", "stats.utxoDelta"),
    ] {
        same(part, int(range, part), sum(blocks, path))?;
    }
    let empty = blocks.iter().filter(|block| int(block, "txCount") == 1);
    same("empty blocks", int(range, "emptyBlockCount"), count(empty))?;
    for block in blocks {
        let due = int(block, "subsidy") + int(block, "totalFees");
        same("reward", int(block, "coinbaseValue") + int(block, "unclaimedReward"), due)?;
        let paid = int(block, "stats.totalOutputValue") - int(block, "coinbaseValue") + int(block, "totalFees");
        same("what is paid", int(block, "stats.totalInputValue"), paid)?;
    }
    check_whole_chain(data)
}

fn check_whole_chain(data: &Value) -> Checked {
    let (supply, summary, all) = (at(data, "chain.supply"), at(data, "chain.summary"), at(data, "tipBlock.cumulative"));
    let coins = |part: &str| int(supply, part);
    same("height of the supply", coins("height"), int(data, "tip.height"))?;
    same("coins", coins("circulating") + coins("unspendable"), coins("subsidyIssued"))?;
    let lost = coins("genesis") + coins("bip30") + coins("unspendableScripts") + coins("unclaimedRewards");
    same("lost coins", lost, coins("unspendable"))?;
    same("genesis", coins("genesis"), 50 * 100_000_000)?;
    same("overwritten coins", coins("bip30"), 0)?;
    // no more than was paid to miners in as many blocks as mature
    super::figures::holds("immature coins", (1..=coins("circulating")).contains(&coins("immatureCoinbase")))?;
    same("subsidies", int(all, "subsidy"), coins("subsidyIssued"))?;
    same("unspendable coins", int(all, "unspendable"), coins("unspendable"))?;
    same("blocks of the chain", int(summary, "blockCount"), int(data, "tip.height") + 1)?;
    same("listed blocks", int(data, "blocks.totalCount"), int(summary, "blockCount"))?;
    same("transactions of the chain", int(summary, "totals.txCount"), int(all, "txCount"))?;
    same("outputs of the chain", int(summary, "totals.outputCount"), int(all, "outputCount"))?;
    same("size of the chain", int(summary, "totals.size"), int(all, "size"))?;
    same("end of the last day", int(summary, "last24h.toHeight"), int(data, "tip.height"))
}
