//! Decides which generations are merged or built again, and puts what was built of them into force.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::adopt::new_name;
use super::error::IndexError;
use super::files::{file, flush_directory};
use super::frozen::{DerivedFile, DerivedName, DueMerge, Generation, GenerationRange, InForce};
use super::hot::sweep_cursor::SweepCursor;
use super::hot::tables::meta;
use super::hot::tip_record::write_generations;
use super::open::{Index, cache_of_generation, deriving_directory, generations_directory};
use super::optional::RowContext;

/// How many generations are merged at a time.
const GENERATIONS_PER_MERGE: usize = 5;

/// What became of a generation that was built of others.
#[derive(Debug)]
pub enum MergeOutcome {
    /// It is in force in their place.
    InForce,
    /// It was removed: a reorganisation reached one of them, or other optional tables are on.
    NotNeeded,
    /// It cannot be put into force for this reason, and was removed.
    Unusable(IndexError),
}

impl Index {
    /// The file of a merged generation under construction.
    #[must_use]
    pub fn merging_path(&self) -> PathBuf {
        self.path.with_extension("merging")
    }

    /// The generations that are to be merged next: five that follow each other and of which the oldest has no more
    /// transactions than the others together; of several such, those with the fewest transactions. So the number of
    /// generations grows with the logarithm of the chain, and each transaction is rewritten about as often. `None`
    /// also while a table of one of them is to be built, or the blocks that this reads cannot be read.
    ///
    /// Errors: storage errors; the system has no random bytes.
    pub fn due_merge(&self) -> Result<Option<DueMerge>, IndexError> {
        let size = |in_force: &InForce| in_force.is_whole().then_some(in_force.end.0 - in_force.first().0);
        let sizes: Vec<_> = self.generations.iter().map(size).collect();
        due(&sizes).map_or(Ok(None), |run| self.build_of(run))
    }

    /// The oldest generation that a reorganisation shortened: it is built again alone, from the bytes of its blocks, and can be
    /// merged and published then. `None` also while a table of it is to be built, or it is known that its blocks cannot be read.
    ///
    /// Errors: as [`Index::due_merge`].
    pub fn due_rebuild(&self) -> Result<Option<DueMerge>, IndexError> {
        let shortened = self.generations.iter().position(|in_force| !in_force.is_whole());
        shortened.map_or(Ok(None), |at| self.build_of(at..at + 1))
    }

    /// A merge of the generations at these places, at least two, counted from the oldest. `None` while a table of one of them
    /// is to be built or cannot be, if one of them was shortened by a reorganisation, or if there are fewer.
    ///
    /// Errors: as [`Index::due_merge`].
    pub fn merge_of(&self, run: Range<usize>) -> Result<Option<DueMerge>, IndexError> {
        let members = self.generations.places(&run);
        if members.len() < 2 || !members.iter().all(InForce::is_whole) {
            return Ok(None);
        }
        self.build_of(run)
    }

    /// What is to be built of the generations at these places. `None` while it cannot be.
    fn build_of(&self, run: Range<usize>) -> Result<Option<DueMerge>, IndexError> {
        let generations = Arc::clone(&self.generations);
        let members = generations.places(&run);
        let Some((first, last)) = members.first().zip(members.last()) else { return Ok(None) };
        let own = first.generation.range();
        let range = GenerationRange { first: own.first, last: last.last, txnums: (own.txnums.0, last.end) };
        let tables = self.tables_on()?;
        let reads_blocks = !tables.is_empty() || !members.iter().all(InForce::is_whole);
        let may_be_built = !reads_blocks || generations.raw().may_have(last.last.height);
        if !may_be_built || members.iter().any(|of| tables.iter().any(|table| of.lacks(*table).is_some())) {
            return Ok(None);
        }
        let name = new_name(range)?;
        Ok(Some(DueMerge {
            generations,
            run,
            range,
            path: self.merging_path(),
            name,
            tables,
            directories: (generations_directory(&self.path), deriving_directory(&self.path)),
            context: RowContext { salt: self.salt, network: self.network },
        }))
    }

    /// Puts a generation that was built of others into force in their place, in a durable commit. Their files are removed when
    /// their last reader drops them. If one of them was shortened, live rows of its outputs are shadowed then ([`Index::sweep`]). A
    /// crash before the commit leaves the index as it was.
    ///
    /// Errors: storage errors.
    pub fn replace_merged(&mut self, due: &DueMerge) -> Result<MergeOutcome, IndexError> {
        let merged = due.generations.records();
        let merged = &merged[due.run.clone()];
        let start = self.generations.records().windows(merged.len()).position(|records| records == merged);
        let Some(start) = start.filter(|_| self.tables_on().is_ok_and(|on| on == due.tables)) else {
            due.discard();
            return Ok(MergeOutcome::NotNeeded);
        };
        let run = start..start + merged.len();
        let newest = match self.place_merged(due, run.start) {
            Ok(newest) => newest,
            Err(error) => {
                due.discard();
                return Ok(MergeOutcome::Unusable(error));
            }
        };
        let before = Arc::clone(&self.generations);
        let mut update = self.update()?;
        let generations = Arc::new(update.generations.with_merged(&run, newest));
        let shadows = !before.places(&run).iter().all(InForce::is_whole);
        update.with_tables(|tables, _| {
            if shadows {
                tables.meta.insert(meta::SHADOWED, [].as_slice())?;
            }
            write_generations(tables, &generations)
        })?;
        update.generations = generations;
        update.commit()?;
        if shadows {
            self.sweep_cursor = SweepCursor::default();
        }
        for in_force in before.places(&run) {
            in_force.generation.retire();
            in_force.derived.values().for_each(|file| file.retire());
        }
        Ok(MergeOutcome::InForce)
    }

