//! A server's part, played for one site per set: mapping, directory walk, index files, internal
//! redirects.

use super::{
    apache,
    context::Looking,
    rows::{MAIN, Request, Set},
};
use saker_rewrite::{Action, Effects, Input, Outcome, Place, Settings, run_directory, run_server};
use saker_testkit::TempDir;
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

pub struct Site {
    pub dir: TempDir,
    servers: Vec<Settings>,
}

/// A request on its way through one site.
#[derive(Clone)]
pub struct Exchange<'s> {
    pub site: &'s Site,
    pub number: usize,
    pub line: String,
    pub fields: Vec<(String, String)>,
    pub uri: Vec<u8>,
    pub filename: Option<Vec<u8>>,
    pub path_info: Vec<u8>,
    pub query: Option<Vec<u8>>,
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    pub is_subrequest: bool,
    pub aliased: bool,
    ended: bool,
    cookies: Vec<(Vec<u8>, Vec<u8>)>,
    vary: Vec<String>,
    forced_type: Option<Vec<u8>>,
    forced_handler: bool,
    pub trace: Vec<String>,
}

/// Stage that a request reached.
pub enum Resolved {
    File,
    Directory,
    Status(u16),
    Redirect(u16, Vec<u8>),
    Again(Vec<u8>),
}

const REDIRECTS_MAX: usize = 10;

impl Site {
    pub fn new(name: &str, sets: &[Set]) -> Site {
        let dir = TempDir::new(name).expect("made");
        apache::write_sites(&dir, sets);
        let mut main = Settings::server();
        MAIN.iter().for_each(|line| directive(&mut main, line));
        let servers = sets.iter().enumerate().map(|(number, set)| {
            let mut own = Settings::server();
            apache::with_root(&set.server, &dir, number)
                .iter()
                .for_each(|line| directive(&mut own, line));
            main.merge(&own)
        });
        let servers = servers.collect();
        Site { dir, servers }
    }

    pub fn root(&self, number: usize) -> PathBuf {
        self.dir.join(number.to_string())
    }

    pub fn answer(&self, number: usize, request: &Request) -> String {
        let (exchange, resolved) = self.serve(number, request);
        exchange.summary(&resolved)
    }

    pub fn trace(&self, number: usize, request: &Request) -> Vec<String> {
        let (exchange, _) = self.serve(number, request);
        let root = self.root(number).display().to_string();
        let shown = |line: String| {
            line.replace(&format!("s{number}.test:4711"), "HOST")
                .replace(&root, "ROOT")
                .replace(&root[1..], "ROOT")
        };
        exchange
            .trace
            .into_iter()
            .filter(|line| apache::compared(line))
            .map(shown)
            .collect()
    }

    fn serve<'s>(&'s self, number: usize, request: &Request) -> (Exchange<'s>, Resolved) {
        let (path, query) = match request.target.split_once('?') {
            Some((path, query)) => (path, Some(query.as_bytes().to_vec())),
            None => (request.target.as_str(), None),
        };
        let mut exchange = Exchange {
            site: self,
            number,
            line: format!("GET {} HTTP/1.1", request.target),
            fields: request.fields.clone(),
            uri: Vec::new(),
            filename: None,
            path_info: Vec::new(),
            query,
            environment: Vec::new(),
            is_subrequest: false,
            aliased: false,
            ended: false,
            cookies: Vec::new(),
            vary: Vec::new(),
            forced_type: None,
            forced_handler: false,
            trace: Vec::new(),
        };
        let resolved = match exchange.set_path(path.as_bytes()) {
            Ok(()) => exchange.process(),
            Err(status) => Resolved::Status(status),
        };
        (exchange, resolved)
    }

    /// Settings of a folder: the virtual host's, then each `.htaccess` on the way.
    fn directory(&self, number: usize, folder: &Path) -> Settings {
        let mut settings = self.servers[number].for_directories();
        let mut folders: Vec<&Path> = folder
            .ancestors()
            .filter(|folder| folder.starts_with(self.root(number)))
            .collect();
        folders.reverse();
        for folder in folders {
            let Ok(text) = fs::read_to_string(folder.join(".htaccess")) else {
                continue;
            };
            let mut own =
                Settings::directory(Place::Htaccess, folder.to_str().expect("text").as_bytes());
            text.lines().for_each(|line| directive(&mut own, line));
            if !own.is_untouched() {
                settings = settings.merge(&own);
            }
        }
        settings
    }
}

