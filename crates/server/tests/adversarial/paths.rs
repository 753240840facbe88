//! Spellings of paths against access rules, compared with the answers of the real Apache.
//!
//! Both servers run the same configuration over the same files; some 3,000 targets are made from a
//! few paths by changes that people know to open doors elsewhere. What one refuses the other has to
//! refuse, and a secret is only ever in an answer of both.

use crate::operate::{self};
use saker_testkit::{
    Client, Dice, Response, ServerProcess, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    free_port,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt, symlink},
};

const SECRET: &str = "s3cret";
/// As the issue of the suite asks: more than this many targets.
const TARGETS_MIN: usize = 3_000;

const CONF: &str = "<Directory {dir}/www>\nAllowOverride All\nOptions FollowSymLinks MultiViews ExecCGI\nRequire all granted\n</Directory>\n\
    <Location /secret>\nRequire all denied\n</Location>\n\
    <Directory {dir}/www/private>\nRequire all denied\n</Directory>\n\
    <FilesMatch \"\\.(inc|bak)$\">\nRequire all denied\n</FilesMatch>\n\
    <Files \".ht*\">\nRequire all denied\n</Files>\n\
    <LocationMatch \"^/admin(/|$)\">\nRequire all denied\n</LocationMatch>\n\
    <DirectoryMatch \"/\\.git\">\nRequire all denied\n</DirectoryMatch>\n\
    Alias /alias/ {dir}/www/aliased/\n\
    RedirectMatch 403 ^/gone/\n";

const PATHS: &[&str] = &[
    "/secret/file.txt",
    "/private/file.txt",
    "/open/notes.inc",
    "/open/.htaccess",
    "/admin/file.txt",
    "/.git/config",
    "/by-file/file.txt",
    "/rewritten/file.txt",
    "/alias/hidden/file.txt",
    "/gone/file.txt",
    "/open/file.txt",
    "/open/file.txt.bak",
];

/// Inserted at the borders of segments and at the end.
const INSERTED: &[&str] = &[
    "/",
    "//",
    "./",
    ".//",
    "/.",
    "/./",
    "x/../",
    "/x/../",
    "/x/%2e%2e/",
    "%2e/",
    "%2e%2e/",
    "/..",
    "/../",
    "../",
    ";",
    ";x",
    ";/",
    ";/../",
    "%3b",
    "%3b/",
    "%2f",
    "%2F",
    "%252f",
    "%5c",
    "\\",
    "\\..\\",
    "%5c..%5c",
    "%00",
    "%20",
    " ",
    "+",
    "%09",
    "%0a",
    "%0d",
    ".",
    "..",
    "...",
    "%2e",
    "%2E",
    "%2e%2e",
    "%c0%af",
    "%c0%ae",
    "%e0%80%af",
    "%u002f",
    "%uff0f",
    "%ef%bc%8f",
    "%",
    "%2",
    "%zz",
    "?",
    "%3f",
    "#",
    "%23",
    "~",
    "~1",
    "::$DATA",
    "%7f",
    "%80",
    ".html",
    ".en",
    "/index.html",
    "*",
    "%2a",
    ":",
    "@",
    "!",
    "|",
    "'",
    "\"",
    "<",
    "&",
    "=",
    ",",
    "$",
    "%25",
    "%252e%252e/",
];

/// Under `make soak`: as many targets as it makes requests elsewhere.
fn more_targets() -> usize {
    std::env::var("SAKER_SOAK")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

/// Every target; the same in each run.
fn targets() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for path in PATHS {
        let borders: Vec<usize> = path
            .match_indices('/')
            .map(|(at, _)| at + 1)
            .chain([0, path.len(), path.len() - 4])
            .collect();
        for border in &borders {
            for inserted in INSERTED {
                all.insert(format!(
                    "{}{inserted}{}",
                    &path[..*border],
                    &path[*border..]
                ));
            }
        }
        for (at, byte) in path.bytes().enumerate() {
            for coded in [
                format!("%{byte:02x}"),
                format!("%{byte:02X}"),
                format!("%25{byte:02x}"),
                format!("%u00{byte:02x}"),
            ] {
                all.insert(format!("{}{coded}{}", &path[..at], &path[at + 1..]));
            }
        }
        all.insert(path.to_ascii_uppercase());
        all.insert(path.bytes().map(|byte| format!("%{byte:02x}")).collect());
        all.insert(
            path.bytes()
                .map(|byte| {
                    if byte == b'/' {
                        "/".into()
                    } else {
                        format!("%{byte:02x}")
                    }
                })
                .collect(),
        );
        for prefix in [
            "http://localhost",
            "http://localhost:80",
            "HTTP://localhost",
            "http://other",
            "//localhost",
            "///",
            "/open/..",
            "/open/%2e%2e",
            "/open//..",
            "/open/./..",
        ] {
            all.insert(format!("{prefix}{path}"));
        }
        for both in [
            ("//", "/."),
            ("/.", "//"),
            ("/x/..", "%2e/"),
            ("/%2e", ";x"),
            ("/open/..", "."),
        ] {
            all.insert(format!("{}{path}{}", both.0, both.1));
        }
    }
    // Under `make soak`: two insertions, drawn with a fixed seed.
    let mut dice = Dice::new(1);
    let mut draw = |bound: usize| dice.below(bound as u64) as usize;
    while all.len() < more_targets() {
        let path = PATHS[draw(PATHS.len())];
        let mut target = path.to_owned();
        for _ in 0..2 {
            let at = draw(target.len() + 1);
            if target.is_char_boundary(at) {
                target.insert_str(at, INSERTED[draw(INSERTED.len())]);
            }
        }
        all.insert(target);
    }
    // Others are no targets of a GET (RFC 9112 section 3.2); Apache makes a path of some.
    all.retain(|target| {
        !target.contains(' ') && (target.starts_with('/') || target.contains("://"))
    });
    all
}

