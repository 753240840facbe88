//! Every route without credentials, with each role, from foreign sites, and for foreign hosts.

use super::*;
use crate::{
    exchange::Form,
    route_table::routes,
    sessions::Proof,
    users::{Change, change_users},
};
use saker_http::{RequestHead, Version};
use std::{collections::HashMap, path::PathBuf};

struct Fixture {
    state: ConsoleState,
    console: Console,
    cookies: HashMap<Role, String>,
    folder: PathBuf,
    tokens: HashMap<Role, String>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("a folder");
        let (state, path) = (ConsoleState::default(), folder.join("users"));
        let (mut cookies, mut tokens) = (HashMap::new(), HashMap::new());
        for role in Role::ALL {
            let token = format!("saker_{}", role.name());
            let change = Change::SetToken {
                name: role.name().into(),
                role,
                site: (role == Role::Owner).then(|| "a.example".to_owned()),
                token: token.clone(),
            };
            change_users(&path, &change).expect("written");
            tokens.insert(role, format!("Bearer {token}"));
            let user = Change::SetUser {
                name: role.name().into(),
                role,
                site: (role == Role::Owner).then(|| "a.example".to_owned()),
                password: "x".into(),
                totp: None,
            };
            change_users(&path, &user).expect("written");
        }
        state.refresh_users(&path).expect("read");
        for role in Role::ALL {
            let stamp = state
                .users
                .borrow()
                .user(role.name())
                .map(|user| Proof::Account(user.stamp))
                .expect("a user");
            let begun = state
                .sessions
                .borrow_mut()
                .begin(role.name(), role, stamp, 0);
            cookies.insert(role, format!("saker-console={}", begun.expect("begun")));
        }
        let console = Console {
            names: vec!["console.example.org".into()],
            ..Console::default()
        };
        Fixture {
            state,
            console,
            cookies,
            folder,
            tokens,
        }
    }

    /// The status of the answer; 0: the request is admitted.
    fn status(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> u16 {
        let mut all = fields.to_vec();
        if !fields.iter().any(|(name, _)| *name == "Host") {
            all.push(("Host", "127.0.0.1:7080"));
        }
        let request = Request {
            head: RequestHead::build(method, path, Version::Http11, &all),
            path: path.into(),
            query: Form::default(),
            body: Vec::new(),
            client: IpAddr::from([127, 0, 0, 1]),
            is_secure: false,
        };
        match admit(&request, &self.console, &self.state, 0) {
            Ok(_) => 0,
            Err(response) => response.status,
        }
    }
}

const OWN: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

#[test]
fn no_route_is_open_without_credentials() {
    let fixture = Fixture::new("gate-anonymous");
    let mut closed = 0;
    for route in routes() {
        let status = fixture.status(route.method, route.path, &[OWN]);
        let is_api = route.path.starts_with("/api/");
        let expected = match route.access {
            Access::Public => 0,
            _ if is_api => 401,
            _ => 303,
        };
        assert_eq!(status, expected, "{} {}", route.method, route.path);
        closed += usize::from(expected != 0);
        for wrong in [
            ("Cookie", "saker-console="),
            ("Cookie", "saker-console=a.b"),
            ("Authorization", "Bearer saker_x"),
            ("Authorization", "Basic YTpi"),
        ] {
            let status = fixture.status(route.method, route.path, &[OWN, wrong]);
            assert_eq!(status, expected, "{} {wrong:?}", route.path);
        }
    }
    assert!(closed > 20, "{closed}");
    // What is not there looks the same.
    assert_eq!(fixture.status("GET", "/nothing", &[OWN]), 303);
    assert_eq!(fixture.status("GET", "/api/v1/nothing", &[OWN]), 401);
    assert_eq!(fixture.status("DELETE", "/api/v1/status", &[OWN]), 401);
}

