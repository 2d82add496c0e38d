use proptest::prelude::*;

use super::super::run_buffers::ThreadBuffers;
use super::super::run_kinds::remove_files;
use super::*;

fn directory() -> (tempfile::TempDir, RunDirectory) {
    let directory = tempfile::tempdir().unwrap();
    let runs = RunDirectory { id: *b"the test", path: directory.path().to_path_buf(), space: Arc::default() };
    (directory, runs)
}

fn names(directory: &RunDirectory) -> Vec<String> {
    let entries = fs::read_dir(&directory.path).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// As a checkpoint does, without flushing.
fn record(runs: &Runs) -> RecordedRuns {
    let recorded = runs.record(&mut Vec::new()).unwrap();
    runs.remove_consumed().unwrap();
    recorded
}

/// Opens runs in another process.
fn reopen(
    directory: &RunDirectory,
    recorded: RecordedRuns,
    consumed: usize,
) -> Result<(RunDirectory, Arc<Runs>), FreshStart> {
    let directory = RunDirectory { space: Arc::default(), ..directory.clone() };
    let mut paths = BTreeSet::new();
    let opened = Runs::open(&directory, recorded, consumed, &mut paths).unwrap()?;
    remove_files(&directory.path, &paths).unwrap();
    Ok((directory, opened))
}

proptest! {
    #[test]
    fn records_are_read_in_their_partition_and_space_is_returned(
        records in prop::collection::vec((0_usize..70, any::<[u8; 12]>()), 0..2_000), memory in 1_usize..300_000,
    ) {
        let (_temporary, directory) = directory();
        let space = &directory.space;
        let runs = Runs::new(&directory, RunKind::Prevouts, Runs::bundle_of(70));
        let mut buffers = [runs.buffers(70, memory), runs.buffers(70, memory)];
        for (number, (partition, record)) in records.iter().enumerate() {
            buffers[number % 2].record(*partition).unwrap().extend(record);
        }
        for buffers in &mut buffers {
            buffers.flush().unwrap();
        }
        prop_assert_eq!(space.peak(), 12 * u64::try_from(records.len()).unwrap());
        for partition in 0..71 {
            let mut expected: Vec<_> =
                records.iter().filter(|(other, _)| *other == partition).map(|(_, record)| record.to_vec()).collect();
            prop_assert_eq!(runs.partition_bytes(partition), 12 * expected.len());
            let mut found: Vec<_> = runs.consume_whole(partition).unwrap().chunks(12).map(<[u8]>::to_vec).collect();
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(runs.partition_bytes(partition), 0);
        }
        runs.remove().unwrap();
        prop_assert_eq!(space.now(), 0);
        prop_assert!(names(&directory).is_empty());
    }

    #[test]
    fn opened_runs_have_the_recorded_chunks_and_no_others(
        chunks in prop::collection::vec((0_usize..7, prop::collection::vec(any::<u8>(), 1..50)), 0..60),
        at in 0_usize..60, bundle in 1_usize..9, consumed in 0_usize..8,
    ) {
        let (_temporary, directory) = directory();
        let at = at.min(chunks.len());
        let runs = Runs::new(&directory, RunKind::Stream, bundle);
        for (partition, bytes) in &chunks[..at] {
            runs.append(*partition, bytes).unwrap();
        }
        for partition in 0..consumed {
            runs.consume_whole(partition).unwrap();
        }
        let recorded = record(&runs);
        // chunks that are lost, of partitions that are not consumed
        for (partition, bytes) in chunks[at..].iter().filter(|(partition, _)| *partition >= consumed) {
            runs.append(*partition, bytes).unwrap();
        }
        runs.record(&mut Vec::new()).unwrap();
        drop(runs);
        for _ in 0..2 {
            let (opened, runs) = reopen(&directory, recorded, consumed).unwrap();
            let mut left = 0;
            for partition in 0..8 {
                let of_partition = chunks[..at].iter().filter(|(other, _)| *other == partition);
                let expected: Vec<_> = of_partition.flat_map(|(_, bytes)| bytes.clone()).collect();
                let mut found: Vec<u8> = Vec::new();
                runs.read(partition, |chunk| { found.extend(chunk); Ok(()) }).unwrap();
                prop_assert_eq!(&found, if partition < consumed { &[][..] } else { &expected });
                left += found.len();
            }
            prop_assert!(opened.space.now() >= left.try_into().unwrap());
            prop_assert_eq!(runs.record(&mut Vec::new()).unwrap(), recorded);
        }
    }

    #[test]
    fn a_changed_byte_is_never_read(
        chunks in prop::collection::vec((0_usize..5, prop::collection::vec(any::<u8>(), 1..50)), 1..30),
        file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), change in 1_u8..,
    ) {
        let (_temporary, directory) = directory();
        let runs = Runs::new(&directory, RunKind::Spends, 2);
        for (partition, bytes) in &chunks {
            runs.append(*partition, bytes).unwrap();
        }
        let recorded = record(&runs);
        drop(runs);
        let path = directory.path.join(file.get(&names(&directory)));
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        fs::write(&path, bytes).unwrap();
        let runs = match reopen(&directory, recorded, 0) {
            Ok((_, runs)) => runs,
            Err(reason) => {
                let expected = if at < LOG_HEAD {
                    FreshStart::OtherRun { path: directory.path.join("spends.chunks") }
                } else {
                    FreshStart::DamagedRun { path: directory.path.join("spends.chunks") }
                };
                prop_assert_eq!(reason, expected);
                return Ok(());
            }
        };
        let mut damaged = Vec::new();
        for partition in 0..5 {
            let of_partition = chunks.iter().filter(|(other, _)| *other == partition);
            match runs.consume_whole(partition) {
                Ok(found) => prop_assert_eq!(found, of_partition.flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>()),
                Err(IndexError::DamagedRun { path }) => damaged.push(path),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
        prop_assert_eq!(damaged, [path]);
    }
}

#[test]
fn threads_that_add_records_at_once_lose_none() {
    let (_temporary, directory) = directory();
    let runs = Runs::new(&directory, RunKind::Prevouts, 2);
    let buffers = ThreadBuffers::new(3, || [runs.buffers(4, 1)]);
    let bytes_of = |number: u32| [number.to_be_bytes().as_slice(), &[7; 60]].concat();
    let add = |thread: u32| {
        (0..2_000).map(|number| 3 * number + thread).try_for_each(|number| {
            // one set serves one record after another, of whichever thread
            buffers.with(|[own]| {
                own.record((number / 3 % 4).try_into().unwrap())?.extend(bytes_of(number));
                Ok(())
            })
        })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|thread| scope.spawn(move || add(thread))).collect();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    });
    buffers.flush().unwrap();
    let recorded = record(&runs);
    let (opened, runs) = reopen(&directory, recorded, 0).unwrap();
    assert_eq!(opened.space.now(), directory.space.now());
    for partition in 0..4 {
        let found = runs.consume_whole(partition).unwrap();
        let mut found: Vec<_> = found.chunks(64).collect();
        found.sort_unstable();
        let of_partition = (0..6_000_u32).filter(|number| usize::try_from(number / 3 % 4) == Ok(partition));
        assert_eq!(found, of_partition.map(bytes_of).collect::<Vec<_>>(), "{partition}");
    }
    runs.remove().unwrap();
    assert!(names(&directory).is_empty());
}

