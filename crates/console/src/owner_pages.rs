//! The page on which owners change settings of their site: check, compare, apply, confirm.
//!
//! Called by: `actions`, and the API, for orders.
//! Caveat: owners see their lines of the difference and what a check says anew, and nothing else of
//! the configuration. A reload is one of the whole configuration: what others have written to its
//! files is loaded with it.
//! Out of scope: which settings there are (`owner_settings`).

use crate::{
    Backend, Finding,
    diff::Mark,
    editor,
    exchange::{Form, Response},
    owner_settings::{self, KEYS, SiteTable},
    pages::{Notice, Shell, respond},
    routes::Action,
    sessions::Identity,
};
use askama::Template;
use saker_config::form::{self, Input};
use serde_json::{Value, json};
use std::net::IpAddr;

type Failed = (u16, String);

/// A setting, as the page shows it.
struct Row {
    name: &'static str,
    summary: &'static str,
    expects: String,
    value: String,
    choices: Vec<&'static str>,
}

/// A change that the owner may apply.
struct Proposal {
    lines: Vec<(&'static str, &'static str, String)>,
    findings: Vec<Finding>,
    base: String,
    values: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "owner.html")]
struct OwnerPage {
    shell: Shell,
    notice: Option<Notice>,
    site: String,
    rows: Vec<Row>,
    proposal: Option<Proposal>,
    /// Id and remaining seconds of a change that waits for its confirmation.
    waiting: Option<(String, i64)>,
}

/// The site of an owner; others have the whole configuration.
fn site_of(identity: &Identity) -> Result<&str, Failed> {
    let site = identity.site.as_deref();
    site.ok_or_else(|| (404, "this is for owners of a site".to_owned()))
}

fn table(backend: &dyn Backend, identity: &Identity) -> Result<SiteTable, Failed> {
    owner_settings::find(backend, site_of(identity)?).map_err(|error| (404, error))
}

/// The settings with their values.
fn rows(table: &SiteTable) -> Result<Vec<Row>, Failed> {
    let form = form::form(&table.open.text, &table.path).map_err(|error| (404, error))?;
    let own = form
        .settings
        .into_iter()
        .filter(|one| KEYS.contains(&one.name));
    let row = |one: form::Setting| Row {
        name: one.name,
        summary: one.summary,
        expects: one.expects,
        value: one.value.unwrap_or_default(),
        choices: match one.input {
            Input::Boolean => vec!["true", "false"],
            Input::Choice(words) => words.to_vec(),
            Input::Text | Input::Toml => Vec::new(),
        },
    };
    Ok(own.map(row).collect())
}

/// The change of the owner's that waits for its confirmation.
fn waiting(backend: &dyn Backend, identity: &Identity) -> Option<(String, i64)> {
    let pending = backend.state().editor.pending()?;
    let is_own = pending.version.by == editor::author(identity);
    let left_s = pending.until_s - saker_net::clock::realtime_s();
    is_own.then_some((pending.version.id, left_s.max(0)))
}

/// The page, with what became of an order.
fn page(
    backend: &dyn Backend,
    shell: Shell,
    identity: &Identity,
    (notice, proposal): (Option<Notice>, Option<Proposal>),
) -> Response {
    let found = table(backend, identity).and_then(|table| rows(&table));
    let (rows, error) = match found {
        Ok(rows) => (rows, None),
        Err((_, error)) => (Vec::new(), Some(Notice::wrong(&error))),
    };
    let page = OwnerPage {
        shell,
        notice: notice.or(error),
        site: identity.site.clone().unwrap_or_default(),
        rows,
        proposal,
        waiting: waiting(backend, identity),
    };
    respond(200, &page)
}

/// The values of a form, by key.
fn values(form: &Form) -> Vec<(String, String)> {
    let own = form.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("v.")?;
        Some((name.to_owned(), value.trim().to_owned()))
    });
    own.collect()
}

/// Answers the page and its forms.
pub async fn answer(
    backend: &dyn Backend,
    shell: Shell,
    who: (&Identity, IpAddr),
    (action, form): (Action, &Form),
) -> Response {
    let id = form.get("id");
    let done = match action {
        Action::OwnerPropose => {
            let proposed = propose(backend, who.0, values(form)).await;
            return match proposed {
                Ok(proposal) => page(backend, shell, who.0, (None, Some(proposal))),
                Err((_, error)) => {
                    let notice = Notice::wrong(&error);
                    page(backend, shell, who.0, (Some(notice), None))
                }
            };
        }
        Action::OwnerApply => apply(backend, who, (form.get("base"), values(form)))
            .await
            .map(|_| "The change is in force. Confirm it, or it is undone."),
        Action::OwnerConfirm => finish(backend, who, id, true)
            .await
            .map(|()| "The change is kept."),
        Action::OwnerRollBack => finish(backend, who, id, false)
            .await
            .map(|()| "The change is undone."),
        _ => return page(backend, shell, who.0, (None, None)),
    };
    let notice = match done {
        Ok(text) => Notice::good(text),
        Err((_, error)) => Notice::wrong(&error),
    };
    page(backend, shell, who.0, (Some(notice), None))
}

