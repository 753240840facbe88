//! From drafts to servers: inheritance, upstreams, and settings of features.
//!
//! Called by: `load`, when all of the configuration has been read.
//! Caveat: a location inside of another one inherits from it, not from the server.

use crate::{
    VERSION,
    conf::LocationConf,
    draft::{Draft, DraftOp, ServerDraft},
    error_logs::ErrorLogs,
    location::{If, Location, LocationKind, LocationTree, Op, Proxied},
    modules::{
        cache::{Zone, cache_use},
        resolver::Found,
        upstream::{Group, UpstreamPool, make, split_url},
        upstream_conf::{Gateway, HttpVersion, Param, Pass, UpstreamConf},
        upstream_rewrites::{Redirect, Rewrite},
    },
    server::Server,
    settings::settings,
    values::size,
    variables::{Builtin, Variable},
};
use saker_nginx_syntax::{Directive, Report};
use saker_pipeline::{ProxyOptions, Trust, Upgrades};
use std::{collections::HashMap, num::NonZeroU64, path::Path, sync::Arc};

/// State of finishing.
#[derive(Debug)]
pub struct Finisher<'f> {
    pub report: &'f mut Report,
    pub groups: &'f [Group],
    pub cache_zones: Vec<Arc<Zone>>,
    pub pool: UpstreamPool,
    pub conf_prefix: &'f Path,
    pub error_logs: ErrorLogs,
}

impl Finisher<'_> {
    /// Builds a server.
    pub fn server(&mut self, draft: ServerDraft, http: &LocationConf) -> Server {
        let mut outside = draft.outside;
        outside.conf.inherit(http, false);
        let conf = outside.conf.clone();
        let mut named = HashMap::new();
        let mut locations = Vec::new();
        for child in outside.children.drain(..) {
            let location = self.location(child, &conf, false);
            match location.kind {
                LocationKind::Named => drop(named.insert(location.name.clone(), location)),
                _ => locations.push(location),
            }
        }
        let origin = outside.origin.clone();
        let outside = Arc::new(self.build(outside, LocationTree::default()));
        Server {
            name: draft.names.first.clone().unwrap_or_default(),
            names: draft.names,
            locations: LocationTree::new(locations),
            named,
            outside,
            rejects_handshake: draft.tls.rejects == Some(true),
            demands_certificate: draft.tls.demands_certificate(),
            origin,
        }
    }

    /// Builds a location. `is_block`: an `if` or `limit_except`.
    fn location(
        &mut self,
        mut draft: Draft,
        outer: &LocationConf,
        is_block: bool,
    ) -> Arc<Location> {
        draft.conf.inherit(outer, is_block);
        let conf = draft.conf.clone();
        let inner = draft.children.drain(..);
        let inner: Vec<Arc<Location>> = inner
            .map(|child| self.location(child, &conf, false))
            .collect();
        Arc::new(self.build(draft, LocationTree::new(inner)))
    }

    fn build(&mut self, draft: Draft, inner: LocationTree) -> Location {
        let conf = draft.conf;
        let ops = draft.script.into_iter();
        let script: Vec<Op> = ops.map(|op| self.op(op, &conf)).collect();
        let limit_except = draft
            .limit_except
            .map(|(methods, inner)| (methods, self.location(*inner, &conf, true)));
        let proxied = conf.upstreams.pass.as_ref().and_then(|pass| {
            self.proxied(pass, &conf, &draft.name, &draft.kind, draft.pass.as_ref())
        });
        Location {
            error_log: self.error_logs.of(&conf.core),
            settings: Arc::new(settings(&conf)),
            name: draft.name,
            kind: draft.kind,
            script: script.into(),
            inner,
            limit_except,
            proxied,
            origin: draft.origin,
            conf,
        }
    }

    fn op(&mut self, op: DraftOp, outer: &LocationConf) -> Op {
        match op {
            DraftOp::Plain(statement) => Op::Plain(statement),
            DraftOp::If {
                condition,
                mut block,
                has_location,
                source,
            } => {
                let ops: Vec<DraftOp> = block.script.drain(..).collect();
                let ops = ops.into_iter().map(|op| self.op(op, outer)).collect();
                let location = has_location.then(|| self.location(*block, outer, true));
                Op::If(Arc::new(If {
                    condition,
                    ops,
                    location,
                    source,
                }))
            }
        }
    }

    fn proxied(
        &mut self,
        pass: &Pass,
        conf: &LocationConf,
        name: &str,
        kind: &LocationKind,
        directive: Option<&Directive>,
    ) -> Option<Proxied> {
        let own = conf.upstreams.of(pass.gateway);
        let mut proxied = Proxied {
            gateway: pass.gateway,
            upstream: None,
            is_resolved: false,
            uri: None,
            host: "".into(),
            text: pass.text.clone(),
            options: Arc::new(options(own, pass)),
            redirects: redirects(own, pass, name, kind).into(),
            cache: None,
            params: params(own, conf),
        };
        let ignored = own.ignored.as_deref().unwrap_or_default();
        let used = cache_use(
            &own.cache,
            ignored,
            pass.gateway.prefix(),
            &self.cache_zones,
        );
        match (used, directive) {
            (Ok(cache), _) => proxied.cache = cache.map(Arc::new),
            (Err(message), Some(directive)) => self.report.error(directive, message, None),
            (Err(message), None) => self.report.error_without_place(message),
        }
        let Some(text) = pass.text.plain() else {
            return Some(proxied);
        };
        let url = split_url(pass.gateway, text);
        if let Some(directive) = directive.filter(|_| url.uri.is_some()) {
            self.check_path(directive, kind);
        }
        let group = self
            .groups
            .iter()
            .find(|group| *group.name == *url.authority);
        proxied.is_resolved = group.is_some_and(Group::is_resolved);
        let found = Found::default();
        match make(
            pass.gateway,
            &url,
            own,
            self.groups,
            self.conf_prefix,
            &found,
        ) {
            Some(upstream) => proxied.upstream = Some(self.pool.share(upstream)),
            None => {
                let message = format!("host not found in upstream \"{}\"", url.authority);
                if let Some(directive) = directive {
                    self.report.error(directive, message, None);
                }
                return None;
            }
        }
        proxied.uri = url.uri.map(Into::into);
        proxied.host = url.authority.into();
        Some(proxied)
    }

    /// A path replaces the location's name, so there has to be one.
    fn check_path(&mut self, directive: &Directive, kind: &LocationKind) {
        if matches!(kind, LocationKind::Exact | LocationKind::Prefix { .. }) {
            return;
        }
        let message = format!(
            "\"{}\" cannot have URI part in location given by regular expression, or inside named location, or inside \"if\" statement, or inside \"limit_except\" block",
            directive.name()
        );
        self.report.error(directive, message, None);
    }
}

