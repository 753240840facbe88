//! The workers and balancers of a host, by their URLs.
//!
//! Called by: `proxy/call`, with the URL that a request has become. As in Apache, the worker with
//! the longest matching path answers for it; an unknown URL has a worker without kept connections.
//! Caveat: `SetHandler "proxy:unix:/sock|fcgi://name"` names a socket that a worker `<Proxy
//! "fcgi://name">` does not have, and whose parameters count all the same.

use crate::{
    proxy::{
        balancers::{Balancer, url},
        draft::{BalancerDraft, ProxyDraft, WorkerDraft},
        health::{self, Named},
        parameters::{Defaults, WorkerParameters},
    },
    upstream_tls::UpstreamTlsDraft,
    worker_url::{self, WorkerUrl},
};
use saker_config::model::{Backend, BackendAddress, BackendTls, Member, Upstream};
use saker_pipeline::Upgrades;
use std::sync::Arc;

/// One of a host's workers.
#[derive(Clone, Debug)]
struct Worker {
    url: WorkerUrl,
    parameters: WorkerParameters,
    upstream: Arc<Upstream>,
}

/// The upstreams behind a URL without its path: by the beginning of the path, longest first.
#[derive(Clone, Debug)]
pub struct Found {
    candidates: Vec<Candidate>,
}

#[derive(Clone, Debug)]
pub struct Candidate {
    path: Box<[u8]>,
    pub upstream: Arc<Upstream>,
    /// `flushpackets=on`.
    pub flushes: bool,
    /// `upgrade=websocket`, or a scheme that says so.
    pub upgrades: Upgrades,
    /// A balancer; a single server is called by its own authority.
    pub is_balancer: bool,
}

impl Found {
    /// Asks them in another way.
    pub fn lead(&mut self, otherwise: impl Fn(&Upstream) -> Arc<Upstream>) {
        self.candidates
            .iter_mut()
            .for_each(|candidate| candidate.upstream = otherwise(&candidate.upstream));
    }

    /// Never without one.
    pub fn for_path(&self, path: &[u8]) -> Option<&Candidate> {
        self.candidates
            .iter()
            .find(|candidate| path.starts_with(&candidate.path))
    }
}

#[derive(Clone, Debug)]
pub struct Workers {
    workers: Vec<Worker>,
    /// In the order of the configuration.
    pub balancers: Vec<Arc<Balancer>>,
    /// Balancers, and what is proxied, are inherited from the server.
    pub inherits: (bool, bool),
    defaults: Defaults,
}

impl Workers {
    /// The server's, and the host's own.
    pub fn new(main: &ProxyDraft, own: &ProxyDraft, defaults: Defaults) -> Workers {
        let named = Named {
            templates: main
                .health_templates
                .iter()
                .chain(&own.health_templates)
                .map(|(name, template)| (&**name, template))
                .collect(),
            expressions: main
                .health_expressions
                .iter()
                .chain(&own.health_expressions)
                .map(|(name, judge)| (&**name, judge))
                .collect(),
        };
        let mut workers: Vec<Worker> = Vec::new();
        for draft in own.workers.iter().chain(&main.workers) {
            if !workers.iter().any(|known| known.url == draft.url) {
                workers.push(worker(draft, &defaults));
            }
        }
        let inherits = own
            .inherits_balancers
            .or(main.inherits_balancers)
            .unwrap_or(true);
        let outer: &[BalancerDraft] = if inherits { &main.balancers } else { &[] };
        let drafts = merged_balancers(outer, &own.balancers);
        let balancers = drafts.iter().map(|draft| {
            let (nonce, growth) = (draft.parameters.nonce.as_deref(), draft.parameters.growth);
            let upstream = balancer(draft, &defaults, &named);
            let members = draft.members.iter();
            let upgrades = members.map(|member| upgrades(&member.url, &member.parameters));
            let mut balancer = Balancer::new(upstream, nonce, growth.unwrap_or(0));
            balancer.upgrades = upgrades.fold(Upgrades::None, |all, one| all.or(&one));
            Arc::new(balancer)
        });
        let inherits_passes = own.inherits_passes.or(main.inherits_passes);
        Workers {
            balancers: balancers.collect(),
            inherits: (inherits, inherits_passes.unwrap_or(true)),
            workers,
            defaults,
        }
    }

