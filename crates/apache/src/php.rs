//! Files whose handler is PHP, by whatever name: mod_php's, a panel's, mod_lsapi's, mod_fcgid's.
//! They go to the server's own PHP.
//!
//! Called by `fixups` for the content of a request. Difficulty: names. `application/x-httpd-php` is
//! any PHP, `application/x-httpd-ea-php81___lsphp` one version; where that version is not there the
//! first PHP has to do, and says so once in a while. Unlike mod_php, which serves the file as it is
//! when `engine` is off, nothing here shows a source: that is answered 403.

use crate::{call, state::peek, verdict::Verdict, worker::ApacheRules};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_apache_syntax::LoadedModules;
use saker_config::model::{PhpPool, PhpUse, Settings, Upstream};
use saker_files::Kind;
use saker_http::{Status, field_name};
use saker_pipeline::{
    CallNames, Exchange, ProxyOptions, Response, Script, Trust, UpstreamRequest, UpstreamTarget,
};
use saker_static_files::names;
use saker_telemetry::{error_log, httpd_message, message};
use std::sync::Arc;

/// The PHP that a handler's name, or a type's in its place, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'h> {
    /// To be run by this version; empty: by any.
    Run(&'h str),
    /// To be shown in colors.
    Source,
    /// To be run by no PHP that is there, though the name is one of PHP's.
    Nothing,
}

/// The origin of handlers of PHP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// A module of Apache's configuration has this one.
    ByModule,
    /// None has: Apache sends such files as they are.
    Nowhere,
    /// A native site, where Saker has them.
    Natively,
}

impl Registered {
    /// Modules of panels, whose handlers have names of all kinds.
    const OF_PANELS: [&str; 2] = ["lsapi_module", "suphp_module"];
    /// Handlers of mod_php, of all its versions.
    const OF_MOD_PHP: [&str; 4] = [
        "application/x-httpd-php",
        "php-script",
        "php5-script",
        "php7-script",
    ];

    pub fn of(is_native: bool, modules: &LoadedModules, handler: &str) -> Registered {
        if is_native {
            return Registered::Natively;
        }
        let is_mod_phps = || {
            let mut own = Self::OF_MOD_PHP.iter();
            own.any(|own| own.eq_ignore_ascii_case(handler)) && modules.has_any(&["php_module"])
        };
        match modules.has_any(&Self::OF_PANELS) || is_mod_phps() {
            true => Registered::ByModule,
            false => Registered::Nowhere,
        }
    }

    /// True if a file under such a handler is run: an upload that has `.php` in front of another
    /// ending is not, except where Apache would.
    fn runs(self, filename: &[u8]) -> bool {
        match self {
            Registered::ByModule => true,
            Registered::Nowhere => names::is_php(filename),
            Registered::Natively => names::is_php(filename) || !has_inner_php(filename),
        }
    }
}

/// True for `upload.php.jpg`.
fn has_inner_php(filename: &[u8]) -> bool {
    let name = filename.rsplit(|byte| *byte == b'/').next();
    let mut ends = name.unwrap_or_default().split(|byte| *byte == b'.').skip(1);
    ends.any(|end| names::is_php(&[b".", end].concat()))
}

/// True for a name that says that PHP is off, such as `no-php`.
fn is_denial(lower: &str) -> bool {
    lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| matches!(word, "no" | "non" | "not" | "none" | "off" | "disabled"))
}

/// `None`: the handler is not PHP's.
pub fn asked<'h>(handler: &'h str, filename: &[u8], registered: Registered) -> Option<Asked<'h>> {
    let lower = handler.to_ascii_lowercase();
    if lower.starts_with("proxy:") {
        return None;
    }
    if lower.ends_with("php-source") || lower.ends_with("-phps") {
        return Some(Asked::Source);
    }
    let is_script = [&b".php"[..], b".phtml", b".phar"]
        .iter()
        .any(|ending| filename.ends_with(ending));
    match &*lower {
        "lsapi-script" => Some(Asked::Run("")),
        "fcgid-script" | "fastcgi-script" if is_script => Some(Asked::Run("")),
        _ if !lower.contains("php") => None,
        _ if is_denial(&lower) || !registered.runs(filename) => Some(Asked::Nothing),
        _ => Some(Asked::Run(version(handler))),
    }
}

/// The digits behind `php`.
fn version(handler: &str) -> &str {
    let is_version = |c: char| c.is_ascii_digit() || c == '.';
    let behind = handler
        .match_indices(['p', 'P'])
        .filter_map(|(at, _)| handler.get(at + 1..));
    let mut found = behind.map(|rest| {
        rest.get(..rest.find(|c| !is_version(c)).unwrap_or(rest.len()))
            .unwrap_or_default()
    });
    found
        .rfind(|version| !version.is_empty())
        .unwrap_or_default()
}

