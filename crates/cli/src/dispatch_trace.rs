//! Dispatch of a request that is never sent, with the decision of each phase and its reason.
//!
//! Called by: `saker explain`.
//! Caveat: the services are the same as a worker's, without a page cache and without upstream
//! connections.

use saker_config::{
    Model,
    model::{Address, Listener, Origin},
};
use saker_dynamic_vhosts::Hosts;
use saker_files::{BufferFiles, Watcher};
use saker_gateway::Gateway;
use saker_http::{RequestHead, Version};
use saker_pipeline::{
    Client, Exchange, FrontEnd, Generation, NoBody, Response, Services, TraceStep, respond,
};
use saker_serving::{
    figures::NoFigures,
    services::{CacheAccess, CommonParts, MakeServices, ServiceParts},
};
use std::{collections::BTreeMap, net::SocketAddr, rc::Rc, sync::Arc};

/// A request to explain.
pub struct Question<'q> {
    pub method: &'q str,
    /// A path, or absolute.
    pub url: &'q str,
    pub headers: &'q [(String, String)],
}

/// Explains a request: steps come in the order of dispatch, and the last one is the response.
pub fn explain(
    make_services: MakeServices,
    configuration: (Model, Option<FrontEnd>),
    question: &Question<'_>,
    sink: &mut dyn FnMut(TraceStep),
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let watcher = Watcher::start(|_| {}).map_err(|error| error.to_string())?;
        let asked = RequestedUrl::parse(question.url)?;
        let (model, front_end) = configuration;
        let mut model = with_listener(model);
        crate::source::settle_php(&mut model, front_end.is_some());
        let listener = asked.listener(&model);
        let generation = generation(model, front_end)?;
        let services = services(make_services, &generation, &watcher);
        let client = client(listener);
        sink(step(
            "request",
            format!(
                "{} {} to {} for host `{}`",
                question.method, asked.target, client.listener, asked.host
            ),
        ));
        let mut exchange = Exchange::new(
            Rc::new(client),
            asked.head(question.method, question.headers),
            Box::new(NoBody),
            Arc::clone(&generation.no_site),
            saker_net::clock::realtime_s(),
        );
        exchange.log.trace = Some(Vec::new());
        let response = respond::answer(&mut exchange, &services).await;
        let steps = exchange.log.trace.take().unwrap_or_default();
        let kept = kept(&mut exchange, &steps);
        steps.into_iter().for_each(&mut *sink);
        sink(step("kept", kept));
        sink(step("response", render(&response)));
        Ok(())
    })
}

fn generation(model: Model, front_end: Option<FrontEnd>) -> Result<Arc<Generation>, String> {
    let looks_up = model.sites.iter().any(|site| {
        site.by_host
            .as_ref()
            .is_some_and(|by_host| by_host.is_looked_up)
    });
    let known_hosts = looks_up
        .then(|| Hosts::start(&model.hosts))
        .transpose()?
        .map(Arc::new);
    let generation = Generation::new(1, model)
        .with_front_end(front_end)
        .with_known_hosts(known_hosts);
    Ok(Arc::new(generation))
}

/// Services as a worker has them, without upstream connections and without a page cache.
fn services(
    make_services: MakeServices,
    generation: &Arc<Generation>,
    watcher: &Watcher,
) -> Rc<Services> {
    let gateway = Gateway::new(
        Rc::default(),
        1,
        BufferFiles::new(std::env::temp_dir().into()),
        None,
    );
    make_services(ServiceParts {
        generation: Arc::clone(generation),
        common: CommonParts {
            watcher,
            challenges: &Arc::default(),
            guard: &Arc::default(),
            neighbours: &Arc::default(),
            dictionaries: &Arc::default(),
        },
        gateway,
        figures: Rc::new(NoFigures),
        counters: Arc::default(),
        cache: CacheAccess::Explain,
        traces: &Arc::default(),
        latencies: &Arc::default(),
        tail: &Arc::default(),
        log_files: None,
    })
}

/// A client of this machine that comes to the listener.
fn client(listener: Address) -> Client {
    let local = match &listener {
        Address::Tcp(address) => *address,
        Address::Unix(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
    };
    Client::new(
        SocketAddr::from(([127, 0, 0, 1], 0)),
        local,
        Arc::new(listener),
        false,
    )
}

/// The parts of the URL that decide.
struct RequestedUrl<'a> {
    host: &'a str,
    /// Host and port as clients send them.
    authority: &'a str,
    port: Option<u16>,
    target: String,
}

