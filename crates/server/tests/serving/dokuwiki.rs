//! DokuWiki from Debian's package on managed PHP: installed through its own page, then used by
//! requests as a browser would, with the rules that its `.htaccess` has ready for nice addresses.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{self};
use saker_testkit::{Saker, TempDir};
use std::{fs, path::Path, process::Command};

const SOURCE: &str = "/usr/share/dokuwiki";
/// One pixel.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\xdacd\xf8\xcfP\x0f\0\x03\x86\x01\x80Z4}k\0\0\0\0IEND\xaeB`\x82";

/// A copy of the package's files with a folder of settings and one of data, as the original has
/// them.
fn unpack(dir: &Path) {
    assert!(
        Path::new(SOURCE).is_dir(),
        "dokuwiki is not there: tools/install-test-programs"
    );
    let root = dir.join("www");
    let copy = |from: &str, to: &Path| {
        assert!(
            Command::new("cp")
                .arg("-rL")
                .arg(from)
                .arg(to)
                .status()
                .unwrap()
                .success()
        )
    };
    copy(SOURCE, &root);
    fs::create_dir(root.join("conf")).unwrap();
    for entry in fs::read_dir("/etc/dokuwiki").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !["local.php", "acl.auth.php", "users.auth.php", "htaccess"].contains(&name.as_str()) {
            copy(
                &entry.path().to_string_lossy(),
                &root.join("conf").join(name),
            );
        }
    }
    for folder in [
        "attic",
        "cache",
        "index",
        "locks",
        "log",
        "media",
        "media_attic",
        "media_meta",
        "meta",
        "pages",
        "tmp",
    ] {
        fs::create_dir_all(root.join("data").join(folder)).unwrap();
    }
    copy("/var/lib/dokuwiki/data/.htaccess", &root.join("data"));
    let own = format!("{}/conf/", root.display());
    change(&root.join("inc/preload.php"), |text| {
        text.replace("/etc/dokuwiki/", &own)
    });
    // The rules for nice addresses are there, as comments.
    change(&root.join(".htaccess"), |text| {
        let (before, rest) = text.split_once("#RewriteEngine on").unwrap();
        let (rules, behind) = rest.split_once("\n## Not all").unwrap();
        format!(
            "{before}RewriteEngine on{}\n## Not all{behind}",
            rules.replace("\n#Rewrite", "\nRewrite")
        )
    });
    if rustix::process::geteuid().is_root() {
        assert!(
            Command::new("chown")
                .args(["-R", "www-data:www-data"])
                .arg(&root)
                .status()
                .unwrap()
                .success()
        );
    }
}

fn change(path: &Path, how: impl Fn(String) -> String) {
    let text = how(fs::read_to_string(path).unwrap());
    fs::write(path, text).unwrap();
}

fn serve(dir: TempDir) -> Saker {
    let modules: String = [
        "mpm_event",
        "authz_core",
        "dir",
        "mime",
        "rewrite",
        "alias",
        "unixd",
    ]
    .iter()
    .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
    .collect();
    let user = if rustix::process::geteuid().is_root() {
        "User www-data\nGroup www-data\n"
    } else {
        ""
    };
    let root = dir.display().to_string();
    let text = format!(
        "{modules}LoadModule php_module modules/libphp8.2.so\n{user}ServerRoot {root}\nListen {{address}}\nServerName localhost\n\
             TypesConfig /etc/mime.types\nDocumentRoot {root}/www\nDirectoryIndex index.php index.html\n\
             <FilesMatch \"\\.php$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n\
             <Directory {root}/www>\nOptions FollowSymLinks\nAllowOverride All\nRequire all granted\n</Directory>\n"
    );
    let server = operate::apache(&text)
        .arguments(&["--php", "php-fpm"])
        .start_in(&dir);
    Saker { server, dir }
}

/// curl with the cookies of one client: status and content.
struct Visitor<'s>(&'s Saker);

impl Visitor<'_> {
    fn ask(&self, target: &str, arguments: &[&str]) -> (u16, String) {
        let jar = self.0.dir.join("cookies");
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "60", "-w", "\n%{http_code}"])
            .args([
                std::ffi::OsStr::new("-b"),
                jar.as_os_str(),
                std::ffi::OsStr::new("-c"),
                jar.as_os_str(),
            ])
            .args(arguments)
            .arg(format!("http://{}{target}", self.0.server.address()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (content, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), content.to_owned())
    }

    fn post(&self, target: &str, fields: &[(&str, &str)]) -> (u16, String) {
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let arguments: Vec<&str> = fields
            .iter()
            .flat_map(|field| ["--data-urlencode", field])
            .collect();
        self.ask(target, &arguments)
    }

    /// Token that protects a form, from its page.
    fn token(&self, target: &str) -> String {
        let page = self.ask(target, &[]).1;
        let token = page
            .split("name=\"sectok\"")
            .nth(1)
            .and_then(|rest| rest.split("value=\"").nth(1))
            .and_then(|rest| rest.split('"').next());
        token.unwrap_or_default().to_owned()
    }
}

