//! The public key of an address, once the chain has revealed it.

use bitcoin::hashes::{Hash, hash160};
use bitcoin::{Script, ScriptBuf};

use crate::chain::ScriptType;
use crate::chain::script::{p2pk_key, revealed_key};
use crate::index::{IndexError, TxNum};
use crate::view::{BudgetExceeded, View};

impl View {
    /// The public key that a script commits to by its hash, if an output to the bare key (P2PK) or the first spend has
    /// revealed it. `None` for scripts that do not commit to one key.
    ///
    /// Errors: those of the index, and the byte budget, since transactions are read for it.
    pub fn public_key<E>(&self, script_pubkey: &Script) -> Result<Option<Vec<u8>>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        if let Some(hash) = key_hash(script_pubkey)
            && let Some(script) = self.p2pk_with_hash::<E>(hash)?.first()
        {
            return Ok(p2pk_key(script).map(<[u8]>::to_vec));
        }
        if !matches!(ScriptType::of(script_pubkey), ScriptType::P2pkh | ScriptType::P2wpkh | ScriptType::P2sh) {
            return Ok(None);
        }
        let Some(txnum) = self.first_spend(script_pubkey)? else { return Ok(None) };
        let spending = self.counted_transaction::<E>(txnum)?;
        let mut inputs = spending.parts.input.iter();
        Ok(inputs.find_map(|input| revealed_key(script_pubkey, &input.script_sig, &input.witness)))
    }

    /// The P2PK scripts that pay the public key of a script, if that is known.
    ///
    /// Errors: as of [`public_key`](Self::public_key).
    pub fn p2pk_scripts<E>(&self, script_pubkey: &Script) -> Result<Vec<ScriptBuf>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        if let Some(hash) = key_hash(script_pubkey) {
            return self.p2pk_with_hash(hash);
        }
        match self.public_key::<E>(script_pubkey)? {
            Some(key) => self.p2pk_with_hash(hash160::Hash::hash(&key)),
            None => Ok(Vec::new()),
        }
    }

    fn p2pk_with_hash<E>(&self, hash: hash160::Hash) -> Result<Vec<ScriptBuf>, E>
    where
        E: From<IndexError> + From<BudgetExceeded>,
    {
        let mut scripts = Vec::new();
        for (_, txnum) in self.head.chain.p2pk_scripts(hash)? {
            let paying = self.counted_transaction::<E>(txnum)?;
            let pays = |script: &&ScriptBuf| p2pk_key(script).is_some_and(|key| hash160::Hash::hash(key) == hash);
            let script = paying.parts.output.iter().map(|output| &output.script_pubkey).find(pays);
            scripts.push(
                script
                    .cloned()
                    .ok_or_else(|| IndexError::corrupt("p2pk", format!("transaction {txnum} pays no such key")))?,
            );
        }
        Ok(scripts)
    }

    /// The first transaction that spent an output of a script. Found by bisection: the running count of spent outputs
    /// never falls.
    fn first_spend(&self, script_pubkey: &Script) -> Result<Option<TxNum>, IndexError> {
        let script = self.script_key(script_pubkey);
        let spent_before = |end: u32| {
            let row = self.head.chain.totals(script, TxNum(end))?;
            Ok::<_, IndexError>(row.filter(|(_, row)| row.outputs_spent > 0).map(|(txnum, _)| txnum))
        };
        let Some(newest) = spent_before(u32::MAX)? else { return Ok(None) };
        // a row at `high` has spent something, all rows before `low` have not
        let (mut low, mut high) = (0, newest.0);
        while low < high {
            let middle = low + (high - low) / 2;
            match spent_before(middle.saturating_add(1))? {
                Some(txnum) => high = txnum.0,
                None => low = middle + 1,
            }
        }
        Ok(Some(TxNum(high)))
    }
}

/// The HASH160 of a public key in a script.
fn key_hash(script_pubkey: &Script) -> Option<hash160::Hash> {
    let bytes = script_pubkey.as_bytes();
    let hash = match ScriptType::of(script_pubkey) {
        ScriptType::P2pkh => &bytes[3..23],
        ScriptType::P2wpkh => &bytes[2..22],
        _ => return None,
    };
    hash160::Hash::from_slice(hash).ok()
}
