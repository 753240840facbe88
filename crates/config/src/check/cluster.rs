//! Checks `[cluster]`, and reads the password and the secret from their files.
//!
//! Called by: `check::whole`.
//! Out of scope: the engine, which may be down while a configuration is loaded.

use crate::{
    configuration::Configuration,
    diagnostic::Severity,
    model::{Cluster, ClusterDatabase, ClusterSecret},
};
use std::path::Path;

/// PostgreSQL's names have 63 bytes.
const TABLE_PREFIX_BYTES_MAX: usize = 48;

/// Shorter secrets could be guessed.
const SECRET_BYTES_MIN: usize = 32;

pub(crate) fn whole(configuration: &mut Configuration) {
    let Some((mut cluster, section)) = configuration.cluster.take() else {
        return;
    };
    let mut all = engine(&mut cluster);
    all.extend(shares(&mut cluster));
    all.extend(peers(&cluster));
    for Complaint { key, message, help } in all {
        let at = cluster.places.of(key).unwrap_or(&section);
        configuration.report(Severity::Error, at, message, help.map(Into::into));
    }
    configuration.cluster = Some((cluster, section));
}

struct Complaint {
    /// The key that it is about; the section, if it is not given.
    key: &'static str,
    message: String,
    help: Option<&'static str>,
}

fn complaint(key: &'static str, message: impl Into<String>, help: &'static str) -> Complaint {
    Complaint {
        key,
        message: message.into(),
        help: (!help.is_empty()).then_some(help),
    }
}

fn engine(cluster: &mut Cluster) -> Vec<Complaint> {
    let mut all = Vec::new();
    // A broken URL has been reported.
    let Some(url) = &mut cluster.url else {
        return all;
    };
    match &cluster.password_file {
        Some(_) if url.password.is_some() => all.push(complaint(
            "password_file",
            "`url` has a password, and `password_file` is set",
            "keep one of them",
        )),
        Some(path) => match read("password_file", path) {
            Ok(text) => url.password = Some(text.lines().next().unwrap_or_default().to_owned()),
            Err(found) => all.push(found),
        },
        None => {}
    }
    let is_redis = matches!(url.database, ClusterDatabase::Redis(_));
    let has_password = url.password.is_some() || cluster.password_file.is_some();
    if is_redis && url.user.is_some() && !has_password {
        all.push(complaint(
            "url",
            "`url` has a user without a password",
            "write redis://user:password@host, or redis://:password@host without a user",
        ));
    }
    let is_postgres = matches!(url.database, ClusterDatabase::Postgres(_));
    if is_postgres && cluster.stream.len() > TABLE_PREFIX_BYTES_MAX {
        all.push(complaint(
            "stream",
            format!("`stream` is longer than {TABLE_PREFIX_BYTES_MAX} characters"),
            "it is the begin of names of tables, which PostgreSQL would cut",
        ));
    }
    let is_nats = url.database == ClusterDatabase::Nats;
    if is_nats && cluster.stream.contains('.') {
        all.push(complaint(
            "stream",
            "`stream` contains a dot",
            "it is the begin of names of streams, in which NATS allows none",
        ));
    }
    if cluster.ca_file.is_some() && !url.is_tls && !is_postgres {
        let help = match is_nats {
            true => "write tls:// in `url`",
            false => "write rediss:// in `url`",
        };
        all.push(complaint("ca_file", "`ca_file` without TLS", help));
    }
    all
}

fn shares(cluster: &mut Cluster) -> Vec<Complaint> {
    let mut all = Vec::new();
    let share = cluster.share;
    let needs_url = share.purges || share.bans || share.limits;
    let has_url = cluster.url.is_some() || cluster.places.of("url").is_some();
    if !has_url && (needs_url || cluster.folder.is_none()) {
        all.push(complaint(
            "share",
            "missing `url` in [cluster]",
            "example: url = \"redis://10.0.0.5:6379\"",
        ));
    }
    if cluster.folder.is_some() && !share.certificates {
        all.push(complaint(
            "folder",
            "`folder` without certificates in `share`",
            "example: share = [\"purges\", \"certificates\"]",
        ));
    }
    match &cluster.secret_file {
        None if share.needs_secret() => all.push(complaint(
            "share",
            "missing `secret_file` in [cluster]: all but purges are signed or encrypted",
            "make one by: head -c 32 /dev/urandom | base64 > /etc/saker/cluster-secret",
        )),
        None => {}
        Some(path) => match read("secret_file", path) {
            Ok(text) if text.trim().len() < SECRET_BYTES_MIN => all.push(complaint(
                "secret_file",
                format!(
                    "`secret_file` {}: the secret is shorter than {SECRET_BYTES_MIN} characters",
                    file_name(path)
                ),
                "make one by: head -c 32 /dev/urandom | base64",
            )),
            Ok(text) => cluster.secret = Some(ClusterSecret(text.trim().as_bytes().into())),
            Err(found) => all.push(found),
        },
    }
    all
}

fn peers(cluster: &Cluster) -> Vec<Complaint> {
    let (mut all, peers) = (Vec::new(), &cluster.peers);
    let Some(listen) = peers.listen else {
        return all;
    };
    if !cluster.share.purges {
        all.push(complaint(
            "listen",
            "[cluster.peers] without purges in `share`: a page would outlive its purge",
            "example: share = [\"purges\"]",
        ));
    }
    let (key, address) = match peers.announced {
        Some(announced) => ("announced", announced),
        None => ("listen", listen),
    };
    if address.ip().is_unspecified() || address.port() == 0 {
        all.push(complaint(
            key,
            format!("the other servers cannot connect to {address}"),
            "add `announced` with an address and a port of this server",
        ));
    }
    all
}

fn read(key: &'static str, path: &Path) -> Result<String, Complaint> {
    let help = match key {
        "secret_file" => "make one by: head -c 32 /dev/urandom | base64 > FILE",
        _ => "write the password into the first line of this file",
    };
    let fail = |why: String| {
        let message = format!("cannot use `{key}` {}: {why}", file_name(path));
        complaint(key, message, help)
    };
    let text =
        saker_net::privileged::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    match text.lines().next().unwrap_or_default().is_empty() {
        true => Err(fail("its first line is empty".into())),
        false => Ok(text),
    }
}

/// The diagnostic shows the whole path, as it is written.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().display().to_string()
}
