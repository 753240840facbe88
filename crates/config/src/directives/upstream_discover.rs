//! `[upstream.discover]`: servers of an upstream that a source names while the server runs.
//!
//! Called by: `upstream`, whose draft contains this one.
//! Caveat: servers that are found have the protocol of `scheme` and the settings of the upstream;
//! the TLS name is the one in `[upstream.tls]`, never one that the source says.
//! Out of scope: asking the sources (`saker_discovery`).

use super::{
    listener::NETWORK,
    upstream_server::{ParsedServer, read_server},
};
use crate::{
    context::{UPSTREAM, UPSTREAM_DISCOVER},
    diagnostic::quoted,
    kind::{Kind, Word},
    model::{
        Backend, BackendTls, DiscoveryPort, DiscoverySource, DiscoveryState, DiscoveryTerms,
        Member, Protocol, Tuning,
    },
    reader::{Reader, Table},
    row::{Draft, Row, Rows},
    source::Location,
    value::{Spanned, Value, ValueError},
};
use saker_net::Network;
use std::{net::SocketAddr, path::PathBuf, sync::Arc};

/// The table while it is read.
#[derive(Debug, Default)]
pub struct DiscoverDraft {
    dns_srv: Option<String>,
    resolvers: Vec<SocketAddr>,
    consul: Option<Backend>,
    kubernetes: Option<Backend>,
    is_in_cluster: bool,
    docker: Option<Backend>,
    service: Option<String>,
    tag: Option<String>,
    datacenter: Option<String>,
    namespace: Option<String>,
    label: Option<String>,
    network: Option<String>,
    port: Option<DiscoveryPort>,
    scheme: Option<String>,
    networks: Vec<Network>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    refresh_ms: Option<u64>,
}

impl Draft for DiscoverDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

/// The files of a pod's service account.
const ACCOUNT_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const ACCOUNT_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
const IN_CLUSTER_URL: &str = "https://kubernetes.default.svc";
const REFRESH_MS: u64 = 30_000;
/// Time for connecting to an API.
const CONNECT_TIMEOUT_MS: u64 = 10_000;

