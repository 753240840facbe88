//! mod_proxy's directives that sections may have: the path of a `<Location>`, what is made of
//! requests and answers on the way.
//!
//! Difficulty: lists of ProxyPassReverse are asked from the outside in, unlike those of mod_alias;
//! and of several ProxyPass for one request only the innermost section's counts.

use crate::{
    arguments::{set_flag, texts},
    proxy::pass::{self, Pass},
    reading::{Place, Reading, Set, said},
};
use saker_ap_expr::{Expression, StringExpression};
use saker_apache_syntax::Node;
use std::sync::Arc;

/// ProxyPass of a section, and what was said of its worker.
#[derive(Clone, Debug)]
pub struct SectionPass {
    pub pass: Pass,
    pub parameters: Vec<(String, String)>,
}

/// ProxyPassReverse and its cookie kin: `from` of the backend's becomes `to` of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reversal {
    pub from: Box<str>,
    pub to: Box<str>,
    pub interpolates: bool,
}

/// ProxyFCGISetEnvIf.
#[derive(Clone, Debug)]
pub struct SetEnvIf {
    pub condition: Arc<Expression>,
    /// `!name` takes a variable away.
    pub name: Box<str>,
    pub value: Option<Arc<StringExpression>>,
}

/// ProxyErrorOverride; statuses: those alone, and all errors if there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorOverride {
    pub is_on: bool,
    pub statuses: Vec<u16>,
}

#[derive(Clone, Debug, Default)]
pub struct ProxySettings {
    pub pass: Option<Arc<SectionPass>>,
    pub reversals: Vec<Reversal>,
    pub cookie_paths: Vec<Reversal>,
    pub cookie_domains: Vec<Reversal>,
    pub preserves_host: Option<bool>,
    pub adds_forwarded: Option<bool>,
    pub interpolates: Option<bool>,
    pub error_override: Option<ErrorOverride>,
    /// ProxyFCGIBackendType GENERIC.
    pub is_generic_fastcgi: Option<bool>,
    pub set_env_if: Vec<SetEnvIf>,
}

/// Most places say nothing of it.
#[derive(Clone, Debug, Default)]
pub struct Proxy(Option<Arc<ProxySettings>>);

