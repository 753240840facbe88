//! How users prove who they are: settings of mod_authn_core, mod_auth_basic, mod_authn_file,
//! mod_authn_anon, mod_authn_dbm and mod_authz_groupfile, mod_authz_dbm.
//!
//! Difficulty: Apache merges each module in its own way. Some lay setting over setting;
//! mod_authn_anon, mod_auth_digest and those of DBM have no merge, so that a section which says
//! anything of theirs replaces all of it.

use crate::{
    load::read_all,
    local::{Local, Set, said},
    modules::{core::texts, dir::set_flag},
    reading::Reading,
};
use saker_ap_expr::StringExpression;
use saker_apache_syntax::Node;
use std::{collections::HashMap, path::PathBuf, sync::Arc};

/// Where passwords are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    File,
    /// DBM.
    Database,
    /// mod_dbd's.
    Sql,
    Anonymous,
    /// In front of others, which are looked up in memory anyway: knows nobody.
    Cache,
    /// Another one with settings of its own (`<AuthnProviderAlias>`).
    Alias(Box<str>),
    /// Not to be had here: an error for whoever asks.
    Missing(Box<str>),
}

/// `<AuthnProviderAlias>`.
#[derive(Clone, Debug)]
pub struct ProviderAlias {
    pub provider: Provider,
    pub local: Arc<Local>,
}

#[derive(Clone, Debug)]
pub struct Anonymous {
    pub users: Vec<Box<str>>,
    /// `*` is among them.
    pub any_user: bool,
    pub without_user: bool,
    pub must_give_email: bool,
    pub verify_email: bool,
    pub log_email: bool,
}

impl Default for Anonymous {
    fn default() -> Anonymous {
        Anonymous {
            users: Vec::new(),
            any_user: false,
            without_user: false,
            must_give_email: true,
            verify_email: false,
            log_email: true,
        }
    }
}

/// A DBM file of users, or of the groups that users are in.
#[derive(Clone, Debug)]
pub struct Database {
    pub file: Option<PathBuf>,
    /// As APR calls it.
    pub kind: Box<str>,
}

impl Default for Database {
    fn default() -> Database {
        Database {
            file: None,
            kind: "default".into(),
        }
    }
}

/// mod_auth_digest's own settings.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    pub providers: Vec<Provider>,
    /// Paths that the same name and password are for.
    pub domain: Vec<Box<str>>,
    /// Seconds; 0: once, less: for ever.
    pub nonce_lifetime_s: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub struct Authn {
    pub kind: Option<Arc<StringExpression>>,
    pub name: Option<Arc<StringExpression>>,
    /// Of Basic. `None` or empty: a file.
    pub providers: Option<Vec<Provider>>,
    pub authoritative: Option<bool>,
    /// Passwords of Basic are looked up as those of Digest.
    pub as_digest: Option<bool>,
    /// Name and password that programs are told instead (AuthBasicFake); `None`: the client's own.
    pub fake: Option<Option<(Arc<StringExpression>, Arc<StringExpression>)>>,
    pub user_file: Option<PathBuf>,
    pub group_file: Option<PathBuf>,
    pub user_database: Option<Arc<Database>>,
    pub group_database: Option<Arc<Database>>,
    pub anonymous: Option<Arc<Anonymous>>,
    pub digest: Option<Arc<Digest>>,
    pub aliases: Option<Arc<HashMap<Box<str>, ProviderAlias>>>,
}

