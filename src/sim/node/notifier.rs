//! The node's ZMQ topic `sequence`, made of the events of its world (Core's `src/zmq/zmqpublishnotifier.cpp`).

use std::io;

use bitcoin::hashes::Hash;

use super::super::world::NumberedEvent;
use super::super::{World, WorldEvent};
use super::publisher::Publisher;

const TOPIC: &[u8] = b"sequence";

/// Publishes the events of a world in order, each once.
#[derive(Debug)]
pub(super) struct SequenceNotifier {
    publisher: Option<Publisher>,
    /// The port, which is also known while it is closed; `None` for a node without ZMQ.
    port: Option<u16>,
    /// The number of the next event to publish.
    next: u64,
    /// The number of the next message.
    counter: u32,
    /// The number of next messages to drop.
    to_drop: u32,
    /// The number of messages to send before the later ones are buffered; `None` to buffer none.
    buffer_after: Option<u32>,
    /// The buffered messages: the body and the number of each.
    buffered: Vec<(Vec<u8>, u32)>,
}

impl SequenceNotifier {
    /// Publishes the events from now on.
    pub(super) fn new(port: Option<u16>, world: &World) -> SequenceNotifier {
        SequenceNotifier {
            publisher: None,
            port,
            next: world.event_count(),
            counter: 0,
            to_drop: 0,
            buffer_after: None,
            buffered: Vec::new(),
        }
    }

    /// Opens the port, the same each time.
    pub(super) fn open(&mut self) -> io::Result<()> {
        if let Some(port) = self.port.filter(|_| self.publisher.is_none()) {
            let publisher = Publisher::start(port, TOPIC)?;
            self.port = Some(publisher.port());
            self.publisher = Some(publisher);
        }
        Ok(())
    }

    /// Closes the port and all connections. The messages of events until it is opened again are not sent.
    pub(super) fn close(&mut self) {
        self.publisher = None;
    }

    /// Restarts the count of messages, as a restarted node does. Earlier events are not published.
    pub(super) fn restart(&mut self, world: &World) {
        (self.next, self.counter) = (world.event_count(), 0);
    }

    /// Drops this many messages, from the next on.
    pub(super) fn lose(&mut self, messages: u32) {
        self.to_drop = messages;
    }

    /// Sends this many messages, and buffers the later ones.
    pub(super) fn buffer_after(&mut self, messages: u32) {
        self.buffer_after = Some(messages);
    }

    /// Sends the buffered messages, and all later ones at once.
    pub(super) fn release(&mut self) {
        self.buffer_after = None;
        for (body, counter) in std::mem::take(&mut self.buffered) {
            self.send(body, counter);
        }
    }

    /// The port, `None` while it is closed.
    pub(super) fn open_port(&self) -> Option<u16> {
        self.publisher.as_ref().map(Publisher::port)
    }

    /// The port, open or closed; `None` without ZMQ.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Publishes the events since the last call.
    pub(super) fn publish(&mut self, world: &World) {
        match world.events_since(self.next) {
            Some(events) => events.for_each(|numbered| self.send_event(numbered)),
            // more events than the world keeps: as if the publisher had dropped them
            None => self.counter = self.counter.wrapping_add(1),
        }
        self.next = world.event_count();
    }

    fn send_event(&mut self, numbered: &NumberedEvent) {
        let (hash, label, in_mempool) = match numbered.event {
            WorldEvent::Arrived { txid } | WorldEvent::Returned { txid } => (txid.to_byte_array(), b'A', true),
            WorldEvent::Replaced { txid, .. }
            | WorldEvent::Evicted { txid }
            | WorldEvent::Expired { txid }
            | WorldEvent::Conflicted { txid, .. }
            | WorldEvent::Invalidated { txid } => (txid.to_byte_array(), b'R', true),
            WorldEvent::BlockConnected { hash, .. } => (hash.to_byte_array(), b'C', false),
            WorldEvent::BlockDisconnected { hash, .. } => (hash.to_byte_array(), b'D', false),
            WorldEvent::Mined { .. } => return,
        };
        let mut body = hash;
        body.reverse();
        let mut body = body.to_vec();
        body.push(label);
        if in_mempool {
            body.extend(numbered.mempool_sequence.to_le_bytes());
        }
        let counter = self.counter;
        self.counter = counter.wrapping_add(1);
        if self.to_drop > 0 {
            self.to_drop -= 1;
        } else {
            self.send(body, counter);
        }
    }

    fn send(&mut self, body: Vec<u8>, counter: u32) {
        match &mut self.buffer_after {
            Some(0) => self.buffered.push((body, counter)),
            buffer_after => {
                if let Some(left) = buffer_after {
                    *left -= 1;
                }
                if let Some(publisher) = &self.publisher {
                    publisher.send(&[TOPIC, &body, &counter.to_le_bytes()]);
                }
            }
        }
    }
}
