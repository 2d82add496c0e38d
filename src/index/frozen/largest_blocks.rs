//! Which blocks of a generation can have many transactions, so that a list of such blocks passes over the others.

use super::super::error::IndexError;
use super::generation::Generation;
use crate::chain::Height;

/// Blocks of a group.
const GROUP: u32 = 64;

impl Generation {
    /// The nearest height to `height`, itself included, upwards or downwards, whose group has a block of at least so many
    /// transactions. `None` if there is none. `height` is one of its blocks.
    ///
    /// Errors: storage errors; [`IndexError::Corrupt`] if the starts of blocks do not follow each other.
    pub(super) fn next_in_large_group(
        &self,
        height: Height,
        transactions: u32,
        upwards: bool,
    ) -> Result<Option<Height>, IndexError> {
        let (first, last) = (self.range().first.to_u32(), self.range().last.height.to_u32());
        let groups = self.largest_blocks()?;
        let own = usize::try_from(height.to_u32().saturating_sub(first) / GROUP).unwrap_or(usize::MAX);
        let is_large = |group: &usize| groups.get(*group).is_some_and(|most| *most >= transactions);
        let found = if upwards {
            (own..groups.len()).find(is_large)
        } else {
            (0..groups.len().min(own.saturating_add(1))).rfind(is_large)
        };
        let Some(found) = found else { return Ok(None) };
        let start = first.saturating_add(u32::try_from(found).unwrap_or(u32::MAX).saturating_mul(GROUP));
        let end = start.saturating_add(GROUP - 1).min(last);
        Ok(Some(Height::from(height.to_u32().clamp(start, end))))
    }

    /// The most transactions that a block has, for each group of consecutive blocks: a generation never changes, so they are
    /// counted once, from the starts of all its blocks, when they are first needed.
    fn largest_blocks(&self) -> Result<&[u32], IndexError> {
        if let Some(counted) = self.largest_blocks.get() {
            return Ok(counted);
        }
        let (from, end) = self.range().txnums;
        let mut starts = self.starts(from..end)?.map(|start| start.map(|start| start.first.0)).peekable();
        let (mut groups, mut blocks) = (Vec::new(), 0);
        while let Some(start) = starts.next().transpose()? {
            let next = match starts.peek() {
                Some(Ok(next)) => *next,
                Some(Err(_)) => continue,
                None => end.0,
            };
            let count = next
                .checked_sub(start)
                .ok_or_else(|| IndexError::corrupt("block_starts", "a block begins behind the one that follows it"))?;
            if blocks % GROUP == 0 {
                groups.push(0);
            }
            if let Some(most) = groups.last_mut() {
                *most = count.max(*most);
            }
            blocks += 1;
        }
        Ok(self.largest_blocks.get_or_init(|| groups))
    }
}
