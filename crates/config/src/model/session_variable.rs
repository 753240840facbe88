//! Names of the variables that a stream's session has, for texts and logs.
//!
//! Called by: the front ends: nginx's texts of the block `stream`, and logs of `[[stream]]`.
//! Out of scope: values (`saker-stream-proxy`).

macro_rules! session_variables {
    ($($name:literal $variant:ident)*) => {
        /// A variable that nginx defines for sessions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SessionVariable { $($variant),* }

        const VARIABLES: &[(&str, SessionVariable)] =
            &[$(($name, SessionVariable::$variant)),*];
    };
}

session_variables! {
    "binary_remote_addr" BinaryRemoteAddr
    "bytes_received" BytesReceived
    "bytes_sent" BytesSent
    "connection" Connection
    "hostname" Hostname
    "limit_conn_status" LimitConnStatus
    "msec" Msec
    "nginx_version" NginxVersion
    "pid" Pid
    "protocol" Protocol
    "proxy_protocol_addr" ProxyProtocolAddr
    "proxy_protocol_port" ProxyProtocolPort
    "proxy_protocol_server_addr" ProxyProtocolServerAddr
    "proxy_protocol_server_port" ProxyProtocolServerPort
    "realip_remote_addr" RealipRemoteAddr
    "realip_remote_port" RealipRemotePort
    "remote_addr" RemoteAddr
    "remote_port" RemotePort
    "server_addr" ServerAddr
    "server_port" ServerPort
    "session_time" SessionTime
    "ssl_alpn_protocol" SslAlpnProtocol
    "ssl_cipher" SslCipher
    "ssl_client_verify" SslClientVerify
    "ssl_curve" SslCurve
    "ssl_preread_alpn_protocols" SslPrereadAlpnProtocols
    "ssl_preread_protocol" SslPrereadProtocol
    "ssl_preread_server_name" SslPrereadServerName
    "ssl_protocol" SslProtocol
    "ssl_server_name" SslServerName
    "ssl_session_reused" SslSessionReused
    "status" Status
    "time_iso8601" TimeIso8601
    "time_local" TimeLocal
    "upstream_addr" UpstreamAddr
    "upstream_bytes_received" UpstreamBytesReceived
    "upstream_bytes_sent" UpstreamBytesSent
    "upstream_connect_time" UpstreamConnectTime
    "upstream_first_byte_time" UpstreamFirstByteTime
    "upstream_session_time" UpstreamSessionTime
}

impl SessionVariable {
    /// Returns the variable of a name in lower case.
    pub fn known(name: &str) -> Option<SessionVariable> {
        let row = VARIABLES.iter().find(|(known, _)| *known == name);
        row.map(|(_, variable)| *variable)
    }
}
