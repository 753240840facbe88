//! Users in a directory.
//!
//! Called by: `providers`.
//! Caveat: a directory takes a name with an empty password for an anonymous client and accepts it
//! (RFC 4513 section 5.1.2), so such log-ins are refused here, before it is asked.
//! Out of scope: connections (`saker_database`), and what is remembered (`directories`).

use crate::{
    context::{AuthContext, LookupError},
    directories::LogIn,
};
use saker_net::blocking::Answer;
use std::rc::Rc;

/// Checks a password with the directory in force.
pub fn log_in(
    context: &mut AuthContext<'_>,
    user: &str,
    password: &[u8],
) -> Result<LogIn, LookupError> {
    let Some(settings) = context.settings.ldap.clone() else {
        context.log(format_args!("no directory is configured"));
        return Err(LookupError::Failed);
    };
    if user.is_empty() {
        return Ok(LogIn::Unknown);
    }
    let password = match std::str::from_utf8(password) {
        Ok(password) if !password.is_empty() => password,
        _ => return Ok(LogIn::Denied),
    };
    let login = match context.request.directory(&settings, user, password) {
        None => {
            context.log(format_args!("directories can't be asked here"));
            return Err(LookupError::Failed);
        }
        Some(Answer::Wait(pause)) => return Err(LookupError::Wait(pause)),
        Some(Answer::Busy) => return Err(LookupError::Busy),
        Some(Answer::Known(Err(why))) => {
            context.log(format_args!(
                "the directory can't be asked about '{user}': {why}"
            ));
            return Err(LookupError::Failed);
        }
        Some(Answer::Known(Ok(login))) => login,
    };
    if let LogIn::Granted(entry) = &login {
        if let Some(name) = &entry.name {
            context.request.set_user(name);
        }
        context.request.set_directory_user(entry);
        context.entry = Some(Rc::clone(entry));
    }
    Ok(login)
}
