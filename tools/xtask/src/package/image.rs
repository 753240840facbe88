//! The container image, as an OCI image layout in a tar archive (image-spec 1.0): `docker load`,
//! `podman load` and `skopeo copy oci-archive:` read it.
//!
//! Called by: `package`.
//! Caveat: there is no distribution in it: the binary, the four libraries that it loads, the
//! certificates of public authorities, and a configuration that serves `/srv/www` on ports 8080 and
//! 8443 as user 65532. The root may be read-only; `/var/lib/saker` and `/tmp` are what it writes to.
//! Out of scope: PHP, which has containers of its own and is reached by FastCGI.

use super::{
    binary,
    options::{Options, run, wrong},
    release::archive,
    tree,
};
use serde_json::{Value, json};
use sha2::Digest as _;
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

const USER: &str = "65532";
/// The sum of all layers, as they are pulled.
const IMAGE_BYTES_MAX: u64 = 40_000_000;
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

const CONFIGURATION: &str = r#"# The image's own configuration: mount another over /etc/saker, or a site over /srv/www.
include = ["conf.d/*.toml", "sites-enabled/*.toml"]

[[listener]]
address = ":8080"

[[listener]]
address = ":8443"
tls = true

[[site]]
names = ["*", "localhost"]
root = "/srv/www"
access_log = "stdout"

[site.tls]
automatic = "local"
"#;

/// Writes `saker-VERSION-oci-ARCHITECTURE.tar`.
pub fn write(options: &Options) -> io::Result<()> {
    let architecture = binary::architecture(&options.binary)?;
    let work = options.out.join("image.tree");
    let _ = fs::remove_dir_all(&work);
    let (files, layout) = (work.join("files"), work.join("layout"));
    lay_out(options, &files)?;
    tree::settle(&files, options.time)?;
    fs::create_dir_all(layout.join("blobs/sha256"))?;
    let layers = [
        layer(
            options,
            &files,
            &["dev", "etc", "lib", "lib64", "proc", "srv", "sys", "usr"],
            "0:0",
        )?,
        layer(options, &files, &["tmp", "var"], &format!("{USER}:{USER}"))?,
    ];
    let contents = layers
        .each_ref()
        .map(|layer| format!("sha256:{}", sha256(layer)));
    let layers: Vec<Value> = layers
        .iter()
        .map(|layer| {
            let media = "application/vnd.oci.image.layer.v1.tar+gzip";
            blob(&layout, media, &tree::gzip_at(layer, options.level())?)
        })
        .collect::<io::Result<_>>()?;
    small_enough(
        options,
        layers
            .iter()
            .filter_map(|layer| layer["size"].as_u64())
            .sum(),
    )?;
    let config = blob(
        &layout,
        "application/vnd.oci.image.config.v1+json",
        configuration(options, architecture, &contents)
            .to_string()
            .as_bytes(),
    )?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": layers,
    });
    let media = "application/vnd.oci.image.manifest.v1+json";
    let mut manifest = blob(&layout, media, manifest.to_string().as_bytes())?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": options.version });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(layout.join("index.json"), index.to_string())?;
    fs::write(
        layout.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    tree::settle(&layout, options.time)?;
    let path = options
        .out
        .join(format!("saker-{}-oci-{architecture}.tar", options.version));
    let parts = ["blobs", "index.json", "oci-layout"];
    fs::write(&path, archive(&layout, &parts, options.time, "0:0")?)?;
    fs::remove_dir_all(work)?;
    println!("{}", path.display());
    Ok(())
}

/// An image has to stay small. Tests pack their own builds, which are not.
fn small_enough(options: &Options, bytes: u64) -> io::Result<()> {
    match options.is_quick || bytes < IMAGE_BYTES_MAX {
        true => Ok(()),
        false => Err(wrong(format!(
            "the image has {bytes} bytes, and has to stay below {IMAGE_BYTES_MAX}"
        ))),
    }
}

fn lay_out(options: &Options, files: &Path) -> io::Result<()> {
    for folder in [
        "etc/saker/conf.d",
        "etc/saker/sites-enabled",
        "etc/ssl/certs",
        "lib",
        "dev",
        "proc",
        "srv/www",
        "sys",
        "tmp",
        "usr/bin",
        "var/lib/saker",
    ] {
        fs::create_dir_all(files.join(folder))?;
    }
    binary::strip(&options.binary, &files.join("usr/bin/saker"))?;
    for (name, path) in libraries(&options.binary)? {
        // The loader is looked for where the binary says, the others where the loader looks.
        let to = match name.starts_with('/') {
            true => files.join(name.trim_start_matches('/')),
            false => files.join("lib").join(name),
        };
        fs::create_dir_all(to.parent().unwrap_or(files))?;
        fs::copy(path, &to)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
    }
    fs::create_dir_all(files.join("lib64"))?;
    let text = [
        (
            "etc/passwd",
            format!(
                "root:x:0:0:root:/:/sbin/nologin\nsaker:x:{USER}:{USER}:saker:/var/lib/saker:/sbin/nologin\n"
            ),
        ),
        ("etc/group", format!("root:x:0:\nsaker:x:{USER}:\n")),
        (
            "etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\n".into(),
        ),
        ("etc/saker/saker.toml", CONFIGURATION.into()),
    ];
    for (path, content) in text {
        fs::write(files.join(path), content)?;
    }
    let welcome = options.root.join("contrib/debian/welcome.html");
    fs::copy(welcome, files.join("srv/www/index.html"))?;
    match fs::copy(AUTHORITIES, files.join(AUTHORITIES.trim_start_matches('/'))) {
        Ok(_) => Ok(()),
        Err(error) => Err(wrong(format!(
            "{AUTHORITIES}: {error} (apt-get install ca-certificates)"
        ))),
    }
}

