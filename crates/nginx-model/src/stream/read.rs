//! Reads the block `stream`.
//!
//! Called by: `load`.
//! Caveat: an error in one directive does not end the reading; all are reported.

use super::conf::StreamConf;
use crate::{
    modules::{
        geo::geo,
        geoip,
        limits::{Zone, check_uses, zone},
        listen::{ServerNames, server_name},
        log::format_text,
        maps::{self, Tables, variable_name},
        socket_options::SocketOptions,
        upstream::{Group, group},
    },
    reading::Reading,
    text::Text,
    variables::{Source, Variables},
};
use saker_config::model::{Address, Origin};
use saker_nginx_syntax::{Directive, Report};
use saker_telemetry::access_log::Escapes;
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Reads the block.
#[derive(Debug)]
pub struct StreamReader<'r> {
    reading: Reading<'r>,
    read: ReadStream,
}

/// The block, read but not merged.
#[derive(Debug, Default)]
pub struct ReadStream {
    pub conf: StreamConf,
    pub servers: Vec<StreamDraft>,
    pub groups: Vec<Group>,
    pub tables: Tables,
    pub zones: Vec<Arc<Zone>>,
    pub formats: BTreeMap<Box<str>, (Text, Escapes)>,
    pub variables: Variables,
}

/// A server.
#[derive(Debug)]
pub struct StreamDraft {
    pub conf: StreamConf,
    pub listens: Vec<StreamListen>,
    pub names: ServerNames,
    pub sets: Vec<(usize, Text)>,
    pub returns: Option<Text>,
    pub proxy_pass: Option<Text>,
    /// Address of a listener of `http` that takes the connections.
    pub pass: Option<Text>,
    pub origin: Origin,
}

/// One `listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamListen {
    pub address: Address,
    pub is_default: bool,
    pub is_udp: bool,
    pub is_tls: bool,
    pub takes_preface: bool,
    pub options: SocketOptions,
}

impl<'r> StreamReader<'r> {
    pub fn new(
        report: &'r mut Report,
        prefix: &'r Path,
        conf_prefix: &'r Path,
    ) -> StreamReader<'r> {
        StreamReader {
            reading: Reading {
                variables: Variables::of_streams(),
                report,
                prefix,
                conf_prefix,
                location_name: String::new(),
                in_expression: false,
                zone_uses: Vec::new(),
            },
            read: ReadStream::default(),
        }
    }

    /// Reads a block.
    pub fn stream_block(&mut self, block: &Directive) {
        for directive in block.inside() {
            let outcome = self.directive(directive);
            self.settle(directive, outcome);
        }
    }

    fn settle(&mut self, directive: &Directive, outcome: Result<(), String>) {
        if let Err(message) = outcome {
            self.reading.report.error(directive, message, None);
        }
    }

    fn directive(&mut self, directive: &Directive) -> Result<(), String> {
        let read = &mut self.read;
        match directive.name() {
            "server" => {
                let server = self.server(directive);
                self.read.servers.push(server);
            }
            "upstream" => {
                let group = group(directive, &mut self.reading);
                if read.groups.iter().any(|known| known.name == group.name) {
                    return Err(format!("duplicate upstream \"{}\"", group.name));
                }
                read.groups.push(group);
            }
            "map" => {
                let (name, map) = maps::map(directive, &mut self.reading)?;
                let source = Source::Map(read.tables.maps.len());
                read.tables.maps.push(Arc::new(map));
                self.reading.variables.define(&name, source);
            }
            "geo" => {
                let (name, geo) = geo(directive, &mut self.reading, false)?;
                let source = Source::Geo(read.tables.geos.len());
                read.tables.geos.push(Arc::new(geo));
                self.reading.variables.define(&name, source);
            }
            "split_clients" => {
                let (name, split) = maps::split_clients(directive, &mut self.reading)?;
                let source = Source::Split(read.tables.splits.len());
                read.tables.splits.push(Arc::new(split));
                self.reading.variables.define(&name, source);
            }
            "limit_conn_zone" => {
                let zone = zone(directive, &mut self.reading, read.zones.len())?;
                zone.check_new(&read.zones)?;
                read.zones.push(Arc::new(zone));
            }
            "log_format" => {
                let format = format_text(directive, &mut self.reading)?;
                let name = directive.argument(0);
                if read.formats.insert(name.into(), format).is_some() {
                    return Err(format!("duplicate \"log_format\" name \"{name}\""));
                }
            }
            _ if geoip::set(directive, &mut read.tables.geoip, &mut self.reading)? => {}
            _ => read.conf.set(directive, &mut self.reading)?,
        }
        Ok(())
    }

    fn server(&mut self, block: &Directive) -> StreamDraft {
        let mut server = StreamDraft {
            conf: StreamConf::default(),
            listens: Vec::new(),
            names: ServerNames::default(),
            sets: Vec::new(),
            returns: None,
            proxy_pass: None,
            pass: None,
            origin: block.origin(),
        };
        for directive in block.inside() {
            let outcome = self.server_directive(directive, &mut server);
            self.settle(directive, outcome);
        }
        let outcome = match (server.listens.is_empty(), server.has_target()) {
            // One with a fault has been reported.
            (true, _) if block.inside().iter().any(|one| one.name() == "listen") => Ok(()),
            (true, _) => Err("no \"listen\" is defined for server".to_owned()),
            (false, false) => Err("no handler for server".to_owned()),
            (false, true) => Ok(()),
        };
        self.settle(block, outcome);
        server
    }

    fn server_directive(
        &mut self,
        directive: &Directive,
        server: &mut StreamDraft,
    ) -> Result<(), String> {
        let duplicate = || Err(format!("\"{}\" directive is duplicate", directive.name()));
        match directive.name() {
            "listen" => {
                for listen in listen(directive)? {
                    let is_same = |known: &StreamListen| {
                        known.address == listen.address && known.is_udp == listen.is_udp
                    };
                    if server.listens.iter().any(is_same) {
                        return Err(format!("a duplicate listen {}", listen.address));
                    }
                    server.listens.push(listen);
                }
            }
            "server_name" => server_name(directive, &mut server.names, &mut self.reading)?,
            "set" => {
                let name = variable_name(directive.argument(0))?;
                let number = self.reading.variables.define(name, Source::Slot);
                let value = self.reading.text(directive.argument(1))?;
                server.sets.push((number, value));
            }
            "return" | "proxy_pass" | "pass" if server.has_target() => return duplicate(),
            "return" => server.returns = Some(self.reading.text(directive.argument(0))?),
            "proxy_pass" => server.proxy_pass = Some(self.reading.text(directive.argument(0))?),
            "pass" => {
                let address = self.reading.text(directive.argument(0))?;
                if let Some(plain) = address.plain() {
                    crate::modules::listen::address(plain)
                        .map_err(|_| format!("invalid address \"{plain}\""))?;
                }
                server.pass = Some(address);
            }
            _ => server.conf.set(directive, &mut self.reading)?,
        }
        Ok(())
    }

    /// Reports what is named and not defined.
    pub fn finish(mut self) -> ReadStream {
        check_uses(&self.read.zones, &mut self.reading);
        let undefined: Vec<String> = self
            .reading
            .variables
            .undefined()
            .map(|name| format!("unknown \"{name}\" variable"))
            .collect();
        for message in undefined {
            self.reading.report.error_without_place(message);
        }
        self.read.variables = self.reading.variables;
        self.read
    }
}

