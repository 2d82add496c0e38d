//! Whether the coins of a descriptor's scripts are safe: whether only its keys spend them, and always can.

use bitcoin::PublicKey;
use miniscript::descriptor::{ShInner, Wsh, WshInner};
use miniscript::{
    Descriptor, DescriptorPublicKey, Error, ExtParams, Miniscript, MiniscriptKey, ScriptContext, Terminal,
};

use super::derive::first_keys;

/// Checks a descriptor as it is spelled, and with the keys of its first script, as the node does: one key can be spelled in several
/// ways. That a later script has a key twice is not looked for.
///
/// Errors: those of the library.
pub(super) fn check_safety(descriptor: &Descriptor<DescriptorPublicKey>) -> Result<(), Error> {
    check(descriptor)?;
    if descriptor.iter_pk().nth(1).is_none() {
        return Ok(());
    }
    match first_keys(descriptor) {
        Some(derived) => check::<PublicKey>(&derived),
        None => Ok(()),
    }
}

fn check<Pk: MiniscriptKey>(descriptor: &Descriptor<Pk>) -> Result<(), Error> {
    match descriptor {
        Descriptor::Bare(bare) => check_script(bare.as_inner()),
        Descriptor::Pkh(_) => Ok(()),
        Descriptor::Wpkh(output) => output.sanity_check(),
        Descriptor::Wsh(output) => check_witness_script(output),
        Descriptor::Sh(output) => match output.as_inner() {
            ShInner::Wsh(output) => check_witness_script(output),
            ShInner::Wpkh(output) => output.sanity_check(),
            // the parser checks its size, and it has nothing else that could be unsafe
            ShInner::SortedMulti(_) => Ok(()),
            ShInner::Ms(script) => check_script(script),
        },
        Descriptor::Tr(output) => output.leaves().try_for_each(|leaf| check_script(leaf.miniscript())),
    }
}

fn check_witness_script<Pk: MiniscriptKey>(output: &Wsh<Pk>) -> Result<(), Error> {
    match output.as_inner() {
        // see above
        WshInner::SortedMulti(_) => Ok(()),
        WshInner::Ms(script) => check_script(script),
    }
}

/// A key that occurs twice makes the guarantees of Miniscript void. A multisig that is the whole script is no Miniscript (BIP383,
/// BIP387): there a key may have several votes.
fn check_script<Pk: MiniscriptKey, Ctx: ScriptContext>(script: &Miniscript<Pk, Ctx>) -> Result<(), Error> {
    let is_multisig = matches!(script.as_inner(), Terminal::Multi(_) | Terminal::MultiA(_));
    let rules = ExtParams { repeated_pk: is_multisig, ..ExtParams::sane() };
    // `ext_check` accepts a script that nothing satisfies; only the size of a satisfaction fails for it
    script.max_satisfaction_size()?;
    Ok(script.ext_check(&rules)?)
}
