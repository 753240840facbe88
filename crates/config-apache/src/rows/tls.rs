//! TLS. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ALL, AUTH_CONFIG,
    Importance::{A, B, C},
    NOWHERE, OPTIONS, PROXY, Row, SERVER,
    Shape::{Each, Flag, One, OneOrTwo, Raw, Two, TwoOrThree},
    Treatment::{self, Denies, Honoured, NoEffect, Unsupported},
    VIRTUAL_HOST, row,
};

const SSL: &[&str] = &["ssl_module"];
const NW_SSL: &[&str] = &["nw_ssl_module"];

const SESSIONS_IN_MEMORY: Treatment = NoEffect("sessions are kept in this process's memory and in tickets");
const TLS_LIBRARY: Treatment = NoEffect("Saker's TLS library has its own random numbers, and no engines");
const NEVER_RENEGOTIATES: Treatment = NoEffect("Saker's TLS never compresses, never renegotiates");
const GOOD_ONES: Treatment = NoEffect("only good responses are stapled, never a responder's errors");
const STAPLES_KEPT: Treatment = NoEffect("responses are kept in memory and in the state directory");
const SRP: Treatment = Unsupported("SRP is not part of TLS 1.3 and was never in browsers: remove it");
const ANY_DEPTH: Treatment =
    Unsupported("name the authorities that may vouch with SSLProxyCACertificateFile: chains of any length to them pass");
const ONE_IDENTITY: Treatment = Unsupported("name the one certificate with SSLProxyMachineCertificateFile");
const CHAIN_IN_FILE: Treatment = Unsupported("put the chain behind the certificate in SSLProxyMachineCertificateFile");
const NO_OCSP: Treatment = Denies("check revocation with SSLCARevocationFile");
const GONE_LOG: Treatment = NoEffect("it has had no effect since Apache 2.4: use ErrorLog and LogLevel");
const NETWARE: Treatment = Unsupported("it is for NetWare: use mod_ssl");

