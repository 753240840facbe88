//! mod_authn_dbd and mod_authz_dbd: passwords and groups that the database of mod_dbd knows.
//!
//! Difficulty: a question has to be waited for, and the step is asked again then; and what a
//! `dbd-login` does in the database is to be done once for a request (`dbd/asked.rs` sees to that).
//! A database that does not answer lets nobody in.

use super::{decide::Inquiry, identify::Trouble, requirement::Decision};
use crate::{
    dbd::{Found, Question},
    local::{Local, Set, said},
    modules::{core::texts, dir::set_flag},
};
use saker_apache_syntax::Node;
use saker_database::Row;
use saker_net::blocking::Answer;
use std::{rc::Rc, sync::Arc};

#[derive(Clone, Debug, Default)]
pub struct AccessSql {
    user_query: Option<Arc<str>>,
    realm_query: Option<Arc<str>>,
    query: Option<Arc<str>>,
    redirect_query: Option<Arc<str>>,
    to_referer: Option<bool>,
}

impl AccessSql {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("AuthDBDUserPWQuery", |node, local, _| {
            set(node, &mut local.access_sql.user_query)
        }),
        ("AuthDBDUserRealmQuery", |node, local, _| {
            set(node, &mut local.access_sql.realm_query)
        }),
        ("AuthzDBDQuery", |node, local, _| {
            set(node, &mut local.access_sql.query)
        }),
        ("AuthzDBDRedirectQuery", |node, local, _| {
            set(node, &mut local.access_sql.redirect_query)
        }),
        ("AuthzDBDLoginToReferer", |node, local: &mut Local, _| {
            set_flag(node, &mut local.access_sql.to_referer)
        }),
    ];

    pub fn under(&self, over: &AccessSql) -> AccessSql {
        AccessSql {
            user_query: said(&self.user_query, &over.user_query),
            realm_query: said(&self.realm_query, &over.realm_query),
            query: said(&self.query, &over.query),
            redirect_query: said(&self.redirect_query, &over.redirect_query),
            to_referer: over.to_referer.or(self.to_referer),
        }
    }
}

fn set(node: &Node, slot: &mut Option<Arc<str>>) -> Result<(), String> {
    *slot = texts(node).into_iter().next().map(Into::into);
    Ok(())
}

