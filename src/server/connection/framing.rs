//! Where the requests of a connection begin and end, as far as it takes to find one that states its length twice: by
//! `Content-Length` and by `Transfer-Encoding`. A proxy in front may go by the one and this server by the other, and then they
//! do not agree on where the next request begins (request smuggling; RFC 9112, section 6.3). The HTTP library drops
//! `Content-Length` before a handler could see it, so the bytes are looked at on their way to the library.
//!
//! ```text
//!          head ends           sized body            chunked body
//!   Head ───────────► Skip(n) ─────────► Head    Size ─► Skip(n) ─► Size … ─► Trailers ─► Head
//!     └ both lengths, or bytes that the library refuses, too ─► Over
//! ```

use async_graphql::futures_util::future::{BoxFuture, FutureExt};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use httparse::{EMPTY_HEADER, Status};

use crate::api::code;
use crate::execution::error::error;
use crate::server::http::response::refuse_as_json;
use crate::server::middleware::step::{NextStep, RequestStep};

/// The most bytes of a request that are read before its head has ended, and about the most of an answer that wait in the
/// connection's own buffer. A query of the default length fits the query string of a GET, each byte as three.
pub(crate) const BUFFER: usize = 128 << 10;

/// Among the extensions of a request that states its length by `Content-Length` and by `Transfer-Encoding`. Its connection is
/// closed after the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AmbiguousLength;

/// Answers 400 to a request that states its length twice.
pub(crate) struct RefuseAmbiguousLength;

impl RequestStep for RefuseAmbiguousLength {
    fn handle<'a>(&'a self, request: Request, next: NextStep<'a>) -> BoxFuture<'a, Response> {
        if request.extensions().get::<AmbiguousLength>().is_none() {
            return next.run(request);
        }
        let message = "Content-Length and Transfer-Encoding exclude each other: send one of them";
        let response = refuse_as_json(StatusCode::BAD_REQUEST, error(code::BAD_USER_INPUT, message));
        async { response }.boxed()
    }
}

/// The most headers of a request, the same as the library's.
const HEADERS: usize = 100;

/// Follows the bytes that a client sends.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    state: FramingState,
    /// The head or the line that has begun and not ended.
    begun: Vec<u8>,
    /// How many heads have ended.
    heads: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FramingState {
    #[default]
    Head,
    /// So many bytes of a sized body, or of a chunk and the end of its line, and what follows them.
    Skip(u64, After),
    /// The line with the size of the next chunk.
    Size,
    /// Lines up to an empty one.
    Trailers,
    /// Nothing more is looked at.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Head,
    Size,
}

