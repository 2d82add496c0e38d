//! A way to a server that can be cut, and be made again.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes on all bytes in both directions while it is open; who comes while it is closed is turned away. Its threads end
/// with their connections.
pub(crate) struct Gate {
    address: SocketAddr,
    /// What goes through it; nothing while it is closed.
    connections: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Gate {
    /// In front of `host:port`, and open.
    pub(crate) fn to(target: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Some(Vec::new()))));
        let (target, open) = (target.to_owned(), Arc::clone(&connections));
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut open = open.lock().unwrap();
                let Some(connections) = &mut *open else { continue };
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&target)) else { continue };
                connections.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass_on(from, to));
                thread::spawn(move || pass_on(server, client));
            }
        });
        Self { address, connections }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts all connections, and lets no other through.
    pub(crate) fn close(&self) {
        for connection in self.connections.lock().unwrap().take().into_iter().flatten() {
            // it may have ended
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Lets connections through again.
    pub(crate) fn open(&self) {
        self.connections.lock().unwrap().get_or_insert_default();
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    // however it ends, it ends for both
    let _ = io::copy(&mut from, &mut to);
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
