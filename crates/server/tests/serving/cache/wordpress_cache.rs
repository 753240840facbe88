//! WordPress with a plugin that speaks LSCache's protocol (`wordpress/cache_plugin.php`), below the
//! `.htaccess` block that such plugins write: what comes from the cache, what purges take away, and
//! whose a page is.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::wordpress_site as site;
use crate::wordpress_site::{Database, Page, Visitor, install, log_in, permalinks, serve, unpack};
use saker_testkit::{Client, ServerProcess, TempDir};
use std::{fs, thread};

const PLUGIN: &str = include_str!("wordpress/cache_plugin.php");
/// As LiteSpeed's plugin writes it, with its rule for pictures.
const BLOCK: &str = "# BEGIN LSCACHE\n<IfModule LiteSpeed>\nRewriteEngine on\nCacheLookup on\nRewriteRule .* - [E=Cache-Control:no-autoflush]\n\
                     CacheKeyModify -qs:fbclid\nCacheKeyModify -qs:utm*\nRewriteCond %{HTTP_ACCEPT} \"image/webp\"\n\
                     RewriteRule .* - [E=Cache-Control:vary=%{ENV:LSCACHE_VARY_VALUE}+webp]\n</IfModule>\n# END LSCACHE\n";
const READERS: usize = 50;

struct Blog {
    dir: TempDir,
    server: ServerProcess,
    admin: Visitor,
    /// Nonce of the author.
    nonce: String,
    _database: Database,
}

impl Blog {
    fn start() -> Blog {
        let dir = TempDir::new("wordpress-cache").unwrap();
        let database = Database::start(&dir);
        unpack(&dir, &database.socket);
        let server = serve(&dir);
        let admin = Visitor {
            base: format!("http://{}", server.address()),
            jar: dir.join("cookies-admin"),
        };
        install(&admin);
        permalinks_of(&admin, &dir);
        dir.write("wordpress/wp-content/mu-plugins/cache.php", PLUGIN)
            .unwrap();
        dir.write("wordpress/made", "").unwrap();
        operate_as_php(&dir);
        let rules = fs::read_to_string(dir.join("wordpress/.htaccess")).unwrap();
        dir.write("wordpress/.htaccess", format!("{BLOCK}{rules}"))
            .unwrap();
        // Its vary cookie comes with the log-in.
        log_in(&admin);
        let nonce = admin.get("/wp-admin/admin-ajax.php?action=rest-nonce").text;
        Blog {
            dir,
            server,
            admin,
            nonce,
            _database: database,
        }
    }

    /// With an empty jar.
    fn visitor(&self, name: &str) -> Visitor {
        Visitor {
            base: self.admin.base.clone(),
            jar: self.dir.join(format!("cookies-{name}")),
        }
    }

    /// Number of PHP runs.
    fn made(&self) -> u64 {
        self.dir.join("wordpress/made").metadata().unwrap().len()
    }

    /// By the REST interface; what is answered.
    fn tell(&self, method: &str, target: &str, content: &str) -> Page {
        let nonce = format!("X-WP-Nonce: {}", self.nonce);
        let arguments = [
            "-X",
            method,
            "-H",
            &nonce,
            "-H",
            "Content-Type: application/json",
            "--data-binary",
            content,
        ];
        let page = self
            .admin
            .ask(&format!("/wp-json/wp/v2{target}"), &arguments);
        assert!(
            (200..300).contains(&page.status),
            "{method} {target}: {} {}",
            page.status,
            page.text
        );
        page
    }

    /// The path and the number of a new post.
    fn write_post(&self, title: &str) -> (String, String) {
        let made = self.tell(
            "POST",
            "/posts",
            &format!(
                "{{\"title\":\"{title}\",\"status\":\"publish\",\"content\":\"first words\"}}"
            ),
        );
        let link = site::between(&made.text, "\"link\":\"", "\"").replace("\\/", "/");
        let number = site::between(&made.text, "\"id\":", ",").to_owned();
        (
            link.strip_prefix(&self.admin.base).unwrap().to_owned(),
            number,
        )
    }

    /// Cache status of each of these pages for an anonymous client.
    fn cached<const N: usize>(&self, pages: [&str; N]) -> [String; N] {
        pages.map(|page| self.visitor("nobody").get(page).cache)
    }

    /// Makes them all, and sees that they are there.
    fn warm<const N: usize>(&self, pages: [&str; N]) {
        self.cached(pages);
        let before = self.made();
        assert_eq!(self.cached(pages), pages.map(|_| "hit".to_owned()));
        assert_eq!(self.made(), before, "PHP is not asked for what is kept");
    }
}

fn permalinks_of(admin: &Visitor, dir: &TempDir) {
    log_in(admin);
    permalinks(admin, dir);
}

/// Gives PHP the files that the test has written.
fn operate_as_php(dir: &TempDir) {
    if rustix::process::geteuid().is_root() {
        let root = dir.join("wordpress");
        assert!(
            std::process::Command::new("chown")
                .args(["-R", "www-data:www-data"])
                .arg(root)
                .status()
                .unwrap()
                .success()
        );
    }
}

