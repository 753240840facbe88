//! Sites derived from host names: by a pattern (`root = "/srv/%2/%1"`), or by a row of the
//! `[hosts]` database.
//!
//! Called by: the phase `select_host`, at the first request for a name.
//! Caveat: everything that a row does not override is shared with the configured site, so that ten
//! thousand hosts cost little more than their names and roots. State that depends on identity
//! (upstream pools, rate-limit accounts) is created once per host, not per request. Clients choose
//! names: without a row, a name that has neither a directory nor a socket leaves nothing behind.
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
    cell::RefCell,
    hash::BuildHasher,
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const SHARDS: usize = 16;
/// Sample size for eviction: the least recently used host of the sample goes.
const SAMPLE: usize = 8;

/// Derived sites, shared by all workers.
#[derive(Debug)]
pub struct DerivedSites {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    hosts_max: usize,
    /// Usage of the hosts whose sites are not kept, by the index of the configured site.
    strangers: Mutex<Vec<(usize, HostAccounts)>>,
}

#[derive(Debug, Default)]
struct Shard {
    hosts: HashMap<Box<str>, Host, RandomState>,
    /// Counts look-ups.
    clock: u64,
}

#[derive(Debug, Default)]
struct Host {
    /// The look-up that used it last.
    used: u64,
    made: Vec<Made>,
    /// Usage by the index of the configured site: all ports and rows have it in common.
    accounts: Vec<(usize, HostAccounts)>,
}

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
            strangers: Mutex::default(),
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
        if let Some(site) = lock(shard).find(index, host, port, row) {
            return site;
        }
        let bare_row = row.map(|row| &**row);
        if row.is_none() && !is_there(of, by_host, host, port) {
            let account = account(&mut lock(&self.strangers), index);
            return Arc::new(derive(of, by_host, (host, port), None, account));
        }
        let mut shard = lock(shard);
        // Another worker may have been faster.
        if let Some(site) = shard.find(index, host, port, row) {
            return site;
        }
        shard.make_room(host, self.hosts_max);
        let clock = shard.clock;
        let one = shard.hosts.entry(host.into()).or_default();
        one.used = clock;
        let account = account(&mut one.accounts, index);
        let site = Arc::new(derive(of, by_host, (host, port), bare_row, account));
        // An older row of the same host is obsolete.
        one.made
            .retain(|made| made.index != index || made.port != port);
        one.made.push(Made {
            index,
            row: row.cloned(),
            port,
            site: Arc::clone(&site),
        });
        one.made.shrink_to_fit();
        site
    }

    /// Returns the number of derived sites and their approximate size in memory.
    pub fn counts(&self) -> (usize, usize) {
        let mut sums = (0, 0);
        for shard in &self.shards {
            for (name, host) in &lock(shard).hosts {
                let each = |made: &Made| mem::size_of::<Made>() + bytes(&made.site);
                sums.0 += host.made.len();
                sums.1 += 2 * name.len()
                    + mem::size_of::<(Box<str>, Host)>()
                    + host.accounts.len() * mem::size_of::<(usize, HostAccounts)>()
                    + host.made.iter().map(each).sum::<usize>();
            }
        }
        sums
    }
}

impl Shard {
    fn find(
        &mut self,
        index: usize,
        host: &str,
        port: u16,
        row: Option<&Arc<HostRow>>,
    ) -> Option<Arc<Site>> {
        self.clock += 1;
        let is_same =
            |made: &&Made| made.index == index && made.port == port && same(made.row.as_ref(), row);
        let host = self.hosts.get_mut(host)?;
        host.used = self.clock;
        host.made
            .iter()
            .find(is_same)
            .map(|made| Arc::clone(&made.site))
    }

