//! Directives of modules that are not Apache's and that Saker has nothing for. One row per
//! directive (`row.rs`); a name that ends with `*` stands for all that begin with it.
//!
//! They are known only where their module is loaded, as in Apache. What they do is not done, and
//! `saker check` says what to do instead; where they decide over access, or over what must not be
//! shown as a file, what lies in their scope is refused and the rest is served.

use crate::row::{
    ACCESS, ALL,
    Importance::C,
    NOWHERE, Overrides, Row, SERVER,
    Shape::{Raw, Section},
    Treatment::{self, Denies, Unsupported},
    row,
};

const DAV_SVN: &[&str] = &["dav_svn_module"];
const AUTHZ_SVN: &[&str] = &["authz_svn_module"];
const PERL: &[&str] = &["perl_module"];
const PYTHON: &[&str] = &["python_module"];
const WSGI: &[&str] = &["wsgi_module"];
const JK: &[&str] = &["jk_module"];
const PASSENGER: &[&str] = &["passenger_module"];
const FASTCGI: &[&str] = &["fastcgi_module"];
const QOS: &[&str] = &["qos_module"];
const BW: &[&str] = &["bw_module"];
const CBAND: &[&str] = &["cband_module"];
const DOSDETECTOR: &[&str] = &["dosdetector_module"];
const BWLIMITED: &[&str] = &["bwlimited_module"];
const HOSTINGLIMITS: &[&str] = &["hostinglimits_module"];
const SUPHP: &[&str] = &["suphp_module"];
const RUID2: &[&str] = &["ruid2_module"];
const PAGESPEED: &[&str] = &["pagespeed_module"];
const RPAF: &[&str] = &["rpaf_module"];
const CLOUDFLARE: &[&str] = &["cloudflare_module"];
const AUTH_KERB: &[&str] = &["auth_kerb_module"];
const AUTH_GSSAPI: &[&str] = &["auth_gssapi_module"];
const AUTH_OPENIDC: &[&str] = &["auth_openidc_module"];
const AUTH_MELLON: &[&str] = &["auth_mellon_module"];
const MOD_SHIB: &[&str] = &["mod_shib"];
const AUTH_CAS: &[&str] = &["auth_cas_module"];
const AUTHNZ_EXTERNAL: &[&str] = &["authnz_external_module"];
const UPLOAD_PROGRESS: &[&str] = &["upload_progress_module"];

const EVERYWHERE: Overrides = ALL.or(ACCESS).or(SERVER);
const OUTSIDE: Overrides = ACCESS.or(SERVER);
const IN_FOLDERS: Overrides = ACCESS;
const IN_FOLDERS_AND_FILES: Overrides = ALL.or(ACCESS);

/// The way out for repositories of Subversion.
pub const NO_SUBVERSION: &str = "serve Subversion by svnserve, or by an Apache behind ProxyPass";
const NO_SVN: Treatment = Unsupported(NO_SUBVERSION);
const NO_SVN_HERE: Treatment = Denies(NO_SUBVERSION);
const NO_GUARD: Treatment =
    Denies("its code is not run: say who may enter with Require, or let the application decide");
const NO_PERL: Treatment =
    Unsupported("run the application by itself (plackup, starman) behind ProxyPass, or as CGI");
const NO_PYTHON: Treatment =
    Unsupported("run the application by itself (gunicorn, uwsgi) behind ProxyPass");
const NO_JK: Treatment = Unsupported("use ProxyPass with an ajp:// or http:// address");
const NO_JK_HERE: Treatment = Denies("use ProxyPass with an ajp:// or http:// address");
const NO_PASSENGER: Treatment =
    Unsupported("run the application by itself (puma, passenger standalone) behind ProxyPass");
const NO_FASTCGI: Treatment =
    Unsupported("use mod_proxy_fcgi's SetHandler proxy:unix:…|fcgi://, or mod_fcgid's directives");
const NO_LIMITS: Treatment =
    Unsupported("use mod_evasive's directives, LimitIPConn or mod_reqtimeout's");
const NO_BANDWIDTH: Treatment = Unsupported("use mod_ratelimit");
const NO_CONTAINERS: Treatment =
    Unsupported("limit users by systemd slices or by the processes of a pool in [php]");
const BY_SUEXEC: Treatment = Unsupported("use SuexecUserGroup, which PHP obeys, too");
const NO_PAGESPEED: Treatment = Unsupported("optimize pages when they are built");
const BY_REMOTEIP: Treatment = Unsupported("use RemoteIPHeader and RemoteIPInternalProxy");
const NO_LOGIN: Treatment = Unsupported(
    "requests that need a user are refused; log in within the application or use Basic authentication",
);
const NO_PROGRESS: Treatment = Unsupported("let the application tell of the progress of uploads");

