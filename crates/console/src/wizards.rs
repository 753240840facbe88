//! Wizards: a few questions that become a changed text of `saker.toml`.
//!
//! Called by: `wizard_pages`.
//! Caveat: a text that a wizard has made is proposed, checked, and confirmed like any other.
//! Out of scope: pages and forms of single settings.

use crate::exchange::Form;
use saker_config::form::{add, append, change, form, quoted, quoted_list};

/// A question.
pub struct Field {
    pub name: &'static str,
    pub label: &'static str,
    pub help: &'static str,
    pub answers: Answers,
    pub is_required: bool,
}

/// The answers that a question offers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    Text,
    Lines,
    Choice(&'static [&'static str]),
    /// The sites of the file.
    Sites,
    /// All presets.
    Presets,
}

pub struct Wizard {
    pub kind: &'static str,
    pub title: &'static str,
    pub summary: &'static str,
    pub fields: &'static [Field],
    build: fn(&str, &Form) -> Result<String, String>,
}

const fn text(name: &'static str, label: &'static str, help: &'static str) -> Field {
    Field {
        name,
        label,
        help,
        answers: Answers::Text,
        is_required: true,
    }
}

const fn optional(field: Field) -> Field {
    Field {
        is_required: false,
        ..field
    }
}

const fn of(answers: Answers, field: Field) -> Field {
    Field { answers, ..field }
}

const NAMES: Field = text(
    "names",
    "Host names",
    "Separated by spaces: example.org www.example.org",
);
const ROOT: Field = text(
    "root",
    "Directory",
    "The document root: /srv/www/example.org",
);
const TLS: Field = of(
    Answers::Choice(&["none", "automatic"]),
    text(
        "tls",
        "Certificate",
        "automatic: requested and renewed, which agrees to the terms of the certificate authority",
    ),
);
const SITE: Field = of(
    Answers::Sites,
    text("site", "Site", "The site that it is for"),
);

/// All wizards.
pub const WIZARDS: &[Wizard] = &[
    Wizard {
        kind: "static",
        title: "Static site",
        summary: "Serves the files of a directory.",
        fields: &[NAMES, ROOT, TLS],
        build: |text, form| {
            site(
                text,
                form,
                &format!("root = {}\n", quoted(given(form, "root")?)),
            )
        },
    },
    Wizard {
        kind: "php",
        title: "PHP site",
        summary: "Serves a directory, and runs its PHP programs.",
        fields: &[NAMES, ROOT, TLS],
        build: |text, form| {
            let keys = format!(
                "root = {}\nindex = [\"index.php\", \"index.html\"]\nphp = \"auto\"\n",
                quoted(given(form, "root")?)
            );
            site(text, form, &keys)
        },
    },
    Wizard {
        kind: "preset",
        title: "Application",
        summary: "Serves an application with its preset: WordPress, Nextcloud, Laravel, and others.",
        fields: &[
            NAMES,
            ROOT,
            of(
                Answers::Presets,
                text("preset", "Application", "Settings and routes that it needs"),
            ),
            TLS,
        ],
        build: |text, form| {
            let keys = format!(
                "preset = {}\nroot = {}\n",
                quoted(given(form, "preset")?),
                quoted(given(form, "root")?)
            );
            site(text, form, &keys)
        },
    },
    Wizard {
        kind: "proxy",
        title: "Proxy site",
        summary: "Passes requests on to an application server.",
        fields: &[
            NAMES,
            text(
                "url",
                "URL of the application",
                "http://127.0.0.1:3000, or the name of an upstream",
            ),
            TLS,
        ],
        build: |text, form| {
            let route = format!(
                "[[route]]\npath = \"/*\"\nproxy = {}\n",
                quoted(given(form, "url")?)
            );
            site(text, form, &route)
        },
    },
    Wizard {
        kind: "certificate",
        title: "Certificate",
        summary: "Gives a site a certificate: an automatic one, or one in files.",
        fields: &[
            SITE,
            optional(text(
                "certificate",
                "Certificate file",
                "PEM, leaf first; empty: automatic",
            )),
            optional(text(
                "key",
                "Key file",
                "PEM; empty: in the certificate's file",
            )),
        ],
        build: certificate,
    },
    Wizard {
        kind: "redirect",
        title: "Redirect",
        summary: "Sends clients from one path to another URL.",
        fields: &[
            SITE,
            text("from", "From", "/old/*"),
            text("to", "To", "/new/$1"),
            of(
                Answers::Choice(&["301", "302", "307", "308"]),
                text(
                    "status",
                    "Status",
                    "301 and 308 are for good; 307 and 308 keep the method",
                ),
            ),
        ],
        build: |text, form| {
            let entry = format!(
                "from = {}\nto = {}\nstatus = {}\n",
                quoted(given(form, "from")?),
                quoted(given(form, "to")?),
                number(form, "status")?
            );
            append(text, &format!("{}.redirect", given(form, "site")?), &entry)
        },
    },
    Wizard {
        kind: "password",
        title: "Password protection",
        summary: "Asks for a name and a password.",
        fields: &[
            SITE,
            optional(text("path", "Path", "/private/*; empty: the whole site")),
            text("realm", "Realm", "Shown by browsers: Members"),
            text(
                "user_file",
                "Users file",
                "Written by htpasswd: /etc/saker/users",
            ),
        ],
        build: password,
    },
    Wizard {
        kind: "limit",
        title: "Limit",
        summary: "Limits requests and transfers of a site's clients.",
        fields: &[
            SITE,
            optional(text(
                "requests_dynamic",
                "Requests to programs, per client",
                "10/s",
            )),
            optional(text(
                "requests_static",
                "Requests for files, per client",
                "100/s",
            )),
            optional(text(
                "out_per_connection",
                "Transfer rate per connection",
                "2MB/s",
            )),
        ],
        build: |text, form| {
            let names = ["requests_dynamic", "requests_static", "out_per_connection"];
            let values: Vec<(&str, &str)> = names
                .map(|name| (name, form.get(name).trim()))
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .collect();
            if values.is_empty() {
                return Err("name at least one limit".into());
            }
            change(text, &format!("{}.throttle", given(form, "site")?), &values)
        },
    },
    Wizard {
        kind: "ban",
        title: "Ban",
        summary: "Denies clients for good. The page Bans bans for a time, without a change of the configuration.",
        fields: &[of(
            Answers::Lines,
            text(
                "addresses",
                "Addresses",
                "IP addresses and CIDR blocks, a line each",
            ),
        )],
        build: |text, form| {
            let lines = lines(form, "addresses");
            match lines.is_empty() {
                true => Err("name at least one address".into()),
                false => add(text, "abuse", "deny", &lines),
            }
        },
    },
    Wizard {
        kind: "upstream",
        title: "Upstream",
        summary: "Balances requests between several servers.",
        fields: &[
            text("name", "Name", "Routes refer to it: app"),
            of(
                Answers::Lines,
                text(
                    "servers",
                    "Servers",
                    "URLs, a line each: http://10.0.0.1:8080",
                ),
            ),
            optional(of(
                Answers::Sites,
                text("site", "Site", "Passes its requests to the upstream"),
            )),
            optional(text(
                "path",
                "Path",
                "/api/*; empty: all requests of the site",
            )),
        ],
        build: upstream,
    },
];