impl StreamDraft {
    fn has_target(&self) -> bool {
        self.returns.is_some() || self.proxy_pass.is_some() || self.pass.is_some()
    }
}

/// Reads a `listen`, whose address has a port, or several.
fn listen(directive: &Directive) -> Result<Vec<StreamListen>, String> {
    let text = directive.argument(0);
    let has_port = text.starts_with("unix:")
        || text.starts_with(|first: char| first.is_ascii_digit()) && !text.contains('.')
        || text
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.contains(']'));
    let addresses = crate::modules::listen::addresses(text)?;
    if !has_port {
        return Err(format!("no port in \"{text}\" of the \"listen\" directive"));
    }
    let all = addresses.into_iter();
    all.map(|address| listen_at(directive, address)).collect()
}

fn listen_at(directive: &Directive, address: Address) -> Result<StreamListen, String> {
    let mut listen = StreamListen {
        address,
        is_default: false,
        is_udp: false,
        is_tls: false,
        takes_preface: false,
        options: SocketOptions::default(),
    };
    for word in directive.texts().skip(1) {
        if listen.options.read(word)? {
            continue;
        }
        match word {
            "udp" => listen.is_udp = true,
            "ssl" => listen.is_tls = true,
            "proxy_protocol" => listen.takes_preface = true,
            "default_server" => listen.is_default = true,
            _ => return Err(format!("the invalid \"{word}\" parameter")),
        }
    }
    if listen.is_udp {
        if listen.is_tls {
            return Err("\"ssl\" parameter is incompatible with \"udp\"".to_owned());
        }
        if listen.takes_preface {
            return Err("\"proxy_protocol\" parameter is incompatible with \"udp\"".to_owned());
        }
        if listen.options.backlog.is_some() {
            return Err("\"backlog\" parameter is incompatible with \"udp\"".to_owned());
        }
        if matches!(listen.address, Address::Unix(_)) {
            return Err("datagrams on Unix sockets are not supported".to_owned());
        }
    }
    Ok(listen)
}
