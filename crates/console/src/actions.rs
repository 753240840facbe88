//! Answers of the console's routes.
//!
//! Called by: `serve`, for requests that the gate has admitted.
//! Caveat: every change is written to the audit log before it is made.
//! Out of scope: event streams (`events`).

use crate::{
    Backend, api, assets, audit, ban_pages, cache_orders, cookie,
    editor::{self, normalized},
    entry_pages,
    exchange::{Form, Request, Response},
    gate::Admitted,
    log_in_pages, log_pages, owner_pages,
    pages::{self, Notice, Shell},
    passkey_pages, redirect_pages,
    routes::Action,
    sessions::Identity,
    settings_pages, upstream_pages, warm_pages, wizard_pages,
};
use saker_control::{CacheVerb, PurgeOrder};
use serde_json::Value;
use std::rc::Rc;

/// Answers an admitted request.
pub async fn answer(backend: &Rc<dyn Backend>, request: &Request, admitted: &Admitted) -> Response {
    let action = admitted.route.action;
    match &admitted.identity {
        None => public(backend, request, action).await,
        Some(identity) if admitted.route.path.starts_with("/api/") => {
            api::answer(&**backend, request, (admitted.route, identity)).await
        }
        Some(identity) => page(&**backend, request, (action, identity)).await,
    }
}

async fn public(backend: &Rc<dyn Backend>, request: &Request, action: Action) -> Response {
    match action {
        Action::Style => assets::STYLE.answer(request),
        Action::Icon => assets::ICON.answer(request),
        Action::Script => assets::SCRIPT.answer(request),
        Action::EditorScript => assets::EDITOR_SCRIPT.answer(request),
        Action::ChartScript => assets::CHART_SCRIPT.answer(request),
        Action::ChartStyle => assets::CHART_STYLE.answer(request),
        Action::LogIn => log_in_pages::by_password(backend, request).await,
        Action::LinkPage => pages::link(200, request.query.get("token"), None),
        Action::UseLink => log_in_pages::by_link(&**backend, request),
        Action::LogInByPasskey => log_in_pages::by_passkey(&**backend, request),
        Action::BeginAtProvider => log_in_pages::begin_at_provider(&**backend, request).await,
        Action::LogInByProvider => log_in_pages::by_provider(&**backend, request).await,
        _ => log_in_pages::page(&**backend, 200, None),
    }
}

