//! What clients should not have sent, and no client is to send back or write down: private keys.
//!
//! A client that gives a descriptor or a key of its wallet where an address is expected is sent what is wrong with it, and
//! messages repeat what was given: into logs, error trackers and pages. So whatever looks like a private key is taken out
//! of all of them. It is judged by its form alone, since one with a letter wrong is as secret as one without:
//!
//! | form | what |
//! |---|---|
//! | `xprv…`, `tprv…` and those of SLIP-132, 20 letters and digits or more | extended private keys (BIP32) |
//! | 50 to 53 letters and digits that begin with 5, 9, c, K or L | private keys in wallet import format |
//! | 56 to 60 that begin with `6P` | such a key under a passphrase (BIP38) |
//!
//! A hash is none of them: it has 64 digits.

use std::borrow::Cow;

/// What stands for one.
const HIDDEN: &str = "[a private key]";

/// The text without what looks like a private key; borrowed if there is none.
#[must_use]
pub fn hidden(text: &str) -> Cow<'_, str> {
    let mut shown: Option<String> = None;
    let (mut rest, mut passed) = (text, 0);
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_alphanumeric()) {
        let word = &rest[start..];
        let end = word.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(word.len());
        if is_private_key(&word[..end]) {
            let shown = shown.get_or_insert_with(|| text[..passed].to_owned());
            shown.push_str(&rest[..start]);
            shown.push_str(HIDDEN);
        } else if let Some(shown) = &mut shown {
            shown.push_str(&rest[..start + end]);
        }
        passed += start + end;
        rest = &word[end..];
    }
    match shown {
        Some(shown) => Cow::Owned(shown + rest),
        None => Cow::Borrowed(text),
    }
}

/// `word` is of letters and digits.
fn is_private_key(word: &str) -> bool {
    let is_extended = word.len() >= 20 && word.get(1..4).is_some_and(|kind| kind == "prv");
    let is_hex = word.bytes().all(|letter| letter.is_ascii_hexdigit());
    let is_wif = (50..=53).contains(&word.len()) && word.starts_with(['5', '9', 'c', 'K', 'L']) && !is_hex;
    is_extended || is_wif || ((56..=60).contains(&word.len()) && word.starts_with("6P"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // of the test vectors of BIP32, the wiki's page on WIF, and BIP38
    const EXTENDED: &str = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi";
    const WIF: [&str; 2] =
        ["5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ", "KwdMAjGmerYanjeui5SHS7JkmpZvVipYvB2LJGU1ZxJwYvP98617"];
    const UNDER_PASSPHRASE: &str = "6PRVWUbkzzsbcVac2qwfssoUJAN1Xhrg6bNk8J7Nzm5H7kxEbn2Nh2ZoGg";

    #[test]
    fn keys_are_hidden_wherever_they_stand_and_nothing_else_is() {
        for key in WIF.iter().chain([&EXTENDED, &UNDER_PASSPHRASE]) {
            assert_eq!(hidden(key), HIDDEN);
            assert_eq!(
                hidden(&format!("\"wpkh([d34db33f/84h]{key}/0/*)#x\": no, {key}")),
                format!("\"wpkh([d34db33f/84h]{HIDDEN}/0/*)#x\": no, {HIDDEN}")
            );
            // with a slip of the pen, or without its end
            assert_eq!(hidden(&key.replacen('w', "0", 1)), HIDDEN);
        }
        assert_eq!(hidden(&EXTENDED[..40]), HIDDEN);
        for harmless in [
            "",
            "Invalid value for argument \"hash\"",
            "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206",
            "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
            "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
            "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
            "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8",
            "5120a60869f0dbcf1dc659c9cecbaf8050135ea9e8cdc487053f",
        ] {
            assert_eq!(hidden(harmless), harmless);
        }
    }

    proptest! {
        #[test]
        fn what_is_around_a_key_stays_as_it_is(before in "[ -/:-@é]{0,20}", after in "[ -/:-@é]{0,20}") {
            let text = format!("{before}{EXTENDED}{after}");
            prop_assert_eq!(hidden(&text), format!("{before}{HIDDEN}{after}"));
        }
    }
}
