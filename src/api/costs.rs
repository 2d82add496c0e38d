//! What fields cost, in one place: before a document is executed, and while it is.
//!
//! A field costs 1, which is about what it takes to read a row that is in memory and to write a value. A field that does
//! more says so twice. Its attribute `complexity` is for the worst case of a document, in which every page is full; and it
//! calls [`spend`] before it does what it does. The rest of an answer is counted by itself, as its fields are resolved.
//!
//! | what a field does | cost | why | in the worst case |
//! |---|---|---|---|
//! | reads a row, or returns what its parent has read | 1 | the unit | 1 |
//! | reads a page of rows | 1 | each row counts 1, and its fields as they are resolved | [`page`]: full pages |
//! | reads transactions to find those of a page | 1 for each, returned or not | each is read and parsed | [`worst_scan`]: as many as a page reads at most, or a block of 3,000 |
//! | reads other rows to find those of a page | 1 for each [`ROWS_APART`] | each is looked up | of the blocks of the chain [`worst_scan`]; of a ledger and the mempool nothing |
//! | reads a list without pages | 1 | the same | [`list`]: as many items as there usually are, [`few`] of the node or a script |
//! | asks the node | [`NODE`] more | a round trip takes about as long as so many rows | the same |
//! | has the node make a block | [`TEMPLATE`] round trips | it checks each of some thousand transactions | the same |
//! | reads and hashes all txids of a block | [`PROOF`] | some thousand rows in one pass, and as many hashes | the same |
//! | reads and hashes all transactions of a block | [`WHOLE_BLOCK`] | a megabyte or two, read in one pass | the same |
//! | reads and parses all transactions of a block | 1 for each | in one pass | as a block of 3,000 |
//! | returns a list of scalars that is written at once | 1 for each [`COLUMN_ITEMS`] | [`column()`] | as a block of 3,000 |
//! | computes the tweak of a silent payment | [`TWEAK`] and 1 for each input | a multiplication of a point on the curve | the same |
//! | orders the clusters of a block | 1 for each [`CLUSTER_STEPS`] | as many steps as members times edges | nothing |
//! | asks the node for a filter of many | [`FILTER_OF_MANY`] more | a hundred share a round trip | the same |
//! | reads what a block spends, as its compact filter, features and effective feerates do | 1 for each transaction, [`SPENT_OUTPUT`] for each input | the transactions with the spent outputs are read | [`WHOLE_BLOCK`] |
//! | reads a list by keys, or all txids of a block | 1 more for each | counted before they are read | as a block of 3,000 |
//! | finds a row by bisection | [`BISECTION`] | each step is a row, half of them in memory already | the same |
//! | finds a period of a series | [`PERIOD`] | the rows of blocks at its ends are searched | as many as its range has, or `limits.points` |
//! | reads the totals of a script before a period | 1 | one seek for each period in which it changed | nothing |
//! | reads the coinbase of each of the last hundred blocks | [`HUNDRED_COINBASES`] | two rows of each, and the coinbase is parsed | the same |
//! | counts the stale blocks of a month | [`STALE_MONTH`] | finds its beginning among all blocks, and reads few rows | the same |
//! | compares the mining pools of a range | 1 for each pool of the table | two seeks in a table of running totals | as some 25 |
//! | finds each block without payments | [`BISECTION`] for each | every row counts those up to it | the same |
//! | reads rows that lie together | 1 for each [`ROWS_IN_A_ROW`] | they share pages, and the answer lists none | the same |
//! | counts the transactions of a ledger of several scripts | 1 for each [`ROWS_IN_A_ROW`] rows of theirs | their histories are merged, and the answer lists none | nothing |
//! | puts all transactions of the mempool into bins | 1 for each [`ROWS_IN_A_ROW`] | they are in the order of feerates | [`MEMPOOL`] |
//! | goes from a transaction to those that it spends or that spend it | 1 for each input or output | each is looked up | as usual, for each that is listed |
//! | looks at the spent outputs of a transaction: features, signature operations, coin days | 1 for each input | they are looked up | as usual |
//! | finds out which outputs are a ledger's | 1 for each [`HASHED_SCRIPTS`] | their scripts are hashed | nothing |
//! | finds out which inputs are a ledger's | 1 for each | the outputs that they spend are looked up | as usual |
//! | makes a ledger of several scripts | 1 more for each | each has rows of its own | and each hundred as if asked alone |
//! | looks for all that a text may mean | [`SEARCH`] more | a look-up for each meaning | and each as if it were found |
//! | decodes a PSBT | 1 for every 50 letters of it | so long are an input, which is looked up, and a key, which is parsed | the same |
//! | parses a descriptor | [`PARSED_KEY`] for each key | base58, and a point on the curve | the same |
//! | derives a script of a descriptor, and finds out whether it was used | [`DERIVED_SCRIPT`] for each of its keys | as if it were not cached, which takes thirteen times as long | the same, as far as the gap limit |
//!
//! `cargo bench --bench costs` measures what each takes in units of a field of a page of blocks, and the constants are round
//! numbers near to that: where a unit is 0.88 us, a proof in a block of 3,000 takes 840 us, all txids of it 2.6 ms, and the
//! coinbases of the last 99 blocks 515 us. The figures of all kinds stand in `benches/README.md`.
//!
//! An answer may cost `server.max_complexity` and the worst case of a document `server.max_worst_case_complexity`; clients may
//! have budgets. Bytes do not count here: they are counted while they are read
//! ([`View::count`](crate::view::View::count)).

