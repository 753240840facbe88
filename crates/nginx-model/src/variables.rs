//! Names of variables: built-in ones, families such as `$arg_NAME`, and those of the configuration.
//!
//! Called by: `text`, and the setters of `set`, `map`, `geo`, `split_clients`, and patterns.
//! Caveat: a variable of the configuration has a number; its value at request time is kept under it.
//! Out of scope: values (`saker-nginx`).

use crate::geoip::GeoIpPart;
use saker_config::model::SessionVariable;
use std::collections::HashMap;

/// A variable that a text refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    Builtin(Builtin),
    /// `$http_NAME`: a request field, in lower case with hyphens.
    Field(Box<str>),
    /// `$arg_NAME`
    Argument(Box<str>),
    /// `$cookie_NAME`
    Cookie(Box<str>),
    /// `$sent_http_NAME`
    SentField(Box<str>),
    /// `$upstream_http_NAME`
    UpstreamField(Box<str>),
    /// `$upstream_cookie_NAME`
    UpstreamCookie(Box<str>),
    /// `$sent_trailer_NAME`
    SentTrailer(Box<str>),
    /// `$upstream_trailer_NAME`
    UpstreamTrailer(Box<str>),
    /// `$proxy_protocol_tlv_NAME`: the number of the TLV, and of the one inside of it.
    PrefaceTlv(u8, Option<u8>),
    /// A variable of a stream's session.
    Session(SessionVariable),
    /// A variable of the configuration, by its number.
    Named(usize),
}

macro_rules! builtins {
    ($($name:literal $variant:ident)*) => {
        /// A variable that nginx defines.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Builtin { $($variant),* }

        const BUILTINS: &[(&str, Builtin)] = &[$(($name, Builtin::$variant)),*];
    };
}

