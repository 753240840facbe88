//! Changes of members, servers, and redirects of the running server.

use super::*;
use saker_config::{
    model::{DiscoveredServer, Tuning},
    parse, with_discovered,
};
use std::path::PathBuf;

const TEXT: &str = "[[listener]]\naddress = \"127.0.0.1:8080\"\n\
    [[upstream]]\nname = \"app\"\nservers = [\"http://a.test:80\", \"http://b.test:80\"]\n\
    [[upstream]]\nname = \"other\"\nservers = [\"fcgi://c.test:9000\"]\n\
    [[site]]\nnames = [\"a.example\", \"www.a.example\"]\nroot = \"/\"\n\
    [[site.route]]\npath = \"/app/*\"\nproxy = \"app\"\n\
    [[site.route]]\npath = \"/other/*\"\nproxy = \"other\"\n\
    [[site]]\nnames = [\"*\"]\nroot = \"/\"\n";

fn model() -> Model {
    of_text(TEXT)
}

fn of_text(text: &str) -> Model {
    let parsed = parse(text, "saker.toml", Path::new("/"));
    parsed.expect("a configuration").model
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn addresses(model: &Model, name: &str) -> Vec<String> {
    let upstream = upstream(model, name).expect("an upstream").current();
    upstream.members.iter().map(Member::address).collect()
}

fn add(upstream: &str, url: &str) -> LiveChange {
    LiveChange::AddServer {
        upstream: upstream.into(),
        url: url.into(),
    }
}

fn remove(upstream: &str, member: &str) -> LiveChange {
    LiveChange::RemoveServer {
        upstream: upstream.into(),
        member: member.into(),
    }
}

fn member(address: &str, change: MemberChange) -> LiveChange {
    LiveChange::Member {
        upstream: "app".into(),
        member: address.into(),
        change,
    }
}

fn redirect(site: &str, from: &str, to: &str) -> LiveChange {
    LiveChange::AddRedirect(SiteRedirect {
        site: site.into(),
        redirect: LiveRedirect {
            from: from.into(),
            to: to.into(),
            status: Status(302),
        },
    })
}

#[test]
fn servers_come_and_go_and_stay_over_reloads_and_restarts() {
    let (model, folder) = (model(), Folder::new("live-servers"));
    let mut changes = LiveChanges::default();
    let mut change = |one: LiveChange| changes.change(&model, &folder.0, &one);
    assert_eq!(change(add("app", "http://d.test")), Ok(1));
    let app = || addresses(&model, "app");
    assert_eq!(
        app(),
        ["http://a.test:80", "http://b.test:80", "http://d.test:80"]
    );
    assert_eq!(
        change(member("http://d.test:80", MemberChange::Drain)),
        Ok(1)
    );
    let current = upstream(&model, "app").expect("an upstream").current();
    assert!(current.members[2].drains());
    // Another change keeps the member and its state.
    assert_eq!(change(remove("app", "http://a.test:80")), Ok(1));
    assert_eq!(app(), ["http://b.test:80", "http://d.test:80"]);
    let current = upstream(&model, "app").expect("an upstream").current();
    assert!(current.members[1].drains());
    // A reload, and a restart.
    let (reloaded, read) = (self::model(), LiveChanges::load(&folder.0).expect("read"));
    assert_eq!(read, changes);
    assert_eq!(read.apply(&reloaded), Vec::<String>::new());
    assert_eq!(addresses(&reloaded, "app"), app());
    assert!(upstream(&reloaded, "app").expect("one").current().members[1].drains());
    let mut change = |one: LiveChange| changes.change(&model, &folder.0, &one);
    // Back to the configuration's.
    assert_eq!(change(add("app", "http://a.test:80")), Ok(1));
    assert_eq!(change(remove("app", "http://d.test:80")), Ok(1));
    assert_eq!(app(), ["http://a.test:80", "http://b.test:80"]);
    assert_eq!(changes, LiveChanges::default());
}

#[test]
fn servers_that_do_not_fit_change_nothing() {
    let (model, folder) = (model(), Folder::new("live-misfits"));
    let mut changes = LiveChanges::default();
    for wrong in [
        add("nothing", "http://d.test"),
        add("app", "http://a.test:80"),
        add("app", "https://d.test"),
        add("app", "fcgi://d.test"),
        add("app", "http://d.test/path"),
        add("app", "http://d.test?x"),
        add("app", "http://d.test:80\r\nx"),
        add("app", "http://a b"),
        add("app", "d.test"),
        add("app", ""),
        add("app", &format!("http://{}", "d".repeat(600))),
        add("app", "http+unix:relative"),
        remove("app", "http://d.test:80"),
        remove("other", "fcgi://c.test:9000"),
        member("http://d.test:80", MemberChange::Drain),
    ] {
        assert!(
            changes.change(&model, &folder.0, &wrong).is_err(),
            "{wrong:?}"
        );
        assert_eq!(changes, LiveChanges::default(), "{wrong:?}");
    }
    assert_eq!(addresses(&model, "app").len(), 2);
    assert!(!folder.0.join(FILE).exists());
    // What waits for an upstream that is gone does no harm.
    changes
        .change(&model, &folder.0, &add("other", "fcgi://d.test:1"))
        .expect("added");
    let text = TEXT.replace("fcgi://c.test:9000", "http://c.test");
    let other = of_text(&text);
    assert_eq!(changes.apply(&other).len(), 1);
    assert_eq!(addresses(&other, "other"), ["http://c.test:80"]);
}

#[test]
fn changes_stand_on_what_is_discovered() {
    let text = TEXT.replace(
        "servers = [\"http://a.test:80\", \"http://b.test:80\"]",
        "discover = { dns_srv = \"_http._tcp.a.test\" }",
    );
    let (model, folder) = (of_text(&text), Folder::new("live-discovered"));
    let app = Arc::clone(upstream(&model, "app").expect("an upstream"));
    let find = |ips: &[&str]| {
        let server = |ip: &&str| DiscoveredServer {
            set: 0,
            ip: ip.parse().expect("an address"),
            port: 80,
            weight: 1,
        };
        let servers: Vec<_> = ips.iter().map(server).collect();
        let found = with_discovered(&app, &app.current(), &servers);
        let discovery = app.discovery.as_ref().expect("a discovery");
        discovery.found.set(Some(Arc::new(found)));
    };
    let mut changes = LiveChanges::default();
    assert!(changes.apply(&model).is_empty() && addresses(&model, "app").is_empty());
    // Without a server there are settings to take all the same.
    let added = add("app", "http://c.test");
    assert_eq!(changes.change(&model, &folder.0, &added), Ok(1));
    assert_eq!(addresses(&model, "app"), ["http://c.test:80"]);
    find(&["10.0.0.1", "10.0.0.2"]);
    assert!(changes.apply(&model).is_empty());
    let all = [
        "http://10.0.0.1:80",
        "http://10.0.0.2:80",
        "http://c.test:80",
    ];
    assert_eq!(addresses(&model, "app"), all);
    let drain = member("http://10.0.0.2:80", MemberChange::Drain);
    assert_eq!(changes.change(&model, &folder.0, &drain), Ok(1));
    let gone = remove("app", "http://10.0.0.1:80");
    assert_eq!(changes.change(&model, &folder.0, &gone), Ok(1));
    assert_eq!(addresses(&model, "app"), all[1..]);
    assert!(app.current().members[0].drains());
    // One that comes back is still removed, and its neighbor still drained.
    find(&["10.0.0.2"]);
    find(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert!(changes.apply(&model).is_empty());
    let now = [
        "http://10.0.0.2:80",
        "http://10.0.0.3:80",
        "http://c.test:80",
    ];
    assert_eq!(addresses(&model, "app"), now);
    assert!(app.current().members[0].drains() && !app.current().members[1].drains());
}

#[test]
fn members_are_drained_weighted_and_connected_anew() {
    let (model, folder) = (model(), Folder::new("live-members"));
    let mut changes = LiveChanges::default();
    let address = "http://a.test:80";
    let upstream = Arc::clone(upstream(&model, "app").expect("an upstream"));
    let mut change =
        |change: MemberChange| changes.change(&model, &folder.0, &member(address, change));
    assert_eq!(change(MemberChange::Drain), Ok(1));
    assert_eq!(change(MemberChange::Weight(Some(3))), Ok(1));
    assert!(upstream.members[0].drains() && !upstream.members[1].drains());
    assert_eq!(upstream.members[0].weight_now(), 300);
    assert_eq!(change(MemberChange::Resume), Ok(1));
    assert_eq!(change(MemberChange::Weight(None)), Ok(1));
    assert!(!upstream.members[0].drains());
    assert_eq!(upstream.members[0].weight_now(), upstream.members[0].weight);
    let epoch = upstream.members[0].tuning.epoch.now();
    assert_eq!(change(MemberChange::Reconnect), Ok(1));
    assert_eq!(upstream.members[0].tuning.epoch.now(), epoch + 1);
    assert_eq!(changes, LiveChanges::default());
    assert_eq!(Tuning::default().epoch.now(), 0);
}

#[test]
fn redirects_are_of_their_site_and_lead_somewhere() {
    let (model, folder) = (model(), Folder::new("live-redirects"));
    let mut changes = LiveChanges::default();
    let mut change = |one: LiveChange| changes.change(&model, &folder.0, &one);
    assert_eq!(change(redirect("a.example", "/old", "/new?x=1")), Ok(1));
    assert_eq!(change(redirect("*", "/b/*", "https://b.example/")), Ok(1));
    assert_eq!(change(redirect("A.example", "/old", "/newer")), Ok(1));
    let to = |site: usize, path: &str| {
        let found = model.sites[site].live_redirects.find(path.as_bytes());
        found.map(|one| one.to.into_string())
    };
    assert_eq!(to(0, "/old").as_deref(), Some("/newer"));
    assert_eq!((to(0, "/b/c"), to(1, "/old")), (None, None));
    assert_eq!(to(1, "/b/c").as_deref(), Some("https://b.example/"));
    for (from, target) in [
        ("/a", "/a"),
        ("/a", "/a?x"),
        ("/a/*", "/a/b"),
        ("a", "/b"),
        ("", "/b"),
        ("/*/a", "/b"),
        ("/a*", "/b"),
        ("/a?b", "/b"),
        ("/a\nb", "/b"),
        ("/a", "//evil.example"),
        ("/a", "javascript:alert(1)"),
        ("/a", "ftp://a.example/"),
        ("/a", "https:"),
        ("/a", "/b\r\nSet-Cookie: x=1"),
        ("/a", "/b c"),
        ("/a", "/\\evil.example"),
        ("/a", "/ä"),
        ("/a", ""),
    ] {
        assert!(
            change(redirect("a.example", from, target)).is_err(),
            "{from} {target}"
        );
    }
    assert!(
        change(redirect("www.a.example", "/a", "/b")).is_err(),
        "not the first name"
    );
    let gone = |site: &str, from: &str| LiveChange::RemoveRedirect {
        site: site.into(),
        from: from.into(),
    };
    assert!(change(gone("*", "/old")).is_err());
    assert_eq!(change(gone("a.example", "/old")), Ok(1));
    assert_eq!(to(0, "/old"), None);
    assert_eq!(
        changes.redirects(Some("a.example")),
        Vec::<&SiteRedirect>::new()
    );
    assert_eq!(changes.redirects(None).len(), 1);
    assert_eq!(
        changes.summary(),
        ["site *: /b/* redirected to https://b.example/ (302)"]
    );
}

#[test]
fn a_broken_file_is_reported_and_one_that_cannot_be_written_refuses() {
    let (model, folder) = (model(), Folder::new("live-broken"));
    let mut changes = LiveChanges::default();
    fs::create_dir(folder.0.join("console")).expect("a folder");
    for broken in [
        "",
        "{}",
        "[1]",
        "{\"members\":[],\"servers\":[1],\"redirects\":[]}",
    ] {
        fs::write(folder.0.join(FILE), broken).expect("written");
        assert!(LiveChanges::load(&folder.0).is_err(), "{broken}");
    }
    let nowhere = folder.0.join("nothing");
    let wrong = changes.change(&model, &nowhere, &add("app", "http://d.test"));
    assert!(wrong.is_err() && changes == LiveChanges::default());
    assert_eq!(addresses(&model, "app").len(), 2, "not in force either");
}