    /// Evicts a host, if there is to be another one.
    fn make_room(&mut self, newest: &str, hosts_max: usize) {
        if self.hosts.len() < hosts_max || self.hosts.contains_key(newest) {
            return;
        }
        let sample = self.hosts.iter().take(SAMPLE);
        let oldest = sample.min_by_key(|(_, host)| host.used);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.hosts.remove(&name);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The account of a configured site.
fn account(all: &mut Vec<(usize, HostAccounts)>, index: usize) -> HostAccounts {
    if let Some((_, account)) = all.iter().find(|(of, _)| *of == index) {
        return account.clone();
    }
    let account = HostAccounts::default();
    all.push((index, account.clone()));
    account
}

/// True if the machine has something of the name: its directory, or its PHP socket.
fn is_there(of: &Site, by_host: &ByHost, host: &str, port: u16) -> bool {
    let root = by_host.root.as_ref();
    if root.is_some_and(|root| Path::new(&root.of(host, port)).is_dir()) {
        return true;
    }
    let routes = of.routes.iter().map(|route| &route.settings);
    let mut sockets = routes
        .chain([&of.settings])
        .filter_map(|settings| match &settings.php {
            PhpUse::ByHost(socket) => Some(socket.of(host, port)),
            _ => None,
        })
        .peekable();
    if sockets.peek().is_none() {
        return root.is_none();
    }
    // A network address tells nothing.
    sockets.any(|socket| match socket.strip_prefix("unix:") {
        Some(path) => Path::new(path).exists(),
        None => root.is_none(),
    })
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

fn derive(
    of: &Site,
    by_host: &ByHost,
    (host, port): (&str, u16),
    row: Option<&HostRow>,
    account: HostAccounts,
) -> Site {
    let by_pattern = |pattern: &HostPattern| PathBuf::from(pattern.of(host, port));
    let root = row.and_then(|row| row.root.as_deref()).map(PathBuf::from);
    let changes = Changes::new(&of.settings, (host, port), row, account);
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
        local_addresses: of.local_addresses.clone(),
        listeners: of.listeners.clone(),
        is_by_address: of.is_by_address.clone(),
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
    /// Old and new settings so far: routes that share settings go on to do so.
    made: RefCell<Vec<(Arc<Settings>, Arc<Settings>)>>,
}

impl Changes {
    fn new(
        of: &Settings,
        (host, port): (&str, u16),
        row: Option<&HostRow>,
        account: HostAccounts,
    ) -> Changes {
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
            account: has_account.then_some(account),
            place: LimitPlace(limit_number(&[b"host ", host.as_bytes()])),
            made: RefCell::default(),
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
        let mut made = self.made.borrow_mut();
        if let Some((_, new)) = made.iter().find(|(old, _)| Arc::ptr_eq(old, settings)) {
            return Arc::clone(new);
        }
        let new = Arc::new(self.changed(settings, own, host, port));
        made.push((Arc::clone(settings), Arc::clone(&new)));
        new
    }

    fn changed(&self, settings: &Settings, own: &Settings, host: &str, port: u16) -> Settings {
        let mut new = settings.clone();
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
        new
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
        let site = derive(
            &template(),
            &by_host,
            ("www.example.org", 80),
            None,
            HostAccounts::default(),
        );
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
        let site = derive(
            &template(),
            &by_host,
            ("www.example.org", 80),
            Some(&row),
            HostAccounts::default(),
        );
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

    /// Keeps a host in use while a flood of others goes by.
    #[test]
    fn a_host_in_use_is_not_evicted() {
        let (sites, template, by_host) = (
            DerivedSites::new(SHARDS * 32),
            Site::new(Origin::built_in()),
            ByHost::default(),
        );
        let row = Arc::new(HostRow::default());
        let of = |host: &str| sites.site(0, &template, &by_host, host, 80, Some(&row));
        let first = of("a");
        for number in 0..10_000 {
            of(&format!("h{number}"));
            assert!(Arc::ptr_eq(&first, &of("a")), "{number}");
        }
    }

    #[test]
    fn names_without_a_directory_leave_nothing() {
        let folder = std::env::temp_dir().join(format!("saker-derived-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("real")).unwrap();
        let by_host = ByHost {
            root: HostPattern::parse(&format!("{}/%1", folder.display())),
            is_looked_up: false,
        };
        let (sites, template) = (DerivedSites::new(100_000), template());
        let of = |host: &str| sites.site(0, &template, &by_host, host, 80, None);
        for number in 0..10_000 {
            let site = of(&format!("h{number}.example"));
            let root = folder.join(format!("h{number}"));
            assert_eq!(site.root.as_deref(), Some(&*root));
        }
        assert_eq!(sites.counts(), (0, 0));
        assert!(Arc::ptr_eq(&of("real.example"), &of("real.example")));
        assert_eq!(sites.counts().0, 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_with_a_socket_are_kept() {
        let socket =
            std::env::temp_dir().join(format!("saker-derived-{}.sock", std::process::id()));
        std::fs::write(&socket, "").unwrap();
        let pattern = format!("unix:{}", socket.display()).replace("derived", "%1");
        let settings = Arc::new(Settings {
            php: PhpUse::ByHost(HostPattern::parse(&pattern).unwrap()),
            ..Settings::default()
        });
        let template = Site {
            settings,
            ..Site::new(Origin::built_in())
        };
        let sites = DerivedSites::new(32);
        let of = |host: &str| sites.site(0, &template, &ByHost::default(), host, 80, None);
        assert!(!Arc::ptr_eq(&of("other.example"), &of("other.example")));
        assert!(Arc::ptr_eq(&of("derived.example"), &of("derived.example")));
        std::fs::remove_file(&socket).unwrap();
    }

    #[test]
    fn settings_that_are_shared_stay_shared() {
        let row = HostRow {
            out_bytes_per_s: Some(1000),
            ..HostRow::default()
        };
        let template = template();
        let twice = Site {
            routes: [
                &template.routes[0],
                &template.routes[1],
                &template.routes[1],
            ]
            .map(Clone::clone)
            .into(),
            ..template.clone()
        };
        let (host, account) = (("www.example.org", 80), HostAccounts::default());
        let site = derive(&twice, &ByHost::default(), host, Some(&row), account);
        let routes = &site.routes;
        assert!(Arc::ptr_eq(&site.settings, &routes[0].settings));
        assert!(Arc::ptr_eq(&routes[1].settings, &routes[2].settings));
        assert!(!Arc::ptr_eq(&routes[0].settings, &routes[1].settings));
    }

    #[test]
    fn all_ports_of_a_host_have_one_account() {
        let (sites, template) = (DerivedSites::new(32), template());
        let row = |rate| {
            Arc::new(HostRow {
                out_bytes_per_s: Some(rate),
                ..HostRow::default()
            })
        };
        let (old, new) = (row(1000), row(2000));
        let account = |index: usize, host: &str, port: u16, row: &Arc<HostRow>| {
            let site = sites.site(index, &template, &ByHost::default(), host, port, Some(row));
            site.settings.throttle.host.clone().unwrap()
        };
        let first = account(0, "a.example", 80, &old);
        assert_eq!(first, account(0, "a.example", 443, &old));
        assert_eq!(first, account(0, "a.example", 80, &new));
        assert_ne!(first, account(0, "b.example", 80, &old));
        assert_ne!(first, account(1, "a.example", 80, &old));
    }
}