use std::sync::Arc;

use async_graphql::Context;
use bitcoin::Network;

use crate::api::error::ApiError;
use crate::api::extensions::account::Account;
use crate::api::extensions::spec_fixes::names_at;
use crate::api::pagination::page::{DEFAULT_PARTS, Take, take};
use crate::chain::{address_beginning, parse_any_address};
use crate::limits::{DERIVED_TOGETHER, HIGHEST_GAP_LIMIT, HIGHEST_PAGE_SIZE};
use crate::view::MOST_PARTS;

/// A round trip to the node.
pub(crate) const NODE: usize = 50;
/// What making a block costs the node, in round trips.
pub(crate) const TEMPLATE: usize = 20;
/// Reading and hashing all txids of a block of 3,000 transactions, whose rows are read in one pass.
pub(crate) const PROOF: usize = 850;
/// Reading all transactions of a block of 3,000 in one pass, parsing and hashing them.
pub(crate) const WHOLE_BLOCK: usize = 4_000;
/// Finding the script of an output that a block spends, in the transaction that creates it.
const SPENT_OUTPUT: usize = 3;
/// Having the node read one of many compact filters, of which a hundred are one request.
pub(crate) const FILTER_OF_MANY: usize = 10;
/// How many compact filters a list is taken to have at most: `limits.compact_filters` by default.
pub(crate) const COMPACT_FILTERS: usize = 1_000;
/// Computing the tweak of a silent payment: a multiplication of a point on the curve.
pub(crate) const TWEAK: usize = 60;
/// Items of a list of scalars that can be written at once for the price of a field.
pub(crate) const COLUMN_ITEMS: usize = 10;
/// Looking for the cluster of a transaction in its block. A larger one is found in the whole block, which is charged once for an answer, as
/// it is read.
pub(crate) const MINED_CLUSTER: usize = MOST_PARTS.div_ceil(ROWS_APART);
/// Steps of ordering a cluster of transactions that can be taken for the price of a field.
pub(crate) const CLUSTER_STEPS: u64 = 200;
/// Transactions that a block is taken to have.
pub(crate) const TRANSACTIONS: usize = 3_000;
/// Finding the bounds of a period of a series: the rows of some ten blocks.
pub(crate) const PERIOD: usize = 5;
/// How many headers a list is taken to have at most: `limits.headers` by default. Each is charged as it is read.
pub(crate) const HEADERS: usize = 2_000;
/// How many blocks a day is taken to have at most; networks for tests may have more.
pub(crate) const MOST_BLOCKS_OF_DAY: u32 = 10_000;
/// How many points a series is taken to have at most: `limits.points` by default. More are refused.
pub(crate) const POINTS: usize = 2_000;
/// Looking for a row among all of one script: about 30 rows.
pub(crate) const BISECTION: usize = 10;
/// Reading the coinbase of each of the last hundred blocks.
pub(crate) const HUNDRED_COINBASES: usize = 550;
/// Finding a block by its time, in some twenty steps over rows of a thousand bytes, and reading a few rows of a table.
pub(crate) const STALE_MONTH: usize = 100;
/// Parsing a key: the checksum of an extended one, and its point on the curve.
const PARSED_KEY: usize = 50;
/// Hexadecimal digits of the shortest key (BIP340).
const RAW_KEY_DIGITS: usize = 64;
/// Deriving a script of one key and looking for its history.
pub(crate) const DERIVED_SCRIPT: usize = 10;
/// Deriving the scripts of one key that are derived together.
pub(crate) const DERIVED_BATCH: usize = DERIVED_TOGETHER as usize * DERIVED_SCRIPT;
/// How many scripts a key has in `combo` at most (BIP384).
const COMBO_SCRIPTS: usize = 4;
/// Looking for all that a text may mean: a row for each of its meanings.
pub(crate) const SEARCH: usize = 10;
/// What a text may mean at once besides addresses and pools that begin with it: a hash may be one of a block, two transactions,
/// two scripts, a key, and a script itself.
const MOST_MEANINGS: usize = 7;
/// Used addresses that a search finds by their beginning.
pub(crate) const MOST_ADDRESSES: usize = 10;
/// Pools that a search finds by the beginning of their names.
pub(crate) const MOST_POOLS: usize = 10;
/// Letters of a PSBT for which an input or a key is counted.
const BYTES_OF_INPUT: usize = 50;
/// Used scripts of an account for which what is asked of it is counted once more, as of a set.
const SCRIPTS_OF_SET: usize = 100;
/// Currencies of a table of rates, rounded up.
pub(crate) const CURRENCIES: usize = 200;
/// Reading a table of the index to measure it, at most once for each tip.
pub(crate) const MEASURED_TABLE: usize = 500;
/// Tables of the index, of hot and frozen blocks, rounded up.
pub(crate) const TABLES: usize = 40;
/// Letters of the longest address (BIP173), each of which may be wrong.
pub(crate) const ADDRESS_LETTERS: usize = 90;
/// Keys of a bare multisig at most (Bitcoin Core, `MAX_PUBKEYS_PER_MULTISIG`).
pub(crate) const MULTISIG_KEYS: usize = 20;
/// Tags that a pool is taken to have, and addresses.
pub(crate) const POOL_MARKS: usize = 50;
/// Percentiles in a row of a block, and of a projected one.
pub(crate) const PERCENTILES: usize = 7;
/// Bins of feerates that the mempool is taken to fill.
pub(crate) const FEE_BINS: usize = 100;
/// Hashes of a proof in a block of as many transactions as fit into one.
pub(crate) const MERKLE_BRANCH: usize = 13;
/// How many items a short list is taken to have.
const FEW: usize = 4;
/// The lists of a connection: `nodes` and `edges`.
const LISTS_OF_PAGE: usize = 2;
/// Rows that can be read for the price of a field wherever they lie.
pub(crate) const ROWS_APART: usize = 3;
/// How many rows a page is taken to read at most while it looks for those that a filter lets through: `limits.scan_rows` by
/// default. Each is charged as it is read.
pub(crate) const SCANNED_ROWS: usize = 20_000;
/// How many inputs a transaction is taken to have whose spent outputs are all looked up: four in five have at most two.
pub(crate) const LOOKED_UP_INPUTS: usize = 4;
/// Rows that can be read for the price of a field if they lie together.
pub(crate) const ROWS_IN_A_ROW: i32 = 50;
/// What it costs to read as many rows of histories as a page may by default.
pub(crate) const HISTORIES: usize = SCANNED_ROWS / ROWS_IN_A_ROW.unsigned_abs() as usize;
/// Reading what each transaction of the mempool pays, of which there are taken to be 50,000.
pub(crate) const MEMPOOL: usize = 50_000 / ROWS_IN_A_ROW.unsigned_abs() as usize;
/// Scripts that can be hashed for the price of a field.
pub(crate) const HASHED_SCRIPTS: usize = 3;