async fn page(
    backend: &dyn Backend,
    request: &Request,
    (action, identity): (Action, &Identity),
) -> Response {
    let (shell, who) = (Shell::new(identity), (identity, request.client));
    match action {
        Action::LogOut => {
            if let Some(token) = cookie::token(request) {
                backend.state().sessions.borrow_mut().end(token);
            }
            Response::see_other("/login").with("Set-Cookie", cookie::set("", request.is_secure))
        }
        Action::NowPage => pages::now(shell, &api::health(backend)),
        Action::RequestsPage => pages::requests(shell, &request.query),
        Action::WhyPage => why(backend, shell, &request.query).await,
        Action::CachePage => cache(backend, shell, (identity, &request.query)).await,
        Action::EntryPage => {
            entry_pages::page(backend, shell, who, request.query.get("entry")).await
        }
        Action::EntryImage => entry_pages::image(backend, who, request.query.get("entry")).await,
        Action::PurgeForm => purge(backend, shell, (request, identity)).await,
        Action::OwnerPage
        | Action::OwnerPropose
        | Action::OwnerApply
        | Action::OwnerConfirm
        | Action::OwnerRollBack => {
            owner_pages::answer(backend, shell, who, (action, &request.form())).await
        }
        Action::WarmPage => warm_pages::page(shell, &request.query),
        Action::WarmForm => warm_pages::submit(backend, shell, who, &request.form()).await,
        Action::AuditPage => {
            pages::audit(shell, &audit::last(&backend.state_dir(), api::AUDIT_MAX))
        }
        Action::SettingsPage => settings_pages::settings(backend, shell, &request.query),
        Action::SettingsForm => settings_pages::submit(backend, shell, &request.form()).await,
        Action::WizardsPage => wizard_pages::wizards(backend, shell, &request.query),
        Action::WizardPage => wizard_pages::wizard(backend, shell, &request.query),
        Action::WizardForm => wizard_pages::submit(backend, shell, &request.form()).await,
        Action::LogsPage => log_pages::logs(backend, shell, &request.query),
        Action::MessagesPage => log_pages::messages(shell),
        Action::BansPage => ban_pages::bans(backend, shell, None),
        Action::BanForm => ban_pages::submit(backend, shell, who, ("ban", &request.form())),
        Action::UnbanForm => ban_pages::submit(backend, shell, who, ("unban", &request.form())),
        Action::PasskeysPage => passkey_pages::page(backend, identity, shell, None),
        Action::AddPasskey | Action::RemovePasskey => {
            let is_new = action == Action::AddPasskey;
            passkey_pages::change(backend, shell, (request, identity), is_new)
        }
        Action::TestForm => upstream_pages::test_form(backend, shell, who, &request.form()).await,
        Action::UpstreamsPage => upstream_pages::upstreams(backend, shell, None),
        Action::RedirectsPage => redirect_pages::page(backend, shell, identity, None),
        Action::RedirectForm => redirect_pages::submit(backend, shell, who, &request.form()),
        Action::MemberForm | Action::ServerForm | Action::PhpForm | Action::RenewForm => {
            upstream_pages::submit(backend, shell, who, (action, &request.form()))
        }
        Action::ProposeForm => propose(backend, shell, &request.form()).await,
        Action::ApplyForm | Action::ConfirmForm | Action::RollBackForm => {
            change(backend, shell, (request, identity), action).await
        }
        _ => configuration(backend, shell, &request.query),
    }
}

async fn why(backend: &dyn Backend, shell: Shell, query: &Form) -> Response {
    if query.get("url").is_empty() {
        return pages::why(shell, query, Ok(Vec::new()));
    }
    let steps = match api::question(query) {
        Ok(question) => backend.explain(question).await,
        Err((_, error)) => Err(error),
    };
    pages::why(shell, query, steps)
}

async fn cache(
    backend: &dyn Backend,
    shell: Shell,
    (identity, query): (&Identity, &Form),
) -> Response {
    let statistics = cache_orders::cache(backend, identity, CacheVerb::Stat).await;
    let (url, tag) = (query.get("url").trim(), query.get("tag").trim());
    let found = match (url, tag) {
        ("", "") => None,
        ("", tag) => {
            let order = PurgeOrder {
                tags: vec![tag.to_owned()],
                ..PurgeOrder::default()
            };
            Some(cache_orders::cache(backend, identity, CacheVerb::Count(order)).await)
        }
        (url, _) => Some(
            cache_orders::cache(
                backend,
                identity,
                CacheVerb::Show {
                    url: url.to_owned(),
                },
            )
            .await,
        ),
    };
    let text = |result: Result<Value, (u16, String)>| result.map_err(|(_, error)| error);
    pages::cache(shell, query, (text(statistics), found.map(text)), None)
}

