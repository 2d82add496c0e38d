//! A subscriber's side of ZMTP 3.0 (<https://rfc.zeromq.org/spec/23/>), as much of it as a publisher's socket needs: no
//! login, one topic.
//!
//! ```text
//!   greeting ──►            64 bytes: signature, version, the mechanism NULL
//!            ◄── greeting
//!   READY    ──►            command: that this is a SUB socket
//!            ◄── READY      command: that that is a PUB socket
//!   \x01topic ─►
//!   PING     ──►            command: answered in its turn, so that the topic was read before
//!            ◄── PONG
//!            ◄── frames     flags, length, body; those of one message say that more come, but for the last
//! ```
//!
//! A publisher that has nothing to say is silent, as is one that is gone without having closed the connection: it is
//! asked by PING again. (PING is of ZMTP 3.1; libzmq, which nodes use, answers it whatever version it is spoken to in.)

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::wire::{
    Frame, GREETING_BYTES, answer, check_greeting, check_ready, command, encode, frame, greeting, ping, property,
    violation,
};
use crate::node::StopFlag;

/// One reading waits this long at most, so that whoever reads can look at other things.
const STEP: Duration = Duration::from_millis(50);
/// How long a publisher may take to accept a connection, for each of its addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long it may take until both sides are ready.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// A publisher that is silent for so long is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(10);
/// One that is silent for so long in spite of this is gone.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// More frames than any of its messages has.
const MAX_FRAMES: usize = 8;
const READ_BYTES: usize = 16 << 10;

/// A connection on which the topic is subscribed to.
pub(super) struct Connection {
    stream: TcpStream,
    /// What was read and not yet taken.
    buffer: Vec<u8>,
    /// The frames of a message whose last is not there yet.
    frames: Vec<Vec<u8>>,
    /// When anything was last heard.
    heard: Instant,
    /// When it was last asked whether it is there.
    asked: Instant,
}

