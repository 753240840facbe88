//! Against the real Apache: what it accepts we accept, what it refuses we refuse in the same words,
//! and Debian's stock configuration with every module enabled is read to the same directives.

#![allow(clippy::unwrap_used, clippy::panic)]

use saker_apache_syntax::{Loaded, OnDisk, Setup, load, read_envvars};
use saker_config::Diagnostic;
use saker_testkit::{TempDir, require};
use std::{
    collections::HashMap,
    fs,
    path::Path,
    process::{Command, Output},
    sync::LazyLock,
};

const MODULES: &str = "/usr/lib/apache2/modules";
const LOADED: &[&str] = &[
    "mpm_event",
    "macro",
    "authz_core",
    "authz_host",
    "authn_core",
    "access_compat",
    "alias",
    "rewrite",
    "env",
    "headers",
    "info",
    "dir",
    "mime",
    "negotiation",
    "autoindex",
    "setenvif",
    "expires",
    "deflate",
    "proxy",
];
/// Lines that begin with `!` are refused; the text after it is what both say. The configuration
/// follows, its lines divided by ` | `.
const SNIPPETS: &str = include_str!("snippets.txt");

fn apache2(configuration: &Path, environment: &HashMap<Vec<u8>, Vec<u8>>, dump: bool) -> Output {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let mut command = Command::new(require("apache2").unwrap());
    command
        .args(["-t", "-f"])
        .arg(configuration)
        .args(dump.then_some(["-D", "DUMP_CONFIG"]).into_iter().flatten());
    command.env_clear().envs(
        environment
            .iter()
            .map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))),
    );
    command.output().unwrap()
}

fn base(folder: &Path) -> String {
    let modules: Vec<String> = LOADED
        .iter()
        .map(|module| format!("LoadModule {module}_module {MODULES}/mod_{module}.so\n"))
        .collect();
    let folder = folder.display();
    format!(
        "ServerRoot {folder}\n{}PidFile {folder}/pid\nErrorLog {folder}/error.log\nDocumentRoot {folder}\nServerName base\nListen 127.0.0.1:8123\n",
        modules.concat()
    )
}

fn loaded(configuration: &Path, environment: &HashMap<Vec<u8>, Vec<u8>>) -> Loaded {
    let mut setup = Setup::new(configuration.parent().unwrap(), configuration);
    setup.environment = environment.clone();
    load(&setup, &OnDisk)
}

