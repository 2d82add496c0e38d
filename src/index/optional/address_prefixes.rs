//! Lookups of addresses by their beginning, through the live rows of the optional table `address_prefixes` and the files of
//! generations.

use std::iter::Peekable;
use std::sync::Arc;

use redb::ReadOnlyTable;

use super::super::error::IndexError;
use super::super::hot::tables::address_prefixes::{self, AddressCode, AddressKey};
use super::super::keys::{ScriptKey, TxNum};
use super::super::snapshot::Snapshot;
use super::OptionalTable;

/// The entries of one generation.
type FrozenEntries = Peekable<Box<dyn Iterator<Item = Result<(AddressCode, TxNum), IndexError>>>>;

/// The beginnings of addresses, in their order, each with transactions that pay the addresses with it.
pub struct AddressCandidates {
    frozen: Vec<FrozenEntries>,
    live: Option<Arc<ReadOnlyTable<&'static [u8; 26], ()>>>,
    /// The first live row that is not read yet, and the last of the range.
    next_live: Option<AddressKey>,
    last_live: AddressKey,
}

/// A beginning of addresses, and transactions that pay them: of each address at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressCandidate {
    code: AddressCode,
    /// The transactions, oldest first.
    pub txnums: Vec<TxNum>,
}

impl AddressCandidate {
    /// Whether an address begins so.
    #[must_use]
    pub fn is_of(&self, address: &str) -> bool {
        AddressCode::of(address) == Some(self.code)
    }

    /// A number of 60 bits that sorts as the addresses do that begin with the same six characters.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.code.after_six()
    }
}

impl Snapshot {
    /// The addresses that transactions of the active chain pay and that begin with a text, or with its first 16 characters:
    /// in their order, read lazily. None if no address has such characters.
    ///
    /// Errors: [`IndexError::TableOff`] or `TableNotReady` unless the table `address_prefixes` is on and complete; storage
    /// errors.
    pub fn addresses_with_prefix(&self, prefix: &str) -> Result<Option<AddressCandidates>, IndexError> {
        let table = OptionalTable::AddressPrefixes;
        self.check_complete(table)?;
        let Some((low, high)) = AddressCode::range(prefix) else { return Ok(None) };
        let mut frozen = Vec::new();
        for of in self.generations.iter() {
            if let Some(file) = of.derived(table) {
                let end = of.end;
                let entries = file.addresses((low, high))?;
                // a generation that was shortened has addresses of blocks that left the chain
                let entries = entries.filter(move |entry| !entry.as_ref().is_ok_and(|(_, txnum)| *txnum >= end));
                let entries: Box<dyn Iterator<Item = _>> = Box::new(entries);
                frozen.push(entries.peekable());
            }
        }
        Ok(Some(AddressCandidates {
            frozen,
            live: self.optional.address_prefixes.clone(),
            next_live: Some(address_prefixes::key(low, ScriptKey([0; 10]), TxNum(0))),
            last_live: address_prefixes::key(high, ScriptKey([u8::MAX; 10]), TxNum(u32::MAX)),
        }))
    }
}

impl AddressCandidates {
    /// The next live row, without reading it again: one seek.
    fn peek_live(&mut self) -> Result<Option<AddressKey>, IndexError> {
        let (Some(live), Some(from)) = (&self.live, self.next_live) else { return Ok(None) };
        let row = live.range::<&AddressKey>(&from..=&self.last_live)?.next().transpose()?;
        self.next_live = row.map(|(key, _)| *key.value()).filter(|key| *key <= self.last_live);
        Ok(self.next_live)
    }

    /// Passes over all rows of one script.
    fn skip_live(&mut self, code: AddressCode, script: ScriptKey) {
        let last = address_prefixes::key(code, script, TxNum(u32::MAX));
        let next = last.iter().rposition(|byte| *byte != u8::MAX).map(|at| {
            let mut next = last;
            next[at] += 1;
            next[at + 1..].fill(0);
            next
        });
        self.next_live = next.filter(|next| *next <= self.last_live);
    }

    /// The next beginning.
    ///
    /// Errors: storage errors.
    pub fn next_candidate(&mut self) -> Result<Option<AddressCandidate>, IndexError> {
        let mut lowest = self.peek_live()?.map(|key| address_prefixes::split_key(&key).0);
        for entries in &mut self.frozen {
            if let Some(Err(error)) = entries.next_if(Result::is_err) {
                return Err(error);
            }
            let code = entries.peek().and_then(|entry| entry.as_ref().ok()).map(|(code, _)| *code);
            lowest = lowest.into_iter().chain(code).min();
        }
        let Some(code) = lowest else { return Ok(None) };
        let mut txnums = Vec::new();
        for entries in &mut self.frozen {
            let is_same = |entry: &Result<(AddressCode, TxNum), IndexError>| {
                entry.as_ref().is_ok_and(|(other, _)| *other == code)
            };
            while let Some(Ok((_, txnum))) = entries.next_if(is_same) {
                txnums.push(txnum);
            }
        }
        while let Some(key) = self.peek_live()? {
            let (other, script, txnum) = address_prefixes::split_key(&key);
            if other != code {
                break;
            }
            txnums.push(txnum);
            self.skip_live(code, script);
        }
        txnums.sort_unstable();
        txnums.dedup();
        Ok(Some(AddressCandidate { code, txnums }))
    }
}