/// Counts what a field does beyond being resolved, before it does that.
///
/// Errors: QUERY_LIMIT_EXCEEDED beyond the limit of an answer.
pub(crate) fn spend(ctx: &Context<'_>, cost: usize) -> Result<(), ApiError> {
    let Some(account) = ctx.data_opt::<Arc<Account>>() else { return Ok(()) };
    account.spend(u64::try_from(cost).unwrap_or(u64::MAX), || names_at(ctx.path_node.as_ref()))
}

/// What a connection costs before its page is known: one for itself and for each of its lists, and its rows times what is asked
/// of each; what is asked of the connection alone is asked without rows, too.
pub(crate) fn page(first: Option<i32>, last: Option<i32>, per_row: usize) -> usize {
    let rows = match take(first, last, HIGHEST_PAGE_SIZE) {
        Ok(Take::First(size) | Take::Last(size)) => size,
        Err(_) => 0, // refused before any row is read
    };
    usize::try_from(rows).unwrap_or(usize::MAX).max(1).saturating_mul(per_row).saturating_add(1 + LISTS_OF_PAGE)
}

/// What reading so many rows costs to find those that a filter lets through, if there is one.
pub(crate) fn worst_scan(is_filtered: bool, rows: usize) -> usize {
    if is_filtered { rows } else { 0 }
}