static SRV_NAME: Word = Word {
    expects: "the name of SRV records, such as \"_http._tcp.app.internal\"",
    pattern: "^[A-Za-z0-9._-]+$",
    read: |text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| (1..=63).contains(&label.len());
        let is_name = name.len() <= 253 && name.split('.').all(is_label);
        match is_name && text.bytes().all(is_plain) {
            true => Ok(Value::Text(name.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

static RESOLVER: Word = Word {
    expects: "the address of a DNS server, such as \"10.0.0.2\" or \"127.0.0.1:8600\"",
    pattern: "^[0-9a-fA-F:.\\[\\]]+$",
    read: |text| {
        let address = text.parse::<SocketAddr>().ok();
        let with_port = || Some(SocketAddr::new(text.parse().ok()?, 53));
        match address.or_else(with_port).filter(|one| one.port() > 0) {
            Some(address) => Ok(Value::parsed(Some(address))),
            None => Err(ValueError::plain(None)),
        }
    },
};

static API: Word = Word {
    expects: "the URL of the API, such as \"http://127.0.0.1:8500\"",
    pattern: "^(https?://|http\\+unix:/)",
    read: |text| read_api(text).map(|api| Value::parsed(Some(api))),
};

static KUBERNETES: Word = Word {
    expects: "\"in-cluster\", or the URL of the API, such as \"https://10.0.0.1:6443\"",
    pattern: "^(in-cluster$|https?://)",
    read: |text| match text {
        "in-cluster" => Ok(Value::Text(text.to_owned())),
        _ => read_api(text).map(|api| Value::parsed(Some(api))),
    },
};

static DOCKER: Word = Word {
    expects: "the path of Docker's socket, such as \"/var/run/docker.sock\", or the URL of its API",
    pattern: "^(/|unix:/|tcp://|https?://|http\\+unix:/)",
    read: |text| {
        let path = text.strip_prefix("unix://").or(text.strip_prefix("unix:"));
        let path = path.or(Some(text).filter(|text| text.starts_with('/')));
        let url = match (path, text.strip_prefix("tcp://")) {
            (Some(path), _) => format!("http+unix:{path}"),
            (None, Some(host)) => format!("http://{host}"),
            (None, None) => text.to_owned(),
        };
        read_api(&url).map(|api| Value::parsed(Some(api)))
    },
};

static NAME: Word = Word {
    expects: "a name of up to 253 letters, digits, \"-\", \"_\" and \".\"",
    pattern: "^[A-Za-z0-9._-]{1,253}$",
    read: |text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = (1..=253).contains(&text.len()) && text.bytes().all(is_plain);
        match is_name && text.bytes().any(|byte| byte != b'.') {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

static LABEL: Word = Word {
    expects: "a label of containers, such as \"saker.upstream=shop\"",
    pattern: "^[^=]+(=.*)?$",
    read: |text| {
        let is_good = !text.starts_with('=') && !text.contains(char::is_control);
        match is_good && (1..=1024).contains(&text.len()) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

const SCHEMES: &[&str] = &[
    "http", "https", "h2c", "h2", "grpc", "grpcs", "fcgi", "scgi", "uwsgi", "lsapi", "ajp", "tcp",
    "tls", "udp",
];

pub const ROWS: &[Row<DiscoverDraft>] = &[
    Row {
        name: "discover",
        contexts: UPSTREAM,
        kind: Kind::Section(UPSTREAM_DISCOVER),
        summary: "Servers that DNS, Consul, Kubernetes or Docker names while the server runs, \
                  besides those of `servers`.",
        aliases: &["dynamic", "service-discovery", "resolve", "providers"],
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "dns_srv",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&SRV_NAME),
        example: Some("\"_http._tcp.app.internal\""),
        summary: "SRV records (RFC 2782) that name the servers. A server of a higher priority number \
                  is used while none of a lower one is available; weights are shares.",
        aliases: &["srv", "dynamic_srv"],
        since: "0.2",
        set: |discover, given| discover.dns_srv = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "resolvers",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::ListOf(&Kind::Word(&RESOLVER)),
        example: Some("[\"127.0.0.1:8600\"]"),
        summary: "DNS servers that are asked for `dns_srv`. Default: those of /etc/resolv.conf.",
        aliases: &["resolver", "nameservers"],
        since: "0.2",
        set: |discover, given| {
            let resolvers: Vec<Option<SocketAddr>> = given.parsed_list();
            discover.resolvers = resolvers.into_iter().flatten().collect();
        },
        ..Row::BASE
    },
    Row {
        name: "consul",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&API),
        example: Some("\"http://127.0.0.1:8500\""),
        summary: "URL of a Consul agent, which is asked for the instances of `service` that pass \
                  their checks.",
        aliases: &["consulCatalog", "consul_catalog"],
        since: "0.2",
        set: |discover, given| discover.consul = given.parsed(),
        ..Row::BASE
    },
    Row {
        name: "kubernetes",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&KUBERNETES),
        example: Some("\"in-cluster\""),
        summary: "URL of a Kubernetes API server, which is asked for the ready endpoints of `service` \
                  (EndpointSlices); `in-cluster`: `https://kubernetes.default.svc` with the token and \
                  the authority of the pod's service account.",
        aliases: &["k8s", "kubernetesCRD", "kubernetesIngress"],
        since: "0.2",
        set: |discover, given| match &given.value {
            Value::Text(_) => {
                (discover.kubernetes, discover.is_in_cluster) =
                    (read_api(IN_CLUSTER_URL).ok(), true);
            }
            _ => discover.kubernetes = given.parsed_as::<Option<Backend>>().flatten(),
        },
        ..Row::BASE
    },
    Row {
        name: "docker",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&DOCKER),
        example: Some("\"/var/run/docker.sock\""),
        summary: "Path of Docker's socket, or URL of its API, which is asked for running containers \
                  with `label`. Whatever may write to the socket is root on its machine: a proxy that \
                  allows reading only is safer.",
        aliases: &["docker_socket"],
        since: "0.2",
        set: |discover, given| discover.docker = given.parsed(),
        ..Row::BASE
    },
    Row {
        name: "service",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&NAME),
        example: Some("\"web\""),
        summary: "Name of the service in Consul or Kubernetes.",
        aliases: &["service_name", "serviceName"],
        since: "0.2",
        set: |discover, given| discover.service = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "tag",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&NAME),
        example: Some("\"production\""),
        summary: "Tag that instances in Consul must have.",
        aliases: &["tags"],
        since: "0.2",
        set: |discover, given| discover.tag = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "datacenter",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&NAME),
        example: Some("\"dc2\""),
        summary: "Datacenter in Consul. Default: the agent's.",
        aliases: &["dc"],
        since: "0.2",
        set: |discover, given| discover.datacenter = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "namespace",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&NAME),
        default: Some("\"default\""),
        example: Some("\"shop\""),
        summary: "Namespace of the service in Kubernetes.",
        aliases: &["namespaces"],
        since: "0.2",
        set: |discover, given| discover.namespace = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "label",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&LABEL),
        example: Some("\"saker.upstream=shop\""),
        summary: "Label of the containers in Docker: a key with its value, or a key alone. The labels \
                  `saker.port` and `saker.weight` of a container set its port and its weight.",
        aliases: &["labels", "constraints"],
        since: "0.2",
        set: |discover, given| discover.label = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "network",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Word(&NAME),
        example: Some("\"web\""),
        summary: "Docker network whose addresses are used. Needed for containers with several.",
        since: "0.2",
        set: |discover, given| discover.network = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "port",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::OneOf(&[
            Kind::Integer {
                min: 1,
                max: 65_535,
            },
            Kind::Word(&NAME),
        ]),
        example: Some("\"http\""),
        summary: "Port in Kubernetes, by its name or number, or in Docker, by its number. Default: in \
                  Kubernetes the only one, in Docker the lowest one that the container exposes.",
        since: "0.2",
        set: |discover, given| discover.port = port(given),
        ..Row::BASE
    },
    Row {
        name: "scheme",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Choice(SCHEMES),
        default: Some("\"http\""),
        summary: "Protocol of the servers. Those with TLS need `server_name` in [upstream.tls].",
        aliases: &["protocol"],
        since: "0.2",
        set: |discover, given| discover.scheme = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "networks",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::ListOf(&Kind::Word(&NETWORK)),
        example: Some("[\"10.0.0.0/8\"]"),
        summary: "Networks that the addresses of servers have to be in; others are left out and \
                  logged. Default: all but loopback and link-local addresses, so that a source cannot \
                  lead requests to services of this machine or to the metadata of a cloud.",
        since: "0.2",
        set: |discover, given| discover.networks = given.parsed_list(),
        ..Row::BASE
    },
    Row {
        name: "token_file",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Path,
        example: Some("\"/etc/saker/consul.token\""),
        summary: "File with a token for the API of Consul or Kubernetes. It is read for each request.",
        aliases: &["token", "bearerToken"],
        since: "0.2",
        set: |discover, given| discover.token_file = Some(given.path()),
        ..Row::BASE
    },
    Row {
        name: "ca_file",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Path,
        example: Some("\"/etc/saker/internal-ca.pem\""),
        summary: "Certificates (PEM) of the authorities that may have issued that of the API. Default: \
                  those that the system trusts.",
        aliases: &["ca", "certAuthFilePath"],
        since: "0.2",
        set: |discover, given| discover.ca_file = Some(given.path()),
        ..Row::BASE
    },
    Row {
        name: "refresh",
        contexts: UPSTREAM_DISCOVER,
        kind: Kind::Duration {
            min_ms: 1_000,
            max_ms: 600_000,
        },
        default: Some("\"30s\""),
        unit: Some("milliseconds"),
        summary: "Longest time that records of DNS are used, even if their lifetime is longer, and \
                  that a watch of another source stays open before it is begun again.",
        aliases: &["refreshInterval", "refreshSeconds", "valid", "hold"],
        since: "0.2",
        set: |discover, given| discover.refresh_ms = Some(given.number()),
        ..Row::BASE
    },
];