builtins! {
    "ancient_browser" AncientBrowser
    "args" Args
    "binary_remote_addr" BinaryRemoteAddr
    "body_bytes_sent" BodyBytesSent
    "bytes_sent" BytesSent
    "connection" Connection
    "connection_requests" ConnectionRequests
    "connection_time" ConnectionTime
    "connections_active" ConnectionsActive
    "connections_reading" ConnectionsReading
    "connections_waiting" ConnectionsWaiting
    "connections_writing" ConnectionsWriting
    "content_length" ContentLength
    "content_type" ContentType
    "date_gmt" DateGmt
    "date_local" DateLocal
    "document_root" DocumentRoot
    "document_uri" DocumentUri
    "fastcgi_path_info" FastcgiPathInfo
    "fastcgi_script_name" FastcgiScriptName
    "gzip_ratio" GzipRatio
    "host" Host
    "hostname" Hostname
    "http2" Http2
    "http3" Http3
    "https" Https
    "invalid_referer" InvalidReferer
    "is_args" IsArgs
    "is_request_port" IsRequestPort
    "limit_conn_status" LimitConnStatus
    "limit_rate" LimitRate
    "limit_req_status" LimitReqStatus
    "modern_browser" ModernBrowser
    "msec" Msec
    "msie" Msie
    "nginx_version" NginxVersion
    "pid" Pid
    "pipe" Pipe
    "proxy_add_x_forwarded_for" ProxyAddXForwardedFor
    "proxy_host" ProxyHost
    "proxy_internal_body_length" ProxyInternalBodyLength
    "proxy_internal_chunked" ProxyInternalChunked
    "proxy_port" ProxyPort
    "proxy_protocol_addr" ProxyProtocolAddr
    "proxy_protocol_port" ProxyProtocolPort
    "proxy_protocol_server_addr" ProxyProtocolServerAddr
    "proxy_protocol_server_port" ProxyProtocolServerPort
    "query_string" QueryString
    "quic_connection" QuicConnection
    "realip_remote_addr" RealipRemoteAddr
    "realip_remote_port" RealipRemotePort
    "realpath_root" RealpathRoot
    "remote_addr" RemoteAddr
    "remote_port" RemotePort
    "remote_user" RemoteUser
    "request" Request
    "request_body" RequestBody
    "request_body_file" RequestBodyFile
    "request_completion" RequestCompletion
    "request_filename" RequestFilename
    "request_id" RequestId
    "request_length" RequestLength
    "request_method" RequestMethod
    "request_port" RequestPort
    "request_time" RequestTime
    "request_uri" RequestUri
    "scheme" Scheme
    "secure_link" SecureLink
    "secure_link_expires" SecureLinkExpires
    "server_addr" ServerAddr
    "server_name" ServerName
    "server_port" ServerPort
    "server_protocol" ServerProtocol
    "slice_range" SliceRange
    "ssl_alpn_protocol" SslAlpnProtocol
    "ssl_cipher" SslCipher
    "ssl_ciphers" SslCiphers
    "ssl_client_cert" SslClientCert
    "ssl_client_escaped_cert" SslClientEscapedCert
    "ssl_client_fingerprint" SslClientFingerprint
    "ssl_client_i_dn" SslClientIssuer
    "ssl_client_i_dn_legacy" SslClientIssuerLegacy
    "ssl_client_raw_cert" SslClientRawCert
    "ssl_client_s_dn" SslClientSubject
    "ssl_client_s_dn_legacy" SslClientSubjectLegacy
    "ssl_client_serial" SslClientSerial
    "ssl_client_sigalg" SslClientSigalg
    "ssl_client_v_end" SslClientEnd
    "ssl_client_v_remain" SslClientRemain
    "ssl_client_v_start" SslClientStart
    "ssl_client_verify" SslClientVerify
    "ssl_curve" SslCurve
    "ssl_curves" SslCurves
    "ssl_early_data" SslEarlyData
    "ssl_ech_outer_server_name" SslEchOuterServerName
    "ssl_ech_status" SslEchStatus
    "ssl_protocol" SslProtocol
    "ssl_server_name" SslServerName
    "ssl_session_id" SslSessionId
    "ssl_session_reused" SslSessionReused
    "ssl_sigalg" SslSigalg
    "status" Status
    "tcpinfo_rcv_space" TcpinfoRcvSpace
    "tcpinfo_rtt" TcpinfoRtt
    "tcpinfo_rttvar" TcpinfoRttvar
    "tcpinfo_snd_cwnd" TcpinfoSndCwnd
    "time_iso8601" TimeIso8601
    "time_local" TimeLocal
    "upstream_addr" UpstreamAddr
    "upstream_bytes_received" UpstreamBytesReceived
    "upstream_bytes_sent" UpstreamBytesSent
    "upstream_cache_age" UpstreamCacheAge
    "upstream_cache_etag" UpstreamCacheEtag
    "upstream_cache_last_modified" UpstreamCacheLastModified
    "upstream_cache_status" UpstreamCacheStatus
    "upstream_connect_time" UpstreamConnectTime
    "upstream_header_time" UpstreamHeaderTime
    "upstream_last_server_name" UpstreamLastServerName
    "upstream_queue_time" UpstreamQueueTime
    "upstream_response_length" UpstreamResponseLength
    "upstream_response_time" UpstreamResponseTime
    "upstream_status" UpstreamStatus
    "uid_got" UidGot
    "uid_set" UidSet
    "uri" Uri
}

impl Variable {
    /// Returns a variable of TLS that sessions of streams have as requests do.
    fn of_handshake(name: &str) -> Option<Variable> {
        let mut known = BUILTINS.iter().filter(|(known, _)| *known == name);
        let is_of_requests = |builtin: Builtin| builtin == Builtin::SslEarlyData;
        known
            .find(|(known, builtin)| known.starts_with("ssl_") && !is_of_requests(*builtin))
            .map(|(_, builtin)| Variable::Builtin(*builtin))
    }

