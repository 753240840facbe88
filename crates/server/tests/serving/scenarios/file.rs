//! The format of a scenario: TOML, every key known, every mistake named.
//!
//! Called by: the runner of scenarios. Caveat: names of fields are kept in small letters.
//! Out of scope: what keys mean to the server; `tests/scenarios/README.md` describes the format.

use std::{collections::BTreeMap, net::Ipv4Addr};
use toml::{Table, Value};

type Pairs = Vec<(String, String)>;

#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Lines before the listener: tables such as `[limits]`.
    pub global: String,
    /// Content of `place.mmdb`: network and its length, country, and autonomous system.
    pub place: Option<([u8; 4], u32, String, u32)>,
    /// Statements that make `data.db`, an SQLite database.
    pub database: String,
    /// Entries of a directory (LDIF), below `dc=test`.
    pub directory: String,
    /// Lines at the top of the file, before `[server]`.
    pub top: String,
    /// Lines in `[[site]]` and below it.
    pub site: String,
    pub files: Pairs,
    /// Symbolic links and their targets.
    pub links: Pairs,
    /// By path.
    pub origin: BTreeMap<String, Reply>,
    pub requests: Vec<Request>,
}

/// Response of the upstream.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub fields: Pairs,
    pub body: String,
    /// File with the body; 503 while it is not there.
    pub file: Option<String>,
    /// The request is read, and nothing comes back.
    pub is_silent: bool,
}

#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub fields: Pairs,
    pub body: String,
    /// Files that change before it.
    pub write: Pairs,
    /// Files that go before it.
    pub remove: Vec<String>,
    /// Statements for `data.db` before it.
    pub database: String,
    /// Seconds by which the server's wall clock moves before it.
    pub later_s: u64,
    /// Protocols that it is sent over: `http1`, `http2`, `http3`; empty: all.
    pub over: Vec<String>,
    /// It is sent again until the expectation is met.
    pub polls: bool,
    /// It stays open when the upstream has it; the response is not waited for.
    pub is_left: bool,
    /// Name for the cookie that solves the challenge of the response.
    pub solve: Option<String>,
    /// Fields of the response, and the names under which later requests use them.
    pub keep: Pairs,
    pub expected: Expectation,
}

#[derive(Clone, Debug, Default)]
pub struct Expectation {
    pub status: u16,
    /// `*` stands for any value, and `*part*` for one with this part.
    pub has: Pairs,
    pub lacks: Vec<String>,
    pub body: Option<String>,
    pub contains: Vec<String>,
    pub length: Option<usize>,
    /// The body without its content coding.
    pub decoded: Option<String>,
    /// Requests for this target that have reached the server behind.
    pub asked: Option<usize>,
    /// `METHOD target body` of requests that have reached the server behind, or reach it soon.
    pub received: Vec<String>,
    /// Files, and a text that is in them, or is soon.
    pub logged: Pairs,
    /// Files, and a text that is not in them, after what is `logged`.
    pub unlogged: Pairs,
}

