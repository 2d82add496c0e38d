//! How long a server that joins takes until it is ready.

use anyhow::Result;

use crate::garage::Garage;
use crate::published_chain::PublishedChain;
use crate::replica::Replica;
use crate::report::{FleetReport, mib};

/// Publishes, and starts a server on an empty directory. Returns the directory of its index.
pub(crate) fn run(chain: &PublishedChain, garage: &Garage, report: &mut FleetReport) -> Result<std::path::PathBuf> {
    let endpoint = garage.endpoint(0);
    chain.forget_published()?;
    let published = chain.run(chain.publish(&endpoint, "long"))?.ensure_success()?;
    let bytes = published.logged("published", "uploaded_bytes")?;
    report.add("publish the long chain", published.time, mib(bytes));
    let directory = chain.fresh("replica1")?;
    let mut serve = chain.program(&directory, &["serve", "--from", &Garage::url("long")]);
    serve.envs(Garage::variables(&endpoint));
    let mut replica = Replica::start(serve, &directory)?;
    let downloaded = replica.wait_for_log("joined: the index has the published blocks")?;
    let ready = replica.wait_until_ready()?;
    let what = format!("downloaded and verified after {:.1} s", downloaded.as_secs_f64());
    report.add("join with `serve --from` until ready", ready, what);
    let checked = replica.wait_for_log(TXIDS_MATCH)?;
    report.add("its txids compared with the headers, since the start", checked, "all match");
    replica.stop()?;
    Ok(directory)
}

/// What the log says when the background comparison ends.
const TXIDS_MATCH: &str = "the txids of the joined blocks are those of the chain";
