//! Relative lock times (BIP68): how long after its confirmation an output may be spent by an input.

use bitcoin::relative::LockTime;

use super::{Transaction, View};
use crate::chain::Height;
use crate::index::IndexError;

/// The lowest version of a transaction whose sequence numbers are relative lock times.
const FIRST_VERSION: u32 = 2;

/// The relative lock time of an input, and from when on it allows the spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelativeLock {
    /// The lock itself.
    pub lock: LockKind,
    /// The end of the lock, `None` while no block of the active chain contains the spent output.
    pub end: Option<LockEnd>,
    /// Whether the lock allows the spend in the next block; `None` if the spent output is not known.
    pub is_satisfied: Option<bool>,
}

/// What a relative lock time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Blocks.
    Blocks(u32),
    /// Seconds, in steps of 512.
    Seconds(u32),
}

/// When a relative lock time ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEnd {
    /// The lowest height of a block that may contain the spend.
    Height(Height),
    /// The lowest median time past, in seconds since 1970, of the block before the one that contains the spend.
    MedianTime(u32),
}

impl LockKind {
    /// The lock of an input of a transaction with this version; `None` if there is none.
    fn of(version: u32, sequence: bitcoin::Sequence) -> Option<Self> {
        if version < FIRST_VERSION {
            return None;
        }
        Some(match sequence.to_relative_lock_time()? {
            LockTime::Blocks(blocks) => Self::Blocks(blocks.value().into()),
            LockTime::Time(time) => Self::Seconds(u32::from(time.value()) * 512),
        })
    }

    const fn is_zero(self) -> bool {
        matches!(self, Self::Blocks(0) | Self::Seconds(0))
    }
}

impl View {
    /// The relative lock time of an input; `None` if it has none. `funding` is the transaction with the output that it spends,
    /// `None` if that is not known.
    pub fn relative_lock(
        &self,
        transaction: &Transaction,
        vin: usize,
        funding: Option<&Transaction>,
    ) -> Result<Option<RelativeLock>, IndexError> {
        let parts = &transaction.parts;
        let Some(input) = parts.input.get(vin).filter(|_| !parts.is_coinbase()) else { return Ok(None) };
        let Some(lock) = LockKind::of(parts.version.0.cast_unsigned(), input.sequence) else { return Ok(None) };
        let Some(funding) = funding else { return Ok(Some(RelativeLock { lock, end: None, is_satisfied: None })) };
        let Some(place) = funding.place else {
            // it can be in the next block at the earliest, and what spends it in the same block
            return Ok(Some(RelativeLock { lock, end: None, is_satisfied: Some(lock.is_zero()) }));
        };
        let (end, is_satisfied) = match lock {
            LockKind::Blocks(blocks) => {
                let height = Height::from(place.height.to_u32().saturating_add(blocks));
                (LockEnd::Height(height), self.tip().height.next() >= height)
            }
            LockKind::Seconds(seconds) => {
                // counted from the median time past that the block of the output was judged by
                let before = place.height.previous().unwrap_or(Height::GENESIS);
                let time = self.main_block(before)?.row.median_time.saturating_add(seconds);
                (LockEnd::MedianTime(time), self.tip_block()?.row.median_time >= time)
            }
        };
        Ok(Some(RelativeLock { lock, end: Some(end), is_satisfied: Some(is_satisfied) }))
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::Sequence;

    use super::*;

    #[test]
    fn a_sequence_number_is_a_lock_by_the_rules_of_bip68() {
        for (version, sequence, expected) in [
            (2, 0, Some(LockKind::Blocks(0))),
            (2, 144, Some(LockKind::Blocks(144))),
            (2, 0x0000_ffff, Some(LockKind::Blocks(65_535))),
            (2, 0x0040_0001, Some(LockKind::Seconds(512))),
            (2, 0x0040_ffff, Some(LockKind::Seconds(33_553_920))),
            // other bits have no meaning
            (3, 0x7fbf_0003, Some(LockKind::Blocks(3))),
            (u32::MAX, 5, Some(LockKind::Blocks(5))),
            (2, 0x8000_0001, None),
            (2, 0xffff_fffd, None),
            (2, 0xffff_ffff, None),
            (1, 144, None),
            (0, 144, None),
        ] {
            assert_eq!(LockKind::of(version, Sequence(sequence)), expected, "{version} {sequence:x}");
        }
    }
}
