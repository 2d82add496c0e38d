//! The descriptor of a script of which nothing else is known.

use bitcoin::hex::DisplayHex;
use bitcoin::{Network, Script, XOnlyPublicKey};

use super::parse::with_checksum;
use crate::chain::address::address_of;
use crate::chain::script::{multisig, p2pk_key};

/// The descriptor with checksum that Bitcoin Core infers for a script alone (`InferDescriptor` in `script/descriptor.cpp`): `pk`
/// and `multi` of keys that the script contains, `rawtr` of a taproot output, `addr` of another script with an address, and
/// otherwise `raw`.
#[must_use]
pub fn inferred_descriptor(script: &Script, network: Network) -> String {
    let body = of_keys(script).unwrap_or_else(|| match address_of(script, network) {
        Some(address) => format!("addr({address})"),
        None => format!("raw({})", script.to_hex_string()),
    });
    with_checksum(&body)
}

fn of_keys(script: &Script) -> Option<String> {
    if let Some(key) = p2pk_key(script) {
        return is_plain(key).then(|| format!("pk({})", key.to_lower_hex_string()));
    }
    if let Some((required, keys)) = multisig(script) {
        let keys = keys.iter().map(|key| is_plain(key).then(|| key.to_lower_hex_string()));
        return Some(format!("multi({required},{})", keys.collect::<Option<Vec<_>>>()?.join(",")));
    }
    let [0x51, 0x20, key @ ..] = script.as_bytes() else { return None };
    // a key that is not on the curve has an address all the same
    let key = XOnlyPublicKey::from_slice(key).ok()?;
    Some(format!("rawtr({key})"))
}

/// Whether a key of the right size is compressed or uncompressed, and not hybrid, by its first byte.
fn is_plain(key: &[u8]) -> bool {
    matches!((key.first(), key.len()), (Some(2 | 3), 33) | (Some(4), 65))
}
