//! Routes of files that a path stands for without naming them: index files, files in front of path
//! info and of parts of films; and routes with directories of their own beside `.htaccess` files
//! and content rules.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Client, Saker, TempDir};
use std::{fs, os::unix::fs::PermissionsExt};

const SCRIPT: &str =
    "<?php echo 'ran ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-';";
const PROGRAM: &str =
    "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran %s %s' \"$SCRIPT_NAME\" \"$PATH_INFO\"\n";

fn start(name: &str, site: &str, files: &[(&str, &str)]) -> Saker {
    let dir = TempDir::new(name).unwrap();
    for (file, text) in files {
        dir.write(file, text).unwrap();
        if file.ends_with(".cgi") {
            fs::set_permissions(dir.join(file), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[php]\nprogram = \"php-cgi\"\nprocesses = 1\n\n\
         [[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\n{site}"
    );
    operate::native(&text).start(dir)
}

/// Compares statuses, and parts of contents; each is requested twice, the second time from the
/// route cache where it may be.
fn expect(client: &mut Client, expected: &[(&str, u16, &str)]) {
    for round in 0..2 {
        for (target, status, part) in expected {
            let response = client.get(target).unwrap();
            let text = response.text();
            assert_eq!(response.status, *status, "{target}, round {round}: {text}");
            assert!(text.contains(part), "{target}, round {round}: {text}");
        }
    }
}

#[test]
fn index_files_are_under_the_routes_of_their_own_paths() {
    let site = "php = \"auto\"\ncgi = [\"*.cgi\"]\nindex = [\"index.php\", \"index.cgi\", \"index.html\"]\n\
         [[site.route]]\npath = \"/closed/index.html\"\ndeny = true\n\
         [[site.route]]\npath = \"/fields/index.html\"\nheaders = { X-Own = \"yes\" }\n\
         [[site.route]]\npath = \"/robots/index.html\"\nmatch = { header = { User-Agent = \"*bot*\" } }\ndeny = true\n\
         [[site.redirect]]\nfrom = \"/moved/index.html\"\nto = \"/closed/\"\n\
         [[site.route]]\npath_regex = '^(.*/)index\\.(?:html|php)$'\nmatch = { not = { path = \"/round/*\" } }\nredirect = \"$1\"\n\
         [[site.route]]\npath = \"/up/*.php\"\ndeny = true\n\
         [[site.route]]\npath = \"/up/*.cgi\"\ndeny = true\n\
         [[site.route]]\npath = \"/round/index.html\"\nrewrite = \"/round/\"\n\
         [[site.route]]\npath = \"/listed/\"\nheaders = { X-Listed = \"yes\" }\n\
         [[site.route]]\npath = [\"/listed/*\", \"/none/*\"]\ndeny = true\n";
    let files = [
        ("www/closed/index.html", "closed"),
        ("www/fields/index.html", "fields"),
        ("www/robots/index.html", "for people"),
        ("www/moved/index.html", "moved"),
        ("www/canonical/index.html", "canonical"),
        ("www/canonical/php/index.php", SCRIPT),
        ("www/round/index.html", "round"),
        ("www/listed/index.html", "listed"),
        ("www/up/p/index.php", SCRIPT),
        ("www/up/c/index.cgi", PROGRAM),
        ("www/ok/c/index.cgi", PROGRAM),
    ];
    let saker = start("file-routes-index", site, &files);
    let mut client = saker.connect().unwrap();
    expect(
        &mut client,
        &[
            ("/closed/index.html", 403, ""),
            ("/closed/", 403, ""),
            ("/fields/", 200, "fields"),
            ("/robots/", 200, "for people"),
            ("/moved/", 302, ""),
            ("/canonical/index.html", 302, ""),
            ("/canonical/", 200, "canonical"),
            ("/canonical/php/", 200, "ran /canonical/php/index.php"),
            ("/round/", 200, "round"),
            ("/listed/", 200, "listed"),
            ("/listed/index.html", 302, ""),
            // The redirect is for those who name the file, and does not open it.
            ("/up/p/index.php", 302, ""),
            ("/up/p/", 403, ""),
            ("/up/c/", 403, ""),
            ("/ok/c/", 200, "ran /ok/c/index.cgi"),
        ],
    );
    for _ in 0..2 {
        let robot = [("User-Agent", "a bot")];
        let response = client.request("GET", "/robots/", &robot).unwrap();
        assert_eq!(response.status, 403);
        let fields = client.get("/fields/").unwrap();
        assert_eq!(fields.field("X-Own"), Some("yes"));
        let listed = client.get("/listed/").unwrap();
        assert_eq!(listed.field("X-Listed"), Some("yes"));
    }
}

#[test]
fn uploads_of_wordpress_run_by_no_path() {
    let files = [
        ("www/index.php", SCRIPT),
        ("www/wp-content/uploads/evil.php", SCRIPT),
        ("www/wp-content/uploads/d/index.php", SCRIPT),
    ];
    let site = "preset = \"wordpress\"\nphp = \"auto\"\n";
    let saker = start("file-routes-uploads", site, &files);
    expect(
        &mut saker.connect().unwrap(),
        &[
            ("/", 200, "ran /index.php"),
            ("/wp-content/uploads/evil.php", 403, ""),
            ("/wp-content/uploads/evil.php/x", 403, ""),
            ("/wp-content/uploads/d/", 403, ""),
        ],
    );
}

#[test]
fn what_is_below_a_file_is_under_its_routes() {
    let site = "php = \"auto\"\ncgi = [\"*.cgi\"]\nmedia = [\"mp4\", \"hls\"]\n\
         [[site.route]]\npath = \"/paid.mp4\"\ndeny = true\n\
         [[site.route]]\npath = \"/inside.php\"\ninternal = true\n\
         [[site.route]]\npath = \"/marked.php\"\nheaders = { X-Own = \"yes\" }\n\
         [[site.route]]\npath = \"/up/*.php\"\ndeny = true\n\
         [[site.route]]\npath = \"/up/*.cgi\"\ndeny = true\n\
         [[site.route]]\npath = \"/wiki.php/*\"\nheaders = { X-Wiki = \"yes\" }\n\
         [[site.route]]\npath = \"/tried.php\"\ntry_files = [\"$uri\", \"=404\"]\n\
         [[site.route]]\npath = \"/wiki*\"\ntry_files = [\"$uri\", \"=404\"]\n";
    let files = [
        ("www/wiki.php", SCRIPT),
        ("www/tried.php", SCRIPT),
        ("www/paid.mp4", "no film"),
        ("www/inside.php", SCRIPT),
        ("www/marked.php", SCRIPT),
        ("www/up/evil.php", SCRIPT),
        ("www/up/evil.cgi", PROGRAM),
        ("www/ok/a.cgi", PROGRAM),
    ];
    let saker = start("file-routes-below", site, &files);
    let mut client = saker.connect().unwrap();
    expect(
        &mut client,
        &[
            ("/paid.mp4", 403, ""),
            ("/paid.mp4/master.m3u8", 403, ""),
            ("/paid.mp4/index.m3u8", 403, ""),
            ("/paid.mp4/init.mp4", 403, ""),
            ("/paid.mp4/seg-1.m4s", 403, ""),
            ("/inside.php", 404, ""),
            ("/inside.php/x", 404, ""),
            ("/marked.php/x/y", 200, "ran /marked.php /x/y"),
            ("/wiki.php/A", 200, "ran /wiki.php /A"),
            ("/tried.php/A", 200, "ran /tried.php /A"),
            ("/up/evil.php/x", 403, ""),
            ("/up/evil.php/", 403, ""),
            ("/up/evil.cgi/x", 403, ""),
            ("/ok/a.cgi/x", 200, "ran /ok/a.cgi /x"),
        ],
    );
    let marked = client.get("/marked.php/x").unwrap();
    assert_eq!(marked.field("X-Own"), Some("yes"));
    let wiki = client.get("/wiki.php/A").unwrap();
    assert_eq!(wiki.field("X-Wiki"), Some("yes"));
}

/// A server of FastCGI finds the script in front of path info by itself. The one here does not run:
/// what would be asked of it is 503.
#[test]
fn scripts_of_other_servers_are_under_their_routes() {
    let proxy = "proxy = \"fcgi+unix:/nowhere/php.sock\"\n";
    let site = format!(
        "[[site.route]]\npath = \"/app/secret.php\"\ndeny = true\n\
         [[site.route]]\npath = \"/app/tool\"\ndeny = true\n\
         [[site.route]]\npath = \"/inside.php\"\ninternal = true\n\
         [[site.route]]\npath = \"/up/*.php\"\ndeny = true\n\
         [[site.route]]\npath = \"/far/secret.php\"\ndeny = true\n\
         [[site.route]]\npath = \"/far/*\"\nroot = \"/nowhere\"\n{proxy}\
         [[site.route]]\npath = \"*.php\"\n{proxy}\
         [[site.route]]\npath = \"/*\"\n{proxy}"
    );
    let files = [
        ("www/app/secret.php", SCRIPT),
        ("www/app/tool", SCRIPT),
        ("www/inside.php", SCRIPT),
        ("www/index.php", SCRIPT),
        ("www/up/evil.php", SCRIPT),
        ("www/pic/a.jpg", "a picture"),
    ];
    let saker = start("file-routes-fastcgi", &site, &files);
    let mut client = saker.connect().unwrap();
    expect(
        &mut client,
        &[
            ("/app/secret.php", 403, ""),
            ("/app/secret.php/x", 403, ""),
            ("/app/secret.php/x/y.php", 403, ""),
            ("/app/secret.php/", 403, ""),
            ("/app/tool/x", 403, ""),
            ("/app/other/x", 503, ""),
            ("/inside.php/x", 404, ""),
            ("/up/evil.php/x", 403, ""),
            ("/pic/a.jpg/x.php", 404, ""),
            ("/far/secret.php/x", 403, ""),
            ("/far/other.php/x", 503, ""),
            ("/index.php", 503, ""),
            ("/index.php/x", 503, ""),
            ("/index.php/x.php", 404, ""),
            ("/none.php", 404, ""),
        ],
    );
}

#[test]
fn with_htaccess_files_too() {
    let site = "htaccess = true\nphp = \"auto\"\nmedia = [\"mp4\", \"hls\"]\n\
         [[site.route]]\npath = \"/paid.mp4\"\ndeny = true\n\
         [[site.route]]\npath = \"/up/d/index.html\"\ndeny = true\n\
         [[site.route]]\npath = \"/up/*.php\"\ndeny = true\n";
    let files = [
        ("www/paid.mp4", "no film"),
        ("www/index.html", "first"),
        ("www/a.php", SCRIPT),
        ("www/up/d/index.html", "closed"),
        ("www/up/p/index.php", SCRIPT),
        ("www/up/evil.php", SCRIPT),
    ];
    let saker = start("file-routes-htaccess", site, &files);
    expect(
        &mut saker.connect().unwrap(),
        &[
            ("/", 200, "first"),
            ("/a.php/x", 200, "ran /a.php /x"),
            ("/paid.mp4/master.m3u8", 403, ""),
            ("/up/d/", 403, ""),
            ("/up/p/", 403, ""),
            ("/up/evil.php/x", 403, ""),
        ],
    );
}

/// `root` and `alias` of routes, with each of the features that has files served by other rules.
#[test]
fn routes_with_directories_of_their_own() {
    let files = [
        ("www/dx/d.txt", "of the site"),
        ("www/dx/closed/d.txt", "of the site"),
        ("www/rx/d.txt", "of the site"),
        ("www/.htaccess", "Header set X-Site yes\n"),
        ("alt/d.txt", "of the alias"),
        ("alt/index.html", "index of the alias"),
        ("alt/closed/.htaccess", "Require all denied\n"),
        ("alt/closed/d.txt", "closed"),
        (
            "alt/moved/.htaccess",
            "RewriteEngine On\nRewriteRule ^old$ new.txt\n",
        ),
        ("alt/moved/new.txt", "rewritten"),
        ("own/rx/d.txt", "of the root"),
        ("own/rx/closed/.htaccess", "Require all denied\n"),
        ("own/rx/closed/d.txt", "closed"),
    ];
    let routes = "[[site.route]]\npath = \"/dx/*\"\nalias = \"{dir}/alt\"\n\
         [[site.route]]\npath = \"/one\"\nalias = \"{dir}/alt/d.txt\"\n\
         [[site.route]]\npath = \"/rx/*\"\nroot = \"{dir}/own\"\n";
    let substitute = "substitute = [\"s|zzz|y|\"]\nsubstitute_types = [\"text/plain\"]\n";
    for (name, line, reads_htaccess) in [
        ("on", "htaccess = true\n", true),
        ("ssi", "ssi = [\"shtml\"]\n", false),
        ("negotiation", "negotiation = true\n", false),
        ("substitute", substitute, false),
        ("none", "", false),
    ] {
        let name = format!("file-routes-{name}");
        let saker = start(&name, &format!("{line}{routes}"), &files);
        let mut client = saker.connect().unwrap();
        expect(
            &mut client,
            &[
                ("/dx/d.txt", 200, "of the alias"),
                ("/dx/", 200, "index of the alias"),
                ("/one", 200, "of the alias"),
                ("/rx/d.txt", 200, "of the root"),
            ],
        );
        if reads_htaccess {
            expect(
                &mut client,
                &[
                    ("/dx/closed/d.txt", 403, ""),
                    ("/dx/closed/", 403, ""),
                    ("/rx/closed/d.txt", 403, ""),
                    ("/dx/moved/old", 200, "rewritten"),
                ],
            );
        }
    }
}

/// Routes of files, each with another rule that must be asked, and what a path stands for.
const GUARDED: &str = "index = [\"index.html\", \"index.php\"]\nphp = \"off\"\nlisting = true\n\
    [[site.route]]\npath = \"/n/*.mp4\"\n[site.route.trigger]\npages = [\"/page.html\"]\nfiles = [\"*\"]\n\
    [[site.route]]\npath = \"/n/challenge/index.html\"\n[site.route.challenge]\nwhen = \"always\"\n\
    [[site.route]]\npath = \"/n/internal/*.txt\"\ninternal = true\n\
    [[site.route]]\npath = \"/n/rules/index.html\"\nmodsecurity = true\nmodsecurity_rules = 'SecRule ARGS:x \"@contains evil\" \"id:1,phase:1,deny,status:403\"'\n\
    [[site.route]]\npath = \"/n/limited/*.html\"\n[site.route.throttle]\nrequests_static = \"1/m\"\n\
    [[site.route]]\npath = \"/n/program/*.php\"\nrespond = \"by the program\"\n\
    [[site.route]]\npath = \"/n/users/*.html\"\nauth = { realm = \"x\", user_file = \"{dir}/users\" }\n";

/// Index files and variants are under all rules of their own routes, whatever finds them.
#[test]
fn rules_of_files_are_asked_whatever_finds_them() {
    let files = [
        ("www/page.html", "page"),
        ("www/n/film.mp4", "film"),
        ("www/n/challenge/index.html", "challenged"),
        ("www/n/internal/data.txt", "data"),
        ("www/n/rules/index.html", "inspected"),
        ("www/n/limited/index.html", "limited"),
        ("www/n/program/index.php", "source"),
        ("www/n/users/index.html", "for users"),
        ("www/n/users/none/a.txt", "listed"),
        ("users", "bob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"),
    ];
    for (htaccess, negotiation) in [(false, false), (true, false), (false, true), (true, true)] {
        let how = format!("htaccess = {htaccess}\nnegotiation = {negotiation}\n");
        let saker = start("file-routes-rules", &format!("{how}{GUARDED}"), &files);
        let mut client = saker.connect().unwrap();
        let mut own = |target: &str, fields: &[(&str, &str)]| {
            let response = client.request("GET", target, fields).unwrap();
            (response.status, response.text().contains("challenged"))
        };
        for round in 0..2 {
            let said = format!("round {round} with {how}");
            for (path, file) in [
                ("/n/challenge/", "/n/challenge/index.html"),
                ("/n/rules/?x=evil", "/n/rules/index.html?x=evil"),
                ("/n/rules/?x=good", "/n/rules/index.html?x=good"),
                ("/n/program/", "/n/program/index.php"),
                ("/n/users/", "/n/users/index.html"),
            ] {
                assert_eq!(own(path, &[]), own(file, &[]), "{path}, {said}");
            }
            assert!(!own("/n/challenge/", &[]).1, "{said}");
            assert_eq!(own("/n/rules/?x=evil", &[]).0, 403, "{said}");
            assert_eq!(own("/n/program/", &[]).0, 200, "{said}");
            assert_eq!(own("/n/users/", &[]).0, 401, "{said}");
            let good = [("Authorization", "Basic Ym9iOnNlY3JldA==")];
            assert_eq!(own("/n/users/", &good).0, 200, "{said}");
            // There is no index file that is closed.
            assert_eq!(own("/n/users/none/", &[]).0, 200, "{said}");
            let variants = [
                ("/n/film", 403),
                ("/n/internal/data", 404),
                ("/n/rules/index?x=evil", 403),
                ("/n/users/index", 401),
            ];
            for (path, status) in variants {
                let status = if negotiation { status } else { 404 };
                assert_eq!(own(path, &[]).0, status, "{path}, {said}");
            }
            assert_ne!(own("/n/challenge/index", &[]).0, 200, "{said}");
        }
        for path in ["/n/limited/", "/n/limited/index"] {
            let path = if negotiation { path } else { "/n/limited/" };
            let is_limited = (0..6).any(|_| own(path, &[]).0 == 429);
            assert!(is_limited, "{path} with {how}");
        }
    }
}

/// Rules about links are asked for the file that a path stands for without naming it.
#[test]
fn rules_about_links_are_asked_for_the_file() {
    let rules = "media = [\"mp4\", \"hls\"]\nphp = \"auto\"\ncgi = [\"*.cgi\"]\n\
         [site.trigger]\npages = [\"/page.html\"]\nfiles = [\"*.mp4\", \"*.cgi\", \"*.php\", \"/d/index.html\"]\n\
         [site.hotlink]\nallow = [\"own\"]\nnone = false\nextensions = [\"mp4\", \"jpg\"]\n";
    for how in [
        "",
        "htaccess = true\n",
        "htaccess = true\nnegotiation = true\n",
    ] {
        let dir = TempDir::new("file-routes-links").unwrap();
        dir.write("www/page.html", "page").unwrap();
        dir.write("www/d/index.html", "index").unwrap();
        dir.write("www/open/index.html", "open").unwrap();
        dir.write("www/a.php", SCRIPT).unwrap();
        dir.write("www/x.cgi", PROGRAM).unwrap();
        fs::set_permissions(dir.join("www/x.cgi"), fs::Permissions::from_mode(0o755)).unwrap();
        let film = dir.join("www/film.mp4");
        let made = std::process::Command::new("ffmpeg")
            .args([
                "-loglevel",
                "error",
                "-f",
                "lavfi",
                "-i",
                "testsrc=duration=2:size=64x64:rate=5",
            ])
            .args(["-c:v", "libx264", "-pix_fmt", "yuv420p"])
            .arg(&film)
            .status()
            .unwrap();
        assert!(made.success());
        let text = format!(
            "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[php]\nprogram = \"php-cgi\"\nprocesses = 1\n\n[[listener]]\naddress = \"{{address}}\"\n\n\
             [[site]]\nnames = [\"localhost\"]\nroot = \"{{dir}}/www\"\n{how}{rules}"
        );
        let saker = operate::native(&text).start(dir);
        let mut client = saker.connect().unwrap();
        let mut paths = vec![
            "/film.mp4",
            "/film.mp4/master.m3u8",
            "/film.mp4/index.m3u8",
            "/film.mp4/seg-1.m4s",
            "/d/index.html",
            "/d/",
            "/x.cgi",
            "/x.cgi/foo",
            "/a.php",
            "/a.php/foo",
        ];
        if how.contains("negotiation") {
            paths.push("/film");
        }
        let mut status = |path: &str, referer: &str| {
            let fields = [("Host", "localhost"), ("Referer", referer)];
            client.request("GET", path, &fields).unwrap().status
        };
        let good = "http://localhost/page.html";
        // Under the rules of `.htaccess` files there is nothing below a film or a program.
        let is_below = |path: &str| path.starts_with("/film.mp4/") || path.starts_with("/x.cgi/");
        let opened = |path: &str| match is_below(path) && !how.is_empty() {
            true => 404,
            false => 200,
        };
        for _ in 0..2 {
            assert_eq!(status("/open/", good), 200);
            for path in &paths {
                assert_eq!(status(path, good), 403, "{path} with {how:?}");
            }
        }
        assert_eq!(status("/page.html", good), 200);
        for _ in 0..2 {
            for path in &paths {
                assert_eq!(status(path, good), opened(path), "{path} with {how:?}");
                if path.contains("film") {
                    let other = status(path, "http://other.test/");
                    assert_eq!(other, 403, "{path} from elsewhere with {how:?}");
                }
            }
        }
    }
}
