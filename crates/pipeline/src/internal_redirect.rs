//! Responses that a program delegates to this server: by path (X-Accel-Redirect,
//! X-LiteSpeed-Location) or as a file (X-Sendfile).
//!
//! Called by: the gateway, which sets
//! [`UpstreamState::internal_redirect`](crate::UpstreamState::internal_redirect); the file handler
//! (media type), and `respond`, before the filters.
//! Caveat: the head of a file's response is shared with other requests; fields merged here belong
//! to this request alone.
//! Out of scope: parsing and trusting the fields of the program (the gateway).

use crate::Response;
use saker_config::model::{Rate, Settings};
use saker_http::{Fields, Status};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct InternalRedirect {
    /// Fields that replace those of the response.
    pub fields: Fields,
    /// Content type that replaces that of the file; empty: no content type. `None`: by file name.
    pub content_type: Option<String>,
    /// Bandwidth limit of the response (X-Accel-Limit-Rate).
    pub rate: Option<Rate>,
}

impl InternalRedirect {
    /// Returns the settings for serving the file, without field edits: [`InternalRedirect::lay`]
    /// changes the fields later.
    pub fn settings(&self, settings: &Settings) -> Arc<Settings> {
        let mut own = Settings {
            fields: Vec::new(),
            ..settings.clone()
        };
        if let Some(content_type) = &self.content_type {
            own.files.whole_type = Some(content_type.clone());
        }
        Arc::new(own)
    }

    /// Merges the fields of the program into the response, and its bandwidth limit into the settings
    /// of the request. Validators are not merged into an error.
    pub fn lay(self, settings: &mut Arc<Settings>, response: &mut Response) {
        if self.rate.is_some() {
            let mut own = Settings::clone(settings);
            // The configuration's own is replaced, but for what is free.
            let after_bytes = own.throttle.out_by_seconds.map(|rate| rate.after_bytes);
            own.throttle.out_connection = None;
            own.throttle.out_by_seconds = self.rate.map(|rate| Rate {
                after_bytes: after_bytes.unwrap_or(rate.after_bytes),
                ..rate
            });
            *settings = Arc::new(own);
        }
        let status = response.status;
        let counts = |name: &str| match status {
            Status::NOT_MODIFIED => !name
                .get(..8)
                .is_some_and(|start| start.eq_ignore_ascii_case("Content-")),
            _ => {
                !status.is_error()
                    || !["ETag", "Last-Modified", "Accept-Ranges"]
                        .iter()
                        .any(|known| known.eq_ignore_ascii_case(name))
            }
        };
        let fields = response.fields_mut();
        for (name, _) in self.fields.iter().filter(|(name, _)| counts(name)) {
            fields.remove(name);
        }
        self.fields
            .iter()
            .filter(|(name, _)| counts(name))
            .for_each(|(name, value)| fields.append(name.to_owned(), value.to_vec()));
    }
}
