//! Values of nginx's built-in variables.
//!
//! Called by: `evaluate`.
//! Caveat: what is known only when the response has been sent has no value here; the access log has
//! items for it.
//! Out of scope: fields, arguments, and cookies (`evaluate`).

use crate::{VERSION, files, request::Request, user_id};
use saker_ap_expr::{Dependency, RequestPart};
use saker_config::model::Address;
use saker_http::{KnownField, basic_credentials};
use saker_net::{ShortText, proxy_preface};
use saker_nginx_model::{
    modules::{filters::UserId, maps::NameTable},
    values::size,
    variables::Builtin,
};
use saker_page_cache::keyed::{CachedAge, KeyedResult};
use saker_pipeline::{Client, local_time, template};
use std::{
    net::{IpAddr, SocketAddr},
    os::{fd::AsFd, unix::ffi::OsStrExt},
    sync::Arc,
};

/// A value, if it needs no memory of its own.
pub enum Held<'r> {
    /// It lies in the request, its server, or its location.
    Text(&'r [u8]),
    Short(ShortText),
    /// The variable has no value.
    Nothing,
    /// It has to be made.
    Made,
}

impl<'r> From<Option<&'r [u8]>> for Held<'r> {
    fn from(value: Option<&'r [u8]>) -> Held<'r> {
        value.map_or(Held::Nothing, Held::Text)
    }
}

/// Length of `http://i.ru`: shorter referrers are none of sites.
const REFERER_BYTES_MIN: usize = 11;

