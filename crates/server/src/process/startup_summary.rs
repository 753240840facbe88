//! The summary that `saker serve` prints when it has started: its addresses, and warnings.
//!
//! Called by: the supervisor, once. Caveat: scripts wait for the lines that begin with "Serving";
//! they end with the URL wherever the address is one of this machine's. Out of scope: the error
//! log, which has the same for those who read it later.

use saker_config::{
    Model, ServeOptions,
    model::{Address, Htaccess, PhpUse},
};
use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

const INDEXES: [&str; 3] = ["index.html", "index.htm", "index.php"];
/// Directories of frameworks that are meant to be public, beside others that are not.
const PUBLIC: [&str; 4] = ["public", "web", "htdocs", "public_html"];

/// An address that connections come in at.
pub struct Shown<'l> {
    pub address: &'l Address,
    pub scheme: &'static str,
    pub has_http3: bool,
}

/// Ends with a line break. `authority`: the certificate of the local authority, where it is used.
pub fn text<'l>(
    options: &ServeOptions,
    model: &Model,
    shown: impl Iterator<Item = Shown<'l>>,
    authority: Option<&Path>,
) -> String {
    let mut text = String::new();
    let mut https = None;
    for one in shown {
        let _ = writeln!(
            text,
            "Serving {} on {}",
            options.root.display(),
            place(&one)
        );
        if let (Address::Tcp(address), "https") = (one.address, one.scheme) {
            https.get_or_insert(*address);
        }
    }
    match (authority, https, options.domains.as_slice()) {
        (Some(authority), https, _) => text.push_str(&trust(authority, https)),
        (None, _, []) => {}
        (None, _, names) => {
            let _ = writeln!(
                text,
                "Requesting a certificate for {}; progress is on standard error",
                names.join(", ")
            );
        }
    }
    for note in notes(options, model) {
        let _ = writeln!(text, "Note: {note}");
    }
    text
}

fn place(shown: &Shown<'_>) -> String {
    let http3 = if shown.has_http3 { " (and HTTP/3)" } else { "" };
    let address = match shown.address {
        Address::Unix(path) => return format!("the socket {}", path.display()),
        Address::Tcp(address) => *address,
    };
    let others = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => " and all IPv4 addresses of this machine",
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => " and all IPv6 addresses of this machine",
        _ => "",
    };
    format!("{}://{}/{http3}{others}", shown.scheme, reachable(address))
}

/// An address that a browser on this machine can be given.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn trust(authority: &Path, https: Option<SocketAddr>) -> String {
    let authority = authority.display();
    let curl = https.map(|address| {
        format!(
            ", or try curl --cacert '{authority}' https://{}/",
            reachable(address)
        )
    });
    format!(
        "Browsers warn until they trust this machine's own authority: import {authority}{}\n",
        curl.unwrap_or_default()
    )
}

fn notes(options: &ServeOptions, model: &Model) -> Vec<String> {
    let root = &options.root;
    let has = |name: &str| root.join(name).exists();
    let mut notes = Vec::new();
    if let Err(error) = std::fs::read_dir(root) {
        notes.push(format!(
            "{} can't be read by the server's user: {error}",
            root.display()
        ));
    }
    if matches!(options.php, PhpUse::Managed) {
        notes.extend(php_note(options, model));
    }
    let is_public = |name: &&&str| INDEXES.iter().any(|index| has(&format!("{name}/{index}")));
    if let Some(public) = PUBLIC
        .iter()
        .find(is_public)
        .filter(|_| !INDEXES.iter().any(|index| has(index)))
    {
        notes.push(format!(
            "the pages are in {public}/, and all that lies beside it is served, too. For the pages alone: saker serve {}",
            root.join(public).display()
        ));
    }
    if options.htaccess == Htaccess::Off && has(".htaccess") {
        notes.push("the rules in .htaccess are not obeyed (`--htaccess off`)".into());
    }
    notes
}

fn php_note(options: &ServeOptions, model: &Model) -> Option<String> {
    if model.php_pools.first().is_none() {
        let missing = || {
            format!(
                "PHP files are answered 503. {}",
                saker_php::missing(&options.php_program)
            )
        };
        return saker_php::has_scripts(&options.root).then(missing);
    }
    match (
        &options.php_user,
        saker_php::closed_to(&model.php, &options.root),
    ) {
        (_, Some(user)) => {
            let root = options.root.display();
            Some(format!(
                "PHP runs as {user}, who can't enter {root}; scripts are not found until that user may, or saker is started by its owner"
            ))
        }
        (Some(owner), None) => Some(format!(
            "PHP runs as {owner}, the owner of the folder, which is closed to other users"
        )),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    fn shown_as(text: &str, scheme: &'static str) -> String {
        let address = &Address::parse_all(text).unwrap()[0];
        place(&Shown {
            address,
            scheme,
            has_http3: scheme == "https",
        })
    }

    #[test]
    fn addresses_that_a_browser_takes() {
        for (address, scheme, expected) in [
            ("127.0.0.1:8080", "http", "http://127.0.0.1:8080/"),
            (
                "0.0.0.0:80",
                "http",
                "http://127.0.0.1:80/ and all IPv4 addresses of this machine",
            ),
            (
                "[::]:443",
                "https",
                "https://[::1]:443/ (and HTTP/3) and all IPv6 addresses of this machine",
            ),
            ("[::1]:8443", "https", "https://[::1]:8443/ (and HTTP/3)"),
            ("unix:/run/a b.sock", "http", "the socket /run/a b.sock"),
        ] {
            assert_eq!(shown_as(address, scheme), expected);
        }
    }

    #[test]
    fn notes_for_folders() {
        let scratch = TempDir::private("unit").unwrap();
        let options = || ServeOptions {
            root: scratch.to_path_buf(),
            php: PhpUse::Off,
            htaccess: Htaccess::Off,
            ..ServeOptions::default()
        };
        let notes = |options: ServeOptions| notes(&options, &Model::for_directory(options.clone()));
        assert_eq!(notes(options()), Vec::<String>::new());
        std::fs::create_dir(scratch.join("public")).unwrap();
        std::fs::write(scratch.join("public/index.php"), "").unwrap();
        std::fs::write(scratch.join(".htaccess"), "").unwrap();
        let both = notes(options());
        assert!(
            both[0].ends_with(&format!("saker serve {}", scratch.join("public").display()))
                && both[1].contains(".htaccess"),
            "{both:?}"
        );
        let obeyed = notes(ServeOptions {
            htaccess: Htaccess::Auto,
            ..options()
        });
        assert_eq!(obeyed, both[..1]);
        std::fs::write(scratch.join("index.php"), "").unwrap();
        let managed = notes(ServeOptions {
            php: PhpUse::Managed,
            ..options()
        });
        let gone = notes(ServeOptions {
            root: scratch.join("gone"),
            ..options()
        });
        assert!(
            gone.len() == 1 && gone[0].contains("can't be read"),
            "{gone:?}"
        );
        // PHP has not been detected for this model, so there is none.
        assert!(
            managed.len() == 2 && managed[0].starts_with("PHP files are answered 503. "),
            "{managed:?}"
        );
    }
}
