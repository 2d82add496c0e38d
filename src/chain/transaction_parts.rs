//! The parts of a transaction, which are decoded when they are first asked for: of most funding transactions an answer needs one
//! output, which is sliced out of the bytes.

use std::ops::{Deref, Range};
use std::sync::OnceLock;

use bitcoin::consensus::deserialize;
use bitcoin::{Amount, OutPoint, Script, TxOut, Txid};

use super::raw::{MAX_BLOCK_SIZE, RawOutput, RawTransaction, first_script_sig};

/// A transaction as it is serialised, and its parts.
#[derive(Clone, Debug)]
pub struct TransactionParts {
    raw: Vec<u8>,
    /// The amount of each output in sat, and where its script is in the serialisation.
    outputs: Box<[(u64, Range<u32>)]>,
    decoded: OnceLock<bitcoin::Transaction>,
}

/// An output of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputPart<'a> {
    /// Its amount.
    pub value: Amount,
    /// The script that a spend must satisfy.
    pub script_pubkey: &'a Script,
}

impl<'a> From<&'a TxOut> for OutputPart<'a> {
    fn from(output: &'a TxOut) -> Self {
        Self { value: output.value, script_pubkey: &output.script_pubkey }
    }
}

impl<'a> From<RawOutput<'a>> for OutputPart<'a> {
    fn from(RawOutput { value, script_pubkey }: RawOutput<'a>) -> Self {
        Self { value: Amount::from_sat(value), script_pubkey: Script::from_bytes(script_pubkey) }
    }
}

impl OutputPart<'_> {
    /// A copy of it.
    #[must_use]
    pub fn to_tx_out(&self) -> TxOut {
        TxOut { value: self.value, script_pubkey: self.script_pubkey.to_owned() }
    }
}

/// The first outpoint of a transaction with an index, 2^31 or above, that no output has: a block has room for fewer outputs. That
/// of a coinbase, which spends none, has such an index, too.
#[must_use]
pub fn impossible_outpoint(parts: &bitcoin::Transaction) -> Option<OutPoint> {
    let mut outpoints = parts.input.iter().map(|input| input.previous_output);
    outpoints.find(|outpoint| i32::try_from(outpoint.vout).is_err())
}

impl TransactionParts {
    /// The parts of serialised bytes with this txid, which are decoded later.
    ///
    /// Errors: the reason why the bytes are no transaction, or that they are another.
    pub fn with_txid(raw: Vec<u8>, txid: &Txid) -> Result<Self, String> {
        Self::parsed(raw, |parsed| parsed.txid() == *txid)
    }

    /// Parts with their serialisation, witness included.
    #[must_use]
    pub fn new(parts: bitcoin::Transaction, raw: Vec<u8>) -> Self {
        Self { raw, outputs: Box::default(), decoded: OnceLock::from(parts) }
    }

    /// The parts of serialised bytes, which are decoded later.
    ///
    /// Errors: the reason why the bytes are no transaction.
    pub fn of(raw: Vec<u8>) -> Result<Self, String> {
        Self::parsed(raw, |_| true)
    }

    fn parsed(raw: Vec<u8>, is_wanted: impl FnOnce(&RawTransaction<'_>) -> bool) -> Result<Self, String> {
        let parsed = RawTransaction::parse_whole(&raw).map_err(|error| error.to_string())?;
        if !is_wanted(&parsed) {
            return Err("they are another transaction".into());
        }
        // smaller witnesses are below the limits of the library
        let may_be_refused = raw.len() > usize::try_from(MAX_BLOCK_SIZE).unwrap_or(0);
        if may_be_refused {
            let parts = deserialize(&raw).map_err(|error| error.to_string())?;
            return Ok(Self::new(parts, raw));
        }
        let places = parsed.output_places().map(|(value, script)| (value, small(script.start)..small(script.end)));
        // allocated once: the iterator does not know its length
        let mut outputs = Vec::with_capacity(parsed.output_count());
        outputs.extend(places);
        Ok(Self { outputs: outputs.into(), raw, decoded: OnceLock::new() })
    }

    /// The serialisation, witness included.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The scriptSig of its first input. Decodes nothing.
    #[must_use]
    pub fn first_script_sig(&self) -> Option<&Script> {
        first_script_sig(&self.raw).map(Script::from_bytes)
    }

    /// About how many bytes it takes in memory once it is decoded, beside a fixed number: decoded scripts and witnesses, each with an
    /// allocation of its own, usually take twice as many as serialised ones, and each output a value.
    #[must_use]
    pub fn memory(&self) -> usize {
        let outputs =
            self.outputs.len().saturating_mul(2 * size_of::<TxOut>()).saturating_add(size_of_val(&*self.outputs));
        self.raw.len().saturating_mul(3).saturating_add(outputs)
    }

    /// The outputs, in order. Decodes nothing.
    pub fn outputs(&self) -> impl Iterator<Item = OutputPart<'_>> {
        (0..).map_while(|vout| self.output(vout))
    }

