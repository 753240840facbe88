//! Users in a directory.
//!
//! Called by: `providers`.
//! Caveat: a directory takes a name with an empty password for an anonymous client and accepts it
//! (RFC 4513 section 5.1.2), so such log-ins are refused here, before it is asked.
//! Out of scope: connections (`saker_database`), and what is remembered (`directories`).

use crate::{
    context::{AuthContext, Decision, LookupError},
    directories::{EntryQuestion, LogIn, is_same_dn},
    settings::{
        LdapSettings,
        requirement::{LdapTest, Words},
    },
};
use saker_ap_expr::words::words;
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

/// Checks a requirement about the entry of the user, whom the directory must have let in.
pub fn holds(context: &mut AuthContext<'_>, test: LdapTest, line: &Words, user: &str) -> Decision {
    let (Some(settings), Some(entry)) = (context.settings.ldap.clone(), context.entry.clone())
    else {
        context.log(format_args!(
            "'{user}' has not logged in with the directory, so its rules deny"
        ));
        return Decision::Denied;
    };
    let line = String::from_utf8_lossy(&context.bytes(line)).into_owned();
    let dn = entry.entry.dn.as_str();
    // mod_authnz_ldap asks about the name of the log-in, whatever name the user has since.
    let login = entry.login.as_str();
    let questions = match test {
        LdapTest::Dn => return Decision::of(is_same_dn(unquoted(&line), dn)),
        LdapTest::User => users(&settings, &line, dn),
        LdapTest::Attribute => attributes(&line, dn),
        LdapTest::Group => vec![group(&settings, unquoted(&line), dn, login)],
        LdapTest::Filter => vec![EntryQuestion {
            base: settings.base.clone(),
            one_level: settings.one_level,
            filter: format!(
                "(&{}{})",
                settings.filter,
                in_brackets(&without_marks(unquoted(&line)))
            ),
            values: vec![login.to_owned(); settings.filter.matches('?').count()],
            dn: dn.to_owned(),
        }],
    };
    for question in questions {
        match context.request.directory_match(&settings, &question) {
            Some(Answer::Known(Ok(LogIn::Granted(_)))) => return Decision::Granted,
            Some(Answer::Known(Ok(_))) => {}
            Some(Answer::Known(Err(why))) => {
                context.log(format_args!(
                    "the directory can't be asked about {dn}: {why}"
                ));
                return Decision::Error;
            }
            Some(Answer::Wait(pause)) => {
                return context.undecided(LookupError::Wait(pause), Decision::Error);
            }
            Some(Answer::Busy) => return context.undecided(LookupError::Busy, Decision::Error),
            None => return Decision::Error,
        }
    }
    Decision::Denied
}

/// The whole line as one name, then each of its words, as in mod_authnz_ldap.
fn users(settings: &LdapSettings, line: &str, dn: &str) -> Vec<EntryQuestion> {
    let mut names = vec![unquoted(line).to_owned()];
    names.extend(words(line.as_bytes()).iter().filter_map(|word| text(word)));
    names.dedup();
    let about = |name: String| own_entry(dn, &settings.name_attribute, name);
    names.into_iter().map(about).collect()
}

/// `attribute=value` or `attribute="value"`, one of which has to hold.
fn attributes(line: &str, dn: &str) -> Vec<EntryQuestion> {
    let (mut questions, mut rest) = (Vec::new(), line.trim_start());
    while let Some((attribute, behind)) = rest.split_once('=') {
        let quoted = behind
            .strip_prefix('"')
            .and_then(|behind| behind.split_once('"'));
        let (value, behind) = match quoted {
            Some(parts) => parts,
            None => behind
                .split_once(char::is_whitespace)
                .unwrap_or((behind, "")),
        };
        if is_attribute(attribute) {
            questions.push(own_entry(dn, attribute, value.to_owned()));
        }
        rest = behind.trim_start();
    }
    questions
}

fn own_entry(dn: &str, attribute: &str, value: String) -> EntryQuestion {
    EntryQuestion {
        base: dn.to_owned(),
        one_level: false,
        filter: format!("({attribute}=?)"),
        values: vec![value],
        dn: dn.to_owned(),
    }
}

fn group(settings: &LdapSettings, group: &str, dn: &str, login: &str) -> EntryQuestion {
    let usual = ["member".to_owned(), "uniqueMember".to_owned()];
    let names: &[String] = match settings.member_attributes.is_empty() {
        true => &usual,
        false => &settings.member_attributes,
    };
    let names: Vec<&String> = names.iter().filter(|name| is_attribute(name)).collect();
    let tests: String = names.iter().map(|name| format!("({name}=?)")).collect();
    let member = if settings.members_are_names {
        login
    } else {
        dn
    };
    EntryQuestion {
        base: group.to_owned(),
        one_level: false,
        filter: format!("(|{tests})"),
        values: vec![member.to_owned(); names.len()],
        dn: group.to_owned(),
    }
}

/// An attribute description (RFC 4512 section 2.5), which can't change a filter.
fn is_attribute(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.;_".contains(&byte))
}

fn text(word: &[u8]) -> Option<String> {
    String::from_utf8(word.to_vec()).ok()
}

fn unquoted(line: &str) -> &str {
    let line = line.trim();
    line.strip_prefix('"')
        .and_then(|line| line.strip_suffix('"'))
        .unwrap_or(line)
}

/// A filter whose question marks stand for themselves (RFC 4515 section 3).
pub fn without_marks(filter: &str) -> String {
    filter.replace('?', "\\3f")
}

fn in_brackets(filter: &str) -> String {
    match filter.starts_with('(') {
        true => filter.to_owned(),
        false => format!("({filter})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_questions() {
        let settings = LdapSettings {
            name_attribute: "uid".into(),
            ..LdapSettings::default()
        };
        let shown = |questions: Vec<EntryQuestion>| -> Vec<String> {
            let shown = questions.iter();
            shown
                .map(|question| format!("{} {}", question.filter, question.values.join("|")))
                .collect()
        };
        assert_eq!(
            shown(users(&settings, "ann \"bob b\"", "dn")),
            ["(uid=?) ann \"bob b\"", "(uid=?) ann", "(uid=?) bob b"]
        );
        assert_eq!(
            shown(attributes("a=b c=\"d e\" g)(x=y", "dn")),
            ["(a=?) b", "(c=?) d e"]
        );
        assert_eq!(
            shown(vec![group(&settings, "cn=g", "uid=ann", "ann")]),
            ["(|(member=?)(uniqueMember=?)) uid=ann|uid=ann"]
        );
        let by_name = LdapSettings {
            members_are_names: true,
            ..LdapSettings::default()
        };
        assert_eq!(
            shown(vec![group(&by_name, "cn=g", "uid=ann", "ann")]),
            ["(|(member=?)(uniqueMember=?)) ann|ann"]
        );
        assert_eq!(in_brackets("a=b"), "(a=b)");
        assert_eq!(without_marks("(a=?)"), "(a=\\3f)");
    }
}
