//! The table: rule sets, each with its requests.
//!
//! A set begins with `== name`. Lines up to the first `@` or `>` are the virtual host's; `@ path`
//! begins the lines of an `.htaccess` file in that folder; `> target` is a request, with fields
//! behind ` | `.

pub struct Set {
    pub name: String,
    pub server: Vec<String>,
    pub htaccess: Vec<(String, Vec<String>)>,
    pub requests: Vec<Request>,
}

pub struct Request {
    pub line: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
}

pub fn parse(text: &str) -> Vec<Set> {
    let mut sets: Vec<Set> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with("# "))
    {
        if let Some(name) = line.strip_prefix("== ") {
            sets.push(Set {
                name: name.to_owned(),
                server: Vec::new(),
                htaccess: Vec::new(),
                requests: Vec::new(),
            });
            continue;
        }
        let set = sets.last_mut().expect("a set begins the file");
        if let Some(folder) = line.strip_prefix("@ ") {
            set.htaccess.push((folder.to_owned(), Vec::new()));
        } else if let Some(request) = line.strip_prefix("> ") {
            set.requests.push(request_of(request));
        } else if let Some((_, lines)) = set.htaccess.last_mut() {
            lines.push(line.to_owned());
        } else {
            set.server.push(line.to_owned());
        }
    }
    sets
}

fn request_of(line: &str) -> Request {
    let mut parts = line.split(" | ");
    let target = parts.next().unwrap_or_default().to_owned();
    let fields = parts
        .filter_map(|part| part.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Request {
        line: line.to_owned(),
        target,
        fields: fields.collect(),
    }
}

/// Files of every site; each holds its own path.
pub const FILES: &[&str] = &[
    "index.html",
    "a.html",
    "b.html",
    "c.txt",
    "index.php",
    "with space.html",
    "sub/index.html",
    "sub/page.html",
    "sub/deep/x.html",
    "sub/deep/index.php",
    "list/one.html",
    "cgi/run.html",
];

/// Lines of the main server; virtual hosts see them only if they inherit.
pub const MAIN: &[&str] = &["RewriteEngine On", "RewriteRule ^/global$ /a.html [L]"];

/// The text map of every set.
pub const MAP: &str = "# a map\nkey  /b.html\nother /c.txt rest\nenc a%20b\n";