#[test]
fn each_set_of_buffers_is_of_one_thread_at_a_time() {
    let (_temporary, directory) = directory();
    let runs = Runs::new(&directory, RunKind::Prevouts, 1);
    let buffers = ThreadBuffers::new(2, || [runs.buffers(1, 1)]);
    let within = buffers.with(|_| buffers.with(|_| Ok(buffers.with(|_| Ok(())))));
    assert!(matches!(within, Ok(Err(IndexError::Broken))), "more threads than sets");
    assert!(buffers.with(|_| buffers.with(|_| Ok(()))).is_ok(), "sets are given back");
}

#[test]
fn a_truncated_run_is_an_error_that_names_the_directory() {
    let (_temporary, directory) = directory();
    let runs = Runs::new(&directory, RunKind::Stream, 2);
    runs.append(0, b"chunk").unwrap();
    runs.append(1, b"chunk").unwrap();
    runs.lock().bundles[0].file.as_ref().unwrap().set_len(9).unwrap();
    assert_eq!(runs.consume_whole(0).unwrap(), b"chunk");
    let error = runs.consume_whole(1).unwrap_err();
    assert!(matches!(error, IndexError::TemporaryRuns { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&directory.path.display().to_string()), "{text}");
    assert!(text.contains("start the import again"), "{text}");
}

#[test]
fn a_bundle_is_given_back_when_its_partitions_are_consumed() {
    let (_temporary, directory) = directory();
    let space = &directory.space;
    let runs = Runs::new(&directory, RunKind::Stream, 2);
    for partition in [0, 0, 1, 2] {
        runs.append(partition, b"chunk").unwrap();
    }
    assert_eq!(names(&directory), ["stream-00.run", "stream-01.run"]);
    let mut seen = Vec::new();
    for partition in 0..3 {
        let bytes = runs.consume_whole(partition).unwrap();
        seen.push((bytes.len(), space.now()));
    }
    assert_eq!(seen, [(10, 20), (5, 5), (5, 5)]);
    assert_eq!(names(&directory), ["stream-01.run"]);
    runs.remove().unwrap();
    assert_eq!((space.now(), space.peak()), (0, 20));
}

#[test]
fn a_recorded_bundle_stays_until_a_checkpoint_without_it() {
    let (_temporary, directory) = directory();
    let space = &directory.space;
    let runs = Runs::new(&directory, RunKind::Stream, 1);
    runs.append(0, b"chunk").unwrap();
    runs.append(1, b"chunk").unwrap();
    let recorded = record(&runs);
    runs.consume_whole(0).unwrap();
    assert_eq!((space.now(), space.consumed(), space.is_exceeded(true)), (10, 5, false));
    // killed here
    assert_eq!(reopen(&directory, recorded, 0).unwrap().1.partition_bytes(0), 5);
    assert_eq!(runs.record(&mut Vec::new()).unwrap(), recorded);
    // consumed while the second checkpoint is not durable yet, which needs it
    runs.consume_whole(1).unwrap();
    runs.append(2, b"more").unwrap();
    assert!(space.is_exceeded(false) && space.is_exceeded(true));
    runs.remove_consumed().unwrap();
    assert_eq!((space.now(), space.consumed(), space.is_exceeded(true)), (9, 5, false));
    assert_eq!(names(&directory), ["stream-01.run", "stream-02.run", "stream.chunks"]);
    assert_eq!(reopen(&directory, recorded, 1).unwrap().1.partition_bytes(1), 5);
}

#[test]
fn runs_that_lack_what_was_recorded_are_not_opened() {
    let (_temporary, directory) = directory();
    let runs = Runs::new(&directory, RunKind::Stream, 1);
    runs.append(0, b"chunk").unwrap();
    runs.append(1, b"chunk").unwrap();
    let recorded = record(&runs);
    let (run, log) = (directory.path.join("stream-01.run"), directory.path.join("stream.chunks"));
    let refusal = |directory: &RunDirectory| reopen(directory, recorded, 1).err();
    let other = RunDirectory { id: *b"an other", ..directory.clone() };
    assert_eq!(refusal(&other), Some(FreshStart::OtherRun { path: log.clone() }));
    let more = RecordedRuns { chunks: 3, ..recorded };
    assert_eq!(reopen(&directory, more, 1).err(), Some(FreshStart::ShortRun { path: log.clone() }));
    OpenOptions::new().write(true).open(&run).unwrap().set_len(4).unwrap();
    assert_eq!(refusal(&directory), Some(FreshStart::ShortRun { path: run.clone() }));
    fs::remove_file(&run).unwrap();
    assert_eq!(refusal(&directory), Some(FreshStart::MissingRun { path: run }));
    // the bundle of the consumed partition is not needed
    assert_eq!(reopen(&directory, recorded, 2).err(), None);
    fs::remove_file(&log).unwrap();
    assert_eq!(refusal(&directory), Some(FreshStart::MissingRun { path: log }));
}

#[test]
fn only_files_of_runs_are_removed() {
    let (_temporary, directory) = directory();
    let others = ["stream-.runs", "stream-1x.run", "streams.chunks", "block.chunks", "blocks", "a.run"];
    let runs = ["stream-00.run", "stream-123.run", "blocks.chunks", "p2pk-00.run"];
    for name in others.iter().chain(&runs) {
        fs::write(directory.path.join(name), "").unwrap();
    }
    remove_files(&directory.path, &[directory.path.join("p2pk-00.run")].into()).unwrap();
    let mut expected: Vec<_> = others.into_iter().chain(["p2pk-00.run"]).collect();
    expected.sort_unstable();
    assert_eq!(names(&directory), expected);
    remove_files(&directory.path.join("absent"), &BTreeSet::new()).unwrap();
}