fn directive(settings: &mut Settings, line: &str) {
    let (name, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let words: Vec<&str> = rest.split_whitespace().collect();
    let done = match name {
        "RewriteEngine" => {
            settings.set_engine(rest.eq_ignore_ascii_case("on"));
            Ok(())
        }
        "RewriteOptions" => words
            .iter()
            .try_for_each(|word| settings.add_option(word).map(|_| ())),
        "RewriteBase" => settings.set_base(rest.as_bytes()),
        "RewriteCond" => settings.add_condition(rest.as_bytes()).map(|_| ()),
        "RewriteRule" => settings.add_rule(rest.as_bytes()).map(|_| ()),
        "RewriteMap" => {
            let source = words[1..].join(" ");
            settings
                .add_map(words[0], source.trim_matches('"'), None, |path| {
                    Some(PathBuf::from(path))
                })
                .map(|_| ())
        }
        other => unreachable!("unknown directive {other}"),
    };
    assert_eq!(done, Ok(()), "{line}");
}

impl Exchange<'_> {
    pub fn root(&self) -> Vec<u8> {
        self.site
            .root(self.number)
            .to_str()
            .expect("text")
            .as_bytes()
            .to_vec()
    }

    /// As httpd reads a path, from clients and from internal redirects alike.
    pub fn set_path(&mut self, path: &[u8]) -> Result<(), u16> {
        let (decoded, good) = saker_ap_expr::unescape(path, false);
        if !good {
            return Err(if decoded.contains(&0) { 404 } else { 400 });
        }
        let has_encoded_slash = path
            .windows(3)
            .any(|three| three.eq_ignore_ascii_case(b"%2f"));
        if has_encoded_slash {
            return Err(404);
        }
        let escaped = saker_http_path(&decoded);
        self.uri = escaped.ok_or(400u16)?;
        (self.filename, self.path_info, self.aliased) = (None, Vec::new(), false);
        Ok(())
    }

    /// All the way, internal redirects included.
    fn process(&mut self) -> Resolved {
        for _ in 0..=REDIRECTS_MAX {
            let path = match self.resolve() {
                Resolved::Again(path) => path,
                Resolved::Directory => match self.index() {
                    Resolved::Again(path) => path,
                    other => return other,
                },
                other => return other,
            };
            if let Err(status) = self.redirect_inside(&path) {
                return Resolved::Status(status);
            }
        }
        Resolved::Status(500)
    }

    fn redirect_inside(&mut self, path: &[u8]) -> Result<(), u16> {
        let path = match path.iter().position(|byte| *byte == b'?') {
            Some(at) => &path[..at],
            None => path,
        };
        self.environment
            .retain(|(name, _)| !name.starts_with(b"REDIRECT_REDIRECT_"));
        for (name, _) in &mut self.environment {
            name.splice(..0, b"REDIRECT_".iter().copied());
        }
        self.environment
            .push((b"REDIRECT_STATUS".to_vec(), b"200".to_vec()));
        // Types are of the request that was left.
        self.forced_type = None;
        self.set_path(path)
    }

    /// Rules of the server, mapping, rules of the folder.
    pub fn resolve(&mut self) -> Resolved {
        let site = self.site;
        let outcome = self
            .with_input(|context, input| run_server(&site.servers[self.number], context, input));
        let action = self.take(outcome);
        let path = match action {
            Action::Pass | Action::Stay => self.uri.clone(),
            Action::PassThrough(path) => {
                self.uri = path.clone();
                path
            }
            Action::Translate(path) => return self.in_directory([self.root(), path].concat()),
            Action::Filename(path) => return self.in_directory(path),
            Action::Redirect { status, location } => return Resolved::Redirect(status, location),
            Action::Status(status) => return Resolved::Status(status),
            Action::Proxy { .. } | Action::InternalRedirect(_) => return Resolved::Status(502),
        };
        let alias = path
            .strip_prefix(b"/aliased")
            .filter(|rest| rest.is_empty() || rest.starts_with(b"/"));
        self.aliased = alias.is_some();
        let file = match alias {
            Some(rest) => [&self.root()[..], b"/sub", rest].concat(),
            None => [self.root(), path].concat(),
        };
        self.in_directory(file)
    }

    fn in_directory(&mut self, file: Vec<u8>) -> Resolved {
        let Some(folder) = self.walk(file) else {
            return Resolved::Status(403);
        };
        let settings = self.site.directory(self.number, &folder);
        let server = &self.site.servers[self.number];
        if settings.directory_path().is_some() {
            let outcome =
                self.with_input(|context, input| run_directory(&settings, server, context, input));
            match self.take(outcome) {
                // mod_dir's slash comes before mod_rewrite's internal redirect.
                Action::InternalRedirect(_)
                    if self.path().is_dir() && self.uri.last() != Some(&b'/') => {}
                // A forced handler takes the place of the one that redirects.
                Action::InternalRedirect(_) if self.forced_handler => return Resolved::Status(404),
                Action::InternalRedirect(path) => return Resolved::Again(path),
                Action::Redirect { status, location } => {
                    return Resolved::Redirect(status, location);
                }
                Action::Status(status) => return Resolved::Status(status),
                Action::Proxy { .. } => return Resolved::Status(502),
                _ => {}
            }
        }
        let name = self.path();
        if name.is_dir() {
            return Resolved::Directory;
        }
        let whole = name.is_file() && self.path_info.is_empty();
        if whole {
            Resolved::File
        } else {
            Resolved::Status(404)
        }
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(
            String::from_utf8_lossy(self.filename.as_deref().unwrap_or_default()).into_owned(),
        )
    }

    /// Splits the path into the file and what follows it. Returns the directory whose settings
    /// apply; `None` outside all sites.
    fn walk(&mut self, file: Vec<u8>) -> Option<PathBuf> {
        let text = String::from_utf8_lossy(&file).into_owned();
        let mut path = PathBuf::from("/");
        let mut folder = path.clone();
        let (mut rest, mut end) = (text.trim_start_matches('/'), text.len());
        while !rest.is_empty() {
            let (name, behind) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            path.push(name);
            if !path.is_dir() {
                end = text.len() - behind.len();
                break;
            }
            folder = path.clone();
            rest = behind.trim_start_matches('/');
        }
        self.filename = Some(file[..end].to_vec());
        self.path_info = file[end..].to_vec();
        folder.starts_with(&*self.site.dir).then_some(folder)
    }

    /// A folder's index file, or the way to the folder's slash.
    fn index(&mut self) -> Resolved {
        if self.uri.last() != Some(&b'/') {
            let mut location = format!("http://s{}.test:4711", self.number).into_bytes();
            location.extend_from_slice(&saker_ap_expr::escape_uri(&self.uri));
            location.push(b'/');
            if let Some(query) = &self.query {
                location.push(b'?');
                location.extend_from_slice(query);
            }
            return Resolved::Redirect(301, location);
        }
        let mut sub = self.subrequest([&self.uri[..], b"index.html"].concat());
        let resolved = sub.resolve();
        let exists = sub.path().is_file();
        match resolved {
            Resolved::File => {
                self.adopt(sub);
                Resolved::File
            }
            Resolved::Again(path) if exists => {
                self.adopt(sub);
                Resolved::Again(path)
            }
            Resolved::Redirect(status, location) => Resolved::Redirect(status, location),
            Resolved::Status(status) if status != 404 => Resolved::Status(status),
            _ => Resolved::Status(404),
        }
    }

    fn adopt(&mut self, sub: Exchange<'_>) {
        (self.filename, self.path_info, self.query, self.uri) =
            (sub.filename, sub.path_info, sub.query, sub.uri);
        (self.environment, self.cookies, self.forced_type) =
            (sub.environment, sub.cookies, sub.forced_type);
        self.vary = sub.vary;
    }

    pub fn subrequest(&self, path: Vec<u8>) -> Self {
        let mut sub = self.clone();
        (sub.uri, sub.filename, sub.path_info) = (path, None, Vec::new());
        (sub.is_subrequest, sub.ended, sub.aliased, sub.forced_type) = (true, false, false, None);
        sub
    }

    fn with_input<T>(&self, run: impl FnOnce(&Looking<'_>, &Input<'_>) -> T) -> T {
        let context = Looking::new(self);
        let mut input = Input::new(&self.uri);
        input.filename = self.filename.as_deref();
        input.path_info = &self.path_info;
        input.query = self.query.as_deref();
        (input.is_subrequest, input.ended, input.proxy_available) =
            (self.is_subrequest, self.ended, false);
        input.trace_level = 8;
        run(&context, &input)
    }

    fn take(&mut self, outcome: Outcome) -> Action {
        if !self.is_subrequest {
            self.trace.extend(
                outcome
                    .trace
                    .iter()
                    .map(|line| format!("{} {line}", line.level)),
            );
        }
        let Effects {
            environment,
            cookies,
            forced_type,
            forced_handler,
            vary,
            end,
            ..
        } = outcome.effects;
        self.forced_handler |= forced_handler.is_some();
        for (name, value) in environment {
            self.environment.retain(|(known, _)| *known != name);
            self.environment.extend(value.map(|value| (name, value)));
        }
        for cookie in cookies {
            if !self.cookies.iter().any(|(name, _)| *name == cookie.name) {
                self.cookies.push((cookie.name, cookie.field_value));
            }
        }
        self.vary.extend(vary);
        self.forced_type = forced_type.or(self.forced_type.take());
        self.ended |= end;
        self.query = outcome.query;
        if outcome.discard_path_info {
            self.path_info.clear();
        }
        outcome.action
    }

    fn summary(&self, resolved: &Resolved) -> String {
        let mut out = String::new();
        let status = match resolved {
            Resolved::Status(status) | Resolved::Redirect(status, _) => *status,
            _ => 200,
        };
        write!(out, "{status}").expect("text");
        let mut add = |name: &str, value: &[u8]| {
            if !value.is_empty() {
                write!(out, " {name}={}", String::from_utf8_lossy(value)).expect("text");
            }
        };
        if let Resolved::Redirect(_, location) = resolved {
            add("location", location);
        }
        if status == 200 {
            let file = fs::read(self.path()).unwrap_or_default();
            add("file", file.trim_ascii_end());
            let path = self.path();
            let extension = path
                .extension()
                .and_then(|extension| extension.to_str())
                .unwrap_or_default();
            let kind: &[u8] = match extension {
                "html" => b"text/html",
                "txt" => b"text/plain",
                _ => b"",
            };
            add("type", self.forced_type.as_deref().unwrap_or(kind));
            add("vary", vary(&self.vary).as_bytes());
        }
        add("query", self.query.as_deref().unwrap_or_default());
        let variable = |name: &[u8]| {
            self.environment
                .iter()
                .find(|(known, _)| known == name)
                .map_or(&[][..], |(_, value)| value)
        };
        add("foo", variable(b"FOO"));
        add("redirect-foo", variable(b"REDIRECT_FOO"));
        add(
            "cookie",
            self.cookies.first().map_or(&[][..], |(_, value)| value),
        );
        let host = format!("s{}.test:4711", self.number);
        let root = self.site.root(self.number);
        apache::without_root(&out.replace(&host, "HOST"), root.to_str().expect("text"))
    }
}

/// Each name once, as httpd sends it.
fn vary(names: &[String]) -> String {
    let mut once: Vec<&str> = Vec::new();
    for name in names {
        if !once.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            once.push(name);
        }
    }
    once.join(",")
}

/// Slashes merged, dot segments removed; `None` above the root.
fn saker_http_path(decoded: &[u8]) -> Option<Vec<u8>> {
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut parts = decoded
        .strip_prefix(b"/")?
        .split(|byte| *byte == b'/')
        .peekable();
    let mut slash = false;
    while let Some(part) = parts.next() {
        slash = parts.peek().is_none() && matches!(part, b"" | b"." | b"..");
        match part {
            b"" | b"." => {}
            b".." => {
                segments.pop()?;
            }
            name => segments.push(name),
        }
    }
    let mut out: Vec<u8> = segments
        .iter()
        .flat_map(|segment| [b"/", *segment].concat())
        .collect();
    if slash || out.is_empty() {
        out.push(b'/');
    }
    Some(out)
}
