//! Features of a transaction: facts about its structure, of which each follows from the transaction itself or from it and
//! the outputs that it spends. What a transaction is for is not judged.

use bitcoin::opcodes::all::{OP_CHECKMULTISIG, OP_CHECKMULTISIGVERIFY, OP_IF};
use bitcoin::relative::LockTime;
use bitcoin::script::Instruction;
use bitcoin::{Script, Transaction, TxOut};

use super::script::multisig;
use super::spend::{InputSpend, SignatureHash, TAPSCRIPT};

/// The version of transactions with the topology of BIP431 (TRUC).
const TRUC_VERSION: i32 = 3;
/// A sequence number that disables the lock time.
const SEQUENCE_FINAL: u32 = u32::MAX;
/// The first push of an inscription envelope.
const ENVELOPE_TAG: &[u8] = b"ord";

/// A feature of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StructuralFeature {
    /// An input has a witness (BIP141).
    Witness,
    /// An input signals replaceability (BIP125).
    RbfSignal,
    /// The version is 3 (BIP431).
    Truc,
    /// A lock time applies: it is not 0, and an input has a sequence number below the highest.
    LockTime,
    /// An input has a relative lock time that is not 0 (BIP68).
    RelativeLockTime,
    /// An output starts with OP_RETURN.
    OpReturn,
    /// An input spends a P2TR output by its key (BIP341).
    TaprootKeySpend,
    /// An input spends a P2TR output by a leaf of its script tree (BIP341).
    TaprootScriptSpend,
    /// An input that spends a P2TR output has an annex (BIP341).
    Annex,
    /// An input fulfils a script with OP_CHECKMULTISIG, or is one of bare multisig.
    MultisigSpend,
    /// A tapscript that an input reveals has an inscription envelope: OP_FALSE OP_IF and a push of `ord`.
    InscriptionEnvelope,
    /// A signature does not commit to all inputs and outputs.
    PartialSighash,
}

impl StructuralFeature {
    /// All features, in the order in which they are listed.
    pub const ALL: [StructuralFeature; 12] = [
        StructuralFeature::Witness,
        StructuralFeature::RbfSignal,
        StructuralFeature::Truc,
        StructuralFeature::LockTime,
        StructuralFeature::RelativeLockTime,
        StructuralFeature::OpReturn,
        StructuralFeature::TaprootKeySpend,
        StructuralFeature::TaprootScriptSpend,
        StructuralFeature::Annex,
        StructuralFeature::MultisigSpend,
        StructuralFeature::InscriptionEnvelope,
        StructuralFeature::PartialSighash,
    ];

    /// Whether the outputs that a transaction spends decide whether it has this feature.
    #[must_use]
    pub const fn needs_prevouts(self) -> bool {
        match self {
            Self::Witness | Self::RbfSignal | Self::Truc | Self::LockTime | Self::RelativeLockTime | Self::OpReturn => {
                false
            }
            Self::TaprootKeySpend
            | Self::TaprootScriptSpend
            | Self::Annex
            | Self::MultisigSpend
            | Self::InscriptionEnvelope
            | Self::PartialSighash => true,
        }
    }

    /// Whether a transaction may have this feature, whatever it spends; exact if the feature needs no prevouts.
    #[must_use]
    pub fn may_be_of(self, transaction: &Transaction) -> bool {
        let mut inputs = transaction.input.iter();
        match self {
            Self::Witness => inputs.any(|input| !input.witness.is_empty()),
            Self::RbfSignal => !transaction.is_coinbase() && inputs.any(|input| input.sequence.is_rbf()),
            Self::Truc => transaction.version.0 == TRUC_VERSION,
            Self::LockTime => {
                transaction.lock_time.to_consensus_u32() != 0 && inputs.any(|input| input.sequence.0 != SEQUENCE_FINAL)
            }
            Self::RelativeLockTime => {
                let is_lock = |lock| match lock {
                    LockTime::Blocks(blocks) => blocks.value() > 0,
                    LockTime::Time(time) => time.value() > 0,
                };
                let has_locks = transaction.version.0.cast_unsigned() >= 2 && !transaction.is_coinbase();
                has_locks && inputs.any(|input| input.sequence.to_relative_lock_time().is_some_and(is_lock))
            }
            Self::OpReturn => transaction.output.iter().any(|output| output.script_pubkey.is_op_return()),
            Self::TaprootKeySpend => !transaction.is_coinbase() && inputs.any(|input| !input.witness.is_empty()),
            Self::TaprootScriptSpend | Self::Annex | Self::InscriptionEnvelope => {
                !transaction.is_coinbase() && inputs.any(|input| input.witness.len() > 1)
            }
            Self::MultisigSpend | Self::PartialSighash => !transaction.is_coinbase(),
        }
    }
}

