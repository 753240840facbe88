//! Ready endpoints of a service in Kubernetes: EndpointSlices, listed and watched
//! (<https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes>).
//!
//! Called by: `discoveries`.
//! Caveat: a watch begins anew when its time is over, with the last version; where that is too old
//! (410), the slices are listed again. Endpoints that terminate are not ready.
//! Out of scope: services without endpoints of their own (ExternalName), and hints of topology.

use crate::{
    api::{ANSWER_TIME, Api, ENTRIES_MAX, TokenField, encoded, entries, refusal, text},
    feed::Feed,
    servers::Named,
};
use saker_config::model::{DiscoveryPort, DiscoverySource};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, timeout};

/// Slices of one page of a list.
const PAGE_SLICES: usize = 250;
/// Slices of a service.
const SLICES_MAX: usize = 2_000;
/// Pages of a list, with those of lists that were begun anew.
const PAGES_MAX: usize = 50;
/// Pause of the source after which changes are put in force, and the longest wait for it.
const QUIET: Duration = Duration::from_millis(20);
const CHANGE_TIME_MAX: Duration = Duration::from_millis(250);

/// Slices of a service, as they are known.
struct Slices<'f> {
    feed: &'f Feed,
    port: Option<&'f DiscoveryPort>,
    /// By their names.
    known: BTreeMap<String, Vec<Named>>,
    version: String,
}

/// Outcome of a watch.
#[derive(Debug, PartialEq, Eq)]
enum Watched {
    /// The last version is good for another one.
    Over,
    /// The slices have to be listed.
    Expired,
}

/// Asks until it fails. Returns the reason.
pub async fn follow(feed: &Feed) -> String {
    let DiscoverySource::Kubernetes {
        namespace,
        service,
        port,
    } = &feed.discovery.terms.source
    else {
        return "not a service of Kubernetes".to_owned();
    };
    let api = Api::new(&feed.discovery, TokenField::Bearer);
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices?labelSelector={}",
        encoded(namespace),
        encoded(&format!("kubernetes.io/service-name={service}"))
    );
    let mut slices = Slices {
        feed,
        port: port.as_ref(),
        known: BTreeMap::new(),
        version: String::new(),
    };
    loop {
        if let Err(error) = slices.list(&api, &path).await {
            return error;
        }
        loop {
            match slices.watch(&api, &path).await {
                Ok(Watched::Over) => {}
                Ok(Watched::Expired) => break,
                Err(error) => return error,
            }
        }
    }
}

