//! Automatic certificates. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    AUTH_CONFIG, DIRECTORY,
    Importance::{A, C},
    LOCATION, NOWHERE, Row, SERVER,
    Shape::{Any, One, OneOrTwo, Raw, Section, Two},
    Treatment::{self, Honoured, NoEffect, Unsupported},
    row,
};

const MD: &[&str] = &["md_module"];

const OWN_MANAGER: Treatment = NoEffect("Saker's certificate manager decides it itself");
const ONE_KIND: Treatment = NoEffect("keys are ECDSA on P-256, which every client knows that knows TLS 1.2");
const NO_STAPLES: Treatment = Unsupported("authorities have given up OCSP: leave it out");
const ONE_PROFILE: Treatment = Unsupported("the authority's own profile is used");
const BOTH_VALUES: Treatment = NoEffect("the command is always told the value, too");
const ASKS_ALWAYS: Treatment = NoEffect("an authority that says when to renew (ARI) is always heard");
const OWN_HOOK: Treatment = Unsupported("let a DNS hook of Saker's own do it, or leave it out");

pub(super) const ROWS: &[Row] = &[
    row("MDCertificateAuthority", MD, A, "s", Any, SERVER, NOWHERE, Honoured),
    row("MDCertificateAgreement", MD, A, "s", One, SERVER, NOWHERE, Honoured),
    row("MDCAChallenges", MD, A, "s", Any, SERVER, NOWHERE, Honoured),
    row("MDCertificateProtocol", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDContactEmail", MD, A, "s", One, SERVER, NOWHERE, Honoured),
    row("MDDriveMode", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDRenewMode", MD, A, "s", One, SERVER, NOWHERE, Honoured),
    row("MDomain", MD, A, "s", Any, SERVER, NOWHERE, Honoured),
    row("<MDomainSet", MD, A, "s", Section, SERVER, NOWHERE, Honoured),
    row("<MDomain", MD, C, "sv", Section, SERVER, NOWHERE, Honoured),
    row("MDMember", MD, A, "s", Any, SERVER, NOWHERE, Honoured),
    row("MDMembers", MD, A, "s", Any, SERVER, NOWHERE, Honoured),
    row("MDMustStaple", MD, A, "s", One, SERVER, NOWHERE, NO_STAPLES),
    row("MDPortMap", MD, A, "s", OneOrTwo, SERVER, NOWHERE, OWN_MANAGER),
    row("MDPrivateKeys", MD, A, "s", Any, SERVER, NOWHERE, ONE_KIND),
    row("MDHttpProxy", MD, A, "s", One, SERVER, NOWHERE, OWN_HOOK),
    row("MDStoreDir", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDRenewWindow", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDRequireHttps", MD, A, "s", One, AUTH_CONFIG.or(SERVER), DIRECTORY.or(LOCATION), Honoured),
    row("MDNotifyCmd", MD, A, "s", Raw, SERVER, NOWHERE, OWN_HOOK),
    row("MDBaseServer", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDChallengeDns01", MD, A, "s", Raw, SERVER, NOWHERE, Honoured),
    row("MDChallengeDns01Version", MD, A, "s", One, SERVER, NOWHERE, BOTH_VALUES),
    row("MDCertificateFile", MD, A, "s", One, SERVER, NOWHERE, Honoured),
    row("MDCertificateKeyFile", MD, A, "s", One, SERVER, NOWHERE, Honoured),
    row("MDServerStatus", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDCertificateStatus", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDWarnWindow", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDMessageCmd", MD, A, "s", Raw, SERVER, NOWHERE, OWN_HOOK),
    row("MDStapling", MD, A, "s", One, SERVER, NOWHERE, NO_STAPLES),
    row("MDStapleOthers", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDStaplingKeepResponse", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDStaplingRenewWindow", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDCertificateCheck", MD, A, "s", Two, SERVER, NOWHERE, OWN_MANAGER),
    row("MDActivationDelay", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDCACertificateFile", MD, A, "s", One, SERVER, NOWHERE, Honoured),
    row("MDHttpProxyCACertificateFile", MD, A, "s", One, SERVER, NOWHERE, OWN_HOOK),
    row("MDExternalAccountBinding", MD, A, "s", OneOrTwo, SERVER, NOWHERE, Honoured),
    row("MDRetryDelay", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDRetryFailover", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDStoreLocks", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDMatchNames", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDInitialDelay", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDCheckInterval", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDProfile", MD, A, "s", One, SERVER, NOWHERE, ONE_PROFILE),
    row("MDProfileMandatory", MD, A, "s", One, SERVER, NOWHERE, OWN_MANAGER),
    row("MDRenewViaARI", MD, A, "s", One, SERVER, NOWHERE, ASKS_ALWAYS),
    row("MDCertificateMonitor", MD, A, "s", OneOrTwo, SERVER, NOWHERE, OWN_MANAGER),
];
