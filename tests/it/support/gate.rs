//! A way to a server that can be cut, and be made again.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::bitcoind::POLL_INTERVAL;

/// Passes on all bytes in both directions while it is open; a connection that is made while it is closed is dropped. Its
/// threads end with their connections.
pub(crate) struct Gate {
    address: SocketAddr,
    /// What goes through it; nothing while it is closed.
    connections: Connections,
    limit: Arc<Mutex<Limit>>,
}

/// How much of what the server sends goes through.
struct Limit {
    /// How many more bytes it passes on.
    remaining: u64,
    then: Then,
    /// Whether it holds bytes back.
    is_holding: bool,
}

/// What happens when no bytes remain.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Close,
    Hold,
}

impl Limit {
    const NONE: Self = Self { remaining: u64::MAX, then: Then::Close, is_holding: false };
}

type Connections = Arc<Mutex<Option<Vec<TcpStream>>>>;

impl Gate {
    /// In front of `host:port`, and open.
    pub(crate) fn to(target: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Some(Vec::new()))));
        let limit = Arc::new(Mutex::new(Limit::NONE));
        let (target, open, limit_of_all) = (target.to_owned(), Arc::clone(&connections), Arc::clone(&limit));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (connections, limit) = (Arc::clone(&open), Arc::clone(&limit_of_all));
                let mut open = open.lock().unwrap();
                let Some(streams) = &mut *open else { continue };
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&target)) else { continue };
                streams.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass_on(from, to));
                thread::spawn(move || pass_on_until(server, client, &limit, &connections));
            }
        });
        Self { address, connections, limit }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections, and lets no other through.
    pub(crate) fn close(&self) {
        close(&self.connections);
    }

    /// Closes it when the server has sent so many more bytes.
    pub(crate) fn close_after(&self, bytes: u64) {
        *self.limit.lock().unwrap() = Limit { remaining: bytes, ..Limit::NONE };
    }

    /// Holds back what the server sends after so many more bytes, until it is opened.
    pub(crate) fn hold_after(&self, bytes: u64) {
        *self.limit.lock().unwrap() = Limit { remaining: bytes, then: Then::Hold, is_holding: false };
    }

    /// Whether it holds back what the server sends.
    pub(crate) fn is_holding(&self) -> bool {
        self.limit.lock().unwrap().is_holding
    }

    /// Lets connections through again.
    pub(crate) fn open(&self) {
        *self.limit.lock().unwrap() = Limit::NONE;
        self.connections.lock().unwrap().get_or_insert_default();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // what it holds back
        *self.limit.lock().unwrap() = Limit::NONE;
    }
}

fn close(connections: &Connections) {
    for connection in connections.lock().unwrap().take().into_iter().flatten() {
        // it may have ended
        let _ = connection.shutdown(Shutdown::Both);
    }
}

/// Passes on what a server sends, and closes the gate or holds back when no bytes remain.
fn pass_on_until(mut from: TcpStream, mut to: TcpStream, limit: &Mutex<Limit>, connections: &Connections) {
    let mut buffer = vec![0; 16_384];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let bytes = u64::try_from(length).unwrap();
        let then = {
            let mut limit = limit.lock().unwrap();
            let is_used_up = limit.remaining <= bytes;
            limit.remaining = limit.remaining.saturating_sub(bytes);
            limit.is_holding |= is_used_up && limit.then == Then::Hold;
            is_used_up.then_some(limit.then)
        };
        match then {
            Some(Then::Close) => close(connections),
            Some(Then::Hold) => {
                while limit.lock().unwrap().is_holding {
                    thread::sleep(POLL_INTERVAL);
                }
            }
            None => {}
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    // however it ends, it ends for both
    let _ = io::copy(&mut from, &mut to);
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
