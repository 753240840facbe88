//! Steers QUIC packets to their worker, decided by the kernel before any worker is woken.
//!
//! The first two bytes of a connection id, as a number modulo the number of workers, are the
//! worker's number ([`mark`], [`worker`]); a classic BPF program on the group of sockets computes
//! the same (SO_ATTACH_REUSEPORT_CBPF, socket(7)). The ids that clients choose for their first
//! packets are random and reach any worker; that worker's ids then lead back to it, in packets with
//! long and with short headers, from any address.
//!
//! During an upgrade two processes have sockets in one group, the later ones behind the earlier
//! ones'. Bytes 2 to 5 of an id say which process gave it out ([`sign`]): their two halves differ by
//! the process' tag. Packets of the earlier process' ids go on to it, all others to the later one
//! ([`lead_beside`]). Once the earlier process is gone, its sockets are closed from the last to the
//! first; the kernel puts the last socket of the group into each gap, so the later process' are
//! turned by their number ([`lead_alone`]).
//! Caveat: an id that a client chose has an earlier process' tag once in 65,536 times.
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

/// Puts the mark of the process into bytes 2 to 5 of an id, the first two of which are random.
pub fn sign(id: &mut [u8; ID_BYTES], tag: u16) {
    let [_, _, first, second, ..] = *id;
    let half = u16::from_be_bytes([first, second]) ^ tag;
    id[4..6].copy_from_slice(&half.to_be_bytes());
}

/// Returns true if the kernel takes the id for one that the process with this tag gave out.
pub fn is_signed(id: &[u8], tag: u16) -> bool {
    match id {
        [_, _, a, b, c, d, ..] if id.len() >= ID_BYTES => {
            u16::from_be_bytes([*a, *b]) ^ u16::from_be_bytes([*c, *d]) == tag
        }
        _ => false,
    }
}

/// Sockets of a process in the group of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub sockets: usize,
    /// The number of the first worker's socket; those of the others follow, around the end.
    pub turned: usize,
}

/// Closes an earlier process' sockets, which are in the order of workers, in the one order that
/// leaves the later ones in theirs.
pub fn close_in_order<S>(sockets: &mut Vec<S>, share: Share) {
    let count = share.sockets.max(1);
    let mut sockets: Vec<Option<S>> = sockets.drain(..).map(Some).collect();
    for number in (0..count).rev() {
        let worker = (number + count - share.turned % count) % count;
        drop(sockets.get_mut(worker).and_then(Option::take));
    }
}

/// The number that the first worker's socket has once so many earlier ones are gone.
pub fn first_number(earlier: usize, workers: usize) -> usize {
    earlier % workers.max(1)
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
    attach_program(socket, &mut program(workers, 0))
}

/// For a process whose sockets are the group's only ones.
pub fn lead_alone(socket: impl AsFd, share: Share) -> io::Result<()> {
    attach_program(socket, &mut program(share.sockets, share.turned))
}

/// For a process whose sockets come behind those of an earlier one, whose ids have `tag`.
pub fn lead_beside(socket: impl AsFd, earlier: Share, tag: u16, workers: usize) -> io::Result<()> {
    attach_program(socket, &mut program_beside(earlier, tag, workers))
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

/// Returns the program of [`lead_beside`]. X is the place of the id, M[0] its mark.
fn program_beside(earlier: Share, tag: u16, workers: usize) -> [libc::sock_filter; 24] {
    let byte = |at| op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, at);
    let of_id = |at| op(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, at);
    let place = |at| op(libc::BPF_LDX | libc::BPF_IMM, 0, 0, at);
    let store = |slot| op(libc::BPF_ST, 0, 0, slot);
    let mark = || op(libc::BPF_LD | libc::BPF_MEM, 0, 0, 0);
    let compute = |what: u32, k: usize| op(libc::BPF_ALU | what | libc::BPF_K, 0, 0, number(k));
    let jump = |how: u32, yes, no, k| op(libc::BPF_JMP | how | libc::BPF_K, yes, no, k);
    let answer = || op(libc::BPF_RET | libc::BPF_A, 0, 0, 0);
    [
        byte(0),
        jump(libc::BPF_JSET, 2, 0, LONG_HEADER),
        place(SHORT_ID_AT),
        op(libc::BPF_JMP | libc::BPF_JA, 0, 0, 3),
        byte(LONG_LENGTH_AT),
        // To the last line.
        jump(libc::BPF_JGE, 0, 17, ID_BYTES as u32),
        place(LONG_ID_AT),
        of_id(0),
        store(0),
        of_id(2),
        store(1),
        of_id(4),
        op(libc::BPF_LDX | libc::BPF_MEM, 0, 0, 1),
        op(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0, 0, 0),
        jump(libc::BPF_JEQ, 0, 4, u32::from(tag)),
        mark(),
        compute(libc::BPF_ADD, earlier.turned),
        compute(libc::BPF_MOD, earlier.sockets.max(1)),
        answer(),
        mark(),
        compute(libc::BPF_MOD, workers.max(1)),
        compute(libc::BPF_ADD, earlier.sockets),
        answer(),
        // An id that is too short to be one of ours begins a connection.
        op(libc::BPF_RET | libc::BPF_K, 0, 0, number(earlier.sockets)),
    ]
}

