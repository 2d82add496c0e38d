//! Transactions that a client brings, and what it lets them cost.

use std::sync::Arc;

use bitcoin::consensus::deserialize;
use bitcoin::hex::DisplayHex;
use bitcoin::{Amount, Txid, Wtxid};

use crate::api::error::ApiError;
use crate::api::scalars::{Hex, Sats};
use crate::chain::raw::RawTransaction;
use crate::chain::{Feerate, impossible_outpoint};
use crate::limits::PACKAGE_SIZE;
use crate::view::MaxFees;

/// From this feerate on, in sat/vB, a node takes a limit for a mistake (Core's `ParseFeeRate`: 1 BTC for 1,000 vbytes).
const ABSURD: u64 = 100_000;

/// A transaction as a client submitted it.
#[derive(Clone)]
pub(crate) struct Submission {
    /// Its parts.
    pub(crate) parts: Arc<bitcoin::Transaction>,
    /// Its bytes.
    pub(crate) raw: Vec<u8>,
    /// Its id.
    pub(crate) txid: Txid,
    /// Its id with witnesses.
    pub(crate) wtxid: Wtxid,
}

impl Submission {
    /// The transaction of these bytes. Errors: why they are none, and where; or an outpoint that no transaction can spend.
    pub(crate) fn read(hex: Hex) -> Result<Self, String> {
        let raw = hex.into_bytes();
        // it names the place, and refuses what nodes do: a witness without inputs
        RawTransaction::parse_whole(&raw).map_err(|error| error.to_string())?;
        let parts: bitcoin::Transaction = deserialize(&raw).map_err(|error| error.to_string())?;
        if let Some(outpoint) = impossible_outpoint(&parts).filter(|_| !parts.is_coinbase()) {
            return Err(format!("it spends {outpoint}, and no output has an index above {}", i32::MAX));
        }
        Ok(Self { txid: parts.compute_txid(), wtxid: parts.compute_wtxid(), parts: Arc::new(parts), raw })
    }

    /// As a node reads it.
    pub(crate) fn to_hex(&self) -> String {
        self.raw.to_lower_hex_string()
    }
}

/// Whether so many transactions can be handed to the node together. Errors: BAD_USER_INPUT for none, QUERY_LIMIT_EXCEEDED
/// for too many.
pub(crate) fn check_package(count: usize) -> Result<(), ApiError> {
    if count == 0 {
        return Err(ApiError::bad_argument("hexes", "is empty: give at least one transaction"));
    }
    let (count, limit) = (u64::try_from(count).unwrap_or(u64::MAX), PACKAGE_SIZE.into());
    if count > limit { Err(ApiError::argument_exceeds("hexes", "packageTransactions", limit, count)) } else { Ok(()) }
}

/// What transactions may cost. Errors: BAD_USER_INPUT.
pub(crate) fn max_fees(max_fee_rate: Option<f64>, max_burn: Option<Sats>) -> Result<MaxFees, ApiError> {
    let burn = max_burn.map(|burn| Amount::from_sat(burn.to_sat()));
    Ok(MaxFees { feerate: max_feerate(max_fee_rate)?, burn })
}

/// The highest feerate that transactions may pay; zero for any. Errors: BAD_USER_INPUT.
pub(crate) fn max_feerate(sat_per_vb: Option<f64>) -> Result<Option<Feerate>, ApiError> {
    let Some(given) = sat_per_vb else { return Ok(None) };
    let read = Feerate::from_sat_per_vb(given).filter(|rate| rate.to_sat_per_kvb() < ABSURD * 1_000);
    let fault = || format!("is {given}, and it must be at least 0 (no limit) and below {ABSURD} sat/vB");
    let read = read.ok_or_else(|| ApiError::bad_argument("maxFeeRate", fault()))?;
    // what rounds to zero would mean any
    if read == Feerate::ZERO && given > 0.0 {
        return Ok(Some(Feerate::from_sat_per_kvb(1)));
    }
    Ok(Some(read))
}

#[cfg(test)]
mod tests {
    use bitcoin::consensus::serialize;
    use bitcoin::hashes::Hash;
    use bitcoin::hex::FromHex;
    use bitcoin::{OutPoint, TxIn, TxOut};

    use super::*;

    #[test]
    fn bytes_that_are_no_transaction_are_refused_with_the_place() {
        let whole =
            ["0200000001", &"00".repeat(32), "01000000", "00", "00000000", "01", "0000000000000000", "00", "00000000"]
                .concat();
        let refusal = |text: &str| Submission::read(Hex::new(Vec::from_hex(text).unwrap())).err();
        assert_eq!(refusal(&whole), None);
        for (text, why) in [
            ("", "the bytes end early, within the field that begins at offset 0"),
            ("00", "the bytes end early, within the field that begins at offset 0"),
            (&whole[..80], "the bytes end early, within the field that begins at offset 5"),
            (&whole[..whole.len() - 2], "the bytes end early, within the field that begins at offset 56"),
            (&format!("{whole}0000"), "2 bytes are left over at the end"),
            (
                "02000000000000000000",
                "there is no input, or the marker of witnesses at offset 4 has not the flag 1 behind it",
            ),
            (
                "020000000001000000000000",
                "there is no input, or the marker of witnesses at offset 6 has not the flag 1 behind it",
            ),
        ] {
            assert_eq!(refusal(text).as_deref(), Some(why), "{text}");
        }
    }

    #[test]
    fn an_index_that_no_output_has_is_refused_but_in_a_coinbase() {
        let transaction = |spent: &[OutPoint]| bitcoin::Transaction {
            version: bitcoin::transaction::Version::TWO,
            lock_time: bitcoin::absolute::LockTime::ZERO,
            input: spent.iter().map(|spent| TxIn { previous_output: *spent, ..TxIn::default() }).collect(),
            output: vec![TxOut { value: Amount::ZERO, script_pubkey: bitcoin::ScriptBuf::new() }],
        };
        let refusal = |spent: &[OutPoint]| Submission::read(Hex::new(serialize(&transaction(spent)))).err();
        let with_index = |vout| OutPoint { txid: Txid::from_byte_array([0xaa; 32]), vout };
        let (last, null) = (with_index(0x7fff_ffff), OutPoint::null());
        assert_eq!([refusal(&[last]), refusal(&[null])], [None, None]);
        for spent in [with_index(0x8000_0000), with_index(u32::MAX), null] {
            let expected = format!("it spends {spent}, and no output has an index above 2147483647");
            assert_eq!(refusal(&[last, spent]), Some(expected), "{spent}");
        }
    }

    #[test]
    fn a_limit_for_feerates_is_what_a_node_takes_for_one() {
        let read = |given| max_feerate(Some(given)).map(|rate| rate.map(Feerate::to_sat_per_kvb));
        assert_eq!([read(0.0), read(1.5), read(0.000_1)], [Ok(Some(0)), Ok(Some(1_500)), Ok(Some(1))]);
        assert_eq!(max_feerate(None), Ok(None));
        for bad in [-1.0, 100_000.0, f64::NAN, f64::INFINITY] {
            assert_eq!(read(bad).map_err(|error| error.code()), Err("BAD_USER_INPUT"), "{bad}");
        }
    }

    #[test]
    fn a_package_has_1_to_25_transactions() {
        assert_eq!(check_package(0).unwrap_err().code(), "BAD_USER_INPUT");
        assert_eq!((check_package(1), check_package(25)), (Ok(()), Ok(())));
        assert_eq!(check_package(26), Err(ApiError::argument_exceeds("hexes", "packageTransactions", 25, 26)));
    }
}
