//! Programs and servers behind this one. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ACCESS, DIRECTORY, FILE_INFO, FILES, INDEXES,
    Importance::{A, B, C},
    NOWHERE, OPTIONS, Row, SERVER,
    Shape::{Each, EachWithFirst, Flag, One, OneOrTwo, OneToThree, Raw, Section, Two, TwoOrThree},
    Treatment::{self, Denies, Honoured, Later, NoEffect},
    VIRTUAL_HOST, row,
};

const CGI_OR_CGID: &[&str] = &["cgi_module", "cgid_module"];
const CGI: &[&str] = &["cgi_module"];
const CGID: &[&str] = &["cgid_module"];
const PROXY: &[&str] = &["proxy_module"];
const PROXY_CONNECT: &[&str] = &["proxy_connect_module"];
const PROXY_EXPRESS: &[&str] = &["proxy_express_module"];
const PROXY_FCGI: &[&str] = &["proxy_fcgi_module"];
const PROXY_FTP: &[&str] = &["proxy_ftp_module"];
const PROXY_HCHECK: &[&str] = &["proxy_hcheck_module"];
const PROXY_HTML: &[&str] = &["proxy_html_module"];
const PROXY_SCGI: &[&str] = &["proxy_scgi_module"];
const PROXY_WSTUNNEL: &[&str] = &["proxy_wstunnel_module"];
const PHP: &[&str] = &["php_module"];
const XSENDFILE: &[&str] = &["xsendfile_module"];
const FCGID: &[&str] = &["fcgid_module"];

/// Pools of PHP have bounds of their own.
const OWN_PHP: Treatment = NoEffect("the server's own PHP grows and shrinks by itself; its bounds are those of a pool");

const GATEWAYS: Treatment = Later("gateways and proxying");
const BUFFERS: Treatment = NoEffect("buffers grow with what is sent and are bounded by themselves");
const NO_MANAGER: Treatment = NoEffect("members are those of the configuration; changes take a reload");
const NO_STATUS: Treatment = NoEffect("the status page shows what it shows whatever this says");
const NO_POOL: Treatment = NoEffect("health checks need no threads");
const NO_REMOTE: Treatment = NoEffect("names without a domain are left to the name server");
const NO_EXPECT: Treatment = NoEffect("Expect is answered here, when the content is wanted, and not passed on");
const BAD_FIELDS: Treatment = NoEffect("an answer with a field that can't be read is an error, as with Apache's default");

