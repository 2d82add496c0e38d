//! Output scripts of every type, and how to spend them.
//!
//! Most kinds need no signature. The others are signed with keys that are derived from a number, so that a seed always
//! makes the same chain. All spends are valid by consensus; several are not standard.

use std::sync::OnceLock;

use bitcoin::key::{TapTweak, TweakedPublicKey, UntweakedPublicKey};
use bitcoin::opcodes::OP_TRUE;
use bitcoin::opcodes::all::{OP_CHECKMULTISIG, OP_DROP, OP_RETURN};
use bitcoin::script::{Builder, PushBytes};
use bitcoin::secp256k1::{Keypair, SecretKey};
use bitcoin::taproot::{LeafVersion, TapLeafHash, TapNodeHash};
use bitcoin::{PublicKey, ScriptBuf, Transaction, TxOut, Witness, WitnessProgram, WitnessVersion};

use super::error::UnlockError;
use super::script_kind::ScriptKind;
use super::signer::{Signer, p2wpkh_program, secp};

/// The x coordinate of a point without a known private key, from BIP341: a Taproot output with it as internal key is
/// spent through its scripts only.
const NUMS_KEY: [u8; 32] = [
    0x50, 0x92, 0x9b, 0x74, 0xc1, 0xa0, 0x49, 0x54, 0xb7, 0x8b, 0x4b, 0x60, 0x35, 0xe9, 0x7a, 0x5e, 0x07, 0x8a, 0x5a,
    0x0f, 0x28, 0xec, 0x96, 0xd5, 0x47, 0xbf, 0xee, 0x9a, 0xce, 0x80, 0x3a, 0xc0,
];

/// The owner of the outputs of one script: a kind of script, and a number that distinguishes scripts of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The type of the script.
    pub kind: ScriptKind,
    /// The number of the script among those of this type.
    pub n: u32,
}

impl Owner {
    /// The owner with this number.
    #[must_use]
    pub const fn new(kind: ScriptKind, n: u32) -> Self {
        Owner { kind, n }
    }

    /// The script that pays this owner.
    #[must_use]
    pub fn script_pubkey(&self) -> ScriptBuf {
        match self.kind {
            ScriptKind::P2pk => ScriptBuf::new_p2pk(&self.public_key()),
            ScriptKind::P2pkUncompressed => ScriptBuf::new_p2pk(&self.uncompressed_key()),
            ScriptKind::P2pkh => ScriptBuf::new_p2pkh(&self.public_key().pubkey_hash()),
            ScriptKind::Multisig => Builder::new()
                .push_int(1)
                .push_key(&self.public_key())
                .push_key(&self.uncompressed_key())
                .push_int(2)
                .push_opcode(OP_CHECKMULTISIG)
                .into_script(),
            ScriptKind::P2sh => self.drop_and_true().to_p2sh(),
            ScriptKind::P2shP2wpkh => self.p2wpkh().to_p2sh(),
            ScriptKind::P2shP2wsh => self.drop_and_true().to_p2wsh().to_p2sh(),
            ScriptKind::P2wpkh => self.p2wpkh(),
            ScriptKind::P2wsh => self.drop_and_true().to_p2wsh(),
            ScriptKind::P2trScript => ScriptBuf::new_p2tr_tweaked(self.tapscript_output().0),
            ScriptKind::P2trKey => ScriptBuf::new_p2tr(secp(), self.keypair().x_only_public_key().0, None),
            ScriptKind::P2a => ScriptBuf::new_p2a(),
            ScriptKind::WitnessV1Unknown => self.witness_program(WitnessVersion::V1, 20),
            ScriptKind::WitnessV2 => self.witness_program(WitnessVersion::V2, 32),
            ScriptKind::BareTrue => self.drop_and_true(),
            ScriptKind::ZeroMultisig => Builder::new()
                .push_int(0)
                .push_key(&self.public_key())
                .push_int(1)
                .push_opcode(OP_CHECKMULTISIG)
                .into_script(),
            ScriptKind::Empty => ScriptBuf::new(),
            ScriptKind::Malformed => {
                // A push of five bytes that has four.
                ScriptBuf::from_bytes([&[5][..], &self.n.to_be_bytes()].concat())
            }
            ScriptKind::OpReturn => ScriptBuf::new_op_return(self.n.to_be_bytes()),
            ScriptKind::BareOpReturn => ScriptBuf::from_bytes(vec![OP_RETURN.to_u8()]),
            ScriptKind::Oversized => {
                let mut script = self.drop_and_true().into_bytes();
                script.resize(10_001, OP_TRUE.to_u8());
                ScriptBuf::from_bytes(script)
            }
        }
    }

