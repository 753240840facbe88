//! Checks `[cluster]`, and reads the password from its file.
//!
//! Called by: `check::whole`.

use crate::{configuration::Configuration, diagnostic::Severity, model::Cluster};

pub(crate) fn whole(configuration: &mut Configuration) {
    let Some((mut cluster, at)) = configuration.cluster.take() else {
        return;
    };
    for (severity, message, help) in complaints(&mut cluster) {
        configuration.report(severity, &at, message, help.map(Into::into));
    }
    configuration.cluster = Some((cluster, at));
}

type Complaint = (Severity, String, Option<&'static str>);

fn complaints(cluster: &mut Cluster) -> Vec<Complaint> {
    let mut all = Vec::new();
    // A missing or broken URL has been reported.
    let Some(url) = &mut cluster.url else {
        return all;
    };
    match &cluster.password_file {
        Some(_) if url.password.is_some() => all.push((
            Severity::Error,
            "`url` has a password, and `password_file` is set".into(),
            Some("keep one of them"),
        )),
        Some(path) => match saker_net::privileged::read_to_string(path) {
            Ok(text) => {
                let password = text.lines().next().unwrap_or_default();
                match password.is_empty() {
                    true => all.push((
                        Severity::Error,
                        format!(
                            "`password_file` {}: its first line is empty",
                            path.display()
                        ),
                        None,
                    )),
                    false => url.password = Some(password.to_owned()),
                }
            }
            Err(error) => all.push((
                Severity::Error,
                format!("`password_file` {}: {error}", path.display()),
                None,
            )),
        },
        None => {}
    }
    if url.user.is_some() && url.password.is_none() && cluster.password_file.is_none() {
        all.push((
            Severity::Error,
            "`url` has a user without a password".into(),
            Some("write redis://user:password@host, or redis://:password@host without a user"),
        ));
    }
    if cluster.ca_file.is_some() && !url.is_tls {
        all.push((
            Severity::Error,
            "`ca_file` without TLS".into(),
            Some("write rediss:// in `url`"),
        ));
    }
    all
}
