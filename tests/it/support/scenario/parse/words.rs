//! The words of a line, taken one by one.

use std::str::FromStr;

use bitcoin::{Amount, Denomination};

/// What remains of a line.
#[derive(Clone, Debug)]
pub(super) struct Words<'t> {
    words: std::vec::IntoIter<&'t str>,
}

impl<'t> Words<'t> {
    /// Blanks part words; a comma and a slash are words of their own, and so is a text in double quotes, which keeps
    /// the first of them. Errors: the second is missing.
    pub(super) fn of(mut line: &'t str) -> Result<Self, String> {
        let mut words = Vec::new();
        loop {
            line = line.trim_start();
            let Some(first) = line.chars().next() else { break };
            let end = match first {
                ',' | '/' => 1,
                '"' => 1 + line[1..].find('"').ok_or("a quoted text has no end")?,
                _ => line.find(|c: char| c.is_whitespace() || c == ',' || c == '/').unwrap_or(line.len()),
            };
            words.push(&line[..end]);
            line = &line[end + usize::from(first == '"')..];
        }
        Ok(Self { words: words.into_iter() })
    }

    /// The next word, or what there should be.
    pub(super) fn next(&mut self, what: &str) -> Result<&'t str, String> {
        self.words.next().ok_or_else(|| format!("{what} is missing at the end"))
    }

    /// Whether these words come next; then they are taken.
    pub(super) fn take(&mut self, expected: &str) -> bool {
        let before = self.words.clone();
        let taken = expected.split(' ').all(|word| self.words.next() == Some(word));
        if !taken {
            self.words = before;
        }
        taken
    }

    /// Takes a word that must come next.
    pub(super) fn must(&mut self, expected: &str) -> Result<(), String> {
        if self.take(expected) {
            return Ok(());
        }
        Err(match self.words.as_slice().first() {
            Some(found) => format!("'{expected}' is expected where '{found}' stands"),
            None => format!("'{expected}' is missing at the end"),
        })
    }

    /// Nothing may come any more.
    pub(super) fn end(mut self) -> Result<(), String> {
        self.words.next().map_or(Ok(()), |word| Err(format!("'{word}' is not expected here")))
    }

    pub(super) fn name(&mut self) -> Result<String, String> {
        let word = self.next("a name")?;
        let starts = word.starts_with(|first: char| first.is_ascii_lowercase());
        if starts && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
            Ok(word.to_owned())
        } else {
            Err(format!("'{word}' is no name: it begins with a letter, and small letters, digits and _ follow"))
        }
    }

    pub(super) fn amount(&mut self) -> Result<Amount, String> {
        let word = self.next("an amount in BTC")?;
        Amount::from_str_in(word, Denomination::Bitcoin).map_err(|_| format!("'{word}' is no amount in BTC"))
    }

    pub(super) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        word.parse().map_err(|_| format!("'{word}' is no {what}"))
    }

    pub(super) fn blocks(&mut self) -> Result<u32, String> {
        const MOST: u32 = 1_000;
        let word = self.next("a number of blocks")?;
        // more blocks than that in one action are a slip of the pen
        let number = word.parse().ok().filter(|count| (1..=MOST).contains(count));
        number.ok_or_else(|| format!("'{word}' is no number of blocks from 1 to {MOST}"))
    }
}