#[test]
fn accepts_and_refuses_the_same() {
    let folder = TempDir::new("apache-snippets").unwrap();
    for (path, text) in [
        ("one.conf", "SetEnv one 1\n"),
        ("open.conf", "<Directory /x>\n"),
        ("conf.d/a.conf", "SetEnv a 1\n"),
    ] {
        folder.write(path, text).unwrap();
    }
    let environment = HashMap::from([(b"FROM_OUTSIDE".to_vec(), b"x".to_vec())]);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for snippet in SNIPPETS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# "))
    {
        let (message, text) = match snippet.strip_prefix('!') {
            Some(rest) => rest
                .split_once(" :: ")
                .map(|(message, text)| (Some(message), text))
                .unwrap(),
            None => (None, snippet),
        };
        let path = folder
            .write(
                "snippet.conf",
                format!("{}{}\n", base(&folder), text.replace(" | ", "\n")),
            )
            .unwrap();
        let theirs = apache2(&path, &environment, false);
        let said = String::from_utf8_lossy(&theirs.stderr).replace("\\n", "\n");
        let ours = loaded(&path, &environment);
        let first = ours.errors().next().map(|error| error.message.clone());
        count += 1;
        let same = match (&first, message) {
            (None, None) => theirs.status.success(),
            (Some(first), Some(message)) => {
                !theirs.status.success() && said.contains(message) && first.contains(message)
            }
            _ => false,
        };
        if !same {
            wrong.push(format!(
                "{snippet}\n  Apache: {}\n  Saker: {first:?}",
                said.trim().lines().last().unwrap_or_default()
            ));
        }
    }
    assert!(count >= 60, "{count} snippets");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Lines for configurations made by chance; sections are closed by chance, mostly rightly.
const LINES: &[&str] = &[
    "SetEnv a b",
    "SetEnv a",
    "SetEnv",
    "SetEnv \"a b\" 'c d' ",
    "  setenv x ${v} ",
    "SetEnv ${v}",
    "SetEnv a \\\n b",
    "# comment",
    "# comment \\",
    "",
    "Define v w",
    "Define v \"w x\"",
    "UnDefine v",
    "Define d",
    "Require all granted",
    "Options None",
    "Options Indexes",
    "Alias /a /b",
    "ServerTokens Prod",
    "DocumentRoot /",
    "AllowOverride None",
    "ErrorDocument 404 /x",
    "RewriteEngine On",
    "RewriteRule ^a$ b",
    "Header set A b",
    "Use m x",
    "Use m \"x y\"",
    "Use m",
    "UndefMacro m",
    "Use open",
    "Include one.conf",
    "IncludeOptional no*.conf",
    "Include conf.d",
    "Bogus x",
    "DirectoryIndex a b",
    "Order deny,allow",
    "<Directory /x>",
    "<Directory \"/x y\">",
    "<Location /x>",
    "<Files x>",
    "<FilesMatch x>",
    "<If \"true\">",
    "<ElseIf \"true\">",
    "<Else>",
    "<Limit GET>",
    "<LimitExcept GET>",
    "<RequireAll>",
    "<VirtualHost *>",
    "<IfModule mod_env.c>",
    "<IfModule no.c>",
    "<IfModule !no.c>",
    "<IfDefine d>",
    "<IfDefine !d>",
    "<IfVersion >= 2.4>",
    "<IfVersion < 2.4>",
    "<IfDirective SetEnv>",
    "<IfFile one.conf>",
    "<Macro m $a>\nSetEnv a $a\n</Macro>",
    "<Macro open>\n<Directory /y>\n</Macro>",
    "<Files x>\nSetEnv a b\n</Files>",
    "<IfModule core.c>\nSetEnv a b\n</IfModule>",
    "<Macro m>",
    "</Macro>",
    "</Directory>",
    "</IfModule>",
    "<Directory /x",
    "SetEnv> q r",
    "<Proxy *>",
    "ProxyRequests Off",
];

/// A configuration of a few lines.
fn by_chance(chance: &mut impl FnMut(usize) -> usize) -> String {
    let mut open: Vec<String> = Vec::new();
    let mut text = String::new();
    for _ in 0..1 + chance(12) {
        let line = match open.len() {
            0 => LINES[chance(LINES.len())].to_owned(),
            _ if chance(3) == 0 => format!("</{}>", open.pop().unwrap()),
            _ => LINES[chance(LINES.len())].to_owned(),
        };
        if line.starts_with('<') && !line.starts_with("</") && !line.contains('\n') {
            open.push(line[1..].split([' ', '>']).next().unwrap().to_owned());
        }
        text.push_str(&line);
        text.push('\n');
    }
    for name in open.iter().rev().filter(|_| chance(20) > 0) {
        text.push_str(&format!("</{name}>\n"));
    }
    text
}

/// `SAKER_CHANCES` runs more of them.
#[test]
fn configurations_made_by_chance_are_read_the_same() {
    let folder = TempDir::new("apache-chance").unwrap();
    folder.write("one.conf", "SetEnv one 1\n").unwrap();
    folder
        .write("conf.d/a.conf", "<Files b>\nSetEnv a 1\n</Files>\n")
        .unwrap();
    let count = std::env::var("SAKER_CHANCES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(100);
    let mut state = 20_u64;
    let mut chance = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut wrong, mut accepted) = (Vec::new(), 0);
    for _ in 0..count {
        let text = by_chance(&mut chance);
        let path = folder
            .write("chance.conf", format!("{}{text}", base(&folder)))
            .unwrap();
        let theirs = apache2(&path, &HashMap::new(), true);
        let ours = loaded(&path, &HashMap::new());
        let first = ours.errors().next().map(|error| error.message.clone());
        let (said, dump) = (
            String::from_utf8_lossy(&theirs.stdout).into_owned(),
            ours.tree.dump(),
        );
        accepted += usize::from(theirs.status.success());
        let same = match first {
            None => theirs.status.success() && directives(&said) == directives(&dump),
            Some(_) => !theirs.status.success(),
        };
        if !same {
            let complaint = String::from_utf8_lossy(&theirs.stderr).into_owned();
            wrong.push(format!(
                "{text}-- Apache: {complaint}{}\n-- Saker: {first:?}\n{dump}",
                directives(&said).join("\n")
            ));
        }
    }
    assert!(accepted > count / 20, "{accepted} of {count}");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong
            .iter()
            .take(8)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n======\n")
    );
}

