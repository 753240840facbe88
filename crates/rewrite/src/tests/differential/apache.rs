//! The real server: one process, a virtual host per set.

use super::rows::{FILES, MAIN, MAP, Request, Set};
use saker_testkit::{Client, Response, ServerProcess, TempDir, require};
use std::{
    fmt::Write as _,
    fs,
    io::{Read, Seek, SeekFrom},
    path::Path,
    process::Command,
};

pub struct Apache {
    process: ServerProcess,
    root: String,
    _dir: TempDir,
}

const MODULES: &[&str] = &[
    "mpm_event",
    "authz_core",
    "dir",
    "mime",
    "headers",
    "env",
    "setenvif",
    "alias",
    "rewrite",
];
const MODULE_FOLDERS: &[&str] = &["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules"];

impl Apache {
    pub fn start(sets: &[Set], level: &str) -> Apache {
        let dir = TempDir::new("rewrite-apache").expect("made");
        let root = dir.to_str().expect("text").to_owned();
        write_sites(&dir, sets);
        let program = require("apache2").expect("installed");
        let process = ServerProcess::start_on_free_port(|port| {
            let file = dir.join("apache.conf");
            fs::write(&file, configuration(&root, port, sets, level)).expect("written");
            let mut command = Command::new(&program);
            command.arg("-f").arg(&file).arg("-DFOREGROUND");
            command
        });
        Apache {
            process: process.expect("started"),
            root,
            _dir: dir,
        }
    }

    pub fn answer(&self, number: usize, request: &Request) -> String {
        let address = self.process.address();
        let mut client = Client::connect(address).expect("connected");
        let host = format!("s{number}.test:{}", address.port());
        let mut text = format!(
            "GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n",
            request.target
        );
        for (name, value) in &request.fields {
            write!(text, "{name}: {value}\r\n").expect("text");
        }
        client.send(text + "\r\n").expect("sent");
        let response = client.read_response().expect("answered");
        self.summary(&response, &host, number)
    }

    /// Returns the engine's trace of the request, without the lines of its type hook and its map
    /// cache.
    pub fn trace(&self, number: usize, request: &Request) -> Vec<String> {
        let log = Path::new(&self.root).join("error.log");
        let before = fs::metadata(&log).map_or(0, |data| data.len());
        self.answer(number, request);
        let mut text = Vec::new();
        let mut file = fs::File::open(&log).expect("a log");
        file.seek(SeekFrom::Start(before)).expect("so long");
        file.read_to_end(&mut text).expect("read");
        let host = format!("s{number}.test:{}", self.process.address().port());
        let root = format!("{}/{number}", self.root);
        let show = |line: &str| {
            let level = line.split_once("[rewrite:trace")?.1.chars().next()?;
            let (kind, text) = line.split_once("[rid#")?.1.split_once("] ")?;
            let ours =
                !kind.contains("subreq") && !text.starts_with("force filename") && compared(text);
            ours.then(|| {
                format!("{level} {text}")
                    .replace(&host, "HOST")
                    .replace(&root, "ROOT")
                    .replace(&root[1..], "ROOT")
                    .replace("\\\\", "\\")
            })
        };
        String::from_utf8_lossy(&text)
            .lines()
            .filter_map(show)
            .collect()
    }

    fn summary(&self, response: &Response, host: &str, number: usize) -> String {
        let mut out = response.status.to_string();
        let mut add = |name: &str, value: Option<&str>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                write!(out, " {name}={value}").expect("text");
            }
        };
        let location = response
            .field("Location")
            .map(|location| location.replace(host, "HOST"));
        add("location", location.as_deref());
        if response.status == 200 {
            add("file", Some(response.text().trim_end()));
            add("type", response.field("Content-Type"));
            add("vary", response.field("Vary"));
        }
        add("query", response.field("X-Query"));
        add(
            "foo",
            response
                .field("X-Foo")
                .map(|value| value.replace(host, "HOST"))
                .as_deref(),
        );
        add(
            "redirect-foo",
            response
                .field("X-Redirect-Foo")
                .map(|value| value.replace(host, "HOST"))
                .as_deref(),
        );
        add("cookie", response.field("Set-Cookie"));
        without_root(&out, &format!("{}/{number}", self.root))
    }
}