fn port(given: Spanned) -> Option<DiscoveryPort> {
    match given.value {
        Value::Number(number) => u16::try_from(number).ok().map(DiscoveryPort::Number),
        _ => Some(DiscoveryPort::Name(given.text().into())),
    }
}

/// The server of an API, which speaks HTTP/1.1.
fn read_api(text: &str) -> Result<Backend, ValueError> {
    // Without a scheme it may as well be a word or a path that is misspelled.
    if !text.contains(":/") {
        return Err(ValueError::plain(None));
    }
    let server = read_server(text)?;
    match server.backend.protocol == Protocol::Http1 && server.path.is_empty() {
        true => Ok(server.backend),
        false => Err(ValueError::plain(Some(
            "write http:// or https:// with host and port, without a path".to_owned(),
        ))),
    }
}

/// A table that has been read.
#[derive(Debug)]
pub struct ReadDiscovery {
    pub terms: DiscoveryTerms,
    pub api: Option<Arc<Member>>,
    /// A server with the protocol of those that will be found.
    pub server: ParsedServer,
}

impl DiscoverDraft {
    /// Makes the discovery, and reports what does not fit together. `None`: there is none, or it
    /// was reported. `table`: of the upstream.
    pub fn finish(self, reader: &mut Reader<'_>, table: &Table<'_>) -> Option<ReadDiscovery> {
        let node = reader.node(table, "discover", UPSTREAM)?;
        let at = reader.at(node.span());
        let own = node.get_ref().as_table()?;
        let has = |reader: &Reader<'_>, name| reader.node(own, name, UPSTREAM_DISCOVER).is_some();
        let sources: Vec<&str> = ["dns_srv", "consul", "kubernetes", "docker"]
            .into_iter()
            .filter(|name| has(reader, name))
            .collect();
        let [source] = sources[..] else {
            let message = "[upstream.discover] needs exactly one of `dns_srv`, `consul`, `kubernetes` and `docker`";
            let help = "write one [[upstream]] for each source";
            reader.error(&at, message, (sources.len() > 1).then(|| help.into()));
            return None;
        };
        let of_sources: [(&str, &[&str]); 10] = [
            ("resolvers", &["dns_srv"]),
            ("service", &["consul", "kubernetes"]),
            ("tag", &["consul"]),
            ("datacenter", &["consul"]),
            ("namespace", &["kubernetes"]),
            ("label", &["docker"]),
            ("network", &["docker"]),
            ("port", &["kubernetes", "docker"]),
            ("token_file", &["consul", "kubernetes"]),
            ("ca_file", &["consul", "kubernetes", "docker"]),
        ];
        for (key, uses) in of_sources {
            let key_at = reader.node(own, key, UPSTREAM_DISCOVER);
            let key_at = key_at.map(|node| reader.at(node.span()));
            if let Some(key_at) = key_at.filter(|_| !uses.contains(&source)) {
                let message = format!("`{key}` has no use with `{source}`");
                reader.error(&key_at, message, Some("remove it".into()));
            }
        }
        let scheme = self.scheme.as_deref().unwrap_or("http");
        let server = read_server(&format!("{scheme}://192.0.2.1:9")).ok()?;
        let (terms, api) = self.terms(reader, &at, own, source)?;
        Some(ReadDiscovery { terms, api, server })
    }