/// Makes the changed text.
fn text_of(table: &SiteTable, values: &[(String, String)]) -> Result<String, Failed> {
    let values: Vec<(&str, &str)> = values
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let text = owner_settings::changed(&table.open.text, &table.path, &values);
    text.map_err(|error| (400, error))
}

async fn propose(
    backend: &dyn Backend,
    identity: &Identity,
    values: Vec<(String, String)>,
) -> Result<Proposal, Failed> {
    let table = table(backend, identity)?;
    let text = text_of(&table, &values)?;
    let wrong = |error| (400, error);
    let before = backend.check(None).await.map_err(wrong)?;
    let proposed = editor::propose(backend, &table.open.name, &text).await;
    let proposed = proposed.map_err(wrong)?;
    // What is wrong elsewhere is not the owner's to see.
    let is_known = |finding: &Finding| {
        let mut known = before.findings.iter();
        known.any(|one| one.message == finding.message)
    };
    let findings: Vec<Finding> = proposed
        .checked
        .findings
        .into_iter()
        .filter(|one| !is_known(one))
        .map(|one| Finding {
            file: String::new(),
            line: 0,
            column: 0,
            ..one
        })
        .collect();
    if let Some(error) = findings.iter().find(|one| one.severity == "error") {
        return Err((400, format!("{} {}", error.message, error.help)));
    }
    let changed = proposed.diff.into_iter();
    let lines = changed.filter(|line| matches!(line.mark, Mark::Removed | Mark::Added));
    Ok(Proposal {
        lines: lines
            .map(|line| (line.class(), line.sign(), line.text))
            .collect(),
        findings,
        base: table.open.digest,
        values,
    })
}

async fn apply(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    (base, values): (&str, Vec<(String, String)>),
) -> Result<Value, Failed> {
    // Its findings and errors are the owner's; those of the editor may be about others.
    let proposal = propose(backend, who.0, values).await?;
    let table = table(backend, who.0)?;
    if base != proposal.base || table.open.digest != proposal.base {
        return Err((409, "the configuration has changed; try again".to_owned()));
    }
    let text = text_of(&table, &proposal.values)?;
    let order = editor::Order {
        file: &table.open.name,
        text: &text,
        base,
        confirm_time_s: None,
    };
    let pending = editor::apply(backend, who, order).await;
    let pending = pending.map_err(|_| {
        let text = "the change could not be applied: another waits for its confirmation, nothing was changed, or the server \
                    did not take the configuration";
        (409, text.to_owned())
    })?;
    Ok(json!({ "ok": true, "id": pending.version.id, "confirm_until": pending.until_s }))
}

/// Confirms or undoes a change of the owner's.
async fn finish(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    id: &str,
    is_kept: bool,
) -> Result<(), Failed> {
    site_of(who.0)?;
    let own = waiting(backend, who.0).filter(|(own, _)| own == id);
    if own.is_none() {
        let text = "no such change waits for its confirmation";
        return Err((409, text.to_owned()));
    }
    let done = match is_kept {
        true => editor::confirm(backend, who, id).await,
        false => editor::roll_back(backend, who, id).await,
    };
    done.map_err(|error| (409, error))
}

/// The settings of the owner's site, as JSON.
pub fn settings(backend: &dyn Backend, identity: &Identity) -> Result<Value, Failed> {
    let table = table(backend, identity)?;
    let settings = rows(&table)?.into_iter().map(|row| {
        json!({
            "name": row.name, "summary": row.summary, "expects": row.expects, "value": row.value,
        })
    });
    Ok(json!({
        "ok": true,
        "site": site_of(identity)?,
        "base": table.open.digest,
        "settings": settings.collect::<Value>(),
    }))
}

/// Does what an order of the API says.
pub async fn change(
    backend: &dyn Backend,
    who: (&Identity, IpAddr),
    action: Action,
    order: &Value,
) -> Result<Value, Failed> {
    let text = |name: &str| {
        let given = order.get(name).and_then(Value::as_str);
        given.ok_or_else(|| (400, format!("\"{name}\" must be a string")))
    };
    if action == Action::ApplySite {
        let wrong = || (400, "\"values\" must be an object of strings".to_owned());
        let given = order.get("values").and_then(Value::as_object);
        let values: Option<Vec<(String, String)>> = given
            .ok_or_else(wrong)?
            .iter()
            .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        return apply(backend, who, (text("base")?, values.ok_or_else(wrong)?)).await;
    }
    finish(backend, who, text("id")?, action == Action::ConfirmSite).await?;
    Ok(json!({ "ok": true }))
}
