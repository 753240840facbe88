//! Groups of users in files: group files, DBM files, and owners in the system's own files.
//!
//! Called by: `requirements`.
//! Caveat: group names are compared without regard to case in group files, exactly in DBM files, as
//! in Apache.

use crate::context::{AuthContext, Decision};
use saker_ap_expr::words::words;
use std::{
    ffi::OsStr,
    fs::Metadata,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// Returns whether the group file has the user in one of `groups`.
pub fn is_member(context: &mut AuthContext<'_>, user: &str, groups: &[Vec<u8>]) -> bool {
    let Some(path) = &context.settings.authentication.group_file else {
        context.log(format_args!(
            "No group file was specified in the configuration"
        ));
        return false;
    };
    match context.files.read(context.watcher, path) {
        Ok(records) => records
            .iter()
            .filter(|(name, _)| groups.iter().any(|group| group.eq_ignore_ascii_case(name)))
            .any(|(_, lines)| {
                lines
                    .iter()
                    .any(|line| words(line).iter().any(|member| *member == user.as_bytes()))
            }),
        Err(error) => {
            context.log(format_args!(
                "Could not open group file: {}: {error}",
                path.display()
            ));
            false
        }
    }
}

/// Decides whether the DBM file has the user in one of `groups`. `None`: it can't be read.
pub fn is_dbm_member(
    context: &mut AuthContext<'_>,
    user: &str,
    groups: &[Vec<u8>],
) -> Option<Decision> {
    let dbm = context
        .settings
        .authentication
        .group_dbm
        .clone()
        .unwrap_or_default();
    let Some(path) = &dbm.file else {
        context.log(format_args!(
            "No group file was specified in the configuration"
        ));
        return Some(Decision::Denied);
    };
    let records = match context.files.read_dbm(context.watcher, &dbm.kind, path) {
        Ok(records) => records,
        Err(error) => {
            context.log(format_args!(
                "could not open dbm (type {}) group access file: {}: {error}",
                dbm.kind,
                path.display()
            ));
            return None;
        }
    };
    let realm = context.realm();
    let value = records
        .get(format!("{user}:{realm}").as_bytes())
        .or_else(|| records.get(user.as_bytes()));
    let of_user = value
        .and_then(|values| values.first())
        .map(|value| dbm_groups(value))
        .unwrap_or_default();
    let is_member = of_user.split(|byte| *byte == b',').any(|group| {
        groups
            .iter()
            .any(|wanted| !group.is_empty() && wanted == group)
    });
    Some(Decision::of(is_member))
}

/// The user that owns the request's file.
pub fn owner_of_file(context: &mut AuthContext<'_>) -> Option<Vec<u8>> {
    name_of_number(context, Path::new("/etc/passwd"), |metadata| metadata.uid())
}

/// The group of the request's file.
pub fn group_of_file(context: &mut AuthContext<'_>) -> Option<Vec<u8>> {
    name_of_number(context, Path::new("/etc/group"), |metadata| metadata.gid())
}

/// The name that a system file has for a number (its third column) of the request's file.
fn name_of_number(
    context: &mut AuthContext<'_>,
    names: &Path,
    number: fn(&Metadata) -> u32,
) -> Option<Vec<u8>> {
    let metadata = std::fs::metadata(OsStr::from_bytes(context.request.filename())).ok()?;
    let number = number(&metadata).to_string();
    let records = context.files.read(context.watcher, names).ok()?;
    let has_number =
        |line: &[u8]| line.split(|byte| *byte == b':').nth(1) == Some(number.as_bytes());
    let found = records
        .iter()
        .find(|(_, lines)| lines.iter().any(|line| has_number(line)));
    found.map(|(name, _)| name.to_vec())
}

/// The groups in `group,group` or `password:group,group[:anything]`: one file may serve for users
/// and groups.
fn dbm_groups(value: &[u8]) -> &[u8] {
    value
        .split(|byte| *byte == b':')
        .take(2)
        .last()
        .unwrap_or_default()
}