impl Wizard {
    pub fn find(kind: &str) -> Option<&'static Wizard> {
        WIZARDS.iter().find(|wizard| wizard.kind == kind)
    }

    /// Makes the changed text.
    pub fn build(&self, text: &str, form: &Form) -> Result<String, String> {
        (self.build)(text, form)
    }
}

fn given<'f>(form: &'f Form, name: &str) -> Result<&'f str, String> {
    match form.get(name).trim() {
        "" => Err(format!("`{name}` is missing")),
        value => Ok(value),
    }
}

fn number(form: &Form, name: &str) -> Result<u32, String> {
    let value = given(form, name)?;
    value
        .parse()
        .map_err(|_| format!("`{name}` must be a number"))
}

fn lines<'f>(form: &'f Form, name: &str) -> Vec<&'f str> {
    form.get(name).split_whitespace().collect()
}

/// Adds a site; with an automatic certificate, a listener for it, too.
fn site(text: &str, form: &Form, keys: &str) -> Result<String, String> {
    let names = lines(form, "names");
    if names.is_empty() {
        return Err("`names` is missing".into());
    }
    let is_secure = form.get("tls") == "automatic";
    let tls = if is_secure {
        "[tls]\nautomatic = true\n"
    } else {
        ""
    };
    let entry = format!("names = {}\n{keys}{tls}", quoted_list(&names));
    let text = append(text, "site", &entry)?;
    match is_secure {
        true => with_tls_listener(&text),
        false => Ok(text),
    }
}

fn with_tls_listener(text: &str) -> Result<String, String> {
    let listeners = saker_config::form::places(text, "listener");
    let has_tls = listeners.iter().any(|listener| {
        let settings = form(text, &listener.path).map_or_else(|_| Vec::new(), |form| form.settings);
        let mut tls = settings.iter().filter(|one| one.name == "tls");
        tls.any(|one| one.value.as_deref() == Some("true"))
    });
    match has_tls || listeners.is_empty() {
        true => Ok(text.to_owned()),
        false => append(text, "listener", "address = \":443\"\ntls = true\n"),
    }
}

