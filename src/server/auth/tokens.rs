//! The tokens in the settings: their names, their hashes, their rights. Only the clients have the tokens themselves.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::execution::sha256::Sha256Hash;

/// The longest name, in bytes: it is in every line of the log.
const LONGEST_NAME: usize = 64;

/// Tokens, one a line: `NAME SHA256 [cost=NUMBER] [broadcast]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tokens(Vec<Token>);

/// A token as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The name of its client in log and metrics.
    pub name: String,
    /// Of a token, which has 256 random bits, so that nothing slower is needed to keep it from being guessed.
    hash: Sha256Hash,
    /// What its client may spend a minute, in units of the API; 0 for any.
    pub cost_per_minute: u32,
    /// Whether its client may send transactions, if anyone may.
    pub broadcast: bool,
}

/// A line that is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: {problem}. Write one token a line, as `btcgraph token NAME` prints it: \
     NAME SHA256 [cost=NUMBER] [broadcast]"
)]
pub struct InvalidTokenLine {
    line: usize,
    problem: &'static str,
}

impl Token {
    /// The line of settings for this token.
    #[must_use]
    pub fn new(name: &str, token: &str, cost_per_minute: u32, broadcast: bool) -> Option<Self> {
        let hash = Sha256Hash::of(token);
        is_name(name).then(|| Self { name: name.to_owned(), hash, cost_per_minute, broadcast })
    }

    fn read(line: &str) -> Result<Self, &'static str> {
        let mut words = line.split_whitespace();
        let name = words.next().filter(|name| is_name(name));
        let name = name.ok_or("a name has letters, digits, dots, dashes and underscores, 64 at most")?;
        let hash = words
            .next()
            .and_then(|hash| hash.parse().ok())
            .ok_or("the SHA-256 of the token must have 64 hexadecimal digits")?;
        let mut token = Self { name: name.to_owned(), hash, cost_per_minute: 0, broadcast: false };
        for word in words {
            match word.split_once('=') {
                Some(("cost", number)) => {
                    token.cost_per_minute = number.parse().map_err(|_| "cost must be a whole number")?;
                }
                None if word == "broadcast" => token.broadcast = true,
                _ => return Err("a word is neither cost=NUMBER nor broadcast"),
            }
        }
        Ok(token)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.hash)?;
        if self.cost_per_minute > 0 {
            write!(f, " cost={}", self.cost_per_minute)?;
        }
        if self.broadcast { f.write_str(" broadcast") } else { Ok(()) }
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(fits)
}

impl Tokens {
    pub(crate) fn as_slice(&self) -> &[Token] {
        &self.0
    }

    /// The place of this token among all. It takes as long whichever it is, and if it is none.
    pub(crate) fn find(&self, token: &str) -> Option<usize> {
        let hash = Sha256Hash::of(token);
        let mut found = None;
        for (place, token) in self.0.iter().enumerate() {
            if token.hash.equals_in_constant_time(&hash) {
                found = Some(place);
            }
        }
        found
    }
}

impl FromStr for Tokens {
    type Err = InvalidTokenLine;

    fn from_str(text: &str) -> Result<Self, InvalidTokenLine> {
        let mut tokens: Vec<Token> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let token = Token::read(text).map_err(|problem| InvalidTokenLine { line, problem })?;
            if tokens.iter().any(|other| other.name == token.name || other.hash == token.hash) {
                return Err(InvalidTokenLine { line, problem: "another token has this name or this hash" });
            }
            tokens.push(token);
        }
        Ok(Self(tokens))
    }
}

impl TryFrom<String> for Tokens {
    type Error = InvalidTokenLine;

    fn try_from(text: String) -> Result<Self, InvalidTokenLine> {
        text.parse()
    }
}

impl From<Tokens> for String {
    fn from(Tokens(tokens): Tokens) -> Self {
        let lines: Vec<_> = tokens.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_for_a_token_is_what_is_read() {
        let token = Token::new("alice-1.x_y", "secret", 1_000, true).unwrap();
        let line = token.to_string();
        assert_eq!(
            line,
            "alice-1.x_y 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b cost=1000 broadcast"
        );
        let other = Token::new("bob", "other", 0, false).unwrap();
        let tokens: Tokens = format!("\n# people\n{line} # since 2026\n  {other}\n").parse().unwrap();
        assert_eq!(tokens, Tokens(vec![token, other]));
        assert_eq!((tokens.find("secret"), tokens.find("other"), tokens.find("Secret")), (Some(0), Some(1), None));
        assert_eq!(String::from(tokens.clone()).parse(), Ok(tokens));
    }

    #[test]
    fn a_line_that_is_no_token_is_refused_by_its_number_and_without_repeating_it() {
        let hash = "0".repeat(64);
        for wrong in [
            "alice".to_owned(),
            "alice secret".to_owned(),
            format!("al/ice {hash}"),
            format!("alice {hash} cost=-1"),
            format!("alice {hash} cost"),
            format!("alice {hash} admin"),
            format!("{} {hash}", "a".repeat(65)),
        ] {
            let error = format!("bob {}\n{wrong}", "1".repeat(64)).parse::<Tokens>().unwrap_err();
            assert_eq!(error.line, 2, "{wrong}");
            assert!(!error.to_string().contains("secret"));
        }
        assert!(format!("a {hash}\nb {hash}").parse::<Tokens>().is_err(), "two have one hash");
        assert!(Token::new("a b", "secret", 0, false).is_none());
    }
}
