//! mod_cgi and mod_cgid, and what module core says about programs: time, limits, what they are
//! told.
//!
//! Absent on purpose: sizes of what their logs keep (ScriptLog), because what programs say on
//! standard error is in the error log.

use crate::{
    arguments::texts,
    reading::{Place, Reading, Set},
};
use saker_apache_syntax::Node;
use saker_config::model::ProgramUser;
use saker_net::process::Identity;

/// Soft and hard; `u64::MAX`: as much as the server itself may have.
type Limit = Option<(u64, u64)>;

#[derive(Clone, Debug, Default)]
pub struct Cgi {
    /// Without a byte; `None`: the server's Timeout.
    pub timeout_ms: Option<u64>,
    pub passes_authorization: Option<bool>,
    /// REQUEST_URI is the path in force, not the one that the client asked for.
    pub uri_is_current: Option<bool>,
    pub cpu_s: Limit,
    pub memory_bytes: Limit,
    pub processes: Limit,
    /// Whom they run as, PHP among them (SuexecUserGroup, AssignUserID).
    pub user: Option<ProgramUser>,
}

impl Cgi {
    pub const DIRECTIVES: &'static [(&'static str, Set<Cgi>)] = &[
        ("CGIScriptTimeout", set_timeout),
        ("CGIDScriptTimeout", set_timeout),
        ("CGIPassAuth", |node, cgi, _| {
            crate::arguments::set_flag(node, &mut cgi.passes_authorization)
        }),
        ("CGIVar", set_variable),
        ("RLimitCPU", |node, cgi, _| set_limit(node, &mut cgi.cpu_s)),
        ("RLimitMEM", |node, cgi, _| {
            set_limit(node, &mut cgi.memory_bytes)
        }),
        ("RLimitNPROC", |node, cgi, _| {
            set_limit(node, &mut cgi.processes)
        }),
        ("SuexecUserGroup", set_user),
        ("AssignUserID", set_user),
        ("lsapi_user_group", set_user),
        ("lsapi_uid_gid", set_user),
    ];

    pub fn merge(&self, over: &Cgi) -> Cgi {
        Cgi {
            timeout_ms: over.timeout_ms.or(self.timeout_ms),
            passes_authorization: over.passes_authorization.or(self.passes_authorization),
            uri_is_current: over.uri_is_current.or(self.uri_is_current),
            cpu_s: over.cpu_s.or(self.cpu_s),
            memory_bytes: over.memory_bytes.or(self.memory_bytes),
            processes: over.processes.or(self.processes),
            user: over.user.as_ref().or(self.user.as_ref()).cloned(),
        }
    }
}

/// Seconds, or with a unit.
fn set_timeout(node: &Node, cgi: &mut Cgi, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match word
        .get(digits.len()..)
        .unwrap_or_default()
        .to_ascii_lowercase()
        .as_str()
    {
        "" | "s" => Some(1000),
        "ms" => Some(1),
        "mi" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let time: Option<u64> = digits
        .parse()
        .ok()
        .zip(factor)
        .map(|(number, factor): (u64, u64)| number.saturating_mul(factor));
    cgi.timeout_ms =
        Some(time.ok_or_else(|| format!("{} has wrong format", node.canonical_name()))?);
    Ok(())
}

/// Reads names, or numbers behind `#`. Programs are never run as root.
fn set_user(node: &Node, cgi: &mut Cgi, reading: &mut Reading<'_>) -> Result<(), String> {
    if reading.place != Place::Server {
        return Err(format!(
            "{} is for whole hosts: their programs have one user",
            node.canonical_name()
        ));
    }
    let words = texts(node);
    let [user, group] = words.as_slice() else {
        return Err(format!(
            "{} takes a user and a group",
            node.canonical_name()
        ));
    };
    let (user, group) = (user.trim_start_matches('#'), group.trim_start_matches('#'));
    let identity = Identity::look_up(user, Some(group))
        .map_err(|error| format!("{}: {error}", node.canonical_name()))?;
    if identity.uid() == 0 {
        return Err(format!(
            "{}: programs are not run as root",
            node.canonical_name()
        ));
    }
    cgi.user = Some(ProgramUser {
        user: user.into(),
        group: Some(group.into()),
    });
    Ok(())
}

fn set_variable(node: &Node, cgi: &mut Cgi, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    cgi.uri_is_current = Some(
        match (
            words.first().map(String::as_str),
            lower.get(1).map(String::as_str),
        ) {
            (Some("REQUEST_URI"), Some("current-uri")) => true,
            (Some("REQUEST_URI"), Some("original-uri")) => false,
            (Some("REQUEST_URI"), Some(other)) => {
                return Err(format!(
                    "Rule '{other}' for variable 'REQUEST_URI' is invalid, not one of original-uri, current-uri"
                ));
            }
            (name, _) => {
                return Err(format!(
                    "Variable '{}' not configurable, not one of REQUEST_URI",
                    name.unwrap_or_default()
                ));
            }
        },
    );
    Ok(())
}

/// `soft [hard]`, each a number or `max`; with one of them the hard limit stays.
fn set_limit(node: &Node, limit: &mut Limit) -> Result<(), String> {
    let one = |word: &str| match word.eq_ignore_ascii_case("max") {
        true => Ok(u64::MAX),
        false => word
            .parse()
            .map_err(|_| format!("Invalid parameters for {}", node.canonical_name())),
    };
    *limit = match texts(node).as_slice() {
        [soft] => Some((one(soft)?, u64::MAX)),
        [soft, hard] => Some((one(soft)?, one(hard)?)),
        _ => return Err(format!("Invalid parameters for {}", node.canonical_name())),
    };
    Ok(())
}
