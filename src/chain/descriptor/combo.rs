//! `combo` (BIP384): one key, and the scripts that wallets have made of a key.

use bitcoin::Network;

use super::derive::{DescriptorForm, OutputDescriptor};
use super::error::DescriptorError;
use super::parse::{MOST_BRANCHES, with_checksum};

/// The forms that `combo` stands for, in the order of BIP384, with what closes them. The last two need a compressed key.
const COMBO_FORMS: [(&str, &str); 4] = [("pk(", ")"), ("pkh(", ")"), ("wpkh(", ")"), ("sh(wpkh(", "))")];

/// How many of [`COMBO_FORMS`] there are for an uncompressed key.
const UNCOMPRESSED_FORMS: usize = 2;

impl OutputDescriptor {
    /// The descriptor `combo` of a key expression: a branch for each path of each form, form by form.
    ///
    /// Errors: what `pk` of the key is refused for, or more branches than are derived.
    pub(super) fn of_combo(key: &str, network: Network) -> Result<Self, DescriptorError> {
        let parse = |(open, close): &(&str, &str)| Self::of_keys(&format!("{open}{key}{close}"), network);
        let (open, close) = &COMBO_FORMS[0];
        let shift = "combo(".len().saturating_sub(open.len());
        let first = parse(&COMBO_FORMS[0]).map_err(|error| error.moved_by(shift))?;
        let canonical = first.text().split('#').next().and_then(|text| text.strip_prefix(open)?.strip_suffix(close));
        let text = with_checksum(&format!("combo({})", canonical.unwrap_or(key)));
        let count = if first.has_uncompressed_key() { UNCOMPRESSED_FORMS } else { COMBO_FORMS.len() };
        let mut parts = vec![first];
        for form in COMBO_FORMS.iter().take(count).skip(1) {
            parts.push(parse(form)?);
        }
        let branches = parts.iter().map(Self::branches).sum();
        if branches > MOST_BRANCHES {
            return Err(DescriptorError::TooMany { what: "the branches", count: branches, most: MOST_BRANCHES });
        }
        Ok(Self::new(text, DescriptorForm::Combo(parts), branches))
    }
}
