//! Versions of tables: older ones are read and built again, and newer ones are refused.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use btcgraph::index::{Index, NamedTable};

use super::history::{History, ON, is_answered};
use crate::support::indexed::{Indexed, options};
use crate::sync::faults::set_meta;

/// The bytes of a version of a table as a file records it.
fn version(version: u32) -> [u8; 4] {
    version.to_be_bytes()
}

#[test]
fn an_older_version_is_read_while_it_is_built_again() {
    let mut history = History::new(78, 70);
    history.indexed.index.switch_tables(ON).unwrap();
    while history.indexed.index.tend_tables(100).unwrap() {}
    history.freeze(40);
    history.freeze(10);
    // what an older program built
    for _ in 0..2 {
        let due = history.indexed.index.due_table().unwrap().unwrap().in_version(1);
        due.build(&Arc::default(), &mut |_| {}).unwrap();
        // the oldest generation is due again at once
        let directory = history.frozen();
        assert!(matches!(history.indexed.index.name_table(&due).unwrap(), NamedTable::InForce), "{directory:?}");
        if history.files().len() == 1 {
            history.build();
            let older = history.indexed.index.due_table().unwrap().unwrap();
            assert_eq!((older.table(), older.version()), ("wtxids", 2));
        }
    }
    while history.indexed.index.sweep(1_000).unwrap() {}
    let versions = |history: &History| {
        let names = history.files().into_iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned());
        names.map(|name| name.rsplit_once('-').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(versions(&history), ["2.redb", "1.redb"]);
    // this program reads it, and builds its own beside it
    history.restart(ON);
    assert!(history.is_answered());
    let verified = history.indexed.verified();
    let before = history.snapshot();
    let due = history.indexed.index.due_table().unwrap().unwrap();
    let mut answered = 0;
    due.with_run_records(50)
        .build(&Arc::default(), &mut |progress| {
            if progress.done % 20 == 0 {
                assert!(is_answered(&before, &history.blocks));
                answered += 1;
            }
        })
        .unwrap();
    assert!(answered > 0 && history.is_answered());
    let due = history.indexed.index.due_table().unwrap().unwrap();
    assert!(matches!(history.indexed.index.name_table(&due).unwrap(), NamedTable::InForce));
    // a reader of the older file still has it
    assert_eq!(versions(&history), ["2.redb", "1.redb", "2.redb"]);
    assert!(is_answered(&before, &history.blocks));
    drop(before);
    drop(due);
    assert_eq!(versions(&history), ["2.redb", "2.redb"]);
    assert!(history.is_answered() && history.indexed.index.due_table().unwrap().is_none());
    assert_eq!(history.indexed.verified(), verified);
}

#[test]
fn newer_versions_are_refused_with_the_reason() {
    let mut history = History::new(79, 40);
    history.indexed.index.switch_tables(ON).unwrap();
    history.freeze(10);
    history.complete();
    let (derived, directory) = (history.files(), history.frozen());
    let Indexed { index, directory: index_directory } = history.indexed;
    drop(index);
    let index_file = options(index_directory.path()).path;
    let generations = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let generation = generations.into_iter().find(|path| !derived.contains(path)).unwrap();
    let open = || Index::open(&options(index_directory.path())).map(drop).map_err(|error| error.to_string());
    let refused = |file: &PathBuf, row: &str, (written, newer): (&[u8], &[u8]), sentence: &str| {
        set_meta(file, row, newer);
        let error = open().unwrap_err();
        assert_eq!(
            error,
            format!(
                "{} has {sentence}: run the version that wrote it, or remove the index and import again",
                file.display()
            )
        );
        set_meta(file, row, written);
        open().unwrap();
    };
    refused(
        &generation,
        "version.history",
        (&version(1), &version(2)),
        "version 2 of table `history`, but this version of btcgraph reads version 1",
    );
    // the live rows, complete from transaction 0 on
    let state = |version: u32| [&version.to_be_bytes()[..], &[1], &[0; 4]].concat();
    refused(
        &index_file,
        "wtxids",
        (&state(1), &state(2)),
        "version 2 of table `wtxids`, but this version of btcgraph reads versions 0 to 1",
    );
    // a file of a table
    let named = |version: u32| {
        let name = derived[0].file_name().unwrap().to_str().unwrap().replace("-2.redb", &format!("-{version}.redb"));
        ([&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat(), derived[0].with_file_name(name))
    };
    set_meta(&index_file, "derived", &named(3).0);
    let error = open().unwrap_err();
    let expected = "version 3 of table `wtxids`, but this version of btcgraph reads versions 1 to 2";
    assert!(error.starts_with(&format!("{} has {expected}", named(3).1.display())), "{error}");
    set_meta(&index_file, "derived", &named(2).0);
    open().unwrap();
}
