//! Answers of the console's routes.
//!
//! Called by: `serve`, for requests that the gate has admitted.
//! Caveat: every change is written to the audit log before it is made.
//! Out of scope: event streams (`events`).

use crate::{
    Backend, api, assets, audit, ban_pages, cookie,
    editor::{self, normalized},
    exchange::{Form, Request, Response},
    gate::Admitted,
    log_pages,
    pages::{self, Notice, Shell},
    passkey_pages, password,
    routes::Action,
    sessions::{By, Identity},
    settings_pages, totp, upstream_pages,
    users::{Account, Role, Secret},
    wizard_pages,
};
use saker_control::{CacheVerb, PurgeOrder};
use saker_telemetry::{error_log, message};
use serde_json::Value;
use std::{rc::Rc, sync::Arc};

/// Name of those who come by a link.
const LOCAL: &str = "local";
/// Characters of a user name that the log shows.
const NAME_SHOWN: usize = 64;

/// Answers an admitted request.
pub async fn answer(backend: &Rc<dyn Backend>, request: &Request, admitted: &Admitted) -> Response {
    let action = admitted.route.action;
    match &admitted.identity {
        None => public(backend, request, action).await,
        Some(identity) if admitted.route.path.starts_with("/api/") => {
            api::answer(&**backend, request, (action, identity)).await
        }
        Some(identity) => page(&**backend, request, (action, identity)).await,
    }
}

async fn public(backend: &Rc<dyn Backend>, request: &Request, action: Action) -> Response {
    match action {
        Action::Style => assets::STYLE.answer(request),
        Action::Icon => assets::ICON.answer(request),
        Action::Script => assets::SCRIPT.answer(request),
        Action::ChartScript => assets::CHART_SCRIPT.answer(request),
        Action::ChartStyle => assets::CHART_STYLE.answer(request),
        Action::LogIn => log_in(backend, request).await,
        Action::LinkPage => pages::link(200, request.query.get("token"), None),
        Action::UseLink => use_link(&**backend, request),
        Action::LogInByPasskey => log_in_by_passkey(&**backend, request),
        _ => log_in_page(&**backend, 200, None),
    }
}

fn log_in_page(backend: &dyn Backend, status: u16, error: Option<&str>) -> Response {
    let challenge = passkey_pages::challenge(backend);
    let has_no_users = backend.state().users.borrow().is_empty();
    pages::log_in(status, error, (has_no_users, &challenge))
}

/// Logs in with a passkey.
fn log_in_by_passkey(backend: &dyn Backend, request: &Request) -> Response {
    let (state, now_s) = (backend.state(), monotonic_s());
    let admitted = state.limits.borrow_mut().admit(request.client, now_s);
    if let Err(wait_s) = admitted {
        let text = format!("There were too many attempts. Try again in {wait_s} s.");
        let page = log_in_page(backend, 429, Some(&text));
        return page.with("Retry-After", wait_s.to_string());
    }
    state.limits.borrow_mut().failed(request.client, now_s);
    let account = match passkey_pages::log_in(backend, request) {
        Ok(account) => account,
        Err(error) => {
            backend.count_log_in(false);
            let facts = format_args!("passkey from {}: {error}", request.client);
            error_log::log(&message::CONSOLE_LOGIN_REFUSED, facts);
            return log_in_page(backend, 403, Some(&error));
        }
    };
    state.limits.borrow_mut().succeeded(request.client);
    begin_as(backend, request, account)
}

/// Begins a session of a user.
fn begin_as(backend: &dyn Backend, request: &Request, account: Account) -> Response {
    let identity = Identity {
        name: account.name,
        role: account.role,
        site: account.site,
        is_account: true,
        by: By::Session,
    };
    begin(backend, request, &identity, Some(account.stamp))
}

/// Logs in with a password.
async fn log_in(backend: &Rc<dyn Backend>, request: &Request) -> Response {
    let (form, state, now_s) = (request.form(), backend.state(), monotonic_s());
    let refused = |status, text: &str| log_in_page(&**backend, status, Some(text));
    if let Err(wait_s) = state.limits.borrow_mut().admit(request.client, now_s) {
        let text = format!("There were too many attempts. Try again in {wait_s} s.");
        return refused(429, &text).with("Retry-After", wait_s.to_string());
    }
    if let Err(error) = state.refresh_users(&backend.users_file()) {
        let facts = format_args!("the users file cannot be read: {error}");
        error_log::log(&message::CONSOLE_LOGIN_REFUSED, facts);
        return refused(
            500,
            "The users file cannot be read; the error log says why.",
        );
    }
    // Counted before the outcome is known: attempts at the same time gain nothing.
    state.limits.borrow_mut().failed(request.client, now_s);
    let name = form.get("name").to_owned();
    let account = state.users.borrow().user(&name).cloned();
    if !is_password_right(
        backend,
        form.get("password"),
        account.as_ref().map(|one| &one.secret),
    )
    .await
        || !account
            .as_ref()
            .is_some_and(|account| is_code_right(&**backend, account, &form))
    {
        backend.count_log_in(false);
        let shown: String = name.chars().take(NAME_SHOWN).collect();
        let facts = format_args!("user {shown:?} from {}", request.client);
        error_log::log(&message::CONSOLE_LOGIN_REFUSED, facts);
        return refused(403, "The name, the password, or the code is wrong.");
    }
    state.limits.borrow_mut().succeeded(request.client);
    let Some(account) = account else {
        return refused(403, "The name, the password, or the code is wrong.");
    };
    begin_as(&**backend, request, account)
}

/// Seconds of a clock that is never set back: limits must not last longer for it.
fn monotonic_s() -> i64 {
    i64::try_from(saker_net::clock::monotonic_ms() / 1000).unwrap_or(i64::MAX)
}

