//! mod_security 2.9, as Debian builds it (nothing of it stands in `.htaccess`), and ModSecurity's
//! connector for Apache. One row per directive (`row.rs`).

use crate::row::{
    ACCESS,
    Importance::{A, B, C},
    NOWHERE, Overrides, Row, SERVER,
    Shape::{Flag, One, Raw},
    Treatment::{Honored, NoEffect},
    row,
};

const SECURITY: &[&str] = &["security2_module"];
const CONNECTOR: &[&str] = &["security3_module"];
const ANYWHERE: Overrides = ACCESS.or(SERVER);
const NO_GUARDIAN: &str = "no program is told of each request";
const NO_BUFFERS: &str = "libmodsecurity has content in memory only";
const NO_CONNECTIONS: &str =
    "connections are limited by [guard] and by mod_evasive's directives (docs/rate-limits.md)";
const NO_HASHES: &str =
    "libmodsecurity signs no links; `signed` does (docs/link-protection.md). On is refused";

/// Rules and their settings: what they say is libmodsecurity's.
const fn rule(name: &'static str) -> Row {
    row(name, SECURITY, A, "svd", Raw, ANYWHERE, NOWHERE, Honored)
}

const fn of_server(name: &'static str) -> Row {
    row(name, SECURITY, B, "sv", Raw, SERVER, NOWHERE, Honored)
}

const fn idle(name: &'static str, why: &'static str) -> Row {
    row(
        name,
        SECURITY,
        C,
        "svd",
        Raw,
        ANYWHERE,
        NOWHERE,
        NoEffect(why),
    )
}

pub(super) const ROWS: &[Row] = &[
    rule("SecAction"),
    rule("SecArgumentSeparator"),
    rule("SecArgumentsLimit"),
    rule("SecAuditEngine"),
    rule("SecAuditLog"),
    rule("SecAuditLog2"),
    rule("SecAuditLogDirMode"),
    rule("SecAuditLogFileMode"),
    rule("SecAuditLogFormat"),
    rule("SecAuditLogParts"),
    rule("SecAuditLogRelevantStatus"),
    rule("SecAuditLogStorageDir"),
    rule("SecAuditLogType"),
    idle(
        "SecCacheTransformations",
        "libmodsecurity keeps no transformations",
    ),
    of_server("SecChrootDir"),
    rule("SecCollectionTimeout"),
    row(
        "SecComponentSignature",
        SECURITY,
        C,
        "sv",
        Raw,
        SERVER,
        NOWHERE,
        NoEffect("libmodsecurity's audit log has none"),
    ),
    idle("SecConnEngine", NO_CONNECTIONS),
    idle("SecConnReadStateLimit", NO_CONNECTIONS),
    idle("SecConnWriteStateLimit", NO_CONNECTIONS),
    idle("SecContentInjection", "libmodsecurity changes no content"),
    rule("SecCookieFormat"),
    idle(
        "SecCookiev0Separator",
        "libmodsecurity reads cookies of version 0 as browsers write them",
    ),
    of_server("SecDataDir"),
    rule("SecDebugLog"),
    rule("SecDebugLogLevel"),
    rule("SecDefaultAction"),
    idle(
        "SecDisableBackendCompression",
        "servers behind are asked as clients ask",
    ),
    of_server("SecGeoLookupDB"),
    row(
        "SecGsbLookupDB",
        SECURITY,
        C,
        "sv",
        Raw,
        SERVER,
        NOWHERE,
        NoEffect("the service is no more"),
    ),
    row(
        "SecGuardianLog",
        SECURITY,
        C,
        "sv",
        Raw,
        SERVER,
        NOWHERE,
        NoEffect(NO_GUARDIAN),
    ),
    rule("SecHashEngine"),
    idle("SecHashKey", NO_HASHES),
    idle("SecHashMethodPm", NO_HASHES),
    idle("SecHashMethodRx", NO_HASHES),
    idle("SecHashParam", NO_HASHES),
    rule("SecHttpBlKey"),
    rule("SecInterceptOnError"),
    rule("SecMarker"),
    of_server("SecPcreMatchLimit"),
    of_server("SecPcreMatchLimitRecursion"),
    idle("SecReadStateLimit", NO_CONNECTIONS),
    rule("SecRemoteRules"),
    rule("SecRemoteRulesFailAction"),
    rule("SecRequestBodyAccess"),
    idle("SecRequestBodyInMemoryLimit", NO_BUFFERS),
    rule("SecRequestBodyJsonDepthLimit"),
    rule("SecRequestBodyLimit"),
    rule("SecRequestBodyLimitAction"),
    rule("SecRequestBodyNoFilesLimit"),
    idle(
        "SecRequestEncoding",
        "libmodsecurity takes requests for UTF-8",
    ),
    rule("SecResponseBodyAccess"),
    rule("SecResponseBodyLimit"),
    rule("SecResponseBodyLimitAction"),
    rule("SecResponseBodyMimeType"),
    rule("SecResponseBodyMimeTypesClear"),
    rule("SecRule"),
    rule("SecRuleEngine"),
    row(
        "SecRuleInheritance",
        SECURITY,
        A,
        "svd",
        Flag,
        ANYWHERE,
        NOWHERE,
        Honored,
    ),
    idle(
        "SecRulePerfTime",
        "libmodsecurity does not measure single rules",
    ),
    rule("SecRuleRemoveById"),
    rule("SecRuleRemoveByMsg"),
    rule("SecRuleRemoveByTag"),
    rule("SecRuleScript"),
    rule("SecRuleUpdateActionById"),
    rule("SecRuleUpdateTargetById"),
    rule("SecRuleUpdateTargetByMsg"),
    rule("SecRuleUpdateTargetByTag"),
    row(
        "SecSensorId",
        SECURITY,
        C,
        "sv",
        Raw,
        SERVER,
        NOWHERE,
        NoEffect("libmodsecurity's audit log has none"),
    ),
    row(
        "SecServerSignature",
        SECURITY,
        B,
        "sv",
        Raw,
        SERVER,
        NOWHERE,
        NoEffect("`ServerTokens` says what the Server field has"),
    ),
    rule("SecStatusEngine"),
    idle(
        "SecStreamInBodyInspection",
        "libmodsecurity knows no STREAM_INPUT_BODY",
    ),
    idle(
        "SecStreamOutBodyInspection",
        "libmodsecurity knows no STREAM_OUTPUT_BODY",
    ),
    rule("SecTmpDir"),
    rule("SecTmpSaveUploadedFiles"),
    row(
        "SecUnicodeCodePage",
        SECURITY,
        C,
        "sv",
        Raw,
        SERVER,
        NOWHERE,
        NoEffect("it goes with SecUnicodeMapFile in libmodsecurity"),
    ),
    of_server("SecUnicodeMapFile"),
    rule("SecUploadDir"),
    rule("SecUploadFileLimit"),
    rule("SecUploadFileMode"),
    rule("SecUploadKeepFiles"),
    rule("SecWebAppId"),
    idle("SecWriteStateLimit", NO_CONNECTIONS),
    rule("SecXmlExternalEntity"),
    row(
        "modsecurity",
        CONNECTOR,
        B,
        "svd",
        Flag,
        ANYWHERE,
        NOWHERE,
        Honored,
    ),
    row(
        "modsecurity_rules",
        CONNECTOR,
        B,
        "svd",
        Raw,
        ANYWHERE,
        NOWHERE,
        Honored,
    ),
    row(
        "modsecurity_rules_file",
        CONNECTOR,
        B,
        "svd",
        One,
        ANYWHERE,
        NOWHERE,
        Honored,
    ),
];
