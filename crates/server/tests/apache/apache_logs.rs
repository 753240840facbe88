//! Access logs: the lines of the real apache2 and ours, for the same configuration and the same
//! requests, at the same address one after the other.
//!
//! Caveat: times, durations, and process ids differ from run to run; logs that contain them are
//! compared with every number equal.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, ServerProcess, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    free_port, poll,
};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::Command,
    time::Duration,
};

const MODULES: [&str; 13] = [
    "mpm_event",
    "authn_file",
    "authn_core",
    "authz_core",
    "authz_user",
    "auth_basic",
    "mime",
    "env",
    "setenvif",
    "usertrack",
    "dir",
    "alias",
    "rewrite",
];
/// Both write lines some time after the answer.
const PATIENCE: Duration = Duration::from_secs(5);

struct Site {
    dir: TempDir,
    address: SocketAddr,
}

impl Site {
    /// `conf` goes behind what every server has; `{dir}` and `{port}` are filled in.
    fn new(name: &str, conf: &str, files: &[(&str, &str)]) -> Site {
        let dir = TempDir::new(name).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
        dir.write("mime.types", "text/html html\ntext/plain txt\n")
            .unwrap();
        for (path, content) in files {
            dir.write(path, content.replace("{dir}", &dir.display().to_string()))
                .unwrap();
        }
        for server in ["apache", "saker"] {
            let root = dir.display();
            fs::create_dir_all(dir.join(server)).unwrap();
            // Our log programs are started by the server's user.
            fs::set_permissions(dir.join(server), fs::Permissions::from_mode(0o777)).unwrap();
            let mut text = format!(
                "ServerRoot {root}\nServerName server.test\nListen {address}\nPidFile {server}/pid\nErrorLog {server}/error.log\n"
            );
            text.push_str(&load_modules(&MODULES));
            text.push_str(unprivileged_user());
            text.push_str(&format!("DefaultRuntimeDir {root}/{server}\nTypesConfig {root}/mime.types\nDocumentRoot {root}/www\n<Directory {root}>\nAllowOverride All\n</Directory>\n"));
            text.push_str(
                &conf
                    .replace("{log}", server)
                    .replace("{dir}", &root.to_string())
                    .replace("{port}", &address.port().to_string()),
            );
            dir.write(&format!("{server}.conf"), text).unwrap();
        }
        Site { dir, address }
    }

    /// The requests to both, over one connection as far as it goes: apache2 writes the lines of
    /// different connections as its threads see fit. It is stopped once its logs have so many lines,
    /// because it ends its children and log programs at once and with them the lines that they
    /// have yet to write.
    fn run(&self, requests: &[String], logs: &[(&str, usize)]) {
        let running = start_apache2(&self.dir.join("apache.conf"), self.address).unwrap();
        self.wait_for_cgid();
        for (server, running) in [("apache", Some(running)), ("saker", None)] {
            let running = running.unwrap_or_else(|| self.saker());
            self.ask(running, requests, || {
                logs.iter()
                    .for_each(|(log, count)| drop(self.lines(server, log, *count)))
            });
        }
    }

    fn saker(&self) -> ServerProcess {
        operate::apache("")
            .existing_file("saker.conf")
            .at(self.address)
            .start_in(&self.dir)
    }

    /// apache2 accepts connections before mod_cgid's daemon has given its socket to the server's
    /// user.
    fn wait_for_cgid(&self) {
        let configuration = fs::read_to_string(self.dir.join("apache.conf")).unwrap();
        if !configuration.contains("ScriptSock") || !rustix::process::geteuid().is_root() {
            return;
        }
        let is_socket = |name: &str| name.starts_with("cgisock");
        crate::operate::wait_until("mod_cgid is ready", || {
            fs::read_dir(self.dir.join("apache")).is_ok_and(|entries| {
                entries.flatten().any(|entry| {
                    entry.file_name().to_str().is_some_and(is_socket)
                        && entry.metadata().is_ok_and(|metadata| metadata.uid() != 0)
                })
            })
        });
    }

