//! Fields and variables that upstreams and programs get: `proxy_set_header`, `fastcgi_param`, and kin.
//!
//! Called by: `locations`, for each location that passes requests on.
//! Caveat: a location that has one of them has none of its server, as in nginx. A field without a
//! counterpart is removed from requests: what it replaces would be the client's own.

use super::{
    reported::{closed, left_out},
    text::{quoted, template},
};
use crate::{Report, tree::Directive};

/// Variables of programs with the values that they have without being told.
const USUAL_PARAMETERS: &[(&str, &[&str])] = &[
    ("CONTENT_LENGTH", &["$content_length"]),
    ("CONTENT_TYPE", &["$content_type"]),
    ("DOCUMENT_ROOT", ROOTS),
    ("DOCUMENT_URI", &["$document_uri", "$uri"]),
    ("GATEWAY_INTERFACE", &["CGI/1.1"]),
    ("HTTPS", &["$https"]),
    ("PATH_INFO", &["$fastcgi_path_info", "$path_info"]),
    ("QUERY_STRING", &["$query_string", "$args"]),
    ("REDIRECT_STATUS", &["200"]),
    ("REMOTE_ADDR", &["$remote_addr"]),
    ("REMOTE_PORT", &["$remote_port"]),
    ("REMOTE_USER", &["$remote_user"]),
    ("REQUEST_METHOD", &["$request_method"]),
    ("REQUEST_SCHEME", &["$scheme"]),
    ("REQUEST_URI", &["$request_uri"]),
    ("SCRIPT_NAME", SCRIPTS),
    ("SERVER_ADDR", &["$server_addr"]),
    ("SERVER_NAME", &["$server_name"]),
    ("SERVER_PORT", &["$server_port"]),
    ("SERVER_PROTOCOL", &["$server_protocol"]),
    ("SERVER_SOFTWARE", &["nginx/$nginx_version"]),
];

/// Variables for the folder that files are looked for in.
const ROOTS: &[&str] = &["$document_root", "$realpath_root"];

/// Variables for the script of a path.
const SCRIPTS: &[&str] = &["$fastcgi_script_name", "$document_uri", "$uri"];

/// Variables that decide what a program does: without them, it would do something else.
const DECISIVE_PARAMETERS: &[&str] = &[
    "DOCUMENT_ROOT",
    "PATH_INFO",
    "PHP_ADMIN_VALUE",
    "PHP_VALUE",
    "QUERY_STRING",
    "REQUEST_METHOD",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
];

/// Fields that upstreams get without being told, with the values that are meant by that.
const USUAL_FIELDS: &[(&str, &[&str])] = &[
    (
        "x-forwarded-for",
        &[
            "$proxy_add_x_forwarded_for",
            "$remote_addr",
            "$http_x_forwarded_for",
        ],
    ),
    (
        "x-forwarded-host",
        &["$host", "$http_host", "$http_x_forwarded_host"],
    ),
    ("x-forwarded-proto", &["$scheme", "$http_x_forwarded_proto"]),
];

/// Fields of the connection, which the server sets itself.
const OWN_FIELDS: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Facts about a location that its values depend on.
pub struct Place<'t> {
    pub server_name: Option<&'t str>,
    /// Folder of its files; `None`: it depends on the request.
    pub root: Option<&'t str>,
    /// The route has nothing yet that another folder would change.
    pub takes_root: bool,
}

/// Fields and variables, converted.
#[derive(Clone, Debug, Default)]
pub struct Upstream {
    fields: Vec<String>,
    environment: Vec<String>,
    keys: String,
    /// The upstream gets the client's host.
    pub keeps_host: bool,
    pub is_closed: bool,
}

/// The directive that says what upstreams of a directive such as `proxy_pass` get.
pub fn setter_of(pass: &str) -> &'static str {
    match pass {
        "fastcgi_pass" => "fastcgi_param",
        "uwsgi_pass" => "uwsgi_param",
        "scgi_pass" => "scgi_param",
        "grpc_pass" => "grpc_set_header",
        _ => "proxy_set_header",
    }
}

