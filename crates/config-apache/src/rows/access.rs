//! Who may: authentication, authorization, methods. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ACCESS, AUTH_CONFIG, FILE_INFO,
    Importance::{A, B, C},
    LIMIT, NOWHERE, Row, SERVER,
    Shape::{Any, Each, EachWithFirst, Flag, One, OneOrTwo, Raw, Section, Two},
    Treatment::{self, Denies, Honoured, NoEffect},
    VIRTUAL_HOST, row,
};

const ACCESS_COMPAT: &[&str] = &["access_compat_module"];
const ALLOWMETHODS: &[&str] = &["allowmethods_module"];
const AUTH_BASIC: &[&str] = &["auth_basic_module"];
const AUTH_DIGEST: &[&str] = &["auth_digest_module"];
const AUTH_FORM: &[&str] = &["auth_form_module"];
const AUTHN_ANON: &[&str] = &["authn_anon_module"];
const AUTHN_CORE: &[&str] = &["authn_core_module"];
const AUTHN_DBD: &[&str] = &["authn_dbd_module"];
const AUTHN_DBM: &[&str] = &["authn_dbm_module"];
const AUTHN_FILE: &[&str] = &["authn_file_module"];
const AUTHN_SOCACHE: &[&str] = &["authn_socache_module"];
const AUTHNZ_FCGI: &[&str] = &["authnz_fcgi_module"];
const AUTHNZ_LDAP: &[&str] = &["authnz_ldap_module"];
const AUTHZ_CORE: &[&str] = &["authz_core_module"];
const AUTHZ_DBD: &[&str] = &["authz_dbd_module"];
const AUTHZ_DBM: &[&str] = &["authz_dbm_module"];
const AUTHZ_GROUPFILE: &[&str] = &["authz_groupfile_module"];

const NO_FORMS: Treatment = Denies("use Basic authentication, or log in within the application");
const USERS_IN_MEMORY: Treatment = NoEffect("files of users are looked up in memory, and a database is asked each time");
const OTHER_PROVIDERS: Treatment = Denies("use one of the providers file, dbm, anon");
const NO_DIRECTORY_SERVICE: Treatment = Denies("export users and groups to files, or authenticate within the application");