impl Inquiry<'_> {
    /// What AuthDBDUserPWQuery says of a user. `None`: it does not know him.
    pub fn stored_password(&mut self, user: &str) -> Result<Option<String>, Trouble> {
        let query = self.local.access_sql.user_query.clone();
        self.first_column("AuthDBDUserPWQuery", query, &[user])
    }

    /// MD5 of name, realm and password.
    pub fn stored_hash(&mut self, user: &str, realm: &str) -> Result<Option<Vec<u8>>, Trouble> {
        let query = self.local.access_sql.realm_query.clone();
        Ok(self
            .first_column("AuthDBDUserRealmQuery", query, &[user, realm])?
            .map(String::into_bytes))
    }

    /// Of the first row, whose other columns become variables.
    fn first_column(
        &mut self,
        title: &str,
        query: Option<Arc<str>>,
        values: &[&str],
    ) -> Result<Option<String>, Trouble> {
        let Some(query) = query else {
            self.log(format_args!("No {title} has been specified"));
            return Err(Trouble::Error);
        };
        let found = self.ask_database(title, &query, values, false)?;
        let Some(row) = found.rows.first() else {
            return Ok(None);
        };
        self.tell_columns(row);
        self.first_of(title, row)
    }

    /// The first column's text; of a type without one nothing can be said, which is an error.
    fn first_of(&mut self, title: &str, row: &Row) -> Result<Option<String>, Trouble> {
        row.first()
            .map(|text| text.map(str::to_owned))
            .map_err(|why| {
                self.log(format_args!("{title}: the first column {why}"));
                Trouble::Error
            })
    }

    /// `AUTHENTICATE_` and the column's name, in capitals, with underlines for what is neither
    /// letter nor digit.
    fn tell_columns(&mut self, row: &Row) {
        for (name, value) in row.columns().skip(1) {
            // What has no text is no variable.
            let Ok(Some(value)) = value else { continue };
            let plain = |byte: u8| {
                if byte.is_ascii_alphanumeric() {
                    byte.to_ascii_uppercase()
                } else {
                    b'_'
                }
            };
            let name: Vec<u8> = b"AUTHENTICATE_"
                .iter()
                .copied()
                .chain(name.bytes().map(plain))
                .collect();
            self.exchange.environment.set(&name, value.as_bytes());
        }
    }

    fn ask_database(
        &mut self,
        title: &str,
        query: &str,
        values: &[&str],
        is_change: bool,
    ) -> Result<Rc<Found>, Trouble> {
        let Some((dbd, asked)) = self.host.dbd.as_deref().zip(self.state.asked.as_ref()) else {
            self.log(format_args!(
                "{title}: no database to ask; DBDriver says which"
            ));
            return Err(Trouble::Error);
        };
        match asked.ask(dbd, Question::of(query, values, is_change)) {
            Answer::Known(Ok(found)) => Ok(found),
            Answer::Known(Err(why)) => {
                self.log(format_args!(
                    "{title}: the database can't be asked about '{}': {why}",
                    values.first().unwrap_or(&"")
                ));
                Err(Trouble::Error)
            }
            Answer::Wait(pause) => Err(Trouble::Wait(pause)),
            Answer::Busy => Err(Trouble::Busy),
        }
    }

    /// Its decision is known when the database has answered.
    fn undecided(&mut self, trouble: Trouble, on_error: Decision) -> Decision {
        match trouble {
            Trouble::Error => on_error,
            Trouble::Wait(pause) => {
                self.pause = Some(pause);
                Decision::Pending
            }
            Trouble::Busy => Decision::Pending,
        }
    }

    /// `dbd-group`: whether one of the words is a group that AuthzDBDQuery has of the user.
    pub fn is_in_sql_group(&mut self, user: &str, line: &[u8]) -> Decision {
        let Some(query) = self.local.access_sql.query.clone() else {
            self.log(format_args!("No query configured for dbd-group!"));
            return Decision::Error;
        };
        let found = match self.ask_database("AuthzDBDQuery", &query, &[user], false) {
            Ok(found) => found,
            Err(trouble) => return self.undecided(trouble, Decision::Error),
        };
        let groups: Result<Vec<_>, _> = found
            .rows
            .iter()
            .map(|row| self.first_of("AuthzDBDQuery", row))
            .collect();
        let Ok(groups) = groups else {
            return Decision::Error;
        };
        let mut wanted = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let is_member = wanted.any(|word| {
            groups
                .iter()
                .flatten()
                .any(|group| group.as_bytes() == word)
        });
        if is_member {
            Decision::Granted
        } else {
            Decision::Denied
        }
    }

    /// `dbd-login` and `dbd-logout`: AuthzDBDQuery notes in the database who comes and goes, and he
    /// may be sent on.
    pub fn note_session(&mut self, user: &str, action: &str) -> Decision {
        let Some(query) = self.local.access_sql.query.clone() else {
            self.log(format_args!("No query configured for {action}!"));
            return Decision::Denied;
        };
        match self.ask_database("AuthzDBDQuery", &query, &[user], true) {
            Ok(found) if found.changed == 1 => {}
            Ok(found) => self.log(format_args!(
                "authz_dbd: {action} of user {user} updated {} rows",
                found.changed
            )),
            Err(trouble) => return self.undecided(trouble, Decision::Denied),
        }
        match self.place_after(user) {
            Ok(place) => self.leads_to = place,
            Err(trouble) => return self.undecided(trouble, Decision::Granted),
        }
        Decision::Granted
    }

    /// The page that he came from, or what AuthzDBDRedirectQuery says.
    fn place_after(&mut self, user: &str) -> Result<Option<Vec<u8>>, Trouble> {
        let referer = || {
            self.exchange
                .head
                .view()
                .first("referer")
                .map(<[u8]>::to_vec)
        };
        if let Some(place) = (self.local.access_sql.to_referer == Some(true))
            .then(referer)
            .flatten()
        {
            return Ok(Some(place));
        }
        let Some(query) = self.local.access_sql.redirect_query.clone() else {
            return Ok(None);
        };
        let found = self.ask_database("AuthzDBDRedirectQuery", &query, &[user], false)?;
        let place = found
            .rows
            .first()
            .map(|row| self.first_of("AuthzDBDRedirectQuery", row))
            .transpose()?
            .flatten();
        // What would end a field is no place.
        Ok(place
            .map(String::into_bytes)
            .filter(|place| !place.iter().any(u8::is_ascii_control)))
    }
}
