//! The request as authentication and authorization see it.
//!
//! Called by: every look-up and rule of this crate, through `AuthContext`.
//! Caveat: an implementation records what a decision depended on ([`AuthRequest::depends_on`]), so
//! that the outcome for `Require all granted` can be cached and others can't.

use crate::{
    directories::{DirectoryAnswer, DirectoryUser, EntryQuestion},
    fcgi_question::{FcgiAnswer, FcgiQuestion},
    session::SharedSession,
    settings::LdapSettings,
};
use saker_ap_expr::{Dependency, EvaluationError, Expression, StringExpression, Subnet};
use saker_config::model::Origin;
use saker_database::QueryResult;
use saker_http::Status;
use saker_net::blocking::Answer;
use saker_pipeline::Exchange;
use saker_telemetry::httpd_message::HttpdMessage;
use saker_tls::ClientVerification;
use std::{fmt, net::IpAddr, rc::Rc, sync::Arc};

/// The result of a database query; the error says why there is none.
pub type QueryOutcome = Result<Rc<QueryResult>, Rc<str>>;

/// The content of a request, or the status of the response to a broken one.
pub type ContentOutcome = Result<Rc<[u8]>, Status>;

/// A request that comes with the form of a log-in, in place of the form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// `None`: the form's own.
    pub method: Option<Vec<u8>>,
    pub media_type: Option<Vec<u8>>,
    pub content: Vec<u8>,
}

/// The facts about a request, and the places where results go. Implemented by the front ends.
pub trait AuthRequest {
    fn exchange(&self) -> &Exchange;

    fn exchange_mut(&mut self) -> &mut Exchange;

    /// The method as sent.
    fn method(&self) -> &[u8] {
        self.exchange().head.view().method_token()
    }

    /// The decoded path.
    fn path(&self) -> &[u8] {
        &self.exchange().path
    }

    /// The request target as sent.
    fn target(&self) -> &[u8] {
        self.exchange().head.view().target_as_sent()
    }

    /// Name and port of the server, as this client has asked for them.
    fn server(&self) -> (Vec<u8>, u16) {
        let exchange = self.exchange();
        let asked = exchange.head.view().first("host");
        let port = asked
            .and_then(saker_http::host::parse_authority)
            .and_then(|authority| authority.port);
        let usual = if exchange.client.secure { 443 } else { 80 };
        (exchange.host.clone(), port.unwrap_or(usual))
    }

    /// The first field of this name; `name` is in lower case.
    fn field(&self, name: &'static str) -> Option<&[u8]> {
        self.exchange().head.view().first(name)
    }

    /// The file that the path is mapped to; the path where it is mapped to none.
    fn filename(&self) -> &[u8] {
        self.path()
    }

    /// Seconds since 1970.
    fn now_s(&self) -> i64 {
        self.exchange().now
    }

    /// The site, which takes its turn on the threads for slow work.
    fn site_index(&self) -> usize {
        self.exchange().routing.site_index
    }

    fn client_address(&self) -> IpAddr {
        self.exchange().client.ip()
    }

    fn local_address(&self) -> IpAddr {
        self.exchange().client.local.ip().to_canonical()
    }

    fn is_tls(&self) -> bool {
        self.exchange().client.tls
    }

    /// Returns whether the client has shown a certificate that was verified.
    fn has_verified_certificate(&self) -> bool {
        let session = self.exchange().client.session.as_ref();
        session.is_some_and(|session| session.client_verification == ClientVerification::Success)
    }

    /// Sets the client's name for logs and programs.
    fn set_client_name(&mut self, name: &str) {
        self.exchange_mut().client.call_it(name);
    }

    /// The authenticated user, or the user name that was sent while it is being checked.
    fn user(&self) -> Option<&str> {
        self.exchange().access.user.as_deref()
    }

    fn set_user(&mut self, user: &str) {
        self.exchange_mut().access.user = Some(user.into());
    }

    /// Returns whether a variable of the request's environment is set.
    fn has_variable(&self, name: &[u8]) -> bool {
        self.exchange().environment.first(name).is_some()
    }

    fn set_variable(&mut self, name: &[u8], value: &[u8]) {
        self.exchange_mut().environment.set(name, value);
    }

    /// Sets the value of the Authentication-Info field (RFC 7615) of the response.
    fn set_authentication_info(&mut self, value: String);

    /// Called before credentials are read: replaces them by those of the client certificate where
    /// that is configured.
    ///
    /// # Errors
    /// The status for forged credentials.
    fn take_certificate_credentials(&mut self) -> Result<(), Status> {
        Ok(())
    }

    /// Records that the decision depends on this.
    fn depends_on(&mut self, dependency: Dependency);

    /// Records that the decision depends on whether the network contains the client's address, and
    /// on nothing else about the client.
    fn depends_on_network(&mut self, network: &Subnet, contains: bool);

    /// # Errors
    /// Why the expression can't be evaluated.
    fn evaluate(&mut self, expression: &Expression) -> Result<bool, EvaluationError>;

    /// # Errors
    /// Why the expression can't be evaluated.
    fn evaluate_text(&mut self, expression: &StringExpression) -> Result<Vec<u8>, EvaluationError>;

    /// Runs a query of the host's database, once per request. `is_change`: it is run for its
    /// effect, not for rows. `None`: there is no database.
    fn query(
        &mut self,
        query: &str,
        values: &[&str],
        is_change: bool,
    ) -> Option<Answer<QueryOutcome>>;

    /// Checks a user's name and password in a directory, once per request. `None`: the front end has
    /// no directories.
    fn directory(
        &mut self,
        _: &Arc<LdapSettings>,
        _user: &str,
        _password: &str,
    ) -> Option<Answer<DirectoryAnswer>> {
        None
    }

    /// Asks a directory whether an entry matches a filter, once per request. `None`: the front end
    /// has no directories.
    fn directory_match(
        &mut self,
        _: &Arc<LdapSettings>,
        _: &EntryQuestion,
    ) -> Option<Answer<DirectoryAnswer>> {
        None
    }

    /// Asks a FastCGI authorizer, once per request. `None`: the front end has none.
    fn authorizer(&mut self, _: &FcgiQuestion) -> Option<Answer<FcgiAnswer>> {
        None
    }

    /// Takes the entry of the user who has logged in.
    fn set_directory_user(&mut self, _: &Rc<DirectoryUser>) {}

    /// The session of the client; `None`: the request has none.
    fn session(&self) -> Option<SharedSession> {
        None
    }

    /// Reads the content of the request, which handlers no longer get. `None`: it is not a form that
    /// the client has sent to this path itself.
    fn form(&mut self, _bytes_max: u64) -> Option<Answer<ContentOutcome>> {
        None
    }

    /// Takes the request that came with the form of a log-in; it takes the form's place if access is
    /// granted.
    fn replay(&mut self, _: Replay) {}

    /// Returns true if the request is for another server, which a forward proxy asks.
    fn is_forwarded(&self) -> bool {
        false
    }

    /// Replaces the credentials that upstreams get.
    fn set_authorization(&mut self, _value: &[u8]) {}

    /// The response must not be stored by clients.
    fn forbid_storing(&mut self) {}

    /// Logs why access was refused, or why a look-up failed.
    fn log(&self, facts: fmt::Arguments<'_>);

    /// Logs in Apache's words, which log watchers look for.
    fn log_httpd(&self, message: &'static HttpdMessage, text: fmt::Arguments<'_>);

    /// Records a step for `saker explain`; `text` is evaluated only if the request is explained.
    fn trace(&mut self, origin: Option<&Origin>, text: &dyn Fn() -> String);
}
