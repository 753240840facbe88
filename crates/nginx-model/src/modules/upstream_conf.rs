//! Settings that the modules for upstreams share: proxy, fastcgi, uwsgi, scgi, grpc, and memcached.
//!
//! Called by: `upstream_setters`, and `upstream`, which makes upstreams of them.
//! Caveat: a level with its own fields (`proxy_set_header`) or parameters has none of the outer ones.

use crate::{
    inherit::inherit,
    modules::{cache::CacheConf, upstream_rewrites::RewritesConf},
    text::Text,
    values::Regex,
};
use std::sync::Arc;

/// A kind of upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Gateway {
    Proxy,
    FastCgi,
    Uwsgi,
    Scgi,
    Grpc,
    Memcached,
}

impl Gateway {
    pub const COUNT: usize = 6;

    /// Returns the beginning of the names of its directives.
    pub fn prefix(self) -> &'static str {
        self.directive().trim_end_matches("_pass")
    }

    /// Returns the directive that chooses an upstream of this kind.
    pub fn directive(self) -> &'static str {
        match self {
            Gateway::Proxy => "proxy_pass",
            Gateway::FastCgi => "fastcgi_pass",
            Gateway::Uwsgi => "uwsgi_pass",
            Gateway::Scgi => "scgi_pass",
            Gateway::Grpc => "grpc_pass",
            Gateway::Memcached => "memcached_pass",
        }
    }
}

/// `proxy_pass` and its kin.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    pub gateway: Gateway,
    pub text: Text,
}

/// A field or parameter for the upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub name: Box<str>,
    pub value: Text,
    /// Left out if its value is empty.
    pub if_not_empty: bool,
}

/// `proxy_bind` and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    Off,
    /// The address that connections leave from.
    At(Text),
}

/// `proxy_store` and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    Off,
    /// The file that the path of the request leads to.
    On,
    At(Text),
}

/// `proxy_http_version`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    Http10,
    Http11,
    Http2,
}

/// The request as upstreams get it.
#[derive(Clone, Debug, Default)]
pub struct RequestConf {
    pub method: Option<Text>,
    pub content: Option<Text>,
    pub passes_content: Option<bool>,
    pub passes_fields: Option<bool>,
    /// `proxy_pass_trailers`: trailers of responses go on to clients.
    pub passes_trailers: Option<bool>,
}

/// Settings of one kind of upstream.
#[derive(Clone, Debug, Default)]
pub struct UpstreamConf {
    pub params: Option<Arc<[Param]>>,
    pub is_buffered: Option<bool>,
    pub connect_timeout_ms: Option<u64>,
    pub read_timeout_ms: Option<u64>,
    pub send_timeout_ms: Option<u64>,
    pub hidden: Option<Arc<[Box<str>]>>,
    pub passed: Option<Arc<[Box<str>]>>,
    pub ignored: Option<Arc<[Box<str>]>>,
    pub intercepts_errors: Option<bool>,
    pub next: Option<Arc<[Box<str>]>>,
    pub tries_max: Option<u64>,
    pub buffers_request: Option<bool>,
    pub outlives_client: Option<bool>,
    pub request: RequestConf,
    pub rewrites: RewritesConf,
    pub next_timeout_ms: Option<u64>,
    pub local: Option<LocalAddress>,
    pub keeps_alive: Option<bool>,
    pub limit_rate: Option<Text>,
    pub forces_ranges: Option<bool>,
    pub modifier1: Option<u8>,
    pub modifier2: Option<u8>,
    pub store: Option<Store>,
    pub store_mode: Option<u32>,
    pub index: Option<Text>,
    pub split_path: Option<Regex>,
    pub tls_certificate: Option<Text>,
    pub tls_key: Option<Text>,
    pub tls_name: Option<Text>,
    pub tls_authorities: Option<Box<str>>,
    pub tls_revoked: Option<Box<str>>,
    pub tls_verifies: Option<bool>,
    pub tls_depth: Option<u32>,
    pub tls_protocols: Option<Arc<[Box<str>]>>,
    pub tls_ciphers: Option<Box<str>>,
    pub tls_ciphers_13: Option<Box<str>>,
    pub tls_passphrases: Option<Box<str>>,
    pub tls_sends_name: Option<bool>,
    pub tls_resumes: Option<bool>,
    pub version: Option<HttpVersion>,
    /// `fastcgi_catch_stderr`
    pub caught_errors: Option<Arc<[Box<str>]>>,
    /// `fastcgi_keep_conn`
    pub keeps_connections: Option<bool>,
    /// Bytes of a response's head (`*_buffer_size`).
    pub head_bytes: Option<u64>,
    /// Number and size of buffers for content.
    pub buffers: Option<(u64, u64)>,
    /// Content that waits for the client on disk; 0: none.
    pub disk_bytes: Option<u64>,
    /// `memcached_gzip_flag`
    pub gzip_flag: Option<u32>,
    pub cache: CacheConf,
}

