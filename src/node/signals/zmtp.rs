//! The subscriber's side of ZMTP 3.0 (<https://rfc.zeromq.org/spec/23/>), as far as a publisher's socket requires it:
//! no login, one topic.
//!
//! ```text
//!   greeting ──►            64 bytes: signature, version, the mechanism NULL
//!            ◄── greeting
//!   READY    ──►            command: this is a SUB socket
//!            ◄── READY      command: the other is a PUB socket
//!   \x01topic ─►
//!   PING     ──►            command: answered in order, so its PONG proves that the topic was read
//!            ◄── PONG
//!            ◄── frames     flags, length, body; every frame of a message but the last has the flag MORE
//! ```
//!
//! A publisher without news is silent, and so is one that disappeared without closing the connection: a PING distinguishes them
//! apart. (PING is part of ZMTP 3.1; libzmq, which nodes use, answers it whatever version the peer uses.)

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::wire::{
    Frame, GREETING_BYTES, answer, check_greeting, check_ready, command, encode, frame, greeting, ping, property,
    violation,
};
use crate::node::StopFlag;

/// The longest wait of one read, so that the reading thread can check its stop flag.
const STEP: Duration = Duration::from_millis(50);
/// How long a publisher may take to accept a connection, for each of its addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// After this silence the publisher gets a PING.
const SILENCE: Duration = Duration::from_secs(10);
/// After this silence, in spite of the PING, the connection is closed.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// The most frames of a message; more than any message of a node has.
const MAX_FRAMES: usize = 8;
const READ_BYTES: usize = 16 << 10;

/// A connection that is subscribed to the topic.
pub(super) struct ZmqConnection {
    stream: TcpStream,
    /// Bytes that are read and not yet decoded.
    buffer: Vec<u8>,
    /// The frames of an incomplete message.
    frames: Vec<Vec<u8>>,
    /// When bytes last arrived.
    last_received: Instant,
    /// When a PING was last sent.
    last_ping: Instant,
}

impl ZmqConnection {
    /// Connects to `host:port` and subscribes. Returns an error within 100 ms after the flag is raised, except while it
    /// waits for a host to accept the connection.
    pub(super) fn open(address: &str, topic: &[u8], stop: &StopFlag) -> io::Result<ZmqConnection> {
        let stream = connect(address, stop)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(STEP))?;
        stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        let now = Instant::now();
        let mut connection =
            ZmqConnection { stream, buffer: Vec::new(), frames: Vec::new(), last_received: now, last_ping: now };
        connection.stream.write_all(&greeting())?;
        let deadline = Deadline { stop, until: now + HANDSHAKE_TIMEOUT };
        let greeted = connection.take(&deadline, |buffer| Ok(buffer.get(..GREETING_BYTES).map(|_| GREETING_BYTES)))?;
        check_greeting(&greeted)?;
        connection.stream.write_all(&command(b"READY", &property(b"Socket-Type", b"SUB")))?;
        let ready = connection.take(&deadline, |buffer| Ok(frame(buffer)?.map(|frame| frame.length)))?;
        check_ready(&ready)?;
        let mut subscription = vec![1];
        subscription.extend(topic);
        connection.stream.write_all(&[encode(0, &subscription), ping()].concat())?;
        loop {
            let bytes = connection.take(&deadline, |buffer| Ok(frame(buffer)?.map(|frame| frame.length)))?;
            // messages before the PONG predate the subscription
            if frame(&bytes)?.is_some_and(|frame| frame.command && frame.body.starts_with(b"\x04PONG")) {
                return Ok(connection);
            }
        }
    }

    /// The next message, as its frames; `None` when none arrives within 50 ms. An error ends the connection.
    pub(super) fn receive(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        if let Some(message) = self.message()? {
            return Ok(Some(message));
        }
        if !self.read()? {
            self.check_silence()?;
            return Ok(None);
        }
        self.message()
    }

    /// Takes frames out of the buffer up to the end of a message.
    fn message(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        let mut taken = 0;
        let mut answers = Vec::new();
        let mut message = None;
        while message.is_none()
            && let Some(Frame { more, command, body, length }) = frame(self.buffer.get(taken..).unwrap_or_default())?
        {
            taken += length;
            if command {
                answers.extend(answer(body).unwrap_or_default());
                continue;
            }
            self.frames.push(body.to_vec());
            if self.frames.len() > MAX_FRAMES {
                return Err(violation("a message has too many frames"));
            }
            if !more {
                message = Some(std::mem::take(&mut self.frames));
            }
        }
        self.buffer.drain(..taken);
        if !answers.is_empty() {
            self.stream.write_all(&answers)?;
        }
        Ok(message)
    }

    /// Reads available bytes into the buffer; false when none arrive within [`STEP`].
    fn read(&mut self) -> io::Result<bool> {
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the node has closed the connection")),
            Ok(length) => {
                self.buffer.extend(bytes.iter().take(length));
                self.last_received = Instant::now();
                Ok(true)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a PING after a silence.
    ///
    /// Errors: the silence is too long.
    fn check_silence(&mut self) -> io::Result<()> {
        let silence = self.last_received.elapsed();
        if silence > LONGEST_SILENCE {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("the publisher was silent for {LONGEST_SILENCE:?}"),
            ));
        }
        if silence > SILENCE && self.last_ping.elapsed() > SILENCE {
            self.last_ping = Instant::now();
            self.stream.write_all(&ping())?;
        }
        Ok(())
    }

    /// Takes as many bytes as `length` returns, once they have arrived.
    fn take(
        &mut self,
        deadline: &Deadline<'_>,
        length: impl Fn(&[u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = length(&self.buffer)? {
                return Ok(self.buffer.drain(..length).collect());
            }
            deadline.check()?;
            self.read()?;
        }
    }
}

