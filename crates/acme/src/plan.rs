//! The configuration of automatic certificates.

use saker_config::{
    Model,
    model::{Acme, AcmeChallenge, Automatic, Site, SiteName},
};
use saker_dynamic_vhosts::Hosts;
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

/// Let's Encrypt signs no more names at once.
const NAMES_MAX: usize = 100;

/// Compared by identity.
#[derive(Clone, Debug)]
pub struct KnownHosts(pub Arc<Hosts>);

impl PartialEq for KnownHosts {
    fn eq(&self, other: &KnownHosts) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KnownHosts {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub acme: Acme,
    /// Accounts and certificates are in `acme` below it.
    pub state_dir: PathBuf,
    /// The names of each certificate, sorted; wildcards as `*.example.org`.
    pub certificates: Vec<Vec<String>>,
    /// Names that may have one at their first handshake.
    pub on_demand: Vec<SiteName>,
    /// Those of them that must be in the database of hosts.
    pub looked_up: Vec<SiteName>,
    pub known_hosts: Option<KnownHosts>,
    /// Ways that the listeners leave, in order of preference.
    pub(crate) ways: Vec<AcmeChallenge>,
}

impl Plan {
    pub fn new(model: &Model) -> Plan {
        let has_listener = |tls: bool| {
            model
                .listeners
                .iter()
                .filter(|listener| tls || listener.stream.is_none())
                .any(|listener| listener.tls.is_some() == tls)
        };
        let is_possible = |way: &AcmeChallenge| match way {
            AcmeChallenge::Http01 => has_listener(false),
            AcmeChallenge::TlsAlpn01 => has_listener(true),
            AcmeChallenge::Dns01 => model.tls.acme.dns_command.is_some(),
        };
        let with = |automatic: Automatic| {
            model
                .sites
                .iter()
                .filter(move |site| site.tls.automatic == automatic)
        };
        let listed: Vec<Vec<String>> = model
            .tls
            .acme
            .certificates
            .iter()
            .filter(|names| !names.is_empty())
            .cloned()
            .collect();
        Plan {
            acme: model.tls.acme.clone(),
            state_dir: model
                .tls
                .acme
                .folder
                .clone()
                .unwrap_or_else(|| model.server.state_dir.clone()),
            certificates: with(Automatic::On)
                .flat_map(|site| certificates(site, &listed))
                .chain(listed.iter().cloned())
                .collect(),
            on_demand: with(Automatic::OnDemand)
                .flat_map(|site| site.names.clone())
                .collect(),
            looked_up: with(Automatic::OnDemand)
                .filter(|site| is_looked_up(site))
                .flat_map(|site| site.names.clone())
                .collect(),
            known_hosts: None,
            ways: model
                .tls
                .acme
                .challenges
                .iter()
                .copied()
                .filter(is_possible)
                .collect(),
        }
    }

    pub fn with_known_hosts(self, known_hosts: Option<Arc<Hosts>>) -> Plan {
        Plan {
            known_hosts: known_hosts.map(KnownHosts),
            ..self
        }
    }

    /// True if the database has to know a name, since the site that it belongs to looks hosts up
    /// there.
    pub(crate) fn asks_database(&self, name: &str) -> bool {
        let nearest = |patterns: &[SiteName]| {
            patterns
                .iter()
                .filter_map(|pattern| nearness(pattern, name))
                .max()
        };
        nearest(&self.looked_up)
            .is_some_and(|own| nearest(&self.on_demand).is_none_or(|best| own >= best))
    }

    /// True if there is anything to do.
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty() && self.on_demand.is_empty()
    }

    /// The name as certificates have it, if it may have one on demand.
    pub(crate) fn on_demand_name(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let is_meant = |pattern: &SiteName| nearness(pattern, name).is_some();
        (is_host(name) && self.on_demand.iter().any(is_meant)).then(|| name.to_owned())
    }
}

/// Specificity of a pattern for a name; `None` if it does not match.
fn nearness(pattern: &SiteName, name: &str) -> Option<usize> {
    match pattern {
        SiteName::Any => Some(0),
        SiteName::Exact(exact) => (exact == name).then_some(usize::MAX),
        SiteName::Wildcard(parent) => {
            let rest = name.strip_suffix(parent.as_str())?;
            (rest.len() > 1 && rest.ends_with('.')).then_some(parent.len())
        }
    }
}

fn is_looked_up(site: &Site) -> bool {
    site.by_host
        .as_ref()
        .is_some_and(|by_host| by_host.is_looked_up)
}

/// Certificates that the site needs and that are not listed yet.
fn certificates(site: &Site, listed: &[Vec<String>]) -> Vec<Vec<String>> {
    let is_new = |name: &String| !listed.iter().any(|names| names.contains(name));
    let names: BTreeSet<String> = site.names.iter().filter_map(shown).filter(is_new).collect();
    let names: Vec<String> = names.into_iter().collect();
    names.chunks(NAMES_MAX).map(<[String]>::to_vec).collect()
}

