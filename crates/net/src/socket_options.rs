//! Socket calls for which our dependencies offer no safe wrapper.
//!
//! Called by: `listener`, `stream` and `udp`.
//! Caveat: all pass a pointer to one `c_int` of ours for the length of a call.
#![allow(unsafe_code)]

use std::{
    ffi::c_int,
    io,
    os::fd::{AsFd, AsRawFd},
};

/// TCP_DEFER_ACCEPT: the kernel hands a connection out only once it has data, or after about
/// `seconds`.
pub(crate) fn set_defer_accept(socket: impl AsFd, seconds: c_int) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds)
}

/// SO_TIMESTAMPNS off.
pub(crate) fn no_timestamps(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0)
}

/// SO_RCVBUF and SO_SNDBUF, above the system's bounds where we may (socket(7): CAP_NET_ADMIN), up
/// to them otherwise.
pub(crate) fn set_udp_buffers(
    socket: impl AsFd,
    receive_bytes: u32,
    send_bytes: u32,
) -> io::Result<()> {
    let receive_bytes = c_int::try_from(receive_bytes).unwrap_or(c_int::MAX);
    let send_bytes = c_int::try_from(send_bytes).unwrap_or(c_int::MAX);
    set(
        &socket,
        libc::SOL_SOCKET,
        libc::SO_RCVBUFFORCE,
        receive_bytes,
    )
    .or_else(|_| set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, receive_bytes))?;
    set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, send_bytes)
        .or_else(|_| set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUF, send_bytes))
}

/// SO_DETACH_REUSEPORT_BPF: the kernel chooses again which socket of the group a connection goes
/// to. The value means nothing.
pub(crate) fn detach_reuseport_program(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, 0)
}

fn set(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: setsockopt reads `length` bytes from the pointer during the call and keeps nothing.
    // `value` is a live c_int of exactly that length (guaranteed here), the descriptor is open as
    // long as the borrow (guaranteed by AsFd). Test: defer_accept_is_set.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<libc::c_void>(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// SIOCOUTQ: bytes in the send queue that the peer has not acknowledged (TCP) or not read (Unix).
pub(crate) fn unsent_bytes(socket: impl AsFd) -> io::Result<usize> {
    let mut bytes: c_int = 0;
    // SAFETY: for this request the kernel writes one int through the pointer during the call
    // (tcp(7), SIOCOUTQ = TIOCOUTQ); `bytes` is a live, exclusively borrowed c_int (guaranteed
    // here), the descriptor is open (AsFd). Other kinds of descriptor answer ENOTTY. Test:
    // unsent_bytes_counts_what_the_peer_has_not_taken.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 {
        Ok(usize::try_from(bytes).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// State of a TCP connection that the kernel reports (tcp(7), TCP_INFO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time and its variance, in microseconds.
    pub rtt_us: u32,
    pub rtt_variance_us: u32,
    /// Congestion window, in segments.
    pub congestion_window: u32,
    /// Room in the receive buffer that the kernel plans with, in bytes.
    pub receive_space_bytes: u32,
}

/// Words of `struct tcp_info` up to `tcpi_total_retrans`; the first two hold single bytes.
const TCP_INFO_WORDS: usize = 26;

/// Asks the kernel for a connection's TCP_INFO.
///
/// # Errors
/// The kernel's, for sockets that are not TCP's.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut words = [0_u32; TCP_INFO_WORDS];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: getsockopt writes at most `length` bytes through the pointer during the call and keeps
    // nothing. `words` is a live, exclusively borrowed array of exactly that length, and any bytes
    // are valid u32s (guaranteed here); the descriptor is open as long as the borrow (AsFd). Test:
    // tcp_info_knows_the_round_trip.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut words).cast::<libc::c_void>(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(TcpInfo {
        rtt_us: words[17],
        rtt_variance_us: words[18],
        congestion_window: words[20],
        receive_space_bytes: words[24],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
    };

    #[test]
    fn tcp_info_knows_the_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = tcp_info(&client).unwrap();
        assert!(info.rtt_us > 0 && info.rtt_us < 10_000_000, "{info:?}");
        assert!((1..1000).contains(&info.congestion_window), "{info:?}");
        assert!(info.receive_space_bytes >= 1000, "{info:?}");
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(tcp_info(&unix).is_err());
    }

    #[test]
    fn defer_accept_is_set() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_defer_accept(&listener, 2).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // The loopback interface keeps the order: a connection made after it has arrived.
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let _later = TcpStream::connect(plain.local_addr().unwrap()).unwrap();
        plain.accept().unwrap();
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            io::ErrorKind::WouldBlock,
            "accepted before the client spoke"
        );
        client.write_all(b"x").unwrap();
        listener.set_nonblocking(false).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn unsent_bytes_counts_what_the_peer_has_not_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(unsent_bytes(&client).unwrap(), 0);
        client.set_nonblocking(true).unwrap();
        while client.write(&[0; 65536]).is_ok() {}
        assert!(unsent_bytes(&client).unwrap() > 0);
    }

    #[test]
    fn other_descriptors_are_an_error() {
        let file = std::fs::File::open("/").unwrap();
        assert!(unsent_bytes(&file).is_err());
        assert!(set_defer_accept(&file, 1).is_err());
    }
}
