//! Contents of the packages, as one table.
//!
//! Called by: `deb`; the tarball has the same files below one folder.
//! Caveat: files below `/etc` are configuration files of the package: dpkg keeps what an
//! administrator has changed.

/// A file, folder, or link of a package.
pub struct Entry {
    pub path: &'static str,
    pub from: From,
    pub mode: u32,
}

/// Source of an entry.
#[derive(Clone, Copy)]
pub enum From {
    /// A file of this repository.
    Repository(&'static str),
    /// A unit of this repository, for a binary in `/usr/bin`.
    Unit(&'static str),
    /// A file, compressed as Debian has its documentation.
    Compressed(&'static str),
    Binary,
    /// Output of the binary, called with these arguments.
    Said(&'static [&'static str]),
    /// The manual pages that the binary writes, compressed.
    ManualPages,
    Folder,
    Link(&'static str),
    /// The package's own changes, in Debian's form.
    DebianChangelog,
}

use self::From::*;

const fn entry(path: &'static str, from: From) -> Entry {
    Entry {
        path,
        from,
        mode: 0o644,
    }
}

const fn folder(path: &'static str) -> Entry {
    Entry {
        path,
        from: Folder,
        mode: 0o755,
    }
}

/// The server's package.
pub const SAKER: &[Entry] = &[
    Entry {
        path: "usr/bin/saker",
        from: Binary,
        mode: 0o755,
    },
    entry(
        "lib/systemd/system/saker.service",
        Repository("contrib/debian/saker.service"),
    ),
    entry(
        "lib/systemd/system/saker.socket",
        Repository("contrib/saker.socket"),
    ),
    // For `saker takeover`; not enabled.
    entry(
        "lib/systemd/system/saker-apache.service",
        Unit("contrib/saker-apache.service"),
    ),
    entry(
        "lib/systemd/system/saker-nginx.service",
        Unit("contrib/saker-nginx.service"),
    ),
    entry(
        "etc/saker/saker.toml",
        Repository("contrib/debian/saker.toml"),
    ),
    entry(
        "etc/saker/sites-available/default.toml",
        Repository("contrib/debian/default-site.toml"),
    ),
    folder("etc/saker/sites-enabled"),
    folder("etc/saker/conf.d"),
    entry(
        "usr/share/saker/welcome/index.html",
        Repository("contrib/debian/welcome.html"),
    ),
    entry(
        "etc/logrotate.d/saker",
        Repository("contrib/debian/logrotate"),
    ),
    entry(
        "etc/apparmor.d/usr.bin.saker",
        Repository("contrib/debian/apparmor"),
    ),
    entry(
        "etc/ufw/applications.d/saker",
        Repository("contrib/debian/ufw"),
    ),
    entry(
        "usr/lib/firewalld/services/saker.xml",
        Repository("contrib/debian/firewalld.xml"),
    ),
    entry(
        "etc/fail2ban/action.d/saker.conf",
        Repository("contrib/fail2ban/action.d/saker.conf"),
    ),
    entry(
        "etc/fail2ban/filter.d/saker.conf",
        Repository("contrib/fail2ban/filter.d/saker.conf"),
    ),
    entry(
        "etc/fail2ban/filter.d/saker-auth.conf",
        Repository("contrib/fail2ban/filter.d/saker-auth.conf"),
    ),
    entry(
        "etc/fail2ban/filter.d/saker-denied.conf",
        Repository("contrib/fail2ban/filter.d/saker-denied.conf"),
    ),
    entry(
        "etc/fail2ban/filter.d/saker-noscript.conf",
        Repository("contrib/fail2ban/filter.d/saker-noscript.conf"),
    ),
    entry(
        "etc/fail2ban/filter.d/saker-overflows.conf",
        Repository("contrib/fail2ban/filter.d/saker-overflows.conf"),
    ),
    // Not below /etc: a jail is switched on by the administrator.
    entry(
        "usr/share/doc/saker/examples/fail2ban-jail.conf",
        Repository("contrib/fail2ban/jail.d/saker.conf"),
    ),
    entry(
        "usr/share/doc/saker/examples/saker.example.toml",
        Repository("docs/saker.example.toml"),
    ),
    entry(
        "usr/share/doc/saker/service.md",
        Repository("docs/service.md"),
    ),
    entry(
        "usr/share/doc/saker/copyright",
        Repository("contrib/debian/copyright"),
    ),
    entry(
        "usr/share/doc/saker/changelog.gz",
        Compressed("CHANGELOG.md"),
    ),
    entry("usr/share/doc/saker/changelog.Debian.gz", DebianChangelog),
    entry(
        "usr/share/doc/saker/reference.md.gz",
        Compressed("docs/reference.md"),
    ),
    entry(
        "usr/share/bash-completion/completions/saker",
        Said(&["completions", "bash"]),
    ),
    entry(
        "usr/share/zsh/vendor-completions/_saker",
        Said(&["completions", "zsh"]),
    ),
    entry(
        "usr/share/fish/vendor_completions.d/saker.fish",
        Said(&["completions", "fish"]),
    ),
    entry("usr/share/man/man1", ManualPages),
];

/// The drop-in names. `apache2` and `nginx` of other packages are diverted, and come back when this
/// package goes.
pub const COMPAT: &[Entry] = &[
    entry("usr/sbin/apache2", Link("../bin/saker")),
    entry("usr/sbin/httpd", Link("../bin/saker")),
    entry("usr/sbin/nginx", Link("../bin/saker")),
    entry(
        "usr/share/doc/saker-compat/copyright",
        Repository("contrib/debian/copyright"),
    ),
    entry(
        "usr/share/doc/saker-compat/changelog.Debian.gz",
        DebianChangelog,
    ),
];

/// The debug symbols' package, beside the symbols.
pub const SYMBOLS: &[Entry] = &[
    entry(
        "usr/share/doc/saker-dbgsym/copyright",
        Repository("contrib/debian/copyright"),
    ),
    entry(
        "usr/share/doc/saker-dbgsym/changelog.Debian.gz",
        DebianChangelog,
    ),
];
