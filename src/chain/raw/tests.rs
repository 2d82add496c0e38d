use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::transaction::Version;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};
use proptest::prelude::*;

use super::*;

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..most)
}

prop_compose! {
    fn input()(txid: [u8; 32], vout: u32, script in bytes(300), sequence: u32, witness in proptest::collection::vec(bytes(80), 0..4)) -> TxIn {
        TxIn {
            previous_output: OutPoint { txid: Txid::from_byte_array(txid), vout },
            script_sig: ScriptBuf::from(script),
            sequence: Sequence(sequence),
            witness: Witness::from_slice(&witness),
        }
    }
}

prop_compose! {
    fn transaction()(
        version: i32,
        lock_time: u32,
        input in proptest::collection::vec(input(), 1..4),
        output in proptest::collection::vec((any::<u64>(), bytes(300)), 0..4),
    ) -> Transaction {
        let output = output.into_iter().map(|(value, script)| TxOut { value: Amount::from_sat(value), script_pubkey: ScriptBuf::from(script) });
        Transaction { version: Version(version), lock_time: LockTime::from_consensus(lock_time), input, output: output.collect() }
    }
}

proptest! {
    #[test]
    fn the_first_script_sig_is_sliced_out_without_the_rest(transaction in transaction(), end in any::<prop::sample::Index>()) {
        let serialized = serialize(&transaction);
        let expected = transaction.input[0].script_sig.as_bytes();
        prop_assert_eq!(first_script_sig(&serialized), Some(expected));
        let cut = &serialized[..end.index(serialized.len())];
        prop_assert!(first_script_sig(cut).is_none_or(|found| found == expected));
        // a count of inputs that is zero, behind the version
        prop_assert_eq!(first_script_sig(&[1, 0, 0, 0, 0, 1, 0, 9]), None);
    }

    #[test]
    fn agrees_with_the_decoder_of_rust_bitcoin(transaction in transaction(), behind in bytes(20)) {
        let mut serialized = serialize(&transaction);
        let size = serialized.len();
        serialized.extend(behind);
        let raw = RawTransaction::parse(&serialized).unwrap();
        prop_assert_eq!(raw.bytes(), &serialized[..size]);
        prop_assert_eq!(raw.txid(), transaction.compute_txid());
        prop_assert_eq!(raw.wtxid(), transaction.compute_wtxid());
        prop_assert_eq!(raw.size(), transaction.total_size());
        prop_assert_eq!(raw.stripped_size(), transaction.base_size());
        prop_assert_eq!(raw.weight() as u64, transaction.weight().to_wu());
        prop_assert_eq!(raw.version().cast_signed(), transaction.version.0);
        prop_assert_eq!(raw.lock_time(), transaction.lock_time.to_consensus_u32());
        prop_assert_eq!(raw.is_coinbase(), transaction.is_coinbase());
        prop_assert_eq!(raw.inputs().count(), transaction.input.len());
        for (raw, input) in raw.inputs().zip(&transaction.input) {
            prop_assert_eq!(raw.outpoint_txid(), input.previous_output.txid);
            prop_assert_eq!(raw.vout, input.previous_output.vout);
            prop_assert_eq!(raw.script_sig, input.script_sig.as_bytes());
            prop_assert_eq!(raw.sequence, input.sequence.0);
        }
        prop_assert_eq!(raw.outputs().count(), transaction.output.len());
        for (vout, output) in (0..).zip(&transaction.output) {
            let raw = raw.output(vout).unwrap();
            prop_assert_eq!(raw.value, output.value.to_sat());
            prop_assert_eq!(raw.script_pubkey, output.script_pubkey.as_bytes());
        }
        if raw.has_witness() {
            let witnesses: Vec<Vec<Vec<u8>>> = transaction.input.iter().map(|input| input.witness.to_vec()).collect();
            prop_assert_eq!(raw.witnesses().map(|stack| stack.iter().map(|item| item.to_vec()).collect::<Vec<_>>()).collect::<Vec<_>>(), witnesses);
        }
    }

    #[test]
    fn a_cut_transaction_is_an_error_and_no_bytes_panic(transaction in transaction(), cut in any::<prop::sample::Index>(), noise in bytes(400)) {
        let serialized = serialize(&transaction);
        prop_assert!(RawTransaction::parse(&serialized[..cut.index(serialized.len())]).is_err());
        let _ = RawTransaction::parse(&noise);
        let _ = (RawBlock::parse(&noise), RawBlock::coinbase(&noise));
    }
}

#[test]
fn a_length_in_a_longer_form_than_needed_is_refused() {
    let transaction = [&[1, 0, 0, 0, 0xfd, 1, 0][..], &[0; 60]].concat();
    assert_eq!(RawTransaction::parse(&transaction).unwrap_err(), RawError::NonCanonicalLength { offset: 4 });
}

#[test]
fn a_block_is_its_header_and_its_transactions_to_the_last_byte() {
    let block = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin);
    let mut serialized = serialize(&block);
    let raw = RawBlock::parse(&serialized).unwrap();
    assert_eq!(raw.frame_size, 81);
    assert_eq!(raw.transactions.len(), 1);
    assert!(raw.transactions[0].is_coinbase());
    assert_eq!(raw.transactions[0].txid(), block.txdata[0].compute_txid());
    serialized.push(0);
    assert_eq!(RawBlock::parse(&serialized).unwrap_err(), RawError::TrailingBytes { count: 1 });
    assert_eq!(RawBlock::coinbase(&serialized).unwrap().txid(), block.txdata[0].compute_txid());
    let cut = &serialized[..serialized.len() - 2];
    assert_eq!(RawBlock::coinbase(cut).unwrap_err(), RawBlock::parse(cut).unwrap_err());
    serialized[HEADER_SIZE] = 0;
    assert_eq!(RawBlock::coinbase(&serialized).unwrap_err(), RawError::UnknownFormat { offset: HEADER_SIZE });
}

#[test]
fn transactions_are_split_where_they_end() {
    let block = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin);
    let one = serialize(&block.txdata[0]);
    let two = [one.clone(), one.clone()].concat();
    let split = split_transactions(2, &two).unwrap();
    assert_eq!(split.iter().map(|transaction| transaction.bytes().to_vec()).collect::<Vec<_>>(), [one.clone(), one]);
    assert!(split_transactions(3, &two).is_err());
}
