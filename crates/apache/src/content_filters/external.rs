//! mod_ext_filter: filter programs with CGI's variables in their environment.
//!
//! Called by: `content_filters::find`, for names of `ExtFilterDefine`.
//! Out of scope: running the programs (`saker_content_filters::ext_filter`).

use crate::{
    content_filters::filter::{ContentFilter, Passage},
    meta_variables::{self, shell_escaped, variable_name},
    state::snapshot,
};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_content_filters::{Stage, ext_filter::ExternalFilter};
use saker_files::Watcher;
use saker_http::{Method, Status};
use saker_pipeline::{Exchange, LocalFuture, RequestBody};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, process::Command};

impl ContentFilter for ExternalFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn stage(&self) -> Stage {
        ExternalFilter::stage(self)
    }

    fn output<'f>(&'f self, passage: &'f mut Passage<'_>) -> LocalFuture<'f, Result<(), Status>> {
        Box::pin(filter_response(self, passage))
    }

    fn input(
        &self,
        exchange: &mut Exchange,
        host: &Host,
        watcher: &Watcher,
        local: &DirConfig,
        body: Box<dyn RequestBody>,
    ) -> Box<dyn RequestBody> {
        let media_type = exchange.head.view().first("content-type");
        if !self.is_input || !applies(self, exchange, media_type) {
            return body;
        }
        let command = command(self, exchange, host, watcher);
        self.filter_request(body, command, local.ext_filter.options())
    }
}

async fn filter_response(filter: &ExternalFilter, passage: &mut Passage<'_>) -> Result<(), Status> {
    let media_type = passage.response.fields().first("Content-Type");
    if filter.is_input || !applies(filter, passage.exchange, media_type) {
        return Ok(());
    }
    let is_head = passage.exchange.head.view().method() == Method::Head;
    let command =
        (!is_head).then(|| command(filter, passage.exchange, passage.host, passage.watcher));
    let options = passage.local.ext_filter.options();
    filter
        .filter_response(passage.response, command, options)
        .await
}

fn applies(filter: &ExternalFilter, exchange: &Exchange, media_type: Option<&[u8]>) -> bool {
    filter.applies_to(media_type, |name| {
        exchange.environment.first(name.as_bytes()).is_some()
    })
}

fn command(
    filter: &ExternalFilter,
    exchange: &Exchange,
    host: &Host,
    watcher: &Watcher,
) -> Command {
    let mut command = filter.command();
    let state = snapshot(exchange);
    for (name, value) in meta_variables::of(exchange, &state, host, watcher)
        .iter()
        .filter(|(_, value)| !value.contains(&0))
    {
        command.env(
            OsStr::from_bytes(&variable_name(name)),
            OsStr::from_bytes(value),
        );
    }
    command.env("DOCUMENT_URI", OsStr::from_bytes(&exchange.path));
    command.env(
        "DOCUMENT_PATH_INFO",
        OsStr::from_bytes(&exchange.routing.path_info),
    );
    if let Some(query) = &exchange.query {
        let mut query = saker_ap_expr::unescape(query, false).0;
        query.retain(|byte| *byte != 0);
        command.env(
            "QUERY_STRING_UNESCAPED",
            OsStr::from_bytes(&shell_escaped(&query)),
        );
    }
    command
}
