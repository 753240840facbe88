//! The directives about access, with their setters.
//!
//! Called by: the table of all modules' directives.
//! Out of scope: containers of `Require` and aliases of providers, whose content may be any
//! directive: the reader of sections sees to them.

use crate::{
    arguments::{set_flag, texts},
    modules::access::{authn, authz, compat, fcgi, form, ldap, session, settings::Auth},
    reading::Set,
};
use saker_apache_syntax::Node;
use std::sync::Arc;

impl Auth {
    pub const DIRECTIVES: &'static [(&'static str, Set<Auth>)] = &[
        ("AuthType", |node, auth, reading| {
            authn::set_text(node, &mut auth.settings.authentication.scheme, reading)
        }),
        ("AuthName", |node, auth, reading| {
            authn::set_text(node, &mut auth.settings.authentication.name, reading)
        }),
        ("AuthBasicProvider", authn::set_basic_providers),
        ("AuthBasicAuthoritative", |node, auth, _| {
            set_flag(node, &mut auth.settings.authentication.authoritative)
        }),
        ("AuthBasicUseDigestAlgorithm", authn::set_as_digest),
        ("AuthBasicFake", authn::set_fake),
        ("AuthUserFile", |node, auth, reading| {
            authn::set_file(node, &mut auth.settings.authentication.user_file, reading)
        }),
        ("AuthGroupFile", |node, auth, reading| {
            authn::set_file(node, &mut auth.settings.authentication.group_file, reading)
        }),
        ("AuthDBMUserFile", |node, auth, reading| {
            authn::set_dbm_file(node, &mut auth.settings.authentication.user_dbm, reading)
        }),
        ("AuthDBMType", |node, auth, _| {
            authn::set_dbm_kind(node, &mut auth.settings.authentication.user_dbm)
        }),
        ("AuthDBMGroupFile", |node, auth, reading| {
            authn::set_dbm_file(node, &mut auth.settings.authentication.group_dbm, reading)
        }),
        ("AuthzDBMType", |node, auth, _| {
            authn::set_dbm_kind(node, &mut auth.settings.authentication.group_dbm)
        }),
        ("AuthLDAPURL", ldap::set_url),
        ("AuthLDAPBindDN", ldap::set_bind_dn),
        ("AuthLDAPBindPassword", ldap::set_bind_password),
        ("AuthLDAPRemoteUserAttribute", ldap::set_user_attribute),
        ("AuthLDAPRemoteUserIsDN", ldap::set_user_is_dn),
        ("AuthLDAPGroupAttribute", ldap::add_member_attribute),
        ("AuthLDAPGroupAttributeIsDN", ldap::set_members_are_dns),
        ("AuthnzFcgiDefineProvider", fcgi::define),
        ("AuthnzFcgiCheckAuthnProvider", fcgi::check),
        ("Anonymous", authn::set_anonymous),
        ("Anonymous_MustGiveEmail", |node, auth, _| {
            authn::set_anonymous_flag(node, auth, |anonymous| &mut anonymous.must_give_email)
        }),
        ("Anonymous_NoUserId", |node, auth, _| {
            authn::set_anonymous_flag(node, auth, |anonymous| &mut anonymous.without_user)
        }),
        ("Anonymous_VerifyEmail", |node, auth, _| {
            authn::set_anonymous_flag(node, auth, |anonymous| &mut anonymous.verify_email)
        }),
        ("Anonymous_LogEmail", |node, auth, _| {
            authn::set_anonymous_flag(node, auth, |anonymous| &mut anonymous.log_email)
        }),
        ("AuthDigestProvider", authn::set_digest_providers),
        ("AuthDigestQop", authn::check_qop),
        ("AuthDigestAlgorithm", authn::check_algorithm),
        ("AuthDigestNonceLifetime", authn::set_nonce_lifetime),
        ("AuthDigestDomain", authn::set_domain),
        ("AuthFormProvider", form::add_providers),
        ("AuthFormUsername", |node, auth, _| {
            form::set_field(node, auth, |fields| &mut fields.user)
        }),
        ("AuthFormPassword", |node, auth, _| {
            form::set_field(node, auth, |fields| &mut fields.password)
        }),
        ("AuthFormLocation", |node, auth, _| {
            form::set_field(node, auth, |fields| &mut fields.location)
        }),
        ("AuthFormMethod", |node, auth, _| {
            form::set_field(node, auth, |fields| &mut fields.method)
        }),
        ("AuthFormMimetype", |node, auth, _| {
            form::set_field(node, auth, |fields| &mut fields.media_type)
        }),
        ("AuthFormBody", |node, auth, _| {
            form::set_field(node, auth, |fields| &mut fields.content)
        }),
        ("AuthFormSize", form::set_size),
        ("AuthFormLoginRequiredLocation", |node, auth, reading| {
            authn::set_text(node, &mut form::form(auth).login_required, reading)
        }),
        ("AuthFormLoginSuccessLocation", |node, auth, reading| {
            authn::set_text(node, &mut form::form(auth).login_success, reading)
        }),
        ("AuthFormLogoutLocation", |node, auth, reading| {
            authn::set_text(node, &mut form::form(auth).logout, reading)
        }),
        ("AuthFormSitePassphrase", form::set_passphrase),
        ("AuthFormAuthoritative", |node, auth, _| {
            set_flag(node, &mut form::form(auth).authoritative)
        }),
        ("AuthFormFakeBasicAuth", |node, auth, _| {
            set_flag(node, &mut form::form(auth).fakes_basic)
        }),
        ("AuthFormDisableNoStore", |node, auth, _| {
            set_flag(node, &mut form::form(auth).may_be_stored)
        }),
        ("Session", |node, auth, _| {
            session::set(node, auth, |session| &mut session.is_on)
        }),
        ("SessionMaxAge", |node, auth, _| {
            session::set_seconds(node, auth, |session| &mut session.max_age_s)
        }),
        ("SessionExpiryUpdateInterval", |node, auth, _| {
            session::set_seconds(node, auth, |session| &mut session.update_interval_s)
        }),
        ("SessionHeader", session::set_header),
        ("SessionEnv", |node, auth, _| {
            session::set(node, auth, |session| &mut session.is_in_environment)
        }),
        ("SessionInclude", |node, auth, _| {
            session::add_path(node, auth, |session| &mut session.included)
        }),
        ("SessionExclude", |node, auth, _| {
            session::add_path(node, auth, |session| &mut session.excluded)
        }),
        ("SessionCookieName", session::set_cookie),
        ("SessionCookieRemove", |node, auth, _| {
            session::set(node, auth, |session| &mut session.hides_cookie)
        }),
        ("SessionDBDSelectLabel", |node, auth, _| {
            session::set_label(node, auth, |database| &mut database.select)
        }),
        ("SessionDBDInsertLabel", |node, auth, _| {
            session::set_label(node, auth, |database| &mut database.insert)
        }),
        ("SessionDBDUpdateLabel", |node, auth, _| {
            session::set_label(node, auth, |database| &mut database.update)
        }),
        ("SessionDBDDeleteLabel", |node, auth, _| {
            session::set_label(node, auth, |database| &mut database.delete)
        }),
        ("SessionDBDPerUser", |node, auth, _| {
            session::set_of_database(node, auth, |database| &mut database.is_per_user)
        }),
        ("SessionDBDCookieName", session::set_key_cookie),
        ("SessionDBDCookieRemove", |node, auth, _| {
            session::set_of_database(node, auth, |database| &mut database.hides_cookie)
        }),
        ("SessionCryptoPassphrase", session::set_passphrases),
        ("SessionCryptoPassphraseFile", session::set_passphrase_file),
        ("Require", authz::add_require),
        ("AuthMerging", authz::set_merging),
        ("AuthzSendForbiddenOnFailure", |node, auth, _| {
            set_flag(node, &mut auth.settings.authorization.forbidden_on_failure)
        }),
        ("order", compat::set_order),
        ("allow", |node, auth, reading| {
            compat::add(node, auth, reading, |rules| &mut rules.allow)
        }),
        ("deny", |node, auth, reading| {
            compat::add(node, auth, reading, |rules| &mut rules.deny)
        }),
        ("Satisfy", compat::set_satisfy),
        ("AuthDBDUserPWQuery", |node, auth, _| {
            set_query(node, &mut auth.settings.sql_mut().user)
        }),
        ("AuthDBDUserRealmQuery", |node, auth, _| {
            set_query(node, &mut auth.settings.sql_mut().realm)
        }),
        ("AuthzDBDQuery", |node, auth, _| {
            set_query(node, &mut auth.settings.sql_mut().groups)
        }),
        ("AuthzDBDRedirectQuery", |node, auth, _| {
            set_query(node, &mut auth.settings.sql_mut().redirect)
        }),
        ("AuthzDBDLoginToReferer", |node, auth, _| {
            set_flag(node, &mut auth.settings.sql_mut().to_referer)
        }),
    ];
}

fn set_query(node: &Node, slot: &mut Option<Arc<str>>) -> Result<(), String> {
    *slot = texts(node).into_iter().next().map(Into::into);
    Ok(())
}
