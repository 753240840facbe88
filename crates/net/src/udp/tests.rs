use super::*;
use std::{future::poll_fn, time::Duration};
use tokio::time::timeout;

fn socket(address: &str) -> (UdpSocket, SocketAddr) {
    let bound = bind_udp(address.parse().unwrap(), 1, UdpOptions::default())
        .unwrap()
        .remove(0);
    let address = bound.local_address().unwrap();
    (UdpSocket::register(bound).unwrap(), address)
}

fn departure(peer: SocketAddr, ecn: u8, datagram_bytes: usize, bytes: &[u8]) -> Departure<'_> {
    Departure {
        peer,
        local: None,
        ecn,
        datagram_bytes,
        bytes,
    }
}

/// Everything that arrives until `bytes` have: peers, local addresses, ECN bits, datagrams.
async fn receive(
    socket: &UdpSocket,
    bytes: usize,
) -> Vec<(SocketAddr, Option<IpAddr>, u8, Vec<u8>)> {
    let mut arrivals = Arrivals::default();
    let mut all = Vec::new();
    while all
        .iter()
        .map(|(_, _, _, datagram): &(_, _, _, Vec<u8>)| datagram.len())
        .sum::<usize>()
        < bytes
    {
        timeout(
            Duration::from_secs(5),
            poll_fn(|cx| socket.poll_receive(cx, &mut arrivals)),
        )
        .await
        .unwrap()
        .unwrap();
        for arrival in arrivals.iter() {
            all.extend(
                arrival
                    .datagrams()
                    .map(|datagram| (arrival.peer, arrival.local, arrival.ecn, datagram.to_vec())),
            );
        }
    }
    all
}

#[tokio::test]
async fn datagrams_come_and_go_in_batches() {
    for any in ["127.0.0.1:0", "[::1]:0"] {
        let (sender, from) = socket(any);
        let (receiver, to) = socket(any);
        let contents: Vec<u8> = (0..10_500u32).map(|at| (at % 251) as u8).collect();
        let at_once = if sender.datagrams_at_once() > 1 {
            contents.len()
        } else {
            1000
        };
        for part in contents.chunks(at_once) {
            assert!(sender.send(departure(to, 0b10, 1000, part)));
        }
        let all = receive(&receiver, contents.len()).await;
        assert_eq!(
            all.iter()
                .map(|(_, _, _, datagram)| datagram.len())
                .collect::<Vec<_>>(),
            [&[1000; 10][..], &[500]].concat()
        );
        assert_eq!(
            all.iter()
                .flat_map(|(_, _, _, datagram)| datagram.clone())
                .collect::<Vec<_>>(),
            contents
        );
        assert!(
            all.iter().all(|(peer, local, ecn, _)| *peer == from
                && *local == Some(to.ip())
                && *ecn == 0b10),
            "{any}"
        );
    }
}

#[tokio::test]
async fn a_client_on_ipv4_reaches_a_socket_of_both_families() {
    let (receiver, to) = socket("[::]:0");
    let (sender, _) = socket("127.0.0.1:0");
    assert!(sender.send(departure(
        SocketAddr::new("127.0.0.1".parse().unwrap(), to.port()),
        0,
        5,
        b"hello"
    )));
    let all = receive(&receiver, 5).await;
    assert_eq!(all[0].3, b"hello");
    assert!(
        receiver.send(Departure {
            local: all[0].1,
            ..departure(all[0].0, 0, 2, b"hi")
        }),
        "the answer takes the same way back"
    );
    assert_eq!(receive(&sender, 2).await[0].3, b"hi");
}

/// Nothing may be lost between a receive that saw the queue empty and the next wait.
#[tokio::test]
async fn waits_until_more_comes() {
    let (receiver, to) = socket("127.0.0.1:0");
    let (sender, _) = socket("127.0.0.1:0");
    for round in 0..50u8 {
        let later = async {
            // Polled once the other has seen the queue empty.
            assert!(sender.send(departure(to, 0, 1, &[round])));
        };
        let (all, ()) = tokio::join!(biased; receive(&receiver, 1), later);
        assert_eq!(all[0].3, [round]);
    }
}

#[tokio::test]
async fn what_networks_do_with_packets_is_no_error() {
    let (sender, _) = socket("127.0.0.1:0");
    assert!(sender.send(departure(
        "127.0.0.1:1".parse().unwrap(),
        0,
        9,
        b"port shut"
    )));
    let too_large = vec![0; 65_536];
    assert!(sender.send(departure(
        "127.0.0.1:1".parse().unwrap(),
        0,
        too_large.len(),
        &too_large
    )));
    let mut arrivals = Arrivals::default();
    assert!(
        poll_fn(|cx| Poll::Ready(sender.poll_receive(cx, &mut arrivals).is_pending())).await,
        "nothing comes of it"
    );
}

#[tokio::test]
async fn a_free_queue_is_writable() {
    let (mut sender, _) = socket("127.0.0.1:0");
    assert!(sender.keeps_packets_whole());
    timeout(
        Duration::from_secs(5),
        poll_fn(|cx| sender.poll_writable(cx)),
    )
    .await
    .unwrap()
    .unwrap();
}