    /// The output with this number, if there is one. Decodes nothing.
    #[must_use]
    pub fn output(&self, vout: u32) -> Option<OutputPart<'_>> {
        let vout = usize::try_from(vout).ok()?;
        if let Some(parts) = self.decoded.get() {
            return parts.output.get(vout).map(OutputPart::from);
        }
        let (value, script) = self.outputs.get(vout)?;
        let script = self.raw.get(usize::try_from(script.start).ok()?..usize::try_from(script.end).ok()?)?;
        Some(RawOutput { value: *value, script_pubkey: script }.into())
    }
}

/// A place in a transaction that is no larger than a block.
fn small(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

impl Deref for TransactionParts {
    type Target = bitcoin::Transaction;

    fn deref(&self) -> &bitcoin::Transaction {
        self.decoded.get_or_init(|| {
            // cannot fail: `of` checks all that the library does, but for limits that need more bytes
            deserialize(&self.raw).unwrap_or_else(|error| {
                tracing::error!(%error, "a transaction that was checked cannot be decoded");
                EMPTY
            })
        })
    }
}

const EMPTY: bitcoin::Transaction = bitcoin::Transaction {
    version: bitcoin::transaction::Version::ONE,
    lock_time: bitcoin::absolute::LockTime::ZERO,
    input: Vec::new(),
    output: Vec::new(),
};

impl PartialEq for TransactionParts {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for TransactionParts {}

#[cfg(test)]
mod tests {
    use bitcoin::consensus::{deserialize, serialize};
    use bitcoin::{OutPoint, ScriptBuf, Sequence, Transaction, TxIn, Witness};
    use proptest::prelude::*;

    use super::*;

    fn transaction() -> Transaction {
        let input = |witness: &[&[u8]]| TxIn {
            previous_output: OutPoint::default(),
            script_sig: ScriptBuf::from_bytes(vec![0x51; 3]),
            sequence: Sequence::MAX,
            witness: Witness::from_slice(witness),
        };
        let output = |value, script: &[u8]| TxOut {
            value: Amount::from_sat(value),
            script_pubkey: ScriptBuf::from_bytes(script.to_vec()),
        };
        Transaction {
            input: vec![input(&[&[1; 70], &[2; 33]]), input(&[])],
            output: vec![output(7, &[0x6a]), output(9, &[0; 22]), output(11, &[])],
            ..EMPTY
        }
    }

    #[test]
    fn outputs_are_the_same_before_and_after_decoding() {
        let expected = transaction();
        let parts = TransactionParts::of(serialize(&expected)).unwrap();
        let outputs = || (0..4).map(|vout| parts.output(vout).map(|output| output.to_tx_out())).collect::<Vec<_>>();
        let sliced = outputs();
        assert!(parts.decoded.get().is_none(), "a look at outputs decodes nothing");
        assert_eq!(sliced[..3], expected.output.iter().cloned().map(Some).collect::<Vec<_>>());
        assert_eq!(sliced[3], None);
        assert_eq!(*parts, expected);
        assert_eq!(outputs(), sliced);
        assert_eq!(parts, TransactionParts::new(expected.clone(), serialize(&expected)));
    }

    #[test]
    fn a_witness_beyond_the_limit_of_the_library_is_refused_at_once() {
        let mut large = transaction();
        large.input[0].witness = Witness::from_slice(&[vec![0; 4_000_001]]);
        assert!(TransactionParts::of(serialize(&large)).is_err());
    }

    proptest! {
        #[test]
        fn what_is_accepted_can_be_decoded(place in any::<prop::sample::Index>(), byte: u8, length in any::<prop::sample::Index>()) {
            let mut bytes = serialize(&transaction());
            let place = place.index(bytes.len());
            bytes[place] = byte;
            for end in [bytes.len(), length.index(bytes.len())] {
                let bytes = &bytes[..end];
                match TransactionParts::of(bytes.to_vec()) {
                    Ok(parts) => {
                        let decoded = deserialize::<Transaction>(bytes).ok();
                        prop_assert_eq!(decoded.as_ref(), Some(&*parts));
                    }
                    Err(reason) => prop_assert!(!reason.is_empty()),
                }
            }
        }
    }
}
