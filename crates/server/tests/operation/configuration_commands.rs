//! Commands that write, format, and show configurations: `init`, `fmt`, `config`, `schema`.

use crate::operate::{self, PATIENCE, saker, stderr, stdout};
use saker_testkit::{Client, TempDir};
use serde_json::Value;
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

const WORDPRESS: &[(&str, &str)] = &[
    ("wp-load.php", ""),
    ("wp-includes/version.php", ""),
    ("wp-content/uploads/x.php", "<?php echo 'run';"),
    ("wp-content/a.css", "a"),
];

fn directory(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::private("commands").unwrap();
    for (name, text) in files {
        dir.write(&format!("app/{name}"), text).unwrap();
    }
    dir
}

fn arguments(dir: &Path, words: &str) -> Vec<String> {
    let dir = dir.display().to_string();
    let each = words.split(' ').map(|word| word.replace("DIR", &dir));
    each.collect()
}

#[test]
fn a_new_configuration_passes_its_check_and_serves() {
    let dir = directory(WORDPRESS);
    let init = saker(arguments(
        &dir,
        "init DIR/app --yes --php off -o DIR/saker.toml",
    ));
    assert!(init.status.success(), "{}", stderr(&init));
    assert!(stdout(&init).contains("saker run -c"), "{}", stdout(&init));
    let again = saker(arguments(&dir, "init DIR/app --yes -o DIR/saker.toml"));
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("--force"), "{}", stderr(&again));
    for words in [
        "check -c DIR/saker.toml",
        "fmt --check DIR/saker.toml",
        "init DIR/app --yes --force --php off -o DIR/saker.toml",
    ] {
        let output = saker(arguments(&dir, words));
        assert!(output.status.success(), "{words}: {}", stderr(&output));
    }
    // The same site on a port of the test.
    let text = fs::read_to_string(dir.join("saker.toml")).unwrap();
    let site = text.get(text.find("[[site]]").unwrap()..).unwrap();
    let site = site.get(..site.find("[site.tls]").unwrap()).unwrap();
    let text = format!(
        "[server]\nstate_dir = \"{{dir}}/state\"\n[[listener]]\naddress = \"{{address}}\"\n{site}"
    );
    let server = operate::start_in(dir, &text);
    let mut client = server.connect().unwrap();
    assert_eq!(client.get("/wp-content/a.css").unwrap().status, 200);
    let denied = client.get("/wp-content/uploads/x.php").unwrap();
    assert_eq!((denied.status, denied.text().contains("run")), (403, false));
}

