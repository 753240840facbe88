//! Network namespaces and TUN devices, the basis of the lab's link emulator (`tools/link`).
//!
//! A TUN device passes every IP packet routed to it to the reader of its descriptor, and treats
//! what is written there as a packet that has arrived (Documentation/networking/tuntap.rst in
//! Linux's source). Both it and a thread's namespace live as long as a reference to them exists, so
//! nothing has to be cleaned up.
//! Called by: `tools/link`; the server itself uses neither.
//! Out of scope: IPv6 addresses, names for namespaces, and offloads, which would pass packets
//! larger than the link carries.
#![allow(unsafe_code)]

use rustix::{
    fs::{Mode, OFlags},
    net::{AddressFamily, SocketType},
    thread::UnshareFlags,
};
use std::{
    ffi::c_short,
    io,
    net::Ipv4Addr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

const NAME_BYTES: usize = libc::IFNAMSIZ;

/// `struct ifreq` (netdevice(7)) as plain bytes: a name, and a value whose meaning is the
/// request's.
#[repr(C, align(8))]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    value: [u8; size_of::<libc::ifreq>() - NAME_BYTES],
}

const _: () = assert!(
    size_of::<InterfaceRequest>() == size_of::<libc::ifreq>() && align_of::<libc::ifreq>() <= 8
);

impl InterfaceRequest {
    fn new(name: &str, value: &[u8]) -> io::Result<InterfaceRequest> {
        let mut request = InterfaceRequest {
            name: [0; NAME_BYTES],
            value: [0; size_of::<libc::ifreq>() - NAME_BYTES],
        };
        // The name ends with a zero.
        let fits = name.len() < NAME_BYTES && value.len() <= request.value.len();
        if !fits {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        request.value[..value.len()].copy_from_slice(value);
        Ok(request)
    }

    fn make(mut self, code: libc::Ioctl, descriptor: impl AsFd) -> io::Result<()> {
        // SAFETY: every code that this module passes reads, and some write, one `struct ifreq`
        // through the pointer during the call and keep nothing (netdevice(7), tuntap.rst). `self`
        // is exclusively ours, initialized, and has that size and alignment (asserted above); the
        // descriptor is open as long as the borrow. Tests: packets_go_in_and_out_of_a_device,
        // mistakes_are_errors.
        let result = unsafe {
            libc::ioctl(
                descriptor.as_fd().as_raw_fd(),
                code,
                (&raw mut self).cast::<libc::c_void>(),
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Gives the calling thread, and what it starts from now on, a network of its own with nothing in
/// it but `lo`, which is up.
pub fn enter_new_network() -> io::Result<()> {
    // SAFETY: what makes unshare unsafe is a table of descriptors of one's own
    // (UnshareFlags::FILES), which is not asked for here. Test: packets_go_in_and_out_of_a_device.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
    interface_up("lo", &interface_socket()?)
}

/// A device for IP packets in the network of the thread that made it. It goes when this is dropped.
#[derive(Debug)]
pub struct TunnelDevice {
    descriptor: OwnedFd,
    name: String,
}

impl TunnelDevice {
    /// Reads of it do not wait.
    pub fn create(name: &str) -> io::Result<TunnelDevice> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
        let kind = (libc::IFF_TUN | libc::IFF_NO_PI) as c_short;
        InterfaceRequest::new(name, &kind.to_ne_bytes())?.make(libc::TUNSETIFF, &descriptor)?;
        Ok(TunnelDevice {
            descriptor,
            name: name.to_owned(),
        })
    }

    /// Brings the device up. At most `waiting_packets` may wait for the reader; the kernel drops
    /// more.
    pub fn bring_up(
        &self,
        address: Ipv4Addr,
        mask: Ipv4Addr,
        mtu_bytes: u16,
        waiting_packets: u32,
    ) -> io::Result<()> {
        let socket = interface_socket()?;
        let set = |code: libc::Ioctl, value: &[u8]| {
            InterfaceRequest::new(&self.name, value)?.make(code, &socket)
        };
        set(
            libc::SIOCSIFTXQLEN as libc::Ioctl,
            &waiting_packets.to_ne_bytes(),
        )?;
        set(
            libc::SIOCSIFMTU as libc::Ioctl,
            &u32::from(mtu_bytes).to_ne_bytes(),
        )?;
        set(libc::SIOCSIFADDR as libc::Ioctl, &socket_address(address))?;
        set(libc::SIOCSIFNETMASK as libc::Ioctl, &socket_address(mask))?;
        interface_up(&self.name, &socket)
    }

    /// One packet, or `WouldBlock`.
    pub fn receive(&self, packet: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.descriptor, packet)?)
    }

    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.descriptor, packet)?;
        Ok(())
    }
}