impl Connection {
    /// Connects to `host:port` and subscribes. Ends with an error within 100 ms of the flag's going up, but for the time
    /// in which it waits for a host to accept the connection.
    pub(super) fn open(address: &str, topic: &[u8], stop: &StopFlag) -> io::Result<Connection> {
        let stream = connect(address, stop)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(STEP))?;
        stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        let now = Instant::now();
        let mut connection = Connection { stream, buffer: Vec::new(), frames: Vec::new(), heard: now, asked: now };
        connection.stream.write_all(&greeting())?;
        let patience = Patience { stop, until: now + HANDSHAKE_TIMEOUT };
        let greeted = connection.take(&patience, |buffer| Ok(buffer.get(..GREETING_BYTES).map(|_| GREETING_BYTES)))?;
        check_greeting(&greeted)?;
        connection.stream.write_all(&command(b"READY", &property(b"Socket-Type", b"SUB")))?;
        let ready = connection.take(&patience, |buffer| Ok(frame(buffer)?.map(|frame| frame.length)))?;
        check_ready(&ready)?;
        let mut subscription = vec![1];
        subscription.extend(topic);
        connection.stream.write_all(&[encode(0, &subscription), ping()].concat())?;
        loop {
            let bytes = connection.take(&patience, |buffer| Ok(frame(buffer)?.map(|frame| frame.length)))?;
            // messages before it are of the time in which nobody listened
            if frame(&bytes)?.is_some_and(|frame| frame.command && frame.body.starts_with(b"\x04PONG")) {
                return Ok(connection);
            }
        }
    }

    /// The next message, as its frames; `None` when none came within 50 ms. An error ends the connection.
    pub(super) fn receive(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        if let Some(message) = self.message()? {
            return Ok(Some(message));
        }
        if !self.read()? {
            self.ask_whether_it_is_there()?;
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

    /// Reads what there is; false when nothing came for a while.
    fn read(&mut self) -> io::Result<bool> {
        let mut bytes = [0; READ_BYTES];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the node has closed the connection")),
            Ok(length) => {
                self.buffer.extend(bytes.iter().take(length));
                self.heard = Instant::now();
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

    fn ask_whether_it_is_there(&mut self) -> io::Result<()> {
        let silence = self.heard.elapsed();
        if silence > LONGEST_SILENCE {
            return Err(io::Error::new(ErrorKind::TimedOut, format!("nothing was heard for {LONGEST_SILENCE:?}")));
        }
        if silence > SILENCE && self.asked.elapsed() > SILENCE {
            self.asked = Instant::now();
            self.stream.write_all(&ping())?;
        }
        Ok(())
    }

    /// Takes as many bytes as `length` finds to belong together, once they are all there.
    fn take(
        &mut self,
        patience: &Patience<'_>,
        length: impl Fn(&[u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Vec<u8>> {
        loop {
            if let Some(length) = length(&self.buffer)? {
                return Ok(self.buffer.drain(..length).collect());
            }
            patience.check()?;
            self.read()?;
        }
    }
}

struct Patience<'s> {
    stop: &'s StopFlag,
    until: Instant,
}

impl Patience<'_> {
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

    /// Connects to somebody who, having read our greeting, says this, and tells what it was told after that.
    fn meet(says: Vec<u8>, then: impl FnOnce(Connection)) -> (io::Result<()>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeted = [0; GREETING_BYTES];
            stream.read_exact(&mut greeted).unwrap();
            assert_eq!(greeted, greeting());
            stream.write_all(&says).unwrap();
            let mut told = Vec::new();
            // broken off when the other side does not like what it reads
            let _ = stream.read_to_end(&mut told);
            told
        });
        let opened = Connection::open(&address, b"sequence", &StopFlag::new()).map(then);
        (opened, other.join().unwrap())
    }

    fn pong() -> Vec<u8> {
        command(b"PONG", b"")
    }

    fn ready(kind: &[u8]) -> Vec<u8> {
        let identity = property(b"Identity", b"");
        command(b"READY", &[property(b"Socket-Type", kind), identity].concat())
    }

    /// Messages until nothing comes.
    fn receive_all(mut connection: Connection) -> Vec<Vec<Vec<u8>>> {
        let mut messages = Vec::new();
        while let Some(message) = connection.receive().unwrap() {
            messages.push(message);
        }
        messages
    }

    #[test]
    fn a_publisher_is_told_the_topic_and_asked_nothing_more() {
        let mut messages = Vec::new();
        let long = vec![7; 300];
        let says = [
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
        let (opened, told) = meet(says.concat(), |connection| messages = receive_all(connection));
        opened.unwrap();
        assert_eq!(messages, [vec![b"sequence".to_vec(), long, Vec::new()], vec![b"alone".to_vec()]]);
        let expected = [
            b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB".to_vec(),
            b"\x00\x09\x01sequence".to_vec(),
            b"\x04\x07\x04PING\0\0".to_vec(),
            b"\x04\x0c\x04PONGcontext".to_vec(),
        ];
        assert_eq!(told, expected.concat());
    }

    #[test]
    fn whoever_is_no_publisher_is_left() {
        let http =
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\nServer: other\r\n\r\n".to_vec();
        let mut old = theirs();
        old[10] = 2;
        let mut login = theirs();
        login[12..17].copy_from_slice(b"CURVE");
        for (says, problem) in [
            (http, "does not greet"),
            (old.to_vec(), "before 3.0"),
            (login.to_vec(), "wants a login"),
            ([theirs().to_vec(), ready(b"ROUTER")].concat(), "does not publish"),
            ([theirs().to_vec(), encode(0, b"hello")].concat(), "not ready"),
            ([theirs().to_vec(), vec![COMMAND | LONG, 0, 0, 1, 0, 0, 0, 0, 0]].concat(), "too long"),
        ] {
            let (opened, _) = meet(says, drop);
            let error = opened.unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
    }

    #[test]
    fn a_message_that_cannot_be_ends_the_connection() {
        for bytes in
            [vec![0x10, 0], vec![MORE | COMMAND, 0], vec![LONG, 0xff, 0, 0, 0, 0, 0, 0, 0], [MORE, 0].repeat(9)]
        {
            let says = [theirs().to_vec(), ready(b"XPUB"), pong(), bytes].concat();
            let (opened, _) = meet(says, |mut connection| {
                let error = std::iter::repeat_with(|| connection.receive()).take(100).find_map(Result::err).unwrap();
                assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            });
            opened.unwrap();
        }
    }
}
