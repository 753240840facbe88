//! Databases, directories, WebDAV and sessions. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ACCESS, AUTH_CONFIG,
    Importance::{B, C},
    NOWHERE, Row, SERVER,
    Shape::{Each, Flag, One, OneOrTwo, Raw, TwoOrThree},
    Treatment::{self, Honoured, NoEffect, Unsupported},
    VIRTUAL_HOST, row,
};

const DAV: &[&str] = &["dav_module"];
const DAV_FS: &[&str] = &["dav_fs_module"];
const DAV_LOCK: &[&str] = &["dav_lock_module"];
const DBD: &[&str] = &["dbd_module"];
const LDAP: &[&str] = &["ldap_module"];
const SESSION: &[&str] = &["session_module"];
const SESSION_COOKIE: &[&str] = &["session_cookie_module"];
const SESSION_CRYPTO: &[&str] = &["session_crypto_module"];
const SESSION_DBD: &[&str] = &["session_dbd_module"];

const NO_WEBDAV: Treatment = Unsupported("serve WebDAV by an application behind a proxy");
const BY_LABEL: Treatment = NoEffect("rewrite maps, users and groups have queries of their own; nothing else here asks by a label");
const KEEPS_FEWEST: Treatment = NoEffect("connections beyond DBDMin end when nobody has needed them for DBDExptime");
const NO_LDAP: Treatment = Unsupported("export users and groups to files");
const NO_SESSIONS: Treatment = Unsupported("keep sessions within the application");

pub(super) const ROWS: &[Row] = &[
    row("DAV", DAV, B, "d", One, ACCESS, NOWHERE, NO_WEBDAV),
    row("DAVBasePath", DAV, B, "d", One, ACCESS, NOWHERE, NO_WEBDAV),
    row("DAVMinTimeout", DAV, B, "svd", One, ACCESS.or(SERVER), NOWHERE, NO_WEBDAV),
    row("DAVDepthInfinity", DAV, B, "svd", Flag, ACCESS.or(SERVER), NOWHERE, NO_WEBDAV),
    row("DAVLockDiscovery", DAV, B, "svdh", Flag, ACCESS.or(SERVER), NOWHERE, NO_WEBDAV),
    row("DAVLockDB", DAV_FS, B, "sv", One, SERVER, NOWHERE, NO_WEBDAV),
    row("DAVGenericLockDB", DAV_LOCK, B, "svd", One, ACCESS, NOWHERE, NO_WEBDAV),
    row("DBDriver", DBD, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DBDParams", DBD, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DBDPersist", DBD, B, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("DBDPrepareSQL", DBD, B, "sv", OneOrTwo, SERVER, NOWHERE, BY_LABEL),
    row("DBDInitSQL", DBD, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DBDMin", DBD, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DBDKeep", DBD, B, "sv", One, SERVER, NOWHERE, KEEPS_FEWEST),
    row("DBDMax", DBD, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DBDExptime", DBD, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("LDAPSharedCacheSize", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPSharedCacheFile", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPCacheEntries", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPCacheTTL", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPOpCacheEntries", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPOpCacheTTL", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPTrustedGlobalCert", LDAP, B, "s", TwoOrThree, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPTrustedClientCert", LDAP, B, "dh", TwoOrThree, AUTH_CONFIG, NOWHERE, NO_LDAP),
    row("LDAPTrustedMode", LDAP, B, "sv", One, SERVER, NOWHERE, NO_LDAP),
    row("LDAPVerifyServerCert", LDAP, B, "s", Flag, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPConnectionTimeout", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPReferrals", LDAP, B, "dh", One, AUTH_CONFIG, NOWHERE, NO_LDAP),
    row("LDAPReferralHopLimit", LDAP, B, "dh", One, AUTH_CONFIG, NOWHERE, NO_LDAP),
    row("LDAPLibraryDebug", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPTimeout", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPConnectionPoolTTL", LDAP, B, "sv", One, SERVER, NOWHERE, NO_LDAP),
    row("LDAPRetries", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("LDAPRetryDelay", LDAP, B, "s", One, SERVER, VIRTUAL_HOST, NO_LDAP),
    row("Session", SESSION, B, "svdh", Flag, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionMaxAge", SESSION, B, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionHeader", SESSION, B, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionEnv", SESSION, B, "svdh", Flag, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionInclude", SESSION, B, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionExclude", SESSION, B, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionExpiryUpdateInterval", SESSION, B, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionCookieName", SESSION_COOKIE, B, "svdh", Raw, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionCookieName2", SESSION_COOKIE, B, "svdh", Raw, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionCookieRemove", SESSION_COOKIE, B, "svdh", Flag, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionCryptoPassphrase", SESSION_CRYPTO, C, "svdh", Each, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionCryptoPassphraseFile", SESSION_CRYPTO, C, "svd", One, ACCESS.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionCryptoCipher", SESSION_CRYPTO, C, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionCryptoDriver", SESSION_CRYPTO, C, "s", Raw, SERVER, VIRTUAL_HOST, NO_SESSIONS),
    row("SessionDBDSelectLabel", SESSION_DBD, C, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionDBDInsertLabel", SESSION_DBD, C, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionDBDUpdateLabel", SESSION_DBD, C, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionDBDDeleteLabel", SESSION_DBD, C, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionDBDPerUser", SESSION_DBD, C, "svdh", Flag, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionDBDCookieRemove", SESSION_DBD, C, "svdh", Flag, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionDBDCookieName", SESSION_DBD, C, "svdh", Raw, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
    row("SessionDBDCookieName2", SESSION_DBD, C, "svdh", Raw, AUTH_CONFIG.or(SERVER), NOWHERE, NO_SESSIONS),
];