struct Pair {
    apache: ServerProcess,
    saker: ServerProcess,
    _dir: TempDir,
}

impl Pair {
    fn start() -> Pair {
        let dir = TempDir::new("paths").unwrap();
        for (name, marker) in [
            ("secret/file.txt", SECRET),
            ("private/file.txt", SECRET),
            ("open/notes.inc", SECRET),
            ("admin/file.txt", SECRET),
            (".git/config", SECRET),
            ("by-file/file.txt", SECRET),
            ("rewritten/file.txt", SECRET),
            ("aliased/hidden/file.txt", SECRET),
            ("gone/file.txt", SECRET),
            ("open/file.txt.bak", SECRET),
            ("open/file.txt", "open"),
            ("open/index.html", "index"),
            ("index.html", "root"),
            ("open/x.html", "x"),
        ] {
            dir.write(&format!("www/{name}"), format!("{marker}\n"))
                .unwrap();
        }
        dir.write("www/open/.htaccess", format!("# {SECRET}\n"))
            .unwrap();
        dir.write("www/by-file/.htaccess", "Require all denied\n")
            .unwrap();
        dir.write(
            "www/aliased/hidden/.htaccess",
            "Order deny,allow\nDeny from all\n",
        )
        .unwrap();
        dir.write(
            "www/rewritten/.htaccess",
            "RewriteEngine on\nRewriteRule ^file\\.txt$ - [F]\n",
        )
        .unwrap();
        symlink(dir.join("www/private"), dir.join("www/open/link")).unwrap();
        fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
        let (apache, saker) = (configuration(&dir, "apache"), configuration(&dir, "saker"));
        let apache = start_apache2(&apache.0, apache.1).unwrap();
        let saker = operate::apache("")
            .existing_file(saker.0)
            .state_dir("{dir}/saker/state")
            .at(saker.1)
            .start_in(&dir);
        Pair {
            apache,
            saker,
            _dir: dir,
        }
    }
}

fn configuration(dir: &TempDir, server: &str) -> (std::path::PathBuf, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let user = unprivileged_user();
    let modules = load_modules(&[
        "mpm_event",
        "authz_core",
        "authz_host",
        "access_compat",
        "alias",
        "rewrite",
        "dir",
        "mime",
        "negotiation",
    ]);
    let text = format!(
        "ServerRoot {{dir}}\nServerName localhost\nListen {address}\nPidFile {{dir}}/{server}.pid\nDefaultRuntimeDir {{dir}}\nErrorLog {{dir}}/{server}.log\n\
         {modules}{user}TypesConfig /etc/mime.types\nMaxKeepAliveRequests 0\nDocumentRoot {{dir}}/www\n{CONF}"
    );
    (
        dir.write(
            &format!("{server}.conf"),
            text.replace("{dir}", &dir.to_string_lossy()),
        )
        .unwrap(),
        address,
    )
}

/// Asks on a kept connection, and on another where the server has closed that one.
struct Asker {
    address: SocketAddr,
    client: Option<Client>,
}

impl Asker {
    fn ask(&mut self, target: &str) -> Response {
        for _ in 0..2 {
            let mut client = self
                .client
                .take()
                .unwrap_or_else(|| Client::connect(self.address).unwrap());
            if let Ok(response) = client.request("GET", target, &[]) {
                if response.field("connection") != Some("close") && response.status != 400 {
                    self.client = Some(client);
                }
                return response;
            }
        }
        panic!("no answer to {target} from {}", self.address);
    }
}

/// Refusals of both kinds are as good; which it is depends on who looks first.
fn kind(response: &Response) -> &'static str {
    match response.status {
        _ if String::from_utf8_lossy(&response.body).contains(SECRET) => "secret",
        200 | 206 => "content",
        300..=399 => "redirect",
        400..=499 => "refused",
        _ => "error",
    }
}

#[test]
fn no_spelling_of_a_path_passes_a_rule_that_apache_holds() {
    let pair = Pair::start();
    let (mut apache, mut saker) = (
        Asker {
            address: pair.apache.address(),
            client: None,
        },
        Asker {
            address: pair.saker.address(),
            client: None,
        },
    );
    let targets = targets();
    assert!(targets.len() >= TARGETS_MIN, "{}", targets.len());
    let (mut wrong, mut statuses) = (Vec::new(), BTreeMap::<(u16, u16), usize>::new());
    for target in &targets {
        // Twice: the second may be answered from what the first has left behind.
        for _ in 0..2 {
            let (theirs, ours) = (apache.ask(target), saker.ask(target));
            *statuses.entry((theirs.status, ours.status)).or_default() += 1;
            if kind(&theirs) != kind(&ours) {
                wrong.push(format!(
                    "{target}: apache {} ({}), saker {} ({})",
                    theirs.status,
                    kind(&theirs),
                    ours.status,
                    kind(&ours)
                ));
            }
        }
    }
    println!("{} targets; (apache, saker): {statuses:?}", targets.len());
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        targets.len(),
        wrong.join("\n")
    );
}