pub(super) const ROWS: &[Row] = &[
    row("ScriptLog", CGI_OR_CGID, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("ScriptLogLength", CGI_OR_CGID, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("ScriptLogBuffer", CGI_OR_CGID, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("CGIScriptTimeout", CGI, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("ScriptSock", CGID, A, "s", One, SERVER, VIRTUAL_HOST, NoEffect("Saker starts programs itself")),
    row("CGIDScriptTimeout", CGID, A, "svdh", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("<Proxy", PROXY, A, "sv", Section, SERVER, NOWHERE, Honoured),
    row("<ProxyMatch", PROXY, A, "sv", Section, SERVER, NOWHERE, Honoured),
    row("ProxyRequests", PROXY, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("ProxyRemote", PROXY, A, "sv", TwoOrThree, SERVER, NOWHERE, Honoured),
    row("ProxyRemoteMatch", PROXY, A, "sv", TwoOrThree, SERVER, NOWHERE, Honoured),
    row("ProxyPassInterpolateEnv", PROXY, A, "svd", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("ProxyPass", PROXY, A, "svd", Raw, ACCESS.or(SERVER), DIRECTORY.or(FILES), Honoured),
    row("ProxyPassMatch", PROXY, A, "svd", Raw, ACCESS.or(SERVER), DIRECTORY.or(FILES), Honoured),
    row("ProxyPassReverse", PROXY, A, "svd", OneToThree, ACCESS.or(SERVER), DIRECTORY.or(FILES), Honoured),
    row("ProxyPassReverseCookiePath", PROXY, A, "svd", TwoOrThree, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("ProxyPassReverseCookieDomain", PROXY, A, "svd", TwoOrThree, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("ProxyBlock", PROXY, A, "sv", Each, SERVER, NOWHERE, Honoured),
    row("ProxyReceiveBufferSize", PROXY, A, "sv", One, SERVER, NOWHERE, BUFFERS),
    row("ProxyIOBufferSize", PROXY, A, "sv", One, SERVER, NOWHERE, BUFFERS),
    row("ProxyMaxForwards", PROXY, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("NoProxy", PROXY, A, "sv", Each, SERVER, NOWHERE, Honoured),
    row("ProxyDomain", PROXY, A, "sv", One, SERVER, NOWHERE, NO_REMOTE),
    row("ProxyVia", PROXY, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("ProxyErrorOverride", PROXY, A, "svd", Each, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("ProxyPreserveHost", PROXY, A, "svd", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("ProxyTimeout", PROXY, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("ProxyBadHeader", PROXY, A, "sv", One, SERVER, NOWHERE, BAD_FIELDS),
    row("BalancerMember", PROXY, A, "d", Raw, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("BalancerGrowth", PROXY, A, "sv", One, SERVER, NOWHERE, NO_MANAGER),
    row("BalancerPersist", PROXY, A, "sv", Flag, SERVER, NOWHERE, NO_MANAGER),
    row("BalancerInherit", PROXY, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("ProxyPassInherit", PROXY, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("ProxyStatus", PROXY, A, "sv", One, SERVER, NOWHERE, NO_STATUS),
    row("ProxySet", PROXY, A, "svd", Raw, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("ProxySourceAddress", PROXY, A, "sv", One, SERVER, NOWHERE, GATEWAYS),
    row("ProxyAddHeaders", PROXY, A, "svd", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("Proxy100Continue", PROXY, A, "svd", Flag, ACCESS.or(SERVER), NOWHERE, NO_EXPECT),
    row("AllowCONNECT", PROXY_CONNECT, B, "sv", Each, SERVER, NOWHERE, Honoured),
    row("ProxyExpressEnable", PROXY_EXPRESS, B, "sv", Flag, FILE_INFO, NOWHERE, Honoured),
    row("ProxyExpressDBMFile", PROXY_EXPRESS, B, "sv", One, FILE_INFO, NOWHERE, Honoured),
    row("ProxyExpressDBMType", PROXY_EXPRESS, B, "sv", One, FILE_INFO, NOWHERE, Honoured),
    row("ProxyFCGIBackendType", PROXY_FCGI, A, "svdh", One, FILE_INFO, NOWHERE, Honoured),
    row("ProxyFCGISetEnvIf", PROXY_FCGI, A, "svdh", TwoOrThree, FILE_INFO, NOWHERE, Honoured),
    row("ProxyFtpListOnWildcard", PROXY_FTP, C, "svd", Flag, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyFtpEscapeWildcards", PROXY_FTP, C, "svd", Flag, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyFtpDirCharset", PROXY_FTP, C, "svd", One, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHCTemplate", PROXY_HCHECK, B, "sv", Raw, FILE_INFO, NOWHERE, Honoured),
    row("ProxyHCExpr", PROXY_HCHECK, B, "sv", Raw, FILE_INFO, NOWHERE, Honoured),
    row("ProxyHCTPsize", PROXY_HCHECK, B, "s", One, SERVER, VIRTUAL_HOST, NO_POOL),
    row("ProxyHTMLEvents", PROXY_HTML, B, "svd", Each, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLLinks", PROXY_HTML, B, "svd", EachWithFirst, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLURLMap", PROXY_HTML, B, "svd", Raw, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLDoctype", PROXY_HTML, B, "svd", OneOrTwo, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLFixups", PROXY_HTML, B, "svd", Each, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLMeta", PROXY_HTML, B, "svd", Flag, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLInterp", PROXY_HTML, B, "svd", Flag, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLExtended", PROXY_HTML, B, "svd", Flag, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLStripComments", PROXY_HTML, B, "svd", Flag, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLBufSize", PROXY_HTML, B, "svd", One, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLCharsetOut", PROXY_HTML, B, "svd", One, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyHTMLEnable", PROXY_HTML, B, "svd", Flag, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxySCGISendfile", PROXY_SCGI, B, "svd", One, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxySCGIInternalRedirect", PROXY_SCGI, B, "svd", One, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("ProxyWebsocketFallbackToProxyHttp", PROXY_WSTUNNEL, A, "sv", Flag, ACCESS.or(SERVER), NOWHERE, GATEWAYS),
    row("XSendFile", XSENDFILE, B, "svdh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("XSendFilePath", XSENDFILE, B, "svd", OneOrTwo, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("XSendFileIgnoreEtag", XSENDFILE, B, "svdh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("XSendFileIgnoreLastModified", XSENDFILE, B, "svdh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("XSendFileUnescape", XSENDFILE, B, "svdh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("XSendFileUnsetContentEncoding", XSENDFILE, B, "svdh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("php_value", PHP, A, "svdh", Two, INDEXES.or(OPTIONS), NOWHERE, Honoured),
    row("php_flag", PHP, A, "svdh", Two, INDEXES.or(OPTIONS), NOWHERE, Honoured),
    row("php_admin_value", PHP, A, "svd", Two, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("php_admin_flag", PHP, A, "svd", Two, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("PHPIniDir", PHP, C, "sv", One, SERVER, NOWHERE, Honoured),
    row("FcgidBusyScanInterval", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidBusyTimeout", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidConnectTimeout", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidErrorScanInterval", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidFixPathinfo", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidIdleScanInterval", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidIdleTimeout", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidIOTimeout", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidIPCDir", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidMaxProcesses", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidMaxProcessesPerClass", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidMaxRequestInMem", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidMaxRequestLen", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidMaxRequestsPerProcess", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidMinProcessesPerClass", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidOutputBufferSize", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidPassHeader", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidProcessLifeTime", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidProcessTableFile", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidSpawnScore", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidSpawnScoreUpLimit", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidTerminationScore", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidTimeScore", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidZombieScanInterval", FCGID, B, "sv", One, SERVER, NOWHERE, OWN_PHP),
    row("FcgidInitialEnv", FCGID, B, "sv", OneOrTwo, SERVER, NOWHERE, OWN_PHP),
    row("FcgidCmdOptions", FCGID, B, "sv", EachWithFirst, SERVER, NOWHERE, OWN_PHP),
    row("FcgidWrapper", FCGID, B, "svdh", OneToThree, FILE_INFO, NOWHERE, Honoured),
    row(
        "FcgidAccessChecker",
        FCGID,
        B,
        "dh",
        One,
        FILE_INFO,
        NOWHERE,
        Denies("its programs are not asked: say who may enter with Require, or let the application decide"),
    ),
    row("FcgidAccessCheckerAuthoritative", FCGID, B, "dh", Flag, FILE_INFO, NOWHERE, OWN_PHP),
    row(
        "FcgidAuthenticator",
        FCGID,
        B,
        "dh",
        One,
        FILE_INFO,
        NOWHERE,
        Denies("its programs are not asked: say who may enter with Require, or let the application decide"),
    ),
    row("FcgidAuthenticatorAuthoritative", FCGID, B, "dh", Flag, FILE_INFO, NOWHERE, OWN_PHP),
    row(
        "FcgidAuthorizer",
        FCGID,
        B,
        "dh",
        One,
        FILE_INFO,
        NOWHERE,
        Denies("its programs are not asked: say who may enter with Require, or let the application decide"),
    ),
    row("FcgidAuthorizerAuthoritative", FCGID, B, "dh", Flag, FILE_INFO, NOWHERE, OWN_PHP),
];