/// The features of a transaction that spends these outputs, one for each input, in the order of [`StructuralFeature::ALL`].
#[must_use]
pub fn features(transaction: &Transaction, prevouts: &[TxOut]) -> Vec<StructuralFeature> {
    let mut of_spends = [false; StructuralFeature::ALL.len()];
    for (input, prevout) in transaction.input.iter().zip(prevouts) {
        let spend = InputSpend::of(&prevout.script_pubkey, input);
        let is_taproot = prevout.script_pubkey.is_p2tr();
        let reveals_multisig = || {
            let scripts = spend.witness_script.iter().chain(spend.redeem_script.iter());
            multisig(&prevout.script_pubkey).is_some() || scripts.into_iter().any(|script| checks_multisig(script))
        };
        for (has, feature) in of_spends.iter_mut().zip(StructuralFeature::ALL) {
            *has |= match feature {
                StructuralFeature::TaprootKeySpend => {
                    is_taproot && spend.tap_leaf.is_none() && !spend.signatures.is_empty()
                }
                StructuralFeature::TaprootScriptSpend => spend.tap_leaf.is_some(),
                StructuralFeature::Annex => spend.annex.is_some(),
                StructuralFeature::MultisigSpend => reveals_multisig(),
                StructuralFeature::InscriptionEnvelope => {
                    let tapscript = spend.tap_leaf.as_ref().filter(|leaf| leaf.version == TAPSCRIPT);
                    tapscript.is_some_and(|leaf| has_envelope(&leaf.script))
                }
                StructuralFeature::PartialSighash => spend.signatures.iter().any(|signature| is_partial(*signature)),
                _ => false,
            };
        }
    }
    let found = StructuralFeature::ALL.into_iter().zip(of_spends);
    found
        .filter(|(feature, has)| if feature.needs_prevouts() { *has } else { feature.may_be_of(transaction) })
        .map(|(feature, _)| feature)
        .collect()
}

/// Whether a signature leaves inputs or outputs open. A number without a meaning counts as ALL, as consensus takes it.
const fn is_partial(signature: SignatureHash) -> bool {
    let (SignatureHash::Ecdsa(hash_type) | SignatureHash::Schnorr(hash_type)) = signature;
    hash_type & 0x80 != 0 || matches!(hash_type & 0x1f, 0x02 | 0x03)
}

fn checks_multisig(script: &Script) -> bool {
    script
        .instructions()
        .map_while(Result::ok)
        .any(|instruction| matches!(instruction, Instruction::Op(OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY)))
}

