//! `saker sign-url`: creates URLs that a rule of `[site.signed]` accepts, from a configuration or
//! from options alone.
//!
//! Called by: `lib`.

use crate::{
    arguments::{SignOptions, SignUrl},
    check,
    exit_status::CONFIGURATION_ERRORS,
    locations,
    output::{self, cannot},
};
use saker_abuse::signed::{self, Asked};
use saker_config::{
    HostTable, Model,
    model::{Route, SignForm, SignPart, SignedUrls},
};
use saker_http::{host, path};
use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::SystemTime,
};

pub fn sign_url(command: SignUrl) -> ExitCode {
    let model = match configuration(&command) {
        Ok(model) => model,
        Err(status) => return status,
    };
    match made(&model, &command, now()) {
        Ok(url) => output::print(format!("{url}\n")),
        Err(why) => cannot(why),
    }
}

fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn configuration(command: &SignUrl) -> Result<Model, ExitCode> {
    let loaded = match &command.options.form {
        Some(form) => saker_config::parse(
            &by_options(form, &command.options),
            "options",
            Path::new("."),
        ),
        None => saker_config::load(
            &locations::configuration(command.config.as_deref()).map_err(cannot)?,
        ),
    };
    loaded.map(|loaded| loaded.model).map_err(|diagnostics| {
        check::report(&diagnostics);
        ExitCode::from(CONFIGURATION_ERRORS)
    })
}

/// The options as a configuration, so that both are read and checked by the same rows.
fn by_options(form: &str, options: &SignOptions) -> String {
    // A TOML string, whatever is in it.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut lines = vec![
        "[[listener]]\naddress = \"127.0.0.1:1\"\n[[site]]\nroot = \"/\"\n[site.signed]".to_owned(),
    ];
    let secret_file = options
        .secret_file
        .as_ref()
        .map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
    let secret_file = secret_file
        .as_ref()
        .map(|file| file.to_string_lossy().into_owned());
    let texts = [
        ("form", Some(form)),
        ("secret", options.secret.as_deref()),
        ("secret_file", secret_file.as_deref()),
        ("prefix", options.prefix.as_deref()),
        ("expression", options.expression.as_deref()),
        ("argument", options.argument.as_deref()),
        ("expires_argument", options.expires_argument.as_deref()),
        ("algorithm", options.algorithm.as_deref()),
    ];
    lines.extend(
        texts
            .into_iter()
            .filter_map(|(name, text)| Some(format!("{name} = {}", quoted(text?)))),
    );
    lines.extend(
        options
            .path_segments
            .map(|count| format!("path_segments = {count}")),
    );
    let flags = [
        ("query", options.sign_query),
        ("address", options.sign_address),
        ("host", options.sign_host),
    ];
    lines.extend(
        flags
            .into_iter()
            .filter(|(_, given)| *given)
            .map(|(name, _)| format!("{name} = true")),
    );
    lines.join("\n") + "\n"
}

fn made(model: &Model, command: &SignUrl, now: i64) -> Result<String, String> {
    let (origin, target) = split(&command.url);
    let authority = origin.rsplit('/').next().unwrap_or_default();
    let host = host::parse_authority(authority.as_bytes())
        .map(|authority| host::canonical_host(authority.host))
        .unwrap_or_default();
    let (raw_path, query) = target
        .split_once('?')
        .map_or((target, None), |(path, query)| (path, Some(query)));
    let mut decoded = Vec::new();
    path::normalize(raw_path.as_bytes(), &mut decoded)
        .map_err(|_| format!("invalid URL path `{raw_path}`"))?;
    let rule = rule(model, &host, &decoded)
        .ok_or("no `signed` rule of the configuration applies to this URL")?;
    let in_path = matches!(rule.form, SignForm::PathMd5 | SignForm::Token(_));
    let rest = decoded
        .strip_prefix(rule.prefix.as_bytes())
        .map(|rest| [b"/", rest].concat());
    let path = match (in_path, rest) {
        (false, _) => decoded,
        (true, Some(rest)) => rest,
        (true, None) => return Err(format!("the path is not below {}", rule.prefix)),
    };
    let needs_address = takes_address(&rule.form);
    let address = match (command.address, needs_address) {
        (None, true) => {
            return Err("this rule signs the client address: add --address ADDRESS".into());
        }
        (Some(_), false) => {
            return Err("this rule does not sign the client address: remove --address".into());
        }
        (address, _) => address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    };
    if takes_host(&rule.form) && host.is_empty() {
        return Err("this rule signs the host: give the full URL, https://HOST/PATH".into());
    }
    let asked = Asked {
        path: &path,
        query: query.map(str::as_bytes),
        host: &host,
        address,
    };
    Ok(format!(
        "{origin}{}",
        signed::sign(&rule, &asked, time(&rule, command, now)?)?
    ))
}

fn takes_address(form: &SignForm) -> bool {
    match form {
        SignForm::PathMd5 => false,
        SignForm::Expression { parts, .. } => parts.contains(&SignPart::Address),
        SignForm::Token(form) => form.address,
        SignForm::Whole { address, .. } => *address,
    }
}

fn takes_host(form: &SignForm) -> bool {
    match form {
        SignForm::PathMd5 | SignForm::Token(_) => false,
        SignForm::Expression { parts, .. } => parts.contains(&SignPart::Host),
        SignForm::Whole { host, .. } => *host,
    }
}

/// `https://host` and the rest.
fn split(url: &str) -> (&str, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url
        .get(start..)
        .and_then(|rest| rest.find('/'))
        .map_or(url.len(), |at| start + at);
    url.split_at(end)
}

/// The rule in force, as a request would find it.
fn rule(model: &Model, host: &[u8], path: &[u8]) -> Option<Arc<SignedUrls>> {
    let hosts = HostTable::new(model);
    let local = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let mut sites = model
        .listeners
        .iter()
        .filter_map(|listener| hosts.select(&listener.address, local, host));
    sites.find_map(|(index, _)| {
        let site = model.sites.get(index)?;
        let matching = |route: &&Route| route.pattern.captures(path).is_some();
        let candidates = site.routes.candidates(path);
        let settings = candidates
            .filter_map(|at| site.routes.get(at))
            .find(matching)
            .map_or(&site.settings, |route| &route.settings);
        settings.links.signed.clone()
    })
}

fn time(rule: &SignedUrls, command: &SignUrl, now: i64) -> Result<Option<i64>, String> {
    if matches!(rule.form, SignForm::Token(_)) {
        return match command.good_for_s {
            Some(_) => Err(
                "the server sets the validity of such links (`lifetime`); use --time for the start time"
                    .into(),
            ),
            None => Ok(Some(command.time.unwrap_or(now))),
        };
    }
    Ok(command.time.or(command
        .good_for_s
        .map(|seconds| now.saturating_add(seconds))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        assert_eq!(split("https://a.test/b?c"), ("https://a.test", "/b?c"));
        assert_eq!(split("/b"), ("", "/b"));
        assert_eq!(split("https://a.test"), ("https://a.test", ""));
    }
}