#[test]
fn each_role_has_its_routes_and_no_others() {
    let fixture = Fixture::new("gate-roles");
    for route in routes() {
        let (needed, is_of_sites) = match route.access {
            Access::Public => continue,
            Access::Role(needed) => (needed, false),
            Access::Site(needed) => (needed, true),
        };
        for role in Role::ALL {
            let is_right = role >= needed || is_of_sites && role == Role::Owner;
            let expected = if is_right { 0 } else { 403 };
            let cookie = ("Cookie", fixture.cookies[&role].as_str());
            let status = fixture.status(route.method, route.path, &[OWN, cookie]);
            assert_eq!(status, expected, "{role:?} {} {}", route.method, route.path);
            let token = ("Authorization", fixture.tokens[&role].as_str());
            let status = fixture.status(route.method, route.path, &[token]);
            // Tokens are for the API alone.
            let expected = match route.path.starts_with("/api/") {
                true => expected,
                false if route.method == "POST" => 403,
                false => 303,
            };
            assert_eq!(
                status, expected,
                "token {role:?} {} {}",
                route.method, route.path
            );
        }
    }
    let cookie = ("Cookie", fixture.cookies[&Role::Viewer].as_str());
    assert_eq!(fixture.status("GET", "/nothing", &[OWN, cookie]), 404);
    assert_eq!(fixture.status("POST", "/", &[OWN, cookie]), 405);
    // A wrong token is not made good by a cookie.
    let wrong = ("Authorization", "Bearer saker_x");
    assert_eq!(
        fixture.status("GET", "/api/v1/status", &[OWN, cookie, wrong]),
        401
    );
}

#[test]
fn foreign_hosts_are_refused_before_anything_else() {
    let fixture = Fixture::new("gate-hosts");
    let cookie = ("Cookie", fixture.cookies[&Role::Administrator].as_str());
    for host in [
        "127.0.0.1",
        "127.0.0.1:7080",
        "[::1]:7080",
        "localhost:7080",
        "LOCALHOST",
        "console.example.org",
        "Console.Example.org:7080",
    ] {
        assert_eq!(
            fixture.status("GET", "/", &[OWN, cookie, ("Host", host)]),
            0,
            "{host}"
        );
    }
    for host in [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "console.example.org.",
        "console.example.org.evil.example",
        "evil.example:7080",
        "user@127.0.0.1",
    ] {
        for route in routes() {
            let status = fixture.status(route.method, route.path, &[OWN, cookie, ("Host", host)]);
            assert_eq!(status, 421, "{host} {}", route.path);
        }
    }
    let two = [OWN, cookie, ("Host", "127.0.0.1"), ("Host", "evil.example")];
    assert_eq!(fixture.status("GET", "/", &two), 421);
}