pub(super) const ROWS: &[Row] = &[
    row(
        "SVNPath",
        DAV_SVN,
        C,
        "d",
        Raw,
        IN_FOLDERS,
        NOWHERE,
        NO_SVN_HERE,
    ),
    row(
        "SVNParentPath",
        DAV_SVN,
        C,
        "d",
        Raw,
        IN_FOLDERS,
        NOWHERE,
        NO_SVN_HERE,
    ),
    row(
        "AuthzForceUsernameCase",
        AUTHZ_SVN,
        C,
        "d",
        Raw,
        IN_FOLDERS,
        NOWHERE,
        NO_SVN_HERE,
    ),
    row(
        "PerlAccessHandler",
        PERL,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_GUARD,
    ),
    row(
        "PerlAuthenHandler",
        PERL,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_GUARD,
    ),
    row(
        "PerlAuthzHandler",
        PERL,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_GUARD,
    ),
    row("<Perl", PERL, C, "svd", Section, OUTSIDE, NOWHERE, NO_PERL),
    row(
        "PythonAccessHandler",
        PYTHON,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_GUARD,
    ),
    row(
        "PythonAuthenHandler",
        PYTHON,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_GUARD,
    ),
    row(
        "PythonAuthzHandler",
        PYTHON,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_GUARD,
    ),
    row(
        "WSGIAccessScript",
        WSGI,
        C,
        "dh",
        Raw,
        IN_FOLDERS_AND_FILES,
        NOWHERE,
        NO_GUARD,
    ),
    row(
        "WSGIAuthUserScript",
        WSGI,
        C,
        "dh",
        Raw,
        IN_FOLDERS_AND_FILES,
        NOWHERE,
        NO_GUARD,
    ),
    row(
        "WSGIAuthGroupScript",
        WSGI,
        C,
        "dh",
        Raw,
        IN_FOLDERS_AND_FILES,
        NOWHERE,
        NO_GUARD,
    ),
    row("JkMount", JK, C, "svd", Raw, OUTSIDE, NOWHERE, NO_JK_HERE),
    row(
        "JkAutoAlias",
        JK,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_JK_HERE,
    ),
    row(
        "JkMountFile",
        JK,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_JK_HERE,
    ),
    row(
        "ForceBandWidthModule",
        BW,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_BANDWIDTH,
    ),
    row(
        "MinBandWidth",
        BW,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_BANDWIDTH,
    ),
    row(
        "LargeFileLimit",
        BW,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_BANDWIDTH,
    ),
    row(
        "MaxConnection",
        BW,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_BANDWIDTH,
    ),
    row(
        "AllowedHandlers",
        HOSTINGLIMITS,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_CONTAINERS,
    ),
    row(
        "SkipErrors",
        HOSTINGLIMITS,
        C,
        "s",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_CONTAINERS,
    ),
    row(
        "DenyHandlers",
        HOSTINGLIMITS,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_CONTAINERS,
    ),
    row(
        "SecureLinks",
        HOSTINGLIMITS,
        C,
        "s",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_CONTAINERS,
    ),
    row("RMode", RUID2, C, "svd", Raw, OUTSIDE, NOWHERE, BY_SUEXEC),
    row("RUidGid", RUID2, C, "svd", Raw, OUTSIDE, NOWHERE, BY_SUEXEC),
    row("RGroups", RUID2, C, "svd", Raw, OUTSIDE, NOWHERE, BY_SUEXEC),
    row(
        "RMinUidGid",
        RUID2,
        C,
        "sv",
        Raw,
        OUTSIDE,
        NOWHERE,
        BY_SUEXEC,
    ),
    row(
        "RDefaultUidGid",
        RUID2,
        C,
        "sv",
        Raw,
        OUTSIDE,
        NOWHERE,
        BY_SUEXEC,
    ),
    row(
        "RDocumentChRoot",
        RUID2,
        C,
        "sv",
        Raw,
        OUTSIDE,
        NOWHERE,
        BY_SUEXEC,
    ),
    row(
        "<ModPagespeedIf",
        PAGESPEED,
        C,
        "sv",
        Section,
        OUTSIDE,
        NOWHERE,
        NO_PAGESPEED,
    ),
    row(
        "TrackUploads",
        UPLOAD_PROGRESS,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_PROGRESS,
    ),
    row(
        "ProgressRemotePath",
        UPLOAD_PROGRESS,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_PROGRESS,
    ),
    row(
        "ReportUploads",
        UPLOAD_PROGRESS,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_PROGRESS,
    ),
];