impl Slices<'_> {
    async fn list(&mut self, api: &Api<'_>, path: &str) -> Result<(), String> {
        let mut all = BTreeMap::new();
        let mut rest = String::new();
        for _ in 0..PAGES_MAX {
            let page = format!("{path}&limit={PAGE_SLICES}{rest}");
            let document = api.document(&page, Duration::ZERO).await?;
            if document.status == 410 && !rest.is_empty() {
                // The list has changed too much since its first page.
                (rest, all) = (String::new(), BTreeMap::new());
                continue;
            }
            if document.status != 200 {
                return Err(refusal(document.status));
            }
            for slice in entries(&document.value["items"], "EndpointSlices")? {
                all.insert(
                    text(slice, "/metadata/name").to_owned(),
                    self.servers(slice),
                );
            }
            bounded(&all)?;
            self.version = text(&document.value, "/metadata/resourceVersion").to_owned();
            match text(&document.value, "/metadata/continue") {
                "" => {
                    self.known = all;
                    self.publish();
                    return Ok(());
                }
                more => rest = format!("&continue={}", encoded(more)),
            }
        }
        Err(format!("the list has more than {PAGES_MAX} pages"))
    }

    fn publish(&self) {
        self.feed
            .publish(&self.known.values().flatten().cloned().collect::<Vec<_>>());
    }

    async fn watch(&mut self, api: &Api<'_>, path: &str) -> Result<Watched, String> {
        let seconds = api.refresh().as_secs().max(1);
        let target = format!(
            "{path}&watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
            encoded(&self.version)
        );
        let mut events = api.lines(&target).await?;
        match events.status {
            200 => self.feed.confirm(),
            410 => return Ok(Watched::Expired),
            status => return Err(refusal(status)),
        }
        let end = Instant::now() + api.refresh() + ANSWER_TIME;
        let mut changed: Option<Instant> = None;
        loop {
            let now = Instant::now();
            // The source ends a watch; one that does not is ended here.
            let Some(left) = end
                .checked_duration_since(now)
                .filter(|left| !left.is_zero())
            else {
                self.publish_if(changed.is_some());
                return Ok(Watched::Over);
            };
            let quiet = match changed {
                Some(since) => QUIET.min((since + CHANGE_TIME_MAX).saturating_duration_since(now)),
                None => left,
            };
            let line = match timeout(quiet, events.next(left + ANSWER_TIME)).await {
                Ok(line) => line?,
                Err(_) => {
                    self.publish_if(changed.take().is_some());
                    continue;
                }
            };
            let Some(line) = line else {
                self.publish_if(changed.is_some());
                return Ok(Watched::Over);
            };
            match self.take(&line)? {
                Some(true) => changed = changed.or(Some(now)),
                Some(false) => {}
                None => return Ok(Watched::Expired),
            }
        }
    }

    fn publish_if(&self, is_changed: bool) {
        if is_changed {
            self.publish();
        }
    }

    /// Takes an event. Returns true if servers may have changed; `None`: the version is too old.
    fn take(&mut self, line: &[u8]) -> Result<Option<bool>, String> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(Some(false));
        }
        let event: Value = serde_json::from_slice(line)
            .map_err(|error| format!("an event is not JSON: {error}"))?;
        let slice = &event["object"];
        let kind = text(&event, "/type");
        if kind == "ERROR" {
            return match slice["code"].as_u64() {
                Some(410) => Ok(None),
                _ => Err(format!("the watch has failed: {}", text(slice, "/message"))),
            };
        }
        let version = text(slice, "/metadata/resourceVersion");
        if !version.is_empty() {
            self.version = version.to_owned();
        }
        let name = text(slice, "/metadata/name");
        match kind {
            "ADDED" | "MODIFIED" => {
                let servers = self.servers(slice);
                self.known.insert(name.to_owned(), servers);
                bounded(&self.known)?;
            }
            "DELETED" => drop(self.known.remove(name)),
            _ => return Ok(Some(false)),
        }
        Ok(Some(true))
    }

    /// The servers of a slice.
    fn servers(&self, slice: &Value) -> Vec<Named> {
        let name = text(slice, "/metadata/name");
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        // What is not known counts as ready.
        let endpoints =
            endpoints.filter(|one| one.pointer("/conditions/ready") != Some(&false.into()));
        let endpoints: Vec<&Value> = endpoints.collect();
        if endpoints.is_empty() {
            return Vec::new();
        }
        let port = match self.port_of(slice) {
            Ok(port) => port,
            Err(fault) => return vec![Named::faulty(name, &fault)],
        };
        let server = |one: &Value| Named {
            // All addresses of an endpoint lead to the same one.
            address: text(one, "/addresses/0").to_owned(),
            port,
            weight: 1,
            ..Named::default()
        };
        endpoints.into_iter().map(server).collect()
    }

    fn port_of(&self, slice: &Value) -> Result<u64, String> {
        let ports = slice["ports"].as_array().into_iter().flatten();
        let is_wanted = |port: &&Value| match self.port {
            None => matches!(text(port, "/protocol"), "" | "TCP"),
            Some(DiscoveryPort::Name(name)) => text(port, "/name") == &**name,
            Some(DiscoveryPort::Number(number)) => port["port"] == *number,
        };
        let ports: Vec<u64> = ports
            .filter(is_wanted)
            .filter_map(|port| port["port"].as_u64())
            .collect();
        match ports[..] {
            [port] => Ok(port),
            [] => Err("the slice has no such port".to_owned()),
            [port, ..] if self.port.is_some() => Ok(port),
            _ => Err("the slice has several ports: set `port`".to_owned()),
        }
    }
}

fn bounded(slices: &BTreeMap<String, Vec<Named>>) -> Result<(), String> {
    let endpoints: usize = slices.values().map(Vec::len).sum();
    match slices.len() > SLICES_MAX || endpoints > ENTRIES_MAX {
        true => Err(format!(
            "more than {SLICES_MAX} EndpointSlices, or {ENTRIES_MAX} endpoints"
        )),
        false => Ok(()),
    }
}
