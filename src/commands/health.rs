//! `btcgraph health`: whether a running server is ready, for health checks of containers and scripts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use btcgraph::settings::{ListenAddress, Settings};
use clap::Args;

use super::config;
use super::failure::{Exit, Failure, OrExit};

/// How long the server may take: it needs no index and no node to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(super) struct HealthArguments {
    /// Whether it responds at all, also while it builds its index
    #[arg(long)]
    live: bool,
}

/// Prints what `/health/ready` or `/health/live` of the server responds. Errors: it does not respond, or is not ready.
pub(super) fn run(settings: &Settings, HealthArguments { live }: &HealthArguments) -> Result<(), Failure> {
    let address = address(&settings.server.listen, settings.server.port_file())?;
    let url = format!("http://{address}/health/{}", if *live { "live" } else { "ready" });
    let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).proxy(None);
    let response = config.build().new_agent().get(&url).call();
    let mut response = response.or_exit(Exit::Failed, format!("no server responds at {url}"))?;
    let is_success = response.status().is_success();
    let body = response.body_mut().read_to_string().or_exit(Exit::Failed, format!("no server responds at {url}"))?;
    config::to_stdout(&format!("{body}\n"))?;
    if is_success { Ok(()) } else { Err(Failure::new(Exit::Failed, format!("the server at {address} is not ready"))) }
}

/// Where a server with this setting accepts connections of this machine.
fn address(listen: &ListenAddress, port_file: Option<&Path>) -> Result<String, Failure> {
    let port = |port: u16| match port_file {
        Some(file) if port == 0 => {
            let read =
                std::fs::read_to_string(file).or_exit(Exit::Failed, format!("cannot read {}", file.display()))?;
            read.trim().parse().or_exit(Exit::Failed, format!("{} has no port", file.display()))
        }
        None if port == 0 => {
            let message =
                "server.listen has port 0, any free one: give the server's address by --listen, or its --port-file";
            Err(Failure::new(Exit::Usage, message))
        }
        _ => Ok(port),
    };
    Ok(match listen {
        ListenAddress::Ip(address) => {
            let ip = match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            SocketAddr::new(ip, port(address.port())?).to_string()
        }
        ListenAddress::Name { host, port: number } => format!("{host}:{}", port(*number)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, port_file: Option<&Path>) -> Result<String, Exit> {
        address(&text.to_owned().try_into().unwrap(), port_file).map_err(|failure| failure.exit())
    }

    #[test]
    fn a_server_of_all_addresses_is_reached_on_this_machine() {
        for (listen, expected) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("10.0.0.5:81", "10.0.0.5:81"),
            ("graph.example:81", "graph.example:81"),
        ] {
            assert_eq!(of(listen, None), Ok(expected.to_owned()));
        }
    }

    #[test]
    fn any_free_port_is_read_from_the_port_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "4711").unwrap();
        assert_eq!(of("127.0.0.1:0", Some(file.path())), Ok("127.0.0.1:4711".to_owned()));
        assert_eq!(of("127.0.0.1:0", None), Err(Exit::Usage));
        std::fs::write(file.path(), "").unwrap();
        assert_eq!(of("127.0.0.1:0", Some(file.path())), Err(Exit::Failed));
    }
}
