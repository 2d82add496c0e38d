//! Used addresses and OP_RETURN outputs by their beginnings.

use std::collections::BTreeMap;
use std::ops::Range;

use bitcoin::ScriptBuf;

use super::View;
use crate::chain::address_of;
use crate::index::{IndexError, OpReturnPosition, TxNum};

/// The most transactions that a lookup reads. One address has a few, one in each generation of the index that pays it.
const MOST_READ: usize = 200;

/// An address that was found by its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAddress {
    /// A number that sorts as the addresses do that begin with the same six characters.
    pub position: u64,
    /// The script that it stands for.
    pub script: ScriptBuf,
}

impl View {
    /// The OP_RETURN outputs of these transactions of the active chain whose pushed data has the same first three bytes as
    /// `prefix`, in the order of the chain, read lazily from either end.
    ///
    /// Errors: [`IndexError::TableOff`], `TableNotReady`; those of the index.
    pub fn op_returns(
        &self,
        prefix: &[u8],
        txnums: &Range<TxNum>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<OpReturnPosition, IndexError>> + use<>, IndexError> {
        self.head.chain.op_returns(prefix, txnums)
    }

    /// The first addresses that transactions of the active chain pay and that begin with a text, in the order of ASCII, at
    /// most so many. `count` receives the bytes of each transaction that is read.
    ///
    /// `None` unless the table is on and complete.
    ///
    /// Errors: those of `count` and of the index.
    pub fn addresses_with_prefix<E: From<IndexError>>(
        &self,
        prefix: &str,
        most: usize,
        mut count: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Option<Vec<FoundAddress>>, E> {
        let mut found = Vec::new();
        let mut candidates = match self.head.chain.addresses_with_prefix(prefix) {
            Err(IndexError::TableOff { .. } | IndexError::TableNotReady { .. }) => return Ok(None),
            Ok(Some(candidates)) => candidates,
            Ok(None) => return Ok(Some(found)),
            Err(error) => return Err(error.into()),
        };
        let mut reads = 0;
        while found.len() < most
            && let Some(candidate) = candidates.next_candidate()?
        {
            // those whose first characters are the same, in order
            let mut same = BTreeMap::new();
            for txnum in &candidate.txnums {
                if reads == MOST_READ {
                    return Ok(Some(found));
                }
                reads += 1;
                let missing = || IndexError::Corrupt {
                    table: "address_prefixes",
                    what: format!("transaction {txnum} of an address is missing"),
                };
                let stored = self.head.chain.transaction(*txnum)?.ok_or_else(missing)?;
                count(stored.parts.raw().len())?;
                for script in stored.parts.outputs().map(|output| output.script_pubkey) {
                    let address = address_of(script, self.network());
                    if let Some(address) = address.filter(|it| it.starts_with(prefix) && candidate.is_of(it)) {
                        same.insert(address, script.to_owned());
                    }
                }
            }
            let position = |rank: u64| candidate.position() << 3 | rank.min(7);
            let ranked = (0..).zip(same.into_values()).take(most - found.len());
            found.extend(ranked.map(|(rank, script)| FoundAddress { position: position(rank), script }));
        }
        Ok(Some(found))
    }
}
