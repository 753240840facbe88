//! Pages of the wizards.
//!
//! Called by: `actions`.
//! Caveat: answers are shown again where they do not make a text.
//! Out of scope: the texts (`wizards`).

use crate::{
    Backend, editor,
    exchange::{Form, Response},
    pages::{self, Notice, Shell, respond},
    settings_pages,
    wizards::{Answers, Field, WIZARDS, Wizard},
};
use askama::Template;
use saker_config::form::places;

#[derive(Template)]
#[template(path = "wizards.html")]
struct WizardsPage<'p> {
    shell: Shell,
    file: &'p str,
    wizards: &'static [Wizard],
}

/// The list of wizards.
pub fn wizards(backend: &dyn Backend, shell: Shell, query: &Form) -> Response {
    match settings_pages::file_of(backend, query.get("file")) {
        Ok(open) => {
            let file = &open.name;
            let wizards = WIZARDS;
            respond(
                200,
                &WizardsPage {
                    shell,
                    file,
                    wizards,
                },
            )
        }
        Err(error) => refused(backend, shell, error),
    }
}

/// A question, as the page shows it.
struct Question {
    field: &'static Field,
    value: String,
    /// Values with their labels; empty: any text.
    choices: Vec<(String, String)>,
    is_long: bool,
}

#[derive(Template)]
#[template(path = "wizard.html")]
struct WizardPage<'p> {
    shell: Shell,
    notice: Option<Notice>,
    file: &'p str,
    base: &'p str,
    wizard: &'static Wizard,
    questions: Vec<Question>,
}

/// The questions of a wizard.
pub fn wizard(backend: &dyn Backend, shell: Shell, query: &Form) -> Response {
    let opened = settings_pages::file_of(backend, query.get("file"));
    match (opened, Wizard::find(query.get("kind"))) {
        (Ok(open), Some(wizard)) => page(shell, (&open, wizard), query, None),
        (Ok(_), None) => refused(backend, shell, "there is no such wizard".to_owned()),
        (Err(error), _) => refused(backend, shell, error),
    }
}

fn page(
    shell: Shell,
    (open, wizard): (&editor::OpenFile, &'static Wizard),
    given: &Form,
    notice: Option<Notice>,
) -> Response {
    let same = |word: &&str| ((*word).to_owned(), (*word).to_owned());
    let question = |field: &'static Field| Question {
        field,
        value: given.get(field.name).to_owned(),
        choices: match field.answers {
            Answers::Text | Answers::Lines => Vec::new(),
            Answers::Choice(words) => words.iter().map(same).collect(),
            Answers::Sites => places(&open.text, "site")
                .into_iter()
                .map(|site| (site.path, site.label))
                .collect(),
            Answers::Presets => saker_config::PRESETS
                .iter()
                .map(|preset| (preset.name.to_owned(), preset.summary.to_owned()))
                .collect(),
        },
        is_long: field.answers == Answers::Lines,
    };
    let status = if notice.is_some() { 400 } else { 200 };
    let page = WizardPage {
        shell,
        notice,
        file: &open.name,
        base: &open.digest,
        wizard,
        questions: wizard.fields.iter().map(question).collect(),
    };
    respond(status, &page)
}

/// Proposes the text that the answers make.
pub async fn submit(backend: &dyn Backend, shell: Shell, form: &Form) -> Response {
    let open = match settings_pages::file_of(backend, form.get("file")) {
        Ok(open) => open,
        Err(error) => return refused(backend, shell, error),
    };
    let Some(wizard) = Wizard::find(form.get("kind")) else {
        return refused(backend, shell, "there is no such wizard".to_owned());
    };
    let built = match open.digest == form.get("base") {
        true => wizard.build(&open.text, form),
        false => Err("the file has changed since the wizard was opened".to_owned()),
    };
    match built {
        Ok(text) => {
            let files = editor::files(backend);
            settings_pages::propose(backend, shell, (&files, open), text).await
        }
        Err(error) => page(shell, (&open, wizard), form, Some(Notice::wrong(&error))),
    }
}

fn refused(backend: &dyn Backend, shell: Shell, error: String) -> Response {
    let notice = Some(Notice::wrong(&error));
    let files = editor::files(backend);
    pages::configuration(shell, backend, (&files, Err(error)), notice)
}
