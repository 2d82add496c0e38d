//! What the node tells by itself: its ZMQ topic `sequence`, out of the happenings of its world (Core's
//! `src/zmq/zmqpublishnotifier.cpp`).

use std::io;

use bitcoin::hashes::Hash;

use super::super::world::Noted;
use super::super::{Happening, World};
use super::publisher::Publisher;

const TOPIC: &[u8] = b"sequence";

/// How far the happenings were told, and the publisher if there is one.
#[derive(Debug)]
pub(super) struct Signals {
    publisher: Option<Publisher>,
    /// The port, kept while there is no publisher; `None` for a node that never has one.
    port: Option<u16>,
    /// The number of the happening that is next to be told.
    next: u64,
    /// The number of the message that is next.
    counter: u32,
    /// How many of the next messages are to get lost.
    to_lose: u32,
    /// After how many messages the others are kept; `None` to keep none.
    hold_after: Option<u32>,
    /// The messages that are kept: the body and the number of each.
    held: Vec<(Vec<u8>, u32)>,
}

impl Signals {
    /// What happens from now on is to be told.
    pub(super) fn new(port: Option<u16>, world: &World) -> Signals {
        Signals {
            publisher: None,
            port,
            next: world.happened(),
            counter: 0,
            to_lose: 0,
            hold_after: None,
            held: Vec::new(),
        }
    }

    /// Opens the port, the same each time.
    pub(super) fn publish(&mut self) -> io::Result<()> {
        if let Some(port) = self.port.filter(|_| self.publisher.is_none()) {
            let publisher = Publisher::start(port, TOPIC)?;
            self.port = Some(publisher.port());
            self.publisher = Some(publisher);
        }
        Ok(())
    }

    /// Closes the port and all connections. What happens until it is opened again is told to nobody.
    pub(super) fn be_silent(&mut self) {
        self.publisher = None;
    }

    /// Begins to count messages anew, as a node that was started anew. What happened before is told to nobody.
    pub(super) fn start_again(&mut self, world: &World) {
        (self.next, self.counter) = (world.happened(), 0);
    }

    /// Lets as many messages as this get lost, from the next on.
    pub(super) fn lose(&mut self, messages: u32) {
        self.to_lose = messages;
    }

    /// Lets as many messages as this out, and keeps those after them.
    pub(super) fn hold_after(&mut self, messages: u32) {
        self.hold_after = Some(messages);
    }

    /// Lets those that were kept out, and all others from now on.
    pub(super) fn release(&mut self) {
        self.hold_after = None;
        for (body, counter) in std::mem::take(&mut self.held) {
            self.send(body, counter);
        }
    }

    /// The port, while it is open.
    pub(super) fn open_port(&self) -> Option<u16> {
        self.publisher.as_ref().map(Publisher::port)
    }

    /// The port, as long as there is one to open.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Tells what has happened since it was called last.
    pub(super) fn tell(&mut self, world: &World) {
        match world.happenings_since(self.next) {
            Some(happenings) => happenings.for_each(|noted| self.tell_one(noted)),
            // more than the world remembers: as if the publisher had dropped them
            None => self.counter = self.counter.wrapping_add(1),
        }
        self.next = world.happened();
    }

    fn tell_one(&mut self, noted: &Noted) {
        let (hash, label, in_mempool) = match noted.happening {
            Happening::Arrived { txid } | Happening::Returned { txid } => (txid.to_byte_array(), b'A', true),
            Happening::Replaced { txid, .. }
            | Happening::Evicted { txid }
            | Happening::Expired { txid }
            | Happening::Conflicted { txid, .. }
            | Happening::Invalidated { txid } => (txid.to_byte_array(), b'R', true),
            Happening::BlockConnected { hash, .. } => (hash.to_byte_array(), b'C', false),
            Happening::BlockDisconnected { hash, .. } => (hash.to_byte_array(), b'D', false),
            Happening::Mined { .. } => return,
        };
        let mut body = hash;
        body.reverse();
        let mut body = body.to_vec();
        body.push(label);
        if in_mempool {
            body.extend(noted.mempool_sequence.to_le_bytes());
        }
        let counter = self.counter;
        self.counter = counter.wrapping_add(1);
        if self.to_lose > 0 {
            self.to_lose -= 1;
        } else {
            self.send(body, counter);
        }
    }

    fn send(&mut self, body: Vec<u8>, counter: u32) {
        match &mut self.hold_after {
            Some(0) => self.held.push((body, counter)),
            hold_after => {
                if let Some(left) = hold_after {
                    *left -= 1;
                }
                if let Some(publisher) = &self.publisher {
                    publisher.send(&[TOPIC, &body, &counter.to_le_bytes()]);
                }
            }
        }
    }
}