struct Deadline<'s> {
    stop: &'s StopFlag,
    until: Instant,
}

impl Deadline<'_> {
    fn check(&self) -> io::Result<()> {
        if self.stop.is_raised() {
            return Err(stopped());
        }
        if Instant::now() > self.until {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("no publisher answers within {HANDSHAKE_TIMEOUT:?}"),
            ));
        }
        Ok(())
    }
}

fn connect(address: &str, stop: &StopFlag) -> io::Result<TcpStream> {
    let mut failure = None;
    for address in address.to_socket_addrs()? {
        if stop.is_raised() {
            return Err(stopped());
        }
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| io::Error::new(ErrorKind::NotFound, "the name has no address")))
}

fn stopped() -> io::Error {
    io::Error::new(ErrorKind::Interrupted, "stopped")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::wire::{COMMAND, LONG, MORE};
    use super::*;

    /// A publisher's greeting.
    fn theirs() -> [u8; GREETING_BYTES] {
        let mut theirs = greeting();
        theirs[8] = 1;
        theirs[11] = 1;
        theirs
    }

    /// Connects to a server that reads the greeting and then sends these bytes. Returns the result and the bytes that
    /// the server received after the greeting.
    fn meet(sends: Vec<u8>, then: impl FnOnce(ZmqConnection)) -> (io::Result<()>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeted = [0; GREETING_BYTES];
            stream.read_exact(&mut greeted).unwrap();
            assert_eq!(greeted, greeting());
            stream.write_all(&sends).unwrap();
            let mut received = Vec::new();
            // fails when the client closes the connection early
            let _ = stream.read_to_end(&mut received);
            received
        });
        let opened = ZmqConnection::open(&address, b"sequence", &StopFlag::new()).map(then);
        (opened, other.join().unwrap())
    }

    fn pong() -> Vec<u8> {
        command(b"PONG", b"")
    }

    fn ready(kind: &[u8]) -> Vec<u8> {
        let identity = property(b"Identity", b"");
        command(b"READY", &[property(b"Socket-Type", kind), identity].concat())
    }

    /// All messages until none arrives.
    fn receive_all(mut connection: ZmqConnection) -> Vec<Vec<Vec<u8>>> {
        let mut messages = Vec::new();
        while let Some(message) = connection.receive().unwrap() {
            messages.push(message);
        }
        messages
    }

    #[test]
    fn a_subscription_sends_the_topic_and_answers_pings() {
        let mut messages = Vec::new();
        let long = vec![7; 300];
        let sends = [
            theirs().to_vec(),
            ready(b"PUB"),
            encode(0, b"too early"),
            pong(),
            encode(MORE, b"sequence"),
            encode(MORE, &long),
            encode(0, b""),
            command(b"PING", b"\0\0context"),
            encode(0, b"alone"),
        ];
        let (opened, received) = meet(sends.concat(), |connection| messages = receive_all(connection));
        opened.unwrap();
        assert_eq!(messages, [vec![b"sequence".to_vec(), long, Vec::new()], vec![b"alone".to_vec()]]);
        let expected = [
            b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB".to_vec(),
            b"\x00\x09\x01sequence".to_vec(),
            b"\x04\x07\x04PING\0\0".to_vec(),
            b"\x04\x0c\x04PONGcontext".to_vec(),
        ];
        assert_eq!(received, expected.concat());
    }

    #[test]
    fn a_server_that_is_not_a_publisher_is_refused() {
        let http =
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\nServer: other\r\n\r\n".to_vec();
        let mut old = theirs();
        old[10] = 2;
        let mut login = theirs();
        login[12..17].copy_from_slice(b"CURVE");
        for (sends, problem) in [
            (http, "does not greet"),
            (old.to_vec(), "before 3.0"),
            (login.to_vec(), "requires a login"),
            ([theirs().to_vec(), ready(b"ROUTER")].concat(), "does not publish"),
            ([theirs().to_vec(), encode(0, b"hello")].concat(), "not ready"),
            ([theirs().to_vec(), vec![COMMAND | LONG, 0, 0, 1, 0, 0, 0, 0, 0]].concat(), "too long"),
        ] {
            let (opened, _) = meet(sends, drop);
            let error = opened.unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
    }

    #[test]
    fn a_malformed_message_ends_the_connection() {
        for bytes in
            [vec![0x10, 0], vec![MORE | COMMAND, 0], vec![LONG, 0xff, 0, 0, 0, 0, 0, 0, 0], [MORE, 0].repeat(9)]
        {
            let sends = [theirs().to_vec(), ready(b"XPUB"), pong(), bytes].concat();
            let (opened, _) = meet(sends, |mut connection| {
                let error = std::iter::repeat_with(|| connection.receive()).take(100).find_map(Result::err).unwrap();
                assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            });
            opened.unwrap();
        }
    }
}