impl UpstreamConf {
    /// The certificate that is shown to servers, and its key.
    pub fn identity(&self) -> Option<(&Text, &Text)> {
        self.tls_certificate.as_ref().zip(self.tls_key.as_ref())
    }

    pub fn inherit(&mut self, outer: &UpstreamConf) {
        inherit!(self, outer:
            params is_buffered connect_timeout_ms read_timeout_ms send_timeout_ms hidden passed
            ignored intercepts_errors next tries_max buffers_request
            outlives_client next_timeout_ms local keeps_alive limit_rate forces_ranges modifier1 modifier2 store store_mode index split_path
            tls_certificate tls_key tls_name tls_authorities tls_revoked tls_verifies tls_depth
            tls_protocols tls_ciphers tls_ciphers_13 tls_passphrases tls_sends_name tls_resumes
            version keeps_connections caught_errors gzip_flag head_bytes buffers disk_bytes
        );
        let (own, from) = (&mut self.request, &outer.request);
        inherit!(own, from: method content passes_content passes_fields passes_trailers);
        self.rewrites.inherit(&outer.rewrites);
        self.cache.inherit(&outer.cache);
    }
}

/// Settings of all kinds, and the choice of one.
#[derive(Clone, Debug, Default)]
pub struct UpstreamsConf {
    /// By [`Gateway`].
    pub kinds: [UpstreamConf; Gateway::COUNT],
    /// The handler of the location. Not inherited, except by the blocks inside.
    pub pass: Option<Pass>,
}

impl UpstreamsConf {
    pub fn inherit(&mut self, outer: &UpstreamsConf, takes_pass: bool) {
        for (own, outer) in self.kinds.iter_mut().zip(&outer.kinds) {
            own.inherit(outer);
        }
        if takes_pass {
            self.pass.clone_from(&outer.pass);
        }
    }

    /// Returns the settings of a kind.
    pub fn of(&self, gateway: Gateway) -> &UpstreamConf {
        let [proxy, fastcgi, uwsgi, scgi, grpc, memcached] = &self.kinds;
        match gateway {
            Gateway::Proxy => proxy,
            Gateway::FastCgi => fastcgi,
            Gateway::Uwsgi => uwsgi,
            Gateway::Scgi => scgi,
            Gateway::Grpc => grpc,
            Gateway::Memcached => memcached,
        }
    }

    /// Returns the settings of a kind, to be changed.
    pub fn of_mut(&mut self, gateway: Gateway) -> &mut UpstreamConf {
        let [proxy, fastcgi, uwsgi, scgi, grpc, memcached] = &mut self.kinds;
        match gateway {
            Gateway::Proxy => proxy,
            Gateway::FastCgi => fastcgi,
            Gateway::Uwsgi => uwsgi,
            Gateway::Scgi => scgi,
            Gateway::Grpc => grpc,
            Gateway::Memcached => memcached,
        }
    }
}
