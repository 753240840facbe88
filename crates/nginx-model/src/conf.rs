//! Settings of a location, module by module, and their inheritance.
//!
//! Called by: `load`, which fills a draft per block and merges it into the outer one.
//! Caveat: the rule is nginx's: what a level does not set comes from the outer level as a whole;
//! lists (`add_header`, `proxy_set_header`, `allow`) are not joined.
//! Out of scope: values at request time.

use crate::modules::{
    access::AccessConf,
    autoindex::AutoindexConf,
    compression::CompressionConf,
    core::CoreConf,
    headers::HeadersConf,
    limits::LimitsConf,
    log::LogConf,
    secure_link::SecureLinkConf,
    upstream_conf::{Gateway, Pass, UpstreamConf},
};

/// Settings of a level: `http`, a server, a location, an `if`, or `limit_except`.
#[derive(Clone, Debug, Default)]
pub struct LocationConf {
    pub core: CoreConf,
    pub access: AccessConf,
    pub autoindex: AutoindexConf,
    pub compression: CompressionConf,
    pub headers: HeadersConf,
    pub limits: LimitsConf,
    pub log: LogConf,
    pub secure_link: SecureLinkConf,
    /// By [`Gateway`].
    pub upstreams: [UpstreamConf; Gateway::COUNT],
    /// The handler of the location. Not inherited, except by the blocks inside.
    pub pass: Option<Pass>,
    pub handler: Handler,
}

/// A handler that needs no upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handler {
    /// Files.
    #[default]
    Files,
    EmptyGif,
}

impl LocationConf {
    /// Takes what is not set from the outer level. `is_block`: the level is an `if` or
    /// `limit_except`, which inherits the handler, too.
    pub fn inherit(&mut self, outer: &LocationConf, is_block: bool) {
        self.core.inherit(&outer.core, is_block);
        self.access.inherit(&outer.access);
        self.autoindex.inherit(&outer.autoindex);
        self.compression.inherit(&outer.compression);
        self.headers.inherit(&outer.headers);
        self.limits.inherit(&outer.limits);
        self.log.inherit(&outer.log);
        self.secure_link.inherit(&outer.secure_link);
        for (own, outer) in self.upstreams.iter_mut().zip(&outer.upstreams) {
            own.inherit(outer);
        }
        if is_block && self.pass.is_none() && self.handler == Handler::Files {
            self.pass.clone_from(&outer.pass);
            self.handler = outer.handler;
        }
    }

    /// Returns the settings of a kind of upstream.
    pub fn upstream(&self, gateway: Gateway) -> &UpstreamConf {
        let index = gateway as usize;
        // The array has an element for each kind.
        self.upstreams.get(index).unwrap_or(&self.upstreams[0])
    }
}

/// Takes fields that are not set from the outer level.
macro_rules! inherit {
    ($own:ident, $outer:ident: $($field:ident)*) => {
        $(if $own.$field.is_none() {
            $own.$field.clone_from(&$outer.$field);
        })*
    };
}
pub(crate) use inherit;