impl Proxy {
    pub const DIRECTIVES: &'static [(&'static str, Set<Proxy>)] = &[
        ("ProxyPass", |node, proxy, _| set_pass(node, proxy, false)),
        ("ProxyPassMatch", |node, proxy, _| {
            set_pass(node, proxy, true)
        }),
        ("ProxyPassReverse", add_reversal),
        ("ProxyPassReverseCookiePath", |node, proxy, _| {
            proxy.change().cookie_paths.push(cookie_reversal(node)?);
            Ok(())
        }),
        ("ProxyPassReverseCookieDomain", |node, proxy, _| {
            proxy.change().cookie_domains.push(cookie_reversal(node)?);
            Ok(())
        }),
        ("ProxyPreserveHost", |node, proxy, _| {
            set_flag(node, &mut proxy.change().preserves_host)
        }),
        ("ProxyAddHeaders", |node, proxy, _| {
            set_flag(node, &mut proxy.change().adds_forwarded)
        }),
        ("ProxyPassInterpolateEnv", |node, proxy, _| {
            set_flag(node, &mut proxy.change().interpolates)
        }),
        ("ProxyErrorOverride", set_error_override),
        ("ProxyFCGIBackendType", set_backend_type),
        ("ProxyFCGISetEnvIf", add_set_env_if),
    ];

    pub fn merge(&self, over: &Proxy) -> Proxy {
        let (Some(outer), Some(inner)) = (&self.0, &over.0) else {
            return Proxy(over.0.as_ref().or(self.0.as_ref()).cloned());
        };
        Proxy(Some(Arc::new(ProxySettings {
            pass: said(&outer.pass, &inner.pass),
            reversals: [outer.reversals.as_slice(), &inner.reversals].concat(),
            cookie_paths: [outer.cookie_paths.as_slice(), &inner.cookie_paths].concat(),
            cookie_domains: [outer.cookie_domains.as_slice(), &inner.cookie_domains].concat(),
            preserves_host: inner.preserves_host.or(outer.preserves_host),
            adds_forwarded: inner.adds_forwarded.or(outer.adds_forwarded),
            interpolates: inner.interpolates.or(outer.interpolates),
            error_override: said(&outer.error_override, &inner.error_override),
            is_generic_fastcgi: inner.is_generic_fastcgi.or(outer.is_generic_fastcgi),
            set_env_if: [outer.set_env_if.as_slice(), &inner.set_env_if].concat(),
        })))
    }

    pub fn said(&self) -> Option<&ProxySettings> {
        self.0.as_deref()
    }

    pub fn pass(&self) -> Option<&Arc<SectionPass>> {
        self.0.as_ref()?.pass.as_ref()
    }

    fn change(&mut self) -> &mut ProxySettings {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

/// In a `<Location>`; that of the server is in `proxy/draft.rs`.
fn set_pass(node: &Node, proxy: &mut Proxy, by_pattern: bool) -> Result<(), String> {
    let line = pass::parse(node.canonical_name(), &texts(node), true, by_pattern)?;
    proxy.change().pass = Some(Arc::new(SectionPass {
        pass: line.pass,
        parameters: line.parameters,
    }));
    Ok(())
}

fn add_reversal(node: &Node, proxy: &mut Proxy, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let (words, interpolates) = match words.split_last() {
        Some((last, rest)) if last.eq_ignore_ascii_case("interpolate") => (rest, true),
        _ => (words.as_slice(), false),
    };
    let (to, from) = match (words, reading.place == Place::Location) {
        ([path, url], false) => (path.as_str().into(), url),
        ([url], true) => (
            reading
                .section
                .clone()
                .ok_or("ProxyPassReverse needs a path in a section without one")?,
            url,
        ),
        (_, true) => {
            return Err("ProxyPassReverse can not have a path when defined in a location".into());
        }
        _ => return Err("ProxyPassReverse needs a path when not defined in a location".into()),
    };
    proxy.change().reversals.push(Reversal {
        from: from.as_str().into(),
        to,
        interpolates,
    });
    Ok(())
}

fn cookie_reversal(node: &Node) -> Result<Reversal, String> {
    let words = texts(node);
    let [from, to, rest @ ..] = words.as_slice() else {
        return Err(format!("{} takes two arguments", node.canonical_name()));
    };
    let interpolates = rest
        .first()
        .is_some_and(|word| word.eq_ignore_ascii_case("interpolate"));
    Ok(Reversal {
        from: from.as_str().into(),
        to: to.as_str().into(),
        interpolates,
    })
}

fn set_error_override(node: &Node, proxy: &mut Proxy, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let (first, rest) = words
        .split_first()
        .ok_or("ProxyErrorOverride takes at least one argument")?;
    let is_on = match first.to_ascii_lowercase().as_str() {
        "on" => true,
        "off" if rest.is_empty() => false,
        _ => return Err("ProxyErrorOverride first parameter must be one of: off | on".into()),
    };
    let status = |word: &String| {
        let status = word
            .parse()
            .ok()
            .filter(|status| (400..600).contains(status));
        status.ok_or_else(|| "ProxyErrorOverride: Status codes in 400-599 range only".to_owned())
    };
    let statuses = rest.iter().map(status).collect::<Result<_, _>>()?;
    proxy.change().error_override = Some(ErrorOverride { is_on, statuses });
    Ok(())
}

fn set_backend_type(node: &Node, proxy: &mut Proxy, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    proxy.change().is_generic_fastcgi = Some(match word.to_ascii_uppercase().as_str() {
        "FPM" => false,
        "GENERIC" => true,
        _ => {
            return Err(
                "ProxyFCGIBackendType must be one of the following arguments: 'FPM', 'GENERIC'"
                    .into(),
            );
        }
    });
    Ok(())
}

fn add_set_env_if(node: &Node, proxy: &mut Proxy, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    let [condition, name, rest @ ..] = words.as_slice() else {
        return Err("ProxyFCGISetEnvIf takes two or three arguments".into());
    };
    let condition =
        Expression::compile(condition, reading.expression_options()).map_err(|error| {
            format!(
                "Could not parse expression \"{}\": {}",
                String::from_utf8_lossy(condition),
                error.message
            )
        })?;
    let value = match rest.first() {
        Some(text) => Some(Arc::new(
            StringExpression::compile(text, reading.expression_options()).map_err(|error| {
                format!(
                    "Could not parse expression \"{}\": {}",
                    String::from_utf8_lossy(text),
                    error.message
                )
            })?,
        )),
        None => None,
    };
    let name = String::from_utf8_lossy(name).into();
    proxy.change().set_env_if.push(SetEnvIf {
        condition: Arc::new(condition),
        name,
        value,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(change: impl FnOnce(&mut ProxySettings)) -> Proxy {
        let mut proxy = Proxy::default();
        change(proxy.change());
        proxy
    }

    fn reversal(from: &str) -> Reversal {
        Reversal {
            from: from.into(),
            to: "/".into(),
            interpolates: false,
        }
    }

    #[test]
    fn lists_grow_inwards_and_flags_are_replaced() {
        let outer = proxy(|said| {
            said.reversals.push(reversal("a"));
            said.preserves_host = Some(true);
            said.adds_forwarded = Some(false);
        });
        let inner = proxy(|said| {
            said.reversals.push(reversal("b"));
            said.preserves_host = Some(false);
        });
        let merged = outer.merge(&inner);
        let said = merged.said().unwrap();
        assert_eq!(
            said.reversals
                .iter()
                .map(|one| &*one.from)
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(
            (said.preserves_host, said.adds_forwarded),
            (Some(false), Some(false))
        );
        assert_eq!(
            outer
                .merge(&Proxy::default())
                .said()
                .unwrap()
                .reversals
                .len(),
            1
        );
    }
}
