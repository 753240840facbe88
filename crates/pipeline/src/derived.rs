//! Sites derived from host names: by a pattern (`root = "/srv/%2/%1"`), or by a row of the
//! `[hosts]` database.
//!
//! Called by: the phase `select_host`, at the first request for a name.
//! Caveat: everything that a row does not override is shared with the configured site, so that ten
//! thousand hosts cost little more than their names and roots. State that depends on identity
//! (upstream pools, rate-limit accounts) is created once per host, not per request.
//! Out of scope: queries of the database (`saker-dynamic-vhosts`).

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use saker_config::{
    model::{
        ByHost, Excess, HostAccounts, HostPattern, LimitKind, LimitPlace, PhpUse, ProgramUser,
        Rate, RequestRate, Settings, Site, SiteName, Throttle, limit_number,
    },
    parse_php_use,
};
use saker_dynamic_vhosts::HostRow;
use std::{
    hash::BuildHasher,
    mem,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

const SHARDS: usize = 16;

/// Derived sites, shared by all workers.
#[derive(Debug)]
pub struct DerivedSites {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    hosts_max: usize,
}

/// Derived sites by host name.
type Shard = HashMap<Box<str>, Vec<Made>, RandomState>;

#[derive(Debug)]
struct Made {
    /// Index of the configured site.
    index: usize,
    row: Option<Arc<HostRow>>,
    port: u16,
    site: Arc<Site>,
}

impl DerivedSites {
    pub fn new(hosts_max: usize) -> DerivedSites {
        DerivedSites {
            shards: Default::default(),
            hasher: RandomState::default(),
            hosts_max: hosts_max.div_ceil(SHARDS),
        }
    }

    /// Returns the site of a host. `port` is the local port of the connection.
    pub fn site(
        &self,
        index: usize,
        of: &Site,
        by_host: &ByHost,
        host: &str,
        port: u16,
        row: Option<&Arc<HostRow>>,
    ) -> Arc<Site> {
        let at = (self.hasher.hash_one(host) >> 32) as usize % SHARDS;
        let shard = self.shards.get(at).unwrap_or(&self.shards[0]);
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |made: &&Made| made.index == index && made.port == port && same(made.row.as_ref(), row);
        if let Some(made) = shard.get(host).and_then(|all| all.iter().find(is_same)) {
            return Arc::clone(&made.site);
        }
        let site = Arc::new(derive(of, by_host, host, port, row.map(|row| &**row)));
        if shard.len() >= self.hosts_max
            && let Some(other) = shard.keys().next().cloned()
        {
            shard.remove(&other);
        }
        let all = shard.entry(host.into()).or_default();
        // An older row of the same host is obsolete.
        all.retain(|made| made.index != index || made.port != port);
        all.push(Made {
            index,
            row: row.cloned(),
            port,
            site: Arc::clone(&site),
        });
        all.shrink_to_fit();
        site
    }

    /// Returns the number of derived sites and their approximate size in memory.
    pub fn counts(&self) -> (usize, usize) {
        let mut sums = (0, 0);
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (name, all) in shard.iter() {
                let each = |made: &Made| mem::size_of::<Made>() + bytes(&made.site);
                sums.0 += all.len();
                sums.1 += 2 * name.len()
                    + mem::size_of::<(Box<str>, Vec<Made>)>()
                    + all.iter().map(each).sum::<usize>();
            }
        }
        sums
    }
}

/// Approximate size of a site, with the settings that it does not share.
fn bytes(site: &Site) -> usize {
    let own = if site.settings.throttle.host.is_some() || Arc::strong_count(&site.settings) == 1 {
        mem::size_of::<Settings>()
    } else {
        0
    };
    mem::size_of::<Site>()
        + own
        + site.root.as_ref().map_or(0, |root| root.as_os_str().len())
        + mem::size_of::<SiteName>()
}

