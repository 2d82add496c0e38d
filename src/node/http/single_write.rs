//! Sends the head of a request and the beginning of its body in one write. The stock transport writes the head by itself, and each
//! write wakes the node: two for a request of one transaction.

use std::fmt;

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// The longest head that waits for its body, in bytes; a longer one is sent at once.
const MAX_HEAD: usize = 4 << 10;

/// Makes every connection a [`SingleWrite`].
#[derive(Debug)]
pub(super) struct SingleWriteConnector;

impl<In: Transport> Connector<In> for SingleWriteConnector {
    type Out = SingleWrite<In>;

    fn connect(&self, _: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<SingleWrite<In>>, Error> {
        Ok(chained.map(SingleWrite::new))
    }
}

/// A connection that keeps the head of a request until its body follows, or until the response is awaited.
///
/// A head fits the empty send buffer of a socket, so that its write never waits, and what follows it has the whole timeout. No
/// request has the header `Expect`, for which a head would have to be sent by itself.
pub(super) struct SingleWrite<T> {
    connection: T,
    /// The pending head.
    head: Vec<u8>,
    /// Whether the head of the request was given.
    has_head: bool,
}

impl<T: Transport> SingleWrite<T> {
    fn new(connection: T) -> Self {
        Self { connection, head: Vec::new(), has_head: false }
    }

    /// Writes the pending head, if any.
    fn write_head(&mut self, timeout: NextTimeout) -> Result<(), Error> {
        let length = self.head.len();
        if length == 0 {
            return Ok(());
        }
        self.connection.buffers().output()[..length].copy_from_slice(&self.head);
        self.head.clear();
        self.connection.transmit_output(length, timeout)
    }
}

impl<T: Transport> Transport for SingleWrite<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.connection.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let (length, output) = (self.head.len(), self.connection.buffers().output());
        if !std::mem::replace(&mut self.has_head, true) && amount <= MAX_HEAD {
            self.head.extend_from_slice(&output[..amount]);
            return Ok(());
        }
        if length + amount > output.len() {
            // the buffer is too short for both
            let body = output[..amount].to_vec();
            self.write_head(timeout)?;
            self.connection.buffers().output()[..amount].copy_from_slice(&body);
            return self.connection.transmit_output(amount, timeout);
        }
        output.copy_within(..amount, length);
        output[..length].copy_from_slice(&self.head);
        self.head.clear();
        self.connection.transmit_output(length + amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.write_head(timeout)?;
        self.has_head = false;
        self.connection.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.connection.is_open()
    }

    fn is_tls(&self) -> bool {
        self.connection.is_tls()
    }
}

impl<T: fmt::Debug> fmt::Debug for SingleWrite<T> {
    /// Without the head, which has the login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleWrite").field("connection", &self.connection).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use ureq::unversioned::transport::LazyBuffers;

    use super::*;

    const BUFFER: usize = MAX_HEAD + 8;

    /// Records all writes.
    #[derive(Debug)]
    struct Writes {
        buffers: LazyBuffers,
        written: Vec<Vec<u8>>,
    }

    impl Transport for Writes {
        fn buffers(&mut self) -> &mut dyn Buffers {
            &mut self.buffers
        }

        fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
            let output = self.buffers.output()[..amount].to_vec();
            self.written.push(output);
            Ok(())
        }

        fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
            Ok(true)
        }

        fn is_open(&mut self) -> bool {
            true
        }
    }

    /// The writes of a request in these parts: before the response is awaited, and in all.
    fn written(connection: &mut SingleWrite<Writes>, parts: &[&[u8]]) -> (usize, Vec<Vec<u8>>) {
        for part in parts {
            connection.buffers().output()[..part.len()].copy_from_slice(part);
            connection.transmit_output(part.len(), NextTimeout::default()).unwrap();
        }
        let before = connection.connection.written.len();
        for _ in 0..2 {
            assert!(connection.await_input(NextTimeout::default()).unwrap());
        }
        (before, std::mem::take(&mut connection.connection.written))
    }

    #[test]
    fn a_head_is_written_with_its_body() {
        let buffers = LazyBuffers::new(64, BUFFER);
        let mut connection = SingleWrite::new(Writes { buffers, written: Vec::new() });
        let (long, full) = ([b'l'; MAX_HEAD + 1], [b'f'; BUFFER]);
        let fitting = [b'b'; BUFFER - 4];
        let joined = [b"head", fitting.as_slice()].concat();
        // one connection, so that nothing of a request may be left for the next
        for (parts, before, expected) in [
            (vec![b"head".as_slice(), b"body"], 1, vec![b"headbody".as_slice()]),
            (vec![b"head"], 0, vec![b"head"]),
            (vec![b"head", b"body", b"rest"], 2, vec![b"headbody", b"rest"]),
            (vec![b"head", b""], 1, vec![b"head"]),
            (vec![b"head", &fitting], 1, vec![&joined]),
            (vec![b"head", &full, b"rest"], 3, vec![b"head", &full, b"rest"]),
            (vec![&long, b"body"], 2, vec![&long, b"body"]),
        ] {
            assert_eq!(written(&mut connection, &parts), (before, expected.into_iter().map(<[u8]>::to_vec).collect()));
        }
        assert!(!format!("{connection:?}").contains("head"));
    }
}
