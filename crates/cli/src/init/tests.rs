//! Applications by their files, and the configuration written for each.

use super::{application::Kind, *};
use saker_testkit::TempDir;
use std::os::unix::net::UnixListener;

fn directory(files: &[&str]) -> TempDir {
    let dir = TempDir::private("init").unwrap();
    for file in files {
        let (name, text) = file.split_once('=').unwrap_or((file, ""));
        let path = dir.join("app").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

/// Application, files, document root below the directory.
const KNOWN: &[(&str, &[&str], &str)] = &[
    ("wordpress", &["wp-load.php", "index.php"], ""),
    ("wordpress", &["wp-includes/a.php", "wp-admin/a.php"], ""),
    (
        "nextcloud",
        &["occ", "status.php", "remote.php", "index.php"],
        "",
    ),
    ("magento", &["bin/magento", "pub/index.php"], "pub"),
    ("drupal", &["core/lib/Drupal.php", "index.php"], ""),
    (
        "drupal",
        &["web/core/lib/Drupal.php", "web/index.php", "composer.json"],
        "web",
    ),
    (
        "laravel",
        &["artisan", "public/index.php", "package.json={}"],
        "public",
    ),
    ("symfony", &["bin/console", "public/index.php"], "public"),
    (
        "joomla",
        &["administrator/manifests/files/joomla.xml", "index.php"],
        "",
    ),
    (
        "mediawiki",
        &["load.php", "api.php", "mw-config/index.php"],
        "",
    ),
    (
        "dokuwiki",
        &["doku.php", "lib/exe/fetch.php", "index.php"],
        "",
    ),
    (
        "phpmyadmin",
        &["libraries/vendor_config.php", "index.php"],
        "",
    ),
    (
        "roundcube",
        &["program/include/iniset.php", "index.php"],
        "",
    ),
    (
        "roundcube",
        &["program/include/iniset.php", "public_html/index.php"],
        "public_html",
    ),
    ("php", &["index.php", "index.html"], ""),
    ("php", &["composer.json={}", "public/index.php"], "public"),
    ("php", &["start.php"], ""),
    (
        "node",
        &[
            "package.json={\"dependencies\":{\"express\":\"5\"}}",
            "public/index.html",
        ],
        "",
    ),
    (
        "node",
        &["package.json={\"scripts\":{\"start\":\"node . --port 4000\"}}"],
        "",
    ),
    (
        "spa",
        &[
            "package.json={\"devDependencies\":{\"vue-router\":\"4\"}}",
            "dist/index.html",
        ],
        "dist",
    ),
    (
        "spa",
        &["index.html=<div id=\"app\"></div><script src=a.js></script>"],
        "",
    ),
    (
        "static",
        &["index.html=<p>Hello</p><script src=a.js></script>"],
        "",
    ),
    ("static", &["a.txt"], ""),
];

fn arguments(dir: &TempDir) -> Init {
    Init {
        directory: Some(dir.join("app")),
        preset: None,
        php: None,
        domain: Vec::new(),
        output: Some(dir.join("saker.toml")),
        yes: true,
        force: false,
    }
}

#[test]
fn applications_are_known_by_their_files() {
    for (name, files, below) in KNOWN {
        let dir = directory(files);
        let app = dir.join("app");
        let found = application::detect(&app);
        let root = if below.is_empty() {
            app
        } else {
            app.join(below)
        };
        assert_eq!((found.name(), found.root), (*name, root), "{files:?}");
    }
    let dir = directory(&[
        ".env=A=1\nPORT=8123\n",
        "package.json={\"scripts\":{\"start\":\"x\"}}",
    ]);
    assert_eq!(application::detect(&dir.join("app")).kind, Kind::Node(8123));
}

#[test]
fn what_is_written_is_valid_and_formatted() {
    for (name, files, _) in KNOWN {
        for domain in [&[][..], &["example.org".to_owned()]] {
            let dir = directory(files);
            let init = Init {
                domain: domain.to_vec(),
                php: Some("unix:/run/php.sock".into()).filter(|_| domain.is_empty()),
                ..arguments(&dir)
            };
            let path = try_init(&init).unwrap_or_else(|why| panic!("{name}: {why}"));
            let text = fs::read_to_string(&path).unwrap();
            let loaded = saker_config::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
            assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
            assert_eq!(saker_config::format(&text, "x").unwrap(), text);
            let site = &loaded.model.sites[0];
            assert!(
                site.root
                    .as_ref()
                    .is_some_and(|root| root.starts_with(dir.join("app")))
            );
            assert_eq!(site.https_redirect.is_some(), !domain.is_empty());
            assert_eq!(text.contains("php = \"unix:"), domain.is_empty(), "{text}");
        }
    }
}

#[test]
fn a_file_is_overwritten_by_force_only_and_links_are_not_followed() {
    let dir = directory(&["index.html"]);
    let target = dir.join("precious");
    fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, dir.join("saker.toml")).unwrap();
    let init = arguments(&dir);
    let refusal = try_init(&init).unwrap_err();
    assert!(refusal.contains("--force"), "{refusal}");
    try_init(&Init {
        force: true,
        ..init
    })
    .unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert!(
        fs::symlink_metadata(dir.join("saker.toml"))
            .unwrap()
            .is_file()
    );
}

#[test]
fn a_file_in_the_document_root_is_not_served() {
    let dir = directory(&["index.html"]);
    let init = Init {
        output: Some(dir.join("app/saker.toml")),
        ..arguments(&dir)
    };
    let path = try_init(&init).unwrap();
    let model = saker_config::load(&path).unwrap().model;
    let denies = |path: &[u8]| {
        model.sites[0].routes.iter().any(|route| {
            matches!(route.action, saker_config::model::Action::Deny)
                && route.pattern.captures(path).is_some()
        })
    };
    assert!(denies(b"/saker.toml") && denies(b"/saker.toml~") && !denies(b"/index.html"));
}

#[test]
fn wrong_arguments_write_nothing() {
    let dir = directory(&["index.php"]);
    for (init, expected) in [
        (
            Init {
                preset: Some("wordpres".into()),
                ..arguments(&dir)
            },
            "did you mean wordpress?",
        ),
        (
            Init {
                php: Some("fpm".into()),
                ..arguments(&dir)
            },
            "--php fpm:",
        ),
        (
            Init {
                domain: vec!["localhost".into()],
                ..arguments(&dir)
            },
            "--domain localhost:",
        ),
        (
            Init {
                directory: Some(dir.join("missing")),
                ..arguments(&dir)
            },
            "not a directory",
        ),
        (
            Init {
                output: Some(dir.join("no/saker.toml")),
                ..arguments(&dir)
            },
            "cannot write",
        ),
    ] {
        let why = try_init(&init).unwrap_err();
        assert!(why.contains(expected), "{why}");
        assert!(!dir.join("saker.toml").exists());
    }
}

#[test]
fn sockets_of_php_fpm() {
    let dir = TempDir::private("init").unwrap();
    assert_eq!(backend::php(&dir), "auto");
    let folder = dir.join("run/php");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("php9-fpm.sock"), "").unwrap();
    let _sockets: Vec<UnixListener> = ["php8.1-fpm.sock", "php8.3-fpm.sock"]
        .iter()
        .map(|name| UnixListener::bind(folder.join(name)).unwrap())
        .collect();
    let expected = format!("unix:{}", folder.join("php8.3-fpm.sock").display());
    assert_eq!(backend::php(&dir), expected);
}

