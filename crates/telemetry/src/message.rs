//! The table of error log messages. An id is never reused, not even for the same fact in other
//! words.
//!
//! Called by: all crates, `error_log::log(&message::LISTENING, format_args!("{address}"))`; the
//! line is the row's sentence, then the facts. The reference page is rendered from this table
//! ([`markdown`]).
//! Caveat: a flood of one message must not fill a disk; each row has its own flood gate (used by
//! `error_log`).
//! Out of scope: sentences with placeholders; the facts follow the sentence, so that an id and its
//! sentence can be searched for.

use crate::flood_gate::FloodGate;
use std::fmt::Write as _;

/// Severity of a message. As in Apache, a higher level includes all lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    Error,
    Warn,
    Notice,
    Info,
    Debug,
}

impl Level {
    pub const ALL: [Level; 5] = [
        Level::Error,
        Level::Warn,
        Level::Notice,
        Level::Info,
        Level::Debug,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Notice => "notice",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }

    /// Number as in Apache, from `emerg` at 0.
    pub fn number(self) -> u8 {
        3 + self as u8
    }

    /// Apache's names: the three above `error` and the eight traces fold into ours.
    pub fn from_name(name: &str) -> Option<Level> {
        match name.to_ascii_lowercase().as_str() {
            "emerg" | "alert" | "crit" | "error" => Some(Level::Error),
            "warn" => Some(Level::Warn),
            "notice" => Some(Level::Notice),
            "info" => Some(Level::Info),
            "debug" => Some(Level::Debug),
            other => other
                .strip_prefix("trace")
                .is_some_and(|n| n.len() == 1 && matches!(n.as_bytes()[0], b'1'..=b'8'))
                .then_some(Level::Debug),
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct Message {
    /// `SK` and four digits; the first two say the area.
    pub id: &'static str,
    pub area: &'static str,
    pub level: Level,
    pub sentence: &'static str,
    /// Advice to the operator.
    pub advice: &'static str,
    pub(crate) gate: FloodGate,
}

macro_rules! messages {
    ($($name:ident $id:literal $area:literal $level:ident $sentence:literal $advice:literal;)*) => {
        $(#[doc = $sentence]
        pub static $name: Message =
            Message { id: $id, area: $area, level: Level::$level, sentence: $sentence, advice: $advice, gate: FloodGate::new() };)*

        /// The table.
        pub static ALL: &[&Message] = &[$(&$name,)*];
    };
}

messages! {
    // 01: life of the process.
    STARTED "SK0101" "core" Notice "started" "Nothing.";
    LISTENING "SK0102" "core" Notice "listening" "Nothing.";
    STOPPING "SK0103" "core" Notice "stopping; open requests may finish" "Nothing.";
    STOPPED "SK0104" "core" Notice "stopped" "Nothing.";
    SHUTDOWN_TIMED_OUT "SK0105" "core" Warn
        "requests were cut off because the shutdown time limit expired"
        "Raise `shutdown_timeout` if these requests are legitimate.";
    PRIVILEGES_DROPPED "SK0106" "core" Info "privileges dropped" "Nothing.";
    RUNNING_AS_ROOT "SK0108" "core" Warn "running as root without a user to change to"
        "Set the user the server should run as.";
    WORKER_PANIC "SK0109" "core" Error "a task panicked; its connection was closed"
        "This is a bug: report it with this line.";
    WORKER_LOST "SK0110" "core" Error "a worker thread ended"
        "This is a bug: report it with the lines before this one, and restart the server.";
    NOTIFY_FAILED "SK0111" "core" Warn "the service manager could not be notified"
        "Check NOTIFY_SOCKET in the service's unit.";
    AFFINITY_FAILED "SK0112" "core" Warn "a worker could not be bound to its core"
        "Check the processor list against the cores that this process may use.";
    START_FAILED "SK0113" "core" Error "cannot start" "Fix the problem that the line names.";
    HANDED_OVER "SK0114" "core" Notice "a successor takes over; open requests may finish"
        "Nothing.";
    TOOK_OVER "SK0115" "core" Notice "took over from another server" "Nothing.";
    BROKER_ENDED "SK0116" "core" Error
        "the privileged broker has exited; the server continues without it"
        "Restart the server: until then, reloads cannot open what only root may open, and no program of another user starts.";
    UPGRADE_FAILED "SK0117" "core" Error
        "an upgrade has failed; this server goes on as before"
        "See the lines above: the new server says what it lacked before it ended. Nothing was lost.";
    SANDBOX "SK0118" "core" Info "confinement of this process"
        "Nothing. `saker status` shows the same; `sandbox = \"on\"` in [server] refuses to start without it.";
    SANDBOX_REFUSED "SK0119" "core" Error "the sandbox refused an operation"
        "If the configuration should allow it, name the file or its directory there; otherwise find out what asked for it. `sandbox = \"off\"` in [server] turns the sandbox off.";
    UPGRADE_STATE_LOST "SK0120" "core" Warn
        "part of the state of the server before this one could not be taken over"
        "Nothing, if the versions are far apart: tickets, counters, or limits begin anew, as after a restart. Otherwise report it.";
    SUCCESSOR_LAUNCHED "SK0121" "core" Notice
        "starting a new server"
        "Nothing: the new server takes over without loss, or says what it lacks.";
    // 02: configuration.
    RELOADED "SK0201" "config" Notice "configuration reloaded" "Nothing.";
    RELOAD_REFUSED "SK0202" "config" Error
        "reload refused; the running configuration stays in force"
        "Run `saker check` on the file, fix what it reports, and reload again.";
    CONFIG_WARNING "SK0203" "config" Warn "configuration warning"
        "Read the line and decide whether the setting is intended.";
    STATE_DIRECTORY_FAILED "SK0204" "config" Error "the state directory cannot be used"
        "Make the directory exist and belong to the user the server runs as.";
    CONTROL_SOCKET_FAILED "SK0205" "config" Warn
        "the control socket cannot be opened; status, reload and stop by command line will not work"
        "Check the owner of the state directory, and that no other server uses it.";
    CONTROL_REFUSED "SK0206" "config" Warn
        "a user without permission tried to control the server"
        "Find out which program of that user does so; to allow it, name the user in `control_users` of [server].";
    STATE_DIRECTORY_OPEN "SK0207" "config" Warn
        "the state directory cannot be protected from programs of the server's user"
        "Give PHP and other programs users of their own, or start the server where root may set supplementary groups.";
    // 03: listeners and connections.
    LISTENER_FAILED "SK0301" "net" Error "cannot listen"
        "Check that no other program uses the address and that this user may bind the port.";
    LISTENER_ADDED "SK0302" "net" Notice "listener added" "Nothing.";
    LISTENER_REMOVED "SK0303" "net" Notice "listener removed" "Nothing.";
    ACCEPT_PAUSED "SK0304" "net" Error "out of file descriptors; accepting is paused"
        "Raise the limit (LimitNOFILE) or lower the connection limit.";
    ACCEPT_RESUMED "SK0305" "net" Notice "accepting connections again" "Nothing.";
    CONNECTION_LIMIT "SK0307" "net" Warn "connection limit reached; new connections wait"
        "Raise the connection limit if the load is legitimate.";
    ADDRESS_CONNECTION_LIMIT "SK0308" "net" Info "too many connections from one client address"
        "Nothing, or raise the limit if it is a shared gateway.";
    PROXY_PREFACE_BAD "SK0309" "net" Warn "a PROXY protocol preface is malformed or missing"
        "Check that the load balancer in front speaks the PROXY protocol to this listener.";
    CONNECTION_FAILED "SK0311" "net" Debug "connection failed" "Nothing.";
    DESCRIPTOR_LIMIT_LOW "SK0312" "net" Warn
        "the file descriptor limit is lower than the connection limit requires"
        "Raise the limit (LimitNOFILE).";
    QLOG_FAILED "SK0313" "net" Warn "cannot write qlog files (http3_qlog)"
        "Make the directory writable by the server's user.";
    // 04: requests.
    REQUEST_REJECTED "SK0401" "http" Info "request rejected" "Nothing, unless the client is yours.";
    HEAD_TIMEOUT "SK0402" "http" Debug "the request head did not arrive in time" "Nothing.";
    BODY_TIMEOUT "SK0403" "http" Debug "the request body did not arrive in time" "Nothing.";
    WRITE_TIMEOUT "SK0404" "http" Debug "the client took the response too slowly" "Nothing.";
    IDLE_TIMEOUT "SK0405" "http" Debug "an idle connection was closed" "Nothing.";
    RESPONSE_CUT "SK0406" "http" Warn
        "a response could not be completed; its connection was closed"
        "Check whether the file is rewritten in place while it is served; replace it by renaming a finished file instead.";
    HTTP2_ERROR "SK0409" "http" Info "an HTTP/2 connection was closed because of a client error"
        "Nothing, unless the client is yours.";
    HTTP3_ERROR "SK0410" "http" Info "an HTTP/3 connection was closed because of a client error"
        "Nothing, unless the client is yours.";
    CLIENT_REFUSED "SK0411" "guard" Warn "a client was refused"
        "Nothing, or raise the limit that the line names if the client is legitimate.";
    CLIENT_BANNED "SK0412" "guard" Warn "a client was banned"
        "Nothing, or `saker unban` if the client is legitimate.";
    CLIENT_UNBANNED "SK0413" "guard" Notice "a ban was lifted" "Nothing.";
    LIST_READ "SK0414" "guard" Notice "an address list was loaded" "Nothing.";
    LIST_REFUSED "SK0415" "guard" Error
        "an address list is invalid; the previous one stays in force"
        "Fix the line that is named.";
    BANS_NOT_KEPT "SK0416" "guard" Error "cannot save bans; they hold until the server stops"
        "Make the state directory writable.";
    GUARD_KEYS_NOT_KEPT "SK0417" "guard" Error
        "cannot save the keys of clearance cookies; the cookies become invalid at the next restart"
        "Make the state directory writable by the server's user.";
    RULE_MATCHED "SK0418" "modsecurity" Warn "a ModSecurity rule matched"
        "Nothing, or `SecRuleRemoveById` with the id in the line if the request is legitimate.";
    RULE_REFUSED "SK0419" "modsecurity" Error "ModSecurity denied a request"
        "Nothing, or look for the rules that matched before if the request is legitimate.";
    CLIENT_LEFT "SK0420" "http" Info "a client left before its response was complete" "Nothing.";
    // 05: files.
    FILE_READ_FAILED "SK0501" "files" Error "cannot read a file"
        "Check the file's permissions and the disk.";
    ACCESS_DENIED "SK0502" "files" Error "access to a file is denied"
        "Check permissions of the file and of each directory above it.";
    WATCH_LIMIT "SK0503" "files" Warn
        "the inotify watch limit is reached; files without a watch are checked on each request"
        "Raise the sysctl fs.inotify.max_user_watches.";
    WATCH_FAILED "SK0504" "files" Warn
        "cannot watch a directory; its files are checked on each request"
        "Check that the server's user may read the directory.";
    ROOT_MISSING "SK0505" "files" Warn "a document root does not exist"
        "Create the directory or correct the path.";
    SYMLINK_REFUSED "SK0506" "files" Error "a symbolic link is refused by policy"
        "Allow the link in the configuration if it is meant to be followed.";
    ERROR_PAGE_FAILED "SK0507" "files" Warn
        "a custom error page could not be served; the built-in page is sent"
        "Check that the path of the error page is right and that it answers without an error.";
    MEDIA_REFUSED "SK0509" "files" Warn "cannot cut an audio or video file"
        "The request was answered with 500; the line says why.";
    LISTING_GIVEN_UP "SK0510" "files" Warn
        "a directory listing was abandoned; the request was answered with 503"
        "The line names the limit; do not list directories with very many entries.";
    NOT_A_FILE "SK0511" "files" Error
        "a request was refused because its path leads to a FIFO, a socket or a device"
        "Find out what created it.";
    FILE_MISSING "SK0512" "files" Info "a file does not exist"
        "Nothing, unless the site links to it.";
    WATCH_OVERFLOW "SK0513" "files" Warn
        "more files changed than inotify reports at once; everything cached is checked again"
        "Nothing, or raise the sysctl fs.inotify.max_queued_events if it happens often.";
    ROOT_PRIVATE "SK0514" "files" Warn
        "a document root is in the state directory; its files are not served"
        "Move the files to a folder of their own.";
    // 06: logs.
    LOG_WRITE_FAILED "SK0601" "log" Error
        "cannot write an access log; its lines are dropped until it is writable again"
        "Free space on the log's disk or fix its permissions.";
    LOG_WRITE_RECOVERED "SK0602" "log" Notice "an access log is writable again"
        "Nothing; the line says how many lines were lost.";
    LOG_REOPENED "SK0603" "log" Info "logs reopened" "Nothing.";
    LOG_REOPEN_FAILED "SK0604" "log" Error "cannot reopen a log; the old file stays in use"
        "Fix the directory or its permissions, or remove the pipe or link that another user has laid in the log's place, and send USR1 again.";
    LOG_PROGRAM_ENDED "SK0605" "log" Error "a log program exited and is restarted"
        "Find out why the program exits.";
    LOG_PROGRAM_FAILED "SK0606" "log" Error "cannot start a log program" "Check the command.";
    LOG_PROGRAM_STUCK "SK0607" "log" Error
        "a log program or terminal is too slow; lines are dropped"
        "Find out what the program waits for.";
    SUPPRESSED "SK0608" "log" Warn "a message was logged too often and is suppressed"
        "Look at the message that the line names.";
    ERROR_LOG_DROPPED "SK0609" "log" Warn
        "error log lines were lost because the log could not be written"
        "Find out what blocks the error log.";
    // 07: TLS.
    CERTIFICATES_RELOADED "SK0701" "tls" Notice "certificates reloaded" "Nothing.";
    CERTIFICATE_BAD "SK0702" "tls" Error
        "a certificate cannot be used; the previous one stays in use"
        "Fix the problem that the line names; the files are read again as soon as they change.";
    TLS_HANDSHAKE_FAILED "SK0703" "tls" Info "a TLS handshake failed"
        "Nothing, unless the client is yours.";
    TLS_HANDSHAKE_TIMEOUT "SK0704" "tls" Debug "a TLS handshake did not finish in time" "Nothing.";
    HTTP_ON_TLS_PORT "SK0705" "tls" Info "a client spoke plain HTTP on a TLS port"
        "Nothing; the client was told to use https.";
    CERTIFICATE_ISSUED "SK0706" "tls" Notice "an automatic certificate was issued" "Nothing.";
    CERTIFICATE_NOT_ISSUED "SK0707" "tls" Error
        "an automatic certificate was not issued"
        "Fix the problem that the line names. The server retries on its own; a reload does not bring the next attempt forward.";
    CERTIFICATE_AUTHORITY_FAILED "SK0708" "tls" Warn
        "a certificate authority failed; trying the next one"
        "Nothing, if the next one issues the certificate.";
    CERTIFICATE_FORBIDDEN "SK0709" "tls" Info "a certificate on demand was not requested"
        "Nothing, unless the name is yours: then check the `ask` rule.";
    CERTIFICATE_STATE "SK0710" "tls" Error "the state of automatic certificates is damaged"
        "Fix the folder `acme` in the state directory, or the problem that the line names.";
    CERTIFICATE_RECORD_LEFT "SK0711" "tls" Warn "a challenge record may remain in the zone"
        "Find out why `dns_command` failed, and remove the record.";
    OCSP_RESPONSE_MISSING "SK0712" "tls" Warn "cannot fetch an OCSP response for stapling"
        "Nothing, unless it repeats: then check whether this machine reaches the responder.";
    HANDSHAKE_CERTIFICATE "SK0713" "tls" Warn "no certificate was found for the server name of a handshake"
        "Nothing, unless the name is yours: then check the file, which the server's user must be able to read.";

    HTACCESS_BROKEN "SK0801" "apache" Error
        "an .htaccess file is invalid; requests to its directory are answered with 500"
        "Fix the line that is named; the file is read again as soon as it changes.";
    REWRITE "SK0802" "apache" Error "rewrite rule failed" "The line names the rule and the reason.";
    ACCESS_RULE_NOT_HONOURED "SK0803" "apache" Error
        "an access rule is not supported; the request was denied"
        "Run `saker check` for what to write instead.";
    RULES_GO_ROUND "SK0804" "apache" Error "rewrite loop; the request was answered with 500"
        "Run `saker explain` to see the rules involved.";
    REQUEST_GIVEN_UP "SK0805" "apache" Error
        "rules exceeded a limit; the request was answered with an error"
        "The line names the limit; check the routes, .htaccess files, and rules in force for the path.";
    ACCESS_REFUSED "SK0810" "apache" Error "access denied by rules"
        "Nothing, if intended; the line names the rule.";
    REMOTE_ADDRESS "SK0811" "apache" Info "ignored a private client address claimed by a proxy"
        "Name the proxy with RemoteIPInternalProxy if it is yours.";
    INCLUDES "SK0812" "apache" Error "server-side include failed"
        "The line names the problem; the page continues after the failed element.";
    EXTERNAL_FILTER "SK0813" "apache" Error "external filter failed"
        "Read the line, or the error output of the program.";
    SESSION_DATABASE_FAILED "SK0814" "apache" Error "a session cannot be loaded from or saved to the database"
        "The line names the statement and the reason. The request goes on without the session.";
    HANDLER_NOT_THERE "SK0820" "apache" Error "a file is mapped to an unknown handler"
        "Run `saker check`; until the handler exists, such files are answered with an error.";
    CONTENT_FILTER "SK0821" "apache" Error "a content filter failed"
        "Read the line; the response was an error, or was cut where the filter failed.";
    SCRIPT_REFUSED "SK0822" "apache" Error "a script was not run"
        "The line says why; `Options ExecCGI` or `ScriptAlias` allows scripts.";

    // 09: programs and servers behind the gateway.
    PROGRAM_FAILED "SK0901" "gateway" Error "an upstream or program did not answer"
        "The line names it and says why; check that it runs, and its own log.";
    PROGRAM_CUT "SK0902" "gateway" Error "a response of an upstream or program was cut off"
        "Read its own log.";
    PROGRAM_SAID "SK0903" "gateway" Error "error output of a program" "Read the line.";
    PROGRAM_SETTING "SK0904" "gateway" Warn "cannot pass on a PHP setting" "Fix its name or value.";
    PROGRAM_FILE "SK0905" "gateway" Error
        "a program redirected its response to a file or path that is not available"
        "Check that the file exists, below a directory that programs may send files from.";
    MEMBER_DOWN "SK0906" "gateway" Error
        "an upstream server failed its health checks and is out of rotation"
        "Find out why it does not answer as expected.";
    MEMBER_UP "SK0907" "gateway" Notice "an upstream server passes its health checks again"
        "Nothing.";
    AUTHORIZER_FAILED "SK0908" "gateway" Error
        "authorization server unavailable; request denied"
        "The line names the server (`authorize`) and what it answered; check that it runs, and its own log.";
    AUTHORIZATION_REFUSED "SK0909" "gateway" Error "an authorization server denied a request"
        "Nothing; the line names the request (docs/operations.md has a filter for fail2ban).";
    RESPONSE_NOT_STORED "SK0910" "gateway" Error "a response of an upstream could not be stored as a file"
        "The line names the file; check that the user of the server may write to its directory.";
    DISCOVERED "SK0911" "discovery" Notice "the discovered servers of an upstream changed" "Nothing.";
    DISCOVERY_FAILED "SK0912" "discovery" Error
        "the servers of an upstream cannot be discovered; the last known ones stay in use"
        "The line names the source and why it gave no answer. It is asked again at growing intervals of up to 30 seconds; `saker status` shows since when.";
    DISCOVERY_WORKS "SK0913" "discovery" Notice "the servers of an upstream are discovered again"
        "Nothing.";
    DISCOVERY_REFUSED "SK0914" "discovery" Warn "a discovered server is not used"
        "The line says why. Addresses of this machine and link-local ones need an entry in `networks` of [upstream.discover].";
    PHP_STARTED "SK0920" "php" Notice "PHP was started" "Nothing.";
    PHP_ENDED "SK0921" "php" Error "PHP exited; it is restarted with the next request"
        "Read its error output in the lines before.";
    PHP_REPLACED "SK0922" "php" Notice "PHP was restarted because its configuration changed"
        "Nothing.";
    PHP_FAILED "SK0923" "php" Error "cannot run PHP" "Read the line.";
    PHP_MISSING "SK0924" "php" Error "a PHP file was requested, but no PHP is installed"
        "Install php-fpm, lsphp or php-cgi, or name one in [php].";
    PHP_OTHER_VERSION "SK0925" "php" Warn "a handler names a PHP version that is not installed"
        "Install it, or name an installed one.";
    PHP_IDLE "SK0926" "php" Info "PHP was stopped after a long idle time"
        "Nothing: the next request starts it again.";
    PHP_SCRIPT_MISSING "SK0927" "php" Error "a PHP script was not found"
        "Nothing, unless the site links to it.";
    CONFIG_FILE_CHANGED "SK0931" "config" Notice
        "a configuration file has changed; the configuration is reloaded"
        "Nothing; the next line says what came of it (`watch` in [server]).";
    LOG_ROTATION_FAILED "SK0950" "log" Error "a log file could not be rotated"
        "The server goes on writing to the old file and tries again after a minute. The server's user must be allowed to write to the directory of the log; otherwise rotate with logrotate and `saker reopen-logs`.";
    TRACES_DROPPED "SK0951" "process" Warn "traces were dropped"
        "The line says why. Check the collector and `endpoint` of [tracing]; requests are not affected.";
    TRACES_RESUMED "SK0952" "process" Notice "the collector takes traces again" "Nothing.";
    STREAM_UNREACHABLE "SK0960" "stream" Error "a stream's upstream took no connection"
        "The line names it and says why; check that it runs, and its own log.";
    STREAM_REFUSED "SK0961" "stream" Info "a stream was refused"
        "Nothing, if intended; the line says by which rule.";
    STREAM_NOT_PASSED "SK0962" "stream" Error "a stream's connection found no listener"
        "Let `pass` name an address that a server of `http` listens on, without `ssl` if the stream ends TLS.";
    STREAM_HELLO_TOO_LONG "SK0963" "stream" Error "a stream's TLS hello is longer than what is read ahead"
        "Raise `preread_buffer_size` if clients need longer ones; else nothing: the session has ended.";
    STREAM_STEP "SK0964" "stream" Info "a stream's session has begun or ended"
        "Nothing; the line is nginx's, at the level `info`.";
    // 10: the page cache.
    CACHE_UNREADABLE "SK1001" "cache" Warn "a cache entry cannot be read; the page is fetched again"
        "If there are many, check the disk.";
    CACHE_JOURNAL_FAILED "SK1002" "cache" Error
        "cannot write a purge to the journal; the purge holds, and the write is retried"
        "Free space on the disk of the page cache.";
    CACHE_NOT_STORED "SK1003" "cache" Warn "cannot store a response" "Read the line.";
    CACHE_OFF "SK1004" "cache" Error "the page cache is unavailable"
        "Read the line; responses are not cached until the next start.";
    ESI_FAULT "SK1005" "cache" Warn "invalid ESI in a page; the invalid part is sent as it is"
        "Fix the page.";
    ESI_INCLUDE_FAILED "SK1006" "cache" Warn "an ESI include failed"
        "Read the line; the page is sent with its alternative content, or without the include.";
    CACHE_DISK_FULL "SK1007" "cache" Warn
        "the disk of the page cache has no room beyond its reserve; responses are not stored"
        "Free space on that disk, or lower `reserve` of [cache].";
    CACHE_DISK_ROOM "SK1008" "cache" Notice "the disk of the page cache has room again" "Nothing.";
    // 13: hosts that a database knows.
    HOSTS_AWAY "SK1301" "hosts" Error
        "the database of virtual hosts does not answer; known hosts are still served"
        "Check that it runs, and `database` and `query` of [hosts].";
    HOSTS_BACK "SK1302" "hosts" Notice "the database of virtual hosts answers again" "Nothing.";
    HOST_REFUSED "SK1303" "hosts" Error "a virtual host's row in the database is invalid"
        "Fix the row as the line says, or `roots` of [hosts].";
    HOSTS_NOT_NOTIFIED "SK1304" "hosts" Warn
        "changes of virtual hosts are not announced by the database; answers are used for their time"
        "Check that the database runs, and `notify` of [dynamic_vhosts].";
    HOSTS_NOTIFIED "SK1305" "hosts" Notice
        "changes of virtual hosts are announced by the database again" "Nothing.";
    // 14: identities that tokens and providers prove.
    TOKEN_KEYS_FAILED "SK1401" "identity" Error "cannot fetch the keys of a token issuer"
        "Check `keys_url` of [site.auth.jwt], and that the issuer runs; earlier keys stay in use.";
    PROVIDER_FAILED "SK1402" "identity" Error "an OpenID Connect provider does not answer as it should"
        "Check `issuer` of [site.auth.oidc], and that the provider runs; sessions stay valid.";
    LOGIN_FAILED "SK1403" "identity" Warn "a log-in at an OpenID Connect provider failed"
        "Read the line; `client_id`, `client_secret`, and the callback registered at the provider have to match.";
    TOKEN_REFUSED "SK1404" "identity" Warn "a token was refused"
        "Nothing, unless the client is yours; then get it a token that [site.auth.jwt] accepts.";
    SESSION_KEY_FAILED "SK1405" "identity" Error "cannot read or create the key of session cookies"
        "Make the state directory writable, or set `key_file` in [site.auth.oidc].";
    PLAIN_LOGIN_REFUSED "SK1406" "identity" Warn "a log-in over plain HTTP was refused"
        "Add `https_redirect = true` to the site; behind a proxy, list it in `trusted_proxies`.";
    SESSION_TOO_LONG "SK1407" "identity" Error "a session has too many claims for cookies"
        "Have the provider send fewer claims, such as only the groups that the site needs.";
    WEBDAV_LOCKS_UNUSABLE "SK1410" "webdav" Error "cannot use the lock database of WebDAV, changes are refused"
        "Make its directory writable by the server's user; if the file is damaged, remove it, which drops all locks.";
    WEBDAV_FILE_FAILED "SK1411" "webdav" Error "a WebDAV request could not read or write a file"
        "Make the files and directories writable by the server's user, and check for free space.";
    NGINX_ACCESS_REFUSED "SK1500" "nginx" Error "access denied by rules"
        "Nothing, if intended; the line names the rule.";
    NGINX_PASSWORDS_UNREADABLE "SK1501" "nginx" Error "cannot read a file of passwords; access denied"
        "Check the path of auth_basic_user_file and its permissions.";
    NGINX_FILE_MISSING "SK1502" "nginx" Error "a file is missing"
        "Nothing, if clients ask for what never was; `log_not_found off` leaves the lines out.";
    NGINX_LISTING_REFUSED "SK1503" "nginx" Error "a directory has no index file, and no listing"
        "Nothing, if intended; `index` and `autoindex` say what directories show.";
    NGINX_LIMITED "SK1504" "nginx" Error "a limit of requests or connections is reached"
        "Nothing, if intended; `limit_req_log_level` and `limit_conn_log_level` choose the level.";
    NGINX_REWRITE "SK1505" "nginx" Notice "a step of a rewriting"
        "Nothing: `rewrite_log on` asks for it.";
    NGINX_CYCLE "SK1506" "nginx" Error "rewriting or redirecting does not end"
        "Look for locations that lead to each other, or for a fallback that is missing.";
    NGINX_VARIABLE_UNSET "SK1507" "nginx" Warn "a variable has no value"
        "Set it, or leave the lines out with `uninitialized_variable_warn off`.";
    NGINX_SUBREQUEST_TOO_LARGE "SK1508" "nginx" Error "the content of a subrequest is too large for a variable"
        "Raise subrequest_output_buffer_size.";
    NGINX_NAME_UNRESOLVED "SK1509" "nginx" Error "the name of an upstream could not be resolved"
        "Check the name, the servers of `resolver`, and `resolver_timeout`.";
    NGINX_BODY_FILE_FAILED "SK1510" "nginx" Error "content of a request could not be written to its file"
        "Make the directory of client_body_temp_path writable by the server's user, and check for free space.";
    NGINX_PROCESS "SK1511" "nginx" Notice "a signal was received, or a state of the server is over"
        "Nothing: the lines are nginx's, for tools that wait for them.";
    NGINX_DAV_REFUSED "SK1512" "nginx" Error "a request to change files was refused"
        "Nothing, if intended; the line says what the client asked for.";
    NGINX_USER_ID "SK1513" "nginx" Error "a cookie of `userid` is malformed, or was reset"
        "Nothing, if `$uid_reset` asks for it; else a client made the cookie up.";
    NGINX_BODY_TOO_LARGE "SK1519" "nginx" Error "the content of a request is longer than allowed"
        "Nothing, if intended; otherwise raise client_max_body_size.";
    // 16: the cluster.
    CLUSTER_AWAY "SK1601" "cluster" Error
        "the cluster's log does not answer; requests go on, and purges made here wait on the disk"
        "Check that the engine runs, and `url` of [cluster]. Entries of the page cache are used for `max_staleness`.";
    CLUSTER_BACK "SK1602" "cluster" Notice "the cluster's log answers again" "Nothing.";
    CLUSTER_CLEARED "SK1603" "cluster" Warn
        "purges of other servers may be missing; the page cache was cleared"
        "Read the line. If servers were away for long, raise `retention` of [cluster]; if the engine loses its data, let it keep them.";
    CLUSTER_STALE "SK1604" "cluster" Warn
        "cut off from the cluster for too long; entries of the page cache are not used until it is in sync"
        "Check the engine and the network.";
    CLUSTER_IN_SYNC "SK1605" "cluster" Notice
        "in sync with the cluster; entries of the page cache are used" "Nothing.";
    CLUSTER_RECORD_SKIPPED "SK1606" "cluster" Warn "skipped a record of the cluster's log"
        "Find out what else writes to the stream; give the servers credentials of their own. During an upgrade, newer servers may write what older ones do not understand.";
    CLUSTER_QUEUE_FAILED "SK1607" "cluster" Error
        "cannot write a purge to the queue for the cluster; a purge of everything will stand in for it"
        "Free space on the disk of the page cache.";
    CLUSTER_QUEUE_FULL "SK1608" "cluster" Error
        "the queue of purges for the cluster is full; a purge of everything stands in for it"
        "Check why the engine does not answer.";
    CLUSTER_SAME_ID "SK1609" "cluster" Warn
        "another server has the id of this one, which takes a new id"
        "Do not copy `cluster.*` files of the page cache's directory from one server to another.";
    CLUSTER_CLIENTS_AWAY "SK1610" "cluster" Error
        "cannot exchange bans and limits with the other servers; limits count on this server alone, and bans are sent later"
        "Check that the engine runs, and `url` of [cluster].";
    CLUSTER_CLIENTS_BACK "SK1611" "cluster" Notice
        "bans and limits are exchanged with the other servers again" "Nothing.";
    CLUSTER_UNSIGNED "SK1612" "cluster" Warn
        "refused a record about clients that no server with this secret has signed"
        "Give all servers the same `secret_file`. If they have it, find out what else writes to the engine.";
    CLUSTER_CERTIFICATES_AWAY "SK1613" "cluster" Error
        "the certificates of the cluster cannot be read or written; the ones that are there are used"
        "Check that the engine or the folder of [cluster] can be used, and that all servers have the same `secret_file`.";
    CLUSTER_CERTIFICATE "SK1614" "cluster" Notice
        "in use: a certificate that another server of the cluster has ordered" "Nothing.";
    CLUSTER_PEER_FAILED "SK1615" "cluster" Warn
        "another server of the cluster did not hand out a page; this server makes it"
        "Check that the other server runs, that `listen` of its [cluster.peers] can be reached, and that all certificates are of `ca_file` and for `name`.";
    CLUSTER_PEER_REFUSED "SK1616" "cluster" Warn
        "refused a request for pages"
        "Give the servers certificates for `name` of [cluster.peers]. If they have them, find out who holds a certificate of the same authority.";
    // 17: the console.
    CONSOLE_LOGIN "SK1700" "console" Notice "log-in to the console" "Nothing.";
    CONSOLE_LOGIN_REFUSED "SK1701" "console" Warn "log-in to the console refused"
        "If these repeat, block the address, or choose an address for [console] that fewer clients can reach.";
    CONSOLE_CHANGE "SK1702" "console" Notice "changed through the console" "Nothing.";
    CONSOLE_AUDIT_FAILED "SK1703" "console" Error "cannot write the console's audit log; the change was refused"
        "Free space on the disk of the state directory, or correct its permissions.";
    CONSOLE_ROLLED_BACK "SK1704" "console" Warn "the configuration was not confirmed in time; the previous one is back"
        "Apply the change again, and confirm it in the console.";
    CONSOLE_ROLL_BACK_FAILED "SK1705" "console" Error "cannot put the previous configuration back"
        "Restore the file from the state directory (`console/history`), and reload.";
}

/// The table as Markdown, for the reference pages.
pub fn markdown() -> String {
    let mut out =
        String::from("| id | level | message | what to do |\n| --- | --- | --- | --- |\n");
    for message in ALL {
        let _ = writeln!(
            out,
            "| {} | {}:{} | {} | {} |",
            message.id,
            message.area,
            message.level.as_str(),
            message.sentence.replace('|', "\\|"),
            message.advice.replace('|', "\\|")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_and_well_formed() {
        let mut seen = HashSet::new();
        for message in ALL {
            assert!(seen.insert(message.id), "{} twice", message.id);
            let digits = message.id.strip_prefix("SK").expect(message.id);
            assert!(
                digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()),
                "{}",
                message.id
            );
            assert!(
                message.advice.ends_with('.'),
                "{} has no advice",
                message.id
            );
            assert!(
                !message.sentence.is_empty() && !message.sentence.ends_with('.'),
                "{}",
                message.id
            );
        }
        assert!(
            ALL.windows(2).all(|pair| pair[0].id < pair[1].id),
            "the table is in the order of its ids"
        );
    }

    #[test]
    fn levels() {
        for level in Level::ALL {
            assert_eq!(Level::from_name(level.as_str()), Some(level));
        }
        assert_eq!(Level::from_name("Crit"), Some(Level::Error));
        assert_eq!(Level::from_name("trace8"), Some(Level::Debug));
        for name in ["", "trace", "trace9", "trace10", "loud"] {
            assert_eq!(Level::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn markdown_has_every_row() {
        assert_eq!(markdown().lines().count(), ALL.len() + 2);
    }
}
