//! One requirement of a rule: what has to hold.
//!
//! Called by: `authorization`; checked by `requirements`.

use super::FcgiAuthorizer;
use saker_ap_expr::{Expression, StringExpression, Subnet};
use std::sync::Arc;

/// Words of a line that may contain variables.
pub type Words = Arc<StringExpression>;

/// Requirement of a `Require` line, by the provider that checks it.
#[derive(Clone, Debug)]
pub enum Requirement {
    /// `all granted`, `all denied`.
    All(bool),
    Environment(Vec<Box<[u8]>>),
    Method(Vec<Box<[u8]>>),
    Expression {
        expression: Arc<Expression>,
        /// It refers to the user, so a client without one is asked to authenticate.
        wants_user: bool,
    },
    Ip(Vec<Subnet>),
    Local,
    /// A FastCGI authorizer.
    Fcgi(Arc<FcgiAuthorizer>),
    /// `ssl`.
    Tls,
    /// `ssl-verify-client`.
    VerifiedCertificate,
    Host(Words),
    ForwardDns(Words),
    User(Words),
    ValidUser,
    Group(Words),
    FileOwner,
    FileGroup,
    DbmGroup(Words),
    DbmFileGroup,
    /// `dbd-group`.
    SqlGroup(Words),
    /// The entry of the user is in one of these groups of the directory.
    LdapMember(Vec<Box<str>>),
    /// `ldap-user`, `ldap-group`, `ldap-dn`, `ldap-attribute`, `ldap-filter`.
    Ldap(LdapTest, Words),
    /// `dbd-login` or `dbd-logout`: `login`, `logout`.
    SqlSession(&'static str),
    /// An alias of `RequirementAlias`.
    Alias(Box<[u8]>),
    /// Never granted.
    Unsupported,
}

/// A property of a user's entry in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LdapTest {
    User,
    Group,
    Dn,
    Attribute,
    Filter,
}