/// Passwords and denials of the folders hold, whatever the application is.
#[test]
fn htaccess_files_are_applied_wherever_they_lie() {
    use saker_config::model::Htaccess;
    let protected: &[(&[&str], bool)] = &[
        (&["index.php", "store/.htaccess=Require all denied"], true),
        (&["index.php", ".htaccess=Require all denied"], true),
        (&["index.php", "store/a.php"], false),
    ];
    for (files, is_applied) in protected {
        let dir = directory(files);
        let path = try_init(&arguments(&dir)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(saker_config::format(&text, "x").unwrap(), text);
        let model = saker_config::load(&path).unwrap().model;
        let mut all = Vec::new();
        for (_, settings) in model.all_settings() {
            settings.each(&mut |settings| all.push(settings.htaccess == Htaccess::On));
        }
        assert!(!all.is_empty());
        assert!(
            all.iter().all(|is_on| is_on == is_applied),
            "{files:?}: {all:?}\n{text}"
        );
    }
}

#[test]
fn htaccess_files_behind_links_count_and_circles_end() {
    let dir = directory(&["index.html", "a/b/c.html"]);
    let app = dir.join("app");
    std::os::unix::fs::symlink("..", app.join("a/up")).unwrap();
    assert!(!htaccess::is_below(&app));
    fs::create_dir(dir.join("elsewhere")).unwrap();
    fs::write(dir.join("elsewhere/.htaccess"), "").unwrap();
    std::os::unix::fs::symlink(dir.join("elsewhere"), app.join("a/link")).unwrap();
    assert!(htaccess::is_below(&app));
}

/// Presets do not go with the files; what those close is closed all the same.
#[test]
fn folders_that_htaccess_files_close_are_closed_with_presets() {
    let dir = directory(&[
        "wp-load.php",
        "index.php",
        ".htaccess=RewriteEngine On",
        "wp-admin/.htaccess=AuthType Basic\nRequire valid-user",
        "wp-content/private/.htaccess=Require all denied",
        "wp-content/plugins/a/.htaccess=Require all denied\n<Files a.js>\nRequire all granted",
    ]);
    let path = try_init(&arguments(&dir)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(saker_config::format(&text, "x").unwrap(), text);
    let model = saker_config::load(&path).unwrap().model;
    let is_denied = |path: &[u8]| {
        let routes = &model.sites[0].routes;
        let mut found = routes
            .iter()
            .filter(|route| route.pattern.captures(path).is_some());
        let first = found.next();
        first.is_some_and(|route| matches!(route.action, saker_config::model::Action::Deny))
    };
    assert!(is_denied(b"/wp-admin/") && is_denied(b"/wp-content/private/invoice.pdf"));
    assert!(!is_denied(b"/") && !is_denied(b"/wp-content/plugins/a/a.js"));
}
