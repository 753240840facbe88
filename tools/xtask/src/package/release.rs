//! The rest of a release: the tarball, the bill of materials (CycloneDX 1.5), and checksums.
//!
//! Called by: `package`.
//! Caveat: the bill lists what is compiled into the binary, as Cargo.lock has it: dependencies for
//! building and for tests are left out.

use super::{
    binary, contents,
    options::{Options, run, wrong},
    tree,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    process::Command,
};

/// Writes the files of the server's package, and the licenses, below one folder of a tarball.
pub fn tarball(options: &Options) -> io::Result<()> {
    let name = name(
        &options.version,
        binary::architecture(&options.binary)?,
        &binary::needed(&options.binary)?,
    );
    let folder = options.out.join("tarball.tree");
    let _ = fs::remove_dir_all(&folder);
    let below = folder.join(&name);
    tree::lay_out(options, contents::SAKER, &below)?;
    for license in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        fs::copy(options.root.join(license), below.join(license))?;
    }
    tree::settle(&folder, options.time)?;
    let path = options.out.join(format!("{name}.tar.gz"));
    let archive = archive(&folder, &[&name], options.time, "0:0")?;
    fs::remove_dir_all(&folder)?;
    fs::write(&path, tree::gzip(&archive)?)?;
    println!("{}", path.display());
    Ok(())
}

/// The tarball's name: a binary that needs no library runs on every Linux, and says so.
fn name(version: &str, machine: &str, libraries: &[String]) -> String {
    let kind = if libraries.is_empty() { "-static" } else { "" };
    format!("saker-{version}-linux-{machine}{kind}")
}

/// A tar archive of these entries of a folder: names in order, one time, one owner.
pub fn archive(folder: &Path, entries: &[&str], time: u64, owner: &str) -> io::Result<Vec<u8>> {
    let (user, group) = owner.split_once(':').unwrap_or((owner, owner));
    run(Command::new("tar")
        .args([
            "--create",
            "--sort=name",
            "--format=ustar",
            "--numeric-owner",
        ])
        .arg(format!("--mtime=@{time}"))
        .arg(format!("--owner={user}"))
        .arg(format!("--group={group}"))
        .arg("--directory")
        .arg(folder)
        .args(entries))
}

/// Writes the bill of materials.
pub fn sbom(options: &Options) -> io::Result<()> {
    let machine = binary::machine_of(binary::architecture(&options.binary)?);
    let metadata = run(Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .arg("--filter-platform")
        .arg(format!("{machine}-unknown-linux-gnu"))
        .current_dir(&options.root))?;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(io::Error::other)?;
    let bill =
        bill(&metadata, &options.version).ok_or_else(|| wrong("cargo metadata: unknown form"))?;
    let path = options
        .out
        .join(format!("saker-{}.cdx.json", options.version));
    fs::write(&path, format!("{bill:#}\n"))?;
    println!("{}", path.display());
    Ok(())
}

fn bill(metadata: &Value, version: &str) -> Option<Value> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let packages: BTreeMap<String, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((text(package, "id")?, package)))
        .collect();
    let root = packages
        .iter()
        .find(|(_, package)| package["name"] == "saker")?
        .0
        .clone();
    let linked = linked(metadata, root);
    let components = linked
        .iter()
        .filter_map(|id| packages.get(id))
        // Our own crates are the application itself.
        .filter(|package| !package["source"].is_null() || is_changed_here(package))
        .filter_map(|package| {
            let (name, version) = (text(package, "name")?, text(package, "version")?);
            let reference = format!("pkg:cargo/{name}@{version}");
            let license = text(package, "license").unwrap_or_else(|| "NOASSERTION".into());
            let mut component = json!({
                "type": "library", "bom-ref": reference, "purl": reference,
                "name": name, "version": version,
                "licenses": [{ "expression": license.replace('/', " OR ") }],
            });
            if is_changed_here(package) {
                let notes = format!("with changes: third-party/{name}/PATCHES.md");
                component["pedigree"] = json!({ "notes": notes });
            }
            Some(component)
        });
    Some(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": { "type": "application", "name": "saker", "version": version, "bom-ref": "saker" } },
        "components": components.collect::<Vec<_>>(),
    }))
}

/// Returns true for a library of others that is in this repository, because it was changed.
fn is_changed_here(package: &Value) -> bool {
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    package["source"].is_null() && manifest.contains("/third-party/")
}

/// Ids of the packages that are reached without dependencies for building and tests.
fn linked(metadata: &Value, root: String) -> BTreeSet<String> {
    let empty = Vec::new();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap_or(&empty);
    let (mut found, mut left) = (BTreeSet::new(), vec![root]);
    while let Some(id) = left.pop() {
        let node = nodes.iter().find(|node| node["id"] == id.as_str());
        let edges = node
            .and_then(|node| node["deps"].as_array())
            .unwrap_or(&empty);
        for edge in edges {
            let kinds = edge["dep_kinds"].as_array().unwrap_or(&empty);
            let next = edge["pkg"].as_str().unwrap_or_default();
            if kinds.iter().any(|kind| kind["kind"].is_null()) && !found.contains(next) {
                left.push(next.to_owned());
            }
        }
        found.insert(id);
    }
    found
}

/// Writes the checksums of all artifacts that are there.
pub fn checksums(options: &Options) -> io::Result<()> {
    let mut names: Vec<String> = tree::files(&options.out)?;
    names.retain(|name| name != "SHA256SUMS");
    let sums = run(Command::new("sha256sum")
        .args(&names)
        .current_dir(&options.out))?;
    fs::write(options.out.join("SHA256SUMS"), sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_binary_has_a_tarball_of_its_own() {
        assert_eq!(
            name("1.2.3", "amd64", &[]),
            "saker-1.2.3-linux-amd64-static"
        );
        let libraries = ["libc.so.6".to_owned()];
        assert_eq!(
            name("1.2.3", "arm64", &libraries),
            "saker-1.2.3-linux-arm64"
        );
    }

    #[test]
    fn the_bill_has_what_is_linked_and_nothing_else() {
        let package = |name: &str, source: Value| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source });
        let mut changed = package("quinn-proto", Value::Null);
        changed["manifest_path"] = "/saker/third-party/quinn-proto/Cargo.toml".into();
        let edge = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                package("saker", Value::Null), package("saker-net", Value::Null), changed,
                package("libc", "registry".into()), package("proptest", "registry".into()), package("cc", "registry".into()),
            ],
            "resolve": { "nodes": [
                { "id": "saker", "deps": [edge("saker-net", Value::Null), edge("proptest", "dev".into()), edge("cc", "build".into())] },
                { "id": "saker-net", "deps": [edge("libc", Value::Null), edge("quinn-proto", Value::Null)] },
                { "id": "libc", "deps": [] }, { "id": "quinn-proto", "deps": [] },
            ] },
        });
        let bill = bill(&metadata, "9.9.9").unwrap();
        assert_eq!(bill["metadata"]["component"]["version"], "9.9.9");
        let components = bill["components"].as_array().unwrap();
        assert_eq!(components.len(), 2, "{bill:#}");
        let notes = "with changes: third-party/quinn-proto/PATCHES.md";
        assert_eq!(components[1]["purl"], "pkg:cargo/quinn-proto@1.0.0");
        assert_eq!(components[1]["pedigree"]["notes"], notes);
        assert!(components[0]["pedigree"].is_null());
        assert_eq!(components[0]["purl"], "pkg:cargo/libc@1.0.0");
        assert_eq!(
            components[0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
    }
}