    /// Returns a variable that the configuration does not define itself.
    pub fn known(name: &str) -> Option<Variable> {
        if let Some((_, builtin)) = BUILTINS.iter().find(|(known, _)| *known == name) {
            return Some(Variable::Builtin(*builtin));
        }
        let field = |rest: &str| rest.to_ascii_lowercase().replace('_', "-").into();
        type Make = fn(Box<str>) -> Variable;
        let families: [(&str, Make); 5] = [
            ("sent_trailer_", Variable::SentTrailer),
            ("upstream_trailer_", Variable::UpstreamTrailer),
            ("sent_http_", Variable::SentField),
            ("upstream_http_", Variable::UpstreamField),
            ("http_", Variable::Field),
        ];
        for (prefix, make) in families {
            if let Some(rest) = name.strip_prefix(prefix) {
                return Some(make(field(rest)));
            }
        }
        if let Some(rest) = name.strip_prefix("arg_") {
            return Some(Variable::Argument(rest.into()));
        }
        if let Some(rest) = name.strip_prefix("proxy_protocol_tlv_") {
            return preface_tlv(rest);
        }
        if let Some(rest) = name.strip_prefix("upstream_cookie_") {
            return Some(Variable::UpstreamCookie(rest.into()));
        }
        name.strip_prefix("cookie_")
            .map(|rest| Variable::Cookie(rest.into()))
    }
}

/// Numbers of TLVs that have names (proxy-protocol.txt, 2.2), and of those of TLS.
const TLVS: [(&str, u8); 4] = [
    ("alpn", 1),
    ("authority", 2),
    ("unique_id", 5),
    ("netns", 0x30),
];
const TLS_TLV: u8 = 0x20;
const TLS_TLVS: [(&str, u8); 6] = [
    ("verify", 0),
    ("version", 0x21),
    ("cn", 0x22),
    ("cipher", 0x23),
    ("sig_alg", 0x24),
    ("key_alg", 0x25),
];

/// Parses the name of a TLV: a known one, or a number, such as `0x01` or `ssl_0x21`.
fn preface_tlv(name: &str) -> Option<Variable> {
    let number = |name: &str, known: &[(&str, u8)]| {
        let known = known.iter().find(|(own, _)| *own == name);
        match (known, name.strip_prefix("0x")) {
            (Some((_, number)), _) => Some(*number),
            (None, Some(digits)) => u8::from_str_radix(digits, 16).ok(),
            (None, None) => None,
        }
    };
    match name.strip_prefix("ssl_") {
        Some(inner) => {
            number(inner, &TLS_TLVS).map(|inner| Variable::PrefaceTlv(TLS_TLV, Some(inner)))
        }
        None => number(name, &TLVS).map(|own| Variable::PrefaceTlv(own, None)),
    }
}

/// The source of a variable's value.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// Only referred to so far.
    #[default]
    Unknown,
    /// Named groups of patterns, and `auth_request_set`.
    Slot,
    /// `set`: without a value, its use is worth a warning.
    Set,
    /// A table, by its number.
    Map(usize),
    Geo(usize),
    Split(usize),
    /// A database of GeoIP.
    GeoIp(GeoIpPart),
}

/// A variable of the configuration.
#[derive(Clone, Debug)]
pub struct NamedVariable {
    pub name: Box<str>,
    pub source: Source,
    /// `set` or a pattern stores values over those of the source.
    pub has_slot: bool,
}

impl NamedVariable {
    /// Returns true if a value of a request is not computed again from what has changed.
    pub fn is_stored(&self) -> bool {
        self.has_slot || matches!(self.source, Source::Unknown)
    }
}

/// All variables of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    pub named: Vec<NamedVariable>,
    numbers: HashMap<Box<str>, usize>,
    /// The block is `stream`.
    of_streams: bool,
    /// Something refers to `$request_body`.
    pub reads_content: bool,
    /// Something refers to a variable about the members that were asked.
    pub reads_attempts: bool,
    /// Something refers to `$connections_active` or its kin.
    pub reads_counts: bool,
    /// Something refers to fields of responses.
    pub reads_responses: bool,
    /// Something refers to `$tcpinfo_rtt` or its kin.
    pub tells_of_sockets: bool,
}