fn certificate(text: &str, form: &Form) -> Result<String, String> {
    let table = format!("{}.tls", given(form, "site")?);
    let values = match form.get("certificate").trim() {
        "" => vec![("automatic", "true")],
        file => vec![
            ("automatic", ""),
            ("certificate", file),
            ("key", form.get("key").trim()),
        ],
    };
    with_tls_listener(&change(text, &table, &values)?)
}

fn password(text: &str, form: &Form) -> Result<String, String> {
    let site = given(form, "site")?;
    let (realm, file) = (given(form, "realm")?, given(form, "user_file")?);
    match form.get("path").trim() {
        "" => change(
            text,
            &format!("{site}.auth"),
            &[("realm", realm), ("user_file", file)],
        ),
        path => {
            let auth = format!("realm = {}\nuser_file = {}\n", quoted(realm), quoted(file));
            let route = format!("path = {}\n[auth]\n{auth}", quoted(path));
            append(text, &format!("{site}.route"), &route)
        }
    }
}

fn upstream(text: &str, form: &Form) -> Result<String, String> {
    let (name, servers) = (given(form, "name")?, lines(form, "servers"));
    if servers.is_empty() {
        return Err("name at least one server".into());
    }
    let entry = format!(
        "name = {}\nservers = {}\n",
        quoted(name),
        quoted_list(&servers)
    );
    let text = append(text, "upstream", &entry)?;
    let path = match form.get("path").trim() {
        "" => "/*",
        path => path,
    };
    match form.get("site").trim() {
        "" => Ok(text),
        site => {
            let route = format!("path = {}\nproxy = {}\n", quoted(path), quoted(name));
            append(&text, &format!("{site}.route"), &route)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[listener]]\naddress = \"127.0.0.1:0\"\n\n[[site]]\nnames = [\"a.example\"]\nroot = \"/\"\n";

    #[test]
    fn each_wizard_makes_a_configuration_that_can_be_read() {
        for (kind, answers, part) in [
            (
                "static",
                "names=b.example+c.example&root=/srv&tls=automatic",
                "names = [\"b.example\", \"c.example\"]",
            ),
            (
                "php",
                "names=b.example&root=/srv&tls=none",
                "php = \"auto\"",
            ),
            (
                "preset",
                "names=b.example&root=/srv&preset=wordpress&tls=none",
                "preset = \"wordpress\"",
            ),
            (
                "proxy",
                "names=b.example&url=http://127.0.0.1:3000",
                "proxy = \"http://127.0.0.1:3000\"",
            ),
            ("certificate", "site=site.0", "[site.tls]\nautomatic = true"),
            (
                "certificate",
                "site=site.0&certificate=/a.pem&key=/a.key",
                "certificate = \"/a.pem\"\nkey = \"/a.key\"",
            ),
            (
                "redirect",
                "site=site.0&from=/old&to=/new&status=308",
                "status = 308",
            ),
            (
                "password",
                "site=site.0&realm=x&user_file=/users",
                "[site.auth]\nrealm = \"x\"",
            ),
            (
                "password",
                "site=site.0&path=/p/*&realm=x&user_file=/users",
                "[site.route.auth]",
            ),
            (
                "limit",
                "site=site.0&requests_dynamic=10/s",
                "requests_dynamic = \"10/s\"",
            ),
            (
                "ban",
                "addresses=192.0.2.1%0D%0A2001:db8::/32",
                "deny = [\"192.0.2.1\", \"2001:db8::/32\"]",
            ),
            (
                "upstream",
                "name=app&servers=http://10.0.0.1%0D%0Ahttp://10.0.0.2&site=site.0",
                "proxy = \"app\"",
            ),
        ] {
            let wizard = Wizard::find(kind).expect("a wizard");
            let text = wizard
                .build(TEXT, &Form::parse(answers.as_bytes()))
                .expect(kind);
            assert!(
                text.starts_with(TEXT.split("\n\n").next().expect("text")),
                "{text}"
            );
            assert!(text.contains(part), "{kind}: {text}");
            let read = saker_config::parse(&text, "saker.toml", "/".as_ref());
            assert!(read.is_ok(), "{kind}: {:?}", read.err());
            // Without answers there is no text, and no panic.
            assert!(wizard.build(TEXT, &Form::default()).is_err(), "{kind}");
        }
    }

    #[test]
    fn answers_stay_values() {
        let answers = "names=b.example&root=/srv%22%0A%5Bserver%5D%0Auser%3D%22root%22";
        let wizard = Wizard::find("static").expect("a wizard");
        let text = wizard
            .build(TEXT, &Form::parse(answers.as_bytes()))
            .expect("a text");
        assert!(
            form(&text, "server").expect("a form").line.is_none(),
            "{text}"
        );
        assert_eq!(saker_config::form::places(&text, "site").len(), 2);
    }
}
