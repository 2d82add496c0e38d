//! Compares two responses by their text, so that no number is converted to floating point: every value of the simulated
//! node must be in the response of the real one, at the same path and in the same digits.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The HTTP response of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

/// The fields that differ, by the path in the response, with the reason.
pub(super) struct Exceptions {
    /// Fields of the real node alone.
    pub(super) left_out: &'static [(&'static str, &'static str)],
    /// Fields of Bitcoin Knots alone.
    pub(super) of_knots: &'static [(&'static str, &'static str)],
    /// Fields of both with different values.
    pub(super) own: &'static [(&'static str, &'static str)],
}

impl Exceptions {
    fn name(table: &'static [(&'static str, &'static str)], path: &str) -> Option<&'static str> {
        table.iter().map(|(name, _)| *name).find(|name| path == *name || path.ends_with(&format!(".{name}")))
    }
}

/// The differences, and the exceptions that were needed.
#[derive(Default)]
pub(super) struct Comparison {
    pub(super) differences: Vec<String>,
    pub(super) used: Vec<&'static str>,
}

impl Comparison {
    pub(super) fn compare(&mut self, request: &str, sim: &HttpResponse, real: &HttpResponse, exceptions: &Exceptions) {
        if (sim.status, &sim.content_type) != (real.status, &real.content_type) {
            self.differences.push(format!("{request}: {} is not {}", show(sim), show(real)));
            return;
        }
        let is_json = sim.content_type == "application/json";
        match (std::str::from_utf8(&sim.body), std::str::from_utf8(&real.body)) {
            (Ok(sim), Ok(real)) if is_json => self.values(request, sim.trim_end(), real.trim_end(), exceptions),
            _ if sim.body == real.body => {}
            _ => self.differences.push(format!("{request}: {} is not {}", show(sim), show(real))),
        }
    }

    /// Panics with the first differences.
    #[track_caller]
    pub(super) fn assert_no_difference(&self) {
        let first = &self.differences[..self.differences.len().min(20)];
        assert!(first.is_empty(), "\n{}", first.join("\n"));
    }

    /// Panics with the first differences, or with the exceptions that were not needed, which must be removed.
    #[track_caller]
    pub(super) fn assert_equal(&self, exceptions: &Exceptions, is_knots: bool) {
        self.assert_no_difference();
        let of_knots = if is_knots { exceptions.of_knots } else { &[] };
        let all = exceptions.left_out.iter().chain(exceptions.own).chain(of_knots);
        let unused: Vec<_> = all.filter(|(name, _)| !self.used.contains(name)).collect();
        assert!(unused.is_empty(), "both nodes agree on these: {unused:?}");
    }

    fn values(&mut self, path: &str, sim: &str, real: &str, exceptions: &Exceptions) {
        if let (Some(sim), Some(real)) = (object(sim), object(real)) {
            for (name, value) in &sim {
                let path = format!("{path}.{name}");
                match real.get(name) {
                    _ if let Some(own) = Exceptions::name(exceptions.own, &path) => self.used.push(own),
                    Some(real) => self.values(&path, value.get(), real.get(), exceptions),
                    None => self.differences.push(format!("{path}: only the simulated node has it")),
                }
            }
            for name in real.keys().filter(|name| !sim.contains_key(*name)) {
                let path = format!("{path}.{name}");
                let left_out = Exceptions::name(exceptions.left_out, &path);
                match left_out.or_else(|| Exceptions::name(exceptions.of_knots, &path)) {
                    Some(left_out) => self.used.push(left_out),
                    None => self.differences.push(format!("{path}: only the real node has it")),
                }
            }
        } else if let (Some(sim), Some(real)) = (array(sim), array(real)) {
            if sim.len() != real.len() {
                self.differences.push(format!("{path}: {} elements are not {}", sim.len(), real.len()));
            }
            for (index, (sim, real)) in sim.iter().zip(&real).enumerate() {
                self.values(&format!("{path}[{index}]"), sim.get(), real.get(), exceptions);
            }
        } else if sim != real && !is_usage(path, sim, real) {
            self.differences.push(format!("{path}: {sim} is not {real}"));
        }
    }
}

/// Whether both are the usage of a method, of which the simulated node has the first line alone.
fn is_usage(path: &str, sim: &str, real: &str) -> bool {
    path.ends_with("error.message") && sim.strip_suffix('"').is_some_and(|line| real.starts_with(&format!("{line}\\n")))
}

fn object(json: &str) -> Option<BTreeMap<String, Box<RawValue>>> {
    json.starts_with('{').then(|| serde_json::from_str(json).unwrap())
}

fn array(json: &str) -> Option<Vec<Box<RawValue>>> {
    json.starts_with('[').then(|| serde_json::from_str(json).unwrap())
}

fn show(response: &HttpResponse) -> String {
    let body: String = String::from_utf8_lossy(&response.body).chars().take(200).collect();
    format!("{} {} {body:?}", response.status, response.content_type)
}