    /// `settle`: before it is stopped.
    fn ask(&self, server: ServerProcess, requests: &[String], settle: impl Fn()) {
        let mut client = None;
        for request in requests {
            let mut own = client
                .take()
                .unwrap_or_else(|| Client::connect(self.address).unwrap());
            own.send(request).unwrap();
            let response = if request.starts_with("HEAD") {
                own.read_head_response()
            } else {
                own.read_response()
            };
            response.unwrap_or_else(|error| {
                panic!(
                    "{request}: {error}\n{}\n{}",
                    server.stderr(),
                    self.error_log()
                )
            });
            client = Some(own).filter(|_| !request.contains("HTTP/1.0"));
        }
        drop(client);
        settle();
        drop(server.stop());
    }

    fn error_log(&self) -> String {
        ["apache", "saker"]
            .map(|server| {
                fs::read_to_string(self.dir.join(format!("{server}/error.log"))).unwrap_or_default()
            })
            .concat()
    }

    fn lines(&self, server: &str, log: &str, count: usize) -> Vec<String> {
        let path = self.dir.join(format!("{server}/{log}"));
        let read = || fs::read_to_string(&path).unwrap_or_default();
        let text = poll(PATIENCE, || {
            Some(read()).filter(|text| text.lines().count() >= count)
        });
        let text = text.unwrap_or_else(read);
        text.lines().map(str::to_owned).collect()
    }

    /// As many lines as apache2 has written, and the same. It writes them after the answers, so
    /// those of connections that follow each other may change places: the order does not count.
    fn compare(&self, log: &str, expected: usize, shown: fn(&str) -> String) {
        let apache = self.lines("apache", log, expected);
        assert_eq!(apache.len(), expected, "apache2's {log}: {apache:#?}");
        let saker = self.lines("saker", log, expected);
        let sorted = |mut lines: Vec<String>| {
            lines.sort_by_key(|line| shown(line));
            lines
        };
        let (apache, saker) = (sorted(apache), sorted(saker));
        let differences: Vec<String> = apache
            .iter()
            .zip(&saker)
            .filter(|(apache, saker)| shown(apache) != shown(saker))
            .map(|(apache, saker)| format!("apache2 {apache}\nsaker   {saker}"))
            .collect();
        assert!(differences.is_empty(), "{log}:\n{}", differences.join("\n"));
        assert_eq!(saker.len(), apache.len(), "{log}: {saker:#?}");
    }
}

fn as_it_is(line: &str) -> String {
    line.to_owned()
}

/// Every number the same.
fn without_numbers(line: &str) -> String {
    let mut out = String::new();
    for character in line.chars() {
        match character {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            other => out.push(other),
        }
    }
    out
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: www.test:81\r\n{fields}\r\n")
}

const FILES: &[(&str, &str)] = &[
    ("www/index.html", "index"),
    ("www/page.html", "a page"),
    ("www/sub/a.txt", "a"),
    ("www/secret/x.txt", "x"),
    (
        "www/secret/.htaccess",
        "AuthType Basic\nAuthName x\nAuthUserFile {dir}/users\nRequire valid-user\n",
    ),
    ("users", "ann:{SHA}nU4eI71bcnBGqeO0t9tXvY1u5oQ=\n"),
    (
        "www/.htaccess",
        "RewriteEngine On\nRewriteRule ^led$ page.html?z=1 [E=FOO:bar]\nRewriteRule ^lost$ nowhere.html\nRewriteRule ^gone$ - [G]\n\
         ErrorDocument 410 /page.html\nErrorDocument 405 /page.html\nSetEnv PLACE here\nSetEnvIf Request_URI \\.txt$ TEXT=yes\nSetEnvIf User-Agent robot dull\n",
    ),
];

