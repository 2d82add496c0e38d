//! A simulated node whose world advances by itself, at the pace of the clock.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, SystemTimeError, UNIX_EPOCH};

use super::{ChainError, Life, Profile, SimNode, SimNodeError, SimNodeOptions};

/// Why a living node does not start.
#[derive(Debug, thiserror::Error)]
pub enum LivingNodeError {
    /// Its history cannot be made, or a step fails.
    #[error("the simulated chain cannot advance: {0}")]
    Chain(#[from] ChainError),
    /// It cannot be served.
    #[error(transparent)]
    Node(#[from] SimNodeError),
    /// Its thread cannot be started.
    #[error("cannot start the thread of the simulated life: {0}")]
    Thread(std::io::Error),
    /// The clock is before 1970.
    #[error("this machine's clock is before 1970: {0}")]
    Clock(#[from] SystemTimeError),
}

/// A node with a history up to now, to which a thread of its own adds step by step. Dropping it stops both.
#[derive(Debug)]
pub struct LivingNode {
    node: Arc<SimNode>,
    /// Never sends: the life ends when this is dropped.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LivingNode {
    /// Makes the history of a profile, and starts the life and the node. `failed` is called when a step of the life
    /// fails; the node then still answers, with an unchanging world.
    pub fn start(
        profile: Profile,
        seed: u64,
        options: SimNodeOptions,
        failed: impl FnOnce(LivingNodeError) + Send + 'static,
    ) -> Result<LivingNode, LivingNodeError> {
        // the node always publishes its events
        let options = SimNodeOptions { zmq: options.zmq.or(Some(0)), ..options };
        let (mut life, world) = Life::start(profile, seed, now()?)?;
        let node = Arc::new(SimNode::start(Arc::new(Mutex::new(world)), options)?);
        let (end, ended) = mpsc::channel::<()>();
        let lived = Arc::clone(&node);
        let life_thread = move || {
            loop {
                let lived_on = lived.with(|world| {
                    // a clock that is set back does not move the time of the world
                    let before = world.time();
                    world.set_time(now().map_or(before, |now| now.max(before)));
                    life.next(world)
                });
                let wait = match lived_on {
                    Ok(Ok(done)) => done.wait,
                    Ok(Err(error)) => return failed(error.into()),
                    Err(error) => return failed(error.into()),
                };
                if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread =
            thread::Builder::new().name("sim-life".to_owned()).spawn(life_thread).map_err(LivingNodeError::Thread)?;
        Ok(LivingNode { node, end: Some(end), thread: Some(thread) })
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> &SimNode {
        &self.node
    }
}

impl Drop for LivingNode {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            // the thread has already reported its error to `failed`
            let _ = thread.join();
        }
    }
}

/// Seconds since 1970.
fn now() -> Result<u32, SystemTimeError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(u32::try_from(now).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_life_advances_until_its_node_is_dropped() {
        let failed = |error| panic!("{error}");
        let living = LivingNode::start(Profile::Demo, 1, SimNodeOptions::default(), failed).unwrap();
        let event_count = || living.node().with(|world| world.event_count()).unwrap();
        let (before, url, deadline) = (event_count(), living.node().url(), Instant::now() + Duration::from_mins(1));
        while event_count() == before {
            assert!(Instant::now() < deadline, "nothing happens");
            thread::sleep(Duration::from_millis(20));
        }
        drop(living);
        assert!(std::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).is_err());
    }
}
