//! Publishing to Garage and joining from it, while its nodes are killed.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use btcgraph::sim::Rng;

use crate::garage::Garage;
use crate::published_chain::PublishedChain;
use crate::report::{FleetReport, failure, mib};

/// One node: publish, publish again, join, and compare.
pub(crate) fn one_node(
    chain: &PublishedChain,
    program: &Path,
    directory: &Path,
    report: &mut FleetReport,
) -> Result<Garage> {
    let garage = Garage::start(program, directory, 1)?;
    round(chain, &garage, 1, report)?;
    Ok(garage)
}

/// Three nodes, each with every object: one of them is killed during a publication and during a join, then two, and then the one
/// that serves the client.
pub(crate) fn three_nodes(
    chain: &PublishedChain,
    program: &Path,
    directory: &Path,
    report: &mut FleetReport,
) -> Result<()> {
    let mut garage = Garage::start(program, directory, 3)?;
    let (publishing, joining) = round(chain, &garage, 3, report)?;
    let mut rng = Rng::new(3);
    let mut pause = |whole: Duration| whole.mul_f64(0.1 + 0.04 * f64::from(u32::try_from(rng.below(10)).unwrap_or(0)));
    let endpoint = garage.endpoint(0);

    // one of three is killed
    chain.forget_published()?;
    let after = pause(publishing);
    let published = chain.run_and(chain.publish(&endpoint, "down"), |_| {
        thread::sleep(after);
        garage.kill(1)
    })?;
    let published = published.ensure_success()?;
    report.add("publish, one of 3 nodes killed meanwhile", published.time, "the other two have every object");
    let directory = chain.fresh("joiner")?;
    let joined = chain.run(chain.join(&endpoint, "down", &directory))?.ensure_success()?;
    chain.ensure_equal(&directory)?;
    report.add("join, that node still down", joined.time, "equal files");
    garage.restart(1)?;
    let (directory, after) = (chain.fresh("joiner")?, pause(joining));
    let joined = chain.run_and(chain.join(&endpoint, "down", &directory), |_| {
        thread::sleep(after);
        garage.kill(2)
    })?;
    let joined = joined.ensure_success()?;
    chain.ensure_equal(&directory)?;
    report.add("join, another one killed meanwhile", joined.time, "equal files");

    // two of three: no quorum
    garage.kill(1)?;
    chain.forget_published()?;
    let failed = chain.run(chain.publish(&endpoint, "quorum"))?.ensure_failure("run the command again")?;
    report.add("publish, two of 3 nodes down", failed.time, failure(&failed.message()));
    let directory = chain.fresh("joiner")?;
    let failed = chain.run(chain.join(&endpoint, "down", &directory))?.ensure_failure("run the command again")?;
    report.add("join, two of 3 nodes down", failed.time, failure(&failed.message()));
    garage.restart(1)?;
    garage.restart(2)?;
    let published = chain.run(chain.publish(&endpoint, "quorum"))?.ensure_success()?;
    report.add("publish again, all nodes up", published.time, "complete");
    let joined = chain.run(chain.join(&endpoint, "down", &directory))?.ensure_success()?;
    chain.ensure_equal(&directory)?;
    report.add("join again in the same directory", joined.time, "equal files");

    // the node that serves the client
    chain.forget_published()?;
    let after = pause(publishing);
    let failed = chain.run_and(chain.publish(&endpoint, "endpoint"), |_| {
        thread::sleep(after);
        garage.kill(0)
    })?;
    let failed = failed.ensure_failure("run the command again")?;
    report.add("publish, the client's node killed meanwhile", failed.time, failure(&failed.message()));
    let other = garage.endpoint(1);
    let published = chain.run(chain.publish(&other, "endpoint"))?.ensure_success()?;
    report.add("publish again by another node", published.time, "complete");
    let directory = chain.fresh("joiner")?;
    chain.run(chain.join(&other, "endpoint", &directory))?.ensure_success()?;
    chain.ensure_equal(&directory)?;
    let verified = chain.verify(&directory)?;
    report.add("`verify` of an index that joined there", verified, "clean");
    Ok(())
}

/// Publishes twice and joins. Returns how long each took.
fn round(
    chain: &PublishedChain,
    garage: &Garage,
    nodes: usize,
    report: &mut FleetReport,
) -> Result<(Duration, Duration)> {
    let endpoint = garage.endpoint(0);
    chain.forget_published()?;
    let published = chain.run(chain.publish(&endpoint, "whole"))?.ensure_success()?;
    let bytes = published.logged("published", "uploaded_bytes")?;
    let (_, files) = PublishedChain::frozen(&chain.publisher())?;
    let what = format!("{} in {} generations", mib(bytes), files.len());
    report.add(&format!("publish to {nodes} of {nodes} nodes"), published.time, what);
    let again = chain.run(chain.publish(&endpoint, "whole"))?.ensure_success()?;
    ensure!(again.logged("published", "uploaded_objects")? == 0, "an object was uploaded again");
    report.add("publish again", again.time, "nothing is uploaded");
    let directory = chain.fresh("joiner")?;
    let joined = chain.run(chain.join(&endpoint, "whole", &directory))?.ensure_success()?;
    chain.ensure_equal(&directory)?;
    report.add(&format!("join from {nodes} of {nodes} nodes, to the node's tip"), joined.time, "equal files");
    let verified = chain.verify(&directory)?;
    report.add("`verify` of the joined index", verified, "clean");
    Ok((published.time, joined.time))
}