/// Rows that a page reads to find its own: for each `rows_for_one` of them 1 is counted once they are read, and nothing for `None`.
///
/// Errors: those of the rows, and QUERY_LIMIT_EXCEEDED beyond the limit of an answer.
pub(crate) fn charged_rows<T>(
    ctx: &Context<'_>,
    rows_for_one: Option<usize>,
    rows: impl Iterator<Item = Result<T, ApiError>>,
) -> impl Iterator<Item = Result<T, ApiError>> {
    rows.enumerate().map(move |(read, row)| {
        if rows_for_one.is_some_and(|together| read.is_multiple_of(together)) {
            spend(ctx, 1)?;
        }
        row
    })
}

/// What the inputs or outputs of a transaction cost before their number is known.
pub(crate) fn parts(first: Option<i32>, last: Option<i32>, per_row: usize) -> usize {
    let default = i32::try_from(DEFAULT_PARTS).ok();
    page(first.or(default.filter(|_| last.is_none())), last, per_row)
}

/// Counts the outputs that these inputs of a block spend, before they are read.
pub(crate) fn spend_on_spent_outputs(ctx: &Context<'_>, inputs: usize) -> Result<(), ApiError> {
    spend(ctx, inputs.saturating_mul(SPENT_OUTPUT))
}

/// What a list of scalars, one for each transaction of a block, costs.
pub(crate) fn column() -> usize {
    more(TRANSACTIONS / COLUMN_ITEMS, 0)
}

/// What reading all transactions of a block in one pass costs, before their number is known.
pub(crate) fn contents(per_block: usize) -> usize {
    more(TRANSACTIONS, per_block)
}

/// What computing the compact filter of a block costs: the block is read, and each transaction with an output that it spends.
pub(crate) fn compact_filter(transactions: u32, inputs: u32) -> usize {
    let [transactions, inputs] = [transactions, inputs].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    inputs.saturating_mul(SPENT_OUTPUT).saturating_add(transactions)
}

/// What a list without pages costs: one for itself and for each item, and its items times what is asked of each.
pub(crate) fn list(items: impl TryInto<usize>, per_item: usize) -> usize {
    // a negative count is refused before any item is read
    items.try_into().unwrap_or(0).saturating_mul(per_item.saturating_add(1)).saturating_add(1)
}

