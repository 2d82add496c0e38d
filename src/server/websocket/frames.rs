//! Where messages begin and end in the bytes of a client, to know since when one is unfinished: the library that reads them
//! reports only whole ones.
//!
//! ```text
//!   frame:    first byte ─ length ─ mask ─ payload          FIN, opcode, length (RFC 6455, section 5.2)
//!   message:  frame, not FIN ─ frame, not FIN ─ … ─ FIN     control frames may stand between, and finish nothing
//! ```
//!
//! The library refuses what is no frame by the protocol.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;

/// The longest head of a frame, in bytes.
const LONGEST_HEAD: usize = 14;

/// Follows frames byte by byte.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; LONGEST_HEAD],
    /// How much of the head is read.
    size: usize,
    /// How much of the payload is missing, once the head is read.
    payload: Option<u64>,
    /// Within a message of several frames, between its first and its last.
    is_fragmented: bool,
}

impl Frames {
    /// Reads bytes. Whether anything ends in them, and whether something is unfinished after them.
    fn read(&mut self, mut bytes: &[u8]) -> (bool, bool) {
        let mut finished = false;
        loop {
            let remaining = if let Some(remaining) = self.payload {
                remaining
            } else {
                let missing = self.head_size() - self.size;
                let (more, rest) = bytes.split_at(missing.min(bytes.len()));
                self.head[self.size..self.size + more.len()].copy_from_slice(more);
                self.size += more.len();
                bytes = rest;
                if more.len() < missing {
                    return (finished, self.size > 0 || self.is_fragmented);
                }
                if self.size < self.head_size() {
                    // the second byte says how long it is
                    continue;
                }
                self.length()
            };
            let taken = remaining.min(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            bytes = &bytes[usize::try_from(taken).unwrap_or(bytes.len())..];
            if taken < remaining {
                self.payload = Some(remaining - taken);
                return (finished, true);
            }
            let (is_last, is_control) = (self.head[0] & 0x80 != 0, self.head[0] & 0x08 != 0);
            if !is_control {
                self.is_fragmented = !is_last;
                finished |= is_last;
            } else if !self.is_fragmented {
                finished = true;
            }
            (self.size, self.payload) = (0, None);
        }
    }

    /// As far as its first bytes say.
    fn head_size(&self) -> usize {
        if self.size < 2 {
            return 2;
        }
        let length = match self.head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if self.head[1] & 0x80 == 0 { 0 } else { 4 };
        2 + length + mask
    }

    fn length(&self) -> u64 {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        match self.head[1] & 0x7f {
            126 => number(&self.head[2..4]),
            127 => number(&self.head[2..10]),
            length => length.into(),
        }
    }
}

/// The websockets of clients.
pub(crate) type WebSocket = WebSocketStream<Framed<TokioIo<Upgraded>>>;

/// A stream that is read as frames.
pub(crate) struct Framed<S> {
    stream: S,
    frames: Frames,
    /// Since when a message is unfinished.
    unfinished: Option<Instant>,
}

impl<S> Framed<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, frames: Frames::default(), unfinished: None }
    }

    /// Since when a message, or a control frame by itself, is unfinished.
    pub(crate) fn unfinished(&self) -> Option<Instant> {
        self.unfinished
    }

    /// Restarts the time of an unfinished message: the server does not read what the client may have sent.
    pub(crate) fn restart(&mut self) {
        self.unfinished = self.unfinished.map(|_| Instant::now());
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Some(bytes) = buffer.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            let (finished, is_unfinished) = self.frames.read(bytes);
            let since = self.unfinished.filter(|_| !finished);
            self.unfinished = is_unfinished.then(|| since.unwrap_or_else(Instant::now));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Framed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

    use super::*;

    const TEXT: OpCode = OpCode::Data(Data::Text);
    const MORE: OpCode = OpCode::Data(Data::Continue);
    const PING: OpCode = OpCode::Control(Control::Ping);

    /// As the library writes it.
    fn frame(code: OpCode, is_last: bool, size: usize, masked: bool) -> Vec<u8> {
        let mut frame = Frame::message(vec![0xff; size], code, is_last);
        if masked {
            frame.header_mut().mask = Some([1, 2, 3, 4]);
        }
        let mut bytes = Vec::new();
        frame.format(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_ping_within_a_message_finishes_nothing() {
        let mut frames = Frames::default();
        assert_eq!(frames.read(&frame(TEXT, false, 5, true)), (false, true));
        assert_eq!(frames.read(&frame(PING, true, 5, true)), (false, true));
        assert_eq!(frames.read(&frame(MORE, false, 0, true)), (false, true));
        assert_eq!(frames.read(&frame(MORE, true, 5, true)), (true, false));
        assert_eq!(frames.read(&frame(PING, true, 0, true)), (true, false));
        assert_eq!(frames.read(&frame(PING, true, 0, true)[..1]), (false, true));
    }

    proptest! {
        /// Messages of fragments with pings between them, cut anywhere: it is known after each piece whether it ends where a
        /// message does.
        #[test]
        fn wherever_what_is_sent_is_cut_the_ends_of_messages_are_known(
            messages in prop::collection::vec((prop::collection::vec(0..300_usize, 1..4), any::<bool>()), 1..6),
            large in prop::option::of(65_530..65_540_usize),
            masked in any::<bool>(),
            cuts in prop::collection::vec(1..400_usize, 1..20),
        ) {
            let (mut sent, mut ends) = (Vec::new(), vec![0]);
            for (mut fragments, pings) in messages {
                fragments.extend(large);
                for (number, size) in fragments.iter().enumerate() {
                    let code = if number == 0 { TEXT } else { MORE };
                    sent.extend(frame(code, number + 1 == fragments.len(), *size, masked));
                    if pings && number + 1 < fragments.len() {
                        sent.extend(frame(PING, true, 3, masked));
                    }
                }
                ends.push(sent.len());
            }
            let (mut frames, mut at) = (Frames::default(), 0);
            for cut in cuts.into_iter().cycle() {
                let next = sent.len().min(at + cut);
                let (finished, is_unfinished) = frames.read(&sent[at..next]);
                prop_assert_eq!(is_unfinished, !ends.contains(&next));
                prop_assert_eq!(finished, ends.iter().any(|end| (at + 1..=next).contains(end)));
                if next == sent.len() {
                    break;
                }
                at = next;
            }
        }
    }
}
