//! mod_proxy_hcheck: what is said of checks becomes a check of the gateway's.
//!
//! Only members of balancers are checked, as in Apache. Difficulty: conditions are expressions over
//! an answer, of which only the status, the fields and (by `hc('body')`) the content are known;
//! there is no request.

use crate::proxy::parameters::HealthParameters;
use saker_ap_expr::{Evaluation, Expression, ExpressionOptions, Facts, Variable};
use saker_apache_syntax::Node;
use saker_config::model::{HealthAnswer, HealthCheck, HealthJudge, HealthMethod, Member};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// Apache manual, "BalancerMember parameters" of mod_proxy_hcheck: `hcinterval`.
const INTERVAL_MS: u64 = 30_000;

/// Templates and expressions that checks may refer to by name.
#[derive(Default)]
pub struct Named<'d> {
    pub templates: HashMap<&'d str, &'d HealthParameters>,
    pub expressions: HashMap<&'d str, &'d HealthJudge>,
}

/// The check of a member; `None`: none is made. A check whose condition does not exist never
/// passes.
pub fn check(said: &HealthParameters, member: &Member, named: &Named<'_>) -> Option<HealthCheck> {
    let template = said
        .template
        .as_deref()
        .and_then(|name| named.templates.get(name));
    let said = template.map_or_else(|| said.clone(), |template| said.or(template));
    let method = match said.method.as_deref().unwrap_or("NONE") {
        "NONE" => return None,
        "GET" | "GET11" => HealthMethod::Get,
        "HEAD" | "HEAD11" => HealthMethod::Head,
        "OPTIONS" | "OPTIONS11" => HealthMethod::Options,
        // CPING, too: of programs it is asked whether they take a connection.
        _ => HealthMethod::Connect,
    };
    let judge = said
        .expression
        .as_deref()
        .map(|name| match named.expressions.get(name) {
            Some(judge) => (*judge).clone(),
            None => HealthJudge(Arc::new(|_| false)),
        });
    let target = format!("{}{}", member.path, said.uri.as_deref().unwrap_or_default());
    Some(HealthCheck {
        method,
        target: if target.starts_with('/') {
            target.into()
        } else {
            format!("/{target}").into()
        },
        interval_ms: said.interval_ms.unwrap_or(INTERVAL_MS),
        timeout_ms: member.tuning.timeout_ms,
        passes: said.passes.unwrap_or(1),
        fails: said.fails.unwrap_or(1),
        judge,
        ..HealthCheck::default()
    })
}

/// `ProxyHCExpr name {expression}`
pub fn expression(node: &Node) -> Result<(Box<str>, HealthJudge), String> {
    let text = String::from_utf8_lossy(node.argument_text())
        .trim()
        .to_owned();
    let (name, rest) = text
        .split_once(char::is_whitespace)
        .ok_or("Must specify a condition expression")?;
    let rest = rest.trim();
    let unquoted = [('{', '}'), ('"', '"'), ('\'', '\'')]
        .iter()
        .find_map(|(open, close)| rest.strip_prefix(*open)?.strip_suffix(*close));
    let options = ExpressionOptions::default();
    let compiled = Expression::compile(unquoted.unwrap_or(rest).as_bytes(), options)
        .map_err(|error| format!("Could not parse expression \"{rest}\": {}", error.message))?;
    let judge = move |answer: &HealthAnswer| {
        let facts = Answered(answer);
        compiled
            .evaluate(&mut Evaluation::new(&facts))
            .unwrap_or(false)
    };
    Ok((name.trim_matches('"').into(), HealthJudge(Arc::new(judge))))
}

/// An answer without a request.
struct Answered<'a>(&'a HealthAnswer);

impl Facts for Answered<'_> {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        (variable == Variable::RequestStatus)
            .then(|| Cow::Owned(self.0.status.to_string().into_bytes()))
    }

    fn response_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let line = self
            .0
            .fields
            .iter()
            .find(|line| line.0.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Cow::Borrowed(&line.1))
    }

    fn health_check(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        name.eq_ignore_ascii_case(b"body")
            .then_some(Cow::Borrowed(&self.0.content))
    }
}