fn shown(name: &SiteName) -> Option<String> {
    match name {
        SiteName::Exact(name) => Some(name.trim_matches(['[', ']']).to_owned()),
        SiteName::Wildcard(name) => Some(format!("*.{name}")),
        SiteName::Any => None,
    }
}

/// A name that a public authority could look up: at least two labels of letters, digits and
/// hyphens, the last not a number.
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 253
        && name.contains('.')
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn plan(text: &str) -> Plan {
        Plan::new(
            &saker_config::parse(text, "saker.toml", Path::new("/"))
                .unwrap_or_else(|problems| panic!("{problems}"))
                .model,
        )
    }

    const LISTENERS: &str =
        "[[listener]]\naddress = \":80\"\n[[listener]]\naddress = \":443\"\ntls = true\n";

    #[test]
    fn one_certificate_for_each_site() {
        let plan = plan(&format!(
            "[acme]\ndns_command = \"x\"\n{LISTENERS}[[site]]\nnames = [\"www.b.example\", \"*.b.example\", \"b.example\"]\nroot = \"/\"\ntls.automatic = true\n\
             [[site]]\nnames = [\"plain.example\"]\nroot = \"/\"\n"
        ));
        assert_eq!(
            plan.certificates,
            [["*.b.example", "b.example", "www.b.example"]]
        );
        assert_eq!(
            plan.ways,
            [
                AcmeChallenge::Dns01,
                AcmeChallenge::TlsAlpn01,
                AcmeChallenge::Http01
            ]
        );
        assert!(plan.on_demand.is_empty() && !plan.is_empty());
    }

    #[test]
    fn ways_that_the_listeners_leave() {
        let site = "[[site]]\nnames = [\"b.example\"]\nroot = \"/\"\ntls.automatic = true\n";
        let plan = plan(&format!(
            "[[listener]]\naddress = \":443\"\ntls = true\n{site}"
        ));
        assert_eq!(plan.ways, [AcmeChallenge::TlsAlpn01]);
    }

    #[test]
    fn many_names_are_several_certificates() {
        let names: Vec<String> = (0..NAMES_MAX + 1)
            .map(|number| format!("\"h{number}.example\""))
            .collect();
        let plan = plan(&format!(
            "{LISTENERS}[[site]]\nnames = [{}]\nroot = \"/\"\ntls.automatic = true\n",
            names.join(", ")
        ));
        assert_eq!(
            plan.certificates.iter().map(Vec::len).collect::<Vec<_>>(),
            [NAMES_MAX, 1]
        );
    }

    #[test]
    fn names_that_the_database_has_to_know() {
        let base = plan("[[listener]]\naddress = \":80\"\n[[site]]\nroot = \"/\"\n");
        let names = |texts: &[&str]| {
            let read = |text: &&str| {
                text.strip_prefix("*.")
                    .map_or(SiteName::Exact((*text).into()), |rest| {
                        SiteName::Wildcard(rest.into())
                    })
            };
            texts.iter().map(read).collect::<Vec<_>>()
        };
        let mut plan = Plan {
            on_demand: names(&["*.c.example", "own.c.example", "*.d.c.example"]),
            looked_up: names(&["*.c.example"]),
            ..base
        };
        for (name, expected) in [
            ("a.c.example", true),
            ("own.c.example", false),
            ("a.d.c.example", false),
            ("e.example", false),
        ] {
            assert_eq!(plan.asks_database(name), expected, "{name}");
        }
        plan.looked_up = vec![SiteName::Any];
        assert!(plan.asks_database("e.example") && !plan.asks_database("a.c.example"));
    }

    #[test]
    fn names_on_demand() {
        let plan = plan(&format!(
            "[acme]\nask = \"http://127.0.0.1:1/\"\n{LISTENERS}[[site]]\nnames = [\"*.c.example\", \"d.example\"]\nroot = \"/\"\ntls.automatic = \"on-demand\"\n"
        ));
        for good in ["a.c.example", "A.B.C.Example.", "d.example"] {
            assert!(plan.on_demand_name(good).is_some(), "{good}");
        }
        for bad in [
            "c.example",
            ".c.example",
            "xc.example",
            "e.example",
            "-.c.example",
            "a_b.c.example",
            "*.c.example",
            "a b.c.example",
            "",
        ] {
            assert!(plan.on_demand_name(bad).is_none(), "{bad}");
        }
        let any = Plan {
            on_demand: vec![SiteName::Any],
            ..plan
        };
        for bad in [
            "localhost",
            "192.0.2.1",
            "a..b",
            "2001:db8::1",
            &format!("{}.example", "a".repeat(64)),
        ] {
            assert!(any.on_demand_name(bad).is_none(), "{bad}");
        }
    }
}
