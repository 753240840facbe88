//! State of one request while access to it is decided.
//!
//! Called by: `decide`, and the rules and look-ups below it.

use crate::{
    directories::DirectoryUser,
    records::RecordFiles,
    request::AuthRequest,
    settings::{AuthSettings, FcgiAuthorizer},
};
use saker_ap_expr::{StringExpression, Subnet, words::words};
use saker_files::Watcher;
use saker_net::blocking::{Answer, Pause};
use saker_telemetry::httpd_message::HttpdMessage;
use std::{fmt, rc::Rc, sync::Arc};

/// A request, the settings in force for it, and the files that are looked up.
pub struct AuthContext<'c> {
    pub request: &'c mut dyn AuthRequest,
    pub settings: &'c AuthSettings,
    pub files: &'c mut RecordFiles,
    pub watcher: &'c Watcher,
    /// The future that [`Decision::Pending`] waits for; `None`: too many wait already.
    pub(crate) pending: Option<Pause>,
    /// Location that a granted request is redirected to (`dbd-login`).
    pub(crate) redirect: Option<Vec<u8>>,
    /// The entry of the user, if a directory has let it in.
    pub(crate) entry: Option<Rc<DirectoryUser>>,
    /// The FastCGI authorizer that has let the user in, if it has decided about requirements too.
    pub(crate) let_in_by: Option<Arc<FcgiAuthorizer>>,
}

/// The result of a rule or a container of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Granted,
    Denied,
    /// Authentication could change the result.
    DeniedWithoutUser,
    Neutral,
    /// Answered with 500.
    Error,
    /// Has to be decided again.
    Pending,
}

impl Decision {
    pub fn of(is_granted: bool) -> Decision {
        if is_granted {
            Decision::Granted
        } else {
            Decision::Denied
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Decision::Granted => "granted",
            Decision::Denied => "denied",
            Decision::DeniedWithoutUser => "denied (no authenticated user yet)",
            Decision::Neutral => "neutral",
            Decision::Error => "an error",
            Decision::Pending => "not known yet",
        })
    }
}

/// Reason why a look-up has no result.
pub enum LookupError {
    /// It failed, which has been logged.
    Failed,
    Wait(Pause),
    /// Too many wait already.
    Busy,
}

impl<'c> AuthContext<'c> {
    pub fn new(
        request: &'c mut dyn AuthRequest,
        settings: &'c AuthSettings,
        files: &'c mut RecordFiles,
        watcher: &'c Watcher,
    ) -> AuthContext<'c> {
        AuthContext {
            request,
            settings,
            files,
            watcher,
            pending: None,
            redirect: None,
            entry: None,
            let_in_by: None,
        }
    }

    pub(crate) fn path(&self) -> String {
        String::from_utf8_lossy(self.request.path()).into_owned()
    }

    pub(crate) fn log(&self, facts: fmt::Arguments<'_>) {
        self.request.log(facts);
    }

    pub(crate) fn log_httpd(&self, message: &'static HttpdMessage, text: fmt::Arguments<'_>) {
        self.request.log_httpd(message, text);
    }

    /// Evaluates a text; one that can't be evaluated is empty.
    pub(crate) fn bytes(&mut self, expression: &StringExpression) -> Vec<u8> {
        match expression.constant() {
            Some(text) => text.to_vec(),
            None => self.request.evaluate_text(expression).unwrap_or_default(),
        }
    }

    pub(crate) fn text(&mut self, expression: &StringExpression) -> String {
        String::from_utf8_lossy(&self.bytes(expression)).into_owned()
    }

    pub(crate) fn words(&mut self, line: &StringExpression) -> Vec<Vec<u8>> {
        words(&self.bytes(line))
    }

    /// The realm (AuthName); empty if there is none.
    pub(crate) fn realm(&mut self) -> String {
        let settings = self.settings;
        let name = settings.authentication.name.as_ref();
        name.map(|name| self.text(name)).unwrap_or_default()
    }

    /// The authentication scheme in force (AuthType); `None`: no authentication.
    pub(crate) fn scheme(&mut self) -> Option<String> {
        let settings = self.settings;
        let scheme = self.text(settings.authentication.scheme.as_ref()?);
        Some(scheme).filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("none"))
    }

    /// Runs `ask` with an alias's settings merged over those in force.
    pub(crate) fn with_settings<T>(
        &mut self,
        over: &AuthSettings,
        ask: impl FnOnce(&mut AuthContext<'_>) -> T,
    ) -> T {
        let merged = self.settings.merge(over);
        let mut inner =
            AuthContext::new(&mut *self.request, &merged, &mut *self.files, self.watcher);
        inner.entry.clone_from(&self.entry);
        inner.let_in_by.clone_from(&self.let_in_by);
        let result = ask(&mut inner);
        let (pending, redirect) = (inner.pending, inner.redirect);
        self.entry = inner.entry;
        self.let_in_by = inner.let_in_by;
        self.pending = pending.or(self.pending.take());
        self.redirect = redirect.or(self.redirect.take());
        result
    }

    /// Returns whether the network contains the client's address; the decision depends on it.
    pub fn is_client_in(&mut self, network: &Subnet) -> bool {
        let contains = network.contains(self.request.client_address());
        self.request.depends_on_network(network, contains);
        contains
    }

    /// The value of a look-up, or the decision of a rule that needs it.
    pub(crate) fn answered<V>(&mut self, answer: Answer<V>) -> Result<V, Decision> {
        match answer {
            Answer::Known(value) => Ok(value),
            Answer::Wait(pause) => {
                self.pending = Some(pause);
                Err(Decision::Pending)
            }
            Answer::Busy => Err(Decision::Pending),
        }
    }

    /// The decision of a rule whose look-up has no result.
    pub(crate) fn undecided(&mut self, error: LookupError, on_failure: Decision) -> Decision {
        match error {
            LookupError::Failed => on_failure,
            LookupError::Wait(pause) => {
                self.pending = Some(pause);
                Decision::Pending
            }
            LookupError::Busy => Decision::Pending,
        }
    }
}