fn requests() -> Vec<String> {
    vec![
        get("/", ""),
        get(
            "/page.html",
            "User-Agent: a \"quoted\" one\r\nReferer: http://x.test/\r\nCookie: a=1; b=two\r\n",
        ),
        get("/page.html?q=%20x", ""),
        // From what is kept.
        get("/page.html?q=2", "User-Agent: robot\r\n"),
        get(
            "/page.html",
            "X-Odd: \u{1}\u{7f}\r\n"
                .replace(['\u{1}', '\u{7f}'], "\t")
                .as_str(),
        ),
        get("/sub/a.txt", ""),
        get("/sub/a.txt", ""),
        get("/sub", ""),
        get("/none?a", ""),
        get("/led", ""),
        get("/led", "User-Agent: robot\r\n"),
        get("/lost?b", ""),
        get("/gone", ""),
        get("/page.html/more", ""),
        get("/%70age.html", ""),
        get("/secret/x.txt", ""),
        get("/secret/x.txt", "Authorization: Basic YW5uOnB3\r\n"),
        get("/page.html", "If-None-Match: *\r\n"),
        get("/page.html", "Range: bytes=1-2\r\n"),
        get("/page.html", "").replacen("GET", "HEAD", 1),
        get("/page.html", "Content-Length: 3\r\n").replacen("GET", "POST", 1) + "a=b",
        "GET /page.html HTTP/1.0\r\n\r\n".to_owned(),
    ]
}

#[test]
fn every_item_says_the_same() {
    let conf = "LogFormat \"%a %{c}a %A %h %l %u \\\"%r\\\" %m %<m %H %U%q >%>U<%<q\" paths\n\
        CustomLog {log}/paths.log paths\n\
        CustomLog {log}/status.log \"%X %s %>s %<s %!200,304{Referer}i %200,206{User-Agent}i %400{X}i\"\n\
        CustomLog {log}/fields.log \"%{Referer}i %{user-agent}i %{X-Odd}i %{a}C %{b}C %{c}C %{Location}o %{Nothing}o\"\n\
        CustomLog {log}/variables.log \"%{PLACE}e %{TEXT}e %{FOO}e %{REDIRECT_FOO}e %{place}e %{dull}e %{REDIRECT_STATUS}e %{nothing}n\"\n\
        CustomLog {log}/files.log \"%f %v %V %p %{canonical}p %{local}p 100%% \\\\ \\t tab\"\n\
        CustomLog {log}/times.log \"%t %{%d/%b/%Y %T}t %{begin:%H}t %{end:%H}t %{sec}t %{msec}t %{usec}t %{msec_frac}t %{end:usec_frac}t %D %T %{us}T %{ms}T %{s}T %P %{pid}P %{tid}P %{remote}p\"\n\
        CustomLog {log}/plain.log unknown\n\
        LogFormat \"plainly %r %>s %t\"\nTransferLog {log}/transfer.log\n";
    let site = Site::new("apache-logs", conf, FILES);
    // The page of an error is got by GET, whatever was asked.
    let gone = |method| get("/gone", "Content-Length: 0\r\n").replacen("GET", method, 1);
    let mut requests = requests();
    requests.splice(0..0, ["HEAD", "POST", "PUT"].map(gone));
    let same = [
        "paths.log",
        "status.log",
        "fields.log",
        "variables.log",
        "files.log",
        "plain.log",
    ];
    let alike = ["times.log", "transfer.log"];
    let logs: Vec<_> = same
        .iter()
        .chain(&alike)
        .map(|log| (*log, requests.len()))
        .collect();
    site.run(&requests, &logs);
    for log in same {
        site.compare(log, requests.len(), as_it_is);
    }
    for log in alike {
        site.compare(log, requests.len(), without_numbers);
    }
}