/// The first time counts the pages; with `confirmed` they are purged.
async fn purge(
    backend: &dyn Backend,
    shell: Shell,
    (request, identity): (&Request, &Identity),
) -> Response {
    let form = request.form();
    let list = |name: &str| match form.get(name).trim() {
        "" => Vec::new(),
        text => vec![text.to_owned()],
    };
    let order = PurgeOrder {
        urls: list("url"),
        tags: list("tag"),
        bans: list("expression"),
        all: form.get("all") == "yes",
        site: list("site").pop(),
        soft: form.get("soft") == "yes",
        ..PurgeOrder::default()
    };
    let statistics = cache_orders::cache(backend, identity, CacheVerb::Stat)
        .await
        .map_err(|(_, error)| error);
    let is_empty = order.urls.is_empty() && order.tags.is_empty() && order.bans.is_empty();
    if is_empty && !order.all {
        let notice = Notice::wrong("Name a URL, a tag, or an expression, or choose all pages.");
        return pages::cache(shell, &form, (statistics, None), Some(notice));
    }
    if order.soft && !order.bans.is_empty() {
        let text = "Pages that match an expression are removed, never made stale.";
        return pages::cache(shell, &form, (statistics, None), Some(Notice::wrong(text)));
    }
    let is_confirmed = form.get("confirmed") == "yes";
    let done = cache_orders::purge(backend, (identity, request.client), order, !is_confirmed).await;
    let notice = match (done, is_confirmed) {
        (Err((_, error)), _) => Notice::wrong(&error),
        (Ok(_), true) => Notice::good("The pages were purged."),
        (Ok(counted), false) => return pages::cache_count(shell, &form, &counted),
    };
    pages::cache(shell, &form, (statistics, None), Some(notice))
}

fn configuration(backend: &dyn Backend, shell: Shell, query: &Form) -> Response {
    let files = editor::files(backend);
    let name = match query.get("file") {
        "" => files.first().map_or("", String::as_str),
        name => name,
    };
    let mut open = editor::open(backend, name);
    let earlier = crate::history_files::text_of(&backend.state_dir(), query.get("version"));
    if let (Ok(open), Some((version, text))) = (&mut open, earlier)
        && std::fs::canonicalize(&open.name).is_ok_and(|target| target == version.file)
    {
        open.text = text;
    }
    pages::configuration(shell, backend, (&files, open), None)
}

async fn propose(backend: &dyn Backend, shell: Shell, form: &Form) -> Response {
    let (files, name) = (editor::files(backend), form.get("file"));
    let text = normalized(form.get("text"));
    let open = editor::open(backend, name).map(|open| editor::OpenFile {
        text: text.clone(),
        ..open
    });
    match editor::propose(backend, name, &text).await {
        Ok(proposal) => {
            pages::proposal(shell, backend, (&files, open), (form.get("base"), proposal))
        }
        Err(error) => {
            pages::configuration(shell, backend, (&files, open), Some(Notice::wrong(&error)))
        }
    }
}

async fn change(
    backend: &dyn Backend,
    shell: Shell,
    (request, identity): (&Request, &Identity),
    action: Action,
) -> Response {
    let (form, who) = (request.form(), (identity, request.client));
    let text = normalized(form.get("text"));
    let changed = match action {
        Action::ApplyForm => {
            let order = editor::Order {
                file: form.get("file"),
                text: &text,
                base: form.get("base"),
                // What is no number is refused as one that is too small.
                confirm_time_s: match form.get("confirm_time_s") {
                    "" => None,
                    seconds => Some(seconds.parse().unwrap_or(0)),
                },
            };
            editor::apply(backend, who, order).await.map(|_| "")
        }
        Action::ConfirmForm => editor::confirm(backend, who, form.get("id"))
            .await
            .map(|()| "The change is kept."),
        _ => editor::roll_back(backend, who, form.get("id"))
            .await
            .map(|()| "The change is undone."),
    };
    let notice = match &changed {
        Ok("") => None,
        Ok(text) => Some(Notice::good(text)),
        Err(error) => Some(Notice::wrong(error)),
    };
    let files = editor::files(backend);
    let first = files.first().map_or("", String::as_str);
    let name = if form.get("file").is_empty() {
        first
    } else {
        form.get("file")
    };
    let mut open = editor::open(backend, name);
    // A text that was refused is not lost.
    if let (Err(_), Ok(open), true) = (&changed, &mut open, action == Action::ApplyForm) {
        open.text = text;
    }
    pages::configuration(shell, backend, (&files, open), notice)
}
