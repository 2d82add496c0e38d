//! A random history of a chain and a mempool, in which the tip never becomes lower and no more than [`DEPTH`] blocks leave
//! at once: what lasts for ever is promised for no other.
//!
//! [`DEPTH`]: super::DEPTH

use std::collections::HashSet;
use std::sync::Arc;

use bitcoin::{Block, OutPoint, Transaction, TxOut};
use btcgraph::mempool::Departure;
use btcgraph::sim::{Owner, ScriptKind, SimChain};

use super::DEPTH;
use super::questions::Seed;
use crate::support::api::{Api, coinbase_output, sat, spend_outputs};
use crate::support::cut::IndexForm;

/// Blocks that are there at the beginning; the first of them can be spent.
const BLOCKS: u32 = 108;

pub(super) struct History {
    pub(super) api: Api,
    sim: SimChain,
    /// The main chain.
    main: Vec<Arc<Block>>,
    /// What a reorganisation took out last, if nothing came since.
    left: Vec<Arc<Block>>,
    /// All payments, of which some are in blocks.
    payments: Vec<Transaction>,
    payee: Owner,
    random: u64,
}

/// The points of `Chain.series` of these blocks, in groups.
fn series(range: &str, group: &str) -> Seed {
    let field = format!("series(range: {{ {range} }}, group: {group}, includeEmpty: true)");
    // a point has blocks, which others ask of
    Seed { levels: 1, ..Seed::within("chain", field, "SeriesPoint") }
}

impl History {
    pub(super) fn start(form: IndexForm, seed: u64) -> Self {
        let mut sim = SimChain::new(seed);
        sim.mine_empty(BLOCKS).unwrap();
        let main: Vec<_> = sim.active_blocks().cloned().collect();
        let (api, payee) = (Api::of_chain_in(form, &sim), Owner::new(ScriptKind::P2wpkh, 7));
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut history = Self { api, sim, main, left: Vec::new(), payments: Vec::new(), payee, random };
        // one is confirmed before anything is asked, and becomes deep
        let payment = history.payment();
        history.connect(vec![payment]);
        history
    }