    /// `head`: scheme, socket and authority. The error is for the log.
    pub fn find(&self, head: &str) -> Result<Found, String> {
        let lower = head.to_ascii_lowercase();
        if lower.starts_with("balancer://") {
            let balancer = self.balancer(&lower);
            let upstream = balancer.ok_or_else(|| format!("there is no {head}"))?;
            return Ok(Found {
                candidates: vec![Candidate {
                    path: Box::default(),
                    upstream: upstream.current(),
                    flushes: false,
                    upgrades: upstream.upgrades.clone(),
                    is_balancer: true,
                }],
            });
        }
        let wanted = worker_url::parse(head)?;
        let mut known: Vec<&Worker> = self
            .workers
            .iter()
            .filter(|worker| answers_for(&worker.url, &wanted))
            .collect();
        let mut urls = known.iter().map(|worker| &worker.url).chain([&wanted]);
        if wanted.backend.tls.is_some()
            && urls.all(|url| self.defaults.demands(&text(url)).is_none())
        {
            return Err("TLS towards servers is not enabled here [Hint: SSLProxyEngine]".into());
        }
        known.sort_by_key(|worker| std::cmp::Reverse(worker.url.path.len()));
        let mut candidates: Vec<Candidate> = known
            .into_iter()
            .map(|worker| self.candidate(worker, &wanted))
            .collect();
        if candidates.last().is_none_or(|last| !last.path.is_empty()) {
            // mod_proxy's "reverse" worker: a connection for each request.
            let mut parameters = WorkerParameters::default();
            parameters.set("disablereuse", "on")?;
            let draft = WorkerDraft {
                url: wanted.clone(),
                parameters,
            };
            let worker = worker(&draft, &self.defaults);
            candidates.push(self.candidate(&worker, &wanted));
        }
        Ok(Found { candidates })
    }

    fn candidate(&self, worker: &Worker, wanted: &WorkerUrl) -> Candidate {
        let is_same =
            worker.url.backend == wanted.backend && worker.url.authority == wanted.authority;
        let upstream = match is_same {
            true => Arc::clone(&worker.upstream),
            false => Arc::new(single(wanted, &worker.parameters, &self.defaults)),
        };
        let flushes = worker.parameters.flushes == Some(true);
        Candidate {
            path: worker.url.path.as_bytes().into(),
            upstream,
            flushes,
            upgrades: upgrades(wanted, &worker.parameters),
            is_balancer: false,
        }
    }

    /// URLs of a balancer's members, for ProxyPassReverse.
    pub fn member_urls(&self, head: &str) -> Option<Vec<String>> {
        let upstream = self.balancer(&head.to_ascii_lowercase())?.current();
        Some(upstream.members.iter().map(url).collect())
    }

    /// Demands of upstream TLS, outside of sections.
    pub fn demands(&self) -> &UpstreamTlsDraft {
        &self.defaults.upstream_tls
    }

    /// All of them, for what looks after them without a request.
    pub fn upstreams(&self) -> impl Iterator<Item = Arc<Upstream>> {
        let workers = self.workers.iter();
        let balancers = self.balancers.iter();
        workers
            .map(|worker| Arc::clone(&worker.upstream))
            .chain(balancers.map(|balancer| balancer.current()))
    }

    /// A balancer by its URL, in small letters.
    pub fn balancer(&self, name: &str) -> Option<&Arc<Balancer>> {
        self.balancers
            .iter()
            .find(|balancer| *balancer.name == *name)
    }

    /// A further member of a balancer, which is disabled at first. The error is for
    /// the log.
    pub fn further_member(&self, balancer: &Balancer, text: &str) -> Result<Member, String> {
        let url = worker_url::parse(text)?;
        let asked = format!("{}/", balancer.name);
        let mut made = member(&url, &WorkerParameters::default(), &self.defaults, &asked);
        made.is_disabled = true;
        made.counts_bytes = true;
        Ok(made)
    }
}

/// Protocols that clients may upgrade to: WebSocket where the scheme says so, otherwise those of
/// `upgrade=`.
fn upgrades(url: &WorkerUrl, parameters: &WorkerParameters) -> Upgrades {
    if url.is_websocket {
        return Upgrades::Named(["websocket".into()].into());
    }
    match parameters.upgrade.as_deref() {
        None => Upgrades::None,
        Some(word) if word.eq_ignore_ascii_case("none") => Upgrades::None,
        Some(word) if word.eq_ignore_ascii_case("any") || word == "*" => Upgrades::Any,
        Some(list) => {
            let names = list
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty());
            Upgrades::Named(names.map(Into::into).collect())
        }
    }
}