/// Returns true for the directives of [`setter_of`].
pub fn is_setter(name: &str) -> bool {
    matches!(
        name,
        "fastcgi_param" | "uwsgi_param" | "scgi_param" | "grpc_set_header" | "proxy_set_header"
    )
}

impl Upstream {
    /// Reads directives of one name. Of several for a field or variable, the last is in force.
    pub fn of(all: &[&Directive], place: &Place<'_>, report: &mut Report) -> Upstream {
        let mut upstream = Upstream::default();
        for (at, directive) in all.iter().enumerate() {
            let name = directive.argument(0);
            let mut later = all.iter().skip(at + 1);
            if later.any(|other| other.argument(0).eq_ignore_ascii_case(name)) {
                continue;
            }
            match directive.name().ends_with("_set_header") {
                true => upstream.field(directive, place, report),
                false => upstream.parameter(directive, place, report),
            }
        }
        upstream
    }

    /// The keys of the route.
    pub fn lines(&self) -> String {
        let mut out = self.keys.clone();
        for (key, all) in [
            ("upstream_headers", &self.fields),
            ("environment", &self.environment),
        ] {
            if !all.is_empty() {
                out.push_str(&format!("{key} = {{ {} }}\n", all.join(", ")));
            }
        }
        out
    }

    fn field(&mut self, directive: &Directive, place: &Place<'_>, report: &mut Report) {
        let (name, value) = (directive.argument(0), unbraced(directive.argument(1)));
        let lower = name.to_ascii_lowercase();
        if is_usual(USUAL_FIELDS, &lower, &value) || OWN_FIELDS.contains(&lower.as_str()) {
            return;
        }
        match (&*lower, &*value) {
            ("host", "$host" | "$http_host") => {
                self.keeps_host = true;
                return;
            }
            ("host", "$proxy_host" | "") => return,
            (_, "$request_id") if self.keys.is_empty() => {
                self.keys = format!("request_id = {}\n", quoted(name));
                return;
            }
            _ => {}
        }
        match template(&value, place.server_name) {
            Some(text) => self.set_field(name, &text),
            // The server sets these itself, and removes what clients send.
            None if lower == "host" || is_known(USUAL_FIELDS, &lower) => {
                left_out(directive, report);
            }
            None => {
                self.set_field(name, "");
                left_out(directive, report);
            }
        }
    }

    /// Sets a field; an empty text removes it.
    fn set_field(&mut self, name: &str, text: &str) {
        let name = quoted(name);
        self.fields.push(match text.is_empty() {
            true => format!("{name} = {{ remove = true }}"),
            false => format!("{name} = {}", quoted(text)),
        });
    }

    fn parameter(&mut self, directive: &Directive, place: &Place<'_>, report: &mut Report) {
        let (name, value) = (directive.argument(0), unbraced(directive.argument(1)));
        if is_usual(USUAL_PARAMETERS, name, &value)
            || name == "PATH_INFO" && is_whole_path(directive.name(), &value)
            || name == "SCRIPT_FILENAME" && self.is_usual_script(&value, place)
        {
            return;
        }
        let text = rooted(&value, place.root).and_then(|text| template(&text, place.server_name));
        let field = name
            .strip_prefix("HTTP_")
            .map(|rest| rest.replace('_', "-"));
        if let Some(field) = field.filter(|field| !field.eq_ignore_ascii_case("host")) {
            return self.program_field(directive, &field, text, report);
        }
        match text {
            Some(text) if is_variable(name) => {
                let line = format!("{} = {}", quoted(name), quoted(&text));
                self.environment.push(line);
            }
            _ if DECISIVE_PARAMETERS.contains(&name) => {
                self.is_closed = true;
                closed(directive, report);
            }
            _ => left_out(directive, report),
        }
    }