    /// The output that pays this owner.
    #[must_use]
    pub fn output(&self, value: bitcoin::Amount) -> TxOut {
        TxOut { value, script_pubkey: self.script_pubkey() }
    }

    /// Fills script and witness of an input that spends an output of this owner. `prevouts` are the outputs that all
    /// inputs spend, in order; only signed kinds use them. Signatures commit to all inputs and outputs, so these must
    /// be complete; inputs can be unlocked in any order.
    pub fn unlock(&self, tx: &mut Transaction, input: usize, prevouts: &[TxOut]) -> Result<(), UnlockError> {
        let inputs = tx.input.len();
        if input >= inputs || (self.kind.is_signed() && prevouts.len() != inputs) {
            return Err(UnlockError::NoSuchInput { input, inputs, prevouts: prevouts.len() });
        }
        // Deriving the key takes most of the time, and most kinds need none.
        let signer = || Signer { keypair: self.keypair(), input, prevouts };
        let txin = &mut tx.input[input];
        match self.kind {
            ScriptKind::P2pk | ScriptKind::P2pkUncompressed => {
                let signature = signer().legacy(tx)?;
                tx.input[input].script_sig = Builder::new().push_slice(signature).into_script();
            }
            ScriptKind::P2pkh => {
                let signature = signer().legacy(tx)?;
                tx.input[input].script_sig =
                    Builder::new().push_slice(signature).push_key(&self.public_key()).into_script();
            }
            ScriptKind::Multisig => {
                let signature = signer().legacy(tx)?;
                // OP_CHECKMULTISIG pops one element too many off the stack.
                tx.input[input].script_sig = Builder::new().push_int(0).push_slice(signature).into_script();
            }
            ScriptKind::P2sh => txin.script_sig = push(&self.drop_and_true()),
            ScriptKind::P2shP2wpkh => {
                tx.input[input].witness = signer().p2wpkh(tx)?;
                tx.input[input].script_sig = push(&self.p2wpkh());
            }
            ScriptKind::P2shP2wsh => {
                txin.script_sig = push(&self.drop_and_true().to_p2wsh());
                txin.witness = Witness::from_slice(&[self.drop_and_true()]);
            }
            ScriptKind::P2wpkh => tx.input[input].witness = signer().p2wpkh(tx)?,
            ScriptKind::P2wsh => txin.witness = Witness::from_slice(&[self.drop_and_true()]),
            ScriptKind::P2trScript => {
                txin.witness = Witness::from_slice(&[self.drop_and_true().as_bytes(), &self.control_block()]);
            }
            ScriptKind::P2trKey => tx.input[input].witness = signer().taproot(tx)?,
            ScriptKind::P2a | ScriptKind::WitnessV1Unknown | ScriptKind::WitnessV2 | ScriptKind::BareTrue => {}
            ScriptKind::ZeroMultisig => txin.script_sig = Builder::new().push_int(0).into_script(),
            ScriptKind::Empty => txin.script_sig = Builder::new().push_opcode(OP_TRUE).into_script(),
            ScriptKind::Malformed | ScriptKind::OpReturn | ScriptKind::BareOpReturn | ScriptKind::Oversized => {
                return Err(UnlockError::Unspendable(self.kind));
            }
        }
        Ok(())
    }

