//! What a cursor of `ledgerEvents` says of the scripts of descriptors: where each branch ends, and how much of the history of
//! scripts that became watched was sent.
//!
//! ```text
//!   stage u8 ‖ end varint for each branch ‖ [end before varint for each branch ‖ height u32 ‖ sent u32, or arrival u64]
//! ```

/// Bytes of the longest number: seven bits in each, of 32.
const LONGEST_VARINT: usize = 5;

/// The scripts of descriptors that a stream watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchPlace {
    /// The index behind the last watched script of each branch.
    pub(crate) ends: Vec<u32>,
    /// What is to be sent of the history of the newest among them.
    pub(crate) backfill: Option<BackfillPlace>,
}

/// How far the history of scripts is sent that became watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackfillPlace {
    /// The ends before.
    pub(crate) before: Vec<u32>,
    pub(crate) position: BackfillPosition,
}

/// Where in that history a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackfillPosition {
    /// The blocks below this height are sent, and this many events of the one at it.
    Chain { height: u32, sent: u32 },
    /// All blocks are sent, and what arrived in the mempool before the transaction with this number.
    Mempool { from: u64 },
}

impl WatchPlace {
    /// As the last part of a cursor.
    pub(crate) fn write(&self, content: &mut Vec<u8>) {
        let stage = match &self.backfill {
            None => 0,
            Some(BackfillPlace { position: BackfillPosition::Chain { .. }, .. }) => 1,
            Some(BackfillPlace { position: BackfillPosition::Mempool { .. }, .. }) => 2,
        };
        content.push(stage);
        write_ends(content, &self.ends);
        let Some(BackfillPlace { before, position }) = &self.backfill else { return };
        write_ends(content, before);
        match position {
            BackfillPosition::Chain { height, sent } => content.extend([*height, *sent].map(u32::to_be_bytes).concat()),
            BackfillPosition::Mempool { from } => content.extend(from.to_be_bytes()),
        }
    }

    /// What the last part of a cursor says of this many branches; `None` for other bytes.
    pub(crate) fn read(bytes: &[u8], branches: usize) -> Option<Self> {
        let (stage, mut rest) = bytes.split_first()?;
        let ends = read_ends(&mut rest, branches)?;
        if *stage == 0 {
            return rest.is_empty().then_some(Self { ends, backfill: None });
        }
        let before = read_ends(&mut rest, branches)?;
        if before.iter().zip(&ends).any(|(before, end)| before > end) {
            return None;
        }
        let position: [u8; 8] = rest.try_into().ok()?;
        let position = match stage {
            1 => {
                let (height, sent) = position.split_first_chunk::<4>()?;
                let (height, sent) = (u32::from_be_bytes(*height), u32::from_be_bytes(sent.try_into().ok()?));
                BackfillPosition::Chain { height, sent }
            }
            2 => BackfillPosition::Mempool { from: u64::from_be_bytes(position) },
            _ => return None,
        };
        Some(Self { ends, backfill: Some(BackfillPlace { before, position }) })
    }
}

fn write_ends(content: &mut Vec<u8>, ends: &[u32]) {
    for end in ends {
        write_varint(content, *end);
    }
}

fn write_varint(content: &mut Vec<u8>, mut number: u32) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            return content.push(low);
        }
        content.push(low | 0x80);
    }
}

fn read_ends(rest: &mut &[u8], branches: usize) -> Option<Vec<u32>> {
    (0..branches).map(|_| read_varint(rest)).collect()
}

fn read_varint(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u64;
    for at in 0..LONGEST_VARINT {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return u32::try_from(number).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_place_is_read_as_it_was_written(
            ends in prop::collection::vec(0..=1_u32 << 31, 0..32), backfill: Option<(bool, u32, u32)>,
        ) {
            let backfill = backfill.map(|(is_chain, height, sent)| BackfillPlace {
                before: ends.iter().map(|end| end / 2).collect(),
                position: if is_chain {
                    BackfillPosition::Chain { height, sent }
                } else {
                    BackfillPosition::Mempool { from: u64::from(height) << 20 | u64::from(sent) }
                },
            });
            let place = WatchPlace { ends, backfill };
            let mut bytes = Vec::new();
            place.write(&mut bytes);
            let branches = place.ends.len();
            prop_assert_eq!(WatchPlace::read(&bytes, branches), Some(place));
            prop_assert_eq!(WatchPlace::read(&[&bytes[..], &[0]].concat(), branches), None);
            for cut in 0..bytes.len() {
                prop_assert_eq!(WatchPlace::read(&bytes[..cut], branches), None);
            }
        }

        #[test]
        fn other_bytes_are_no_place(bytes: Vec<u8>, branches in 0_usize..40) {
            if let Some(place) = WatchPlace::read(&bytes, branches) {
                prop_assert_eq!(place.ends.len(), branches);
            }
        }
    }

    #[test]
    fn two_branches_take_a_few_bytes() {
        let mut bytes = Vec::new();
        WatchPlace { ends: vec![20, 1_000], backfill: None }.write(&mut bytes);
        assert_eq!(bytes, [0, 20, 0xe8, 7]);
    }
}