pub(super) const ROWS: &[Row] = &[
    row("order", ACCESS_COMPAT, A, "dh", One, LIMIT, NOWHERE, Honoured),
    row("allow", ACCESS_COMPAT, A, "dh", EachWithFirst, LIMIT, NOWHERE, Honoured),
    row("deny", ACCESS_COMPAT, A, "dh", EachWithFirst, LIMIT, NOWHERE, Honoured),
    row("Satisfy", ACCESS_COMPAT, A, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AllowMethods", ALLOWMETHODS, B, "d", Any, ACCESS, NOWHERE, Honoured),
    row("AuthBasicProvider", AUTH_BASIC, A, "dh", Each, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthBasicAuthoritative", AUTH_BASIC, A, "dh", Flag, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthBasicFake", AUTH_BASIC, A, "dh", OneOrTwo, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthBasicUseDigestAlgorithm", AUTH_BASIC, A, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthDigestProvider", AUTH_DIGEST, B, "dh", Each, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthDigestQop", AUTH_DIGEST, B, "dh", Each, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthDigestNonceLifetime", AUTH_DIGEST, B, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthDigestNcCheck", AUTH_DIGEST, C, "dh", Flag, AUTH_CONFIG, NOWHERE, NoEffect("it never had an effect in Apache 2.4")),
    row("AuthDigestAlgorithm", AUTH_DIGEST, B, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthDigestDomain", AUTH_DIGEST, B, "dh", Each, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthDigestShmemSize", AUTH_DIGEST, B, "s", One, SERVER, NOWHERE, NoEffect("nonces are checked without shared memory")),
    row("AuthFormProvider", AUTH_FORM, B, "dh", Each, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormUsername", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormPassword", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormLocation", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormMethod", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormMimetype", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormBody", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormSize", AUTH_FORM, B, "d", One, ACCESS, NOWHERE, NO_FORMS),
    row("AuthFormLoginRequiredLocation", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormLoginSuccessLocation", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormLogoutLocation", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormSitePassphrase", AUTH_FORM, B, "d", One, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormAuthoritative", AUTH_FORM, B, "dh", Flag, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormFakeBasicAuth", AUTH_FORM, B, "d", Flag, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("AuthFormDisableNoStore", AUTH_FORM, B, "d", Flag, AUTH_CONFIG, NOWHERE, NO_FORMS),
    row("Anonymous", AUTHN_ANON, B, "dh", Each, AUTH_CONFIG, NOWHERE, Honoured),
    row("Anonymous_MustGiveEmail", AUTHN_ANON, B, "dh", Flag, AUTH_CONFIG, NOWHERE, Honoured),
    row("Anonymous_NoUserId", AUTHN_ANON, B, "dh", Flag, AUTH_CONFIG, NOWHERE, Honoured),
    row("Anonymous_VerifyEmail", AUTHN_ANON, B, "dh", Flag, AUTH_CONFIG, NOWHERE, Honoured),
    row("Anonymous_LogEmail", AUTHN_ANON, B, "dh", Flag, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthType", AUTHN_CORE, A, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthName", AUTHN_CORE, A, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("<AuthnProviderAlias", AUTHN_CORE, A, "s", Section, SERVER, VIRTUAL_HOST, Honoured),
    row("AuthDBDUserPWQuery", AUTHN_DBD, B, "d", One, ACCESS, NOWHERE, Honoured),
    row("AuthDBDUserRealmQuery", AUTHN_DBD, B, "d", One, ACCESS, NOWHERE, Honoured),
    row("AuthDBMUserFile", AUTHN_DBM, B, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthDBMType", AUTHN_DBM, B, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthUserFile", AUTHN_FILE, A, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthnCacheSOCache", AUTHN_SOCACHE, B, "s", One, SERVER, VIRTUAL_HOST, USERS_IN_MEMORY),
    row("AuthnCacheEnable", AUTHN_SOCACHE, B, "s", Raw, SERVER, VIRTUAL_HOST, USERS_IN_MEMORY),
    row("AuthnCacheProvideFor", AUTHN_SOCACHE, B, "dh", Each, AUTH_CONFIG, NOWHERE, USERS_IN_MEMORY),
    row("AuthnCacheTimeout", AUTHN_SOCACHE, B, "dh", One, AUTH_CONFIG, NOWHERE, USERS_IN_MEMORY),
    row("AuthnCacheContext", AUTHN_SOCACHE, B, "d", One, ACCESS, NOWHERE, USERS_IN_MEMORY),
    row("AuthnzFcgiDefineProvider", AUTHNZ_FCGI, C, "s", Any, SERVER, VIRTUAL_HOST, OTHER_PROVIDERS),
    row("AuthnzFcgiCheckAuthnProvider", AUTHNZ_FCGI, C, "d", Any, FILE_INFO, NOWHERE, OTHER_PROVIDERS),
    row("AuthLDAPURL", AUTHNZ_LDAP, B, "dh", OneOrTwo, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPBindDN", AUTHNZ_LDAP, B, "dh", One, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPBindPassword", AUTHNZ_LDAP, B, "dh", One, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPBindAuthoritative", AUTHNZ_LDAP, B, "dh", Flag, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPRemoteUserIsDN", AUTHNZ_LDAP, B, "dh", Flag, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPRemoteUserAttribute", AUTHNZ_LDAP, B, "dh", One, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPCompareDNOnServer", AUTHNZ_LDAP, B, "dh", Flag, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPSubGroupAttribute", AUTHNZ_LDAP, B, "dh", Each, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPSubGroupClass", AUTHNZ_LDAP, B, "dh", Each, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPMaxSubGroupDepth", AUTHNZ_LDAP, B, "dh", One, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPGroupAttribute", AUTHNZ_LDAP, B, "dh", Each, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPGroupAttributeIsDN", AUTHNZ_LDAP, B, "dh", Flag, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPDereferenceAliases", AUTHNZ_LDAP, B, "dh", One, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPCharsetConfig", AUTHNZ_LDAP, B, "s", One, SERVER, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPAuthorizePrefix", AUTHNZ_LDAP, B, "dh", One, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPInitialBindAsUser", AUTHNZ_LDAP, B, "dh", Flag, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPInitialBindPattern", AUTHNZ_LDAP, B, "dh", Two, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPSearchAsUser", AUTHNZ_LDAP, B, "dh", Flag, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("AuthLDAPCompareAsUser", AUTHNZ_LDAP, B, "dh", Flag, AUTH_CONFIG, NOWHERE, NO_DIRECTORY_SERVICE),
    row("<AuthzProviderAlias", AUTHZ_CORE, A, "s", Section, SERVER, VIRTUAL_HOST, Honoured),
    row("Require", AUTHZ_CORE, A, "dh", Raw, AUTH_CONFIG, NOWHERE, Honoured),
    row("<RequireAll", AUTHZ_CORE, A, "dh", Section, AUTH_CONFIG, NOWHERE, Honoured),
    row("<RequireAny", AUTHZ_CORE, A, "dh", Section, AUTH_CONFIG, NOWHERE, Honoured),
    row("<RequireNone", AUTHZ_CORE, A, "dh", Section, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthMerging", AUTHZ_CORE, A, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthzSendForbiddenOnFailure", AUTHZ_CORE, A, "dh", Flag, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthzDBDLoginToReferer", AUTHZ_DBD, B, "d", Flag, ACCESS, NOWHERE, Honoured),
    row("AuthzDBDQuery", AUTHZ_DBD, B, "d", One, ACCESS, NOWHERE, Honoured),
    row("AuthzDBDRedirectQuery", AUTHZ_DBD, B, "d", One, ACCESS, NOWHERE, Honoured),
    row("AuthDBMGroupFile", AUTHZ_DBM, B, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthzDBMType", AUTHZ_DBM, B, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
    row("AuthGroupFile", AUTHZ_GROUPFILE, A, "dh", One, AUTH_CONFIG, NOWHERE, Honoured),
];