#[test]
fn questions_are_asked_on_a_terminal_only() {
    let dir = directory(&[("index.html", "<p>Hello</p>")]);
    let output = Command::new(operate::SAKER)
        .args(arguments(&dir, "init DIR/app -o DIR/saker.toml"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    // A terminal: the second answer is the name of the site.
    let script = format!(
        "printf 'spa\\nexample.org\\n' | script -qec \"'{}' init '{}' -o '{}'\" /dev/null",
        operate::SAKER,
        dir.join("app").display(),
        dir.join("asked.toml").display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = fs::read_to_string(dir.join("asked.toml"))
        .unwrap_or_else(|error| panic!("{error}: {}", stdout(&output)));
    assert!(
        text.contains("preset = \"spa\"") && text.contains("names = [\"example.org\"]"),
        "{text}"
    );
}

#[test]
fn files_are_formatted_in_place_or_printed() {
    let dir = directory(&[]);
    dir.write("a.toml", "[ server ]\nworkers=1 # one\n")
        .unwrap();
    let formatted = "[server]\nworkers = 1 # one\n";
    let check = saker(arguments(&dir, "fmt --check DIR/a.toml"));
    assert_eq!(check.status.code(), Some(1));
    assert_eq!(
        stdout(&check),
        format!("{}\n", dir.join("a.toml").display())
    );
    let printed = saker(arguments(&dir, "fmt --stdout DIR/a.toml"));
    assert_eq!(stdout(&printed), formatted);
    let mut child = Command::new(operate::SAKER)
        .args(["fmt", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"[ server ]\nworkers=1 # one\n").unwrap();
    drop(input);
    assert_eq!(stdout(&child.wait_with_output().unwrap()), formatted);
    assert!(saker(arguments(&dir, "fmt DIR/a.toml")).status.success());
    assert_eq!(fs::read_to_string(dir.join("a.toml")).unwrap(), formatted);
    dir.write("b.toml", "a = \n").unwrap();
    let broken = saker(arguments(&dir, "fmt DIR/b.toml"));
    assert_eq!(broken.status.code(), Some(1));
    assert!(stderr(&broken).contains("b.toml:1:"), "{}", stderr(&broken));
    assert_eq!(fs::read_to_string(dir.join("b.toml")).unwrap(), "a = \n");
}

#[test]
fn the_expanded_configuration_answers_the_same() {
    let dir = directory(WORDPRESS);
    dir.write(
        "saker.toml",
        "include = [\"conf.d/*.toml\"]\n[[listener]]\naddress = \"127.0.0.1:8080\"\n",
    )
    .unwrap();
    let site = "[[site]]\nroot = \"../app\"\npreset = \"wordpress\"\nphp = \"off\"\n";
    dir.write("conf.d/10-blog.toml", site).unwrap();
    for left_over in [
        "10-blog.toml~",
        "10-blog.toml.bak",
        "20.dpkg-dist.toml",
        ".hidden.toml",
    ] {
        dir.write(&format!("conf.d/{left_over}"), "broken").unwrap();
    }
    let expanded = saker(arguments(&dir, "config --expanded -c DIR/saker.toml"));
    assert!(expanded.status.success(), "{}", stderr(&expanded));
    let text = stdout(&expanded);
    for part in ["conf.d/10-blog.toml:2", "# preset wordpress", "# default"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    dir.write("elsewhere/expanded.toml", &text).unwrap();
    let steps = |file: &str, url: &str| {
        let words = format!("explain {url} -c DIR/{file}");
        let text = stdout(&saker(arguments(&dir, &words)));
        // An ETag is weak until its file is a second old.
        let without_origin = |line: &str| {
            let line = line.split("  [").next().unwrap();
            line.replace("W/\"", "\"")
        };
        text.lines().map(without_origin).collect::<Vec<_>>()
    };
    for url in ["/wp-content/a.css", "/wp-content/uploads/x.php", "/a/b"] {
        let (before, after) = (
            steps("saker.toml", url),
            steps("elsewhere/expanded.toml", url),
        );
        assert!(!before.is_empty());
        assert_eq!(before.last(), after.last(), "{url}");
    }
    let json: Value = serde_json::from_str(&stdout(&saker(arguments(
        &dir,
        "config --json -c DIR/saker.toml",
    ))))
    .unwrap();
    assert_eq!(json["configuration"]["site"][0]["php"], "off");
    let origin = json["origins"]["/site/0/php"].as_str().unwrap();
    assert!(origin.ends_with("conf.d/10-blog.toml:4"), "{origin}");
    let files = stdout(&saker(arguments(&dir, "config -c DIR/saker.toml")));
    assert!(
        files.contains("# file: ") && files.contains("preset = \"wordpress\""),
        "{files}"
    );
    dir.write("saker.toml", "[[site]]\npreset = \"wordpres\"\n")
        .unwrap();
    let broken = saker(arguments(&dir, "config --expanded -c DIR/saker.toml"));
    assert_eq!(broken.status.code(), Some(1));
    assert!(
        stderr(&broken).contains("did you mean"),
        "{}",
        stderr(&broken)
    );
}

#[test]
fn explain_names_the_preset() {
    let dir = directory(WORDPRESS);
    dir.write(
        "saker.toml",
        "[[listener]]\naddress = \":80\"\n[[site]]\nroot = \"app\"\npreset = \"wordpress\"\n",
    )
    .unwrap();
    let output = saker(arguments(&dir, "explain /wp-config.php -c DIR/saker.toml"));
    assert!(
        stdout(&output).contains("[preset wordpress:"),
        "{}",
        stdout(&output)
    );
}

/// Users of the test's own `passwd`, in a mount namespace.
#[test]
fn pages_of_users() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: root is needed");
        return;
    }
    let dir = TempDir::new("userdir").unwrap();
    let root = dir.display().to_string();
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let users = format!(
        "{passwd}ann:x:51001:51001::{root}/home/ann:/bin/sh\nbob:x:51002:51002::{root}/home/bob:/bin/sh\n\
         sys:x:551:551::{root}/home/sys:/bin/sh\nown:x:552:552::{root}/home/own:/bin/sh\ntoor:x:0:0::{root}/home/toor:/bin/sh\n"
    );
    dir.write("passwd", users).unwrap();
    for user in ["ann", "bob", "own", "sys", "toor"] {
        let page = format!("home/{user}/public_html/a.txt");
        dir.write(&page, user).unwrap();
    }
    dir.write("home/ann/public_html/x.php", "<?php echo 'source';")
        .unwrap();
    dir.write("home/ann/public_html/sub/index.html", "sub")
        .unwrap();
    dir.write("home/ann/secret", "secret").unwrap();
    dir.write("outside", "outside").unwrap();
    dir.write("www/~ann/a.txt", "of the site").unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, dir.join(name)).unwrap();
    link("../../../outside", "home/ann/public_html/out");
    link("/etc", "home/ann/public_html/etc");
    fs::rename(dir.join("home/bob/public_html"), dir.join("bobs")).unwrap();
    link("../../bobs", "home/bob/public_html");
    let possible = Command::new("unshare").args(["-m", "true"]).status();
    if !possible.is_ok_and(|status| status.success()) {
        println!("left out: mount namespaces are needed");
        return;
    }
    let site = "user_directories = { folder = \"public_html\" }\nphp = \"off\"";
    let few = "[[site]]\nnames = [\"few.test\"]\nroot = \"{dir}/www\"\n[site.user_directories]\nusers = [\"ann\", \"bob\", \"own\", \"toor\"]\ndeny = [\"bob\"]\nphp = \"off\"\n";
    let text = format!("{}\n{few}", operate::configuration("workers = 1", site));
    let mount = format!("mount --bind '{root}/passwd' /etc/passwd && exec \"$@\"");
    let server = operate::native(&text)
        .wrapped(&["unshare", "-m", "sh", "-c", &mount, "sh"])
        .start(dir);
    let mut client = Client::connect(server.server.address()).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    // `users` has one of the system and root, and `deny` takes one away.
    for (name, status) in [("ann", 200), ("bob", 404), ("own", 200), ("toor", 404)] {
        let target = format!("/~{name}/a.txt");
        let response = client
            .request("GET", &target, &[("Host", "few.test")])
            .unwrap();
        assert_eq!(response.status, status, "{target}");
    }
    for (target, status, body) in [
        ("/~ann/a.txt", 200, "ann"),
        ("/~ann/sub/", 200, "sub"),
        ("/~ann/sub", 301, ""),
        ("/~%61nn/a.txt", 200, "ann"),
        ("/~ann/x.php", 403, ""),
        ("/~ann/../secret", 404, ""),
        ("/~ann/..%2fsecret", 404, ""),
        ("/~ann/out", 403, ""),
        ("/~ann/etc/passwd", 403, ""),
        ("/~bob/a.txt", 403, ""),
        ("/~sys/a.txt", 404, ""),
        ("/~own/a.txt", 404, ""),
        ("/~toor/a.txt", 404, ""),
        ("/~root/", 404, ""),
        ("/~nobody-else/a.txt", 404, ""),
        ("/~/a.txt", 404, ""),
        ("/~", 404, ""),
        ("/index.html", 404, ""),
    ] {
        for _ in 0..2 {
            let response = client.get(target).unwrap();
            assert_eq!(response.status, status, "{target}: {}", response.text());
            assert!(
                response.text().contains(body),
                "{target}: {}",
                response.text()
            );
            let text = response.text();
            assert!(
                !["secret", "outside", "source", "root:"]
                    .iter()
                    .any(|word| text.contains(word))
            );
        }
    }
}