impl Request<'_> {
    /// Returns the value of a variable that needs no memory.
    pub fn held(&mut self, builtin: Builtin) -> Held<'_> {
        let version = self.exchange.head.view().version().as_str().as_bytes();
        match builtin {
            Builtin::Args | Builtin::QueryString | Builtin::RequestUri | Builtin::IsArgs => {
                self.depends_on_query();
            }
            Builtin::Scheme | Builtin::Https => self.depends_on(Dependency::Scheme),
            Builtin::ServerProtocol => self.depends_on_value(RequestPart::Version, Some(version)),
            Builtin::RemoteAddr | Builtin::RemotePort | Builtin::ServerAddr => {
                self.depends_on_request();
            }
            Builtin::RequestMethod if self.state.main.is_some() => self.depends_on_request(),
            Builtin::RequestMethod if !self.is_settled() => drop(self.method()),
            _ => {}
        }
        let exchange = &*self.exchange;
        let head = exchange.head.view();
        let words = |is_so: bool, so: &'static [u8], not: &'static [u8]| {
            Held::Text(if is_so { so } else { not })
        };
        match builtin {
            // A request that was refused before has none.
            Builtin::Uri | Builtin::DocumentUri if exchange.path.is_empty() => Held::Made,
            Builtin::Uri | Builtin::DocumentUri => Held::Text(&exchange.path),
            Builtin::Args | Builtin::QueryString => exchange.query.as_deref().into(),
            Builtin::IsArgs => {
                let query = exchange.query.as_deref().unwrap_or_default();
                words(!query.is_empty(), b"?", b"")
            }
            Builtin::RequestUri => Held::Text(head.target()),
            Builtin::RequestMethod => Held::Text(self.main_head().method_token()),
            Builtin::Host => Held::Text(self.host()),
            Builtin::Scheme => words(exchange.client.secure, b"https", b"http"),
            Builtin::Https => words(exchange.client.secure, b"on", b""),
            Builtin::ServerName => Held::Text(self.state.server.name.as_bytes()),
            Builtin::ServerProtocol => Held::Text(version),
            Builtin::RemoteAddr => Held::Text(self.remote_address()),
            // A proxy may tell the address alone.
            Builtin::RemotePort => match exchange.client.address.port() {
                0 => Held::Nothing,
                port => Held::Short(ShortText::of_number(port.into())),
            },
            Builtin::ServerPort => {
                let port = exchange.client.local.port();
                Held::Short(ShortText::of_number(port.into()))
            }
            Builtin::ServerAddr => {
                let address = exchange.client.local.ip().to_canonical();
                Held::Short(ShortText::of_address(address))
            }
            Builtin::DocumentRoot => self.constant_root().map_or(Held::Made, Held::Text),
            Builtin::FastcgiScriptName => files::whole_script(self).map_or(Held::Made, Held::Text),
            Builtin::NginxVersion => Held::Text(VERSION.as_bytes()),
            Builtin::ContentType => self.held_field("content-type"),
            Builtin::ContentLength => self.held_field("content-length"),
            _ => Held::Made,
        }
    }

    /// The value of a field of one line, where nothing has to be recorded.
    fn held_field<'r>(&'r self, name: &'static str) -> Held<'r> {
        let mut lines = self.exchange.head.view().all(name);
        match (lines.next(), lines.next()) {
            (first, None) if self.is_settled() => first.into(),
            _ => Held::Made,
        }
    }

    /// The document root, if it has no variables.
    fn constant_root(&self) -> Option<&[u8]> {
        let root = self.state.location.conf.core.root.as_ref()?;
        root.text.constant()
    }

    /// Returns the value of a built-in variable; `None`: it has none.
    pub fn builtin(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        match self.held(builtin) {
            Held::Text(value) => Some(value.to_vec()),
            Held::Short(value) => Some(value.as_bytes().to_vec()),
            Held::Nothing => None,
            Held::Made => self.made(builtin),
        }
    }

    /// Returns a value that has to be made.
    pub fn made(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        match builtin {
            Builtin::DocumentRoot => {
                let root = files::root(self);
                Some(root.as_os_str().as_bytes().to_vec())
            }
            Builtin::RealpathRoot => {
                // Links on the way may change between two requests.
                self.depends_on_request();
                let root = files::root(self).canonicalize().ok()?;
                Some(root.as_os_str().as_bytes().to_vec())
            }
            Builtin::RequestFilename => files::filename(self),
            Builtin::FastcgiScriptName => Some(files::script_name(self)),
            Builtin::FastcgiPathInfo => {
                let split = files::split_path(self);
                Some(split.map(|(_, info)| info).unwrap_or_default())
            }
            Builtin::AncientBrowser | Builtin::ModernBrowser | Builtin::Msie => {
                self.browser(builtin)
            }
            Builtin::InvalidReferer => self.invalid_referer().then(|| b"1".to_vec()),
            Builtin::ContentType => self.field("content-type"),
            Builtin::ContentLength => self.field("content-length"),
            _ => self.of_place(builtin),
        }
    }

    /// Values that the server and its location determine.
    fn of_place(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        match builtin {
            Builtin::ProxyHost => {
                let proxied = self.state.location.proxied.as_ref()?;
                Some(proxied.host.as_bytes().to_vec())
            }
            Builtin::ProxyPort => {
                let proxied = self.state.location.proxied.as_ref()?;
                let (_, port) = proxied.host.rsplit_once(':').unwrap_or(("", "80"));
                Some(port.as_bytes().to_vec())
            }
            Builtin::RequestPort | Builtin::IsRequestPort => {
                let port = self.request_port()?;
                Some(match builtin {
                    Builtin::RequestPort => port,
                    _ => b":".to_vec(),
                })
            }
            Builtin::Hostname => Some(hostname()),
            Builtin::Pid => Some(std::process::id().to_string().into_bytes()),
            Builtin::RequestBodyFile => {
                self.depends_on_request();
                let file = self.state.body_file.as_ref();
                Some(file?.path.as_os_str().as_encoded_bytes().to_vec())
            }
            Builtin::RequestBody => {
                self.depends_on_request();
                let content = self.state.content.as_ref();
                let value = content.map(|content| content.to_vec());
                // No content is a value that is known.
                let is_unread = value.is_none() && !self.exchange.body.is_end();
                self.state.wants_content |= is_unread;
                value
            }
            _ => self.uncacheable(builtin),
        }
    }

    /// Values that no test can express: their outcomes are not cached.
    fn uncacheable(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        if self.is_tls_variable(builtin) {
            self.depends_on(Dependency::Transport);
            return self.tls_variable(builtin);
        }
        self.depends_on_request();
        let exchange = &*self.exchange;
        let text = |text: &dyn std::fmt::Display| Some(text.to_string().into_bytes());
        match builtin {
            Builtin::Msec => {
                let ms = saker_net::clock::realtime_precise_ns() / 1_000_000;
                text(&format_args!("{}.{:03}", ms / 1000, ms % 1000))
            }
            Builtin::TimeIso8601 | Builtin::TimeLocal | Builtin::DateLocal | Builtin::DateGmt => {
                Some(time(builtin, exchange.now))
            }
            Builtin::ProxyAddXForwardedFor => Some(self.forwarded_for()),
            Builtin::SecureLink | Builtin::SecureLinkExpires => self.secure_link(builtin),
            Builtin::Status => {
                let Some((status, _)) = &self.state.response else {
                    self.state.wants_response = true;
                    // A page of an error knows what it is for.
                    let status = self.state.error_status.unwrap_or_default();
                    return text(&format_args!("{status:03}"));
                };
                text(status)
            }
            Builtin::UpstreamLastServerName => self.last_server_name(),
            attempts if attempts.is_of_attempts() => self.upstream_value(attempts),
            Builtin::LimitRate => Some(match &self.state.limit_rate {
                Some(rate) => {
                    let rate = std::str::from_utf8(rate).ok();
                    let bytes = rate.and_then(size).unwrap_or_default();
                    bytes.to_string().into_bytes()
                }
                None => b"0".to_vec(),
            }),
            Builtin::RequestTime => {
                let began_ns = self.state.began_ns;
                let ms = saker_net::clock::monotonic_ns().saturating_sub(began_ns) / 1_000_000;
                text(&format_args!("{}.{:03}", ms / 1000, ms % 1000))
            }
            Builtin::LimitReqStatus | Builtin::LimitConnStatus => {
                let status = match builtin {
                    Builtin::LimitReqStatus => self.state.limit_req_status,
                    _ => self.state.limit_conn_status,
                };
                // Limits are checked when the location is known.
                self.state.wants_response |= self.state.response.is_none();
                status.map(|status| status.as_bytes().to_vec())
            }
            Builtin::UidGot | Builtin::UidSet => self.user_id(builtin),
            Builtin::UpstreamCacheAge => text(&exchange.extensions.get::<CachedAge>()?.0),
            Builtin::UpstreamCacheStatus => {
                let result = exchange.extensions.get::<KeyedResult>()?;
                Some(result.0.word().as_bytes().to_vec())
            }
            Builtin::SliceRange => self.slice_range(),
            Builtin::Pipe => Some(b".".to_vec()),
            count if count.is_of_counts() => self.connections(count),
            _ => self.of_client(builtin),
        }
    }

    /// Connections of all workers at this moment.
    fn connections(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        self.depends_on_request();
        let counts = self.state.count.as_ref()?().with_this_request();
        let number = match builtin {
            Builtin::ConnectionsActive => counts.open,
            Builtin::ConnectionsReading => counts.reading,
            Builtin::ConnectionsWriting => counts.busy,
            _ => counts.waiting(),
        };
        Some(number.to_string().into_bytes())
    }

    /// Values about the client, its connection, and its request as a whole.
    fn of_client(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        let exchange = &*self.exchange;
        let client = &exchange.client;
        let text = |text: &dyn std::fmt::Display| Some(text.to_string().into_bytes());
        match builtin {
            Builtin::BinaryRemoteAddr => Some(match client.ip() {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            }),
            Builtin::RealipRemoteAddr => text(&connection_peer(client).ip().to_canonical()),
            Builtin::RealipRemotePort => text(&connection_peer(client).port()),
            Builtin::ProxyProtocolAddr => text(&client.preface.as_ref()?.source.ip()),
            Builtin::ProxyProtocolPort => text(&client.preface.as_ref()?.source.port()),
            Builtin::ProxyProtocolServerAddr => text(&client.preface.as_ref()?.destination.ip()),
            Builtin::ProxyProtocolServerPort => text(&client.preface.as_ref()?.destination.port()),
            Builtin::RemoteUser => self.remote_user(),
            Builtin::TcpinfoRtt
            | Builtin::TcpinfoRttvar
            | Builtin::TcpinfoSndCwnd
            | Builtin::TcpinfoRcvSpace => self.tcp_info(builtin),
            Builtin::Request => Some(self.main_head().start_line().to_vec()),
            Builtin::RequestId => Some(self.request_id()),
            Builtin::RequestLength => text(&exchange.head.view().byte_count()),
            Builtin::ConnectionRequests => text(&client.requests.get()),
            Builtin::Connection => text(&client.log_id.number()),
            Builtin::ConnectionTime => {
                let now_ms = saker_net::clock::monotonic_ms();
                let ms = now_ms.saturating_sub(client.began_ms);
                text(&format_args!("{}.{:03}", ms / 1000, ms % 1000))
            }
            _ => None,
        }
    }

    /// The client's X-Forwarded-For with its address behind it.
    fn forwarded_for(&mut self) -> Vec<u8> {
        let list = self.field("x-forwarded-for");
        let address = self.remote_address();
        match list {
            Some(list) => [&list, &b", "[..], address].concat(),
            None => address.to_vec(),
        }
    }

    /// State that the kernel reports of the client's TCP connection; QUIC and Unix sockets have no such state.
    fn tcp_info(&self, builtin: Builtin) -> Option<Vec<u8>> {
        let socket = self.exchange.client.socket.as_ref()?;
        let info = saker_net::tcp_info(socket.as_fd()).ok()?;
        let value = match builtin {
            Builtin::TcpinfoRtt => info.rtt_us,
            Builtin::TcpinfoRttvar => info.rtt_variance_us,
            Builtin::TcpinfoSndCwnd => info.congestion_window,
            _ => info.receive_space_bytes,
        };
        Some(value.to_string().into_bytes())
    }

    /// The identifiers of `userid`.
    fn user_id(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        let location = std::sync::Arc::clone(&self.state.location);
        let conf = &location.conf.filters;
        if matches!(conf.user_id, None | Some(UserId::Off)) {
            return None;
        }
        let words = match builtin {
            Builtin::UidGot => user_id::received(self).map(|(words, _)| words),
            _ => {
                self.depends_on_request();
                user_id::given(self)
            }
        };
        let name = conf.user_id_name.as_deref().unwrap_or("uid");
        words.map(|words| user_id::shown(name, words))
    }

    /// The client's address; that of a Unix socket has a name.
    fn remote_address(&self) -> &[u8] {
        let client = &self.exchange.client;
        let is_unix = matches!(*client.listener, Address::Unix(_)) && client.address == client.peer;
        match is_unix {
            true => b"unix:",
            false => client.text().as_bytes(),
        }
    }

    /// The port that the client named with the host.
    fn request_port(&mut self) -> Option<Vec<u8>> {
        let view = self.exchange.head.view();
        let host = view.first("host")?;
        let behind = match host.iter().position(|byte| *byte == b']') {
            Some(at) => host.get(at + 1..)?,
            None => host,
        };
        let at = behind.iter().position(|byte| *byte == b':')?;
        let port = behind.get(at + 1..)?.to_vec();
        (!port.is_empty() && port.iter().all(u8::is_ascii_digit)).then_some(port)
    }

    /// A TLV of the PROXY header, or one inside of it. TLS's begins with five bytes: flags, and the
    /// outcome of the check of the client's certificate.
    pub fn preface_tlv(&mut self, number: u8, inner: Option<u8>) -> Option<Vec<u8>> {
        self.depends_on_request();
        let preface = self.exchange.client.preface.as_ref()?;
        let value = proxy_preface::tlv(&preface.tlvs, number)?;
        let Some(inner) = inner else {
            return Some(value.to_vec());
        };
        let (head, rest) = value.split_first_chunk::<5>()?;
        match inner {
            0 => {
                let [_, verified @ ..] = *head;
                Some(u32::from_be_bytes(verified).to_string().into_bytes())
            }
            _ => proxy_preface::tlv(rest, inner).map(<[u8]>::to_vec),
        }
    }

    /// The request's host, or the server's name.
    pub fn host(&self) -> &[u8] {
        match self.exchange.host.is_empty() {
            true => self.state.server.name.as_bytes(),
            false => &self.exchange.host,
        }
    }

    /// Returns the user that was verified, or the one that the client claims to be.
    fn remote_user(&mut self) -> Option<Vec<u8>> {
        if let Some(user) = &self.exchange.access.user {
            return Some(user.as_bytes().to_vec());
        }
        let value = self.field("authorization")?;
        basic_credentials::parse(&value).map(|(user, _)| user)
    }

    fn request_id(&self) -> Vec<u8> {
        let known = template::request_id(self.exchange);
        if !known.is_empty() {
            return known.to_vec();
        }
        let log = &self.exchange.log;
        log.request_id.get_or_init(template::new_request_id).clone()
    }

    fn is_tls_variable(&self, builtin: Builtin) -> bool {
        matches!(
            builtin,
            Builtin::SslCipher
                | Builtin::SslCiphers
                | Builtin::SslClientCert
                | Builtin::SslClientEscapedCert
                | Builtin::SslClientFingerprint
                | Builtin::SslClientIssuer
                | Builtin::SslClientSubject
                | Builtin::SslClientSerial
                | Builtin::SslClientIssuerLegacy
                | Builtin::SslClientSubjectLegacy
                | Builtin::SslClientRawCert
                | Builtin::SslClientStart
                | Builtin::SslClientEnd
                | Builtin::SslClientRemain
                | Builtin::SslClientVerify
                | Builtin::SslAlpnProtocol
                | Builtin::SslCurve
                | Builtin::SslCurves
                | Builtin::SslEarlyData
                | Builtin::SslEchOuterServerName
                | Builtin::SslEchStatus
                | Builtin::SslProtocol
                | Builtin::SslServerName
                | Builtin::SslSessionId
                | Builtin::SslSessionReused
                | Builtin::Http2
                | Builtin::Http3
        )
    }

    fn tls_variable(&mut self, builtin: Builtin) -> Option<Vec<u8>> {
        use saker_http::Version;
        let version = self.exchange.head.view().version();
        let is_tls = self.exchange.client.tls;
        match builtin {
            Builtin::Http2 if version == Version::Http2 => Some(if is_tls {
                b"h2".to_vec()
            } else {
                b"h2c".to_vec()
            }),
            Builtin::Http3 if version == Version::Http3 => Some(b"h3".to_vec()),
            Builtin::Http2 | Builtin::Http3 => Some(Vec::new()),
            _ => {
                let session = self.exchange.client.session.as_ref()?;
                crate::tls::variable(session, builtin)
            }
        }
    }

    /// True if the referrer is not one of `valid_referers`.
    fn invalid_referer(&mut self) -> bool {
        let Some(referers) = self.state.location.conf.access.referers.clone() else {
            return false;
        };
        let Some(value) = self.field(KnownField::Referer.name()) else {
            return !referers.none;
        };
        let rest = [&b"http://"[..], b"https://"].iter().find_map(|scheme| {
            let (start, rest) = value.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        });
        // Shorter ones name no host of any length, as nginx sees it.
        let is_long = value.len() >= REFERER_BYTES_MIN;
        let Some(rest) = rest.filter(|rest| is_long && !rest.is_empty()) else {
            return !referers.blocked;
        };
        let end = rest.iter().position(|byte| *byte == b'/');
        let (authority, path) = rest.split_at(end.unwrap_or(rest.len()));
        let host = authority
            .split(|byte| *byte == b':')
            .next()
            .unwrap_or_default();
        let host = String::from_utf8_lossy(host).to_ascii_lowercase();
        if let Some(prefix) = referers.hosts.literal(&host)
            && path.starts_with(prefix.as_bytes())
        {
            return false;
        }
        if referers.server_names && self.is_name_of_server(&host) {
            return false;
        }
        !referers
            .regexes
            .iter()
            .any(|regex| self.spans(regex, rest).is_some())
    }
}

