//! The answer of REST `spenttxouts` (Core 30): for each transaction of a block, the outputs that its inputs spend.
//! A count of transactions; for each a count of outputs, then the outputs as in a transaction. The coinbase comes
//! first and spends nothing (Core's `src/rest.cpp`, `SerializeBlockUndo`).

use bitcoin::TxOut;
use bitcoin::consensus::encode::{Decodable, VarInt};

/// Decodes the whole answer; trailing bytes are an error.
pub(super) fn parse(mut bytes: &[u8]) -> Result<Vec<Vec<TxOut>>, String> {
    let transactions = count(&mut bytes)?;
    let mut spent = Vec::new();
    for index in 0..transactions {
        // the decoder bounds what it allocates before it has read it
        let outputs = Vec::<TxOut>::consensus_decode(&mut bytes)
            .map_err(|error| format!("the outputs spent by transaction {index}: {error}"))?;
        if index == 0 && !outputs.is_empty() {
            return Err("the coinbase spends outputs".to_owned());
        }
        spent.push(outputs);
    }
    if spent.is_empty() {
        return Err("it lists no transaction, and every block has one".to_owned());
    }
    if bytes.is_empty() { Ok(spent) } else { Err(format!("{} bytes are left over", bytes.len())) }
}

fn count(bytes: &mut &[u8]) -> Result<u64, String> {
    VarInt::consensus_decode(bytes).map(|count| count.0).map_err(|error| format!("the count of transactions: {error}"))
}

#[cfg(test)]
mod tests {
    use bitcoin::consensus::encode::serialize;
    use bitcoin::{Amount, ScriptBuf};
    use proptest::prelude::*;

    use super::*;

    fn encode(spent: &[Vec<TxOut>]) -> Vec<u8> {
        let mut bytes = serialize(&VarInt::from(spent.len()));
        for outputs in spent {
            bytes.extend(serialize(outputs));
        }
        bytes
    }

    fn output() -> impl Strategy<Value = TxOut> {
        (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..300)).prop_map(|(value, script)| TxOut {
            value: Amount::from_sat(value),
            script_pubkey: ScriptBuf::from_bytes(script),
        })
    }

    proptest! {
        #[test]
        fn an_answer_decodes_and_a_shorter_or_longer_one_is_an_error(
            mut spent in proptest::collection::vec(proptest::collection::vec(output(), 0..5), 0..5),
            cut in 1usize..40,
        ) {
            spent.insert(0, Vec::new());
            let mut bytes = encode(&spent);
            prop_assert_eq!(parse(&bytes).unwrap(), spent);
            let shorter = &bytes[..bytes.len().saturating_sub(cut)];
            prop_assert!(parse(shorter).is_err());
            bytes.push(0);
            prop_assert!(parse(&bytes).unwrap_err().contains("left over"));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn a_count_of_billions_with_nothing_behind_it_is_an_error() {
        assert!(parse(&[0xff; 9]).is_err());
        assert!(parse(&[1, 0xfe, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(parse(&[0]).is_err());
        assert_eq!(parse(&[1, 0]).unwrap(), [vec![]]);
    }
}