pub fn answer(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
    asked: Asked<'_>,
) -> Verdict {
    let version = match runnable(exchange, local, asked) {
        Ok(version) => version,
        Err(refused) => return refused,
    };
    // A site of saker.toml says itself who runs PHP.
    let base = peek(exchange).and_then(|state| state.base.clone());
    if base.is_some() {
        drop_settings(exchange);
    }
    let of_site = match base.as_deref().map(|base| &base.php) {
        Some(PhpUse::Off) => return forbidden(exchange, "PHP is off here (`php = \"off\"`)"),
        Some(PhpUse::ByHost(_)) => return refused(Status::NOT_FOUND),
        Some(PhpUse::Upstream(upstream)) => Some(Arc::clone(upstream)),
        Some(PhpUse::Managed) | None => None,
    };
    if let Some(upstream) = of_site {
        let mut script = php_script(exchange, host, local);
        // Those of a page that includes this one, too.
        script.variables.retain(|(name, _)| !is_setting(name));
        // Values would stay in a process that serves other sites, too.
        script.php.clear();
        return call(exchange, local, base.as_deref(), upstream, script);
    }
    let Some(pool) = pool(rules, exchange, local, version) else {
        let filename = peek(exchange)
            .map(|state| String::from_utf8_lossy(&state.filename).into_owned())
            .unwrap_or_default();
        error_log::log_about(&message::PHP_MISSING, exchange, format_args!("{filename}"));
        return refused(Status::SERVICE_UNAVAILABLE);
    };
    let mut script = php_script(exchange, host, local);
    let pool = if script.php.is_empty() {
        pool
    } else {
        rules.php.for_settings(pool, &script.php)
    };
    // It was started with some of them, mostly all.
    script
        .php
        .retain(|value| pool.settings.binary_search(value).is_err());
    let upstream = Arc::clone(&pool.upstream);
    call(exchange, local, base.as_deref(), upstream, script)
}

/// The version that is to run the script; an error: the answer where nothing may run it.
fn runnable<'a>(
    exchange: &mut Exchange,
    local: &DirConfig,
    asked: Asked<'a>,
) -> Result<&'a str, Verdict> {
    // No client has asked for what an index file or a listing looks for (and fail2ban bans clients by
    // the lines about missing scripts).
    let own = peek(exchange);
    let is_lookup = own.is_some_and(|state| state.is_subrequest && !state.is_answered);
    match own.and_then(|state| state.kind) {
        None if is_lookup => return Err(refused(Status::NOT_FOUND)),
        Some(Kind::Directory) if is_lookup => return Err(refused(Status::FORBIDDEN)),
        _ => {}
    }
    let version = match asked {
        Asked::Source => return Err(forbidden(exchange, "PHP sources are not shown")),
        Asked::Nothing => {
            let why = "no PHP runs files of this name here, and sources are not shown";
            return Err(forbidden(exchange, why));
        }
        Asked::Run(_) if local.php.is_off() => {
            let why = "PHP is off here (php_flag engine), and its source is not shown";
            return Err(forbidden(exchange, why));
        }
        Asked::Run(version) => version,
    };
    match peek(exchange).and_then(|state| state.kind) {
        Some(Kind::File) => {}
        Some(_) => {
            return Err(forbidden(exchange, "attempt to invoke directory as script"));
        }
        None => {
            let filename = peek(exchange)
                .map(|state| String::from_utf8_lossy(&state.filename).into_owned())
                .unwrap_or_default();
            let text = format_args!("script '{filename}' not found or unable to stat");
            error_log::log_httpd(&httpd_message::PHP_SCRIPT_MISSING, None, exchange, text);
            return Err(refused(Status::NOT_FOUND));
        }
    }
    // AcceptPathInfo: PHP takes what follows the script unless that was forbidden.
    if !exchange.routing.path_info.is_empty() && local.core.accept_path_info == Some(false) {
        return Err(refused(Status::NOT_FOUND));
    }
    Ok(version)
}

/// A variable that php-fpm takes for settings.
fn is_setting(name: &[u8]) -> bool {
    field_name::is_alike_any(name, &["PHP_VALUE", "PHP_ADMIN_VALUE"])
}

/// Drops such variables for a site's php-fpm, which may serve other sites, too: `SetEnv` in a file
/// may not do what `php_value` can't. The gateway does so for the server's own PHP.
fn drop_settings(exchange: &mut Exchange) {
    let names: Vec<Vec<u8>> = exchange
        .environment
        .iter()
        .filter(|(name, _)| is_setting(name))
        .map(|(name, _)| name.to_vec())
        .collect();
    names
        .iter()
        .for_each(|name| exchange.environment.unset(name));
}

/// The facts about a request that PHP is told.
fn php_script(exchange: &mut Exchange, host: &Host, local: &DirConfig) -> Script {
    let mut script = call::script(exchange, host, local);
    // mod_php is inside the server and sees them, where CGI's programs have to be let; who says
    // `CGIPassAuth Off` means PHP, too.
    script.passes_authorization = local.cgi.passes_authorization.unwrap_or(true);
    script.php = local.php.told();
    script
}

