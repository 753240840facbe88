//! Directives of the process: `main` and `events`.

use super::{
    Body,
    MANY,
    Row,
    Support::{Accepted, Honored, Unsupported},
    block,
    contexts::{EVENTS, HTTP, LOCATION, MAIL, MAIL_SERVER, MAIN, SERVER, STREAM, STREAM_SERVER},
    plain,
};

const BUILT_IN: &str = "modules of nginx are part of the program";
const ONE_PROCESS: &str = "workers are threads of one process, which takes what it needs from the system";
const EVENT_LOOP: &str = "each core has an event loop of its own, without a lock around accept";

pub const CORE: &[Row] = &[
    plain("accept_mutex", EVENTS, 1, 1, Accepted(EVENT_LOOP)),
    plain("accept_mutex_delay", EVENTS, 1, 1, Accepted(EVENT_LOOP)),
    plain("daemon", MAIN, 1, 1, Honored),
    plain("debug_connection", EVENTS, 1, 1, Accepted("`saker explain` shows the steps of a request")),
    plain("debug_points", MAIN, 1, 1, Accepted("it stops nginx for a debugger")),
    plain("env", MAIN, 1, 1, Accepted("the environment of the process stays as it is")),
    plain("error_log", MAIN | HTTP | SERVER | LOCATION | STREAM | STREAM_SERVER | MAIL | MAIL_SERVER, 1, 2, Honored),
    block("events", MAIN, 0, 0, Body::Block, Honored),
    block("http", MAIN, 0, 0, Body::Block, Honored),
    block("stream", MAIN, 0, 0, Body::Block, Unsupported("nothing listens on the ports of `stream`; keep nginx or another proxy for them")),
    block("mail", MAIN, 0, 0, Body::Block, Unsupported("nothing listens on the ports of `mail`; keep nginx for them")),
    plain("load_module", MAIN, 1, 1, Accepted(BUILT_IN)),
    plain("lock_file", MAIN, 1, 1, Accepted(EVENT_LOOP)),
    plain("master_process", MAIN, 1, 1, Accepted(ONE_PROCESS)),
    plain("multi_accept", EVENTS, 1, 1, Accepted(EVENT_LOOP)),
    plain("pcre_jit", MAIN, 1, 1, Accepted("patterns are always compiled to machine code")),
    plain("pid", MAIN, 1, 1, Honored),
    plain("quic_bpf", MAIN, 1, 1, Accepted("connections keep their worker without it")),
    plain("ssl_engine", MAIN, 1, 1, Unsupported("keys are read from files; there are no engines")),
    plain("ssl_object_cache_inheritable", MAIN, 1, 1, Accepted("certificates are compared at each reload")),
    plain("thread_pool", MAIN, 2, 3, Accepted("work that blocks has threads of its own")),
    plain("timer_resolution", MAIN, 1, 1, Accepted("the clock is read when the event loop wakes")),
    plain("use", EVENTS, 1, 1, Accepted("the event loop uses epoll")),
    plain("user", MAIN, 1, 2, Honored),
    plain("worker_aio_requests", EVENTS, 1, 1, Accepted(EVENT_LOOP)),
    plain("worker_connections", EVENTS, 1, 1, Honored),
    plain("worker_cpu_affinity", MAIN, 1, MANY, Accepted("the kernel assigns cores to workers")),
    plain("worker_priority", MAIN, 1, 1, Accepted("set it with nice(1) or `Nice=` in the unit")),
    plain("worker_processes", MAIN, 1, 1, Honored),
    plain("worker_rlimit_core", MAIN, 1, 1, Accepted("set it with `LimitCORE=` in the unit")),
    plain("worker_rlimit_nofile", MAIN, 1, 1, Accepted("the limit is raised to the hard limit")),
    plain("worker_rlimit_sigpending", MAIN, 1, 1, Accepted(ONE_PROCESS)),
    plain("worker_shutdown_timeout", MAIN, 1, 1, Honored),
    plain("working_directory", MAIN, 1, 1, Accepted("core dumps go where the system puts them")),
];