impl Request {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Scenario {
    pub fn parse(text: &str) -> Result<Scenario, String> {
        let table: Table = text.parse().map_err(|error| format!("{error}"))?;
        let mut scenario = Scenario::default();
        for (key, value) in &table {
            match key.as_str() {
                "about" => drop(string(key, value)?),
                "global" => scenario.global = string(key, value)?,
                "place" => scenario.place = Some(place(key, value)?),
                "database" => scenario.database = string(key, value)?,
                "directory" => scenario.directory = string(key, value)?,
                "top" => scenario.top = string(key, value)?,
                "site" => scenario.site = string(key, value)?,
                "files" => scenario.files = contents(key, value)?,
                "links" => scenario.links = contents(key, value)?,
                "origin" => {
                    for (path, reply) in self::table(key, value)? {
                        let reply = Reply::parse(self::table(path, reply)?)?;
                        scenario.origin.insert(path.clone(), reply);
                    }
                }
                "request" => {
                    for request in value.as_array().ok_or("`request`: write [[request]]")? {
                        let request = Request::parse(self::table(key, request)?)?;
                        scenario.requests.push(request);
                    }
                }
                _ => return Err(format!("unknown key `{key}`")),
            }
        }
        if scenario.requests.is_empty() {
            return Err("missing [[request]]".into());
        }
        Ok(scenario)
    }
}

impl Reply {
    fn parse(table: &Table) -> Result<Reply, String> {
        let mut reply = Reply {
            status: 200,
            fields: Vec::new(),
            body: String::new(),
            file: None,
            is_silent: false,
        };
        for (key, value) in table {
            match key.as_str() {
                "file" => reply.file = Some(string(key, value)?),
                "silent" => reply.is_silent = boolean(key, value)?,
                "status" => reply.status = number(key, value)?,
                "fields" => reply.fields = fields(key, value)?,
                "body" => reply.body = content(key, value)?,
                _ => return Err(format!("unknown key `{key}` in a reply")),
            }
        }
        Ok(reply)
    }
}

impl Request {
    fn parse(table: &Table) -> Result<Request, String> {
        let mut request = Request {
            method: "GET".into(),
            target: String::new(),
            fields: Vec::new(),
            body: String::new(),
            write: Vec::new(),
            remove: Vec::new(),
            database: String::new(),
            later_s: 0,
            over: Vec::new(),
            polls: false,
            is_left: false,
            solve: None,
            keep: Vec::new(),
            expected: Expectation::default(),
        };
        let expected = &mut request.expected;
        for (key, value) in table {
            match key.as_str() {
                "get" => request.target = string(key, value)?,
                "method" => request.method = string(key, value)?,
                "target" => request.target = string(key, value)?,
                "fields" => request.fields = fields(key, value)?,
                "send" => request.body = content(key, value)?,
                "write" => request.write = contents(key, value)?,
                "remove" => request.remove = strings(key, value)?,
                "database" => request.database = string(key, value)?,
                "later" => request.later_s = number(key, value)?,
                "over" => request.over = strings(key, value)?,
                "poll" => request.polls = boolean(key, value)?,
                "leave" => request.is_left = boolean(key, value)?,
                "solve" => request.solve = Some(string(key, value)?),
                "keep" => request.keep = fields(key, value)?,
                "status" => expected.status = number(key, value)?,
                "has" => expected.has = fields(key, value)?,
                "lacks" => expected.lacks = strings(key, value)?,
                "body" => expected.body = Some(content(key, value)?),
                "contains" => expected.contains = strings(key, value)?,
                "length" => expected.length = Some(number(key, value)?),
                "decoded" => expected.decoded = Some(content(key, value)?),
                "asked" => expected.asked = Some(number(key, value)?),
                "received" => expected.received = strings(key, value)?,
                "logged" => expected.logged = contents(key, value)?,
                "unlogged" => expected.unlogged = contents(key, value)?,
                _ => return Err(format!("unknown key `{key}` in a request")),
            }
        }
        if request.target.is_empty() || (request.expected.status == 0) != request.is_left {
            return Err("a request needs `get` or `target`, and either `status` or `leave`".into());
        }
        Ok(request)
    }
}

fn table<'v>(key: &str, value: &'v Value) -> Result<&'v Table, String> {
    value
        .as_table()
        .ok_or(format!("`{key}`: a table is expected"))
}

fn string(key: &str, value: &Value) -> Result<String, String> {
    let text = value
        .as_str()
        .ok_or(format!("`{key}`: a string is expected"));
    text.map(str::to_owned)
}

fn boolean(key: &str, value: &Value) -> Result<bool, String> {
    value
        .as_bool()
        .ok_or(format!("`{key}`: true or false is expected"))
}

fn number<N: TryFrom<i64>>(key: &str, value: &Value) -> Result<N, String> {
    let number = value
        .as_integer()
        .and_then(|number| N::try_from(number).ok());
    number.ok_or(format!("`{key}`: a number is expected"))
}

/// `{ network = "203.0.113.0/24", country = "XA", asn = 64500 }`.
fn place(key: &str, value: &Value) -> Result<([u8; 4], u32, String, u32), String> {
    let table = table(key, value)?;
    let of = |name: &str| table.get(name).ok_or(format!("`{key}`: missing `{name}`"));
    let network = string(key, of("network")?)?;
    let parsed = network
        .split_once('/')
        .and_then(|(address, length)| {
            Some((
                address.parse::<Ipv4Addr>().ok()?.octets(),
                length.parse().ok()?,
            ))
        })
        .ok_or(format!("`{key}`: invalid network `{network}`"))?;
    let country = string(key, of("country")?)?;
    Ok((parsed.0, parsed.1, country, number(key, of("asn")?)?))
}

fn strings(key: &str, value: &Value) -> Result<Vec<String>, String> {
    match value.as_array() {
        Some(values) => values.iter().map(|value| string(key, value)).collect(),
        None => string(key, value).map(|one| vec![one]),
    }
}

/// Names in small letters, and values.
fn fields(key: &str, value: &Value) -> Result<Pairs, String> {
    table(key, value)?
        .iter()
        .map(|(name, value)| Ok((name.to_ascii_lowercase(), string(name, value)?)))
        .collect()
}

fn contents(key: &str, value: &Value) -> Result<Pairs, String> {
    table(key, value)?
        .iter()
        .map(|(name, value)| Ok((name.clone(), content(name, value)?)))
        .collect()
}

/// A string, or `{ repeat = "...", times = N }`.
fn content(key: &str, value: &Value) -> Result<String, String> {
    let Some(table) = value.as_table() else {
        return string(key, value);
    };
    let (text, times) = (table.get("repeat"), table.get("times"));
    let (Some(text), Some(times)) = (text, times) else {
        return Err(format!("`{key}`: write {{ repeat = \"...\", times = N }}"));
    };
    Ok(string(key, text)?.repeat(number(key, times)?))
}
