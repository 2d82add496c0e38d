//! What all submissions have in common: how their transactions, and the limits on fees and burnt amounts, are read.

use bitcoin::consensus::encode::deserialize_hex;
use bitcoin::{Amount, Denomination, Transaction};
use serde_json::Value;

use super::error::{RpcFailure, code};
use crate::chain::script::never_spendable;

/// The most transactions of a package (`MAX_PACKAGE_COUNT` of Core's `policy/packages.h`).
const MAX_COUNT: usize = 25;

/// The default maximum fee of a transaction for 1,000 virtual bytes (`DEFAULT_MAX_RAW_TX_FEE_RATE` of Core's
/// `node/transaction.h`).
const HIGHEST_FEE_RATE: Amount = Amount::from_sat(10_000_000);

/// The transactions of a parameter: 1 to 25 in hexadecimal.
pub(super) fn package(given: &Value) -> Result<Vec<Transaction>, RpcFailure> {
    let given = given.as_array().map(Vec::as_slice).unwrap_or_default();
    if given.is_empty() || given.len() > MAX_COUNT {
        let message = format!("Array must contain between 1 and {MAX_COUNT} transactions.");
        return Err(RpcFailure::new(code::INVALID_PARAMETER, message));
    }
    let read = |given: &Value| {
        let given = given.as_str().unwrap_or_default();
        transaction(given).ok_or_else(|| {
            let message = format!("TX decode failed: {given} Make sure the tx has at least one input.");
            RpcFailure::new(code::DESERIALIZATION, message)
        })
    };
    given.iter().map(read).collect()
}

pub(super) fn transaction(hex: &str) -> Option<Transaction> {
    deserialize_hex(hex).ok()
}

/// The maximum fee for 1,000 virtual bytes; `None` for no maximum.
pub(super) fn highest_rate(rate: &Value) -> Result<Option<Amount>, RpcFailure> {
    let rate = amount(rate, HIGHEST_FEE_RATE)?;
    if rate >= Amount::ONE_BTC {
        let message = "Fee rates larger than or equal to 1BTC/kvB are not accepted";
        return Err(RpcFailure::new(code::INVALID_PARAMETER, message));
    }
    Ok((rate > Amount::ZERO).then_some(rate))
}

/// Whether an unspendable output has a higher value than this.
pub(super) fn burns_more_than(highest: Amount, tx: &Transaction) -> bool {
    tx.output.iter().any(|output| never_spendable(&output.script_pubkey) && output.value > highest)
}

/// An amount in BTC, as a number or as text.
pub(super) fn amount(value: &Value, otherwise: Amount) -> Result<Amount, RpcFailure> {
    let read = match value {
        Value::Null => return Ok(otherwise),
        // this is a limit, so its last digit may be off if the number has more than fifteen
        Value::Number(number) => Amount::from_float_in(number.as_f64().unwrap_or(-1.0), Denomination::Bitcoin),
        Value::String(text) => Amount::from_str_in(text, Denomination::Bitcoin),
        _ => return Err(RpcFailure::new(code::TYPE, "Amount is not a number or string")),
    };
    read.map_err(|_| RpcFailure::new(code::TYPE, "Invalid amount"))
}