impl<'a> RequestedUrl<'a> {
    fn parse(url: &'a str) -> Result<RequestedUrl<'a>, String> {
        if url.starts_with('/') {
            return Ok(RequestedUrl {
                host: "localhost",
                authority: "localhost",
                port: None,
                target: url.into(),
            });
        }
        let rest = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"))
            .unwrap_or(url);
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let parsed = saker_http::host::parse_authority(authority.as_bytes())
            .ok_or_else(|| format!("{url}: not a URL or path"))?;
        let host = &authority[..parsed.host.len()];
        let target = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        let default = if url.starts_with("https://") { 443 } else { 80 };
        Ok(RequestedUrl {
            host,
            authority,
            port: parsed.port.or(url.contains("://").then_some(default)),
            target,
        })
    }

    /// The listener of that port; the first where none has it.
    fn listener(&self, model: &Model) -> Address {
        let of_port = |listener: &&Listener| matches!(&listener.address, Address::Tcp(address) if Some(address.port()) == self.port);
        let found = model
            .listeners
            .iter()
            .find(of_port)
            .or(model.listeners.first());
        found.map_or(
            Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 80))),
            |listener| listener.address.clone(),
        )
    }

    fn head(&self, method: &str, headers: &[(String, String)]) -> RequestHead {
        let mut fields: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        if !fields
            .iter()
            .any(|field| field.0.eq_ignore_ascii_case("host"))
        {
            fields.push(("Host", self.authority));
        }
        RequestHead::build(method, &self.target, Version::Http11, &fields)
    }
}

/// `explain --serve` names a folder and no address; any will do then.
fn with_listener(mut model: Model) -> Model {
    if model.listeners.is_empty() {
        let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 8080)));
        model
            .listeners
            .push(Listener::new(address, Origin::command_line()));
    }
    model
}

fn kept(exchange: &mut Exchange, steps: &[TraceStep]) -> String {
    // May add conditions, as it does for the route cache.
    let _ = exchange.take_outcome_lines();
    match (
        &exchange.cache.cached_route,
        exchange.cache.request_dependent,
    ) {
        (Some(_), false) => {
            let count = exchange.cache.change_tokens.len();
            let tests = conditions(exchange);
            format!(
                "in memory, by listener, host and path{tests}; dropped as soon as inotify reports a change at one of {count} places it came from"
            )
        }
        (_, true) => match because(steps).as_str() {
            "" => "not: the outcome depends on more of the request than listener, host and path"
                .into(),
            reasons => format!("not, because of {reasons}"),
        },
        (None, false) => "not: each request like this one is dispatched in full".into(),
    }
}

/// The lines that keep the outcome off the route cache, with their reasons.
fn because(steps: &[TraceStep]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for step in steps
        .iter()
        .filter(|step| step.phase == TraceStep::NOT_CACHED)
    {
        let reason = match &step.origin {
            Some(origin) => format!("{origin} ({})", step.text),
            None => step.text.clone(),
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons.join(", ")
}

/// The parts of the request whose tests have to come out alike.
fn conditions(exchange: &Exchange) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for test in &exchange.cache.request_tests {
        *counts.entry(test.part.to_string()).or_default() += 1;
    }
    if counts.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = counts
        .into_iter()
        .map(|(part, count)| match count {
            1 => format!("{part} (1 test)"),
            count => format!("{part} ({count} tests)"),
        })
        .collect();
    format!(
        ", for requests with the same results of the rules' tests of {}",
        parts.join(", ")
    )
}

fn step(phase: &'static str, text: String) -> TraceStep {
    TraceStep {
        phase,
        text,
        origin: None,
    }
}

fn render(response: &Response) -> String {
    let mut text = format!("{} {}", response.status.0, response.status.reason());
    for (name, value) in response.fields().iter() {
        text.push_str(&format!(" | {name}: {}", String::from_utf8_lossy(value)));
    }
    match response.body.length() {
        Some(bytes) => text.push_str(&format!(" | body of {bytes} bytes")),
        None => text.push_str(" | body of unknown length"),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_paths() {
        let rows = [
            ("/a?b", "localhost", None, "/a?b"),
            ("http://h.example/x", "h.example", Some(80), "/x"),
            ("https://h.example", "h.example", Some(443), "/"),
            ("http://[::1]:81/?q", "[::1]", Some(81), "/?q"),
            ("h.example:8080/x", "h.example", Some(8080), "/x"),
            ("h.example?q", "h.example", None, "/?q"),
        ];
        for (url, host, port, target) in rows {
            let asked = RequestedUrl::parse(url).unwrap();
            assert_eq!(
                (asked.host, asked.port, asked.target.as_str()),
                (host, port, target),
                "{url}"
            );
        }
        assert!(RequestedUrl::parse("http://a b/").is_err());
    }
}