impl Request<'_> {
    /// Returns true if a host in lower case is one of the server's names.
    fn is_name_of_server(&mut self, host: &str) -> bool {
        let server = Arc::clone(&self.state.server);
        let mut table = NameTable::default();
        for name in &server.names.literal {
            if table.add_wildcard(name, ()).is_none() {
                table.add_exact(name, ());
            }
        }
        let mut regexes = server.names.regexes.iter();
        table.literal(host).is_some()
            || regexes.any(|regex| self.spans(regex, host.as_bytes()).is_some())
    }
}

/// The other end of the connection, whatever a PROXY header says.
fn connection_peer(client: &Client) -> SocketAddr {
    let preface = client.preface.as_ref();
    preface.map_or(client.peer, |preface| preface.peer)
}

/// The machine's name.
pub fn hostname() -> Vec<u8> {
    saker_net::process::host_name().into_bytes()
}

/// A time in the form of a variable.
pub fn time(builtin: Builtin, unix_s: i64) -> Vec<u8> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let local = local_time(unix_s);
    let offset = files::utc_offset(unix_s);
    let month = MONTHS
        .get(usize::from(local.month.saturating_sub(1)))
        .copied()
        .unwrap_or_default();
    let (year, day, hour, minute, second) = (
        local.year,
        local.day,
        local.hour,
        local.minute,
        local.second,
    );
    match builtin {
        Builtin::TimeIso8601 => format!(
            "{year}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{}:{}",
            local.month,
            offset.get(..3).unwrap_or_default(),
            offset.get(3..).unwrap_or_default(),
        )
        .into_bytes(),
        Builtin::TimeLocal => {
            format!("{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} {offset}")
                .into_bytes()
        }
        _ => saker_http::date::format_date(unix_s).to_vec(),
    }
}