    fn draw(&mut self, below: usize) -> usize {
        // the generator of splitmix64
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(below).unwrap()).unwrap()
    }

    /// The hash of the newest block.
    pub(super) fn tip(&self) -> String {
        self.main.last().unwrap().block_hash().to_string()
    }

    /// The field that finds whom all payments pay.
    pub(super) fn address(&self) -> String {
        let script = self.payee.output(sat(0)).script_pubkey;
        let address = bitcoin::Address::from_script(&script, bitcoin::Network::Regtest).unwrap();
        format!("address(address: \"{address}\")")
    }

    /// The field that finds the first coin of the miner.
    pub(super) fn coin(&self) -> String {
        format!("output(txid: \"{}\", vout: 0)", self.main[1].txdata[0].compute_txid())
    }

    /// Objects to ask of: deep ones, whose coins will be spent, such as stand at the tip, and such as are to come.
    pub(super) fn seeds(&self) -> Vec<Seed> {
        let txid_of = |height: usize| self.main[height].txdata[0].compute_txid();
        let (deep, soon_spent) = (txid_of(1), txid_of(2));
        let paid = self.payments[0].compute_txid();
        let (height, address) = (self.main.len() - 1, self.address());
        let mut seeds = self.at_blocks(&address, height);
        seeds.extend([
            Seed::new("block(height: 1)", "Block", 3),
            Seed::new(format!("block(height: {height})"), "Block", 2),
            Seed::new(format!("block(height: {})", height - 2), "Block", 1),
            Seed::new(format!("block(height: {})", height + 1), "Block", 1),
            Seed::new(format!("block(height: {})", height + 9), "Block", 1),
            Seed::new(format!("block(hash: \"{}\")", self.tip()), "Block", 1),
            Seed::new(format!("transaction(txid: \"{deep}\")"), "Transaction", 4),
            Seed::new(format!("transaction(txid: \"{paid}\")"), "Transaction", 4),
            Seed::new(format!("transactionsByTxid(txids: [\"{deep}\", \"{paid}\"])"), "Transaction", 1),
            Seed::new(format!("output(txid: \"{deep}\", vout: 0)"), "Output", 1),
            Seed::new(format!("output(txid: \"{soon_spent}\", vout: 0)"), "Output", 2),
            Seed::new(format!("output(txid: \"{}\", vout: 0)", txid_of(12)), "Output", 1),
            Seed::new(format!("output(txid: \"{}\", vout: 0)", txid_of(height)), "Output", 1),
            Seed::new("transactionByIndex(index: 3)", "Transaction", 1),
            Seed::new(address, "Address", 4),
            Seed::new("tip", "Block", 1),
            Seed::new("chain", "Chain", 2),
            Seed::new("mempool", "Mempool", 4),
            Seed::new("staleBlocks", "BlockConnection", 2),
            Seed::new("reorgs", "ReorgConnection", 3),
        ]);
        seeds
    }

    /// What is asked for as it was right after a block, or up to one: deep ones, such as stand at the tip, and such as are to
    /// come.
    fn at_blocks(&self, address: &str, height: usize) -> Vec<Seed> {
        let hash = self.main[height].block_hash();
        let heights = [1, height, height + 2].map(|height| format!("height: {height}"));
        // the median time past of a block is that in the header of the fifth in front of it
        let times = [3, height - 5, height - 4].map(|height| self.time(height));
        let ats = heights.into_iter().chain(times.iter().map(|time| format!("time: \"{time}\"")));
        let ats = ats.chain([format!("hash: \"{hash}\"")]);
        let mut seeds: Vec<_> = ats
            .flat_map(|at| {
                [
                    Seed::within("chain", format!("supply(at: {{ {at} }})"), "SupplyTotals"),
                    Seed::within("chain", format!("utxoSet(at: {{ {at} }})"), "UtxoSet"),
                    Seed::within(address, format!("balance(at: {{ {at} }})"), "Balance"),
                    Seed::within(address, format!("stats(at: {{ {at} }})"), "LedgerTotals"),
                    Seed::within(address, format!("utxos(at: {{ {at} }})"), "UtxoConnection"),
                ]
            })
            .collect();
        for to in [3, height - 1, height, height + 3] {
            seeds.extend([
                Seed::within("chain", format!("range(of: {{ heights: {{ from: 2, to: {to} }} }})"), "RangeTotals"),
                series(&format!("heights: {{ from: {}, to: {to} }}", to - 2), "BLOCK"),
                series(&format!("heights: {{ from: 2, to: {to} }}"), "DAY"),
                series(&format!("heights: {{ from: 2, to: {to} }}"), "HALVING"),
                Seed::new(
                    format!("blocks(last: 2, range: {{ heights: {{ from: {}, to: {to} }} }})", to - 2),
                    "BlockConnection",
                    1,
                ),
                Seed::new(
                    format!("transactions(last: 2, range: {{ heights: {{ to: {to} }} }})"),
                    "TransactionConnection",
                    1,
                ),
                Seed::new(format!("headers(range: {{ heights: {{ from: {}, to: {to} }} }})", to - 2), "BlockHeader", 1),
            ]);
        }
        for time in times {
            seeds.extend([
                series(&format!("times: {{ to: \"{time}\" }}"), "MONTH"),
                Seed::new(format!("blocks(last: 3, range: {{ times: {{ to: \"{time}\" }} }})"), "BlockConnection", 1),
            ]);
        }
        let tenth = height.saturating_sub(9);
        let newest = format!("blocks(last: 3, range: {{ heights: {{ from: {tenth}, to: {height} }} }})");
        seeds.push(Seed::new(newest, "BlockConnection", 1));
        seeds
    }

    /// The time in the header of a block of the main chain.
    pub(super) fn time(&self, height: usize) -> String {
        jiff::Timestamp::from_second(self.main[height].header.time.into()).unwrap().to_string()
    }

    /// Something happens.
    pub(super) fn step(&mut self) {
        match self.draw(8) {
            0 => self.connect(Vec::new()),
            1 | 2 => {
                let waiting = self.waiting();
                let some = waiting.into_iter().take(2).collect();
                self.connect(some);
            }
            3 => {
                let payment = self.payment();
                self.api.arrive([&payment]);
            }
            4 => self.depart(),
            5 => {
                let depth = 1 + self.draw(usize::try_from(DEPTH).unwrap());
                self.reorganise(depth);
            }
            // and back, so that a block is the tip again that was it before
            6 => {
                self.reorganise(1);
                self.go_back();
            }
            _ => {
                let payment = self.payment();
                self.connect(vec![payment]);
            }
        }
    }

    /// In an index with generations the cut rises towards the tip, and reorganisations reach it.
    pub(super) fn freeze(&mut self, form: IndexForm) {
        self.api.take(form);
    }

    /// A payment of a coin that no other spends.
    fn payment(&mut self) -> Transaction {
        let spent: HashSet<OutPoint> =
            self.payments.iter().flat_map(|payment| &payment.input).map(|input| input.previous_output).collect();
        let coins =
            self.main.iter().skip(1).map(|block| (coinbase_output(block, 0), block.txdata[0].output[0].clone()));
        let (coin, prevout) = coins.into_iter().find(|(coin, _)| !spent.contains(coin)).unwrap();
        let output = TxOut { value: prevout.value - sat(1_000), ..self.payee.output(sat(0)) };
        let payment = spend_outputs(SimChain::miner(), &[coin], &[prevout], vec![output]);
        self.payments.push(payment.clone());
        payment
    }

    /// Payments that no block of the main chain holds.
    fn waiting(&self) -> Vec<Transaction> {
        let confirmed: HashSet<_> =
            self.main.iter().flat_map(|block| &block.txdata).map(Transaction::compute_txid).collect();
        self.payments.iter().filter(|payment| !confirmed.contains(&payment.compute_txid())).cloned().collect()
    }

    fn connect(&mut self, transactions: Vec<Transaction>) {
        let parent = self.main.last().unwrap().block_hash();
        let block = self.sim.mine_on(parent, transactions).unwrap();
        self.api.change(0, [block.as_ref()]);
        self.main.push(block);
        self.left.clear();
    }

    fn depart(&mut self) {
        let waiting = self.waiting();
        let known =
            waiting.iter().map(Transaction::compute_txid).find(|txid| self.api.view().mempool().get(txid).is_some());
        if let Some(txid) = known {
            self.api.depart(&txid, Departure::Expired);
        }
    }

    /// Others take the place of the newest blocks, as many or one more.
    fn reorganise(&mut self, depth: usize) {
        let kept = self.main.len() - depth;
        self.left = self.main.split_off(kept);
        let count = depth + self.draw(2);
        let mut came: Vec<Arc<Block>> = Vec::new();
        for _ in 0..count {
            let parent = came.last().or(self.main.last()).unwrap().block_hash();
            came.push(self.sim.mine_on(parent, Vec::new()).unwrap());
        }
        self.api.change(u32::try_from(depth).unwrap(), came.iter().map(Arc::as_ref));
        self.main.extend(came);
    }

    /// What left comes back, on the same blocks as before.
    fn go_back(&mut self) {
        let left = std::mem::take(&mut self.left);
        let depth = self.main.len()
            - (self.main.iter().position(|block| block.block_hash() == left[0].header.prev_blockhash).unwrap() + 1);
        if depth > left.len() {
            return;
        }
        self.main.truncate(self.main.len() - depth);
        self.api.change(u32::try_from(depth).unwrap(), left.iter().map(Arc::as_ref));
        self.main.extend(left);
    }
}