/// What the beginning of a list without pages costs, as [`list`] counts it, and as if it were empty beyond any page: that is
/// refused before any item is read.
pub(crate) fn beginning(first: i32, per_item: usize) -> usize {
    list(u32::try_from(first).ok().filter(|first| *first <= HIGHEST_PAGE_SIZE).unwrap_or(0), per_item)
}

/// What reading so many rows that lie together costs.
pub(crate) fn rows_in_a_row(rows: u32) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX).div_ceil(ROWS_IN_A_ROW.unsigned_abs() as usize)
}

/// What a short list costs: what the node reports, or what the bytes of its parent say.
pub(crate) fn few(per_item: usize) -> usize {
    list(FEW, per_item)
}

/// What a field costs that does so much more than to be resolved, with what is asked of it.
pub(crate) fn more(cost: usize, asked: usize) -> usize {
    asked.saturating_add(cost).saturating_add(1)
}

/// What parsing a descriptor costs, by the keys that it seems to have.
pub(crate) fn descriptor(text: &str) -> usize {
    keys(text).saturating_mul(PARSED_KEY)
}

/// The number of words of a descriptor that look like a key: extended ones, and those of as many hexadecimal digits as a
/// point on the curve has at least. Hashes look the same, and count, too.
fn keys(text: &str) -> usize {
    let is_key = |word: &&str| {
        word.contains("pub") || (word.len() >= RAW_KEY_DIGITS && word.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(is_key).count()
}

/// What a descriptor costs that is only looked at: what is asked of it is derived of each key.
pub(crate) fn validated_descriptor(text: &str, asked: usize) -> usize {
    more(descriptor(text), asked.saturating_mul(keys(text).max(1)))
}

/// What the account of a descriptor costs: parsing that, its scripts up to the gap limit, as if few were used, on as many
/// branches and with as many keys as the text seems to have, and what is asked of it once for each hundred of them.
pub(crate) fn account(text: &str, gap_limit: Option<i32>, default_gap_limit: i32, per_account: usize) -> usize {
    // others are refused before any script is derived
    let gap_limit = u32::try_from(gap_limit.unwrap_or(default_gap_limit)).ok();
    let gap_limit = gap_limit.filter(|gap_limit| *gap_limit <= HIGHEST_GAP_LIMIT).unwrap_or(0);
    let gap_limit = usize::try_from(gap_limit).unwrap_or(usize::MAX);
    let is_key = !text.contains('(');
    let paths = text.split('<').nth(1).and_then(|step| step.split('>').next());
    let branches = match paths {
        _ if is_key => 2, // a receive and a change chain
        Some(paths) => paths.split(';').count(),
        None => 1,
    };
    let branches = if text.contains("combo") { branches.saturating_mul(COMBO_SCRIPTS) } else { branches };
    let batch = DERIVED_TOGETHER as usize;
    let (scripts, derived) = if is_key || text.contains('*') {
        (gap_limit, gap_limit.saturating_add(batch).next_multiple_of(batch))
    } else {
        (1, 1)
    };
    let [scripts, derived] = [scripts, derived].map(|of_branch| of_branch.saturating_mul(branches));
    let derived = derived.saturating_mul(keys(text).max(1)).saturating_mul(DERIVED_SCRIPT);
    let asked = scripts.div_ceil(SCRIPTS_OF_SET).max(1).saturating_mul(per_account);
    more(asked, derived.saturating_add(descriptor(text)))
}

/// What decoding a PSBT costs: its inputs are looked up, and have 41 bytes at least, and its keys are parsed.
pub(crate) fn psbt(text: &str) -> usize {
    (text.len() / BYTES_OF_INPUT).saturating_add(1)
}

/// What a search costs, whatever the text means: an item for each meaning, and the account of what seems to be a descriptor.
pub(crate) fn search(text: &str, gap_limit: i32, per_item: usize) -> usize {
    let is_descriptor = text.contains('(') || text.contains("pub");
    let account = if is_descriptor { account(text, Some(gap_limit), gap_limit, per_item) } else { 0 };
    let addresses = if may_begin_addresses(text) { MOST_ADDRESSES } else { 0 };
    list(MOST_MEANINGS.max(MOST_POOLS) + addresses, per_item).saturating_add(SEARCH).saturating_add(account)
}

/// Whether addresses of some network may begin with a text that is none.
fn may_begin_addresses(text: &str) -> bool {
    let text: String = text.chars().filter(|letter| !letter.is_whitespace()).take(91).collect();
    let begins = |network| address_beginning(&text, network).is_some();
    [Network::Bitcoin, Network::Testnet, Network::Regtest].into_iter().any(begins) && parse_any_address(&text).is_err()
}

/// What a list of derived scripts costs: deriving them, and what is asked of each.
pub(crate) fn derived_list(first: Option<i32>, per_item: usize) -> usize {
    let first = first.unwrap_or(10);
    let derived = beginning(first, 0).div_ceil(DERIVED_TOGETHER as usize).saturating_add(1);
    beginning(first, per_item).saturating_add(derived.saturating_mul(DERIVED_BATCH))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use async_graphql::OutputType;
    use async_graphql::registry::{MetaField, MetaType, Registry};

    use crate::api::types::ledger::Ledger;
    use crate::api::{mutation, query};

    /// A list whose items the cost of its parent counts: the results of as many transactions as are sent.
    const COUNTED_BY_PARENT: [&str; 1] = ["PackageResult.results"];

    #[test]
    fn every_kind_of_key_costs_the_same() {
        let (extended, raw) = (
            "xpub6ERApfZwUNrhLCkDtcHTcxd75RbzS1ed54G1LkBUHQVHQKqhMkhgbmJbZRkrgZw4koxb5JaHWkY4ALHY2grBGRjaDMzQLcgJvLJuZZvRcEL",
            "03a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd",
        );
        for key in [extended, raw, &raw[2..], &format!("04{}{}", &raw[2..], &raw[2..])] {
            assert_eq!(super::descriptor(&format!("pk({key})")), super::PARSED_KEY, "{key}");
            assert_eq!(super::descriptor(&format!("wsh(multi(1,{key},[d34db33f/1h]{key}))")), 2 * super::PARSED_KEY);
        }
        assert_eq!(super::descriptor("addr(bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu)#89f8spxm"), 0);
    }

    /// Whether a field of this type returns a list or a page of one.
    fn is_many(field: &MetaField) -> bool {
        field.ty.contains('[') || field.ty.trim_end_matches('!').ends_with("Connection")
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        query::Query::create_type_info(&mut registry);
        mutation::Mutation::create_type_info(&mut registry);
        Ledger::create_type_info(&mut registry);
        registry
    }

    /// A document is counted as one of the types of an interface.
    #[test]
    fn a_field_of_an_interface_costs_something_of_each_of_its_types_or_of_none() {
        let (registry, mut checked) = (registry(), 0);
        for found in registry.types.values() {
            let MetaType::Interface { name, fields, possible_types, .. } = found else { continue };
            for field in fields.keys() {
                let says = |kind: &String| {
                    registry.types[kind].field_by_name(field).is_some_and(|field| field.compute_complexity.is_some())
                };
                let saying = possible_types.iter().filter(|kind| says(kind)).count();
                assert!(saying == 0 || saying == possible_types.len(), "{name}.{field}");
                checked += saying;
            }
        }
        assert!(checked >= 16, "the registry is understood");
    }

    #[test]
    fn every_field_of_many_things_says_what_it_costs() {
        let registry = registry();
        let mut silent = BTreeSet::new();
        let mut telling = 0;
        for (name, found) in &registry.types {
            let MetaType::Object { fields, .. } = found else { continue };
            // of a connection its parent says what it costs, and introspection has its own bounds
            if name.starts_with("__") || name.ends_with("Connection") {
                continue;
            }
            for field in fields.values().filter(|field| is_many(field)) {
                telling += 1;
                if field.compute_complexity.is_none() {
                    silent.insert(format!("{name}.{}", field.name));
                }
            }
        }
        assert!(telling > 50, "the registry is understood");
        assert_eq!(silent, COUNTED_BY_PARENT.map(str::to_owned).into(), "each needs a complexity");
    }
}
