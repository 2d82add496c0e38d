//! A way to a server that counts what is asked on it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What every POST begins with.
const POST: &[u8] = b"POST / HTTP/1.1\r\n";

/// Passes on all bytes in both directions, and counts the POSTs among them. Its threads end with their connections.
pub(crate) struct CountingProxy {
    port: u16,
    posts: Arc<AtomicUsize>,
}

impl CountingProxy {
    /// In front of `host:port`.
    pub(crate) fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, posts) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let (target, counted) = (target.to_owned(), posts.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&target)) else { continue };
                let (from, to, counted) = (client.try_clone().unwrap(), server.try_clone().unwrap(), counted.clone());
                thread::spawn(move || pass_on(from, to, Some(&counted)));
                thread::spawn(move || pass_on(server, client, None));
            }
        });
        Self { port, posts }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How many POSTs went through.
    pub(crate) fn posts(&self) -> usize {
        self.posts.load(Ordering::Acquire)
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, count: Option<&AtomicUsize>) {
    // what may be the beginning of a POST that the next bytes complete
    let (mut seen, mut buffer) = (Vec::new(), vec![0; 65_536]);
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if let Some(count) = count {
            seen.extend_from_slice(&buffer[..length]);
            count.fetch_add(seen.windows(POST.len()).filter(|window| *window == POST).count(), Ordering::AcqRel);
            seen.drain(..seen.len().saturating_sub(POST.len() - 1));
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // either may be closed already
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
