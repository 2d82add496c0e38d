//! The signature of a message, as Standard Webhooks defines it (<https://www.standardwebhooks.com>, "Signature scheme"):
//! HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bitcoin::hashes::{Hash, HashEngine, Hmac, HmacEngine, sha256};

use super::limits::{KEY_BYTES, KEYS};

/// Begins a key, so that scanners for leaked secrets recognise it.
const PREFIX: &str = "whsec_";

/// A key that signs messages. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

/// Text that is no key. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASigningKey {
    /// It has another form.
    #[error("a secret is `whsec_` and the base64 of its bytes, as `echo whsec_$(openssl rand -base64 32)` makes one")]
    Form,
    /// It is too short or too long.
    #[error("a secret has {} to {} bytes, not {_0}", KEY_BYTES.start(), KEY_BYTES.end())]
    Length(usize),
    /// There is none, or there are too many.
    #[error("give 1 to {KEYS} secrets, separated by blanks or lines, not {_0}")]
    Count(usize),
}

impl SigningKey {
    fn parse(text: &str) -> Result<Self, NotASigningKey> {
        let bytes =
            text.strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok()).ok_or(NotASigningKey::Form)?;
        if KEY_BYTES.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(NotASigningKey::Length(bytes.len())) }
    }

    fn sign(&self, id: &str, time: u64, body: &str) -> String {
        let mut engine = HmacEngine::<sha256::Hash>::new(&self.0);
        engine.input(format!("{id}.{time}.").as_bytes());
        engine.input(body.as_bytes());
        format!("v1,{}", STANDARD.encode(Hmac::from_engine(engine).to_byte_array()))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(********)")
    }
}

/// The keys of a hook. While one replaces another, both sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKeys(Vec<SigningKey>);

impl SigningKeys {
    /// Keys that are separated by white space, the newest first.
    pub fn parse(text: &str) -> Result<Self, NotASigningKey> {
        let keys = text.split_whitespace().map(SigningKey::parse).collect::<Result<Vec<_>, _>>()?;
        if (1..=KEYS).contains(&keys.len()) { Ok(Self(keys)) } else { Err(NotASigningKey::Count(keys.len())) }
    }

    /// The value of the header `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, time: u64, body: &str) -> String {
        self.0.iter().map(|key| key.sign(id, time, body)).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes 0 to 31.
    const KEY: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    /// 24 bytes of 0xff.
    const OLD: &str = "whsec_////////////////////////////////";

    // made with Python: base64(hmac.new(key, b"msg_1.1700000000." + body, "sha256").digest())
    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        let signed = |key: &str, body| SigningKeys::parse(key).unwrap().sign("msg_1", 1_700_000_000, body);
        assert_eq!(signed(KEY, "{}"), "v1,fhksJF5ElKjlPoT/jtefCO5XjQPvhf7Dhf/8R1ad9yU=");
        assert_eq!(signed(KEY, ""), "v1,amcCR9+HGJUcbpN0HzliuKzDJkenCx5mV9lf3DlQ0mM=");
        assert_eq!(signed(KEY, "{\"text\":\"ünï\"}"), "v1,RvJmElir3aCZlD3r3qaWjCAKnZz+GIGKWXngFr7OFyI=");
        assert_eq!(signed(OLD, "{}"), "v1,Qsxef9ZcwQ/OypMu70mjRgeiEy4ZaV9914uRkcSFffA=");
    }

    #[test]
    fn all_keys_sign_while_one_replaces_another() {
        let keys = SigningKeys::parse(&format!(" {KEY}\n{OLD}\n")).unwrap();
        let alone = |key: &str| SigningKeys::parse(key).unwrap().sign("a", 1, "b");
        assert_eq!(keys.sign("a", 1, "b"), format!("{} {}", alone(KEY), alone(OLD)));
    }

    #[test]
    fn a_wrong_secret_is_refused_without_showing_it() {
        for (text, error) in [
            ("", NotASigningKey::Count(0)),
            ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", NotASigningKey::Form),
            ("whsec_hunter2!", NotASigningKey::Form),
            ("whsec_AAECAwQF", NotASigningKey::Length(6)),
            (&[KEY; 5].join(" "), NotASigningKey::Count(5)),
            (&format!("whsec_{}", STANDARD.encode([7; 65])), NotASigningKey::Length(65)),
        ] {
            assert_eq!(SigningKeys::parse(text), Err(error), "{text}");
            assert!(!error.to_string().contains("hunter2"));
        }
        assert_eq!(format!("{:?}", SigningKeys::parse(KEY).unwrap()), "SigningKeys([SigningKey(********)])");
    }
}
