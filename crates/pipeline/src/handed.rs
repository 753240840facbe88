//! What a program said of a response that it left to this server to bring: by a path
//! (X-Accel-Redirect, X-LiteSpeed-Location) or as a file (X-Sendfile).
//!
//! Left in [`Exchange::handed`](crate::Exchange::handed) by the gateway, used by the files handler
//! (media type) and on the way up, before the filters. Difficulty: the response is a file's, with a
//! head that others share; here its fields are this request's alone. Absent on purpose: which
//! fields of the program's those are, and whether it is believed (the gateway's business).

use crate::{Exchange, Response};
use saker_config::model::{Rate, Settings};
use saker_http::{Fields, Status};
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Handed {
    /// In place of the response's own of the same names.
    pub fields: Fields,
    /// In place of what a file's name says; empty: none. `None`: as the name says.
    pub content_type: Option<String>,
    /// How fast the client may have it (X-Accel-Limit-Rate).
    pub rate: Option<Rate>,
}

impl Handed {
    /// The settings that a file is represented by: what is laid over responses is laid over this
    /// one on its way up.
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

    /// Lays what the program said over the response, in whose content an error is nobody's file.
    pub fn lay(self, exchange: &mut Exchange, response: &mut Response) {
        if self.rate.is_some() {
            let mut settings = Settings::clone(&exchange.settings);
            settings.throttle.out_connection = self.rate;
            exchange.settings = Arc::new(settings);
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
