//! The RPM package, for Fedora, RHEL, openSUSE, and their kin.
//!
//! Called by: `package`.
//! Caveat: needs rpmbuild, which packs a tree that is laid out before; nothing is found out about
//! the files by itself. The table of contents is Debian's, without what is Debian's alone.
//! Out of scope: debug symbols, which the Debian package and the build have.

use super::{
    binary,
    contents::{self, Entry},
    options::{Options, maintainer, run},
    tree,
};
use std::{fs, io, path::Path, process::Command};

const DESCRIPTION: &str =
    "Saker serves files, PHP and applications over HTTP/1.1, HTTP/2 and HTTP/3, with
a page cache, automatic certificates, rate limits and protection from bots. It
runs saker.toml, or the existing configuration of Apache or nginx.";

/// Settings of rpmbuild: packs what is there, with the times of the commit.
const MACROS: &str = "%global debug_package %{nil}\n%global __os_install_post %{nil}\n%global _build_id_links none\n\
%global use_source_date_epoch_as_buildtime 1\n%global clamp_mtime_to_source_date_epoch 1\n\
%global _buildhost localhost\n";

/// Script and its source.
const SCRIPTS: [(&str, &str); 4] = [
    ("pre", "contrib/rpm/pre"),
    ("post", "contrib/rpm/post"),
    ("preun", "contrib/rpm/preun"),
    ("postun", "contrib/rpm/postun"),
];

/// Writes the package to the folder of the artifacts.
pub fn write(options: &Options) -> io::Result<()> {
    let work = options.out.join("rpm.tree");
    let _ = fs::remove_dir_all(&work);
    let made = build(options, &work);
    fs::remove_dir_all(&work)?;
    made
}

fn build(options: &Options, work: &Path) -> io::Result<()> {
    let (files, top) = (work.join("files"), work.join("top"));
    fs::create_dir_all(&files)?;
    fs::create_dir_all(&top)?;
    let entries: Vec<Entry> = contents::SAKER.iter().filter_map(rpms).collect();
    tree::lay_out(options, &entries, &files)?;
    tree::settle(&files, options.time)?;
    let machine = binary::machine_of(binary::architecture(&options.binary)?);
    let spec = work.join("saker.spec");
    fs::write(&spec, text(options, &files, &entries)?)?;
    run(Command::new("rpmbuild")
        .args(["-bb", "--target", machine])
        .arg("--define")
        .arg(format!("_topdir {}", top.display()))
        .env("SOURCE_DATE_EPOCH", options.time.to_string())
        .arg(&spec))?;
    let name = format!("saker-{}-1.{machine}.rpm", options.version);
    let path = options.out.join(&name);
    fs::rename(top.join("RPMS").join(machine).join(&name), &path)?;
    println!("{}", path.display());
    Ok(())
}

/// The entry in this kind of package; `None`: Debian's alone.
fn rpms(entry: &Entry) -> Option<Entry> {
    let is_debians = [
        "etc/apparmor.d/",
        "etc/ufw/",
        "usr/share/doc/saker/changelog.Debian",
    ]
    .iter()
    .any(|start| entry.path.starts_with(start));
    // `/lib` is a link there.
    let path = match entry.path {
        "lib/systemd/system/saker.service" => "usr/lib/systemd/system/saker.service",
        "lib/systemd/system/saker.socket" => "usr/lib/systemd/system/saker.socket",
        "lib/systemd/system/saker-apache.service" => "usr/lib/systemd/system/saker-apache.service",
        "lib/systemd/system/saker-nginx.service" => "usr/lib/systemd/system/saker-nginx.service",
        "usr/share/zsh/vendor-completions/_saker" => "usr/share/zsh/site-functions/_saker",
        path => path,
    };
    (!is_debians).then_some(Entry {
        path,
        from: entry.from,
        mode: entry.mode,
    })
}

fn text(options: &Options, files: &Path, entries: &[Entry]) -> io::Result<String> {
    let glibc = binary::newest_glibc(&options.binary)?;
    let payload = match options.is_quick {
        true => "w1.gzdio",
        false => "w19.zstdio",
    };
    let mut text = format!(
        "{MACROS}%global _binary_payload {payload}\n\
         Name: saker\nVersion: {}\nRelease: 1\nSummary: Web server that runs configurations of Apache and nginx\n\
         License: Apache-2.0 OR MIT\nPackager: {}\nAutoReqProv: no\n\
         Requires: glibc >= {}.{}\nRequires: libgcc\nRequires(pre): shadow-utils\nProvides: webserver\n\
         %description\n{DESCRIPTION}\n%install\ncp -a {}/. %{{buildroot}}\n",
        options.version,
        maintainer(),
        glibc.0,
        glibc.1,
        files.display()
    );
    for (name, source) in SCRIPTS {
        let script = fs::read_to_string(options.root.join(source))?;
        text += &format!("%{name}\n{script}");
    }
    text += "%files\n%defattr(-,root,root,-)\n";
    for path in tree::files(files)? {
        let kind = match path.starts_with("etc/") {
            true => "%config(noreplace) ",
            false => "",
        };
        text += &format!("{kind}/{path}\n");
    }
    let folders = entries
        .iter()
        .filter(|entry| matches!(entry.from, contents::From::Folder));
    for folder in folders {
        text += &format!("%dir /{}\n", folder.path);
    }
    Ok(text + "%dir /etc/saker\n%dir /etc/saker/sites-available\n")
}
