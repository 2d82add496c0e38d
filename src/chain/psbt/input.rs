//! The state of each input, and the size of the transaction once all have signed.

use bitcoin::blockdata::script::{Builder, PushBytesBuf};
use bitcoin::psbt::Input;
use bitcoin::{OutPoint, Psbt, PublicKey, Script, ScriptBuf, TxOut, Weight, Witness};
use miniscript::psbt::PsbtInputSatisfier;
use miniscript::{Legacy, Miniscript, Segwitv0};

use super::solve::{MissingParts, Solver, Solving};
use crate::chain::ScriptType;

/// Who has to act next on a PSBT, in the order in which they do (BIP174).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PsbtRole {
    /// Adds spent outputs, scripts and keys.
    Updater,
    /// Signs.
    Signer,
    /// Puts the signatures into scriptSig and witness.
    Finalizer,
    /// Takes the complete transaction out.
    Extractor,
}

/// What an input still needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PsbtInputState {
    /// Whether its scriptSig or witness is final.
    pub is_finalized: bool,
    /// Who has to act next on it.
    pub next_role: PsbtRole,
    /// The signatures that the script requires; `None` for a script of unknown form or without its output.
    pub required_signatures: Option<usize>,
    /// What is missing, apart from the spent output.
    pub missing: MissingParts,
}

/// What authorises the spend of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendData {
    /// The scriptSig.
    pub script_sig: ScriptBuf,
    /// The witness.
    pub witness: Witness,
}

/// The spent output that an input of a PSBT has: of the whole transaction if it has the right txid, otherwise the one alone.
#[must_use]
pub fn utxo_of(input: &Input, outpoint: OutPoint) -> Option<&TxOut> {
    match &input.non_witness_utxo {
        Some(transaction) => {
            let output = usize::try_from(outpoint.vout).ok().and_then(|vout| transaction.output.get(vout))?;
            (transaction.compute_txid() == outpoint.txid).then_some(output)
        }
        None => input.witness_utxo.as_ref(),
    }
}

/// Whether what an input says of the output that it spends contradicts itself: the whole transaction has another txid than the
/// outpoint, or another output than the one alone (BIP174).
#[must_use]
pub fn contradicts_itself(input: &Input, outpoint: OutPoint) -> bool {
    let is_other = |output: &TxOut| input.witness_utxo.as_ref().is_some_and(|alone| alone != output);
    input.non_witness_utxo.is_some() && utxo_of(input, outpoint).is_none_or(is_other)
}

fn is_final(input: &Input) -> bool {
    input.final_script_sig.is_some() || input.final_script_witness.is_some()
}

/// What an input of a PSBT still needs, seen with the output that it spends, if that is known; `None` if it has no input of this
/// number. `is_in_psbt` says whether the PSBT has that output, without which no signer signs.
#[must_use]
pub fn input_state(psbt: &Psbt, index: usize, utxo: Option<&TxOut>, is_in_psbt: bool) -> Option<PsbtInputState> {
    let input = psbt.inputs.get(index)?;
    let satisfies = |script: &Script, is_witness: bool| satisfies(psbt, index, script, is_witness);
    let mut solver = Solver::new(input, Solving::Signatures(&satisfies));
    let complete = utxo.is_some_and(|utxo| solver.solve(&utxo.script_pubkey).complete);
    let is_finalized = is_final(input);
    // a witness output alone does not commit to its amount unless a witness signs it
    let is_provable = input.non_witness_utxo.is_some() || solver.is_witness;
    let next_role = if is_finalized {
        PsbtRole::Extractor
    } else if !is_in_psbt || !is_provable {
        PsbtRole::Updater
    } else if complete {
        PsbtRole::Finalizer
    } else if solver.missing.only_signatures() {
        PsbtRole::Signer
    } else {
        PsbtRole::Updater
    };
    let missing = if is_finalized { MissingParts::default() } else { solver.missing };
    Some(PsbtInputState { is_finalized, next_role, required_signatures: solver.required, missing })
}

/// Whether what an input has satisfies a script of Miniscript (BIP379), its locks included.
fn satisfies(psbt: &Psbt, index: usize, script: &Script, is_witness: bool) -> bool {
    let parts = PsbtInputSatisfier::new(psbt, index);
    if is_witness {
        Miniscript::<PublicKey, Segwitv0>::decode(script).is_ok_and(|script| script.satisfy(parts).is_ok())
    } else {
        Miniscript::<PublicKey, Legacy>::decode(script).is_ok_and(|script| script.satisfy(parts).is_ok())
    }
}

/// The weight of the transaction once it is signed, with what is final and otherwise with signatures of the usual sizes;
/// `None` if an output that it spends, a key or a script is not known, and while it has no inputs. `utxos` are the spent
/// outputs.
#[must_use]
pub fn signed_size(psbt: &Psbt, utxos: &[Option<TxOut>]) -> Option<Weight> {
    if psbt.inputs.is_empty() {
        return None;
    }
    let mut transaction = psbt.unsigned_tx.clone();
    for ((txin, input), utxo) in transaction.input.iter_mut().zip(&psbt.inputs).zip(utxos) {
        let data = spend_data(input, utxo.as_ref())?;
        txin.script_sig = data.script_sig;
        txin.witness = data.witness;
    }
    Some(transaction.weight())
}

/// What authorises the spend of an input, with placeholders for signatures that are not there.
fn spend_data(input: &Input, utxo: Option<&TxOut>) -> Option<SpendData> {
    if is_final(input) {
        let script_sig = input.final_script_sig.clone().unwrap_or_default();
        return Some(SpendData { script_sig, witness: input.final_script_witness.clone().unwrap_or_default() });
    }
    let utxo = utxo?;
    let mut solver = Solver::new(input, Solving::Placeholders);
    let solution = solver.solve(&utxo.script_pubkey);
    if !solution.complete || ScriptType::of(&utxo.script_pubkey) == ScriptType::OpReturn {
        return None;
    }
    let script_sig = solution
        .script_sig
        .into_iter()
        .try_fold(Builder::new(), |builder, item| Some(builder.push_slice(PushBytesBuf::try_from(item).ok()?)))?;
    Some(SpendData { script_sig: script_sig.into_script(), witness: Witness::from_slice(&solution.witness) })
}
