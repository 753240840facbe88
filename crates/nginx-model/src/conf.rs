//! Settings of a location, module by module, and their inheritance.
//!
//! Called by: `load`, which fills a draft per block and merges it into the outer one.
//! Caveat: the rule is nginx's: what a level does not set comes from the outer level as a whole;
//! lists (`add_header`, `proxy_set_header`, `allow`) are not joined.
//! Out of scope: values at request time.

use crate::modules::{
    access::AccessConf,
    autoindex::AutoindexConf,
    body::BodyConf,
    browser::BrowserConf,
    clients::ClientsConf,
    compression::CompressionConf,
    core::{CoreConf, Handler},
    filters::FiltersConf,
    gzip_conditions::GzipConditions,
    handlers::HandlersConf,
    headers::HeadersConf,
    limits::LimitsConf,
    log::LogConf,
    realip::RealIp,
    resolver::ResolverConf,
    secure_link::SecureLinkConf,
    upstream_conf::UpstreamsConf,
};

/// Settings of a level: `http`, a server, a location, an `if`, or `limit_except`.
#[derive(Clone, Debug, Default)]
pub struct LocationConf {
    pub core: CoreConf,
    pub access: AccessConf,
    pub autoindex: AutoindexConf,
    pub body: BodyConf,
    pub browser: BrowserConf,
    pub clients: ClientsConf,
    pub compression: CompressionConf,
    pub filters: FiltersConf,
    pub gzip: GzipConditions,
    pub handlers: HandlersConf,
    pub headers: HeadersConf,
    pub limits: LimitsConf,
    pub log: LogConf,
    pub real_ip: RealIp,
    pub resolver: ResolverConf,
    pub secure_link: SecureLinkConf,
    pub upstreams: UpstreamsConf,
}

impl LocationConf {
    /// Takes what is not set from the outer level. `is_block`: the level is an `if` or
    /// `limit_except`, which inherits the handler, too.
    pub fn inherit(&mut self, outer: &LocationConf, is_block: bool) {
        self.core.inherit(&outer.core, is_block);
        self.access.inherit(&outer.access);
        self.autoindex.inherit(&outer.autoindex);
        self.body.inherit(&outer.body);
        self.browser.inherit(&outer.browser);
        self.clients.inherit(&outer.clients);
        self.compression.inherit(&outer.compression);
        self.filters.inherit(&outer.filters);
        self.gzip.inherit(&outer.gzip);
        self.handlers.inherit(&outer.handlers, is_block);
        self.headers.inherit(&outer.headers);
        self.limits.inherit(&outer.limits);
        self.log.inherit(&outer.log);
        self.real_ip.inherit(&outer.real_ip);
        self.resolver.inherit(&outer.resolver);
        self.secure_link.inherit(&outer.secure_link);
        let is_plain = self.core.handler == Handler::Files && self.upstreams.pass.is_none();
        self.upstreams
            .inherit(&outer.upstreams, is_block && is_plain);
        if is_block && is_plain {
            self.core.handler = outer.core.handler;
        }
    }
}