impl Framing {
    /// Takes the next bytes. The number of the request, from 1, if they end the head of one that states its length twice; no
    /// request behind it is looked at.
    pub(crate) fn follow(&mut self, mut bytes: &[u8]) -> Option<u64> {
        while !bytes.is_empty() && self.state != FramingState::Over {
            if let FramingState::Skip(left, after) = self.state {
                let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                bytes = &bytes[skipped..];
                let left = left - u64::try_from(skipped).unwrap_or(left);
                self.state = match after {
                    _ if left > 0 => FramingState::Skip(left, after),
                    After::Head => FramingState::Head,
                    After::Size => FramingState::Size,
                };
                continue;
            }
            // each line is looked at once, however few bytes come at a time
            let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                self.keep(bytes);
                break;
            };
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            self.keep(line);
            if self.end_line() {
                return Some(self.heads);
            }
        }
        None
    }

    fn keep(&mut self, mut bytes: &[u8]) {
        // so that any number of them fits, in however many pieces they come
        if self.state == FramingState::Size && self.begun.iter().all(|byte| *byte == b'0') {
            bytes = without_leading_zeros(bytes);
            if bytes.first().is_some_and(u8::is_ascii_hexdigit) {
                self.begun.clear();
            }
        }
        if self.begun.len().saturating_add(bytes.len()) > BUFFER {
            self.end(FramingState::Over);
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }

    fn end(&mut self, state: FramingState) {
        self.state = state;
        self.begun.clear();
        // a connection waits longer than it reads, and one that becomes a websocket never reads a head again
        self.begun.shrink_to(0);
    }

    /// A line has ended. Whether with it a head has that states its length twice.
    fn end_line(&mut self) -> bool {
        let is_empty = matches!(self.begun.as_slice(), [b'\n'] | [.., b'\n', b'\n'] | [b'\r', b'\n'])
            || self.begun.ends_with(b"\n\r\n");
        match self.state {
            // lines before a head that are empty are not of it
            FramingState::Head if is_empty && self.begun.iter().all(|byte| b"\r\n".contains(byte)) => {
                self.begun.clear();
            }
            FramingState::Head if is_empty => return self.end_head(),
            FramingState::Size => match httparse::parse_chunk_size(&self.begun) {
                Ok(Status::Complete((_, 0))) => self.end(FramingState::Trailers),
                Ok(Status::Complete((_, size))) => {
                    let with_line_end = size.saturating_add(2);
                    self.end(FramingState::Skip(with_line_end, After::Size));
                }
                _ => self.end(FramingState::Over),
            },
            FramingState::Trailers if is_empty => self.end(FramingState::Head),
            FramingState::Trailers => self.begun.clear(),
            FramingState::Head | FramingState::Skip(..) | FramingState::Over => {}
        }
        false
    }

    fn end_head(&mut self) -> bool {
        let mut headers = [EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        if !matches!(request.parse(&self.begun), Ok(Status::Complete(_))) {
            self.end(FramingState::Over);
            return false;
        }
        self.heads += 1;
        let find = |name: &str| request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        let (length, coding) = (find("content-length"), find("transfer-encoding"));
        let (state, is_ambiguous) = match (length, coding) {
            (Some(_), Some(_)) => (FramingState::Over, true),
            (None, None) => (FramingState::Head, false),
            // `chunked` comes last, or the library refuses the request
            (None, Some(_)) => (FramingState::Size, false),
            (Some(length), None) => {
                let length = std::str::from_utf8(length.value).ok().and_then(|length| length.trim().parse().ok());
                (length.map_or(FramingState::Over, |length| FramingState::Skip(length, After::Head)), false)
            }
        };
        self.end(state);
        is_ambiguous
    }
}

/// The beginning of the size of a chunk without the zeros in front of another digit: the library that serves the connection reads
/// any number of them, and `httparse` at most 16 digits.
fn without_leading_zeros(mut size: &[u8]) -> &[u8] {
    while let [b'0', digit, ..] = size
        && digit.is_ascii_hexdigit()
    {
        size = &size[1..];
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const SIZED: &str = "POST / HTTP/1.1\r\ncontent-length: 31\r\n\r\nTransfer-Encoding: x\r\n\r\nGET /\r\n";
    const CHUNKED: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
        a;x=y\r\nGET /\r\n\r\n1\r\n1\r\nz\r\n0\r\nTrailer: Content-Length\r\n\r\n";
    const LONG_SIZE: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
        00000000000000003\r\nabc\r\n00000000000000000000;x\r\n\r\n";
    const EMPTY_CHUNKED: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    const BOTH: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n";
    const TURNED: &str = "POST / HTTP/1.1\r\ncontent-length: 5\r\nHost: a\r\ntransfer-encoding:chunked\r\n\r\n";

    /// The number that is found in these bytes, which come so many at a time.
    fn found(bytes: &str, at_once: usize) -> Option<u64> {
        let mut framing = Framing::default();
        bytes.as_bytes().chunks(at_once).find_map(|chunk| framing.follow(chunk))
    }

    #[test]
    fn a_request_with_both_lengths_is_found_among_others() {
        assert_eq!(SIZED.split_once("\r\n\r\n").unwrap().1.len(), 31);
        for (before, number) in [
            ("", 1),
            ("\r\n\n", 1),
            (GET, 2),
            (SIZED, 2),
            (CHUNKED, 2),
            (EMPTY_CHUNKED, 2),
            (LONG_SIZE, 2),
            (&format!("{GET}\r\n{CHUNKED}{SIZED}{EMPTY_CHUNKED}{GET}"), 6),
        ] {
            for ambiguous in [BOTH, TURNED] {
                let bytes = format!("{before}{ambiguous}");
                for at_once in 1..=bytes.len() {
                    assert_eq!(found(&bytes, at_once), Some(number), "{bytes:?} by {at_once}");
                }
            }
        }
    }

    #[test]
    fn requests_with_one_length_or_none_are_left_alone() {
        let bytes = [GET, SIZED, CHUNKED, EMPTY_CHUNKED, GET].concat();
        for at_once in 1..=bytes.len() {
            let mut framing = Framing::default();
            assert!(bytes.as_bytes().chunks(at_once).all(|chunk| framing.follow(chunk).is_none()));
            assert_eq!((framing.heads, framing.state, framing.begun.capacity()), (5, FramingState::Head, 0));
        }
    }

    #[test]
    fn bytes_that_are_not_http_are_not_followed() {
        let endless = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(BUFFER));
        for bytes in [
            "\u{16}\u{3}\u{1}\n\n",
            "GET / HTTP/1.1\r\nno header\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            &endless,
        ] {
            let mut framing = Framing::default();
            assert_eq!(framing.follow(bytes.as_bytes()), None);
            assert_eq!((framing.state, framing.follow(BOTH.as_bytes())), (FramingState::Over, None), "{bytes:.40?}");
            assert_eq!(framing.begun.capacity(), 0);
        }
    }
}