fn same(one: Option<&Arc<HostRow>>, other: Option<&Arc<HostRow>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

fn derive(of: &Site, by_host: &ByHost, host: &str, port: u16, row: Option<&HostRow>) -> Site {
    let by_pattern = |pattern: &HostPattern| PathBuf::from(pattern.of(host, port));
    let root = row.and_then(|row| row.root.as_deref()).map(PathBuf::from);
    let changes = Changes::new(&of.settings, host, port, row);
    let routes =
        match changes.is_empty() && !of.routes.iter().any(|route| is_by_host(&route.settings)) {
            true => of.routes.clone(),
            false => of
                .routes
                .with_settings(|route| changes.over(&route.settings, &of.settings, host, port)),
        };
    Site {
        // The first name identifies the owner of cached pages.
        names: vec![SiteName::Exact(host.into())],
        root: root
            .or_else(|| by_host.root.as_ref().map(by_pattern))
            .or_else(|| of.root.clone()),
        settings: changes.over(&of.settings, &of.settings, host, port),
        routes,
        patterns: Vec::new(),
        legacy_path: None,
        local_addresses: Vec::new(),
        listeners: Vec::new(),
        access_logs: Vec::new(),
        error_log: of.error_log.clone(),
        inner_error_logs: of.inner_error_logs.clone(),
        forensic_log: of.forensic_log.clone(),
        canonical_name: of.canonical_name.clone(),
        by_host: None,
        tls: Arc::clone(&of.tls),
        limits: of.limits.clone(),
        canonical_port: of.canonical_port,
        https_redirect: of.https_redirect,
        is_for_peers: of.is_for_peers,
        live_redirects: of.live_redirects.clone(),
        origin: of.origin.clone(),
    }
}

fn is_by_host(settings: &Settings) -> bool {
    matches!(settings.php, PhpUse::ByHost(_))
}

/// Overrides of the settings of a site and its routes.
struct Changes {
    php: Option<PhpUse>,
    user: Option<ProgramUser>,
    out_site: Option<Rate>,
    requests: Option<RequestRate>,
    at_a_time: Option<u64>,
    account: Option<HostAccounts>,
    /// The place that sets limits: the row.
    place: LimitPlace,
}

impl Changes {
    fn new(of: &Settings, host: &str, port: u16, row: Option<&HostRow>) -> Changes {
        let row = row.cloned().unwrap_or_default();
        let said = row.php.and_then(|php| parse_php_use(&php).ok());
        let user = row.user.map(|user| ProgramUser {
            user: user.into(),
            group: row.group.map(Into::into),
        });
        let out_site = row.out_bytes_per_s.map(|bytes_per_s| Rate {
            bytes_per_s,
            burst_bytes: bytes_per_s,
            after_bytes: 0,
        });
        let requests = row.requests_per_1000_s.map(|per_1000_s| RequestRate {
            per_1000_s,
            burst: (per_1000_s / 1000).max(1),
            excess: Excess::Refuse,
        });
        let has_account = out_site.is_some() || of.throttle.out_site.is_some();
        let php = said.or_else(|| by_name(&of.php, host, port));
        Changes {
            php,
            user,
            out_site,
            requests,
            at_a_time: row.at_a_time_address,
            account: has_account.then(HostAccounts::default),
            place: LimitPlace(limit_number(&[b"host ", host.as_bytes()])),
        }
    }

    fn is_empty(&self) -> bool {
        self.php.is_none()
            && self.user.is_none()
            && self.requests.is_none()
            && self.at_a_time.is_none()
            && self.account.is_none()
    }

    /// Applies the overrides. `own` are the settings of the site: a route that configures PHP
    /// differently keeps its setting.
    fn over(
        &self,
        settings: &Arc<Settings>,
        own: &Settings,
        host: &str,
        port: u16,
    ) -> Arc<Settings> {
        if self.is_empty() && !is_by_host(settings) {
            return Arc::clone(settings);
        }
        let mut new = Settings::clone(settings);
        match &self.php {
            Some(php) if is_same_php(&settings.php, &own.php) => new.php = php.clone(),
            _ => new.php = by_name(&settings.php, host, port).unwrap_or(new.php),
        }
        new.program_user = self.user.clone().or(new.program_user);
        let mut places = new.throttle.places;
        if self.requests.is_some() {
            places.set(LimitKind::StaticRequests, self.place);
            places.set(LimitKind::DynamicRequests, self.place);
        }
        if self.at_a_time.is_some() {
            places.set(LimitKind::AtATimeAddress, self.place);
        }
        let throttle = Throttle {
            places,
            out_site: self.out_site.or(new.throttle.out_site),
            static_requests: self.requests.or(new.throttle.static_requests),
            dynamic_requests: self.requests.or(new.throttle.dynamic_requests),
            at_a_time_address: self.at_a_time.unwrap_or(new.throttle.at_a_time_address),
            host: self.account.clone(),
            ..new.throttle
        };
        new.throttle = throttle;
        Arc::new(new)
    }
}

/// Expands a PHP socket path that contains parts of the host name. An expansion that is not a valid
/// path disables PHP.
fn by_name(php: &PhpUse, host: &str, port: u16) -> Option<PhpUse> {
    let PhpUse::ByHost(pattern) = php else {
        return None;
    };
    // A host name contains no percent sign, but `%%` in the pattern expands to one.
    Some(parse_php_use(&pattern.of(host, port)).unwrap_or_default())
}

fn is_same_php(one: &PhpUse, other: &PhpUse) -> bool {
    match (one, other) {
        (PhpUse::Upstream(one), PhpUse::Upstream(other)) => Arc::ptr_eq(one, other),
        (PhpUse::ByHost(one), PhpUse::ByHost(other)) => one == other,
        (PhpUse::Off, PhpUse::Off) | (PhpUse::Managed, PhpUse::Managed) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{Action, Origin, PathPattern, Route};
    use std::path::Path;

    fn template() -> Site {
        let settings = Arc::new(Settings {
            php: PhpUse::ByHost(HostPattern::parse("unix:/run/%1.sock").unwrap()),
            ..Settings::default()
        });
        let other = Arc::new(Settings::default());
        let route = |path: &str, settings: &Arc<Settings>| {
            let pattern = PathPattern::Prefix(path.into());
            Route::new(
                pattern,
                Action::Files,
                Arc::clone(settings),
                Origin::built_in(),
            )
        };
        Site {
            routes: [route("/a/", &settings), route("/plain/", &other)].into(),
            settings,
            ..Site::new(Origin::built_in())
        }
    }

    fn address(settings: &Settings) -> String {
        match &settings.php {
            PhpUse::Upstream(upstream) => upstream.members[0].backend.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn by_the_name_alone() {
        let by_host = ByHost {
            root: HostPattern::parse("/srv/%2/%1"),
            is_looked_up: false,
        };
        let site = derive(&template(), &by_host, "www.example.org", 80, None);
        assert_eq!(site.root.as_deref(), Some(Path::new("/srv/example/www")));
        assert_eq!(address(&site.settings), "fcgi at unix:/run/www.sock");
        assert_eq!(
            address(&site.routes[0].settings),
            "fcgi at unix:/run/www.sock"
        );
        assert_eq!(address(&site.routes[1].settings), "Off");
    }

    #[test]
    fn what_the_row_says_goes_before() {
        let by_host = ByHost {
            root: HostPattern::parse("/srv/%0"),
            is_looked_up: true,
        };
        let row = HostRow {
            root: Some(Path::new("/srv/own").into()),
            php: Some("unix:/run/own.sock".into()),
            user: Some("bob".into()),
            out_bytes_per_s: Some(1000),
            at_a_time_address: Some(7),
            ..HostRow::default()
        };
        let site = derive(&template(), &by_host, "www.example.org", 80, Some(&row));
        assert_eq!(site.root.as_deref(), Some(Path::new("/srv/own")));
        for settings in [&site.settings, &site.routes[0].settings] {
            assert_eq!(address(settings), "fcgi at unix:/run/own.sock");
            assert_eq!(
                settings.throttle.out_site.map(|rate| rate.bytes_per_s),
                Some(1000)
            );
            assert_eq!(
                (&settings.throttle.host, settings.throttle.at_a_time_address),
                (&site.settings.throttle.host, 7)
            );
        }
        assert_eq!(address(&site.routes[1].settings), "Off");
        assert_eq!(
            site.settings
                .program_user
                .as_ref()
                .map(|user| user.user.as_str()),
            Some("bob")
        );
    }

    #[test]
    fn a_site_is_made_once_for_each_row() {
        let (sites, template, by_host) = (
            DerivedSites::new(32),
            Site::new(Origin::built_in()),
            ByHost::default(),
        );
        let (old, new) = (Arc::new(HostRow::default()), Arc::new(HostRow::default()));
        let of = |host: &str, row: &Arc<HostRow>| {
            sites.site(0, &template, &by_host, host, 80, Some(row))
        };
        let first = of("a", &old);
        assert!(
            Arc::ptr_eq(&first, &of("a", &old))
                && !Arc::ptr_eq(&first, &of("a", &new))
                && !Arc::ptr_eq(&first, &of("b", &old))
        );
        assert!(
            Arc::ptr_eq(&first.settings, &template.settings),
            "what is the same is shared"
        );
        (0..1000).for_each(|number| drop(of(&format!("h{number}"), &old)));
        assert!(sites.counts().0 <= 32);
    }
}
