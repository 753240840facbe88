//! From the tree of a configuration to a model.
//!
//! Called by: the command line, for a start, a reload, `check`, and `explain`.
//! Caveat: blocks are read in the order of the file, and merged when all has been read, because
//! what stands behind a server in `http` holds for it, too.

use crate::{
    assemble::assemble,
    error_logs::ErrorLogs,
    finish::Finisher,
    modules::upstream::UpstreamPool,
    process::Process,
    read_http::HttpReader,
    server::Nginx,
    setup::Setup,
    stream::{self, StreamReader},
    support,
};
use saker_config::Model;
use saker_nginx_syntax::{Files, Report, read};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A configuration that may be put in force, if there are no errors.
#[derive(Debug)]
pub struct Loaded {
    pub model: Model,
    pub nginx: Nginx,
    pub process: Process,
    pub report: Report,
    /// Files with their texts, for `-T`.
    pub texts: Vec<(PathBuf, String)>,
}

/// Reads a configuration and everything that it includes.
pub fn load(setup: &Setup, files: &dyn Files) -> Loaded {
    let tree = read(files, &setup.file, &setup.global);
    let mut report = tree.report;
    support::report(&tree.directives, &mut report);
    let conf_prefix = setup.file.parent().unwrap_or(Path::new("/"));
    let mut process = Process::read(&tree.directives, &setup.prefix, &mut report);
    for user in tree.directives.iter().filter(|one| one.name() == "user") {
        if !setup.is_root {
            let text = "the \"user\" directive makes sense only if the master process runs with super-user privileges, ignored";
            report.warn(user, text, None);
        }
    }
    let mut reader = HttpReader::new(&mut report, &setup.prefix, conf_prefix);
    let blocks = |name: &'static str| {
        let all = tree.directives.iter();
        all.filter(move |directive| directive.name() == name)
    };
    blocks("http").for_each(|block| reader.http_block(block));
    let read = reader.finish();
    let mut reader = StreamReader::new(&mut report, &setup.prefix, conf_prefix);
    blocks("stream").for_each(|block| reader.stream_block(block));
    let read_stream = reader.finish();
    let mut finisher = Finisher {
        report: &mut report,
        groups: &read.groups,
        cache_zones: read.http.cache_zones.clone(),
        pool: UpstreamPool::default(),
        conf_prefix,
        error_logs: ErrorLogs::default(),
    };
    let (mut model, mut nginx) = assemble(read.http, &mut finisher, &process, setup);
    let mut error_logs = std::mem::take(&mut finisher.error_logs);
    model.upstreams = finisher.pool.into_all();
    nginx.streams = Arc::new(stream::finish(
        read_stream,
        &mut model,
        (conf_prefix, &mut error_logs),
        &mut report,
    ));
    model.sources = tree.sources;
    process.body_folders = nginx.body_folders();
    nginx.groups = read.groups;
    Loaded {
        model,
        nginx,
        process,
        report,
        texts: tree.texts,
    }
}
