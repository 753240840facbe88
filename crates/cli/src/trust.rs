//! `saker trust`: the certificate of the local authority, in the stores of this machine.
//!
//! Called by: `lib`.
//! Caveat: a store is changed by its own program (`update-ca-certificates`, `certutil`), and each
//! step is reported, those that were left out with what they need. An authority that another user
//! could use is refused (crate `tls`).
//! Out of scope: stores of programs with lists of their own (Java, Node.js); `--print` is for them.

mod nss;
mod store;
mod system;

#[cfg(test)]
mod tests;

use crate::{
    arguments::Trust,
    exit_status::{CANNOT, OK},
    locations,
    output::{self, cannot},
    source::load_native,
};
use saker_config::{Model, ServeOptions};
use saker_serving::tls_state::authority_folder;
use saker_tls::{certificate_name, local_authority};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};
use store::{Authority, Step};

pub fn trust(trust: &Trust) -> ExitCode {
    let authority = match authority(trust) {
        Ok(authority) => authority,
        Err(why) => return cannot(why),
    };
    if trust.print {
        return output::print(&authority.pem);
    }
    let is_root = rustix::process::geteuid().is_root();
    let (all, mut steps) = (!trust.system && !trust.nss, Vec::new());
    if trust.system || all {
        steps.push(match is_root {
            true => system::change(Path::new("/"), &authority, trust.remove),
            false => Step::LeftOut(system_needs_root(&authority, trust.remove)),
        });
    }
    if trust.nss || all {
        steps.extend(nss::change(&home(), &authority, trust.remove));
    }
    let is_wanted = trust.system || trust.nss;
    report(&steps, is_wanted)
}

/// A store that was asked for has to be done; of all, those that are there.
fn report(steps: &[Step], is_wanted: bool) -> ExitCode {
    let mut status = OK;
    for step in steps {
        match step {
            Step::Done(text) => drop(output::print(format!("{text}\n"))),
            Step::LeftOut(text) => {
                output::error(format_args!("saker: {text}\n"));
                if is_wanted {
                    status = CANNOT;
                }
            }
            Step::Failed(text) => {
                output::error(format_args!("saker: {text}\n"));
                status = CANNOT;
            }
        }
    }
    ExitCode::from(status)
}

fn system_needs_root(authority: &Authority, is_removal: bool) -> String {
    let (what, option) = match is_removal {
        true => ("removing it from", " --remove"),
        false => ("adding it to", ""),
    };
    format!(
        "{what} the system's certificates needs root: sudo saker trust --system{option} --certificate '{}'",
        authority.path.display()
    )
}

/// The authority that is meant; the user's own one is made if it is not there, so that it can be
/// trusted before the first start.
fn authority(trust: &Trust) -> Result<Authority, String> {
    let path = match (&trust.certificate, &trust.config) {
        (Some(path), _) => path.clone(),
        (None, Some(config)) => {
            let loaded = load_native(config).map_err(|diagnostics| diagnostics.to_string())?;
            of_model(&loaded.model)?
        }
        (None, None) => {
            locations::make_data_folder();
            of_model(&Model::for_directory(ServeOptions::default()))?
        }
    };
    let shown = path.display();
    let pem = fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
    let name = certificate_name(pem.as_bytes())
        .ok_or_else(|| format!("{shown}: not a certificate of a local authority"))?;
    Ok(Authority { path, pem, name })
}

fn of_model(model: &Model) -> Result<PathBuf, String> {
    let folder = authority_folder(model);
    let user = model.server.user.as_deref();
    let user = user.and_then(|user| saker_net::process::user_id(user).ok().flatten());
    local_authority(&folder, user)
        .map_err(|error| format!("local authority in {}: {error}", folder.display()))
}

/// Home of the user: that of the one who called `sudo` is not root's.
fn home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}