    /// `<n> OP_DROP OP_TRUE`: leaves exactly one true element, as witness scripts must.
    fn drop_and_true(self) -> ScriptBuf {
        Builder::new().push_int(i64::from(self.n)).push_opcode(OP_DROP).push_opcode(OP_TRUE).into_script()
    }

    fn p2wpkh(self) -> ScriptBuf {
        p2wpkh_program(&self.keypair())
    }

    #[expect(clippy::expect_used, reason = "programs of 20 and 32 bytes are within the 2 to 40 of BIP141")]
    fn witness_program(self, version: WitnessVersion, length: usize) -> ScriptBuf {
        let mut program = self.n.to_be_bytes().to_vec();
        program.resize(length, 0x5a);
        ScriptBuf::new_witness_program(&WitnessProgram::new(version, &program).expect("length is fixed"))
    }

    fn tapleaf(self) -> TapLeafHash {
        TapLeafHash::from_script(&self.drop_and_true(), LeafVersion::TapScript)
    }

    fn tapscript_output(self) -> (TweakedPublicKey, bitcoin::secp256k1::Parity) {
        nums_key().tap_tweak(secp(), Some(TapNodeHash::from(self.tapleaf())))
    }

    /// The control block of the only leaf of the tree (BIP341): leaf version with the parity of the output key, and
    /// the internal key.
    fn control_block(self) -> [u8; 33] {
        let mut control = [0; 33];
        control[0] = LeafVersion::TapScript.to_consensus() | self.tapscript_output().1.to_u8();
        control[1..].copy_from_slice(&NUMS_KEY);
        control
    }

    #[expect(clippy::expect_used, reason = "any number below 2^255 and above 0 is a private key")]
    fn keypair(self) -> Keypair {
        let mut secret = [0; 32];
        secret[0] = 1;
        secret[28..].copy_from_slice(&self.n.to_be_bytes());
        Keypair::from_secret_key(secp(), &SecretKey::from_slice(&secret).expect("is in range"))
    }

    fn public_key(self) -> PublicKey {
        PublicKey::new(self.keypair().public_key())
    }

    fn uncompressed_key(self) -> PublicKey {
        PublicKey::new_uncompressed(self.keypair().public_key())
    }
}

/// A script that pushes another, as the input of a P2SH output does.
fn push(script: &ScriptBuf) -> ScriptBuf {
    // Redeem scripts here are a few bytes long; a push has up to 4 GiB.
    let bytes: &PushBytes = script.as_bytes().try_into().unwrap_or(PushBytes::empty());
    Builder::new().push_slice(bytes).into_script()
}