/// The libraries of the binary on this machine: names, and the files. The loader by its path. Those for another machine
/// come from Debian's cross compilers, since ldd(1) has the loader run.
fn libraries(binary: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let machine = binary::machine_of(binary::architecture(binary)?);
    if machine != std::env::consts::ARCH {
        let folder = Path::new("/usr").join(format!("{machine}-linux-gnu/lib"));
        let mut names = binary::needed(binary)?;
        names.extend(binary::loader(binary)?);
        return Ok(names
            .into_iter()
            .map(|name| {
                let file = name.rsplit('/').next().unwrap_or_default();
                let path = folder.join(file);
                (name, path)
            })
            .collect());
    }
    let said = run(Command::new("ldd").arg(binary))?;
    let text = String::from_utf8_lossy(&said).into_owned();
    Ok(text.lines().filter_map(library).collect())
}

/// A line of ldd(1): `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`, or the loader alone.
fn library(line: &str) -> Option<(String, PathBuf)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [name, "=>", path, ..] => Some(((*name).to_owned(), PathBuf::from(path))),
        [loader, _] if loader.starts_with('/') => {
            Some(((*loader).to_owned(), PathBuf::from(loader)))
        }
        _ => None,
    }
}

fn layer(options: &Options, files: &Path, entries: &[&str], owner: &str) -> io::Result<Vec<u8>> {
    archive(files, entries, options.time, owner)
}

/// Adds a blob to the layout; its descriptor.
fn blob(layout: &Path, media_type: &str, bytes: &[u8]) -> io::Result<Value> {
    let digest = sha256(bytes);
    fs::write(layout.join("blobs/sha256").join(&digest), bytes)?;
    Ok(
        json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() }),
    )
}

fn sha256(bytes: &[u8]) -> String {
    let digest = sha2::Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn configuration(options: &Options, architecture: &str, contents: &[String]) -> Value {
    let status = [
        "CMD",
        "/usr/bin/saker",
        "status",
        "--healthy",
        "--state-dir",
        "/var/lib/saker",
    ];
    json!({
        "architecture": architecture, "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { "8080/tcp": {}, "8443/tcp": {}, "8443/udp": {} },
            "Env": ["PATH=/usr/bin", "HOME=/var/lib/saker"],
            "Entrypoint": ["/usr/bin/saker"],
            "Cmd": ["run", "-c", "/etc/saker/saker.toml"],
            "Volumes": { "/var/lib/saker": {} },
            "WorkingDir": "/srv/www",
            "StopSignal": "SIGTERM",
            // Docker's; Podman and orchestrators have probes of their own.
            "Healthcheck": { "Test": status, "Interval": 30_000_000_000_u64, "Timeout": 5_000_000_000_u64, "Retries": 3 },
            "Labels": { "org.opencontainers.image.title": "saker", "org.opencontainers.image.version": options.version },
        },
        "rootfs": { "type": "layers", "diff_ids": contents },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_image_is_none() {
        let mut options = Options {
            root: PathBuf::new(),
            binary: PathBuf::new(),
            out: PathBuf::new(),
            version: "0".into(),
            time: 0,
            is_quick: false,
        };
        assert!(small_enough(&options, IMAGE_BYTES_MAX - 1).is_ok());
        let error = small_enough(&options, IMAGE_BYTES_MAX).unwrap_err();
        assert!(error.to_string().contains("40000000 bytes"), "{error}");
        options.is_quick = true;
        assert!(small_enough(&options, IMAGE_BYTES_MAX).is_ok());
    }

    #[test]
    fn libraries_of_ldd() {
        let found = |line| library(line).map(|(name, path)| (name, path.display().to_string()));
        assert_eq!(found("\tlinux-vdso.so.1 (0x00007ffd)"), None);
        assert_eq!(
            found("\tlibm.so.6 => /lib/libm.so.6 (0x00007f)"),
            Some(("libm.so.6".into(), "/lib/libm.so.6".into()))
        );
        assert_eq!(
            found("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"),
            Some((
                "/lib64/ld-linux-x86-64.so.2".into(),
                "/lib64/ld-linux-x86-64.so.2".into()
            ))
        );
    }
}