/// By the beginnings of their names.
pub(super) const FAMILIES: &[Row] = &[
    row("SVN*", DAV_SVN, C, "svd", Raw, OUTSIDE, NOWHERE, NO_SVN),
    row(
        "AuthzSVN*",
        AUTHZ_SVN,
        C,
        "d",
        Raw,
        IN_FOLDERS,
        NOWHERE,
        NO_SVN_HERE,
    ),
    row("Perl*", PERL, C, "svdh", Raw, EVERYWHERE, NOWHERE, NO_PERL),
    row(
        "Python*", PYTHON, C, "svdh", Raw, EVERYWHERE, NOWHERE, NO_PYTHON,
    ),
    row(
        "WSGI*", WSGI, C, "svdh", Raw, EVERYWHERE, NOWHERE, NO_PYTHON,
    ),
    row("Jk*", JK, C, "svd", Raw, OUTSIDE, NOWHERE, NO_JK),
    row(
        "Passenger*",
        PASSENGER,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_PASSENGER,
    ),
    row(
        "Rails*",
        PASSENGER,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_PASSENGER,
    ),
    row(
        "Rack*",
        PASSENGER,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_PASSENGER,
    ),
    row(
        "FastCgi*", FASTCGI, C, "svdh", Raw, EVERYWHERE, NOWHERE, NO_FASTCGI,
    ),
    row("QS_*", QOS, C, "svd", Raw, OUTSIDE, NOWHERE, NO_LIMITS),
    row("QSC_*", QOS, C, "svd", Raw, OUTSIDE, NOWHERE, NO_LIMITS),
    row(
        "BandWidth*",
        BW,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_BANDWIDTH,
    ),
    row(
        "CBand*",
        CBAND,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_BANDWIDTH,
    ),
    row(
        "<CBand*",
        CBAND,
        C,
        "sv",
        Section,
        OUTSIDE,
        NOWHERE,
        NO_BANDWIDTH,
    ),
    row(
        "DoS*",
        DOSDETECTOR,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_LIMITS,
    ),
    row(
        "BwLimited*",
        BWLIMITED,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_BANDWIDTH,
    ),
    row(
        "LVE*",
        HOSTINGLIMITS,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_CONTAINERS,
    ),
    row(
        "suPHP_*", SUPHP, C, "svdh", Raw, EVERYWHERE, NOWHERE, BY_SUEXEC,
    ),
    row(
        "ModPagespeed*",
        PAGESPEED,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_PAGESPEED,
    ),
    row(
        "Pagespeed*",
        PAGESPEED,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_PAGESPEED,
    ),
    row("RPAF*", RPAF, C, "svd", Raw, OUTSIDE, NOWHERE, BY_REMOTEIP),
    row(
        "CloudFlare*",
        CLOUDFLARE,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        BY_REMOTEIP,
    ),
    row(
        "Krb*",
        AUTH_KERB,
        C,
        "dh",
        Raw,
        IN_FOLDERS_AND_FILES,
        NOWHERE,
        NO_LOGIN,
    ),
    row(
        "Gssapi*",
        AUTH_GSSAPI,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_LOGIN,
    ),
    row(
        "OIDC*",
        AUTH_OPENIDC,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_LOGIN,
    ),
    row(
        "Mellon*",
        AUTH_MELLON,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_LOGIN,
    ),
    row(
        "Shib*", MOD_SHIB, C, "svdh", Raw, EVERYWHERE, NOWHERE, NO_LOGIN,
    ),
    row(
        "CAS*", AUTH_CAS, C, "svdh", Raw, EVERYWHERE, NOWHERE, NO_LOGIN,
    ),
    row(
        "AuthExternal*",
        AUTHNZ_EXTERNAL,
        C,
        "svdh",
        Raw,
        EVERYWHERE,
        NOWHERE,
        NO_LOGIN,
    ),
    row(
        "GroupExternal*",
        AUTHNZ_EXTERNAL,
        C,
        "dh",
        Raw,
        IN_FOLDERS_AND_FILES,
        NOWHERE,
        NO_LOGIN,
    ),
    row(
        "DefineExternal*",
        AUTHNZ_EXTERNAL,
        C,
        "sv",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_LOGIN,
    ),
    row(
        "AddExternal*",
        AUTHNZ_EXTERNAL,
        C,
        "sv",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_LOGIN,
    ),
    row(
        "SetExternal*",
        AUTHNZ_EXTERNAL,
        C,
        "sv",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_LOGIN,
    ),
    row(
        "UploadProgress*",
        UPLOAD_PROGRESS,
        C,
        "svd",
        Raw,
        OUTSIDE,
        NOWHERE,
        NO_PROGRESS,
    ),
];