#[test]
fn wordpress_steers_the_cache() {
    let _turn = saker_testkit::heavy();
    let blog = Blog::start();
    the_plugin_is_told(&blog);
    let (one, number) = blog.write_post("A falcon");
    let (two, _) = blog.write_post("A kestrel");
    let pages = ["/", one.as_str(), two.as_str(), "/feed/"];
    blog.warm(pages);
    variants(&blog, &one);
    known_visitors(&blog, &one);
    purges(&blog, pages, &number);
    readers(&blog, &one);
    blog.server.stop().unwrap();
}

/// LSCache protocol 2: the order in which the plugin finds out what it runs on.
fn the_plugin_is_told(blog: &Blog) {
    let nobody = blog.visitor("nobody");
    let told = nobody.get("/?told=1").text;
    let value = |name: &str| {
        told.lines()
            .find_map(|line| line.strip_prefix(&format!("{name}=")))
            .unwrap_or_else(|| panic!("{told}"))
    };
    assert!(
        value("X-LSCACHE").split(',').any(|word| word == "on")
            && value("X-LSCACHE").contains("crawler"),
        "{told}"
    );
    assert_eq!(
        value("HTTP_X_LSCACHE"),
        value("X-LSCACHE"),
        "the plugin takes us for a front that knows the protocol"
    );
    assert!(
        !value("LSWS_EDITION").starts_with("Openlitespeed"),
        "{told}"
    );
    assert_eq!(value("LSCACHE_VARY_VALUE"), "-");
    let varied = nobody
        .ask(
            "/?told=1",
            &[
                "-H",
                "Accept: image/webp",
                "-H",
                "X-LSCACHE: on,lies",
                "-H",
                "X-LSCACHE-Vary-Value: lies",
            ],
        )
        .text;
    assert!(
        varied.contains("\nLSCACHE_VARY_VALUE=+webp\n")
            && varied.contains("\nHTTP_X_LSCACHE_VARY_VALUE=+webp\n"),
        "{varied}"
    );
    assert!(!varied.contains("lies"), "{varied}");
}

fn variants(blog: &Blog, page: &str) {
    let nobody = blog.visitor("nobody");
    let with_pictures = || nobody.ask(page, &["-H", "Accept: image/webp"]).cache;
    assert_eq!(
        (with_pictures(), with_pictures()),
        ("miss".into(), "hit".into())
    );
    let advertised = format!("{page}?utm_source=x&fbclid=y");
    assert_eq!(
        nobody.get(&advertised).cache,
        "hit",
        "parameters that make no other page"
    );
    assert_eq!(nobody.get(&format!("{page}?other=1")).cache, "miss");
    // Neither kept nor taken from what is.
    for target in ["/?s=falcon", "/2020/nothing/", "/wp-login.php"] {
        assert_eq!(
            [nobody.get(target).cache, nobody.get(target).cache],
            ["", ""],
            "{target}"
        );
    }
}

/// Logged-in users get their own pages, and no other client gets them.
fn known_visitors(blog: &Blog, page: &str) {
    let (admin, nobody) = (&blog.admin, blog.visitor("nobody"));
    for target in ["/", page] {
        let first = admin.get(target);
        assert!(
            first.cache == "miss" && first.text.contains("wp-admin-bar-logout"),
            "{target}: {} {}",
            first.cache,
            first.text
        );
        let again = admin.get(target);
        assert!(
            again.cache == "hit,private" && again.text == first.text,
            "{target}: {}",
            again.cache
        );
        let public = nobody.get(target);
        assert!(
            public.cache == "hit" && !public.text.contains("wp-admin-bar"),
            "{target}: {}",
            public.cache
        );
    }
    // A client that only has the cookie of the role's variant.
    let jar = fs::read_to_string(&admin.jar).unwrap();
    let vary = jar
        .lines()
        .find_map(|line| line.split_once("_lscache_vary\t"))
        .unwrap_or_else(|| panic!("{jar}"))
        .1;
    let cookie = format!("_lscache_vary={vary}; wordpress_logged_in_x=admin-0123456789abcdef");
    let liar = nobody.ask("/", &["-H", &format!("Cookie: {cookie}")]);
    assert!(
        !liar.text.contains("wp-admin-bar") && liar.cache != "hit,private",
        "{}",
        liar.cache
    );
    for target in ["/wp-admin/", "/wp-admin/edit.php"] {
        assert_eq!(
            [admin.get(target).cache, admin.get(target).cache],
            ["", ""],
            "{target}"
        );
    }
}