#[test]
fn dokuwiki_is_installed_and_used() {
    let _turn = saker_testkit::heavy();
    let dir = TempDir::new("dokuwiki").unwrap();
    unpack(&dir);
    let saker = serve(dir);
    let visitor = Visitor(&saker);
    install(&visitor);
    write_a_page(&visitor);
    upload(&visitor);
    visitor.ask("/lib/exe/taskrunner.php?id=first", &[]);
    let (status, found) = visitor.ask("/start?do=search&q=kestrels", &[]);
    assert!(
        status == 200 && found.contains("search_hit"),
        "{status} {found}"
    );
    for (target, kind) in [
        ("/lib/exe/css.php", "body"),
        ("/lib/exe/js.php", "function"),
    ] {
        let (status, text) = visitor.ask(target, &[]);
        assert!(status == 200 && text.contains(kind), "{target}: {status}");
    }
    for closed in [
        "/data/pages/first.txt",
        "/inc/init.php",
        "/conf/users.auth.php",
        "/.htaccess",
        "/VERSION",
        "/bin/dwpage.php",
    ] {
        assert_eq!(visitor.ask(closed, &[]).0, 403, "{closed}");
    }
}

fn install(visitor: &Visitor<'_>) {
    let (status, page) = visitor.ask("/install.php", &[]);
    assert!(
        status == 200 && page.contains("d[superuser]"),
        "{status} {page}"
    );
    let fields = [
        ("l", "en"),
        ("d[title]", "Birds"),
        ("d[acl]", "1"),
        ("d[superuser]", "admin"),
        ("d[fullname]", "Ann"),
        ("d[email]", "ann@birds.test"),
        ("d[password]", "secret99"),
        ("d[confirm]", "secret99"),
        ("d[policy]", "1"),
        ("d[license]", "cc-by-sa"),
        ("submit", ""),
    ];
    let (status, page) = visitor.post("/install.php", &fields);
    assert!(
        status == 200 && page.contains("successfully"),
        "{status} {page}"
    );
    assert!(visitor.ask("/start", &[]).1.contains("Birds"));
    // Anonymous users may not write.
    assert!(!visitor.ask("/first?do=edit", &[]).1.contains("do[save]"));
    let token = visitor.token("/start?do=login");
    let (status, _) = visitor.post(
        "/start",
        &[
            ("sectok", &token),
            ("id", "start"),
            ("do", "login"),
            ("u", "admin"),
            ("p", "secret99"),
        ],
    );
    assert_eq!(status, 302, "logged in");
    assert!(visitor.ask("/start", &[]).1.contains("do=logout"));
}

fn write_a_page(visitor: &Visitor<'_>) {
    let token = visitor.token("/first?do=edit");
    let fields = [
        ("sectok", token.as_str()),
        ("id", "first"),
        ("rev", "0"),
        ("prefix", "."),
        ("suffix", ""),
        ("summary", "made"),
        ("target", "section"),
        (
            "wikitext",
            "====== First ======\nKestrels hover. {{:bird.png}}",
        ),
        ("do[save]", "1"),
    ];
    assert_eq!(visitor.post("/first?do=edit", &fields).0, 302, "saved");
    let (status, page) = visitor.ask("/first", &[]);
    assert!(
        status == 200 && page.contains("Kestrels hover"),
        "{status} {page}"
    );
}

fn upload(visitor: &Visitor<'_>) {
    let file = visitor.0.dir.write("bird.png", PICTURE).unwrap();
    let token = format!("sectok={}", visitor.token("/first?do=media"));
    let content = format!("qqfile=@{}", file.display());
    let arguments = [
        "-F",
        "call=mediaupload",
        "-F",
        &token,
        "-F",
        "ns=",
        "-F",
        "mediaid=bird.png",
        "-F",
        &content,
        "-F",
        "ow=1",
    ];
    let (status, said) = visitor.ask("/lib/exe/ajax.php", &arguments);
    assert!(
        status == 200 && said.contains("\"success\":true"),
        "{status} {said}"
    );
    let back = visitor.0.dir.join("back.png");
    let (status, _) = visitor.ask("/_media/bird.png", &["-o", &back.to_string_lossy()]);
    assert_eq!((status, fs::read(back).unwrap()), (200, PICTURE.to_vec()));
}
