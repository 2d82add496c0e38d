//! The ways in which the outputs of a simulated chain are locked.

/// A way to lock an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScriptKind {
    /// A compressed key and OP_CHECKSIG. Signed.
    P2pk,
    /// An uncompressed key and OP_CHECKSIG. Signed.
    P2pkUncompressed,
    /// The hash of a compressed key. Signed.
    P2pkh,
    /// One of two keys, bare. Signed.
    Multisig,
    /// The hash of a script that drops a number and is true.
    P2sh,
    /// A P2WPKH program inside P2SH. Signed.
    P2shP2wpkh,
    /// A P2WSH program inside P2SH, of a script that drops a number and is true.
    P2shP2wsh,
    /// Version 0 witness program: the hash of a key. Signed.
    P2wpkh,
    /// Version 0 witness program: the hash of a script that drops a number and is true.
    P2wsh,
    /// Taproot, spent through a script that drops a number and is true; there is no key.
    P2trScript,
    /// Taproot, spent with its key. Signed.
    P2trKey,
    /// Pay to anchor. There is one such script, whatever the number.
    P2a,
    /// A version 1 witness program of 20 bytes, which has no rules yet: anyone can spend it.
    WitnessV1Unknown,
    /// A version 2 witness program of 32 bytes, which has no rules yet: anyone can spend it.
    WitnessV2,
    /// Of no standard type: drops a number and is true.
    BareTrue,
    /// Of no standard type: OP_CHECKMULTISIG of no signature out of one key. (Core's `Solver` asks for one at least.)
    ZeroMultisig,
    /// No script at all, whatever the number: the spending input pushes OP_TRUE.
    Empty,
    /// Bytes that do not parse as a script: not spendable, but Core does not detect that and keeps it as unspent.
    Malformed,
    /// OP_RETURN and data: never spendable.
    OpReturn,
    /// OP_RETURN alone, whatever the number: never spendable.
    BareOpReturn,
    /// A script of 10,001 bytes: never spendable.
    Oversized,
}

impl ScriptKind {
    /// Every kind.
    pub const ALL: [ScriptKind; 21] = [
        ScriptKind::P2pk,
        ScriptKind::P2pkUncompressed,
        ScriptKind::P2pkh,
        ScriptKind::Multisig,
        ScriptKind::P2sh,
        ScriptKind::P2shP2wpkh,
        ScriptKind::P2shP2wsh,
        ScriptKind::P2wpkh,
        ScriptKind::P2wsh,
        ScriptKind::P2trScript,
        ScriptKind::P2trKey,
        ScriptKind::P2a,
        ScriptKind::WitnessV1Unknown,
        ScriptKind::WitnessV2,
        ScriptKind::BareTrue,
        ScriptKind::ZeroMultisig,
        ScriptKind::Empty,
        ScriptKind::Malformed,
        ScriptKind::OpReturn,
        ScriptKind::BareOpReturn,
        ScriptKind::Oversized,
    ];

    /// Whether an output of this kind can be spent.
    #[must_use]
    pub const fn is_spendable(self) -> bool {
        !matches!(self, ScriptKind::Malformed | ScriptKind::OpReturn | ScriptKind::BareOpReturn | ScriptKind::Oversized)
    }

    /// Whether making a script of this kind needs point arithmetic, which takes about ten times as long as hashing.
    pub(crate) const fn is_costly(self) -> bool {
        self.is_signed() || matches!(self, ScriptKind::P2trScript | ScriptKind::ZeroMultisig)
    }

    /// Whether spending needs a signature, and with it the outputs that the inputs spend.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(
            self,
            ScriptKind::P2pk
                | ScriptKind::P2pkUncompressed
                | ScriptKind::P2pkh
                | ScriptKind::Multisig
                | ScriptKind::P2shP2wpkh
                | ScriptKind::P2wpkh
                | ScriptKind::P2trKey
        )
    }
}
