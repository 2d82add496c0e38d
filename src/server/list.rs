//! A setting that is a list of words, separated by blanks: hosts, origins, proxies.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A word of a [`WordList`].
pub trait ListWord: FromStr + Display + Clone + 'static {
    /// The list if the setting is left out.
    const DEFAULT: &'static [Self] = &[];
}

/// The words of a setting, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String", bound = "T: ListWord, T::Err: Display")]
pub struct WordList<T>(Vec<T>);

impl<T> WordList<T> {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

impl<T: ListWord> Default for WordList<T> {
    fn default() -> Self {
        Self(T::DEFAULT.to_vec())
    }
}

impl<T: ListWord> FromStr for WordList<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl<T: ListWord> TryFrom<String> for WordList<T> {
    type Error = T::Err;

    fn try_from(text: String) -> Result<Self, T::Err> {
        text.parse()
    }
}

impl<T: ListWord> From<WordList<T>> for String {
    fn from(list: WordList<T>) -> Self {
        list.to_string()
    }
}

impl<T: ListWord> Display for WordList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, word) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { " " };
            write!(f, "{separator}{word}")?;
        }
        Ok(())
    }
}
