//! The text of a new `saker.toml`, with comments for its reader.
//!
//! Called by: `init`.
//! Caveat: the text passes `saker fmt` unchanged; a test formats it.
//! Out of scope: what the answers are.

use super::{answers::Answers, application::Kind, htaccess};
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

pub fn text(answers: &Answers) -> String {
    let mut text = String::from(
        "# Written by `saker init`. Check changes with `saker check`; docs/reference.md has all keys,\n\
         # and `saker schema` describes them to editors.\n",
    );
    server(&mut text, answers);
    listeners(&mut text, answers);
    site(&mut text, answers);
    routes(&mut text, answers);
    text
}

fn server(text: &mut String, answers: &Answers) {
    text.push_str("\n[server]\n");
    if answers.is_root {
        if let Some(user) = ["www-data", "apache", "http", "nobody"]
            .into_iter()
            .find(|user| matches!(saker_net::process::user_id(user), Ok(Some(_))))
        {
            let _ = writeln!(text, "user = {}    # after binding ports", quoted(user));
        }
        text.push_str("# error_log = \"/var/log/saker/error.log\"\n");
        return;
    }
    let _ = writeln!(
        text,
        "state_dir = {}",
        quoted(&state_dir(answers).to_string_lossy())
    );
}

/// Users other than root have their state in their home.
fn state_dir(answers: &Answers) -> PathBuf {
    let home = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = home("XDG_STATE_HOME").or_else(|| Some(home("HOME")?.join(".local/state")));
    let name = answers.folder.file_name().unwrap_or_default();
    match state {
        Some(state) => state.join("saker").join(name),
        None => answers.folder.join(".saker"),
    }
}

fn listeners(text: &mut String, answers: &Answers) {
    let (http, https, about) = match (answers.domains.is_empty(), answers.is_root) {
        (false, _) => (":80", ":443", "all addresses, IPv4 and IPv6"),
        (true, true) => (":80", "127.0.0.1:443", "all addresses, IPv4 and IPv6"),
        (true, false) => ("127.0.0.1:8080", "127.0.0.1:8443", "this machine only"),
    };
    let _ = writeln!(
        text,
        "\n[[listener]]\naddress = {}    # {about}\n\n[[listener]]\naddress = {}\ntls = true",
        quoted(http),
        quoted(https)
    );
}

fn site(text: &mut String, answers: &Answers) {
    let application = &answers.application;
    text.push_str("\n[[site]]\n");
    if !answers.domains.is_empty() {
        let names: Vec<String> = answers.domains.iter().map(|name| quoted(name)).collect();
        let _ = writeln!(text, "names = [{}]", names.join(", "));
    }
    let _ = writeln!(
        text,
        "root = {}",
        quoted(&application.root.to_string_lossy())
    );
    if let Some(preset) = application.kind.preset() {
        let _ = writeln!(
            text,
            "# {}.\n# `saker config --expanded` shows its settings; keys of the site override them.\npreset = {}",
            preset.summary,
            quoted(preset.name)
        );
    }
    if application.kind == Kind::Php {
        text.push_str("index = [\"index.php\", \"index.html\"]\n");
    }
    let is_of_preset = application.kind != Kind::Php;
    match answers.php.as_deref() {
        Some("auto") if is_of_preset => {}
        Some(php) => {
            let _ = writeln!(text, "php = {}", quoted(php));
        }
        None => {}
    }
    if answers.applies_htaccess() {
        text.push_str("htaccess = true\n");
    }
    if answers.is_root {
        text.push_str("# access_log = \"/var/log/saker/access.log\"\n");
    }
    match answers.domains.is_empty() {
        true => text.push_str(
            "\n# Signed by an authority of this machine; `saker trust` makes browsers trust it.\n\
             [site.tls]\nautomatic = \"local\"\n",
        ),
        false => text.push_str(
            "https_redirect = true\n\n# From Let's Encrypt, renewed in time.\n[site.tls]\nautomatic = true\n",
        ),
    }
}

/// Writes routes that keep closed the folders that `.htaccess` files close.
fn close_folders(text: &mut String, root: &Path) {
    for folder in htaccess::closed_folders(root) {
        let Some(path) = folder.strip_prefix(root).ok().and_then(Path::to_str) else {
            continue;
        };
        let _ = writeln!(
            text,
            "\n# Closed by its .htaccess, which is not applied; for a log-in put `auth` in the place of `deny`.\n\
             [[site.route]]\npath = {}\ndeny = true",
            quoted(&format!("/{path}/*"))
        );
    }
}

fn routes(text: &mut String, answers: &Answers) {
    let root = &answers.application.root;
    if let Kind::Node(port) = answers.application.kind {
        let _ = writeln!(
            text,
            "\n[[site.route]]\npath = \"/*\"\nproxy = \"http://127.0.0.1:{port}\""
        );
        return;
    }
    if answers.has_htaccess && !answers.applies_htaccess() {
        close_folders(text, root);
    }
    if is_below(&answers.folder, root) {
        let path = answers.folder.strip_prefix(root).unwrap_or(Path::new(""));
        let path = match path.as_os_str().is_empty() {
            true => String::new(),
            false => format!("/{}", path.display()),
        };
        let _ = writeln!(
            text,
            "\n# This file lies in the document root.\n[[site.route]]\npath = {}\ndeny = true",
            quoted(&format!("{path}/*.toml*"))
        );
    }
}

fn is_below(folder: &Path, root: &Path) -> bool {
    folder.starts_with(root)
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
