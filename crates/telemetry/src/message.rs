//! The table of error log messages. An id is never reused, not even for the same thing said
//! differently.
//!
//! Place in the walk: any floor above says `error_log::log(&message::LISTENING,
//! format_args!("{address}"))`; the line is the row's sentence, then the facts. The reference page
//! is rendered from this table ([`markdown`]).
//!
//! The one difficulty: a flood of one message must not fill a disk; each row carries its own gate
//! (`error_log` asks it).
//!
//! Absent on purpose: sentences with holes in them; the facts follow the sentence, so that an id
//! and its sentence can be searched for.

use crate::flood_gate::FloodGate;
use std::fmt::Write as _;

/// How much a message matters. As in Apache, a higher level includes all lower ones.
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

    /// As Apache counts them, from `emerg` at 0.
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
    /// What the operator should do.
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
    STOPPING "SK0103" "core" Notice "stopping, open requests may finish" "Nothing.";
    STOPPED "SK0104" "core" Notice "stopped" "Nothing.";
    SHUTDOWN_TIMED_OUT "SK0105" "core" Warn "requests were cut off because stopping took too long"
        "Raise the shutdown time limit if these requests are legitimate.";
    PRIVILEGES_DROPPED "SK0106" "core" Info "privileges dropped" "Nothing.";
    PRIVILEGE_DROP_FAILED "SK0107" "core" Error "cannot drop privileges"
        "Check that the configured user and group exist; the server refuses to serve as root.";
    RUNNING_AS_ROOT "SK0108" "core" Warn "running as root without a user to change to" "Set the user the server should run as.";
    WORKER_PANIC "SK0109" "core" Error "a task ended in a panic; its connection was closed" "This is a bug: report it with this line.";
    WORKER_LOST "SK0110" "core" Error "a worker thread ended"
        "This is a bug: report it with the lines before this one, and restart the server.";
    NOTIFY_FAILED "SK0111" "core" Warn "the service manager could not be notified" "Check NOTIFY_SOCKET in the service's unit.";
    AFFINITY_FAILED "SK0112" "core" Warn "a worker could not be bound to its core"
        "Check the processor list against the cores that this process may use.";
    START_FAILED "SK0113" "core" Error "cannot start" "Follow what the line says.";
    HANDED_OVER "SK0114" "core" Notice "a successor takes over; open requests may finish" "Nothing.";
    TOOK_OVER "SK0115" "core" Notice "took over from a server that is stopping" "Nothing.";
    BROKER_ENDED "SK0116" "core" Error "the privileged broker has ended; the server goes on serving without it"
        "Restart the server: until then no reload brings anything that only root may open, and no program of another user starts.";
    // 02: configuration.
    RELOADED "SK0201" "config" Notice "configuration reloaded" "Nothing.";
    RELOAD_REFUSED "SK0202" "config" Error "reload refused, the running configuration stays in force"
        "Run `saker check` on the file, mend what it shows, reload again.";
    CONFIG_WARNING "SK0203" "config" Warn "the configuration has a weakness" "Read the line and decide whether it is meant so.";
    STATE_DIRECTORY_FAILED "SK0204" "config" Error "the state directory cannot be used"
        "Make the directory exist and belong to the user the server runs as.";
    CONTROL_SOCKET_FAILED "SK0205" "config" Warn
        "the control socket cannot be opened; status, reload and stop by command line will not work"
        "Check the state directory's owner and that no other server uses it.";
    CONTROL_REFUSED "SK0206" "config" Warn "a user who may not control the server tried to"
        "Find out what program of that user does so; to allow it, name the user in `control_users` of [server].";
    STATE_DIRECTORY_OPEN "SK0207" "config" Warn "the state directory can't be kept from programs of the server's user"
        "Give PHP and programs users of their own, or start the server where root may set supplementary groups.";
    // 03: listeners and connections.
    LISTENER_FAILED "SK0301" "net" Error "cannot listen"
        "Check that no other program has the address and that the port may be bound by this user.";
    LISTENER_ADDED "SK0302" "net" Notice "listener added" "Nothing.";
    LISTENER_REMOVED "SK0303" "net" Notice "listener removed" "Nothing.";
    ACCEPT_PAUSED "SK0304" "net" Error "out of file descriptors, accepting is paused"
        "Raise the limit (LimitNOFILE) or lower the connection limit.";
    ACCEPT_RESUMED "SK0305" "net" Notice "accepting again" "Nothing.";
    ACCEPT_FAILED "SK0306" "net" Warn "a connection could not be accepted"
        "Look for memory or network trouble on the machine if it repeats.";
    CONNECTION_LIMIT "SK0307" "net" Warn "connection limit reached, new connections wait"
        "Raise the connection limit if the load is legitimate.";
    ADDRESS_CONNECTION_LIMIT "SK0308" "net" Info "too many connections from one client address"
        "Nothing, or raise the limit if it is a shared gateway.";
    PROXY_PREFACE_BAD "SK0309" "net" Warn "a PROXY protocol preface is malformed or missing"
        "Check that the load balancer in front speaks the PROXY protocol to this listener.";
    PROXY_PREFACE_UNTRUSTED "SK0310" "net" Warn "a PROXY protocol preface came from an address that is not trusted"
        "Add the load balancer to the trusted addresses if it is yours.";
    CONNECTION_FAILED "SK0311" "net" Debug "connection failed" "Nothing.";
    DESCRIPTOR_LIMIT_LOW "SK0312" "net" Warn "the file descriptor limit is lower than the connection limit needs"
        "Raise the limit (LimitNOFILE).";
    QLOG_FAILED "SK0313" "net" Warn "connections cannot be recorded (http3_qlog)"
        "Make the directory one that the server's user may write into.";
    // 04: requests.
    REQUEST_REJECTED "SK0401" "http" Info "request rejected" "Nothing, unless a client of your own sends it.";
    HEAD_TIMEOUT "SK0402" "http" Debug "the request head did not arrive in time" "Nothing.";
    BODY_TIMEOUT "SK0403" "http" Debug "the request body did not arrive in time" "Nothing.";
    WRITE_TIMEOUT "SK0404" "http" Debug "the client took the response too slowly" "Nothing.";
    IDLE_TIMEOUT "SK0405" "http" Debug "an idle connection was closed" "Nothing.";
    RESPONSE_CUT "SK0406" "http" Warn "a response could not be completed and its connection was closed"
        "See whether the file is rewritten in place while it is served; rename a finished file instead.";
    HANDLER_FAILED "SK0407" "http" Error "a handler failed" "Follow what the line says.";
    THROTTLED "SK0408" "http" Info "request refused by a throttle" "Nothing, or raise the rate if the client is legitimate.";
    HTTP2_ERROR "SK0409" "http" Info "an HTTP/2 connection was ended because of what the client sent"
        "Nothing, unless a client of your own sends it.";
    HTTP3_ERROR "SK0410" "http" Info "an HTTP/3 connection was ended because of what the client sent"
        "Nothing, unless a client of your own sends it.";
    CLIENT_REFUSED "SK0411" "guard" Warn "a client was refused" "Nothing, or raise the limit that the line names if the client is legitimate.";
    CLIENT_BANNED "SK0412" "guard" Warn "a client was banned" "Nothing, or `saker unban` if the client is legitimate.";
    CLIENT_UNBANNED "SK0413" "guard" Notice "a ban was lifted" "Nothing.";
    LIST_READ "SK0414" "guard" Notice "a list of addresses was read" "Nothing.";
    LIST_REFUSED "SK0415" "guard" Error "a list of addresses can't be used, the one before stays in force" "Mend the line that is named.";
    BANS_NOT_KEPT "SK0416" "guard" Error "bans can't be written down, they hold until the server stops" "See that the state directory can be written.";
    GUARD_KEYS_NOT_KEPT "SK0417" "guard" Error "the keys of passes can't be kept, and passes end with a restart"
        "Let the server's user write to the state directory.";
    RULE_MATCHED "SK0418" "modsecurity" Warn "a rule of ModSecurity has matched" "Nothing, or `SecRuleRemoveById` with the id in the line if the request is legitimate.";
    RULE_REFUSED "SK0419" "modsecurity" Error "a request was refused by ModSecurity's rules" "Nothing, or look for the rules that matched before if the request is legitimate.";
    // 05: files.
    FILE_READ_FAILED "SK0501" "files" Error "a file cannot be read" "Check the file's permissions and the disk.";
    ACCESS_DENIED "SK0502" "files" Error "access to a file is denied" "Check permissions of the file and of each directory above it.";
    WATCH_LIMIT "SK0503" "files" Warn "the inotify limit is reached, changes show with a delay" "Raise fs.inotify.max_user_watches.";
    WATCH_FAILED "SK0504" "files" Warn "a directory cannot be watched, changes show with a delay"
        "Nothing on network file systems; otherwise check permissions.";
    ROOT_MISSING "SK0505" "files" Warn "a document root does not exist" "Create the directory or correct the path.";
    SYMLINK_REFUSED "SK0506" "files" Error "a symbolic link is refused by policy"
        "Allow the link in the configuration if it is meant to be followed.";
    ERROR_PAGE_FAILED "SK0507" "files" Warn "a custom error page cannot be read, the built-in page is sent"
        "Check the path of the error page.";
    COMPRESSION_FAILED "SK0508" "files" Warn "a response could not be compressed and goes out as it is" "Report it if it repeats.";
    MEDIA_REFUSED "SK0509" "files" Warn "a part of an audio or video file can't be made" "See what the line says; the request was answered 500.";
    LISTING_GIVEN_UP "SK0510" "files" Warn "a directory listing was given up, the request was answered 503"
        "See what the line says; directories with very many entries are better not listed.";
    NOT_A_FILE "SK0511" "files" Error "a request was refused because its path leads to a FIFO, a socket or a device" "Find out what made it.";
    FILE_MISSING "SK0512" "files" Info "a file does not exist" "Nothing, unless the site links to it.";
    // 06: logs.
    LOG_WRITE_FAILED "SK0601" "log" Error "an access log cannot be written, its lines are dropped until it can"
        "Free space on the log's disk or mend its permissions.";
    LOG_WRITE_RECOVERED "SK0602" "log" Notice "an access log is written again" "Nothing; the line says how many lines were lost.";
    LOG_REOPENED "SK0603" "log" Info "logs reopened" "Nothing.";
    LOG_REOPEN_FAILED "SK0604" "log" Error "a log cannot be reopened, the old file stays in use"
        "Mend the directory or permissions and send USR1 again.";
    LOG_PROGRAM_ENDED "SK0605" "log" Error "a log program ended and is started again" "See why the program ends.";
    LOG_PROGRAM_FAILED "SK0606" "log" Error "a log program cannot be started" "Check the command.";
    LOG_PROGRAM_STUCK "SK0607" "log" Error "a log program or terminal does not keep up, lines are dropped"
        "See what the program waits for.";
    SUPPRESSED "SK0608" "log" Warn "a message came too often and was suppressed" "Look at the message that the line names.";
    ERROR_LOG_DROPPED "SK0609" "log" Warn "error log lines were lost because the log could not be written" "See what blocks the error log.";
    // 07: TLS.
    CERTIFICATES_RELOADED "SK0701" "tls" Notice "certificates reloaded" "Nothing.";
    CERTIFICATE_BAD "SK0702" "tls" Error "a certificate can't be used, the one before stays in use"
        "Follow what the line says; the files are read again as soon as they change.";
    TLS_HANDSHAKE_FAILED "SK0703" "tls" Info "a TLS handshake failed" "Nothing, unless it is a client of your own.";
    TLS_HANDSHAKE_TIMEOUT "SK0704" "tls" Debug "a TLS handshake did not finish in time" "Nothing.";
    HTTP_ON_TLS_PORT "SK0705" "tls" Info "a client spoke plain HTTP on a TLS port" "Nothing; it was told so.";
    CERTIFICATE_ISSUED "SK0706" "tls" Notice "an automatic certificate was issued" "Nothing.";
    CERTIFICATE_NOT_ISSUED "SK0707" "tls" Error "an automatic certificate was not issued"
        "Mend what the line says. The next attempt is made by itself; a reload does not bring it forward.";
    CERTIFICATE_AUTHORITY_FAILED "SK0708" "tls" Warn "a certificate authority failed, the next is asked" "Nothing, if the next one issues it.";
    CERTIFICATE_FORBIDDEN "SK0709" "tls" Info "a certificate on demand was not ordered" "Nothing, unless the name is one of yours: then see the ask rule.";
    CERTIFICATE_STATE "SK0710" "tls" Error "the state of automatic certificates is not in order" "Mend the folder `acme` in the state directory, or what the line says.";
    CERTIFICATE_RECORD_LEFT "SK0711" "tls" Warn "a record of a challenge may be left in the zone" "See why `dns_command` failed; take the record away.";
    OCSP_RESPONSE_MISSING "SK0712" "tls" Warn "an OCSP response to staple was not had" "Nothing, unless it repeats: then see whether this machine reaches the responder.";

    HTACCESS_BROKEN "SK0801" "apache" Error "an .htaccess file can't be used, its folder is answered with an error"
        "Mend the file as the line says; it is read again as soon as it changes.";
    REWRITE "SK0802" "apache" Error "a rewrite rule" "See what the line says.";
    ACCESS_RULE_NOT_HONOURED "SK0803" "apache" Error "a rule about access can't be honoured, so the request was refused"
        "See `saker check` for what to write instead.";
    RULES_GO_ROUND "SK0804" "apache" Error "rules led a request in circles, it was answered with an error" "See `saker explain` for the rules that took part.";
    REQUEST_GIVEN_UP "SK0805" "apache" Error "rules led a request too far, it was answered with an error"
        "The line names the limit; see what .htaccess files and rules are in force for the path.";
    ACCESS_REFUSED "SK0810" "apache" Error "a request was refused by rules about access" "Nothing, if it is meant so; the line says what refused it.";
    REMOTE_ADDRESS "SK0811" "apache" Info "a proxy named a private address as its client, which was not believed" "Name the proxy by RemoteIPInternalProxy if it is one of yours.";
    INCLUDES "SK0812" "apache" Error "server-side includes" "See what the line says; the page goes on behind what is wrong.";
    EXTERNAL_FILTER "SK0813" "apache" Error "an external filter" "See what the line says, or what the program says.";
    HANDLER_NOT_THERE "SK0820" "apache" Error "a file is for a handler that is not there" "See `saker check`; until the handler comes, such files are answered with an error.";
    CONTENT_FILTER "SK0821" "apache" Error "a content filter failed" "See what the line says; the answer was an error, or was cut where it failed.";
    SCRIPT_REFUSED "SK0822" "apache" Error "a script was not run" "The line says why; Options ExecCGI or ScriptAlias let scripts be run.";

    // 09: programs and servers behind the gateway.
    PROGRAM_FAILED "SK0901" "gateway" Error "a program or server did not answer"
        "The line names it and says why; see whether it runs, and its own log.";
    PROGRAM_CUT "SK0902" "gateway" Error "a response of a program or server broke off" "See its own log.";
    PROGRAM_SAID "SK0903" "gateway" Error "a program said" "See what the line says.";
    PROGRAM_SETTING "SK0904" "gateway" Warn "a PHP setting can't be passed on" "Mend its name or value.";
    PROGRAM_FILE "SK0905" "gateway" Error "a program left its response to a file or path that can't be had"
        "See that the file is there and below a folder that programs may send files from.";
    MEMBER_DOWN "SK0906" "gateway" Error "a server failed its health checks and is not asked" "See why it does not answer as it should.";
    MEMBER_UP "SK0907" "gateway" Notice "a server passes its health checks again" "Nothing.";
    AUTHORIZER_FAILED "SK0908" "gateway" Error "nobody said whether a request may pass, so it was refused"
        "The line names who was asked (authorize) and what came; see whether it runs, and its own log.";
    AUTHORIZATION_REFUSED "SK0909" "gateway" Error "an authorizer refused a request" "Nothing; the line says what was asked for (docs/neighbours.md has a filter for fail2ban).";
    PHP_STARTED "SK0920" "php" Notice "PHP was started" "Nothing.";
    PHP_ENDED "SK0921" "php" Error "PHP ended, and is started again with the next request" "See the lines before, which are its own.";
    PHP_REPLACED "SK0922" "php" Notice "PHP was replaced because its configuration changed" "Nothing.";
    PHP_FAILED "SK0923" "php" Error "PHP can't be run" "See what the line says.";
    PHP_MISSING "SK0924" "php" Error "a PHP file was asked for, and there is no PHP to run it"
        "Install php-fpm, lsphp or php-cgi, or name one in [php].";
    PHP_OTHER_VERSION "SK0925" "php" Warn "a handler names a version of PHP that is not there" "Install it, or name the one that is there.";
    PHP_IDLE "SK0926" "php" Info "PHP was ended because nobody has asked for it for long" "Nothing: the next request starts it again.";
    PHP_SCRIPT_MISSING "SK0927" "php" Error "a PHP script was not found" "Nothing, unless the site links to it.";
    // 10: the page cache.
    CACHE_UNREADABLE "SK1001" "cache" Warn "an entry of the page cache can't be read, and is made anew" "If there are many, look after the disk.";
    CACHE_JOURNAL_FAILED "SK1002" "cache" Error "a purge can't be written down; it holds all the same, and is tried again" "Make room on the disk of the page cache.";
    CACHE_NOT_STORED "SK1003" "cache" Warn "a response can't be kept" "See what the line says.";
    CACHE_OFF "SK1004" "cache" Error "there is no page cache" "See what the line says; responses are made anew each time until the next start.";
    ESI_FAULT "SK1005" "cache" Warn "a page's ESI is not as it ought to be; what can't be read is sent as it is" "Mend the page.";
    ESI_INCLUDE_FAILED "SK1006" "cache" Warn "what a page includes can't be had" "See what the line says; the page goes out with what it says in place of it, or without.";
    CACHE_DISK_FULL "SK1007" "cache" Warn "the disk of the page cache has no room beyond its reserve; pages are answered without being kept" "Make room on that disk, or lower `reserve` of [cache].";
    CACHE_DISK_ROOM "SK1008" "cache" Notice "the disk of the page cache has room again" "Nothing.";
    // 13: hosts that a database knows.
    HOSTS_AWAY "SK1301" "hosts" Error "the database of hosts does not answer; hosts that are known are served all the same" "See that it runs, and that `database` and `query` of [hosts] are right.";
    HOSTS_BACK "SK1302" "hosts" Notice "the database of hosts answers again" "Nothing.";
    HOST_REFUSED "SK1303" "hosts" Error "what the database says of a host is refused" "Mend the row as the line says, or `roots` of [hosts].";
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
