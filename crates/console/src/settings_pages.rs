//! Forms of single settings: pages made from the rows of the directives.
//!
//! Called by: `actions`, and the API.
//! Caveat: a submitted form becomes a changed text of its file, which is proposed like one from the
//! editor; nothing is written here.
//! Out of scope: forms and texts themselves (`saker_config::form`).

use crate::{
    Backend, Language, editor,
    exchange::{Form, Response},
    pages::{self, Notice, Shell, respond},
};
use askama::Template;
use saker_config::form::{self, Input, Origin, Setting};
use serde_json::{Value, json};

/// Prefix of the names of a form's settings.
const PREFIX: &str = "v.";

/// A setting, as the page shows it.
struct Row {
    setting: Setting,
    /// Selected or typed; empty: none.
    value: String,
    /// `true`: the value has several lines.
    is_long: bool,
    choices: Vec<String>,
    origin: String,
}

impl Row {
    fn new(file: &str, setting: Setting) -> Row {
        let origin = match &setting.origin {
            Origin::Here(line) => format!("set at {file}:{line}"),
            Origin::Inherited {
                header,
                line,
                value,
            } => format!("{value}, from {header} at {file}:{line}"),
            Origin::Default if setting.is_required => "required".to_owned(),
            Origin::Default => "not set here".to_owned(),
        };
        let choices = match setting.input {
            Input::Boolean => vec!["true".to_owned(), "false".to_owned()],
            Input::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
            Input::Text | Input::Toml => Vec::new(),
        };
        let value = setting.value.clone().unwrap_or_default();
        Row {
            is_long: value.contains('\n') || value.len() > 80,
            value,
            choices,
            origin,
            setting,
        }
    }
}

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage<'p> {
    shell: Shell,
    notice: Option<Notice>,
    files: &'p [String],
    file: &'p str,
    base: &'p str,
    form: form::Form,
    rows: Vec<Row>,
}

/// The form of a table.
pub fn settings(backend: &dyn Backend, shell: Shell, query: &Form) -> Response {
    let files = editor::files(backend);
    let opened = file_of(backend, query.get("file"))
        .and_then(|open| form::form(&open.text, query.get("table")).map(|form| (open, form)));
    match opened {
        Ok((open, form)) => page(shell, &files, (&open, form), None),
        Err(error) => {
            let notice = Some(Notice::wrong(&error));
            pages::configuration(shell, backend, (&files, Err(error)), notice)
        }
    }
}

fn page(
    shell: Shell,
    files: &[String],
    (open, mut form): (&editor::OpenFile, form::Form),
    notice: Option<Notice>,
) -> Response {
    let settings = std::mem::take(&mut form.settings).into_iter();
    let rows = settings.map(|one| Row::new(&open.name, one)).collect();
    let status = if notice.is_some() { 400 } else { 200 };
    let page = SettingsPage {
        shell,
        notice,
        files,
        file: &open.name,
        base: &open.digest,
        form,
        rows,
    };
    respond(status, &page)
}

/// Opens a file whose settings have forms.
pub fn file_of(backend: &dyn Backend, name: &str) -> Result<editor::OpenFile, String> {
    if backend.language() != Language::Native {
        return Err("only settings of saker.toml have forms; edit the text".to_owned());
    }
    let files = editor::files(backend);
    let name = match name {
        "" => files.first().map_or("", String::as_str),
        name => name,
    };
    editor::open(backend, name)
}

/// Proposes the values of a submitted form.
pub async fn submit(backend: &dyn Backend, shell: Shell, submitted: &Form) -> Response {
    let files = editor::files(backend);
    let open = match file_of(backend, submitted.get("file")) {
        Ok(open) => open,
        Err(error) => {
            let notice = Some(Notice::wrong(&error));
            return pages::configuration(shell, backend, (&files, Err(error)), notice);
        }
    };
    let values: Vec<(&str, String)> = submitted
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?, editor::normalized(value))))
        .collect();
    let values: Vec<(&str, &str)> = values
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let changed = match open.digest == submitted.get("base") {
        true => form::change(&open.text, submitted.get("table"), &values),
        false => Err("the file has changed since the form was opened".to_owned()),
    };
    match changed {
        Ok(text) => propose(backend, shell, (&files, open), text).await,
        Err(error) => match form::form(&open.text, submitted.get("table")) {
            Ok(mut form) => {
                // What was typed is not lost.
                for setting in &mut form.settings {
                    let typed = values.iter().find(|(name, _)| *name == setting.name);
                    if let Some((_, typed)) = typed {
                        setting.value = Some((*typed).to_owned());
                    }
                }
                let notice = Some(Notice::wrong(&error));
                page(shell, &files, (&open, form), notice)
            }
            Err(error) => {
                let notice = Some(Notice::wrong(&error));
                pages::configuration(shell, backend, (&files, Err(error)), notice)
            }
        },
    }
}

/// Shows a changed text as a proposal.
pub async fn propose(
    backend: &dyn Backend,
    shell: Shell,
    (files, open): (&[String], editor::OpenFile),
    text: String,
) -> Response {
    let base = open.digest.clone();
    match editor::propose(backend, &open.name, &text).await {
        Ok(proposal) => {
            let open = editor::OpenFile { text, ..open };
            pages::proposal(shell, backend, (files, Ok(open)), (&base, proposal))
        }
        Err(error) => {
            let notice = Some(Notice::wrong(&error));
            pages::configuration(shell, backend, (files, Ok(open)), notice)
        }
    }
}

/// A form as JSON.
pub fn to_json(file: &editor::OpenFile, form: &form::Form) -> Value {
    let settings = form.settings.iter().map(|one| {
        let (origin, line) = match &one.origin {
            Origin::Here(line) => ("file", Some(*line)),
            Origin::Inherited { line, .. } => ("inherited", Some(*line)),
            Origin::Default => ("default", None),
        };
        let inherited = match &one.origin {
            Origin::Inherited { value, .. } => Some(value),
            _ => None,
        };
        json!({
            "name": one.name, "summary": one.summary, "expects": one.expects, "unit": one.unit,
            "default": one.default, "example": one.example, "required": one.is_required,
            "value": one.value, "origin": origin, "line": line, "inherited": inherited,
        })
    });
    let tables = form.tables.iter().map(
        |one| json!({ "path": one.path, "summary": one.summary, "label": one.label, "exists": one.exists }),
    );
    json!({
        "ok": true, "file": file.name, "digest": file.digest, "table": form.path, "header": form.header,
        "summary": form.summary, "line": form.line,
        "settings": settings.collect::<Value>(), "tables": tables.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        sessions::{By, Identity},
        users::Role,
    };

    #[test]
    fn texts_of_a_file_are_escaped() {
        let hostile = "\"><script>alert(1)</script>'&";
        let text = format!(
            "[[site]]\nnames = [{}]\nroot = {0}\n",
            form::quoted(hostile)
        );
        let open = editor::OpenFile {
            name: hostile.into(),
            digest: hostile.into(),
            text,
        };
        let identity = Identity {
            name: hostile.into(),
            role: Role::Administrator,
            site: None,
            is_account: false,
            by: By::Session,
        };
        for path in ["", "site.0"] {
            let form = form::form(&open.text, path).expect("a form");
            let notice = Some(Notice::wrong(hostile));
            let page = page(
                Shell::new(&identity),
                &[hostile.into()],
                (&open, form),
                notice,
            );
            let html = String::from_utf8(page.content).expect("text");
            assert!(
                html.contains("</html>") && html.contains("alert(1)"),
                "{html}"
            );
            assert_eq!(html.matches("<script").count(), 1, "{html}");
        }
    }
}