fn has_envelope(script: &Script) -> bool {
    let mut before = [None, None];
    for instruction in script.instructions().map_while(Result::ok) {
        let is_tag = instruction.push_bytes().is_some_and(|push| push.as_bytes() == ENVELOPE_TAG);
        let opens =
            matches!(before, [Some(Instruction::PushBytes(push)), Some(Instruction::Op(OP_IF))] if push.is_empty());
        if is_tag && opens {
            return true;
        }
        before = [before[1], Some(instruction)];
    }
    false
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash;
    use bitcoin::hex::FromHex;
    use bitcoin::{Amount, ScriptBuf, Sequence, TxIn, WScriptHash, Witness, absolute, transaction};

    use super::*;

    fn spending(witness: &[&[u8]]) -> Transaction {
        Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![TxIn {
                previous_output: bitcoin::OutPoint { vout: 0, ..bitcoin::OutPoint::null() },
                sequence: Sequence::MAX,
                witness: Witness::from_slice(witness),
                ..TxIn::default()
            }],
            output: Vec::new(),
        }
    }

    fn prevout(script_pubkey: ScriptBuf) -> TxOut {
        TxOut { value: Amount::ZERO, script_pubkey }
    }

    fn of_spend(script_pubkey: ScriptBuf, witness: &[&[u8]]) -> Vec<StructuralFeature> {
        features(&spending(witness), &[prevout(script_pubkey)])
    }

    #[test]
    fn features_of_the_transaction_itself_need_no_prevouts() {
        let of = |change: &dyn Fn(&mut Transaction)| {
            let mut transaction = spending(&[]);
            change(&mut transaction);
            let found = features(&transaction, &[prevout(ScriptBuf::new())]);
            let alone: Vec<_> = StructuralFeature::ALL
                .into_iter()
                .filter(|feature| !feature.needs_prevouts() && feature.may_be_of(&transaction))
                .collect();
            assert_eq!(found, alone);
            found
        };
        let lock = |height| absolute::LockTime::from_consensus(height);
        assert_eq!(of(&|_| ()), []);
        assert_eq!(of(&|transaction| transaction.version.0 = 3), [StructuralFeature::Truc]);
        assert_eq!(of(&|transaction| transaction.input[0].witness.push([1])), [StructuralFeature::Witness]);
        assert_eq!(of(&|transaction| transaction.input[0].sequence.0 = 0xffff_fffe), []);
        assert_eq!(of(&|transaction| transaction.input[0].sequence.0 = 0xffff_fffd), [StructuralFeature::RbfSignal]);
        assert_eq!(of(&|transaction| transaction.lock_time = lock(5)), [], "it is disabled");
        let locked = of(&|transaction| {
            transaction.lock_time = lock(5);
            transaction.input[0].sequence.0 = 0xffff_fffe;
        });
        assert_eq!(locked, [StructuralFeature::LockTime]);
        for (version, sequence, expected) in [
            (2, 7, vec![StructuralFeature::RbfSignal, StructuralFeature::RelativeLockTime]),
            (2, 0x40_0001, vec![StructuralFeature::RbfSignal, StructuralFeature::RelativeLockTime]),
            (2, 0, vec![StructuralFeature::RbfSignal]),
            (1, 7, vec![StructuralFeature::RbfSignal]),
        ] {
            let found = of(&|transaction| {
                transaction.version.0 = version;
                transaction.input[0].sequence.0 = sequence;
            });
            assert_eq!(found, expected, "{version} {sequence:x}");
        }
        let data = prevout(ScriptBuf::from_hex("6a0101").unwrap());
        assert_eq!(of(&|transaction| transaction.output.push(data.clone())), [StructuralFeature::OpReturn]);
    }

    #[test]
    fn features_of_spends_follow_from_the_spent_output() {
        let taproot = || ScriptBuf::from_bytes([&[0x51, 32][..], &[7; 32]].concat());
        let (signature, control_block) = ([1; 64], [0xc0; 33]);
        let single = [&signature[..], &[0x83]].concat();
        let annex = [0x50, 1];
        let key = [StructuralFeature::Witness, StructuralFeature::TaprootKeySpend];
        assert_eq!(of_spend(taproot(), &[&signature]), key);
        assert_eq!(of_spend(taproot(), &[&single]), [&key[..], &[StructuralFeature::PartialSighash]].concat());
        assert_eq!(of_spend(taproot(), &[&signature, &annex]), [&key[..], &[StructuralFeature::Annex]].concat());
        assert_eq!(of_spend(ScriptBuf::from_hex("51").unwrap(), &[&signature]), [StructuralFeature::Witness]);
        let leaf = [StructuralFeature::Witness, StructuralFeature::TaprootScriptSpend];
        for (script, has_envelope) in [
            ("51", false),
            ("0063036f726468", true),
            ("51750063036f72640101", true),
            ("0063036f726551", false),
            ("5163036f726468", false),
            ("00036f726463", false),
            ("006301ff036f726468", false),
        ] {
            let script = Vec::from_hex(script).unwrap();
            let expected = if has_envelope {
                [&leaf[..], &[StructuralFeature::InscriptionEnvelope]].concat()
            } else {
                leaf.to_vec()
            };
            assert_eq!(of_spend(taproot(), &[&script, &control_block]), expected, "{script:02x?}");
        }
        let of_p2wsh = |script: &str| {
            let script = Vec::from_hex(script).unwrap();
            of_spend(ScriptBuf::new_p2wsh(&WScriptHash::hash(&script)), &[b"", &script])
        };
        assert_eq!(of_p2wsh("5151ae"), [StructuralFeature::Witness, StructuralFeature::MultisigSpend]);
        assert_eq!(of_p2wsh("01ae75"), [StructuralFeature::Witness]);
        let bare = ScriptBuf::from_bytes([&[0x51, 33][..], &[2; 33], &[0x51, 0xae]].concat());
        assert_eq!(of_spend(bare, &[]), [StructuralFeature::MultisigSpend]);
    }

    #[test]
    fn a_hash_type_is_partial_as_consensus_reads_it() {
        for (hash_type, expected) in
            [(0x00, false), (0x01, false), (0x02, true), (0x03, true), (0x04, false), (0x81, true), (0x42, true)]
        {
            assert_eq!(is_partial(SignatureHash::Ecdsa(hash_type)), expected, "{hash_type:x}");
        }
    }

    #[test]
    fn every_feature_is_in_its_place() {
        for (place, feature) in StructuralFeature::ALL.into_iter().enumerate() {
            assert_eq!(feature as usize, place);
        }
    }
}
