//! The exchange as `saker_auth` asks about it.
//!
//! Called by: `phase`, and mod_ssl's rules about access.

use crate::{
    authorizers,
    dbd::Question,
    facts::{RequestFacts, trace_dependencies},
    meta_variables,
    modules::{
        access::{credentials, form_content},
        ssl::fake_basic_auth,
    },
    origin,
    state::{State, state},
};
use saker_ap_expr::{
    Dependencies, Dependency, DependencyMark, Evaluation, EvaluationError, Expression, Facts,
    Predicate, RequestPart, RequestTest, StringExpression, Subnet,
};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_auth::{
    AuthRequest, ContentOutcome, Directories, DirectoryAnswer, DirectoryUser, EntryQuestion,
    FcgiAnswer, FcgiQuestion, QueryOutcome, Replay, session::SharedSession, settings::LdapSettings,
};
use saker_config::model::Origin;
use saker_files::{ChangeToken, Watcher};
use saker_http::Status;
use saker_ipset::ClientNetwork;
use saker_net::blocking::Answer;
use saker_pipeline::{Exchange, OutcomeLine};
use saker_telemetry::{httpd_message::HttpdMessage, message};
use std::{fmt, rc::Rc, sync::Arc};

/// One request while access is decided; what the decision depends on is collected.
pub struct AccessRequest<'e> {
    pub exchange: &'e mut Exchange,
    pub state: &'e State,
    pub host: &'e Host,
    pub local: &'e DirConfig,
    pub watcher: &'e Watcher,
    /// Directories of users; `None`: they are not asked.
    pub directories: Option<&'e Directories>,
    /// The request of a log-in's form.
    pub replay: Option<Replay>,
    dependencies: Dependencies,
    /// Dependencies up to here have been traced.
    traced: DependencyMark,
    stamps: Vec<ChangeToken>,
}

impl<'e> AccessRequest<'e> {
    pub fn new(
        exchange: &'e mut Exchange,
        state: &'e State,
        host: &'e Host,
        local: &'e DirConfig,
        watcher: &'e Watcher,
    ) -> AccessRequest<'e> {
        AccessRequest {
            exchange,
            state,
            host,
            local,
            watcher,
            directories: None,
            replay: None,
            dependencies: Dependencies::new(),
            traced: DependencyMark::default(),
            stamps: Vec::new(),
        }
    }

    /// Everything that the decision depended on, and the change tokens of the files that were
    /// looked at.
    pub fn into_dependencies(self) -> (Dependencies, Vec<ChangeToken>) {
        (self.dependencies, self.stamps)
    }

    /// The path, for log messages.
    pub fn path_text(&self) -> String {
        String::from_utf8_lossy(&self.exchange.path).into_owned()
    }

    fn evaluation<T>(&mut self, evaluate: impl FnOnce(&mut Evaluation<'_>) -> T) -> T {
        let seen = RequestFacts::new(self.exchange, self.state, self.host, self.watcher);
        let mut evaluation = Evaluation::recording_tests(&seen);
        let result = evaluate(&mut evaluation);
        self.dependencies.merge(&evaluation.dependencies);
        let stamps = seen.stamps.take();
        self.stamps.extend(stamps);
        result
    }
}

