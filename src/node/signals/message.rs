//! Decodes the messages of a node's ZMQ topic `sequence`, and detects missing ones (Core's `doc/zmq.md` and
//! `src/zmq/zmqpublishnotifier.cpp`).
//!
//! A message is three frames: the topic; a hash of 32 bytes in display order and a letter, followed for `A` and `R` by
//! the mempool sequence number as u64 LE; and the counter of the topic as u32 LE.
//!
//! Messages that a node could not send leave a gap in the counter. The mempool sequence numbers are checked as well.
//! Every transaction that enters or leaves the mempool has its own number, but there is no message for one that leaves
//! it by being confirmed: the numbers jump with a block, and where the block evicts conflicting transactions, the jump
//! precedes the message of the block. Any other jump, and every decrease, means that a message is missing.

use std::cmp::Ordering;
use std::{fmt, mem};

use bitcoin::hashes::{Hash, sha256d};
use bitcoin::{BlockHash, Txid};

use super::signal::NodeSignal;

/// The topic.
pub(super) const TOPIC: &[u8] = b"sequence";

/// Why messages may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// A message of another form.
    Malformed,
    /// The counters of the messages are not consecutive.
    Counter,
    /// The mempool sequence numbers are not consecutive, and no block explains the jump.
    MempoolSequence,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::Malformed => "a message is malformed",
            Loss::Counter => "messages are missing",
            Loss::MempoolSequence => "changes of the mempool are missing",
        })
    }
}

/// A decoded message.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    signal: NodeSignal,
    counter: u32,
}

impl Message {
    fn read(frames: &[Vec<u8>]) -> Option<Message> {
        let [topic, body, counter] = frames else { return None };
        if topic != TOPIC {
            return None;
        }
        let (hash, rest) = body.split_first_chunk::<32>()?;
        let (label, rest) = rest.split_first()?;
        let mut hash = *hash;
        hash.reverse();
        let hash = sha256d::Hash::from_byte_array(hash);
        let sequence = || <[u8; 8]>::try_from(rest).ok().map(u64::from_le_bytes);
        let signal = match label {
            b'C' if rest.is_empty() => NodeSignal::BlockConnected(BlockHash::from(hash)),
            b'D' if rest.is_empty() => NodeSignal::BlockDisconnected(BlockHash::from(hash)),
            b'A' => NodeSignal::Added { txid: Txid::from(hash), mempool_sequence: sequence()? },
            b'R' => NodeSignal::Removed { txid: Txid::from(hash), mempool_sequence: sequence()? },
            _ => return None,
        };
        Some(Message { signal, counter: u32::from_le_bytes(counter.as_slice().try_into().ok()?) })
    }
}

/// Decodes the messages of one connection in order.
#[derive(Debug, Default)]
pub(super) struct SequenceReader {
    /// The counter of the next message; `None` before the first.
    next_counter: Option<u32>,
    /// The mempool sequence number of the next change if no block precedes it; `None` before the first.
    next_sequence: Option<u64>,
    jump_cause: JumpCause,
}

/// Whether a block explains a jump of the mempool sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum JumpCause {
    /// No block since the last change.
    #[default]
    None,
    /// A block was announced since the last change, and may have confirmed transactions.
    BlockAnnounced,
    /// No block was announced, and a jump preceded a removal: a block must be announced next.
    BlockExpected,
}

impl SequenceReader {
    /// The signal of a message, `None` if it is malformed, and why messages before it may be missing.
    pub(super) fn read(&mut self, frames: &[Vec<u8>]) -> (Option<Loss>, Option<NodeSignal>) {
        let Some(Message { signal, counter }) = Message::read(frames) else {
            // a malformed message has taken the next counter
            self.next_counter = self.next_counter.map(|next| next.wrapping_add(1));
            return (Some(Loss::Malformed), None);
        };
        let is_next = self.next_counter.is_none_or(|next| next == counter);
        self.next_counter = Some(counter.wrapping_add(1));
        let follows = self.follows(signal);
        let loss = match (is_next, follows) {
            (true, true) => None,
            (false, _) => Some(Loss::Counter),
            (true, false) => Some(Loss::MempoolSequence),
        };
        (loss, Some(signal))
    }