impl Authn {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("AuthType", |node, local, reading| {
            set_text(node, &mut local.authn.kind, reading)
        }),
        ("AuthName", |node, local, reading| {
            set_text(node, &mut local.authn.name, reading)
        }),
        ("AuthBasicProvider", set_basic_providers),
        ("AuthBasicAuthoritative", |node, local, _| {
            set_flag(node, &mut local.authn.authoritative)
        }),
        ("AuthBasicUseDigestAlgorithm", set_as_digest),
        ("AuthBasicFake", set_fake),
        ("AuthUserFile", |node, local, reading| {
            set_file(node, &mut local.authn.user_file, reading)
        }),
        ("AuthGroupFile", |node, local, reading| {
            set_file(node, &mut local.authn.group_file, reading)
        }),
        ("AuthDBMUserFile", |node, local, reading| {
            set_database_file(node, &mut local.authn.user_database, reading)
        }),
        ("AuthDBMType", |node, local, _| {
            set_database_kind(node, &mut local.authn.user_database)
        }),
        ("AuthDBMGroupFile", |node, local, reading| {
            set_database_file(node, &mut local.authn.group_database, reading)
        }),
        ("AuthzDBMType", |node, local, _| {
            set_database_kind(node, &mut local.authn.group_database)
        }),
        ("Anonymous", set_anonymous),
        ("Anonymous_MustGiveEmail", |node, local, _| {
            set_anonymous_flag(node, local, |anonymous| &mut anonymous.must_give_email)
        }),
        ("Anonymous_NoUserId", |node, local, _| {
            set_anonymous_flag(node, local, |anonymous| &mut anonymous.without_user)
        }),
        ("Anonymous_VerifyEmail", |node, local, _| {
            set_anonymous_flag(node, local, |anonymous| &mut anonymous.verify_email)
        }),
        ("Anonymous_LogEmail", |node, local, _| {
            set_anonymous_flag(node, local, |anonymous| &mut anonymous.log_email)
        }),
        ("AuthDigestProvider", set_digest_providers),
        ("AuthDigestQop", check_qop),
        ("AuthDigestAlgorithm", check_algorithm),
        ("AuthDigestNonceLifetime", set_nonce_lifetime),
        ("AuthDigestDomain", set_domain),
        ("<AuthnProviderAlias", add_alias),
    ];

    pub fn under(&self, over: &Authn) -> Authn {
        let aliases = match (&self.aliases, &over.aliases) {
            (Some(outer), Some(inner)) => {
                let all = outer
                    .iter()
                    .chain(inner.iter())
                    .map(|(name, alias)| (name.clone(), alias.clone()));
                Some(Arc::new(all.collect()))
            }
            (outer, inner) => inner.as_ref().or(outer.as_ref()).cloned(),
        };
        Authn {
            kind: said(&self.kind, &over.kind),
            name: said(&self.name, &over.name),
            providers: said(&self.providers, &over.providers),
            authoritative: over.authoritative.or(self.authoritative),
            as_digest: over.as_digest.or(self.as_digest),
            fake: said(&self.fake, &over.fake),
            user_file: said(&self.user_file, &over.user_file),
            group_file: said(&self.group_file, &over.group_file),
            user_database: said(&self.user_database, &over.user_database),
            group_database: said(&self.group_database, &over.group_database),
            anonymous: said(&self.anonymous, &over.anonymous),
            digest: said(&self.digest, &over.digest),
            aliases,
        }
    }

    fn digest(&mut self) -> &mut Digest {
        Arc::make_mut(self.digest.get_or_insert_default())
    }

    fn anonymous(&mut self) -> &mut Anonymous {
        Arc::make_mut(self.anonymous.get_or_insert_default())
    }
}

fn first(node: &Node) -> String {
    texts(node).into_iter().next().unwrap_or_default()
}

/// A name, and perhaps a password; `off`.
fn set_fake(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    let user = words.first().map(Vec::as_slice).unwrap_or_default();
    if user.eq_ignore_ascii_case(b"off") {
        local.authn.fake = Some(None);
        return Ok(());
    }
    let password = words.get(1).map_or(&b"password"[..], Vec::as_slice);
    local.authn.fake = Some(Some((
        compiled(user, reading)?,
        compiled(password, reading)?,
    )));
    Ok(())
}

fn set_text(
    node: &Node,
    slot: &mut Option<Arc<StringExpression>>,
    reading: &Reading<'_>,
) -> Result<(), String> {
    *slot = Some(compiled(
        &node.arguments().into_iter().next().unwrap_or_default(),
        reading,
    )?);
    Ok(())
}

fn compiled(text: &[u8], reading: &Reading<'_>) -> Result<Arc<StringExpression>, String> {
    let compiled = StringExpression::compile(text, reading.expression_options());
    compiled.map(Arc::new).map_err(|error| {
        format!(
            "Cannot parse expression '{}': {}",
            String::from_utf8_lossy(text),
            error.message
        )
    })
}

fn set_file(node: &Node, slot: &mut Option<PathBuf>, reading: &Reading<'_>) -> Result<(), String> {
    *slot = Some(reading.server_path(first(node).as_bytes()));
    Ok(())
}

fn set_database_file(
    node: &Node,
    slot: &mut Option<Arc<Database>>,
    reading: &Reading<'_>,
) -> Result<(), String> {
    set_file(
        node,
        &mut Arc::make_mut(slot.get_or_insert_default()).file,
        reading,
    )
}