#[test]
fn which_requests_and_which_logs() {
    let conf = "CustomLog {log}/text.log \"%r\" env=TEXT\n\
        CustomLog {log}/not-dull.log \"%r\" env=!dull\n\
        CustomLog {log}/foo.log \"%r\" env=FOO\n\
        CustomLog {log}/missing.log \"%r\" \"expr=%{REQUEST_STATUS} -ge 400\"\n\
        CustomLog {log}/pages.log \"%r\" \"expr=%{REQUEST_URI} =~ m#page#\"\n\
        GlobalLog {log}/all.log \"%v %r\"\n\
        LogFormat \"named %r\" named\n\
        CustomLog \"|$cat >{dir}/{log}/piped.log\" named\n\
        CustomLog \"||/usr/bin/tee {dir}/{log}/teed.log\" named\n\
        <VirtualHost *:{port}>\nServerName one.test\nLogFormat \"mine %r\" named\nCustomLog {log}/one.log named\nCustomLog {log}/one.log \"again %r\"\n</VirtualHost>\n\
        <VirtualHost *:{port}>\nServerName two.test\n</VirtualHost>\n";
    let site = Site::new("apache-log-conditions", conf, FILES);
    let mut all = requests();
    let others: Vec<String> = requests()
        .iter()
        .map(|request| request.replace("www.test:81", "two.test"))
        .collect();
    all.extend(others);
    site.run(&all, LINES);
    for (log, count) in LINES {
        site.compare(log, *count, as_it_is);
    }
}

/// Number of lines that apache2 writes, per log.
const LINES: &[(&str, usize)] = &[
    ("all.log", 44),
    ("one.log", 46),
    ("text.log", 4),
    ("not-dull.log", 19),
    ("foo.log", 2),
    ("missing.log", 5),
    ("pages.log", 10),
    ("piped.log", 21),
    ("teed.log", 21),
];

/// Trace lines of the rewrite engine, without differences between servers.
fn traces(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| {
        let level = line
            .split_once("[rewrite:")?
            .1
            .split(']')
            .next()?
            .to_owned();
        let (start, said) = line.rsplit_once("[rid#")?;
        let (request, said) = said.split_once("] ")?;
        let kind = request.split_once('/').map_or("", |(_, kind)| kind);
        let is_told = start.contains(" 127.0.0.1 - - [www.test/sid#");
        Some(format!("{level} {is_told} {kind} {said}"))
    });
    lines.collect()
}

#[test]
fn rewriting_is_traced_as_apache_does() {
    let conf = "LogLevel warn rewrite:trace3\nRewriteEngine On\nRewriteRule ^/old$ /page.html [R=302]\nRewriteCond %{REQUEST_URI} ^/never\nRewriteRule ^ - [F]\n\
        <Directory {dir}/www/sub>\nLogLevel rewrite:trace1\n</Directory>\n";
    let site = Site::new("apache-log-trace", conf, FILES);
    let requests: Vec<String> = ["/old", "/led", "/sub/a.txt", "/gone"]
        .iter()
        .map(|target| get(target, ""))
        .collect();
    site.run(&requests, &[]);
    let of = |server: &str| {
        traces(&fs::read_to_string(site.dir.join(format!("{server}/error.log"))).unwrap())
    };
    let (apache, saker) = (of("apache"), of("saker"));
    assert!(apache.len() > 10, "{apache:#?}");
    let shown = |lines: &[String]| {
        lines
            .iter()
            .map(|line| line.replace("/redir#1", "/redir"))
            .collect::<Vec<_>>()
    };
    let differences: Vec<_> = shown(&apache)
        .into_iter()
        .zip(shown(&saker))
        .filter(|(apache, saker)| apache != saker)
        .collect();
    assert!(
        differences.is_empty(),
        "apache2 and ours:\n{differences:#?}"
    );
    assert_eq!(saker.len(), apache.len());
}

/// Messages about clients in the log's format, which begin with `>`; ids made equal, and the
/// servers' own messages left out.
fn told(text: &str) -> Vec<String> {
    let without_ids = |line: &str| {
        let word = |word: &str| {
            if word.len() == 11 || word.starts_with("id=") {
                "ID"
            } else {
                word
            }
            .to_owned()
        };
        line.split(' ').map(word).collect::<Vec<_>>().join(" ")
    };
    let own = text.lines().filter(|line| line.starts_with('>'));
    own.map(|line| without_numbers(&without_ids(line.split('|').next().unwrap())))
        .collect()
}

