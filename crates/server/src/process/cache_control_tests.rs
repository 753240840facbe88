use super::{super::cache_entry::now_ms, *};
use saker_cache_rules::rules::Life;
use saker_config::parse;
use saker_page_cache::record::{By, Record};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

const TEXT: &str = "[[listener]]\naddress = \"127.0.0.1:8080\"\n[[listener]]\naddress = \"127.0.0.1:8443\"\ntls = true\n\
                    [[site]]\nnames = [\"a.example\", \"www.a.example\"]\nroot = \"/\"\ntls.automatic = \"local\"\n\
                    [[site]]\nnames = [\"*.b.example\"]\nroot = \"/\"\ntls.automatic = \"local\"\n\
                    [[site]]\nroot = \"/\"\ntls.automatic = \"local\"\n";

fn model() -> Model {
    parse(TEXT, "saker.toml", Path::new("/"))
        .unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
        .model
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "saker-cache-control-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        Folder(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A page for all, as it is kept.
fn keep(store: &Arc<Store>, url: &str, site: &str, tags: &[&str]) -> EntryHead {
    let mut all = vec![names::ALL.to_vec(), names::url_tag(url.as_bytes())];
    all.extend(tags.iter().map(|tag| names::tag(tag.as_bytes())));
    let life = Life {
        born_ms: now_ms() - 5_000,
        fresh_until_ms: now_ms() + 60_000,
        ..Life::default()
    };
    let head = EntryHead {
        key: [url.as_bytes(), b"\0\0"].concat(),
        site: site.as_bytes().to_vec(),
        tags: all,
        keep_until_ms: (now_ms() + 600_000) as u64,
        purge_seq: store.purge_seq(),
        began: 0,
        probes: [0, 0],
        status: 200,
        rules: Record::Page {
            by: By::Http,
            is_private: false,
            is_template: false,
            life: life.clone(),
        }
        .encode(),
        fields: vec![(b"Content-Type".to_vec(), b"text/html".to_vec())],
    };
    let mut writer = store.write(&head).unwrap();
    writer.write(b"hello").unwrap();
    writer.finish().unwrap();
    head
}

fn validity(store: &Store, head: &EntryHead) -> saker_cache_store::Validity {
    let marks: Vec<TagMark> = head
        .tags
        .iter()
        .map(|tag| TagMark::new(&head.site, tag))
        .collect();
    store.validity(head.purge_seq, marks, |ban| {
        ban.text
            .starts_with(&[b"expression\0", head.site.as_slice(), b"\0"].concat())
    })
}

#[test]
fn hosts_have_their_sites() {
    let model = model();
    let of = |host: &str| {
        scopes_of(&model, host)
            .unwrap()
            .into_iter()
            .map(|scope| String::from_utf8(scope).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("A.example"), ["a.example"]);
    assert_eq!(of("www.a.example"), ["a.example"]);
    assert_eq!(of("x.y.b.example"), of("z.b.example"));
    assert_eq!(of("unknown.example"), ["*2"]);
    assert_eq!(of("*2"), ["*2"]);
    assert!(scopes_of(&Model::default(), "a").is_err());
}

#[test]
fn urls_are_spelled_as_in_keys() {
    for (url, host, target) in [
        ("http://a/", Some("a"), "/"),
        ("https://a:8443", Some("a"), "/"),
        ("//a/x?y#z", Some("a"), "/x?y"),
        ("/x/../%79", None, "/y"),
        ("http://[::1]:80/", Some("[::1]"), "/"),
        ("http://a?q", Some("a"), "/?q"),
    ] {
        let (found, rest) = split(url).unwrap();
        assert_eq!(
            (found, String::from_utf8(canonical(rest)).unwrap().as_str()),
            (host, target),
            "{url}"
        );
    }
    assert!(split("a.example/x").is_none() && split("http:///x").is_none());
}

#[test]
fn a_host_is_the_same_in_every_spelling() {
    let model = model();
    let tags = |url: &str| {
        asked(url, &model, None)
            .unwrap()
            .into_iter()
            .map(|asked| (asked.scope, asked.urls))
            .collect::<Vec<_>>()
    };
    let usual = tags("http://a.example:80/x");
    assert!(!usual.is_empty());
    for url in [
        "http://A.Example:80/x",
        "http://a.example.:80/x",
        "http://A.EXAMPLE.:80/x",
    ] {
        assert_eq!(tags(url), usual, "{url}");
    }
}

#[test]
fn a_purge_takes_what_it_names_and_no_more() {
    let (folder, model) = (Folder::new(), model());
    let store = Store::open(&folder.0, saker_cache_store::Bounds::default()).unwrap();
    use saker_cache_store::Validity::{Gone, Stale, Valid};
    let order = |change: &dyn Fn(&mut PurgeOrder)| {
        let mut order = PurgeOrder::default();
        change(&mut order);
        order
    };
    let cases: &[(PurgeOrder, [saker_cache_store::Validity; 3])] = &[
        (
            order(&|order| order.urls = vec!["http://a.example/x?y".into()]),
            [Gone, Valid, Valid],
        ),
        (
            order(&|order| order.urls = vec!["/x?y".into()]),
            [Gone, Valid, Valid],
        ),
        (
            order(&|order| {
                (order.urls, order.site) = (vec!["/z".into()], Some("a.example".into()))
            }),
            [Valid, Gone, Valid],
        ),
        (
            order(&|order| order.tags = vec!["shop".into()]),
            [Valid, Gone, Gone],
        ),
        (
            order(&|order| {
                (order.tags, order.site) = (vec!["shop".into()], Some("a.example".into()))
            }),
            [Valid, Gone, Valid],
        ),
        (
            order(&|order| (order.tags, order.soft) = (vec!["shop".into()], true)),
            [Valid, Stale, Stale],
        ),
        (
            order(&|order| (order.all, order.site) = (true, Some("A.example".into()))),
            [Gone, Gone, Valid],
        ),
        (
            order(&|order| (order.all, order.soft) = (true, true)),
            [Stale, Stale, Stale],
        ),
        (order(&|order| order.all = true), [Gone, Gone, Gone]),
    ];
    for (order, expected) in cases {
        let heads = [
            keep(&store, "http://a.example:8080/x?y", "a.example", &[]),
            keep(&store, "https://a.example:8443/z", "a.example", &["shop"]),
            keep(&store, "http://other.example:8080/x", "*2", &["shop"]),
        ];
        purge(order, &model, &store).unwrap();
        assert_eq!(
            heads.each_ref().map(|head| validity(&store, head)),
            *expected,
            "{order:?}"
        );
    }
    assert!(
        purge(
            &order(&|order| order.urls = vec!["nothing".into()]),
            &model,
            &store
        )
        .is_err()
    );
}

#[test]
fn pages_are_counted_by_expressions() {
    let (folder, model) = (Folder::new(), model());
    let store = Store::open(&folder.0, saker_cache_store::Bounds::default()).unwrap();
    keep(&store, "http://a.example:8080/shop/1", "a.example", &["x"]);
    keep(&store, "http://a.example:8080/shop/2", "a.example", &[]);
    keep(&store, "http://other.example:8080/shop/1", "*2", &[]);
    let order = |bans: &[&str]| PurgeOrder {
        bans: bans.iter().map(|ban| (*ban).to_owned()).collect(),
        ..PurgeOrder::default()
    };
    let count_until = |order: &PurgeOrder, until| {
        let purges = purges(order, &model, &store).unwrap();
        cache_count::answer(&store, &purges, None, until)
    };
    let count = |order: &PurgeOrder| {
        let answer = count_until(order, Instant::now() + LOOK_MAX);
        assert_eq!(answer["is_cut"], false);
        (answer["pages"].as_u64(), answer["bytes"].as_u64())
    };
    for (bans, pages) in [
        (&["req.url ~ ^/shop/"][..], 3),
        (&["req.url == /shop/1"], 2),
        (&["req.http.host == a.example && req.url !~ 1$"], 1),
        (&["obj.http.content-type ~ html"], 3),
        (&["obj.http.content-type ~ json"], 0),
        (&["obj.status == 404"], 0),
        // What two are about counts once.
        (&["req.url ~ 1$", "req.http.host == a.example"], 3),
    ] {
        assert_eq!(
            count(&order(bans)),
            (Some(pages), Some(5 * pages)),
            "{bans:?}"
        );
    }
    let one_site = PurgeOrder {
        site: Some("a.example".into()),
        ..order(&["req.url ~ ."])
    };
    assert_eq!(count(&one_site).0, Some(2));
    let with_tag = PurgeOrder {
        tags: vec!["x".into()],
        ..order(&["req.url ~ 2$"])
    };
    assert_eq!(count(&with_tag).0, Some(2));
    assert!(purges(&order(&["req.url ~ ("]), &model, &store).is_err());
    let cut = count_until(&order(&["req.url ~ ."]), Instant::now());
    assert_eq!(cut["is_cut"], true);
    // A banned page is gone, for counts and where it is shown.
    purge(&one_site, &model, &store).unwrap();
    assert_eq!(count(&order(&["req.url ~ ."])).0, Some(1));
    let tags = asked("//a.example/shop/1", &model, None).unwrap();
    let tags = tags.iter().flat_map(|asked| asked.tags(&store)).collect();
    assert_eq!(show(&store, &tags)["entries"][0]["standing"], "gone");
}

#[test]
fn what_is_there_is_shown() {
    let (folder, model) = (Folder::new(), model());
    let store = Store::open(&folder.0, saker_cache_store::Bounds::default()).unwrap();
    keep(
        &store,
        "http://a.example:8080/x?y",
        "a.example",
        &["shop", "front"],
    );
    keep(&store, "http://other.example:8080/x", "*2", &[]);
    let all = list(&store, None, 10);
    assert_eq!(
        (all["entries"].as_array().map(Vec::len), &all["is_cut"]),
        (Some(2), &Value::Bool(false))
    );
    assert_eq!(list(&store, None, 1)["is_cut"], true);
    let of_site = list(&store, Some(&[b"a.example".to_vec()]), 10);
    let entry = &of_site["entries"][0];
    assert_eq!(
        (&entry["url"], &entry["tags"], &entry["bytes"]),
        (
            &json!("http://a.example:8080/x?y"),
            &json!(["shop", "front"]),
            &json!(5)
        )
    );
    assert!(
        (5..60).contains(&entry["age_s"].as_i64().unwrap())
            && (1..=60).contains(&entry["fresh_for_s"].as_i64().unwrap())
    );
    let tags = |url: &str| {
        asked(url, &model, None)
            .unwrap()
            .into_iter()
            .flat_map(|asked| asked.tags(&store))
            .collect()
    };
    let shown = show(&store, &tags("http://a.example/x?y"));
    let entry = &shown["entries"][0];
    assert_eq!(
        (&entry["standing"], &entry["fields"]),
        (&json!("valid"), &json!(["Content-Type: text/html"]))
    );
    purge(
        &PurgeOrder {
            tags: vec!["front".into()],
            ..PurgeOrder::default()
        },
        &model,
        &store,
    )
    .unwrap();
    assert_eq!(
        show(&store, &tags("//a.example/x?y"))["entries"][0]["standing"],
        "gone"
    );
    assert_eq!(show(&store, &tags("/nothing"))["entries"], json!([]));
    let stat = stat(&model, &store, &[]);
    assert_eq!(
        (
            &stat["entries"],
            &stat["sites"][0]["entries"],
            &stat["sites"][2]["site"]
        ),
        (&json!(2), &json!(1), &json!("*2"))
    );
}
