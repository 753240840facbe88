//! The block `http`: servers, locations, and what belongs to all of them.
//!
//! Called by: `load`.
//! Caveat: an error in one directive does not end the reading; all are reported.
//! Out of scope: settings of modules (`modules`), inheritance (`finish`).

use crate::{
    checks,
    conf::LocationConf,
    draft::{Draft, DraftOp, ServerDraft},
    location::LocationKind,
    modules::{
        cache, charset,
        geo::geo,
        geoip,
        limits::{Zone, check_uses, zone},
        listen::{Listen, ServerNames, listen, server_name},
        log::{COMBINED, Formats, log_format, translate},
        maps::{self, Tables},
        rewrite::{self, is_script},
        tls::{TlsConf, is_tls},
        upstream::{Group, group},
    },
    reading::Reading,
    setters,
    values::Regex,
    variables::{Source, Variables},
};
use saker_nginx_syntax::{Directive, Report};
use saker_telemetry::access_log::Escapes;
use std::{collections::HashSet, path::Path, sync::Arc};

/// Reads the block.
#[derive(Debug)]
pub struct HttpReader<'r> {
    reading: Reading<'r>,
    http: HttpDraft,
    groups: Vec<Group>,
}

/// The block, read but not merged.
#[derive(Debug, Default)]
pub struct HttpDraft {
    pub conf: LocationConf,
    pub tls: TlsConf,
    pub servers: Vec<ServerDraft>,
    pub zones: Vec<Arc<Zone>>,
    pub cache_zones: Vec<Arc<cache::Zone>>,
    pub formats: Formats,
    pub variables: Variables,
    pub tables: Tables,
}

/// The outcome of reading.
#[derive(Debug)]
pub struct ReadHttp {
    pub http: HttpDraft,
    pub groups: Vec<Group>,
}

/// Directives that a level may have several times.
const REPEATED: &[&str] = &[
    "access_log",
    "add_header",
    "add_trailer",
    "addition_types",
    "allow",
    "auth_request_set",
    "break",
    "ancient_browser",
    "ancient_browser_value",
    "brotli_types",
    "charset_map",
    "charset_types",
    "deny",
    "error_log",
    "error_page",
    "fastcgi_cache_bypass",
    "fastcgi_cache_path",
    "fastcgi_cache_valid",
    "fastcgi_catch_stderr",
    "fastcgi_hide_header",
    "fastcgi_ignore_headers",
    "fastcgi_no_cache",
    "fastcgi_param",
    "fastcgi_pass_header",
    "geo",
    "grpc_hide_header",
    "grpc_pass_header",
    "grpc_set_header",
    "gzip_disable",
    "gzip_types",
    "if",
    "index",
    "limit_conn",
    "limit_conn_zone",
    "limit_req",
    "limit_req_zone",
    "listen",
    "location",
    "log_format",
    "map",
    "mirror",
    "modern_browser",
    "modern_browser_value",
    "more_clear_headers",
    "more_set_headers",
    "proxy_cache_bypass",
    "proxy_cache_path",
    "proxy_cache_valid",
    "proxy_cookie_domain",
    "proxy_cookie_flags",
    "proxy_cookie_path",
    "proxy_hide_header",
    "proxy_ignore_headers",
    "proxy_no_cache",
    "proxy_pass_header",
    "proxy_redirect",
    "proxy_set_header",
    "return",
    "rewrite",
    "scgi_cache_bypass",
    "scgi_cache_path",
    "scgi_cache_valid",
    "scgi_hide_header",
    "scgi_ignore_headers",
    "scgi_no_cache",
    "scgi_param",
    "scgi_pass_header",
    "server",
    "server_name",
    "stub_status",
    "set",
    "set_real_ip_from",
    "split_clients",
    "ssi_types",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_conf_command",
    "ssl_session_ticket_key",
    "sub_filter",
    "sub_filter_types",
    "types",
    "upstream",
    "uwsgi_cache_bypass",
    "uwsgi_cache_path",
    "uwsgi_cache_valid",
    "uwsgi_hide_header",
    "uwsgi_ignore_headers",
    "uwsgi_no_cache",
    "uwsgi_param",
    "uwsgi_pass_header",
    "valid_referers",
    "zstd_types",
];

