//! Steers QUIC packets to their worker, decided by the kernel before any worker is woken.
//!
//! The first two bytes of a connection id, as a number modulo the number of workers, are the
//! worker's number ([`mark`], [`worker`]); a classic BPF program on the group of sockets computes
//! the same (SO_ATTACH_REUSEPORT_CBPF, socket(7)). The ids that clients choose for their first
//! packets are random and reach any worker; that worker's ids then lead back to it, in packets with
//! long and with short headers, from any address.
//! Out of scope: the worker's number in clear; an id must not reveal anything about others of the
//! same connection (RFC 9000 section 5.1), which a mark does no more than chance.
#![allow(unsafe_code)]

use crate::socket_options;
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Bytes of the ids that we give out. RFC 9000 section 17.3.1: a short header does not say how long
/// the id is.
pub const ID_BYTES: usize = 8;
/// RFC 9000 section 17.3.1: the id follows the first byte.
const SHORT_ID_AT: u32 = 1;
/// RFC 8999 section 5.1: first byte, version, length of the id, id.
const LONG_LENGTH_AT: u32 = 5;
const LONG_ID_AT: u32 = 6;
const LONG_HEADER: u32 = 0x80;
/// No socket has this number: the kernel chooses by the addresses.
const BY_ADDRESS: u32 = u32::MAX;

/// The first two bytes of an id that leads to `worker`; `random` makes it differ from others.
pub fn mark(worker: usize, workers: usize, random: u16) -> [u8; 2] {
    let workers = u16::try_from(workers).unwrap_or(u16::MAX).max(1);
    let worker = u16::try_from(worker).unwrap_or(0) % workers;
    let rest = random - random % workers;
    // The last numbers below 65,536 are not enough for all workers.
    rest.checked_add(worker).unwrap_or(worker).to_be_bytes()
}

/// The worker that a packet goes to, as the kernel's program has it; `None`: by its addresses.
pub fn worker(packet: &[u8], workers: usize) -> Option<usize> {
    let at = match u32::from(*packet.first()?) & LONG_HEADER == 0 {
        true => SHORT_ID_AT as usize,
        false if usize::from(*packet.get(LONG_LENGTH_AT as usize)?) < ID_BYTES => return None,
        false => LONG_ID_AT as usize,
    };
    let mark = packet.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_be_bytes(*mark)) % workers.max(1))
}

/// Puts the program on the group that the socket is in.
pub(crate) fn attach(socket: impl AsFd, workers: usize) -> io::Result<()> {
    attach_program(socket, &mut program(workers))
}

/// Leads all new connections to one socket of the group, by the order in which they began to
/// listen. Where the group has no such number any more the kernel chooses as if nothing had been
/// said.
pub fn prefer(socket: impl AsFd, number: usize) -> io::Result<()> {
    let number = u32::try_from(number).unwrap_or(BY_ADDRESS);
    attach_program(socket, &mut [op(libc::BPF_RET | libc::BPF_K, 0, 0, number)])
}

/// Takes away what [`prefer`] has said.
pub fn prefer_none(socket: impl AsFd) -> io::Result<()> {
    socket_options::detach_reuseport_program(socket)
}

fn attach_program(socket: impl AsFd, instructions: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: instructions.len() as libc::c_ushort,
        filter: instructions.as_mut_ptr(),
    };
    // SAFETY: setsockopt reads one sock_fprog, and through it `len` instructions, during the call
    // and keeps a copy. Both live on this stack frame and have the lengths that are given
    // (guaranteed here); the descriptor is open as long as the borrow (guaranteed by AsFd). The
    // kernel checks the program itself. Test: packets_reach_the_worker_that_their_id_names.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast::<libc::c_void>(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the BPF program that computes [`worker`]. Loads past the packet's end end the program
/// with 0.
fn program(workers: usize) -> [libc::sock_filter; 10] {
    let load = |size: u32, at| op(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at);
    [
        load(libc::BPF_B, 0),
        op(
            libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
            2,
            0,
            LONG_HEADER,
        ),
        load(libc::BPF_H, SHORT_ID_AT),
        op(libc::BPF_JMP | libc::BPF_JA, 0, 0, 3),
        load(libc::BPF_B, LONG_LENGTH_AT),
        op(
            libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
            0,
            3,
            ID_BYTES as u32,
        ),
        load(libc::BPF_H, LONG_ID_AT),
        op(
            libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K,
            0,
            0,
            u32::try_from(workers).unwrap_or(1).max(1),
        ),
        op(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, BY_ADDRESS),
    ]
}

