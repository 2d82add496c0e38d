//! What is removed from a store, and when.

use std::fs;
use std::thread;
use std::time::Duration;

use super::stage::Stage;

/// A second, in which the store dates objects.
const SECOND: Duration = Duration::from_millis(1_100);

#[test]
fn superseded_manifests_and_then_unnamed_objects_are_removed() {
    let stage = Stage::start(40);
    let stray = stage.store.path().join("objects");
    stage.publish_here(3_600);
    // what no manifest names, and what has no name of an object
    let (unnamed, foreign) = (stray.join("ab".repeat(32)), stray.join("note.txt"));
    fs::write(&unnamed, "x").unwrap();
    fs::write(&foreign, "x").unwrap();
    assert_eq!(stage.publish_here(3_600).retired.objects, 0);
    thread::sleep(SECOND);
    let outcome = stage.publish_here(0);
    assert_eq!((outcome.retired.objects, outcome.retired.manifests, outcome.objects), (1, 0, 0));
    assert!(!unnamed.exists() && foreign.exists());

    let mut manifests = Vec::new();
    for _ in 0..3 {
        stage.mine(15);
        stage.import(&[]).assert_success();
        manifests.push(stage.publish_here(3_600));
    }
    // the newest two are left, and the others are noted as retired
    assert_eq!(manifests.iter().map(|outcome| outcome.retired.manifests).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!((stage.objects("manifests").len(), stage.objects("retired").len()), (2, 2));
    thread::sleep(SECOND);
    // their objects are those of newer manifests, too
    assert_eq!(stage.publish_here(0).retired.objects, 0);
    assert_eq!(stage.objects("retired").len(), 0);
    let (joined, directory) = stage.join(&[]);
    joined.assert_success();
    assert_eq!(stage.rows(directory.path()), stage.rows(stage.publisher.path()));
}

#[test]
fn a_manifest_below_those_of_blocks_that_left_the_chain_is_not_retired() {
    let stage = Stage::start(40);
    let name = stage.publish_here(3_600).manifest;
    let manifest = |name: &btcgraph::fleet::ManifestName| stage.store.path().join("manifests").join(name.to_string());
    let mut left = Vec::new();
    for height in [100, 101] {
        let mut higher = name.clone();
        higher.height = height;
        fs::copy(manifest(&name), manifest(&higher)).unwrap();
        left.push(higher);
    }
    stage.mine(15);
    stage.import(&[]).assert_success();
    let newest = stage.publish_here(3_600);
    assert!(newest.manifest.height < 100 && newest.retired.manifests == 2, "{newest:?}");
    let stays: Vec<_> = [&name, &newest.manifest, &left[0], &left[1]].map(|name| manifest(name).exists()).into();
    assert_eq!(stays, [false, true, false, true]);
    stage.join(&[]).0.assert_success();
}

#[test]
fn an_object_stays_while_a_retired_manifest_has_named_it_lately() {
    let stage = Stage::start(40);
    let first = stage.publish_here(3_600).manifest;
    let path = stage.store.path().join("manifests").join(first.to_string());
    let retired = stage.store.path().join("retired");
    fs::create_dir_all(&retired).unwrap();
    let objects = stage.objects("objects");
    // as the publisher of the manifest does when it has a newer one
    fs::rename(&path, retired.join(first.to_string())).unwrap();
    thread::sleep(SECOND);
    let other = Stage::start(30);
    let publish_other = |keep| {
        for (file, _) in other.objects("objects") {
            assert!(file.exists());
        }
        let store = btcgraph::fleet::FleetStore::open(&stage.url(), [], true).unwrap();
        let frozen = other.open(other.publisher.path()).snapshot().unwrap().frozen_files().unwrap().unwrap();
        let options = btcgraph::fleet::PublishOptions {
            network: bitcoin::Network::Regtest,
            directory: other.publisher.path().join("publishing"),
            keep: Duration::from_secs(keep),
            rate: None,
            stop: tokio_util::sync::CancellationToken::new(),
        };
        let cut = btcgraph::fleet::PublishedCut::new(options.network, frozen).unwrap();
        super::stage::runtime().block_on(btcgraph::fleet::publish(&store, &cut, &options)).unwrap().retired.objects
    };
    assert_eq!(publish_other(3_600), 0);
    assert!(objects.iter().all(|(path, _)| path.exists()));
    thread::sleep(SECOND);
    assert_eq!(publish_other(0), 4);
    assert!(objects.iter().all(|(path, _)| !path.exists()));
    // the publisher uploads again what is gone
    assert_eq!(stage.publish_here(3_600).objects, 4);
    stage.join(&[]).0.assert_success();
}
