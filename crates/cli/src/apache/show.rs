//! Output of `-v`, `-V`, `-l`, `-L`, `-M`, `-S` and `-h`, in Apache's form.
//!
//! Called by: `main`.

use rustix::process::{Gid, Uid};
use saker_apache::Loaded;
use saker_apache_syntax::{APACHE_VERSION, Link, Provision, modules as known_modules, rows};
use std::{fmt::Write as _, path::Path};

/// The first word is what programs look for; the rest is ours.
pub fn version() -> String {
    format!(
        "Server version: Apache/{APACHE_VERSION} (Saker/{})\n",
        env!("CARGO_PKG_VERSION")
    )
}

pub fn settings(file: &Path) -> String {
    let root = file.parent().unwrap_or(Path::new("/")).display();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "{}Server's Module Magic Number: {}\nArchitecture:   {}-bit\nServer MPM:     event\n  threaded:     yes (fixed thread count)\n    forked:     no\n\
         Server compiled with....\n -D APR_HAS_SENDFILE\n -D APR_HAVE_IPV6 (IPv4-mapped addresses enabled)\n -D AP_HAVE_RELIABLE_PIPED_LOGS\n \
         -D HTTPD_ROOT=\"{root}\"\n -D SERVER_CONFIG_FILE=\"{name}\"\n -D AP_TYPES_CONFIG_FILE=\"mime.types\"\n",
        version(),
        saker_ap_expr::API_VERSION,
        usize::BITS,
    )
}

pub fn compiled_in() -> String {
    let statics = known_modules().filter(|row| row.link == Link::Static);
    statics.fold("Compiled in modules:\n".to_owned(), |mut page, row| {
        let _ = writeln!(page, "  {}", row.source_file);
        page
    })
}

/// Name, and where it may stand.
pub fn directives() -> String {
    rows().fold(String::new(), |mut page, row| {
        let module = row.modules.first().copied().unwrap_or("core_module");
        let classes: Vec<&str> = row.overrides.classes().collect();
        let _ = writeln!(
            page,
            "{} ({module})\n\tAllowed in {}{}",
            row.title(),
            row.contexts.describe(),
            allowed_by(&classes)
        );
        page
    })
}

fn allowed_by(classes: &[&str]) -> String {
    if classes.is_empty() {
        String::new()
    } else {
        format!(
            "; in .htaccess when AllowOverride includes {}",
            classes.join(" or ")
        )
    }
}

pub fn modules(loaded: &Loaded) -> String {
    let mut page = "Loaded Modules:\n".to_owned();
    for row in loaded.apache.environment.modules.rows().filter(|row| {
        row.link != Link::Always
            && !matches!(
                row.provision,
                Provision::Absent | Provision::Foreign | Provision::ForeignGuard
            )
    }) {
        let kind = if row.link == Link::Static {
            "static"
        } else {
            "shared"
        };
        let _ = writeln!(page, " {} ({kind})", row.identifier);
    }
    page
}

pub fn hosts(loaded: &Loaded) -> String {
    let overview = &loaded.overview;
    let user = overview
        .user
        .as_deref()
        .and_then(|name| id(name, "/etc/passwd"));
    let group = overview
        .group
        .as_deref()
        .and_then(|name| id(name, "/etc/group"));
    overview.render((
        user.map(Uid::from_raw).map(Uid::as_raw),
        group.map(Gid::from_raw).map(Gid::as_raw),
    ))
}

/// The number of a user or group, from the third column of a file that both have.
fn id(name: &str, file: &str) -> Option<u32> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines
        .find(|columns| columns.first() == Some(&name))?
        .get(2)?
        .parse()
        .ok()
}

pub fn includes(loaded: &Loaded) -> String {
    let mut page = "Included configuration files:\n".to_owned();
    for (index, source) in loaded.model.sources.iter().enumerate() {
        let depth = if index == 0 { "(*)" } else { "   " };
        let _ = writeln!(page, "  {depth} {}", source.display());
    }
    page
}

pub fn usage(program: &str) -> String {
    let pad = " ".repeat(program.len());
    format!(
        "Usage: {program} [-D name] [-d directory] [-f file]\n       {pad} [-C \"directive\"] [-c \"directive\"]\n       {pad} \
         [-k start|restart|graceful|graceful-stop|stop]\n       {pad} [-v] [-V] [-h] [-l] [-L] [-t] [-T] [-S] [-X]\nOptions:\n\
         \x20 -D name            : define a name for use in <IfDefine name> directives\n\
         \x20 -d directory       : specify an alternate initial ServerRoot\n\
         \x20 -f file            : specify an alternate ServerConfigFile\n\
         \x20 -C \"directive\"     : process directive before reading config files\n\
         \x20 -c \"directive\"     : process directive after reading config files\n\
         \x20 -v                 : show version number\n\
         \x20 -V                 : show compile settings\n\
         \x20 -h                 : list available command line options (this page)\n\
         \x20 -l                 : list compiled in modules\n\
         \x20 -L                 : list available configuration directives\n\
         \x20 -S                 : show parsed vhost and run settings\n\
         \x20 -M                 : show all loaded modules\n\
         \x20 -t -D DUMP_INCLUDES: show all included configuration files\n\
         \x20 -t                 : run syntax check for config files\n\
         \x20 -X                 : debug mode (only one worker, do not detach)\n"
    )
}
