//! Just enough of Rust's lexer to tell code from comments and literals: a source file as identifiers, `::` and
//! single punctuation characters.

/// The tokens of `source`: identifiers (raw ones without `r#`), `::`, and other characters one by one. Comments,
/// strings, characters, numbers and lifetimes are left out.
pub(super) fn tokens(source: &str) -> Vec<String> {
    let chars: Vec<char> = source.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        match c {
            '/' if next == Some('/') => at = line_end(&chars, at),
            '/' if next == Some('*') => at = block_comment_end(&chars, at),
            '"' => at = string_end(&chars, at + 1),
            '\'' => at = quote_end(&chars, at),
            ':' if next == Some(':') => {
                tokens.push("::".to_owned());
                at += 2;
            }
            c if is_word(c) => {
                let end = word_end(&chars, at);
                let word: String = chars[at..end].iter().collect();
                let hashes = chars[end..].iter().take_while(|&&c| c == '#').count();
                let quoted = chars.get(end + hashes) == Some(&'"');
                match word.as_str() {
                    "r" | "br" | "cr" if quoted => at = raw_string_end(&chars, end + hashes + 1, hashes),
                    "r" if hashes == 1 => at = end + 1,
                    _ => {
                        if !c.is_ascii_digit() {
                            tokens.push(word);
                        }
                        at = end;
                    }
                }
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word_end(chars: &[char], from: usize) -> usize {
    from + chars[from..].iter().take_while(|&&c| is_word(c)).count()
}

fn line_end(chars: &[char], from: usize) -> usize {
    from + chars[from..].iter().take_while(|&&c| c != '\n').count()
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (at, depth) = (at + 2, depth + 1),
            ('*', Some('/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Where a string whose text starts at `at` is over.
fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '"' => return at + 1,
            '\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

fn raw_string_end(chars: &[char], mut at: usize, hashes: usize) -> usize {
    while at < chars.len() {
        if chars[at] == '"' && chars[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    at
}

/// Where the character or lifetime that starts with the `'` at `from` is over.
fn quote_end(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => {
            let escaped = from + 3; // what the backslash escapes may itself be a quote
            escaped + chars[escaped.min(chars.len())..].iter().take_while(|&&c| c != '\'').count() + 1
        }
        (Some(_), Some('\'')) => from + 3,
        _ => word_end(chars, (from + 1).min(chars.len())),
    }
}

#[test]
fn code_is_separated_from_comments_and_literals() {
    let source = r##"
        //! redb in a doc comment
        /* redb /* nested */ redb */
        use std::fmt; // redb
        const A: &str = "redb \" redb";
        const B: &[u8] = br#"redb " redb"#;
        fn f<'redb>(r#type: &'redb str) -> char { '"'; '\''; 'r' }
        let n = 0xff_u8;
    "##;
    let expected = "use std :: fmt ; const A : & str = ; const B : & [ u8 ] = ; \
                    fn f < > ( type : & str ) -> char { ; ; } let n = ;";
    let expected: Vec<_> = expected.replace("->", "- >").split(' ').map(ToOwned::to_owned).collect();
    assert_eq!(tokens(source), expected);
}
