//! A running `btcgraph serve` on a node, and requests to it.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::bitcoind::{RealNode, wait_for};
use super::program::{btcgraph, login};

/// How long a slow machine may take for anything.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running server, killed when dropped.
pub(crate) struct TestProcess {
    pub(crate) process: Child,
    /// Host and port.
    pub(crate) address: String,
    variables: Vec<(String, String)>,
}

impl TestProcess {
    /// Follows the node with an index in `directory`.
    pub(crate) fn start(node: &RealNode, directory: &Path) -> Self {
        Self::start_with(node, directory, &[])
    }

    /// The same, with variables in its environment.
    pub(crate) fn start_with(node: &RealNode, directory: &Path, variables: &[(&str, &str)]) -> Self {
        Self::start_on(&login(node), directory, variables)
    }

    /// Starts a server on the node that these flags describe.
    pub(crate) fn start_on(node: &[OsString], directory: &Path, variables: &[(&str, &str)]) -> Self {
        Self::start_to("127.0.0.1:0", node, directory, variables, Stdio::null())
    }

    /// A server on the node of these flags, whose log is written to a file as JSON.
    pub(crate) fn start_logged(node: &[OsString], directory: &Path, variables: &[(&str, &str)], log: File) -> Self {
        let variables = [variables, &[("BTCGRAPH_LOG__FORMAT", "json")]].concat();
        Self::start_to("127.0.0.1:0", node, directory, &variables, log.into())
    }

    /// Stops it, and starts another one at the same address with the same variables; `meanwhile` runs while there is none.
    pub(crate) fn restart(&mut self, node: &RealNode, directory: &Path, meanwhile: impl FnOnce()) {
        self.restart_on(&login(node), directory, meanwhile);
    }

    /// Restarts it as [`TestProcess::restart`] does, on the node that these flags describe.
    pub(crate) fn restart_on(&mut self, node: &[OsString], directory: &Path, meanwhile: impl FnOnce()) {
        assert!(self.stop().success());
        meanwhile();
        let variables = std::mem::take(&mut self.variables);
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        *self = Self::start_to(&self.address, node, directory, &variables, Stdio::null());
    }

    fn start_to(listen: &str, node: &[OsString], directory: &Path, variables: &[(&str, &str)], log: Stdio) -> Self {
        Self::start_as(listen, node, directory, variables, log, |program| program)
    }

    /// Starts what `change` makes of the program.
    pub(crate) fn start_as(
        listen: &str,
        node: &[OsString],
        directory: &Path,
        variables: &[(&str, &str)],
        log: Stdio,
        change: impl FnOnce(Command) -> Command,
    ) -> Self {
        let port_file = directory.join("port");
        let _ = std::fs::remove_file(&port_file);
        let mut program = btcgraph(directory, &["serve", "--listen", listen]);
        program.args(node).envs(variables.iter().copied()).arg("--port-file").arg(&port_file);
        let process = change(program).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let port = wait_for("the port file", PATIENCE, || {
            std::fs::read_to_string(&port_file).ok().filter(|port| !port.is_empty())
        });
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { process, address: format!("127.0.0.1:{port}"), variables }
    }

    /// The whole response to a document.
    pub(crate) fn query(&self, query: &str) -> Value {
        self.query_as(query)
    }

    /// The same, read as another type.
    pub(crate) fn query_as<T: DeserializeOwned>(&self, query: &str) -> T {
        self.post(&json!({ "query": query }))
    }

    /// The whole response to a document with variables.
    pub(crate) fn query_with(&self, query: &str, variables: &Value) -> Value {
        self.post(&json!({ "query": query, "variables": variables }))
    }

    /// The whole response to a request with this body.
    pub(crate) fn post<T: DeserializeOwned>(&self, body: &Value) -> T {
        let body = body.to_string();
        let request = ureq::post(format!("http://{}/graphql", self.address)).header("content-type", "application/json");
        let mut response = request.send(&body).unwrap();
        serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap()
    }

    /// What is at a path.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut response = ureq::get(format!("http://{}{path}", self.address)).call().unwrap();
        response.body_mut().read_to_string().unwrap()
    }

    pub(crate) fn wait_for_height(&self, height: u32) {
        wait_for("the server to catch up", PATIENCE, || {
            (self.query("{ tip { height } }")["data"]["tip"]["height"] == json!(height)).then_some(())
        });
    }

    /// Kills it, as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Asks it to stop, as an operator does, and waits until it has.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        kill_process(self.pid(), Signal::TERM).unwrap();
        wait_for("the server to stop", Duration::from_secs(20), || self.process.try_wait().unwrap())
    }

    /// Keeps all of its threads from running until what this gives is dropped. It must have no question open that the
    /// node cannot answer into the buffers of a socket, or the node would wait for it.
    #[track_caller]
    pub(crate) fn freeze(&self) -> Frozen {
        let pid = self.pid();
        kill_process(pid, Signal::STOP).unwrap();
        // what has ended is left to be waited for by the process's owner
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(pid), options).unwrap().unwrap();
        assert!(status.stopped(), "the server has ended: {status:?}");
        Frozen(pid)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

/// A server that does nothing.
pub(crate) struct Frozen(Pid);

impl Drop for Frozen {
    fn drop(&mut self) {
        // fails only for one that was killed meanwhile
        let _ = kill_process(self.0, Signal::CONT);
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