/// Returns what upstreams of a location are told, with the values that are known beforehand.
fn params(own: &UpstreamConf, conf: &LocationConf) -> Arc<[Param]> {
    let root = conf
        .core
        .root
        .as_ref()
        .and_then(|root| root.text.constant());
    let known = |variable: &Variable| match variable {
        Variable::Builtin(Builtin::DocumentRoot) => root.map(Into::into),
        Variable::Builtin(Builtin::NginxVersion) => Some(VERSION.as_bytes().into()),
        _ => None,
    };
    let params = own.params.as_deref().unwrap_or_default().iter();
    params
        .map(|param| Param {
            value: param.value.with_known(known),
            ..param.clone()
        })
        .collect()
}

/// Returns the options for requests to an upstream.
fn options(conf: &UpstreamConf, pass: &Pass) -> ProxyOptions {
    let has_param = |wanted: &str| {
        let params = conf.params.as_deref().unwrap_or_default();
        params
            .iter()
            .any(|param| param.name.eq_ignore_ascii_case(wanted))
    };
    let is_http = pass.gateway == Gateway::Proxy;
    ProxyOptions {
        adds_forwarded: false,
        is_unbuffered: conf.is_buffered == Some(false),
        drops_trailers: is_http && conf.request.passes_trailers != Some(true),
        // A request of HTTP/1.0 tells the length of its content.
        spools_request: (conf.buffers_request != Some(false)
            || conf.version == Some(HttpVersion::Http10))
            && pass.gateway != Gateway::Grpc,
        outlives_client: conf.outlives_client == Some(true),
        read_rate: constant_rate(conf),
        follows_locations: false,
        keeps_dates: true,
        is_like_nginx: true,
        upgrades: match is_http && has_param("upgrade") {
            true => Upgrades::Any,
            false => Upgrades::None,
        },
        trust: Trust {
            accel: true,
            unheeded: conf.ignored.as_deref().unwrap_or_default().into(),
            ..Trust::default()
        },
        ..ProxyOptions::default()
    }
}

/// `proxy_limit_rate` without variables. Without buffers it has no effect, as in nginx.
fn constant_rate(conf: &UpstreamConf) -> Option<NonZeroU64> {
    let rate = size(conf.limit_rate.as_ref()?.plain()?)?;
    NonZeroU64::new(rate).filter(|_| conf.is_buffered != Some(false))
}

/// Replacements of locations (`proxy_redirect`).
fn redirects(conf: &UpstreamConf, pass: &Pass, name: &str, kind: &LocationKind) -> Vec<Rewrite> {
    let default = || {
        let text = pass.text.plain()?;
        let has_prefix = matches!(kind, LocationKind::Exact | LocationKind::Prefix { .. });
        let url = split_url(pass.gateway, text);
        let to = match (url.uri, has_prefix) {
            (Some(_), true) => name,
            (Some(_), false) => return None,
            // Without a path of its own, the root of the upstream is that of the server.
            (None, _) => "/",
        };
        let end = if url.uri.is_none() { "/" } else { "" };
        Some(Rewrite::literal(&format!("{text}{end}"), to))
    };
    if pass.gateway != Gateway::Proxy {
        return Vec::new();
    }
    let Some(redirects) = &conf.rewrites.redirects else {
        return default().into_iter().collect();
    };
    if redirects.contains(&Redirect::Off) {
        return Vec::new();
    }
    redirects
        .iter()
        .filter_map(|redirect| match redirect {
            Redirect::Off => None,
            Redirect::Default => default(),
            Redirect::Replace(rewrite) => Some(rewrite.clone()),
        })
        .collect()
}