    /// Whether the signal can be the next one by its mempool sequence number.
    fn follows(&mut self, signal: NodeSignal) -> bool {
        let (sequence, is_removal) = match signal {
            NodeSignal::Added { mempool_sequence, .. } => (mempool_sequence, false),
            NodeSignal::Removed { mempool_sequence, .. } => (mempool_sequence, true),
            NodeSignal::BlockConnected(_) | NodeSignal::BlockDisconnected(_) | NodeSignal::Lost => {
                self.jump_cause = JumpCause::BlockAnnounced;
                return true;
            }
        };
        let Some(next) = self.next_sequence.replace(sequence.saturating_add(1)) else { return true };
        match (sequence.cmp(&next), is_removal) {
            // as after a restart
            (Ordering::Less, _) => {
                self.jump_cause = JumpCause::None;
                false
            }
            (Ordering::Equal, true) => true,
            (Ordering::Greater, true) => {
                if self.jump_cause == JumpCause::None {
                    self.jump_cause = JumpCause::BlockExpected;
                }
                true
            }
            (Ordering::Equal, false) => mem::take(&mut self.jump_cause) != JumpCause::BlockExpected,
            (Ordering::Greater, false) => mem::take(&mut self.jump_cause) == JumpCause::BlockAnnounced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u8) -> [u8; 32] {
        let mut hash = [0; 32];
        hash[0] = number;
        hash
    }

    fn message(label: u8, number: u8, sequence: Option<u64>, counter: u32) -> Vec<Vec<u8>> {
        let mut body = hash(number).to_vec();
        body.push(label);
        body.extend(sequence.iter().flat_map(|sequence| sequence.to_le_bytes()));
        vec![TOPIC.to_vec(), body, counter.to_le_bytes().to_vec()]
    }

    /// Decodes messages of these letters and mempool sequence numbers with consecutive counters, and returns the
    /// indexes of those that report a loss.
    fn losses(messages: &[(u8, u64)]) -> Vec<usize> {
        let mut reader = SequenceReader::default();
        let lost = |(index, (label, sequence)): (usize, &(u8, u64))| {
            let sequence = (*label == b'A' || *label == b'R').then_some(*sequence);
            let counter = u32::try_from(index).unwrap().wrapping_add(u32::MAX - 1);
            let (loss, signal) = reader.read(&message(*label, 1, sequence, counter));
            assert!(signal.is_some());
            loss.map(|loss| {
                assert_eq!(loss, Loss::MempoolSequence);
                index
            })
        };
        messages.iter().enumerate().filter_map(lost).collect()
    }

    #[test]
    fn each_letter_is_a_signal_and_hashes_are_in_display_order() {
        let mut reader = SequenceReader::default();
        let shown = format!("07{}", "00".repeat(31));
        let (block, txid): (BlockHash, Txid) = (shown.parse().unwrap(), shown.parse().unwrap());
        let mut read = |label, sequence, counter| reader.read(&message(label, 7, sequence, counter));
        let added = NodeSignal::Added { txid, mempool_sequence: 0x0102_0304_0506 };
        assert_eq!(read(b'A', Some(0x0102_0304_0506), 5), (None, Some(added)));
        let removed = NodeSignal::Removed { txid, mempool_sequence: 0x0102_0304_0507 };
        assert_eq!(read(b'R', Some(0x0102_0304_0507), 6), (None, Some(removed)));
        assert_eq!(read(b'C', None, 7), (None, Some(NodeSignal::BlockConnected(block))));
        assert_eq!(read(b'D', None, 8), (None, Some(NodeSignal::BlockDisconnected(block))));
    }

    #[test]
    fn a_malformed_message_is_a_loss_and_takes_a_counter() {
        let good = message(b'A', 1, Some(1), 1);
        let with = |frame: usize, bytes: &[u8]| {
            let mut frames = good.clone();
            frames[frame] = bytes.to_vec();
            frames
        };
        let wrong = [
            vec![],
            good[..2].to_vec(),
            [good.clone(), vec![vec![]]].concat(),
            with(0, b"hashblock"),
            with(0, b"sequences"),
            with(1, &[]),
            with(1, &[0; 32]),
            with(1, &[b'A'; 33]),
            with(1, &[b'C'; 41]),
            with(1, &[b'X'; 33]),
            with(1, &[b'R'; 42]),
            with(2, &[0; 3]),
            with(2, &[0; 5]),
        ];
        for frames in wrong {
            let mut reader = SequenceReader::default();
            assert_eq!(reader.read(&message(b'C', 1, None, 0)).0, None);
            assert_eq!(reader.read(&frames), (Some(Loss::Malformed), None), "{frames:?}");
            assert_eq!(reader.read(&message(b'C', 2, None, 2)).0, None);
        }
    }

    #[test]
    fn counters_that_are_not_consecutive_are_a_loss() {
        for (counters, lost) in [
            (&[9, 10, 11][..], &[][..]),
            (&[9, 11, 12], &[1]),
            (&[9, 9], &[1]),
            (&[9, 0, 1], &[1]),
            (&[u32::MAX - 1, u32::MAX, 0, 1], &[]),
            (&[u32::MAX, 1], &[1]),
        ] {
            let mut reader = SequenceReader::default();
            let mut found = Vec::new();
            for (index, counter) in counters.iter().enumerate() {
                found.extend(reader.read(&message(b'C', 1, None, *counter)).0.map(|loss| (index, loss)));
            }
            assert_eq!(found, lost.iter().map(|index| (*index, Loss::Counter)).collect::<Vec<_>>(), "{counters:?}");
        }
    }

    #[test]
    fn mempool_sequence_numbers_must_be_consecutive() {
        assert_eq!(losses(&[(b'A', 5), (b'R', 6), (b'A', 7)]), [0; 0]);
        assert_eq!(losses(&[(b'A', 5), (b'A', 7), (b'A', 8)]), [1]);
        assert_eq!(losses(&[(b'A', 5), (b'R', 5)]), [1]);
        assert_eq!(losses(&[(b'A', 5), (b'A', 1), (b'A', 2)]), [1]);
    }

    #[test]
    fn a_block_explains_one_jump_of_the_mempool_sequence() {
        assert_eq!(losses(&[(b'A', 5), (b'C', 0), (b'A', 9), (b'A', 10)]), [0; 0]);
        assert_eq!(losses(&[(b'A', 5), (b'C', 0), (b'A', 9), (b'A', 11)]), [3]);
        // two confirmed transactions and the conflicts of the block precede its announcement
        assert_eq!(losses(&[(b'A', 5), (b'R', 7), (b'R', 8), (b'R', 10), (b'C', 0), (b'A', 12)]), [0; 0]);
        // a removal after a jump must be followed by a block
        assert_eq!(losses(&[(b'A', 5), (b'R', 7), (b'A', 8)]), [2]);
        assert_eq!(losses(&[(b'A', 5), (b'R', 7), (b'A', 9)]), [2]);
    }

    #[test]
    fn a_reorg_may_change_the_mempool_before_its_blocks_connect() {
        let reorganisation =
            [(b'A', 5), (b'D', 0), (b'D', 0), (b'R', 8), (b'R', 10), (b'A', 12), (b'R', 13), (b'C', 0), (b'A', 14)];
        assert_eq!(losses(&reorganisation), [0; 0]);
    }
}
