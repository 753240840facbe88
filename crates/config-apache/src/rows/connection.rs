//! Client addresses, time limits of requests, HTTP/2. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    AUTH_CONFIG, FILE_INFO,
    Importance::{A, C},
    NOWHERE, Row, SERVER,
    Shape::{Any, Each, Flag, One, OneToThree, Raw, Two, TwoOrThree},
    Treatment::{self, Honoured, Later, NoEffect, Pending, Unsupported},
    row,
};

const ECHO: &[&str] = &["echo_module"];
const HTTP2: &[&str] = &["http2_module"];
const REMOTEIP: &[&str] = &["remoteip_module"];
const REQTIMEOUT: &[&str] = &["reqtimeout_module"];

const NO_SUCH_THREADS: Treatment = NoEffect("it is about threads that Saker does not have");
const OWN_SIZES: Treatment = NoEffect("Saker sizes its writes by itself");
const NO_PUSH: Treatment = NoEffect("browsers no longer accept pushed responses");
const GATEWAYS: Treatment = Later("gateways and proxying");

pub(super) const ROWS: &[Row] = &[
    row("ProtocolEcho", ECHO, C, "sv", Flag, SERVER, NOWHERE, Unsupported("it is an example module: remove it")),
    row("H2MaxSessionStreams", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2WindowSize", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2MinWorkers", HTTP2, A, "s", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2MaxWorkers", HTTP2, A, "s", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2MaxWorkerIdleSeconds", HTTP2, A, "s", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2StreamMaxMemSize", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2SerializeHeaders", HTTP2, A, "sv", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2ModernTLSOnly", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2Upgrade", HTTP2, A, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, Pending),
    row("H2Direct", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2SessionExtraFiles", HTTP2, C, "sv", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2TLSWarmUpSize", HTTP2, A, "sv", One, SERVER, NOWHERE, OWN_SIZES),
    row("H2TLSCoolDownSecs", HTTP2, A, "sv", One, SERVER, NOWHERE, OWN_SIZES),
    row("H2Push", HTTP2, A, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_PUSH),
    row("H2PushPriority", HTTP2, A, "sv", TwoOrThree, SERVER, NOWHERE, NO_PUSH),
    row("H2PushDiarySize", HTTP2, A, "sv", One, SERVER, NOWHERE, NO_PUSH),
    row("H2CopyFiles", HTTP2, A, "svdh", One, FILE_INFO, NOWHERE, NO_SUCH_THREADS),
    row("H2PushResource", HTTP2, A, "svdh", OneToThree, AUTH_CONFIG.or(FILE_INFO), NOWHERE, NO_PUSH),
    row("H2EarlyHints", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2Padding", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2OutputBuffering", HTTP2, A, "sv", One, SERVER, NOWHERE, OWN_SIZES),
    row("H2StreamTimeout", HTTP2, A, "svd", One, SERVER, NOWHERE, Pending),
    row("H2MaxDataFrameLen", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2MaxHeaderBlockLen", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2MaxStreamErrors", HTTP2, A, "sv", One, SERVER, NOWHERE, Pending),
    row("H2EarlyHint", HTTP2, A, "svdh", Two, AUTH_CONFIG.or(FILE_INFO), NOWHERE, Pending),
    row("H2ProxyRequests", HTTP2, A, "sv", One, FILE_INFO, NOWHERE, GATEWAYS),
    row("H2WebSockets", HTTP2, A, "sv", One, SERVER, NOWHERE, GATEWAYS),
    row("RemoteIPHeader", REMOTEIP, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("RemoteIPProxiesHeader", REMOTEIP, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("RemoteIPTrustedProxy", REMOTEIP, A, "sv", Each, SERVER, NOWHERE, Honoured),
    row("RemoteIPInternalProxy", REMOTEIP, A, "sv", Each, SERVER, NOWHERE, Honoured),
    row("RemoteIPTrustedProxyList", REMOTEIP, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("RemoteIPInternalProxyList", REMOTEIP, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("RemoteIPProxyProtocol", REMOTEIP, A, "sv", Flag, SERVER, NOWHERE, Pending),
    row("RemoteIPProxyProtocolExceptions", REMOTEIP, A, "sv", Any, SERVER, NOWHERE, Pending),
    row("RequestReadTimeout", REQTIMEOUT, A, "sv", Raw, SERVER, NOWHERE, Pending),
];
