//! Files that a model names: logs, and what is read later.
//!
//! Called by: the broker's grants, and the sandbox.
//! Caveat: logs of hosts are left out; their paths are made of names that clients send.

use saker_config::{
    Model,
    model::{AccessLogTarget, PassphraseDialog},
};
use saker_telemetry::{access_log::LogTarget, error_log::ErrorLogTarget};
use std::path::{Path, PathBuf};

/// The server's, then those of sites.
pub fn error_log_targets(model: &Model) -> impl Iterator<Item = &ErrorLogTarget> {
    let of_sites = model.error_logs().flat_map(|log| log.targets());
    let outputs = model.server.error_log.outputs.iter();
    let further = outputs.filter_map(|output| output.target.as_ref());
    std::iter::once(&model.server.error_log.target)
        .chain(further)
        .chain(of_sites)
}

/// Logs of hosts are made later, by names that clients say, in a folder of the server's user.
pub fn log_files(model: &Model) -> impl Iterator<Item = &Path> {
    let access_logs = model.access_logs().filter_map(|log| match &log.target {
        AccessLogTarget::File(path) => Some(path.as_path()),
        AccessLogTarget::Stdout
        | AccessLogTarget::ByHost(_)
        | AccessLogTarget::Below(_)
        | AccessLogTarget::Program(_)
        | AccessLogTarget::Syslog(_) => None,
    });
    let error_logs = error_log_targets(model).filter_map(|target| match target {
        ErrorLogTarget::File(path) => Some(path.as_path()),
        _ => None,
    });
    let forensic_logs =
        model
            .sites
            .iter()
            .filter_map(|site| match &site.forensic_log.as_ref()?.target {
                LogTarget::File(path) => Some(path.as_path()),
                _ => None,
            });
    let named = model.named_logs.iter().map(|log| log.path.as_path());
    access_logs
        .chain(error_logs)
        .chain(forensic_logs)
        .chain(named)
}

/// Logs whose renamed files the server itself compresses.
pub fn compressed_logs(model: &Model) -> impl Iterator<Item = &Path> {
    model
        .access_logs()
        .filter_map(|log| match (&log.target, log.rotation) {
            (AccessLogTarget::File(path), Some(rotation)) if rotation.compresses => {
                Some(path.as_path())
            }
            _ => None,
        })
}

/// Files of the model that the server reads later; and directories, with their current content.
pub fn read_later(model: &Model) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut paths: Vec<&PathBuf> = Vec::new();
    for tls in model.sites.iter().map(|site| &site.tls) {
        for files in &tls.certificates {
            paths.extend([&files.certificate, &files.key]);
            paths.extend(files.ocsp.iter().chain(&files.chain));
            if let Some(PassphraseDialog::File(path)) =
                files.passphrase.as_deref().map(|asked| &asked.dialog)
            {
                paths.push(path);
            }
        }
        paths.extend(tls.client_ca.iter().chain(&tls.client_crl));
        let checks = &tls.client_checks;
        paths.extend(
            [
                &checks.ca_folder,
                &checks.quiet_ca,
                &checks.crl_folder,
                &checks.hint_file,
                &checks.hint_folder,
            ]
            .into_iter()
            .flatten(),
        );
    }
    paths.extend(of_upstreams(model));
    // Beside those of its site: this server shows its certificate to the others, too.
    if model.cluster.peers.listen.is_some() {
        let peers = &model.cluster.peers;
        paths.extend([&peers.certificate, &peers.key, &peers.ca_file]);
    }
    paths.extend(&model.tls.ticket_keys);
    paths.extend(
        model
            .tls
            .acme
            .directory_ca
            .iter()
            .chain(&model.hosts.database_file),
    );
    let (directories, mut files): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.into_iter().cloned().partition(|path| path.is_dir());
    for directory in &directories {
        files.extend(
            std::fs::read_dir(directory)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path()),
        );
    }
    (files, directories)
}

/// Files for the servers of upstreams, and for the APIs that name some.
fn of_upstreams(model: &Model) -> Vec<&PathBuf> {
    let mut paths = Vec::new();
    let discoveries = model
        .upstreams
        .iter()
        .filter_map(|upstream| upstream.discovery.as_ref());
    let tokens = discoveries.clone();
    paths.extend(tokens.filter_map(|one| one.terms.token_file.as_ref()));
    let members = model
        .upstreams
        .iter()
        .flat_map(|upstream| upstream.templates())
        .chain(discoveries.filter_map(|one| one.api.as_deref()));
    for tls in members.filter_map(|member| member.backend.tls.as_ref()) {
        paths.extend(tls.authorities.iter().chain(&tls.revocation_lists));
        paths.extend(&tls.passphrases);
        paths.extend(
            tls.identity
                .iter()
                .flat_map(|(certificate, key)| [certificate, key]),
        );
    }
    paths
}