#[test]
fn foreign_sites_change_nothing_and_read_nothing() {
    let fixture = Fixture::new("gate-sites");
    let cookie = ("Cookie", fixture.cookies[&Role::Administrator].as_str());
    let own = ("Origin", "http://127.0.0.1:7080");
    for route in routes().filter(|route| route.method == "POST") {
        let status = |fields: &[(&str, &str)]| {
            let mut all = vec![cookie];
            all.extend_from_slice(fields);
            fixture.status("POST", route.path, &all)
        };
        assert_eq!(
            (status(&[own]), status(&[OWN]), status(&[OWN, own])),
            (0, 0, 0),
            "{}",
            route.path
        );
        for foreign in [
            &[][..],
            &[("Origin", "null")],
            &[("Origin", "http://evil.example")],
            &[("Origin", "http://127.0.0.1:7081")],
            &[("Origin", "http://127.0.0.1:7080.evil.example")],
            &[("Origin", "ftp://127.0.0.1:7080")],
            &[("Sec-Fetch-Site", "cross-site")],
            &[("Sec-Fetch-Site", "same-site")],
            &[("Sec-Fetch-Site", "none")],
            &[("Sec-Fetch-Site", "cross-site"), own],
            &[OWN, ("Origin", "http://evil.example")],
            &[OWN, ("Sec-Fetch-Site", "cross-site")],
            &[own, ("Origin", "http://evil.example")],
        ] {
            assert_eq!(status(foreign), 403, "{} {foreign:?}", route.path);
        }
    }
    let navigates = [
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    for site in ["cross-site", "same-site"] {
        let site = ("Sec-Fetch-Site", site);
        assert_eq!(
            fixture.status("GET", "/", &[cookie, site, navigates[0], navigates[1]]),
            0
        );
        let framed = [cookie, site, navigates[0], ("Sec-Fetch-Dest", "iframe")];
        assert_eq!(fixture.status("GET", "/", &framed), 403);
        assert_eq!(fixture.status("GET", "/", &[cookie, site]), 403);
        for path in [
            "/cache/image",
            "/api/v1/status",
            "/api/v1/live/events",
            "/assets/console.js",
        ] {
            let fields = [cookie, site, navigates[0], navigates[1]];
            assert_eq!(fixture.status("GET", path, &fields), 403, "{path}");
        }
    }
    assert_eq!(
        fixture.status(
            "GET",
            "/api/v1/status",
            &[cookie, ("Origin", "http://evil.example")]
        ),
        403
    );
    assert_eq!(fixture.status("GET", "/api/v1/status", &[cookie]), 0);
}

#[test]
fn planted_cookies_beside_the_own_one_are_none() {
    let fixture = Fixture::new("gate-cookies");
    let own = fixture.cookies[&Role::Viewer].as_str();
    let both = format!("{own}; saker-console=planted");
    assert_eq!(fixture.status("GET", "/", &[OWN, ("Cookie", own)]), 0);
    assert_eq!(fixture.status("GET", "/", &[OWN, ("Cookie", &both)]), 303);
    assert_eq!(
        fixture.status(
            "GET",
            "/",
            &[OWN, ("Cookie", own), ("Cookie", "saker-console=x")]
        ),
        303
    );
    let other = format!("theme=dark; {own}; a");
    assert_eq!(fixture.status("GET", "/", &[OWN, ("Cookie", &other)]), 0);
}

#[test]
fn owners_have_few_routes_and_a_site() {
    let fixture = Fixture::new("gate-owners");
    let own: Vec<&str> = routes()
        .filter(|route| matches!(route.access, Access::Site(_)))
        .map(|route| route.path)
        .collect();
    assert_eq!(
        own,
        [
            "/logout",
            "/passkeys",
            "/passkeys/add",
            "/passkeys/remove",
            "/requests",
            "/cache",
            "/cache/entry",
            "/cache/image",
            "/cache/purge",
            "/site",
            "/site/propose",
            "/site/apply",
            "/site/confirm",
            "/site/roll-back",
            "/cache/warm",
            "/cache/warm",
            "/redirects",
            "/redirects/change",
            "/api/v1/requests/events",
            "/api/v1/cache",
            "/api/v1/cache/entries",
            "/api/v1/cache/body",
            "/api/v1/cache/purge",
            "/api/v1/cache/warm",
            "/api/v1/cache/warm",
            "/api/v1/cache/warm/stop",
            "/api/v1/redirects",
            "/api/v1/redirects/add",
            "/api/v1/redirects/remove",
            "/api/v1/site/settings",
            "/api/v1/site/apply",
            "/api/v1/site/confirm",
            "/api/v1/site/roll-back"
        ]
    );
    let token = fixture.tokens[&Role::Owner].trim_start_matches("Bearer ");
    let identity = fixture.state.token_identity(token).expect("an identity");
    assert_eq!(identity.site.as_deref(), Some("a.example"));
    let cookie = fixture.cookies[&Role::Owner]
        .split_once('=')
        .expect("a cookie")
        .1;
    let identity = fixture
        .state
        .session_identity(cookie, 0)
        .expect("an identity");
    assert_eq!(identity.site.as_deref(), Some("a.example"));
}
