//! Pages of users in their homes.

/// Rules of `/~user/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDirectories {
    /// Path below a user's home.
    pub folder: String,
    /// Users that have pages; empty: all but those of the system.
    pub users: Vec<String>,
    pub deny: Vec<String>,
}

/// First number of a person's account, as in `login.defs` of all distributions.
const PERSON_UID_MIN: u32 = 1000;
const NOBODY: u32 = 65_534;

impl UserDirectories {
    /// Returns true if the user has pages. Root never has.
    pub fn allows(&self, name: &str, uid: u32) -> bool {
        let has = |list: &[String]| list.iter().any(|one| one == name);
        let is_chosen = match self.users.is_empty() {
            true => uid >= PERSON_UID_MIN && uid != NOBODY,
            false => has(&self.users),
        };
        uid != 0 && is_chosen && !has(&self.deny)
    }
}

impl Default for UserDirectories {
    fn default() -> Self {
        UserDirectories {
            folder: "public_html".into(),
            users: Vec::new(),
            deny: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users() {
        let of = |users: &[&str], deny: &[&str]| {
            let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            UserDirectories {
                users: list(users),
                deny: list(deny),
                ..UserDirectories::default()
            }
        };
        for (rules, name, uid, expected) in [
            (of(&[], &[]), "ann", 1000, true),
            (of(&[], &[]), "www-data", 33, false),
            (of(&[], &[]), "nobody", 65_534, false),
            (of(&[], &[]), "toor", 0, false),
            (of(&[], &["ann"]), "ann", 1000, false),
            (of(&["www-data"], &[]), "www-data", 33, true),
            (of(&["ann"], &[]), "bob", 1001, false),
            (of(&["ann"], &["ann"]), "ann", 1000, false),
            (of(&["toor"], &[]), "toor", 0, false),
        ] {
            assert_eq!(rules.allows(name, uid), expected, "{rules:?} {name} {uid}");
        }
    }
}