#[test]
fn error_logs_have_the_format_that_is_wanted() {
    let conf = "ErrorLogFormat \">%a [%l] %P %T %{u}t %{c}a %A v=%v V=%V r=%-{Referer}i% ,\\ e=%{SEEN}e x=%{X}n [%{cu}t] id=%L %7F: %E:% \\%|%M\"\n\
        ErrorLogFormat connection \">connection %{c}L %a %A %{C}L\"\nErrorLogFormat connection \"%+{X}i never\"\n\
        ErrorLogFormat request \">request %L on %{c}L %v %-{User-Agent}i %{m}t %{Referer}i\"\n\
        SetEnv SEEN yes\nSetEnvIf Referer seen SEEN=really\n<Location /closed>\nRequire all denied\n</Location>\n\
        LogFormat \"%U %L %{c}L\" ids\nCustomLog {log}/ids.log ids\n";
    let site = Site::new("apache-error-format", conf, FILES);
    let requests = [
        get("/closed/a", ""),
        get("/page.html", ""),
        get("/closed/b", "Referer: http://seen/\r\nUser-Agent: x\r\n"),
        get("/page.html", ""),
    ];
    site.run(&requests, &[("ids.log", requests.len())]);
    let of =
        |server: &str| fs::read_to_string(site.dir.join(format!("{server}/error.log"))).unwrap();
    let (apache, saker) = (of("apache"), of("saker"));
    assert_eq!(told(&saker), told(&apache), "{saker}\n{apache}");
    assert_eq!(told(&apache).len(), 5, "{apache}");
    site.compare("ids.log", requests.len(), |line| {
        line.split(' ')
            .map(|word| if word.len() == 11 { "ID" } else { word })
            .collect()
    });
    let ids = site.lines("saker", "ids.log", requests.len());
    let [_, request, connection] = ids[0].split(' ').collect::<Vec<_>>()[..] else {
        panic!("{ids:?}")
    };
    assert!(
        saker.contains(&format!(">request {request} on {connection} "))
            && saker.contains(&format!(" id={request}")),
        "{saker}\n{ids:?}"
    );
}

#[test]
fn clients_go_by_their_names() {
    let conf = "HostnameLookups On\nSetEnvIf Remote_Host ^localhost NAMED=yes\nRewriteEngine On\nRewriteRule . - [E=HOST:%{REMOTE_HOST}]\n\
        CustomLog {log}/names.log \"%h %{c}a %a %{NAMED}e %{HOST}e %{REDIRECT_HOST}e\"\n\
        <VirtualHost *:{port}>\nServerName double.test\nHostnameLookups Double\nRewriteEngine On\nRewriteRule . - [E=HOST:%{REMOTE_HOST}]\n</VirtualHost>\n\
        <VirtualHost *:{port}>\nServerName off.test\nHostnameLookups Off\n<Directory {dir}/www/sub>\nHostnameLookups On\n</Directory>\n</VirtualHost>\n";
    let site = Site::new("apache-log-names", conf, FILES);
    // Each over a connection of its own, because a name once found is the connection's.
    let ask = |host: &str, target: &str| format!("GET {target} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    let requests = [
        ask("double.test", "/page.html"),
        ask("off.test", "/page.html"),
        ask("off.test", "/sub/a.txt"),
        ask("other.test", "/page.html"),
    ];
    site.run(&requests, &[("names.log", requests.len())]);
    site.compare("names.log", requests.len(), as_it_is);
    assert!(
        site.lines("saker", "names.log", 4)
            .iter()
            .any(|line| line.starts_with("localhost")),
        "nobody has a name"
    );
}

#[test]
fn error_logs_go_where_they_are_sent() {
    let site = Site::new("apache-error-log", "", FILES);
    let file = site.dir.join("saker/piped.log");
    let text = fs::read_to_string(site.dir.join("saker.conf")).unwrap();
    let text = text.replace(
        "ErrorLog saker/error.log",
        &format!(
            "LogLevel info\nErrorLog \"|/usr/bin/tee {}\"",
            file.display()
        ),
    );
    site.dir.write("saker.conf", text).unwrap();
    site.ask(site.saker(), &[get("/page.html", "")], || ());
    let lines = site.lines("saker", "piped.log", 3);
    assert!(
        lines.iter().any(|line| line.contains("SK0102: listening")),
        "{lines:#?}"
    );
}

mod of_hosts;