impl AuthRequest for AccessRequest<'_> {
    fn exchange(&self) -> &Exchange {
        self.exchange
    }

    fn exchange_mut(&mut self) -> &mut Exchange {
        self.exchange
    }

    fn filename(&self) -> &[u8] {
        &self.state.filename
    }

    fn server(&self) -> (Vec<u8>, u16) {
        let port = origin::port(self.exchange, self.host);
        (origin::name(self.exchange, self.host), port)
    }

    fn set_authentication_info(&mut self, value: String) {
        state(self.exchange).authentication_info = Some(value.into_bytes());
    }

    fn take_certificate_credentials(&mut self) -> Result<(), Status> {
        fake_basic_auth(self.exchange, self.local)
    }

    fn depends_on(&mut self, dependency: Dependency) {
        self.dependencies.add(dependency);
    }

    fn depends_on_network(&mut self, network: &Subnet, contains: bool) {
        let seen = RequestFacts::new(self.exchange, self.state, self.host, self.watcher);
        match seen.is_as_received(&RequestPart::ClientAddress) {
            true => self.dependencies.add_test(RequestTest {
                part: RequestPart::ClientAddress,
                predicate: Predicate::Within(*network),
                result: contains,
            }),
            false => self.dependencies.add(Dependency::Client),
        }
    }

    fn evaluate(&mut self, expression: &Expression) -> Result<bool, EvaluationError> {
        self.evaluation(|evaluation| expression.evaluate(evaluation))
    }

    fn evaluate_text(&mut self, expression: &StringExpression) -> Result<Vec<u8>, EvaluationError> {
        self.evaluation(|evaluation| expression.evaluate(evaluation))
    }

    fn query(
        &mut self,
        query: &str,
        values: &[&str],
        is_change: bool,
    ) -> Option<Answer<QueryOutcome>> {
        let (dbd, asked) = self.host.dbd.as_deref().zip(self.state.asked.as_ref())?;
        Some(asked.ask(dbd, Question::of(query, values, is_change)))
    }

    fn directory(
        &mut self,
        settings: &Arc<LdapSettings>,
        user: &str,
        password: &str,
    ) -> Option<Answer<DirectoryAnswer>> {
        // What a directory says about a user may change at any time.
        self.dependencies.add(Dependency::User);
        let asked = &mut self.state.questions.directories.borrow_mut();
        let client = ClientNetwork::of(self.exchange.client.ip());
        Some(
            self.directories?
                .log_in((asked, client), settings, user, password),
        )
    }

    fn directory_match(
        &mut self,
        settings: &Arc<LdapSettings>,
        question: &EntryQuestion,
    ) -> Option<Answer<DirectoryAnswer>> {
        let asked = &mut self.state.questions.directories.borrow_mut();
        let client = ClientNetwork::of(self.exchange.client.ip());
        Some(
            self.directories?
                .matches((asked, client), settings, question),
        )
    }

    fn authorizer(&mut self, question: &FcgiQuestion) -> Option<Answer<FcgiAnswer>> {
        // What a program says about a user may change at any time.
        self.dependencies.add(Dependency::User);
        let (exchange, state, host) = (&*self.exchange, self.state, self.host);
        let variables = || meta_variables::of(exchange, state, host, self.watcher);
        Some(authorizers::ask(
            &state.questions,
            exchange,
            question,
            variables,
        ))
    }

    /// `AUTHENTICATE_MAIL` and the like, for programs: the attributes that the URL names.
    fn set_directory_user(&mut self, user: &Rc<DirectoryUser>) {
        let settings = self.local.auth.settings.ldap.as_ref();
        for attribute in settings.iter().flat_map(|settings| &settings.attributes) {
            let values = user.entry.values(attribute).join("; ");
            if !values.is_empty() && !values.contains(char::is_control) {
                let name = format!("AUTHENTICATE_{}", attribute.to_ascii_uppercase());
                self.exchange
                    .environment
                    .set(name.as_bytes(), values.as_bytes());
            }
        }
    }

    fn session(&self) -> Option<SharedSession> {
        let loaded = self.state.session.as_ref()?;
        Some(Rc::clone(&loaded.session))
    }

    fn form(&mut self, bytes_max: u64) -> Option<Answer<ContentOutcome>> {
        self.dependencies.add(Dependency::RequestFields);
        form_content::read(self.exchange, bytes_max)
    }

    fn replay(&mut self, replay: Replay) {
        self.replay = Some(replay);
    }

    fn is_forwarded(&self) -> bool {
        self.state.is_forwarded
    }

    fn set_authorization(&mut self, value: &[u8]) {
        credentials::set_authorization(self.exchange, value);
    }

    fn forbid_storing(&mut self) {
        state(self.exchange).forbids_storing = true;
    }

    fn log(&self, facts: fmt::Arguments<'_>) {
        let text = facts.to_string().into();
        self.exchange
            .log_outcome(OutcomeLine::Saker(&message::ACCESS_REFUSED, text));
    }

    fn log_httpd(&self, message: &'static HttpdMessage, text: fmt::Arguments<'_>) {
        self.exchange
            .log_outcome(OutcomeLine::Httpd(message, text.to_string().into()));
    }

    fn trace(&mut self, origin: Option<&Origin>, text: &dyn Fn() -> String) {
        self.exchange.trace("access", origin, text);
        if origin.is_some() {
            let (kinds, tests) = self.dependencies.since(self.traced);
            trace_dependencies(self.exchange, origin, &kinds, tests);
            self.traced = self.dependencies.mark();
        }
    }
}