    fn terms(
        mut self,
        reader: &mut Reader<'_>,
        at: &Location,
        own: &Table<'_>,
        source: &str,
    ) -> Option<(DiscoveryTerms, Option<Arc<Member>>)> {
        let refresh_ms = self.refresh_ms.unwrap_or(REFRESH_MS);
        let (source, backend) = self.source(reader, (own, at), source)?;
        let of_account = |path: &str| self.is_in_cluster.then(|| PathBuf::from(path));
        let ca_file = self.ca_file.or_else(|| of_account(ACCOUNT_CA));
        let token_file = self.token_file.or_else(|| of_account(ACCOUNT_TOKEN));
        if let (Some(_), Some(backend)) = (&ca_file, &backend)
            && backend.tls.is_none()
        {
            let help = "write the URL with https://, or remove `ca_file`";
            reader.error(at, "`ca_file` for an API without TLS", Some(help.into()));
        }
        let api = backend.map(|backend| Arc::new(api(backend, ca_file, refresh_ms)));
        let terms = DiscoveryTerms {
            source,
            token_file,
            networks: self.networks,
            refresh_ms,
            state: DiscoveryState::default(),
        };
        Some((terms, api))
    }

    /// The source, and the server of its API. `place`: the table and its location.
    fn source(
        &mut self,
        reader: &mut Reader<'_>,
        place: (&Table<'_>, &Location),
        source: &str,
    ) -> Option<(DiscoverySource, Option<Backend>)> {
        let service = self.service.take();
        Some(match source {
            "dns_srv" => {
                let (name, resolvers) = (self.dns_srv.take()?, std::mem::take(&mut self.resolvers));
                let name = name.into();
                (DiscoverySource::DnsSrv { name, resolvers }, None)
            }
            "consul" => {
                let source = DiscoverySource::Consul {
                    service: required(reader, place, service, ("service", "web"))?,
                    tag: self.tag.take().map(Into::into),
                    datacenter: self.datacenter.take().map(Into::into),
                };
                (source, Some(self.consul.take()?))
            }
            "kubernetes" => {
                let namespace = self.namespace.take();
                let source = DiscoverySource::Kubernetes {
                    namespace: namespace.unwrap_or_else(|| "default".into()).into(),
                    service: required(reader, place, service, ("service", "web"))?,
                    port: self.port.take(),
                };
                (source, Some(self.kubernetes.take()?))
            }
            _ => {
                let port = match self.port.take() {
                    Some(DiscoveryPort::Name(name)) => {
                        let message = format!("{} is no number of a port", quoted(&name));
                        let help = "ports of containers have no names";
                        reader.error(place.1, message, Some(help.into()));
                        return None;
                    }
                    Some(DiscoveryPort::Number(port)) => Some(port),
                    None => None,
                };
                let example = ("label", "saker.upstream=shop");
                let source = DiscoverySource::Docker {
                    label: required(reader, place, self.label.take(), example)?,
                    network: self.network.take().map(Into::into),
                    port,
                };
                (source, Some(self.docker.take()?))
            }
        })
    }
}

/// Returns the value of a key that the source needs, and reports one that is missing.
fn required(
    reader: &mut Reader<'_>,
    (own, at): (&Table<'_>, &Location),
    value: Option<String>,
    (name, example): (&str, &str),
) -> Option<Box<str>> {
    // One whose value was refused is not missing.
    if value.is_none() && !reader.is_mentioned(own, name, UPSTREAM_DISCOVER) {
        let message = format!("missing `{name}` in [upstream.discover]");
        let help = format!("add {name} = {}", quoted(example));
        reader.error(at, message, Some(help));
    }
    value.map(String::into_boxed_str)
}

/// The server of an API as a member, for the gateway's connections.
fn api(mut backend: Backend, ca_file: Option<PathBuf>, refresh_ms: u64) -> Member {
    if backend.tls.is_some() {
        backend.tls = Some(BackendTls {
            authorities: ca_file.into_iter().collect(),
            ..BackendTls::default()
        });
    }
    let tuning = Tuning {
        connect_timeout_ms: CONNECT_TIMEOUT_MS,
        // Consul adds up to a sixteenth to the time of a watch.
        timeout_ms: refresh_ms + refresh_ms / 16 + CONNECT_TIMEOUT_MS,
        kept_max: 0,
        ..Tuning::default()
    };
    Member::new(backend, tuning)
}
