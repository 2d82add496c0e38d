//! A way to a store that answers with errors, late, or not at all.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// How requests are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// They are passed on.
    Pass,
    /// They are answered with 500.
    Fail,
    /// They are passed on after this time.
    Delay(Duration),
    /// They are never answered.
    Stall,
}

/// Listens on loopback until the process ends.
pub(crate) struct FlakyProxy {
    port: u16,
    treatment: Arc<Mutex<Treatment>>,
}

impl FlakyProxy {
    /// Passes requests on to this port.
    pub(crate) fn start(target: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (port, treatment) = (listener.local_addr()?.port(), Arc::new(Mutex::new(Treatment::Pass)));
        let of_threads = Arc::clone(&treatment);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let treatment = Arc::clone(&of_threads);
                // a client that goes away is no error
                thread::spawn(move || serve(client, target, &treatment).ok());
            }
        });
        Ok(Self { port, treatment })
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn set(&self, treatment: Treatment) {
        if let Ok(mut current) = self.treatment.lock() {
            *current = treatment;
        }
    }
}

/// Passes one request on, after which the connection is closed.
fn serve(mut client: TcpStream, target: u16, treatment: &Mutex<Treatment>) -> Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let length = text.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length:").and_then(|length| length.trim().parse().ok())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body)?;
    loop {
        let current = treatment.lock().map_or(Treatment::Fail, |current| *current);
        match current {
            Treatment::Pass => break,
            Treatment::Fail => {
                let answer = b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
                return Ok(client.write_all(answer)?);
            }
            Treatment::Delay(delay) => {
                thread::sleep(delay);
                break;
            }
            Treatment::Stall => thread::sleep(Duration::from_millis(20)),
        }
    }
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
    server.write_all(text.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes())?;
    server.write_all(&body)?;
    std::io::copy(&mut server, &mut client)?;
    Ok(client.shutdown(Shutdown::Both)?)
}