    /// Moves a merged generation to the others, where it is to be at this place, and opens it. After an error it is where it was
    /// built.
    fn place_merged(&self, due: &DueMerge, at: usize) -> Result<InForce, IndexError> {
        let directory = generations_directory(&self.path);
        let placed = directory.join(&due.name);
        fs::rename(&due.path, &placed).map_err(file("move the generation to", &placed))?;
        flush_directory(&directory).and_then(|()| self.open_merged(due, &placed, at)).inspect_err(|_| {
            // if it stays, an unnamed file in the directory is harmless
            let _ = fs::rename(&placed, &due.path);
        })
    }

    fn open_merged(&self, due: &DueMerge, path: &Path, at: usize) -> Result<InForce, IndexError> {
        let (network, salt, cache) = (self.network, self.salt, self.all_cache_bytes);
        let generation = Arc::new(Generation::open(path, network, salt, cache_of_generation(cache, at))?);
        let GenerationRange { last, txnums: (_, end), .. } = generation.range();
        let mut merged = InForce { generation, name: due.name.clone(), last, end, derived: BTreeMap::new() };
        let directory = generations_directory(&self.path);
        for table in &due.tables {
            let name = DerivedName::newest(*table, &due.name);
            let file = DerivedFile::open(&directory, &name, network, salt, cache_of_generation(cache, at.max(1)))?;
            merged.derived.insert(*table, Arc::new(file));
        }
        Ok(merged)
    }
}

/// The places of the generations to merge, of these sizes, the oldest first; `None` stands for one that is not merged.
fn due(sizes: &[Option<u32>]) -> Option<Range<usize>> {
    let size_if_due = |(start, run): (usize, &[Option<u32>])| {
        let sizes = run.iter().map(|size| size.map(u64::from)).collect::<Option<Vec<_>>>()?;
        let newer = sizes[1..].iter().sum::<u64>();
        (sizes[0] <= newer).then_some((sizes[0] + newer, start))
    };
    let (_, start) = sizes.windows(GENERATIONS_PER_MERGE).enumerate().filter_map(size_if_due).min()?;
    Some(start..start + GENERATIONS_PER_MERGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_are_merged_when_the_oldest_is_no_larger_than_the_others() {
        let due = |sizes: &[u32]| due(&sizes.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(due(&[1, 1, 1, 1]), None);
        assert_eq!(due(&[1, 1, 1, 1, 1]), Some(0..5));
        assert_eq!(due(&[5, 1, 1, 1, 1]), None);
        assert_eq!(due(&[4, 1, 1, 1, 1]), Some(0..5));
        assert_eq!(due(&[900, 5, 1, 1, 1, 1]), None);
        // small ones in front of a large one, as after a long pause
        assert_eq!(due(&[900, 1, 1, 1, 1, 50]), Some(1..6));
        assert_eq!(due(&[2, 2, 2, 2, 2, 9, 1, 1, 1, 1, 1]), Some(6..11));
        assert_eq!(due(&[1, 1, 1, 1, 1, 9, 2, 2, 2, 2, 2]), Some(0..5));
        assert_eq!(due(&[u32::MAX, u32::MAX, u32::MAX, u32::MAX, u32::MAX]), Some(0..5));
        let shortened = [Some(1), Some(1), None, Some(1), Some(1), Some(1), Some(1)];
        assert_eq!(super::due(&shortened), None);
        assert_eq!(super::due(&[&shortened[..], &[Some(3)]].concat()), Some(3..8));
    }

    #[test]
    fn few_generations_are_left_of_any_number_and_transactions_are_rarely_written_again() {
        for first in [0, 1, 300, 100_000] {
            let mut sizes: Vec<_> = (first > 0).then_some(Some(first)).into_iter().collect();
            // ten years of mainnet
            let (mut written, frozen) = (0_u64, 75_000_u64);
            for _ in 0..frozen {
                sizes.push(Some(1));
                while let Some(run) = due(&sizes) {
                    let merged = sizes[run.clone()].iter().copied().sum::<Option<u32>>();
                    written += u64::from(merged.unwrap());
                    sizes.splice(run, [merged]);
                }
                assert!(sizes.len() <= 18, "{sizes:?}");
            }
            assert!(written <= 13 * frozen, "{first}: {written} of {frozen}");
            let all = sizes.iter().map(|size| u64::from(size.unwrap())).sum::<u64>();
            assert_eq!(all, frozen + u64::from(first));
        }
    }
}
