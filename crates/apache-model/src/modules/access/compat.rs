//! Setters of mod_access_compat: Order, Allow, Deny, Satisfy.
//!
//! Called by: the table of directives in `settings`.
//! Out of scope: how the rules decide (`saker_auth`).

use crate::{modules::access::settings::Auth, reading::Reading};
use saker_ap_expr::Subnet;
use saker_apache_syntax::Node;
use saker_auth::settings::{ForMethods, Order, Source, host_access::HostRules};

pub(super) fn set_order(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let word = node.arguments().into_iter().next().unwrap_or_default();
    let order = match &*word.to_ascii_lowercase() {
        b"allow,deny" => Order::AllowThenDeny,
        b"deny,allow" => Order::DenyThenAllow,
        b"mutual-failure" => Order::MutualFailure,
        _ => return Err("unknown order".into()),
    };
    auth.settings
        .host_access
        .rules_mut()
        .order
        .push((reading.methods.clone(), order));
    Ok(())
}

pub(super) fn set_satisfy(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let word = node.arguments().into_iter().next().unwrap_or_default();
    let any = match &*word.to_ascii_lowercase() {
        b"any" => true,
        b"all" => false,
        _ => return Err("Satisfy either 'any' or 'all'.".into()),
    };
    auth.settings
        .host_access
        .rules_mut()
        .satisfy_any
        .push((reading.methods.clone(), any));
    Ok(())
}

/// `from`, then any number of sources.
pub(super) fn add(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
    list: fn(&mut HostRules) -> &mut ForMethods<Source>,
) -> Result<(), String> {
    let words = node.arguments();
    let Some((_, rest)) = words
        .split_first()
        .filter(|(first, _)| first.eq_ignore_ascii_case(b"from"))
    else {
        return Err("allow and deny must be followed by 'from'".into());
    };
    for word in rest {
        let source = source(word)?;
        list(auth.settings.host_access.rules_mut()).push((reading.methods.clone(), source));
    }
    Ok(())
}

fn source(word: &[u8]) -> Result<Source, String> {
    let lower = word.to_ascii_lowercase();
    if let (Some(_), Some(name)) = (lower.strip_prefix(b"env=!"), word.get(5..)) {
        return Ok(Source::Environment {
            name: name.into(),
            negated: true,
        });
    }
    if let (Some(_), Some(name)) = (lower.strip_prefix(b"env="), word.get(4..)) {
        return Ok(Source::Environment {
            name: name.into(),
            negated: false,
        });
    }
    match Subnet::parse(word) {
        _ if lower == b"all" => Ok(Source::All),
        Ok(network) => Ok(Source::Ip(network)),
        // As Apache, which takes nothing for a name that looks like an address.
        Err(_) if word.contains(&b'/') || is_like_address(word) => Err(format!(
            "'{}': an IP address was expected",
            String::from_utf8_lossy(word)
        )),
        Err(_) => Ok(Source::Host(lower.into())),
    }
}

fn is_like_address(word: &[u8]) -> bool {
    let is_of_ipv4 = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    word.contains(&b':') || word.iter().all(is_of_ipv4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let kind = |text: &str| match source(text.as_bytes()) {
            Ok(Source::All) => "all".to_owned(),
            Ok(Source::Ip(_)) => "ip".into(),
            Ok(Source::Host(name)) => String::from_utf8_lossy(&name).into_owned(),
            Ok(Source::Environment { name, negated }) => format!(
                "{}{}",
                if negated { "!" } else { "" },
                String::from_utf8_lossy(&name)
            ),
            Err(error) => error,
        };
        for (text, expected) in [
            ("ALL", "all"),
            ("10.1", "ip"),
            ("10.0.0.0/8", "ip"),
            ("::1", "ip"),
            ("::ffff:10.0.0.1", "ip"),
            ("1.2.3.4.5", "'1.2.3.4.5': an IP address was expected"),
            ("256.1.1.1", "'256.1.1.1': an IP address was expected"),
            ("10..1", "'10..1': an IP address was expected"),
            ("[::1]", "'[::1]': an IP address was expected"),
            ("1.2.3.4:80", "'1.2.3.4:80': an IP address was expected"),
            (".", "'.': an IP address was expected"),
            ("1.example.com", "1.example.com"),
            (".Example.com", ".example.com"),
            ("env=Ok", "Ok"),
            ("ENV=!no", "!no"),
            (
                "example.com/8",
                "'example.com/8': an IP address was expected",
            ),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