    /// A variable of a program that has the name of a field: it takes the place of the client's.
    fn program_field(
        &mut self,
        directive: &Directive,
        field: &str,
        text: Option<String>,
        report: &mut Report,
    ) {
        if text.is_none() {
            left_out(directive, report);
        }
        if !OWN_FIELDS.contains(&field.to_ascii_lowercase().as_str()) {
            self.set_field(field, &text.unwrap_or_default());
        }
    }

    /// Returns true for values that mean the script of the path; a folder of another name becomes
    /// the root of the route.
    fn is_usual_script(&mut self, value: &str, place: &Place<'_>) -> bool {
        if value == "$request_filename" {
            return true;
        }
        let folder = SCRIPTS.iter().find_map(|name| value.strip_suffix(name));
        let Some(folder) = folder.map(|folder| folder.trim_end_matches('/')) else {
            return false;
        };
        let root = place.root.map(|root| root.trim_end_matches('/'));
        if ROOTS.contains(&folder) || root == Some(folder) {
            return true;
        }
        let is_taken = place.takes_root && folder.starts_with('/') && !folder.contains('$');
        if is_taken {
            self.keys.push_str(&format!("root = {}\n", quoted(folder)));
        }
        is_taken
    }
}

fn is_usual(table: &[(&str, &[&str])], name: &str, value: &str) -> bool {
    let mut rows = table.iter();
    rows.any(|(known, values)| *known == name && values.contains(&value))
}

fn is_known(table: &[(&str, &[&str])], name: &str) -> bool {
    table.iter().any(|(known, _)| *known == name)
}

/// Applications behind uwsgi and SCGI get the whole path.
fn is_whole_path(setter: &str, value: &str) -> bool {
    let is_application = matches!(setter, "uwsgi_param" | "scgi_param");
    is_application && matches!(value, "$document_uri" | "$uri")
}

/// Returns true for names that `environment` takes, and that content does not depend on.
fn is_variable(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_sign)
        && !name.is_empty()
        && !name.starts_with(|sign: char| sign.is_ascii_digit())
        && !name.starts_with("LD_")
        && !matches!(name, "CONTENT_LENGTH" | "CONTENT_TYPE")
}

/// A text with the folder of the location in the place of its variables; `None`: it is unknown.
fn rooted(text: &str, root: Option<&str>) -> Option<String> {
    if !ROOTS.iter().any(|name| text.contains(name)) {
        return Some(text.to_owned());
    }
    let root = root.filter(|root| root.starts_with('/'))?;
    let fill = |text: String, name: &&str| text.replace(name, root.trim_end_matches('/'));
    Some(ROOTS.iter().fold(text.to_owned(), fill))
}

/// A text with `$name` for `${name}` where no letter follows.
fn unbraced(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        out.push_str(before);
        rest = behind;
        let Some((name, left)) = behind.split_once('}') else {
            out.push_str("${");
            break;
        };
        let is_letter = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
        out.push_str(&match left.starts_with(is_letter) {
            true => format!("${{{name}}}"),
            false => format!("${name}"),
        });
        rest = left;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_parameters() {
        assert_eq!(unbraced("${a}/${b}c$d"), "$a/${b}c$d");
        assert_eq!(unbraced("a${b"), "a${b");
        let root = |text| rooted(text, Some("/srv/a/"));
        assert_eq!(
            root("$document_root/index.php").as_deref(),
            Some("/srv/a/index.php")
        );
        assert_eq!(rooted("$realpath_root/x", Some("relative")), None);
        assert_eq!(rooted("plain", None).as_deref(), Some("plain"));
        assert!(is_usual(USUAL_PARAMETERS, "REDIRECT_STATUS", "200"));
        assert!(!is_usual(USUAL_PARAMETERS, "REMOTE_USER", "admin"));
        assert!(!is_variable("LD_PRELOAD") && !is_variable("") && is_variable("APP_1"));
    }
}
