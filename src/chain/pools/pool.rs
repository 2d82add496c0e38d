//! A mining pool, and its slug.

use bitcoin::ScriptBuf;

/// A mining pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its name in lower case, of letters and digits only. No other pool of a table has it.
    pub slug: String,
    /// Its web page, if it has one.
    pub link: Option<String>,
    /// The texts in the scriptSigs of its coinbases.
    pub tags: Vec<String>,
    /// The scripts that its coinbases pay.
    pub payout_scripts: Vec<ScriptBuf>,
}

/// The slug of a name: its ASCII letters in lower case and its digits.
#[must_use]
pub fn slug(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|character| character.to_ascii_lowercase()).collect()
}