/// The same server by the same protocol; a worker that names no socket answers for its name's
/// wherever they are.
fn answers_for(worker: &WorkerUrl, wanted: &WorkerUrl) -> bool {
    let of_name = |url: &WorkerUrl| {
        (
            url.backend.protocol,
            url.backend.tls.is_some(),
            url.authority.to_ascii_lowercase(),
        )
    };
    if worker.is_websocket != wanted.is_websocket {
        return false;
    }
    let is_named = matches!(wanted.backend.address, BackendAddress::Unix(_))
        && matches!(worker.backend.address, BackendAddress::Tcp { .. });
    match is_named {
        true => of_name(worker) == of_name(wanted),
        false => same_address(&worker.backend, &wanted.backend),
    }
}

fn same_address(one: &Backend, other: &Backend) -> bool {
    (one.protocol, one.tls.is_some()) == (other.protocol, other.tls.is_some())
        && match (&one.address, &other.address) {
            (
                BackendAddress::Tcp { host, port },
                BackendAddress::Tcp {
                    host: other_host,
                    port: other_port,
                },
            ) => host.eq_ignore_ascii_case(other_host) && port == other_port,
            (one, other) => one == other,
        }
}

fn worker(draft: &WorkerDraft, defaults: &Defaults) -> Worker {
    let upstream = Arc::new(single(&draft.url, &draft.parameters, defaults));
    Worker {
        url: draft.url.clone(),
        parameters: draft.parameters.clone(),
        upstream,
    }
}

/// The beginning of the URLs that it is asked by.
fn text(url: &WorkerUrl) -> String {
    let path = if url.path.is_empty() { "/" } else { &*url.path };
    format!("{}://{}{path}", url.backend.scheme(), url.authority)
}

/// An upstream of one; the path is the request's business.
fn single(url: &WorkerUrl, parameters: &WorkerParameters, defaults: &Defaults) -> Upstream {
    let mut member = member(url, parameters, defaults, &text(url));
    member.path = "".into();
    Upstream::new(&url.backend.to_string(), vec![member])
}

/// `asked`: the URL that sections `<Proxy>` are looked for by.
fn member(
    url: &WorkerUrl,
    parameters: &WorkerParameters,
    defaults: &Defaults,
    asked: &str,
) -> Member {
    let mut backend = url.backend.clone();
    let mut is_forbidden = false;
    if let Some(own) = &mut backend.tls {
        match defaults.demands(asked) {
            Some(demands) => {
                *own = BackendTls {
                    name: own.name.take(),
                    ..demands
                }
            }
            None => is_forbidden = true,
        }
    }
    let mut member = Member::new(backend, parameters.tuning(url.backend.protocol, defaults));
    member.path.clone_from(&url.path);
    member.authority.clone_from(&url.authority);
    parameters.describe(&mut member);
    // Of a balancer: there is to be no TLS towards servers.
    member.is_disabled |= is_forbidden;
    member
}

/// The balancers of a host. One that the server has as well, as a host's `ProxyPass` to it makes it,
/// has the server's members, and the host's parameters over the server's.
fn merged_balancers(outer: &[BalancerDraft], own: &[BalancerDraft]) -> Vec<BalancerDraft> {
    let mut merged = own.to_vec();
    for outer in outer {
        match merged.iter_mut().find(|own| own.name == outer.name) {
            Some(own) => {
                own.members.clone_from(&outer.members);
                own.parameters = outer.parameters.merge(&own.parameters);
            }
            None => merged.push(outer.clone()),
        }
    }
    merged
}

fn balancer(draft: &BalancerDraft, defaults: &Defaults, named: &Named<'_>) -> Upstream {
    // As in Apache: while sections are looked for, the URL is the balancer's still.
    let asked = format!("{}/", draft.name);
    let looked_after = |draft: &WorkerDraft| {
        let mut member = member(&draft.url, &draft.parameters, defaults, &asked);
        member.counts_bytes = true;
        member.health = health::check(&draft.parameters.health, &member, named).map(Arc::new);
        member
    };
    let members = draft.members.iter().map(looked_after).collect();
    draft.parameters.upstream(&draft.name, members)
}