impl Builtin {
    /// True for `$upstream_addr` and its kin: one value for each member that was asked.
    pub fn is_of_attempts(self) -> bool {
        matches!(
            self,
            Builtin::UpstreamAddr
                | Builtin::UpstreamStatus
                | Builtin::UpstreamConnectTime
                | Builtin::UpstreamHeaderTime
                | Builtin::UpstreamResponseTime
                | Builtin::UpstreamResponseLength
                | Builtin::UpstreamBytesSent
                | Builtin::UpstreamBytesReceived
                | Builtin::UpstreamLastServerName
        )
    }
}

impl Builtin {
    /// True for `$connections_active` and its kin.
    pub fn is_of_counts(self) -> bool {
        matches!(
            self,
            Builtin::ConnectionsActive
                | Builtin::ConnectionsReading
                | Builtin::ConnectionsWriting
                | Builtin::ConnectionsWaiting
        )
    }
}

impl Variables {
    /// The variables of `stream`.
    pub fn of_streams() -> Variables {
        Variables {
            of_streams: true,
            ..Variables::default()
        }
    }

    /// Returns the variable of a name.
    pub fn named(&mut self, name: &str) -> Variable {
        let lower = name.to_ascii_lowercase();
        if let Some(number) = self.numbers.get(lower.as_str()) {
            return Variable::Named(*number);
        }
        let known = match self.of_streams {
            true => SessionVariable::known(&lower)
                .map(Variable::Session)
                .or_else(|| Variable::of_handshake(&lower)),
            false => Variable::known(&lower),
        };
        if let Some(Variable::Builtin(builtin)) = known {
            self.reads_content |= builtin == Builtin::RequestBody;
            self.reads_attempts |= builtin.is_of_attempts();
            self.reads_counts |= builtin.is_of_counts();
        }
        self.reads_responses |= matches!(
            known,
            Some(Variable::SentField(_) | Variable::UpstreamField(_) | Variable::UpstreamCookie(_))
        );
        self.tells_of_sockets |= known.is_some() && lower.starts_with("tcpinfo_");
        match known {
            // Names of arguments and cookies are compared regardless of case.
            Some(variable) => variable,
            None => Variable::Named(self.number(&lower)),
        }
    }

    /// Returns the number of a variable of the configuration, built-in names included.
    pub fn number(&mut self, name: &str) -> usize {
        let name = name.to_ascii_lowercase();
        if let Some(number) = self.numbers.get(name.as_str()) {
            return *number;
        }
        let number = self.named.len();
        self.named.push(NamedVariable {
            name: name.as_str().into(),
            source: Source::Unknown,
            has_slot: false,
        });
        self.numbers.insert(name.into(), number);
        number
    }

    /// Defines where a variable's value comes from. A slot does not replace another source: `set`
    /// and patterns store values over it.
    pub fn define(&mut self, name: &str, source: Source) -> usize {
        let number = self.number(name);
        if let Some(variable) = self.named.get_mut(number) {
            let is_slot = matches!(source, Source::Slot | Source::Set);
            variable.has_slot |= is_slot;
            if !is_slot || matches!(variable.source, Source::Unknown) {
                variable.source = source;
            }
        }
        number
    }

    /// Returns the names that are referred to and not defined.
    pub fn undefined(&self) -> impl Iterator<Item = &str> {
        self.named
            .iter()
            .filter(|variable| matches!(variable.source, Source::Unknown))
            // nginx has them without a database, too.
            .filter(|variable| !variable.name.starts_with("geoip_"))
            // It is for `set`.
            .filter(|variable| &*variable.name != "uid_reset")
            .map(|variable| &*variable.name)
    }
}
