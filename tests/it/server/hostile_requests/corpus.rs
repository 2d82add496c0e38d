//! The requests of corpus.txt, one a line:
//!
//! ```text
//!   NAME | query, body or message | over HTTP | over a websocket | TEMPLATE
//! ```
//!
//! What comes over HTTP and over a websocket is the code of the first error, `data`, or `closed CODE`. A template is the
//! text itself, in which `\n \r \t \\ \xFF` are bytes, `«100×text»` is a text so many times, and in that `№` is the number
//! of the time, from 0, and `№+` the one behind it.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The document of a request.
    Query,
    /// The whole JSON of a request.
    Body,
    /// A message of a websocket.
    Message,
}

pub(super) struct Case {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) http: String,
    pub(super) websocket: String,
    template: String,
}

/// Begins a message that is answered, or ends the connection.
pub(super) const SUBSCRIBE: &[u8] = br#"{"type":"subscribe","#;

const CORPUS: &str = include_str!("corpus.txt");

pub(super) fn cases() -> Vec<Case> {
    CORPUS.lines().map(Case::read).collect()
}

impl Case {
    fn read(line: &str) -> Self {
        let parts: Vec<&str> = line.splitn(5, " | ").collect();
        let [name, kind, http, websocket, template] = parts[..] else { panic!("five parts: {line}") };
        let kind = match kind {
            "query" => Kind::Query,
            "body" => Kind::Body,
            "message" => Kind::Message,
            kind => panic!("{kind}"),
        };
        let [name, http, websocket, template] = [name, http, websocket, template].map(str::to_owned);
        Self { name, kind, http, websocket, template }
    }

    /// The text that the template stands for.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        expand(&self.template, 0, &mut text);
        text
    }

    /// The body of a POST.
    pub(super) fn body(&self) -> Vec<u8> {
        let text = self.text();
        match self.kind {
            Kind::Query => serde_json::to_vec(&serde_json::json!({ "query": as_text(&text) })).unwrap(),
            Kind::Body | Kind::Message => text,
        }
    }

    /// What is sent over a websocket.
    pub(super) fn message(&self) -> Vec<u8> {
        match self.kind {
            Kind::Message => self.text(),
            _ => [SUBSCRIBE, br#""id":"1","payload":"#, &self.body(), b"}"].concat(),
        }
    }
}

/// The same body over a websocket of the older protocol.
pub(super) fn start(body: &[u8]) -> Vec<u8> {
    [br#"{"type":"start","id":"1","payload":"#, body, b"}"].concat()
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Query => "query",
            Kind::Body => "body",
            Kind::Message => "message",
        };
        let Self { name, http, websocket, template, .. } = self;
        write!(f, "{name} | {kind} | {http} | {websocket} | {template}")
    }
}

pub(super) fn as_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn expand(template: &str, number: usize, text: &mut Vec<u8>) {
    let mut rest = template;
    while let Some(char) = rest.chars().next() {
        rest = &rest[char.len_utf8()..];
        match char {
            '\\' => {
                let escape = &rest[..1];
                rest = &rest[1..];
                match escape {
                    "n" => text.push(b'\n'),
                    "r" => text.push(b'\r'),
                    "t" => text.push(b'\t'),
                    "\\" => text.push(b'\\'),
                    "x" => {
                        text.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                        rest = &rest[2..];
                    }
                    escape => panic!("\\{escape} in {template}"),
                }
            }
            '«' => {
                let (repeated, after) = rest.split_once('»').unwrap();
                let (times, what) = repeated.split_once('×').unwrap();
                (0..times.parse().unwrap()).for_each(|number| expand(what, number, text));
                rest = after;
            }
            '№' => {
                let next = rest.strip_prefix('+');
                rest = next.unwrap_or(rest);
                text.extend((number + usize::from(next.is_some())).to_string().bytes());
            }
            char => text.extend(char.to_string().bytes()),
        }
    }
}

#[test]
fn a_template_stands_for_its_text() {
    let case = Case::read(r"a name | body | data | closed 4400 | a\n\x41«3×F№ F№+,»\\ é | b");
    assert_eq!(as_text(&case.text()), "a\nAF0 F1,F1 F2,F2 F3,\\ é | b");
    assert_eq!(case.to_string(), r"a name | body | data | closed 4400 | a\n\x41«3×F№ F№+,»\\ é | b");
}