/// One at a time, on another thread: a verification takes memory and time.
async fn is_password_right(
    backend: &Rc<dyn Backend>,
    given: &str,
    secret: Option<&Secret>,
) -> bool {
    let hash = match secret {
        Some(Secret::Password { hash, .. }) => Some(hash.clone()),
        _ => None,
    };
    let given = given.to_owned();
    let verifications = Arc::clone(&backend.state().verifications);
    let Ok(_permit) = verifications.acquire_owned().await else {
        return false;
    };
    let verify = move || password::verify(&given, hash.as_deref());
    tokio::task::spawn_blocking(verify).await.unwrap_or(false)
}

/// Uses the code up; users without a secret need none.
fn is_code_right(backend: &dyn Backend, account: &Account, form: &Form) -> bool {
    let Secret::Password {
        totp: Some(secret), ..
    } = &account.secret
    else {
        return true;
    };
    let mut used = backend.state().used_codes.borrow_mut();
    let last = used.get(&account.name).copied();
    let now_s = saker_net::clock::realtime_s();
    let interval = totp::verify(secret, form.get("code"), now_s, last);
    if let Some(interval) = interval {
        used.insert(account.name.clone(), interval);
    }
    interval.is_some()
}

fn use_link(backend: &dyn Backend, request: &Request) -> Response {
    let (form, now_s) = (request.form(), saker_net::clock::realtime_s());
    let is_good = backend
        .state()
        .sessions
        .borrow_mut()
        .use_link(form.get("token"), now_s);
    if !is_good {
        backend.count_log_in(false);
        let facts = format_args!("link from {}", request.client);
        error_log::log(&message::CONSOLE_LOGIN_REFUSED, facts);
        let text = "The link was used already, or is too old. Run `saker console` for another.";
        return pages::link(403, "", Some(text));
    }
    let identity = Identity {
        name: LOCAL.into(),
        role: Role::Administrator,
        site: None,
        is_account: false,
        by: By::Session,
    };
    begin(backend, request, &identity, None)
}

/// Begins a session in place of the one that the browser had.
fn begin(
    backend: &dyn Backend,
    request: &Request,
    identity: &Identity,
    stamp: Option<[u8; 32]>,
) -> Response {
    let state = backend.state();
    if let Some(before) = cookie::token(request) {
        state.sessions.borrow_mut().end(before);
    }
    let who = (identity, request.client);
    if let Err(error) = audit::write(&backend.state_dir(), who, "log-in", Value::Null) {
        return Response::error(500, &error);
    }
    let now_s = saker_net::clock::realtime_s();
    let begun = state
        .sessions
        .borrow_mut()
        .begin(&identity.name, identity.role, stamp, now_s);
    let Some(token) = begun else {
        return Response::error(500, "the system gives no random bytes");
    };
    backend.count_log_in(true);
    let facts = format_args!(
        "{} ({}) from {}",
        identity.name,
        identity.role.name(),
        request.client
    );
    error_log::log(&message::CONSOLE_LOGIN, facts);
    let first = match identity.role {
        Role::Owner => "/requests",
        _ => "/",
    };
    Response::see_other(first).with("Set-Cookie", cookie::set(&token, request.is_secure))
}

async fn page(
    backend: &dyn Backend,
    request: &Request,
    (action, identity): (Action, &Identity),
) -> Response {
    let shell = Shell::new(identity);
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
        Action::PurgeForm => purge(backend, shell, (request, identity)).await,
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
        Action::BanForm | Action::UnbanForm => {
            let verb = if action == Action::BanForm {
                "ban"
            } else {
                "unban"
            };
            let who = (identity, request.client);
            ban_pages::submit(backend, shell, who, (verb, &request.form()))
        }
        Action::PasskeysPage => passkey_pages::page(backend, identity, shell, None),
        Action::AddPasskey | Action::RemovePasskey => {
            let is_new = action == Action::AddPasskey;
            passkey_pages::change(backend, shell, (request, identity), is_new)
        }
        Action::UpstreamsPage => upstream_pages::upstreams(backend, shell, None),
        Action::MemberForm | Action::PhpForm | Action::RenewForm => {
            let who = (identity, request.client);
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
    let statistics = api::cache(backend, identity, CacheVerb::Stat).await;
    let (url, tag) = (query.get("url").trim(), query.get("tag").trim());
    let found = match (url, tag) {
        ("", "") => None,
        ("", tag) => {
            let order = PurgeOrder {
                tags: vec![tag.to_owned()],
                ..PurgeOrder::default()
            };
            Some(api::cache(backend, identity, CacheVerb::Count(order)).await)
        }
        (url, _) => Some(
            api::cache(
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
        all: form.get("all") == "yes",
        site: list("site").pop(),
        soft: form.get("soft") == "yes",
        ..PurgeOrder::default()
    };
    let statistics = api::cache(backend, identity, CacheVerb::Stat)
        .await
        .map_err(|(_, error)| error);
    if order.urls.is_empty() && order.tags.is_empty() && !order.all {
        let notice = Notice::wrong("Name a URL or a tag, or choose all pages.");
        return pages::cache(shell, &form, (statistics, None), Some(notice));
    }
    let is_confirmed = form.get("confirmed") == "yes";
    let done = api::purge(backend, (identity, request.client), order, !is_confirmed).await;
    let notice = match (done, is_confirmed) {
        (Err((_, error)), _) => Notice::wrong(&error),
        (Ok(_), true) => Notice::good("The pages were purged."),
        (Ok(counted), false) => {
            let pages = counted["pages"].as_u64().unwrap_or(0);
            return pages::cache_count(shell, &form, pages);
        }
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