/// Directives and sections of a dump, without the comments that say where they are from.
fn directives(dump: &str) -> Vec<&str> {
    dump.lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'))
        .collect()
}

/// Files that other packages have put beside Apache's own (mod_php insists on another MPM) stay
/// out.
fn is_of_the_package(name: &str) -> bool {
    static OWN: LazyLock<String> = LazyLock::new(|| {
        let listed = Command::new("dpkg-query")
            .args(["-L", "apache2"])
            .output()
            .unwrap();
        String::from_utf8(listed.stdout).unwrap()
    });
    OWN.lines()
        .any(|path| path.rsplit('/').next() == Some(name))
}

/// `/etc/apache2` with everything that is available enabled.
fn stock(folder: &TempDir) -> std::path::PathBuf {
    let copied = Command::new("cp")
        .args(["-rL", "/etc/apache2/."])
        .arg(&**folder)
        .status()
        .unwrap();
    assert!(copied.success());
    // One MPM and one of the two that run programs; the rest would need files that are not there.
    let left_out = ["mpm_prefork", "mpm_worker", "cgid"];
    for (available, enabled) in [
        ("mods-available", "mods-enabled"),
        ("conf-available", "conf-enabled"),
        ("sites-available", "sites-enabled"),
    ] {
        // Other packages enable theirs by themselves.
        fs::remove_dir_all(folder.join(enabled)).unwrap();
        fs::create_dir(folder.join(enabled)).unwrap();
        for entry in fs::read_dir(folder.join(available)).unwrap() {
            let name = entry.unwrap().file_name();
            let name = name.to_str().unwrap();
            let left_out = left_out.iter().any(|module| {
                name.split_once('.')
                    .is_some_and(|(stem, _)| stem == *module)
            });
            if !left_out && is_of_the_package(name) {
                fs::copy(
                    folder.join(available).join(name),
                    folder.join(enabled).join(name),
                )
                .unwrap();
            }
        }
    }
    // Apache wants to see the files of the certificate, which another package makes.
    let site = folder.join("sites-enabled/default-ssl.conf");
    let certificate = folder
        .write("certificate.pem", "x")
        .unwrap()
        .display()
        .to_string();
    let text = fs::read_to_string(&site).unwrap();
    let paths = [
        "/etc/ssl/certs/ssl-cert-snakeoil.pem",
        "/etc/ssl/private/ssl-cert-snakeoil.key",
    ];
    fs::write(
        &site,
        paths
            .iter()
            .fold(text, |text, path| text.replace(path, &certificate)),
    )
    .unwrap();
    let text = fs::read_to_string(folder.join("apache2.conf")).unwrap();
    folder
        .write(
            "apache2.conf",
            format!("ServerRoot {}\n{text}", folder.display()),
        )
        .unwrap()
}

#[test]
fn debians_stock_configuration_reads_the_same() {
    let folder = TempDir::new("apache-stock").unwrap();
    require("apache2").unwrap();
    let configuration = stock(&folder);
    let mut environment = HashMap::new();
    let text = fs::read(folder.join("envvars")).unwrap();
    read_envvars(&text, folder.to_string_lossy().as_bytes(), &mut environment);
    assert!(
        environment.contains_key(&b"APACHE_RUN_USER"[..])
            && environment.contains_key(&b"APACHE_LOG_DIR"[..]),
        "{environment:?}"
    );
    // Where the package's init script has made the folder; Apache insists on it.
    let folder_name = folder.display().to_string().into_bytes();
    for name in ["APACHE_RUN_DIR", "APACHE_LOG_DIR"] {
        environment.insert(name.as_bytes().to_vec(), folder_name.clone());
    }
    let theirs = apache2(&configuration, &environment, true);
    assert!(
        theirs.status.success(),
        "{}",
        String::from_utf8_lossy(&theirs.stderr)
    );
    let ours = loaded(&configuration, &environment);
    let errors: Vec<&Diagnostic> = ours.errors().collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let (theirs, dump) = (
        String::from_utf8_lossy(&theirs.stdout).into_owned(),
        ours.tree.dump(),
    );
    let (theirs, dump) = (directives(&theirs), directives(&dump));
    let different = theirs
        .iter()
        .zip(&dump)
        .position(|(theirs, ours)| theirs != ours);
    assert_eq!(
        (different, theirs.len()),
        (None, dump.len()),
        "{:?}",
        different.map(|at| (theirs[at], dump[at]))
    );
    assert!(theirs.len() > 250, "{} lines", theirs.len());
}