fn purges(blog: &Blog, pages: [&str; 4], number: &str) {
    let [front, one, two, feed] = pages;
    let gone = |what: &str, purged: [bool; 4]| {
        let expected = purged.map(|is_gone| if is_gone { "miss" } else { "hit" }.to_owned());
        assert_eq!(blog.cached(pages), expected, "{what}: of {pages:?}");
        blog.warm(pages);
    };
    blog.warm(pages);
    // The comment awaits moderation, and only its author sees it.
    let guest = blog.visitor("guest");
    let comment = |visitor: &Visitor, text: &str| {
        let fields = [
            ("comment", text),
            ("author", "Guest"),
            ("email", "guest@example.org"),
            ("comment_post_ID", number),
        ];
        let sent = visitor.form("/wp-comments-post.php", &fields);
        assert_eq!(sent.status, 302, "{}", sent.text);
        sent.location
            .strip_prefix(&visitor.base)
            .unwrap()
            .to_owned()
    };
    let shown = comment(&guest, "a guest was here");
    gone("a comment that waits", [false; 4]);
    let seen = guest.get(&shown);
    assert!(
        seen.text.contains("a guest was here") && seen.cache == "miss",
        "{}",
        seen.cache
    );
    assert!(
        !blog
            .visitor("nobody")
            .get(one)
            .text
            .contains("a guest was here")
    );
    comment(&blog.admin, "the writer answers");
    gone("a comment", [false, true, false, false]);
    assert!(
        blog.visitor("nobody")
            .get(one)
            .text
            .contains("the writer answers")
    );
    let waiting = blog.tell("GET", "/comments?status=hold", "").text;
    let waiting = site::between(&waiting, "\"id\":", ",").to_owned();
    blog.tell(
        "POST",
        &format!("/comments/{waiting}"),
        "{\"status\":\"approved\"}",
    );
    gone("an approval", [false, true, false, false]);
    assert!(
        blog.visitor("nobody")
            .get(one)
            .text
            .contains("a guest was here")
    );
    // The writer's own copies go with what all see.
    blog.admin.get(two);
    assert_eq!(
        [blog.admin.get(one).cache, blog.admin.get(two).cache],
        ["miss", "hit,private"]
    );
    blog.tell(
        "POST",
        &format!("/posts/{number}"),
        "{\"content\":\"second words\"}",
    );
    assert_eq!(
        [blog.admin.get(one).cache, blog.admin.get(two).cache],
        ["miss", "hit,private"]
    );
    gone("an edit", [true, true, false, true]);
    assert!(
        blog.visitor("nobody")
            .get(one)
            .text
            .contains("second words")
    );
    let (three, last) = blog.write_post("A hobby");
    gone("a new post", [true, false, false, true]);
    assert!(
        blog.visitor("nobody").get(front).text.contains("A hobby")
            && blog.visitor("nobody").get(feed).text.contains("A hobby")
    );
    blog.warm([&three]);
    blog.tell("DELETE", &format!("/posts/{last}"), "");
    gone("a post that is thrown away", [true, false, false, true]);
    assert_eq!(blog.visitor("nobody").get(&three).status, 404);
}

/// Fifty at once, each with its own basket and its own page, and an anonymous one among them.
fn readers(blog: &Blog, page: &str) {
    let cookies = blog.admin.get(&format!("/?users={READERS}")).text;
    let cookies: Vec<&str> = cookies.lines().collect();
    assert_eq!(cookies.len(), READERS, "{cookies:?}");
    let (address, public) = (blog.server.address(), blog.visitor("nobody").get(page).text);
    let before = blog.made();
    let host = address.to_string();
    thread::scope(|scope| {
        let read = |number: usize| {
            let mut client = Client::connect(address).unwrap();
            client
                .set_timeout(std::time::Duration::from_secs(60))
                .unwrap();
            let mut get = |target: &str, cookie: &str| {
                let response = client
                    .request("GET", target, &[("Host", &host), ("Cookie", cookie)])
                    .unwrap();
                (
                    response
                        .field("x-litespeed-cache")
                        .unwrap_or_default()
                        .to_owned(),
                    response.text(),
                )
            };
            let own = format!("Reader-{number}-");
            let (basket, whole) = (
                get("/?fragment=basket", cookies[number]),
                get(page, cookies[number]),
            );
            assert!(
                basket.0 == "miss" && basket.1.starts_with(&format!("basket of {own} ")),
                "{own}: {basket:?}"
            );
            let is_own = whole.1.contains(&own)
                && whole.1.matches("Reader-").count() == whole.1.matches(&own).count();
            assert!(whole.0 == "miss" && is_own, "{own}: {whole:?}");
            for _ in 0..20 {
                assert_eq!(
                    get("/?fragment=basket", cookies[number]),
                    ("hit,private".into(), basket.1.clone())
                );
                assert_eq!(
                    get(page, cookies[number]),
                    ("hit,private".into(), whole.1.clone())
                );
                assert_eq!(get(page, "_ga=1"), ("hit".into(), public.clone()));
            }
        };
        (0..READERS).for_each(|number| drop(scope.spawn(move || read(number))));
    });
    assert_eq!(
        blog.made() - before,
        2 * READERS as u64,
        "each page of each reader is made once"
    );
}
