//! Client addresses, time limits of requests, HTTP/2. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    AUTH_CONFIG, FILE_INFO,
    Importance::{A, C},
    NOWHERE, Row, SERVER,
    Shape::{Any, Each, Flag, One, OneToThree, Raw, Two, TwoOrThree},
    Treatment::{self, Honoured, Later, NoEffect, Unsupported},
    row,
};

const ECHO: &[&str] = &["echo_module"];
const HTTP2: &[&str] = &["http2_module"];
const REMOTEIP: &[&str] = &["remoteip_module"];
const REQTIMEOUT: &[&str] = &["reqtimeout_module"];

const NO_SUCH_THREADS: Treatment = NoEffect("it is about threads that Saker does not have");
const OWN_SIZES: Treatment = NoEffect("Saker sizes its writes by itself");
const NO_PUSH: Treatment = NoEffect("browsers no longer accept pushed responses");
const ALWAYS_MODERN: Treatment = NoEffect("TLS is never older or weaker here than HTTP/2 demands");
const NO_HINTS: Treatment = NoEffect("no 103 is made of a configuration; one that a program sends is passed on");
const NO_PADDING: Treatment = NoEffect("frames are not padded: it hides little, and costs bytes");
const TIMEOUT_HOLDS: Treatment = NoEffect("Timeout holds for streams, too");
const GATEWAYS: Treatment = Later("gateways and proxying");

pub(super) const ROWS: &[Row] = &[
    row("ProtocolEcho", ECHO, C, "sv", Flag, SERVER, NOWHERE, Unsupported("it is an example module: remove it")),
    row("H2MaxSessionStreams", HTTP2, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("H2WindowSize", HTTP2, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("H2MinWorkers", HTTP2, A, "s", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2MaxWorkers", HTTP2, A, "s", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2MaxWorkerIdleSeconds", HTTP2, A, "s", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2StreamMaxMemSize", HTTP2, A, "sv", One, SERVER, NOWHERE, OWN_SIZES),
    row("H2SerializeHeaders", HTTP2, A, "sv", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2ModernTLSOnly", HTTP2, A, "sv", One, SERVER, NOWHERE, ALWAYS_MODERN),
    row("H2Upgrade", HTTP2, A, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, Honoured),
    row("H2Direct", HTTP2, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("H2SessionExtraFiles", HTTP2, C, "sv", One, SERVER, NOWHERE, NO_SUCH_THREADS),
    row("H2TLSWarmUpSize", HTTP2, A, "sv", One, SERVER, NOWHERE, OWN_SIZES),
    row("H2TLSCoolDownSecs", HTTP2, A, "sv", One, SERVER, NOWHERE, OWN_SIZES),
    row("H2Push", HTTP2, A, "svdh", One, AUTH_CONFIG.or(SERVER), NOWHERE, NO_PUSH),
    row("H2PushPriority", HTTP2, A, "sv", TwoOrThree, SERVER, NOWHERE, NO_PUSH),
    row("H2PushDiarySize", HTTP2, A, "sv", One, SERVER, NOWHERE, NO_PUSH),
    row("H2CopyFiles", HTTP2, A, "svdh", One, FILE_INFO, NOWHERE, NO_SUCH_THREADS),
    row("H2PushResource", HTTP2, A, "svdh", OneToThree, AUTH_CONFIG.or(FILE_INFO), NOWHERE, NO_PUSH),
    row("H2EarlyHints", HTTP2, A, "sv", One, SERVER, NOWHERE, NO_HINTS),
    row("H2Padding", HTTP2, A, "sv", One, SERVER, NOWHERE, NO_PADDING),
    row("H2OutputBuffering", HTTP2, A, "sv", One, SERVER, NOWHERE, OWN_SIZES),
    row("H2StreamTimeout", HTTP2, A, "svd", One, SERVER, NOWHERE, TIMEOUT_HOLDS),
    row("H2MaxDataFrameLen", HTTP2, A, "sv", One, SERVER, NOWHERE, OWN_SIZES),
    row("H2MaxHeaderBlockLen", HTTP2, A, "sv", One, SERVER, NOWHERE, OWN_SIZES),
    row("H2MaxStreamErrors", HTTP2, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("H2EarlyHint", HTTP2, A, "svdh", Two, AUTH_CONFIG.or(FILE_INFO), NOWHERE, NO_HINTS),
    row("H2ProxyRequests", HTTP2, A, "sv", One, FILE_INFO, NOWHERE, GATEWAYS),
    row("H2WebSockets", HTTP2, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("RemoteIPHeader", REMOTEIP, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("RemoteIPProxiesHeader", REMOTEIP, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("RemoteIPTrustedProxy", REMOTEIP, A, "sv", Each, SERVER, NOWHERE, Honoured),
    row("RemoteIPInternalProxy", REMOTEIP, A, "sv", Each, SERVER, NOWHERE, Honoured),
    row("RemoteIPTrustedProxyList", REMOTEIP, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("RemoteIPInternalProxyList", REMOTEIP, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("RemoteIPProxyProtocol", REMOTEIP, A, "sv", Flag, SERVER, NOWHERE, Honoured),
    row("RemoteIPProxyProtocolExceptions", REMOTEIP, A, "sv", Any, SERVER, NOWHERE, Honoured),
    row("RequestReadTimeout", REQTIMEOUT, A, "sv", Raw, SERVER, NOWHERE, Honoured),
];