fn set_database_kind(node: &Node, slot: &mut Option<Arc<Database>>) -> Result<(), String> {
    Arc::make_mut(slot.get_or_insert_default()).kind = first(node).into();
    Ok(())
}

fn provider(word: &str, node: &Node, reading: &mut Reading<'_>) -> Result<Provider, String> {
    Ok(match word.to_ascii_lowercase().as_str() {
        "file" => Provider::File,
        "dbm" => Provider::Database,
        "anon" => Provider::Anonymous,
        "dbd" => Provider::Sql,
        "socache" => Provider::Cache,
        name @ ("ldap" | "fcgi") => {
            reading.warn(node, format!("the provider {name} is not honoured: whoever is asked for a password gets an error"));
            Provider::Missing(name.into())
        }
        _ if reading.aliases.authn.iter().any(|known| **known == *word) => {
            Provider::Alias(word.into())
        }
        _ => return Err(format!("Unknown Authn provider: {word}")),
    })
}

fn providers(node: &Node, reading: &mut Reading<'_>) -> Result<Vec<Provider>, String> {
    texts(node)
        .iter()
        .map(|word| provider(word, node, reading))
        .collect()
}

fn set_basic_providers(
    node: &Node,
    local: &mut Local,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let more = providers(node, reading)?;
    local.authn.providers.get_or_insert_default().extend(more);
    Ok(())
}

fn set_digest_providers(
    node: &Node,
    local: &mut Local,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let more = providers(node, reading)?;
    if more.contains(&Provider::Anonymous) {
        return Err("The 'anon' Authn provider doesn't support Digest Authentication".into());
    }
    local.authn.digest().providers.extend(more);
    Ok(())
}

fn set_as_digest(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let word = first(node);
    local.authn.as_digest = Some(match word.to_ascii_lowercase().as_str() {
        "off" => false,
        "md5" => true,
        _ => {
            return Err(format!(
                "Invalid algorithm in AuthBasicUseDigestAlgorithm: {word}"
            ));
        }
    });
    Ok(())
}

fn set_anonymous(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    for word in texts(node) {
        match word.as_str() {
            "*" => local.authn.anonymous().any_user = true,
            _ => local.authn.anonymous().users.push(word.into()),
        }
    }
    Ok(())
}

fn set_anonymous_flag(
    node: &Node,
    local: &mut Local,
    flag: fn(&mut Anonymous) -> &mut bool,
) -> Result<(), String> {
    let mut on = None;
    set_flag(node, &mut on)?;
    *flag(local.authn.anonymous()) = on.unwrap_or_default();
    Ok(())
}

fn check_qop(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    local.authn.digest();
    match texts(node)
        .iter()
        .all(|word| word.eq_ignore_ascii_case("auth"))
    {
        true => Ok(()),
        false => Err("AuthDigestQop is deprecated: only 'auth' is supported".into()),
    }
}

fn check_algorithm(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    local.authn.digest();
    let word = first(node);
    match word.eq_ignore_ascii_case("MD5") {
        true => Ok(()),
        false => Err(format!(
            "Unsupported algorithm in AuthDigestAlgorithm: {word}"
        )),
    }
}

fn set_nonce_lifetime(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let word = first(node);
    let seconds = word
        .parse()
        .map_err(|_| format!("Invalid time in AuthDigestNonceLifetime: {word}"))?;
    local.authn.digest().nonce_lifetime_s = Some(seconds);
    Ok(())
}

fn set_domain(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    local
        .authn
        .digest()
        .domain
        .extend(texts(node).into_iter().map(Into::into));
    Ok(())
}

/// A provider's name, then that of the alias.
fn add_alias(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let (Some(kind), Some(name)) = (words.first(), words.get(1)) else {
        return Err("<AuthnProviderAlias> directive requires additional arguments".into());
    };
    if name.eq_ignore_ascii_case(kind) {
        return Err(
            "The alias provider name must be different from the base provider name.".into(),
        );
    }
    let provider = provider(kind, node, reading)?;
    let inner = read_all(&node.children, reading);
    let alias = ProviderAlias {
        provider,
        local: Arc::from(inner),
    };
    Arc::make_mut(local.authn.aliases.get_or_insert_default()).insert(name.as_str().into(), alias);
    Ok(())
}