/// The same wherever the site's folder is: `ROOT` is the folder, `TOP` the uppermost one above it, which
/// is all that a lookup leaves of a path that it takes for a URL.
pub fn without_root(text: &str, root: &str) -> String {
    let top = root.split('/').nth(1).unwrap_or_default();
    text.replace(root, "ROOT")
        .replace(&format!("ROOT/{top}"), "ROOT/TOP")
}

/// Not what the cache of text maps says, nor the status of files that are not there.
pub fn compared(line: &str) -> bool {
    !line.contains("cache lookup") && !line.contains("[txt]") && !line.contains("(-F check")
}

pub fn write_sites(dir: &Path, sets: &[Set]) {
    fs::write(dir.join("map.txt"), MAP).expect("written");
    for (number, set) in sets.iter().enumerate() {
        let site = dir.join(number.to_string());
        for name in FILES {
            put(&site.join(name), &format!("{name}\n"));
        }
        put(&site.join("empty.txt"), "");
        std::os::unix::fs::symlink("a.html", site.join("link.html")).expect("linked");
        for (folder, lines) in &set.htaccess {
            put(
                &site.join(folder.trim_start_matches('/')).join(".htaccess"),
                &(with_root(lines, dir, number).join("\n") + "\n"),
            );
        }
    }
}

/// `@ROOT@` in rules is the site's folder, `MAP` the text map.
pub fn with_root(lines: &[String], dir: &Path, number: usize) -> Vec<String> {
    let root = dir.join(number.to_string()).display().to_string();
    let map = dir.join("map.txt").display().to_string();
    lines
        .iter()
        .map(|line| line.replace("@ROOT@", &root).replace("MAPFILE", &map))
        .collect()
}

fn put(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("below the site")).expect("made");
    fs::write(path, content).expect("written");
}

fn configuration(root: &str, port: u16, sets: &[Set], level: &str) -> String {
    let modules = MODULE_FOLDERS
        .iter()
        .find(|folder| Path::new(folder).exists())
        .expect("modules");
    let mut out = format!(
        "ServerRoot {root}\nPidFile {root}/pid\nDefaultRuntimeDir {root}\nMutex file:{root}\nListen 127.0.0.1:{port}\nServerName main.test\n\
         ErrorLog {root}/error.log\nLogLevel {level}\n"
    );
    for module in MODULES {
        writeln!(out, "LoadModule {module}_module {modules}/mod_{module}.so").expect("text");
    }
    write!(
        out,
        "DirectoryIndex index.html\nDocumentRoot {root}\nTypesConfig /dev/null\nAddType text/html .html\nAddType text/plain .txt\n\
         <Directory />\nRequire all denied\nAllowOverride None\n</Directory>\n\
         <Directory {root}>\nRequire all granted\nAllowOverride All\nOptions FollowSymLinks\n</Directory>\n\
         Header always set X-Query \"expr=%{{QUERY_STRING}}\"\nHeader always set X-Foo \"expr=%{{reqenv:FOO}}\"\n\
         Header always set X-Redirect-Foo \"expr=%{{reqenv:REDIRECT_FOO}}\"\n{}\n",
        MAIN.join("\n")
    )
    .expect("text");
    for (number, set) in sets.iter().enumerate() {
        let lines = with_root(&set.server, Path::new(root), number).join("\n");
        write!(
            out,
            "<VirtualHost *:{port}>\nServerName s{number}.test:{port}\nDocumentRoot {root}/{number}\n\
             Alias /aliased {root}/{number}/sub\n{lines}\n</VirtualHost>\n"
        )
        .expect("text");
    }
    out
}
