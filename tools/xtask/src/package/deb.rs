//! The Debian packages: saker, its debug symbols, and the drop-in names.
//!
//! Called by: `package`.
//! Caveat: dpkg-deb takes times from SOURCE_DATE_EPOCH, and everything belongs to root.

use super::{
    binary,
    contents::{self, Entry},
    options::{Options, maintainer, run, wrong},
    tree,
};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

const DESCRIPTION: &str = "web server that runs configurations of Apache and nginx
 Saker serves files, PHP and applications over HTTP/1.1, HTTP/2 and HTTP/3, with
 a page cache, automatic certificates, rate limits and protection from bots.
 It runs saker.toml, or the existing configuration of Apache (with .htaccess
 files) or nginx. After the installation it answers with a welcome page.";

const COMPAT_DESCRIPTION: &str = "Saker under the names apache2, httpd and nginx
 Scripts, services and control panels that call apache2, httpd or nginx by name
 get Saker, which takes the arguments of those programs. The programs of other
 packages are diverted, and come back when this package is removed.";

const SYMBOLS_DESCRIPTION: &str = "debug symbols for saker
 With these, backtraces of debuggers and profilers name functions and lines.";

/// One package.
struct Package<'p> {
    name: &'static str,
    entries: &'static [Entry],
    /// Control script and its source.
    scripts: &'static [(&'static str, &'static str)],
    section: &'static str,
    priority: &'static str,
    /// Fields of the control file besides those that every package has.
    fields: String,
    description: &'p str,
}

/// Writes all packages to the folder of the artifacts.
pub fn write(options: &Options) -> io::Result<()> {
    let architecture = binary::architecture(&options.binary)?;
    let depends = binary::dependencies(&options.binary)?;
    let recommends = "Recommends: logrotate\nSuggests: php-fpm, fail2ban, libmodsecurity3\n";
    let packages = [
        Package {
            name: "saker",
            entries: contents::SAKER,
            scripts: &[
                ("postinst", "contrib/debian/postinst"),
                ("prerm", "contrib/debian/prerm"),
                ("postrm", "contrib/debian/postrm"),
            ],
            section: "httpd",
            priority: "optional",
            fields: format!(
                "Depends: adduser, {depends}\n{recommends}Provides: httpd, httpd-cgi\n"
            ),
            description: DESCRIPTION,
        },
        Package {
            name: "saker-compat",
            entries: contents::COMPAT,
            scripts: &[
                ("preinst", "contrib/debian/compat.preinst"),
                ("postrm", "contrib/debian/compat.postrm"),
            ],
            section: "httpd",
            priority: "optional",
            fields: format!("Depends: saker (= {}-1)\n", options.version),
            description: COMPAT_DESCRIPTION,
        },
        Package {
            name: "saker-dbgsym",
            entries: contents::SYMBOLS,
            scripts: &[],
            section: "debug",
            priority: "optional",
            fields: format!("Depends: saker (= {}-1)\n", options.version),
            description: SYMBOLS_DESCRIPTION,
        },
    ];
    for package in &packages {
        let folder = options.out.join(format!("{}.tree", package.name));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let made = build(options, package, &folder, architecture);
        fs::remove_dir_all(&folder)?;
        if let Some(path) = made? {
            println!("{}", path.display());
        }
    }
    Ok(())
}

fn build(
    options: &Options,
    package: &Package<'_>,
    folder: &Path,
    architecture: &str,
) -> io::Result<Option<PathBuf>> {
    let symbols = folder.join("usr/lib/debug");
    if package.section == "debug" && binary::debug_symbols(&options.binary, &symbols)?.is_none() {
        return Ok(None);
    }
    tree::lay_out(options, package.entries, folder)?;
    let files = tree::files(folder)?;
    let control = folder.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let bytes = files
        .iter()
        .map(|path| fs::metadata(folder.join(path)).map_or(0, |found| found.len()));
    let kilobytes = bytes.map(|bytes| bytes.div_ceil(1024)).sum::<u64>();
    fs::write(
        control.join("control"),
        format!(
            "Package: {}\nSource: saker\nVersion: {}-1\nArchitecture: {architecture}\nMaintainer: {}\nInstalled-Size: {kilobytes}\n\
             {}Section: {}\nPriority: {}\nDescription: {}\n",
            package.name,
            options.version,
            maintainer(),
            package.fields,
            package.section,
            package.priority,
            package.description
        ),
    )?;
    write_sums(folder, &files, &control)?;
    for (name, source) in package.scripts {
        let to = control.join(name);
        fs::copy(options.root.join(source), &to)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
    }
    tree::settle(folder, options.time)?;
    let path = options.out.join(format!(
        "{}_{}-1_{architecture}.deb",
        package.name, options.version
    ));
    let compression: &[&str] = match options.is_quick {
        true => &["-Zgzip", "-z1"],
        false => &["-Zxz", "-z6"],
    };
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .args(compression)
        .env("SOURCE_DATE_EPOCH", options.time.to_string())
        .arg(folder)
        .arg(&path))?;
    Ok(Some(path))
}

fn write_sums(folder: &Path, files: &[String], control: &Path) -> io::Result<()> {
    let sums = run(Command::new("md5sum").args(files).current_dir(folder))?;
    fs::write(control.join("md5sums"), sums)?;
    let configuration: Vec<String> = files
        .iter()
        .filter(|path| path.starts_with("etc/"))
        .map(|path| format!("/{path}\n"))
        .collect();
    match configuration.is_empty() {
        true => Ok(()),
        false => fs::write(control.join("conffiles"), configuration.concat()),
    }
    .map_err(|error| wrong(error.to_string()))
}