impl AsFd for TunnelDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Any socket of the network stands for all of it.
fn interface_socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket(
        AddressFamily::INET,
        SocketType::DGRAM,
        None,
    )?)
}

fn interface_up(name: &str, socket: &OwnedFd) -> io::Result<()> {
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as c_short;
    InterfaceRequest::new(name, &flags.to_ne_bytes())?
        .make(libc::SIOCSIFFLAGS as libc::Ioctl, socket)
}

/// `struct sockaddr_in` (ip(7)): family, port, address.
fn socket_address(address: Ipv4Addr) -> [u8; 8] {
    let [low, high] = (libc::AF_INET as u16).to_ne_bytes();
    let [a, b, c, d] = address.octets();
    [low, high, 0, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{net::UdpSocket, thread, time::Duration};

    const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);

    /// A thread for each, because a thread that has left its network does not come back.
    fn in_new_network(body: impl FnOnce() + Send + 'static) {
        let run = move || {
            enter_new_network().expect("networks of one's own need root (CAP_SYS_ADMIN)");
            body();
        };
        thread::spawn(run).join().expect("the test in it passed");
    }

    #[test]
    fn packets_go_in_and_out_of_a_device() {
        in_new_network(|| {
            let device =
                TunnelDevice::create("there").expect("/dev/net/tun is there and we are root");
            device
                .bring_up(Ipv4Addr::new(10, 9, 8, 1), MASK, 1400, 100)
                .expect("up");
            let socket = UdpSocket::bind("10.9.8.1:0").expect("the address is there");
            socket.send_to(b"out", "10.9.8.2:7").expect("sent");
            let mut packet = [0; 2000];
            // The kernel greets its neighbors over IPv6, at a moment of its own.
            let next = |packet: &mut [u8]| loop {
                match device.receive(packet) {
                    Ok(_) if packet.first().is_some_and(|byte| byte >> 4 == 6) => {}
                    received => return received,
                }
            };
            let length = next(&mut packet).expect("it was handed over");
            assert_eq!((length, &packet[28..31]), (31, &b"out"[..]));
            assert_eq!(
                next(&mut [0; 2000]).expect_err("only one").kind(),
                io::ErrorKind::WouldBlock
            );
            // Back to where it came from: addresses and ports change places, which leaves the
            // checksums as they are.
            let (source, target): ([u8; 4], [u8; 4]) = (
                packet[12..16].try_into().expect("4"),
                packet[16..20].try_into().expect("4"),
            );
            packet[12..16].copy_from_slice(&target);
            packet[16..20].copy_from_slice(&source);
            packet[20..24].rotate_left(2);
            device.send(&packet[..length]).expect("taken");
            socket
                .set_read_timeout(Some(Duration::from_secs(10)))
                .expect("set");
            let mut answer = [0; 10];
            let (length, from) = socket.recv_from(&mut answer).expect("arrived");
            assert_eq!(
                (&answer[..length], from.to_string().as_str()),
                (&b"out"[..], "10.9.8.2:7")
            );
        });
    }

    #[test]
    fn a_network_of_ones_own_has_a_loopback_and_its_own_ports() {
        let outside = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let address = outside.local_addr().expect("bound");
        in_new_network(move || {
            let inside = UdpSocket::bind(address).expect("the same port is free in here");
            inside.send_to(b"x", address).expect("lo is up");
            assert_eq!(inside.recv(&mut [0; 4]).expect("arrived"), 1);
        });
        outside.set_nonblocking(true).expect("set");
        assert!(outside.recv(&mut [0; 4]).is_err(), "nothing came out of it");
    }

    #[test]
    fn mistakes_are_errors() {
        in_new_network(|| {
            assert_eq!(
                TunnelDevice::create("a-name-of-17-byte")
                    .expect_err("too long")
                    .kind(),
                io::ErrorKind::InvalidInput
            );
            let first = TunnelDevice::create("twice").expect("made");
            assert!(TunnelDevice::create("twice").is_err(), "it is held");
            drop(first);
            let again = TunnelDevice::create("twice").expect("it went");
            assert!(
                again
                    .bring_up(Ipv4Addr::new(10, 9, 8, 1), MASK, 10, 100)
                    .is_err(),
                "IPv4 asks for 68 bytes"
            );
            assert!(interface_up("not-there", &interface_socket().expect("made")).is_err());
        });
    }
}
