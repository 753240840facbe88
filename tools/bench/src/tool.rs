//! Load tools and their modes.
//!
//! Called by: rows, which choose one; `load`, which runs it.
//! Caveat: a tool determines whether a row is over TLS.
//! Out of scope: command lines and output of the tools (`load`).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Keep-alive.
    Wrk,
    /// The same by a client that takes gzip.
    WrkGzip,
    /// Keep-alive, by visitors of whom one in so many is logged in.
    WrkLoggedIn {
        one_in: usize,
    },
    Ab(Ab),
    /// With its parser the parts of each page are asked for after it.
    Siege {
        parser: bool,
    },
    /// A TLS connection per request, one after the other.
    Httperf,
    /// HTTP/2 over TLS, with so many streams on each connection.
    H2load {
        streams: usize,
    },
    /// Keep-alive HTTP/1.1 over TLS.
    H1load,
    /// Our own: a TLS handshake per request.
    Handshakes {
        resumed: bool,
    },
    /// Our own: HTTP/3. Who does not speak it is measured by the yardstick.
    H3load {
        streams: usize,
        yardstick: Yardstick,
    },
}

/// nginx's part in HTTP/3 rows; Debian's nginx does not have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yardstick {
    Http2,
    /// Without TLS, by sendfile.
    PlainHttp1,
}

/// A connection per request.
pub const CLOSE: Tool = Tool::Ab(Ab {
    keep_alive: false,
    requests: None,
    any_length: false,
});

/// Use of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ab {
    pub keep_alive: bool,
    /// `None`: as many as there is time for.
    pub requests: Option<u32>,
    /// For pages that differ in length by nature (phpinfo tells ports and times); else another
    /// length than the first is a failure.
    pub any_length: bool,
}

/// Requests of a warm-up.
pub const FEW: u32 = 1000;

impl Ab {
    /// The same for a moment; of films fewer, but one for each connection.
    pub fn few(self, connections: usize) -> Ab {
        let least = u32::try_from(connections).unwrap_or(u32::MAX);
        Ab {
            requests: Some(
                self.requests
                    .map_or(FEW, |requests| requests / 10)
                    .max(least),
            ),
            ..self
        }
    }
}

impl Tool {
    pub fn is_over_tls(self) -> bool {
        !matches!(
            self,
            Tool::Wrk | Tool::WrkGzip | Tool::WrkLoggedIn { .. } | Tool::Ab(_) | Tool::Siege { .. }
        )
    }

    pub fn warms_up_itself(self) -> bool {
        self.is_over_tls() && self != Tool::Httperf
    }
}
