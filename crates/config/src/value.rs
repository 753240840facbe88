//! Values that passed their row's checks, on the way into the model.
//!
//! The accessors give the empty value where the kind is another: a row whose kind and setter
//! disagree is our mistake, met by the assertion and by the test that runs every row's example
//! through its setter.

use crate::{
    directives::{cache_use::CacheDraft, upstream_server::ServerSaid},
    model::{
        AccessLog, AcmeDirectory, Address, CertificateFiles, Challenge, CipherSuite, ErrorPage,
        FieldEditAction, Group, Logins, Origin, PathPattern, Rate, Referrers, RequestRate, Robots,
        SignedUrls, SiteName, Trigger,
    },
    source::At,
};
use saker_net::Network;
use std::{path::PathBuf, sync::Arc};

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Boolean(bool),
    /// Integers, bytes, milliseconds, statuses.
    Number(u64),
    Text(String),
    Path(PathBuf),
    List(Vec<Given>),
    Map(Vec<(String, Given)>),
    /// One text may stand for several (`:80`).
    Addresses(Vec<Address>),
    Network(Network),
    Pattern(PathPattern),
    Name(SiteName),
    ErrorPage(ErrorPage),
    Rate(Option<Rate>),
    RequestRate(Option<RequestRate>),
    AccessLog(AccessLog),
    Field(FieldEditAction, bool),
    Certificate(CertificateFiles),
    Cipher(CipherSuite),
    Group(Group),
    Directory(AcmeDirectory),
    Server(ServerSaid),
    Cache(CacheDraft),
    Referrers(Arc<Referrers>),
    Signed(Arc<SignedUrls>),
    Trigger(Arc<Trigger>),
    Challenge(Arc<Challenge>),
    Logins(Arc<Logins>),
    Robots(Arc<Robots>),
    /// Decoded.
    Octets(Vec<u8>),
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub value: Value,
    pub at: At,
}

macro_rules! accessors {
    ($($name:ident $variant:ident $type:ty;)*) => {
        $(pub fn $name(self) -> $type {
            match self.value {
                Value::$variant(inner) => inner,
                other => mismatch(&other),
            }
        })*
    };
}

impl Given {
    accessors! {
        boolean Boolean bool;
        number Number u64;
        text Text String;
        path Path PathBuf;
        list List Vec<Given>;
        map Map Vec<(String, Given)>;
        addresses Addresses Vec<Address>;
        rate Rate Option<Rate>;
        request_rate RequestRate Option<RequestRate>;
    }

    pub fn networks(self) -> Vec<Network> {
        let network = |one: Given| match one.value {
            Value::Network(network) => Some(network),
            _ => None,
        };
        self.list().into_iter().filter_map(network).collect()
    }

    pub fn texts(self) -> Vec<String> {
        self.list().into_iter().map(Given::text).collect()
    }

    pub fn origin(&self) -> Origin {
        self.at.origin()
    }
}

fn mismatch<T: Default>(found: &Value) -> T {
    debug_assert!(false, "a row's setter expects another kind than {found:?}");
    T::default()
}
