//! `sticky` of nginx configurations. Debian's nginx does not have it in its open-source part, so the
//! documentation decides, and only Saker is asked.
//!
//! Called by: `cargo test -p saker --test applications nginx_sticky`.

use crate::operate;
use saker_testkit::{Client, Response, ServerProcess, TempDir, free_port};
use std::{collections::BTreeSet, net::SocketAddr, process::Command};

struct Site {
    _dir: TempDir,
    saker: ServerProcess,
}

/// Two members that say their letter and set the cookie `sid`, and locations for each form.
fn start(name: &str) -> Site {
    let dir = TempDir::new(name).unwrap();
    let [address, first, second] =
        [0; 3].map(|_| SocketAddr::from(([127, 0, 0, 1], free_port().unwrap())));
    let user = match rustix::process::geteuid().is_root() {
        true => "user www-data;\n",
        false => "",
    };
    let member = |address: SocketAddr, letter: &str| {
        format!(
            "server {{ listen {address}; add_header Set-Cookie sid={letter}-$request_id; return 200 {letter}; }}"
        )
    };
    let group = |name: &str, sticky: &str| {
        format!(
            "upstream {name} {{ server {first} route=one; server {second} route=two; {sticky} }}\n\
             upstream {name}-bare {{ server {first}; server {second}; {sticky} }}"
        )
    };
    let text = format!(
        "{user}pid {dir}/nginx.pid;\nevents {{ }}\nhttp {{ access_log off; proxy_cache_path {dir}/cache keys_zone=z:1m;\n\
         {}\n{}\n{}\n{}\n{}\nserver {{ listen {address}; proxy_hide_header Set-Cookie;\n\
         location /cookie {{ proxy_pass http://c; }} location /hashed {{ proxy_pass http://c-bare; }}\n\
         location /route {{ proxy_pass http://r; }}\n\
         location /learn {{ proxy_pass http://l; proxy_pass_header Set-Cookie; }}\n\
         location /cached {{ proxy_pass http://c; proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 1h; proxy_ignore_headers Set-Cookie; }} }} }}",
        member(first, "a"),
        member(second, "b"),
        group(
            "c",
            "sticky cookie srv expires=1h domain=.example.com path=/ httponly secure samesite=lax;"
        ),
        group("r", "sticky route $cookie_r $arg_r;"),
        group(
            "l",
            "sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=sessions:64k timeout=1h;"
        ),
        dir = dir.display(),
    );
    let file = dir.write("nginx.conf", text).unwrap();
    let mut command = Command::new(operate::SAKER);
    command
        .env("TMPDIR", dir.temporary_files().unwrap())
        .args(["run", "--workers", "1", "--nginx"])
        .arg(file)
        .arg("--state-dir")
        .arg(dir.join("state"));
    let saker = ServerProcess::start(&mut command, address).unwrap();
    Site { _dir: dir, saker }
}

impl Site {
    fn ask(&self, path: &str, cookie: Option<&str>) -> Response {
        let mut client = Client::connect(self.saker.address()).unwrap();
        let fields: Vec<(&str, &str)> = cookie.iter().map(|value| ("Cookie", *value)).collect();
        client.request("GET", path, &fields).unwrap()
    }

    /// The members that several requests get to.
    fn members(&self, path: &str, cookie: Option<&str>) -> BTreeSet<String> {
        (0..6).map(|_| self.ask(path, cookie).text()).collect()
    }
}

fn named(response: &Response, name: &str) -> Option<String> {
    let cookies = response.field_values("set-cookie");
    let mut own = cookies.filter_map(|cookie| cookie.split(';').next());
    own.find(|cookie| cookie.starts_with(name))
        .map(str::to_owned)
}

#[test]
fn nginx_sticky_cookies_lead_to_their_member() {
    let site = start("nginx-sticky-cookie");
    assert_eq!(site.members("/cookie", None).len(), 2);
    let first = site.ask("/cookie", None);
    let whole = first.field("set-cookie").unwrap();
    let route = if first.text() == "a" { "one" } else { "two" };
    assert!(
        whole.starts_with(&format!("srv={route}; expires=")),
        "{whole}"
    );
    let attributes = "; max-age=3600; domain=.example.com; path=/; samesite=lax; secure; httponly";
    assert!(whole.ends_with(attributes), "{whole}");
    let cookie = named(&first, "srv=").unwrap();
    let again = site.ask("/cookie", Some(&cookie));
    assert_eq!(
        (again.text(), again.field("set-cookie")),
        (first.text(), None)
    );
    assert_eq!(site.members("/cookie", Some(&cookie)).len(), 1);
    // A name that no member has binds to another one.
    let stranger = site.ask("/cookie", Some("srv=three"));
    assert!(named(&stranger, "srv=").is_some());
    // Members without a name have one made of their address.
    let hashed = named(&site.ask("/hashed", None), "srv=").unwrap();
    assert_eq!(hashed.len(), "srv=".len() + 32);
    assert_eq!(site.members("/hashed", Some(&hashed)).len(), 1);
}

#[test]
fn nginx_sticky_routes_and_sessions_lead_to_their_member() {
    let site = start("nginx-sticky-route");
    assert_eq!(site.members("/route?r=two", None), ["b".to_owned()].into());
    let both = site.members("/route?r=two", Some("r=one"));
    assert_eq!(both, ["a".to_owned()].into());
    assert_eq!(site.members("/route?r=three", None).len(), 2);
    let first = site.ask("/learn", None);
    let session = named(&first, "sid=").unwrap();
    let members = site.members("/learn", Some(&session));
    assert_eq!(members, [first.text()].into());
    assert_eq!(site.members("/learn", Some("sid=unknown")).len(), 2);
}

/// The client that a page is stored for is bound; those that get the stored page are not.
#[test]
fn nginx_sticky_cookies_are_not_stored() {
    let site = start("nginx-sticky-cached");
    let first = site.ask("/cached", None);
    assert!(named(&first, "srv=").is_some());
    let second = site.ask("/cached", None);
    assert_eq!(second.text(), first.text());
    assert_eq!(second.field("set-cookie"), None);
}
