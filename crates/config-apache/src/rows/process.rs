//! The process: listeners, workers, users, limits of processes. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ACCESS, FILE_INFO,
    Importance::{A, B, C},
    NOWHERE, Row, SERVER,
    Shape::{Any, Each, Flag, One, Two},
    Treatment::{self, Honoured, Later, NoEffect, Unsupported},
    VIRTUAL_HOST, row,
};

const WATCHDOG: &[&str] = &["watchdog_module"];
const UNIXD: &[&str] = &["unixd_module"];
const MPM: &[&str] = &["mpm_event_module", "mpm_prefork_module", "mpm_worker_module"];
const MPM_THREADED: &[&str] = &["mpm_event_module", "mpm_worker_module"];
const MPM_EVENT: &[&str] = &["mpm_event_module"];
const MPM_PREFORK: &[&str] = &["mpm_prefork_module"];
const SUEXEC: &[&str] = &["suexec_module"];
const WINDOWS: &[&str] = &["windows"];
const PRIVILEGES: &[&str] = &["privileges_module"];

const SERVICE_MANAGER: Treatment = NoEffect("the system starts and limits programs: use its service manager");
const SOCKETS_PER_CORE: Treatment = NoEffect("each core has listening sockets of its own");
const ONE_THREAD_PER_CORE: Treatment = NoEffect("Saker runs one thread per core and needs no processes to spare");
const OTHER_SYSTEMS: Treatment = Unsupported("it is for systems that Saker does not run on");
const SOLARIS: Treatment = Unsupported("it is for Solaris: use a service manager's confinement");

pub(super) const ROWS: &[Row] = &[
    row("WatchdogInterval", WATCHDOG, B, "s", One, SERVER, VIRTUAL_HOST, NoEffect("Saker's timers need no watchdog")),
    row("User", UNIXD, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("Group", UNIXD, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("ChrootDir", UNIXD, A, "s", One, SERVER, VIRTUAL_HOST, SERVICE_MANAGER),
    row("Suexec", UNIXD, A, "s", Flag, SERVER, VIRTUAL_HOST, NoEffect("programs of other users are started by a process of Saker's own")),
    row("ListenBacklog", MPM, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("ListenCoresBucketsRatio", MPM, A, "s", One, SERVER, VIRTUAL_HOST, SOCKETS_PER_CORE),
    row("Listen", MPM, A, "s", Any, SERVER, VIRTUAL_HOST, Honoured),
    row("SendBufferSize", MPM, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("ReceiveBufferSize", MPM, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("ListenTCPDeferAccept", MPM, A, "s", One, SERVER, VIRTUAL_HOST, SOCKETS_PER_CORE),
    row("StartServers", MPM, A, "s", One, SERVER, VIRTUAL_HOST, ONE_THREAD_PER_CORE),
    row("ServerLimit", MPM, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("MinSpareThreads", MPM_THREADED, A, "s", One, SERVER, VIRTUAL_HOST, ONE_THREAD_PER_CORE),
    row("MaxSpareThreads", MPM_THREADED, A, "s", One, SERVER, VIRTUAL_HOST, ONE_THREAD_PER_CORE),
    row("MaxClients", MPM, A, "sv", One, SERVER, VIRTUAL_HOST, Honoured),
    row("MaxRequestWorkers", MPM, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("ThreadsPerChild", MPM_THREADED, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("ThreadLimit", MPM_THREADED, A, "s", One, SERVER, VIRTUAL_HOST, ONE_THREAD_PER_CORE),
    row("AsyncRequestWorkerFactor", MPM_EVENT, A, "s", One, SERVER, VIRTUAL_HOST, ONE_THREAD_PER_CORE),
    row("GracefulShutdownTimeout", MPM, A, "s", One, SERVER, VIRTUAL_HOST, Honoured),
    row("MinSpareServers", MPM_PREFORK, A, "s", One, SERVER, NOWHERE, ONE_THREAD_PER_CORE),
    row("MaxSpareServers", MPM_PREFORK, A, "s", One, SERVER, NOWHERE, ONE_THREAD_PER_CORE),
    row("SuexecUserGroup", SUEXEC, A, "sv", Two, SERVER, NOWHERE, Honoured),
    row("CGIMapExtension", WINDOWS, A, "dh", Two, FILE_INFO, NOWHERE, OTHER_SYSTEMS),
    row("GprofDir", WINDOWS, A, "sv", One, SERVER, NOWHERE, OTHER_SYSTEMS),
    row("ScriptInterpreterSource", WINDOWS, A, "svdh", One, FILE_INFO, NOWHERE, Later("gateways and proxying")),
    row("UNCList", WINDOWS, A, "s", Each, SERVER, NOWHERE, OTHER_SYSTEMS),
    row("EnableExceptionHook", MPM, A, "s", One, SERVER, NOWHERE, SERVICE_MANAGER),
    row("StartThreads", WINDOWS, A, "s", One, SERVER, NOWHERE, OTHER_SYSTEMS),
    row("DTracePrivileges", PRIVILEGES, C, "s", Flag, SERVER, NOWHERE, SOLARIS),
    row("PrivilegesMode", PRIVILEGES, C, "svd", One, ACCESS.or(SERVER), NOWHERE, SOLARIS),
    row("MaxThreads", WINDOWS, C, "s", One, SERVER, NOWHERE, OTHER_SYSTEMS),
    row("VHostCGIMode", PRIVILEGES, C, "v", One, SERVER, NOWHERE, SOLARIS),
    row("VHostCGIPrivs", PRIVILEGES, C, "v", Each, SERVER, NOWHERE, SOLARIS),
    row("VHostGroup", PRIVILEGES, C, "v", One, SERVER, NOWHERE, SOLARIS),
    row("VHostPrivs", PRIVILEGES, C, "v", Each, SERVER, NOWHERE, SOLARIS),
    row("VHostSecure", PRIVILEGES, C, "v", Flag, SERVER, NOWHERE, SOLARIS),
    row("VHostUser", PRIVILEGES, C, "v", One, SERVER, NOWHERE, SOLARIS),
];
