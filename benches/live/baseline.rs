//! The least that telling subscribers costs on this machine: a bare websocket server of this process, which sends a frame
//! of the size of an event to all who are connected, and knows nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{accept_async_with_config, connect_async_with_config};

use crate::figures::Figures;
use crate::subscribers::config;

/// About as long as an event of a transaction.
const FRAME_BYTES: usize = 170;

/// Tells this many websockets so many frames a second for so long.
pub(crate) async fn ping(websockets: usize, a_second: u32, lasts: Duration) -> Result<Figures> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("ws://{}", listener.local_addr()?);
    let (frames, _) = broadcast::channel::<Message>(64);
    let sender = frames.clone();
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // as servers do whose frames must not wait for the client to acknowledge the one before
            let _ = stream.set_nodelay(true);
            let mut frames = sender.subscribe();
            tokio::spawn(async move {
                let Ok(mut socket) = accept_async_with_config(stream, Some(config())).await else { return };
                while let Ok(frame) = frames.recv().await {
                    if socket.send(frame).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let (read, mut were_read) = mpsc::unbounded_channel();
    let mut readers = Vec::new();
    for _ in 0..websockets {
        let (mut socket, _) = connect_async_with_config(&url, Some(config()), true).await?;
        let read = read.clone();
        readers.push(tokio::spawn(async move {
            while let Some(Ok(Message::Text(_))) = socket.next().await {
                if read.send(Instant::now()).is_err() {
                    return;
                }
            }
        }));
    }
    let mut beat = tokio::time::interval(Duration::from_secs(1) / a_second);
    let (mut latencies, until) = (Vec::new(), Instant::now() + lasts);
    while Instant::now() < until {
        beat.tick().await;
        let sent = Instant::now();
        let receivers = frames.send(Message::text("x".repeat(FRAME_BYTES)))?;
        ensure!(receivers == websockets, "{receivers} of {websockets} websockets listen");
        for _ in 0..websockets {
            latencies.push(were_read.recv().await.context("all readers have ended")?.duration_since(sent));
        }
    }
    accepting.abort();
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(Figures::of(latencies))
}