#[expect(clippy::expect_used, reason = "the constant of BIP341 is on the curve")]
fn nums_key() -> UntweakedPublicKey {
    static KEY: OnceLock<UntweakedPublicKey> = OnceLock::new();
    *KEY.get_or_init(|| UntweakedPublicKey::from_slice(&NUMS_KEY).expect("is on the curve"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use bitcoin::taproot::ControlBlock;
    use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, TxIn, Witness, absolute, transaction};

    use super::*;
    use crate::chain::script::never_spendable;

    fn spend_of(owner: Owner) -> Result<Transaction, UnlockError> {
        let mut tx = Transaction {
            version: transaction::Version::TWO,
            lock_time: absolute::LockTime::ZERO,
            input: vec![TxIn {
                previous_output: OutPoint::null(),
                script_sig: ScriptBuf::new(),
                sequence: Sequence::MAX,
                witness: Witness::new(),
            }],
            output: vec![owner.output(Amount::ZERO)],
        };
        owner.unlock(&mut tx, 0, &[owner.output(Amount::ONE_BTC)]).map(|()| tx)
    }

    #[test]
    fn every_kind_makes_a_script_of_its_type() {
        let script = |kind| Owner::new(kind, 7).script_pubkey();
        assert!(script(ScriptKind::P2pk).is_p2pk());
        assert!(script(ScriptKind::P2pkUncompressed).is_p2pk());
        assert!(script(ScriptKind::P2pkh).is_p2pkh());
        assert!(script(ScriptKind::Multisig).is_multisig());
        assert!(!script(ScriptKind::ZeroMultisig).is_multisig());
        for kind in [ScriptKind::P2sh, ScriptKind::P2shP2wpkh, ScriptKind::P2shP2wsh] {
            assert!(script(kind).is_p2sh());
        }
        assert!(script(ScriptKind::P2wpkh).is_p2wpkh());
        assert!(script(ScriptKind::P2wsh).is_p2wsh());
        assert!(script(ScriptKind::P2trScript).is_p2tr());
        assert!(script(ScriptKind::P2trKey).is_p2tr());
        assert_eq!(script(ScriptKind::P2a).as_bytes(), [0x51, 0x02, 0x4e, 0x73]);
        for (kind, version) in
            [(ScriptKind::WitnessV1Unknown, WitnessVersion::V1), (ScriptKind::WitnessV2, WitnessVersion::V2)]
        {
            assert_eq!(script(kind).witness_version(), Some(version));
            assert!(!script(kind).is_p2tr());
        }
        assert!(script(ScriptKind::Malformed).instructions().any(|instruction| instruction.is_err()));
        assert_eq!(script(ScriptKind::Oversized).len(), 10_001);
        for kind in ScriptKind::ALL {
            let never = matches!(kind, ScriptKind::OpReturn | ScriptKind::BareOpReturn | ScriptKind::Oversized);
            assert_eq!(never_spendable(&script(kind)), never, "{kind:?}");
        }
    }

    #[test]
    fn numbers_distinguish_the_scripts_of_a_kind() {
        for kind in ScriptKind::ALL {
            let scripts: HashSet<_> =
                [0, 1, 16, 17, 255, 256, u32::MAX].map(|n| Owner::new(kind, n).script_pubkey()).into();
            let one = matches!(kind, ScriptKind::P2a | ScriptKind::Empty | ScriptKind::BareOpReturn);
            assert_eq!(scripts.len(), if one { 1 } else { 7 }, "{kind:?}");
        }
    }

    #[test]
    fn spends_are_deterministic_and_unspendable_kinds_are_errors() {
        for kind in ScriptKind::ALL {
            let owner = Owner::new(kind, 3);
            assert_eq!(spend_of(owner), spend_of(owner));
            assert_eq!(spend_of(owner).err(), (!kind.is_spendable()).then_some(UnlockError::Unspendable(kind)));
        }
    }

    #[test]
    fn a_taproot_spend_proves_that_its_script_was_committed_to() {
        for n in 0..8 {
            let owner = Owner::new(ScriptKind::P2trScript, n);
            let witness = spend_of(owner).unwrap().input.remove(0).witness;
            let script = ScriptBuf::from_bytes(witness.nth(0).unwrap().to_vec());
            let control = ControlBlock::decode(witness.nth(1).unwrap()).unwrap();
            let output_key = UntweakedPublicKey::from_slice(&owner.script_pubkey().as_bytes()[2..]).unwrap();
            assert!(control.verify_taproot_commitment(secp(), output_key, &script));
        }
    }

    #[test]
    fn a_signature_needs_the_outputs_that_are_spent() {
        let owner = Owner::new(ScriptKind::P2wpkh, 1);
        let mut tx = spend_of(owner).unwrap();
        let error = owner.unlock(&mut tx, 0, &[]).unwrap_err();
        assert_eq!(error, UnlockError::NoSuchInput { input: 0, inputs: 1, prevouts: 0 });
        assert!(Owner::new(ScriptKind::P2a, 0).unlock(&mut tx, 1, &[]).is_err());
    }
}