/// A number in a program.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(1)
}

/// Returns the BPF program that computes [`worker`], turned. Loads past the packet's end end the
/// program with 0.
fn program(workers: usize, turned: usize) -> [libc::sock_filter; 11] {
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
            4,
            ID_BYTES as u32,
        ),
        load(libc::BPF_H, LONG_ID_AT),
        op(
            libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K,
            0,
            0,
            number(turned),
        ),
        op(
            libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K,
            0,
            0,
            number(workers).max(1),
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
    use crate::{
        Bind, BindOptions, BoundSocket, LocalAddress, UdpOptions, bind, bind_udp, bind_udp_beside,
    };
    use std::net::{TcpListener, TcpStream, UdpSocket};

    const WORKERS: usize = 5;

    fn packets(worker: usize, random: u16) -> [Vec<u8>; 2] {
        let mark = mark(worker, WORKERS, random);
        let short = [&[0x41], &mark[..], &[7; 30]].concat();
        let long = [&[0xe1, 0, 0, 0, 1, 8], &mark[..], &[7; 30]].concat();
        [short, long]
    }

    #[test]
    fn ids_of_a_process_are_told_from_others() {
        for tag in [0, 1, 0xbeef, u16::MAX] {
            let mut id = [1, 2, 3, 4, 5, 6, 7, 8];
            sign(&mut id, tag);
            assert!(is_signed(&id, tag) && !is_signed(&id, tag ^ 1));
            assert!(is_signed(&[&id[..], &[9; 12]].concat(), tag));
            assert!(!is_signed(&id[..7], tag) && !is_signed(&[], tag));
        }
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

    /// As during an upgrade: ids of the earlier process stay with it, all others are the later
    /// one's; when the earlier one is gone, each worker has its own still.
    #[test]
    fn two_processes_share_an_address() {
        let (earlier_tag, later_tag) = (0x1234, 0x1235);
        let id = |worker, workers, tag| {
            let mut id = [0, 0, 0x5a, 0xa5, 0, 0, 7, 7];
            id[..2].copy_from_slice(&mark(worker, workers, 40_001));
            sign(&mut id, tag);
            id
        };
        let packets = |worker, workers, tag| {
            let id = id(worker, workers, tag);
            let short = [&[0x41], &id[..], &[7; 30]].concat();
            let long = [&[0xe1, 0, 0, 0, 1, 8], &id[..], &[7; 30]].concat();
            [short, long]
        };
        for (first, second) in [(2, 2), (2, 3), (3, 2), (1, 4), (4, 1), (1, 1)] {
            let any = "127.0.0.1:0".parse().unwrap();
            let mut earlier = bind_udp(any, first, UdpOptions::default()).unwrap();
            let address = earlier[0].local_address().unwrap();
            let mut share = Share {
                sockets: first,
                turned: 0,
            };
            let (mut of_earlier, mut of_later) = (earlier_tag, later_tag);
            // Twice: the second time the group of the first one is a turned one.
            for count in [second, first] {
                let later = bind_udp_beside(address, count, UdpOptions::default()).unwrap();
                let reaches = |socket: &crate::BoundUdp, packet: &[u8]| {
                    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                    client.send_to(packet, address).unwrap();
                    let socket = UdpSocket::from(socket.as_fd().try_clone_to_owned().unwrap());
                    let mut buffer = [0; 100];
                    socket
                        .recv(&mut buffer)
                        .is_ok_and(|count| buffer[..count] == *packet)
                };
                let all_reach = |sockets: &[crate::BoundUdp], tag| {
                    for (number, socket) in sockets.iter().enumerate() {
                        for packet in packets(number, sockets.len(), tag) {
                            assert!(reaches(socket, &packet), "{first} {second}: {number}");
                        }
                    }
                };
                all_reach(&earlier, of_earlier);
                lead_beside(&later[0], share, of_earlier, count).unwrap();
                all_reach(&earlier, of_earlier);
                all_reach(&later, of_later);
                assert!(reaches(&later[0], &[0xc0, 0, 0, 0, 1, 3, 1, 2, 3, 0]));
                close_in_order(&mut earlier, share);
                share = Share {
                    sockets: count,
                    turned: first_number(share.sockets, count),
                };
                lead_alone(&later[0], share).unwrap();
                all_reach(&later, of_later);
                earlier = later;
                (of_earlier, of_later) = (of_later, of_later + 1);
            }
        }
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