pub(super) const ROWS: &[Row] = &[
    row("SSLPassPhraseDialog", SSL, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("SSLSessionCache", SSL, A, "s", One, SERVER, VIRTUAL_HOST, SESSIONS_IN_MEMORY),
    row("SSLCryptoDevice", SSL, A, "s", One, SERVER, VIRTUAL_HOST, TLS_LIBRARY),
    row("SSLRandomSeed", SSL, A, "s", TwoOrThree, SERVER, VIRTUAL_HOST, TLS_LIBRARY),
    row("SSLVHostSNIPolicy", SSL, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("SSLEngine", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLFIPS", SSL, A, "s", Flag, SERVER, VIRTUAL_HOST, TLS_LIBRARY),
    row("SSLCipherSuite", SSL, A, "svdh", OneOrTwo, AUTH_CONFIG.or(SERVER), NOWHERE, Honoured),
    row("SSLCertificateFile", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLCertificateKeyFile", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLCertificateChainFile", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLSessionTicketKeyFile", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLCACertificatePath", SSL, A, "sv", One, AUTH_CONFIG.or(SERVER), NOWHERE, Honoured),
    row("SSLCACertificateFile", SSL, A, "sv", One, AUTH_CONFIG.or(SERVER), NOWHERE, Honoured),
    row("SSLCADNRequestPath", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLCADNRequestFile", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLCARevocationPath", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLCARevocationFile", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLCARevocationCheck", SSL, A, "sv", Raw, SERVER, NOWHERE, Honoured),
    row("SSLVerifyClient", SSL, A, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, Honoured),
    row("SSLVerifyDepth", SSL, A, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, Honoured),
    row("SSLSessionCacheTimeout", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLProtocol", SSL, A, "sv", Raw, SERVER, NOWHERE, Honoured),
    row("SSLHonorCipherOrder", SSL, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("SSLCompression", SSL, A, "sv", Flag, SERVER, NOWHERE, NEVER_RENEGOTIATES),
    row("SSLSessionTickets", SSL, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("SSLInsecureRenegotiation", SSL, A, "sv", Flag, SERVER, NOWHERE, NEVER_RENEGOTIATES),
    row("SSLUserName", SSL, A, "sdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, Honoured),
    row("SSLStrictSNIVHostCheck", SSL, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("SSLSRPVerifierFile", SSL, A, "sv", One, SERVER, NOWHERE, SRP),
    row("SSLSRPUnknownUserSeed", SSL, A, "sv", One, SERVER, NOWHERE, SRP),
    row("SSLProxyEngine", SSL, A, "svp", Flag, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyProtocol", SSL, A, "svp", Raw, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyCipherSuite", SSL, A, "svp", OneOrTwo, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyVerify", SSL, A, "svp", One, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyVerifyDepth", SSL, A, "svp", One, SERVER.or(PROXY), NOWHERE, ANY_DEPTH),
    row("SSLProxyCACertificateFile", SSL, A, "svp", One, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyCACertificatePath", SSL, A, "svp", One, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyCARevocationPath", SSL, A, "svp", One, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyCARevocationFile", SSL, A, "svp", One, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyCARevocationCheck", SSL, A, "svp", Raw, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyMachineCertificateFile", SSL, A, "svp", One, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyMachineCertificatePath", SSL, A, "svp", One, SERVER.or(PROXY), NOWHERE, ONE_IDENTITY),
    row("SSLProxyMachineCertificateChainFile", SSL, A, "svp", One, SERVER.or(PROXY), NOWHERE, CHAIN_IN_FILE),
    row("SSLProxyCheckPeerExpire", SSL, A, "svp", Flag, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyCheckPeerCN", SSL, A, "svp", Flag, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLProxyCheckPeerName", SSL, A, "svp", Flag, SERVER.or(PROXY), NOWHERE, Honoured),
    row("SSLOptions", SSL, A, "svdh", Raw, OPTIONS, NOWHERE, Honoured),
    row("SSLRequireSSL", SSL, A, "dh", Raw, AUTH_CONFIG, NOWHERE, Honoured),
    row("SSLRequire", SSL, A, "dh", Raw, AUTH_CONFIG, NOWHERE, Honoured),
    row("SSLRenegBufferSize", SSL, A, "dh", One, AUTH_CONFIG, NOWHERE, NEVER_RENEGOTIATES),
    row("SSLOCSPEnable", SSL, A, "sv", Raw, SERVER, NOWHERE, NO_OCSP),
    row("SSLOCSPDefaultResponder", SSL, A, "sv", One, SERVER, NOWHERE, NO_OCSP),
    row("SSLOCSPOverrideResponder", SSL, A, "sv", Flag, SERVER, NOWHERE, NO_OCSP),
    row("SSLOCSPResponseTimeSkew", SSL, A, "sv", One, SERVER, NOWHERE, NO_OCSP),
    row("SSLOCSPResponseMaxAge", SSL, A, "sv", One, SERVER, NOWHERE, NO_OCSP),
    row("SSLOCSPResponderTimeout", SSL, A, "sv", One, SERVER, NOWHERE, NO_OCSP),
    row("SSLOCSPUseRequestNonce", SSL, A, "sv", Flag, SERVER, NOWHERE, NO_OCSP),
    row("SSLOCSPProxyURL", SSL, A, "sv", One, SERVER, NOWHERE, NO_OCSP),
    row("SSLOCSPNoVerify", SSL, A, "sv", Flag, SERVER, NOWHERE, NO_OCSP),
    row("SSLOCSPResponderCertificateFile", SSL, A, "sv", One, SERVER, NOWHERE, NO_OCSP),
    row("SSLStaplingCache", SSL, A, "s", One, SERVER, VIRTUAL_HOST, STAPLES_KEPT),
    row("SSLUseStapling", SSL, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("SSLStaplingResponseTimeSkew", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLStaplingResponderTimeout", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLStaplingResponseMaxAge", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLStaplingStandardCacheTimeout", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLStaplingReturnResponderErrors", SSL, A, "sv", Flag, SERVER, NOWHERE, GOOD_ONES),
    row("SSLStaplingFakeTryLater", SSL, A, "sv", Flag, SERVER, NOWHERE, GOOD_ONES),
    row("SSLStaplingErrorCacheTimeout", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLStaplingForceURL", SSL, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSLOpenSSLConfCmd", SSL, A, "sv", Two, SERVER, NOWHERE, Honoured),
    row("SSLLog", SSL, B, "svdh", Raw, ALL, NOWHERE, GONE_LOG),
    row("SSLLogLevel", SSL, B, "svdh", Raw, ALL, NOWHERE, GONE_LOG),
    row("NWSSLTrustedCerts", NW_SSL, C, "s", Each, SERVER, NOWHERE, NETWARE),
    row("NWSSLUpgradeable", NW_SSL, C, "s", Each, SERVER, NOWHERE, NETWARE),
    row("SecureListen", NW_SSL, C, "s", TwoOrThree, SERVER, NOWHERE, NETWARE),
];