/// Leaves the request for the gateway. `base`: the settings of a native site.
fn call(
    exchange: &mut Exchange,
    local: &DirConfig,
    base: Option<&Settings>,
    upstream: Arc<Upstream>,
    script: Script,
) -> Verdict {
    let target = call::target_of(exchange);
    let trust = match base {
        Some(base) => Trust {
            accel: true,
            litespeed: true,
            files: base.send_files.clone(),
            hides: true,
            unheeded: Box::default(),
        },
        None => local.xsendfile.trust(true),
    };
    let manner = Arc::new(ProxyOptions {
        trust,
        ..ProxyOptions::default()
    });
    let names = CallNames::default();
    exchange.upstream.call = Some(Box::new(UpstreamRequest {
        to: UpstreamTarget::Upstream(upstream),
        target,
        script: Some(Box::new(script)),
        manner,
        names,
    }));
    Verdict::Pass
}

fn pool<'r>(
    rules: &'r ApacheRules,
    exchange: &Exchange,
    local: &DirConfig,
    version: &str,
) -> Option<&'r PhpPool> {
    let base = peek(exchange).and_then(|state| state.base.as_ref());
    let of_site = base.and_then(|base| base.program_user.as_ref());
    let user = local.cgi.user.as_ref().or(of_site);
    let first = rules.php.first_of(user)?;
    if version.is_empty() {
        return Some(first);
    }
    let exact = rules.php.of_version(version, user);
    if exact.is_none() {
        error_log::log_about(
            &message::PHP_OTHER_VERSION,
            exchange,
            format_args!("{version}, {} instead", first.name),
        );
    }
    exact.or(Some(first))
}

pub fn forbidden(exchange: &Exchange, reason: &str) -> Verdict {
    let filename = peek(exchange)
        .map(|state| String::from_utf8_lossy(&state.filename).into_owned())
        .unwrap_or_default();
    error_log::log_about(
        &message::SCRIPT_REFUSED,
        exchange,
        format_args!("{reason}: {filename}"),
    );
    refused(Status::FORBIDDEN)
}

fn refused(status: Status) -> Verdict {
    Verdict::Answer(Response::new(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_of_all_kinds() {
        for (handler, expected) in [
            ("application/x-httpd-php", Some(Asked::Run(""))),
            ("application/x-httpd-php8", Some(Asked::Run("8"))),
            ("application/x-httpd-php8.2", Some(Asked::Run("8.2"))),
            (
                "application/x-httpd-ea-php81___lsphp",
                Some(Asked::Run("81")),
            ),
            ("application/x-lsphp74", Some(Asked::Run("74"))),
            ("php-script", Some(Asked::Run(""))),
            ("php7-script", Some(Asked::Run("7"))),
            ("lsapi-script", Some(Asked::Run(""))),
            ("fcgid-script", Some(Asked::Run(""))),
            ("application/x-httpd-php-source", Some(Asked::Source)),
            ("proxy:unix:/run/php.sock|fcgi://localhost", None),
            ("cgi-script", None),
        ] {
            let registered = Registered::Nowhere;
            assert_eq!(
                asked(handler, b"/a/b.php", registered),
                expected,
                "{handler}"
            );
        }
        assert_eq!(
            asked("fcgid-script", b"/a/b.fcgi", Registered::ByModule),
            None
        );
    }

    #[test]
    fn modules_have_their_own_handlers() {
        use Registered::{ByModule, Natively, Nowhere};
        let with = |name: &str| {
            let mut modules = LoadedModules::default();
            modules.load(name.as_bytes());
            modules
        };
        for (module, handler, expected) in [
            ("php_module", "application/x-httpd-php", ByModule),
            ("php7_module", "php7-script", ByModule),
            ("php_module", "application/x-httpd-ea-php81", Nowhere),
            ("lsapi_module", "application/x-httpd-ea-php81", ByModule),
            ("rewrite_module", "application/x-httpd-php", Nowhere),
        ] {
            let registered = Registered::of(false, &with(module), handler);
            assert_eq!(registered, expected, "{module} {handler}");
        }
        assert_eq!(Registered::of(true, &with("php_module"), "x"), Natively);
    }

    #[test]
    fn uploads_are_run_only_where_apache_would() {
        use Registered::{ByModule, Natively, Nowhere};
        let handler = "application/x-httpd-ea-php81";
        let run = Some(Asked::Run("81"));
        for (filename, registered, expected) in [
            ("/w/evil.php.jpg", Nowhere, Some(Asked::Nothing)),
            ("/w/evil.php.jpg", Natively, Some(Asked::Nothing)),
            ("/w/evil.php.jpg", ByModule, run),
            ("/w/a.html", Nowhere, Some(Asked::Nothing)),
            ("/w/a.html", Natively, run),
            ("/w.php.d/a.html", Natively, run),
            ("/w/a.PHP", Nowhere, run),
            ("/w/a.php8", Nowhere, run),
        ] {
            let filename = filename.as_bytes();
            assert_eq!(
                asked(handler, filename, registered),
                expected,
                "{filename:?} {registered:?}"
            );
        }
        for handler in ["no-php", "php-off", "application/x-no-php"] {
            assert_eq!(asked(handler, b"/w/a.php", ByModule), Some(Asked::Nothing));
        }
    }
}