impl<'r> HttpReader<'r> {
    pub fn new(report: &'r mut Report, prefix: &'r Path, conf_prefix: &'r Path) -> HttpReader<'r> {
        HttpReader {
            reading: Reading {
                variables: Variables::default(),
                report,
                prefix,
                conf_prefix,
                location_name: String::new(),
                in_expression: false,
                zone_uses: Vec::new(),
            },
            http: HttpDraft::default(),
            groups: Vec::new(),
        }
    }

    /// Reads a block.
    pub fn http_block(&mut self, block: &Directive) {
        self.refuse_duplicates(block.inside());
        for directive in block.inside() {
            let outcome = self.http_directive(directive);
            self.settle(directive, outcome);
        }
    }

    fn settle(&mut self, directive: &Directive, outcome: Result<(), String>) {
        if let Err(message) = outcome {
            self.reading.report.error(directive, message, None);
        }
    }

    fn refuse_duplicates(&mut self, directives: &[Directive]) {
        let mut seen = HashSet::new();
        for directive in directives {
            let name = directive.name();
            let is_supported =
                setters::names().any(|known| known == name) || checks::is_single(name);
            // Those that come in two forms say so themselves.
            let is_checked = matches!(name, "root" | "alias") || name.ends_with("_pass");
            if is_supported && !is_checked && !REPEATED.contains(&name) && !seen.insert(name) {
                let message = format!("\"{name}\" directive is duplicate");
                self.reading.report.error(directive, message, None);
            }
        }
    }

    fn http_directive(&mut self, directive: &Directive) -> Result<(), String> {
        let name = directive.name();
        match name {
            "server" => {
                let server = self.server(directive);
                self.http.servers.push(server);
                Ok(())
            }
            "upstream" => self.upstream(directive),
            "map" => {
                let (name, map) = maps::map(directive, &mut self.reading)?;
                let source = Source::Map(self.http.tables.maps.len());
                self.http.tables.maps.push(Arc::new(map));
                self.reading.variables.define(&name, source);
                Ok(())
            }
            "geo" => {
                let (name, geo) = geo(directive, &mut self.reading, true)?;
                let source = Source::Geo(self.http.tables.geos.len());
                self.http.tables.geos.push(Arc::new(geo));
                self.reading.variables.define(&name, source);
                Ok(())
            }
            "split_clients" => {
                let (name, split) = maps::split_clients(directive, &mut self.reading)?;
                let source = Source::Split(self.http.tables.splits.len());
                self.http.tables.splits.push(Arc::new(split));
                self.reading.variables.define(&name, source);
                Ok(())
            }
            "charset_map" => self.charset_map(directive),
            "limit_req_zone" | "limit_conn_zone" => {
                let number = self.http.zones.len();
                let zone = zone(directive, &mut self.reading, number)?;
                zone.check_new(&self.http.zones)?;
                self.http.zones.push(Arc::new(zone));
                Ok(())
            }
            "proxy_cache_path" | "fastcgi_cache_path" | "uwsgi_cache_path" | "scgi_cache_path" => {
                let zone = cache::zone(directive)?;
                if self
                    .http
                    .cache_zones
                    .iter()
                    .any(|known| known.name == zone.name)
                {
                    return Err(format!("duplicate zone \"{}\"", zone.name));
                }
                self.http.cache_zones.push(Arc::new(zone));
                Ok(())
            }
            "log_format" => {
                let format = log_format(directive, &mut self.reading)?;
                let name = directive.argument(0);
                if self.http.formats.insert(name.into(), format).is_some() {
                    return Err(format!("duplicate \"log_format\" name \"{name}\""));
                }
                Ok(())
            }
            _ if is_tls(name) => checks::check(directive)
                .and_then(|()| self.http.tls.set(directive, &mut self.reading)),
            _ if geoip::set(directive, &mut self.http.tables.geoip, &mut self.reading)? => Ok(()),
            _ => apply(directive, &mut self.http.conf, &mut self.reading),
        }
    }

    fn charset_map(&mut self, directive: &Directive) -> Result<(), String> {
        let map = charset::charset_map(directive, self.reading.report)?;
        let known = &mut self.http.tables.charsets;
        if known
            .iter()
            .any(|one| one.conversion(&map.from, &map.to).is_some())
        {
            return Err(format!(
                "duplicate \"charset_map\" between \"{}\" and \"{}\"",
                map.from, map.to
            ));
        }
        known.push(Arc::new(map));
        Ok(())
    }

    fn upstream(&mut self, directive: &Directive) -> Result<(), String> {
        let group = group(directive, &mut self.reading);
        if self.groups.iter().any(|known| known.name == group.name) {
            return Err(format!("duplicate upstream \"{}\"", group.name));
        }
        self.groups.push(group);
        Ok(())
    }

    fn server(&mut self, block: &Directive) -> ServerDraft {
        self.refuse_duplicates(block.inside());
        let mut server = ServerDraft {
            outside: Draft::new("", LocationKind::Block, block.origin()),
            names: ServerNames::default(),
            listens: Vec::new(),
            tls: TlsConf::default(),
        };
        for directive in block.inside() {
            let name = directive.name();
            let outcome = match name {
                "listen" => listen(directive, self.reading.report)
                    .and_then(|own| add_listens(&mut server, own)),
                "server_name" => server_name(directive, &mut server.names, &mut self.reading),
                _ if is_tls(name) => checks::check(directive)
                    .and_then(|()| server.tls.set(directive, &mut self.reading)),
                _ => self.level_directive(directive, &mut server.outside, false),
            };
            self.settle(directive, outcome);
        }
        server
    }

    /// A directive of a server, a location, or a block in one.
    fn level_directive(
        &mut self,
        directive: &Directive,
        draft: &mut Draft,
        in_location: bool,
    ) -> Result<(), String> {
        let name = directive.name();
        match name {
            "location" => {
                let location = self.location(directive, draft, in_location)?;
                draft.children.push(location);
                Ok(())
            }
            "if" => {
                let op = self.condition(directive, in_location)?;
                draft.script.push(op);
                Ok(())
            }
            "limit_except" => {
                let methods = directive.texts().map(str::to_ascii_uppercase);
                let methods: Box<[Box<str>]> = methods.map(Into::into).collect();
                let mut inner = self.block(directive);
                self.level(directive, &mut inner, true);
                draft.limit_except = Some((methods, Box::new(inner)));
                Ok(())
            }
            _ if is_script(name) => {
                let op = rewrite::op(directive, &mut self.reading)?;
                draft.script.push(DraftOp::Plain(op));
                Ok(())
            }
            _ => {
                if name.ends_with("_pass") {
                    draft.pass = Some(directive.clone());
                }
                apply(directive, &mut draft.conf, &mut self.reading)
            }
        }
    }

    fn level(&mut self, block: &Directive, draft: &mut Draft, in_location: bool) {
        self.refuse_duplicates(block.inside());
        for directive in block.inside() {
            let outcome = self.level_directive(directive, draft, in_location);
            self.settle(directive, outcome);
        }
    }

    fn location(
        &mut self,
        block: &Directive,
        outer: &Draft,
        in_location: bool,
    ) -> Result<Draft, String> {
        let (name, kind) = self.location_kind(block)?;
        if let LocationKind::Exact = outer.kind {
            return Err(format!(
                "location \"{name}\" cannot be inside the exact location \"{}\"",
                outer.name
            ));
        }
        if kind == LocationKind::Named && (in_location || !outer.name.is_empty()) {
            return Err(format!(
                "named location \"{name}\" can be on the server level only"
            ));
        }
        if outer.kind == LocationKind::Named {
            return Err(format!(
                "location \"{name}\" cannot be inside the named location \"{}\"",
                outer.name
            ));
        }
        let is_same = |other: &Draft| {
            *other.name == *name
                && std::mem::discriminant(&other.kind) == std::mem::discriminant(&kind)
        };
        if !matches!(kind, LocationKind::Regex(_)) && outer.children.iter().any(is_same) {
            return Err(format!("duplicate location \"{name}\""));
        }
        if let (LocationKind::Prefix { .. } | LocationKind::Exact, LocationKind::Prefix { .. }) =
            (&kind, &outer.kind)
            && !name.starts_with(&*outer.name)
        {
            return Err(format!(
                "location \"{name}\" is outside location \"{}\"",
                outer.name
            ));
        }
        let is_expression = matches!(kind, LocationKind::Regex(_));
        let mut draft = Draft::new(&name, kind, block.origin());
        let before = std::mem::replace(&mut self.reading.location_name, name);
        let was_expression = std::mem::replace(&mut self.reading.in_expression, is_expression);
        self.level(block, &mut draft, true);
        self.reading.location_name = before;
        self.reading.in_expression = was_expression;
        Ok(draft)
    }

    fn location_kind(&mut self, block: &Directive) -> Result<(String, LocationKind), String> {
        let (first, second) = (block.argument(0), block.argument(1));
        let mut regex = |text: &str, caseless| {
            Regex::compile(text, caseless, &mut self.reading.variables).map(LocationKind::Regex)
        };
        if block.arguments.len() == 2 {
            let kind = match first {
                "=" => LocationKind::Exact,
                "^~" => LocationKind::Prefix { is_final: true },
                "~" => regex(second, false)?,
                "~*" => regex(second, true)?,
                other => return Err(format!("invalid location modifier \"{other}\"")),
            };
            return Ok((second.to_owned(), kind));
        }
        let rest = |prefix: &str| first.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        if let Some(name) = rest("=") {
            return Ok((name.to_owned(), LocationKind::Exact));
        }
        if let Some(name) = rest("^~") {
            return Ok((name.to_owned(), LocationKind::Prefix { is_final: true }));
        }
        if let Some(pattern) = rest("~*") {
            return Ok((pattern.to_owned(), regex(pattern, true)?));
        }
        if let Some(pattern) = rest("~") {
            return Ok((pattern.to_owned(), regex(pattern, false)?));
        }
        let kind = match first.starts_with('@') {
            true => LocationKind::Named,
            false => LocationKind::Prefix { is_final: false },
        };
        Ok((first.to_owned(), kind))
    }

    /// A block inside a location, which has the location's name: upstream paths are made with it.
    fn block(&self, block: &Directive) -> Draft {
        let name = &self.reading.location_name;
        Draft::new(name, LocationKind::Block, block.origin())
    }

    fn condition(&mut self, block: &Directive, in_location: bool) -> Result<DraftOp, String> {
        let condition = rewrite::condition(block, &mut self.reading)?;
        let mut inner = self.block(block);
        let words: Vec<&str> = block.texts().collect();
        self.level(block, &mut inner, in_location);
        Ok(DraftOp::If {
            condition,
            block: Box::new(inner),
            has_location: in_location,
            source: words.join(" ").into(),
        })
    }

    /// Reports what is named and not defined.
    pub fn finish(mut self) -> ReadHttp {
        let combined = self.reading.text(COMBINED);
        if let Ok(text) = combined {
            let format = translate(&text, Escapes::Hexadecimal, "combined");
            self.http.formats.entry("combined".into()).or_insert(format);
        }
        check_uses(&self.http.zones, &mut self.reading);
        let undefined: Vec<String> = self
            .reading
            .variables
            .undefined()
            .map(|name| format!("unknown \"{name}\" variable"))
            .collect();
        for message in undefined {
            self.reading.report.error_without_place(message);
        }
        self.http.variables = self.reading.variables;
        ReadHttp {
            http: self.http,
            groups: self.groups,
        }
    }
}

/// Applies a directive of a module, if it has a setter.
fn apply(
    directive: &Directive,
    conf: &mut LocationConf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    checks::check(directive)?;
    setters::apply(directive, conf, reading).unwrap_or(Ok(()))
}

/// Adds the addresses of a `listen`, which a server has once.
fn add_listens(server: &mut ServerDraft, own: Vec<Listen>) -> Result<(), String> {
    for listen in &own {
        let is_same = |known: &Listen| {
            known.address == listen.address
                && known.is_quic == listen.is_quic
                && !known.is_second()
                && !listen.is_second()
        };
        if server.listens.iter().any(is_same) {
            return Err(format!("a duplicate listen {}", listen.address));
        }
    }
    server.listens.extend(own);
    Ok(())
}