fn op(code: u32, if_true: u8, if_false: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: if_true,
        jf: if_false,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bind, BindOptions, BoundSocket, LocalAddress, UdpOptions, bind, bind_udp};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    const WORKERS: usize = 5;

    fn packets(worker: usize, random: u16) -> [Vec<u8>; 2] {
        let mark = mark(worker, WORKERS, random);
        let short = [&[0x41], &mark[..], &[7; 30]].concat();
        let long = [&[0xe1, 0, 0, 0, 1, 8], &mark[..], &[7; 30]].concat();
        [short, long]
    }

    #[test]
    fn a_mark_leads_back() {
        for workers in [1, 2, 3, 7, 64, 1000] {
            for random in [0, 1, 999, 65_000, 65_533, 65_535] {
                for number in [0, workers / 2, workers - 1] {
                    let short = [&[0x40], &mark(number, workers, random)[..], &[0; 20]].concat();
                    assert_eq!(worker(&short, workers), Some(number), "{workers} {random}");
                }
            }
        }
        assert_eq!(
            worker(&[0xc0, 0, 0, 0, 1, 4, 1, 2, 3, 4], 3),
            None,
            "the id is too short to be ours"
        );
        assert_eq!(worker(&[], 3), None);
    }

    #[test]
    fn packets_reach_the_worker_that_their_id_names() {
        let sockets = bind_udp(
            "127.0.0.1:0".parse().unwrap(),
            WORKERS,
            UdpOptions::default(),
        )
        .unwrap();
        let address = sockets[0].local_address().unwrap();
        let receivers: Vec<UdpSocket> = sockets
            .iter()
            .map(|socket| UdpSocket::from(socket.as_fd().try_clone_to_owned().unwrap()))
            .collect();
        let mut buffer = [0; 100];
        for (number, receiver) in receivers.iter().enumerate() {
            for random in [3, 40_000, 65_534] {
                // Another socket each time: another address, as after a migration.
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                for packet in packets(number, random) {
                    client.send_to(&packet, address).unwrap();
                    let count = receiver
                        .recv(&mut buffer)
                        .unwrap_or_else(|error| panic!("worker {number}: {error}"));
                    assert_eq!(buffer[..count], packet[..]);
                }
            }
        }
    }

    /// As between a server that stops and its successor: the later sockets have all of it, and lose
    /// nothing when the earlier ones go.
    #[test]
    fn one_socket_of_a_group_is_preferred() {
        let options = BindOptions {
            reuse_port: true,
            ..BindOptions::default()
        };
        let bound = |address| bind(Bind::Tcp(address), options).unwrap();
        let first = bound("127.0.0.1:0".parse().unwrap());
        let LocalAddress::Ip(address) = first.local_address().unwrap() else {
            panic!("not an IP address")
        };
        let earlier = vec![first, bound(address)];
        let later = [bound(address), bound(address)];
        let waiting = |socket: &BoundSocket| {
            TcpListener::from(socket.as_fd().try_clone_to_owned().unwrap())
                .accept()
                .is_ok()
        };
        prefer(&later[0], earlier.len()).unwrap();
        for _ in 0..20 {
            let _client = TcpStream::connect(address).unwrap();
            assert!(waiting(&later[0]) && !earlier.iter().any(waiting) && !waiting(&later[1]));
        }
        drop(earlier);
        prefer_none(&later[0]).unwrap();
        let clients: Vec<_> = (0..64)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let counts = later
            .each_ref()
            .map(|socket| std::iter::from_fn(|| waiting(socket).then_some(())).count());
        assert!(
            counts.iter().sum::<usize>() == clients.len() && counts.iter().all(|count| *count > 0),
            "{counts:?}"
        );
    }

    /// Short ids belong to no worker: the addresses decide, and the packet arrives.
    #[test]
    fn packets_without_a_mark_arrive_somewhere() {
        let sockets = bind_udp(
            "127.0.0.1:0".parse().unwrap(),
            WORKERS,
            UdpOptions::default(),
        )
        .unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client
            .send_to(
                &[0xc0, 0, 0, 0, 1, 3, 1, 2, 3, 0],
                sockets[0].local_address().unwrap(),
            )
            .unwrap();
        let arrived = sockets
            .iter()
            .filter(|socket| {
                UdpSocket::from(socket.as_fd().try_clone_to_owned().unwrap())
                    .recv(&mut [0; 20])
                    .is_ok()
            })
            .count();
        assert_eq!(arrived, 1);
    }

    #[test]
    fn an_address_that_is_taken_is_an_error() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = bind_udp(taken.local_addr().unwrap(), 2, UdpOptions::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let ours = bind_udp("127.0.0.1:0".parse().unwrap(), 2, UdpOptions::default()).unwrap();
        let error =
            bind_udp(ours[0].local_address().unwrap(), 2, UdpOptions::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
