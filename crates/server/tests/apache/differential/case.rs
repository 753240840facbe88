//! The text of cases: what to write where, and what to ask. README.md has the format.

/// A file of `cases/`: one configuration, one start of both servers.
pub struct Topic {
    pub name: String,
    /// For the server, outside of all hosts.
    pub server: String,
    /// Every host speaks TLS.
    pub tls: bool,
    /// Programs answer: whether they have said all when their answer begins is a matter of time.
    pub unframed: bool,
    pub cases: Vec<Case>,
}

/// A virtual host with a document root of its own.
#[derive(Default)]
pub struct Case {
    pub name: String,
    /// Inside its `<VirtualHost>`.
    pub conf: String,
    pub files: Vec<(String, Content)>,
    pub requests: Vec<Request>,
}

pub enum Content {
    Text(String),
    /// With its permissions.
    Mode(u32, String),
    Link(String),
    Bytes(Vec<u8>),
    /// Database of a kind, with a key and its value on each line.
    Database(String, String),
    /// Statements.
    Sqlite(String),
    Directory,
}

#[derive(Clone)]
pub struct Request {
    /// As written.
    pub line: String,
    pub method: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
    /// Without a Host field.
    pub hostless: bool,
    pub body: Option<String>,
    /// It is a matter of time whether a server knows how long the answer is.
    pub unframed: bool,
    /// Its length is not told beforehand.
    pub chunked: bool,
    /// Pages of the servers' own are compared, too.
    pub full: bool,
    /// Pages are compared by their elements, attributes, and text.
    pub html: bool,
    /// The reason phrase is compared, too.
    pub reason: bool,
    /// Cookies are sealed: only their names and attributes can be compared.
    pub sealed: bool,
    /// `@digest:`, and options of TLS topics: `@cert:`, `@sni:`, `@tls:`.
    pub options: Vec<(String, String)>,
}

impl Topic {
    pub fn parse(name: &str, text: &str) -> Result<Topic, String> {
        let mut topic = Topic {
            name: name.to_owned(),
            server: String::new(),
            tls: false,
            unframed: false,
            cases: Vec::new(),
        };
        let mut lines = text.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let complaint = |what: &str| format!("line {}: {what}: {line}", number + 1);
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix("=== ") {
                topic.cases.push(Case {
                    name: name.trim().to_owned(),
                    ..Case::default()
                });
                continue;
            }
            let heading = line
                .strip_prefix("--- ")
                .ok_or_else(|| complaint("neither === nor ---"))?;
            let mut content = String::new();
            while let Some((_, line)) =
                lines.next_if(|(_, line)| !line.starts_with("--- ") && !line.starts_with("=== "))
            {
                content.push_str(line);
                content.push('\n');
            }
            topic
                .section(heading.trim(), content)
                .map_err(|what| complaint(&what))?;
        }
        let unframed = topic.unframed;
        topic
            .cases
            .iter_mut()
            .flat_map(|case| &mut case.requests)
            .for_each(|request| request.unframed = unframed);
        Ok(topic)
    }

    fn section(&mut self, heading: &str, content: String) -> Result<(), String> {
        if heading == "tls" {
            self.tls = true;
            return Ok(());
        }
        if heading == "unframed" {
            self.unframed = true;
            return Ok(());
        }
        if heading == "server" {
            self.server.push_str(&content);
            return Ok(());
        }
        let case = self.cases.last_mut().ok_or("outside of a case")?;
        let words: Vec<&str> = heading.split(' ').collect();
        match words.as_slice() {
            ["conf"] => case.conf.push_str(&content),
            ["file", path @ .., "mode", mode] => {
                let mode = u32::from_str_radix(mode, 8).map_err(|_| "no mode")?;
                case.files
                    .push((path.join(" "), Content::Mode(mode, unblanked(content))));
            }
            ["file", path @ ..] => case
                .files
                .push((path.join(" "), Content::Text(unblanked(content)))),
            ["bytes", path] => case
                .files
                .push((path.to_string(), Content::Bytes(bytes(&content)?))),
            ["dbm", path, kind] => case.files.push((
                path.to_string(),
                Content::Database(kind.to_string(), content),
            )),
            ["sqlite", path] => case
                .files
                .push((path.to_string(), Content::Sqlite(content))),
            ["files", paths @ ..] => {
                // Each says where it is.
                let named = |path: &&str| {
                    (
                        path.to_string(),
                        Content::Text(format!("{}/{path}\n", case.name)),
                    )
                };
                let named: Vec<_> = paths.iter().map(named).collect();
                case.files.extend(named);
            }
            ["link", path, "->", target] => case
                .files
                .push((path.to_string(), Content::Link(target.to_string()))),
            ["dir", path] => case.files.push((path.to_string(), Content::Directory)),
            ["requests"] => {
                for line in content
                    .lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty() && !line.starts_with('#'))
                {
                    case.requests.push(Request::parse(line)?);
                }
            }
            _ => return Err("unknown section".to_owned()),
        }
        Ok(())
    }
}

/// Lines put together, with `\xNN` for what is no text.
fn bytes(content: &str) -> Result<Vec<u8>, &'static str> {
    let joined: String = content.lines().collect();
    let mut parts = joined.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).ok_or("no byte")?;
        bytes.push(u8::from_str_radix(code, 16).map_err(|_| "no byte")?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Ok(bytes)
}

/// Blank lines before the next heading are not the file's.
fn unblanked(content: String) -> String {
    match content.trim_end_matches('\n') {
        "" => String::new(),
        text => format!("{text}\n"),
    }
}

impl Request {
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// `METHOD target | Field: value | @option`
    fn parse(line: &str) -> Result<Request, String> {
        let mut parts = line.split(" | ");
        let (method, target) = parts
            .next()
            .and_then(|first| first.split_once(' '))
            .ok_or_else(|| format!("no request: {line}"))?;
        let mut request = Request {
            line: line.to_owned(),
            method: method.to_owned(),
            target: target.trim().to_owned(),
            fields: Vec::new(),
            hostless: false,
            body: None,
            unframed: false,
            chunked: false,
            full: false,
            html: false,
            reason: false,
            sealed: false,
            options: Vec::new(),
        };
        for part in parts {
            match part.split_once(':') {
                _ if part == "@full" => request.full = true,
                _ if part == "@html" => request.html = true,
                _ if part == "@reason" => request.reason = true,
                _ if part == "@sealed" => request.sealed = true,
                _ if part == "@chunked" => request.chunked = true,
                _ if part == "@no-host" => request.hostless = true,
                Some(("@body", text)) => request.body = Some(text.trim().to_owned()),
                Some(("@body-bytes", count)) => {
                    request.body = Some("x".repeat(count.trim().parse().map_err(|_| "no number")?))
                }
                Some((name @ ("@cert" | "@sni" | "@tls" | "@digest"), value)) => {
                    request.options.push((
                        name.trim_start_matches('@').to_owned(),
                        value.trim().to_owned(),
                    ));
                }
                Some((name, value)) => request
                    .fields
                    .push((name.trim().to_owned(), value.trim().to_owned())),
                None => return Err(format!("neither a field nor an option: {part}")),
            }
        }
        Ok(request)
    }
}
