//! Whatever a server says to its broker, nothing is permitted that the configuration does not
//! grant: no other path, way of opening, address, socket, user, program or argument. Grants are
//! drawn from few names, so that messages meet them. Decisions alone: nothing is opened, bound or
//! started.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_broker::{
    Descriptor, Grant, Grants, Permit, Request, SpawnKind, Transport, any_number, matches,
};
use saker_fuzz::Input;
use saker_net::privileged::Open;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

const PATHS: [&str; 8] = [
    "/a",
    "/a/b",
    "/var/log/a.20261123T000000Z",
    "/var/log/a",
    "/etc/shadow",
    "/run/a",
    "/bin/sh",
    "/",
];
const USERS: [&str; 3] = ["nobody", "daemon", "root"];

/// Two bits of each number choose whether a grant is there, and the next ones which.
fn grants(knob: u64) -> Vec<Grant> {
    let path = |shift: u32| PathBuf::from(PATHS[(knob >> shift & 7) as usize]);
    let user = |shift: u32| USERS[(knob >> shift) as usize % USERS.len()].to_owned();
    let any = if knob >> 40 & 1 == 0 {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::LOCALHOST)
    };
    let address = SocketAddr::new(any, if knob >> 41 & 1 == 0 { 80 } else { 443 });
    let transport = if knob >> 42 & 1 == 0 {
        Transport::Tcp
    } else {
        Transport::Udp
    };
    let all = [
        Grant::Log {
            path: path(8),
            mode: 0o640,
        },
        Grant::Read { path: path(11) },
        Grant::Directory { path: path(14) },
        Grant::ListenUnix {
            path: path(17),
            mode: 0o600,
        },
        Grant::PidFile { path: path(20) },
        Grant::Listen { address, transport },
        Grant::Program {
            user: user(23),
            group: None,
            file: path(26),
            arguments: vec!["a".into(), any_number()],
            environment: vec![("A".into(), "b".into())],
        },
        Grant::LogProgram {
            file: path(29),
            arguments: vec!["a".into()],
        },
    ];
    let mut all: Vec<Grant> = all
        .into_iter()
        .enumerate()
        .filter(|(place, _)| knob >> place & 1 == 1)
        .map(|(_, grant)| grant)
        .collect();
    all.extend(own_grants(knob));
    if knob >> 45 & 1 == 1 {
        all.push(Grant::RenamedLogs { log: path(46) });
    }
    if knob >> 44 & 1 == 1 {
        all.push(Grant::Scripts {
            user: user(34),
            group: None,
            root: "/nowhere".into(),
        });
    }
    all
}

/// Programs of the server's own user.
fn own_grants(knob: u64) -> Vec<Grant> {
    let user = |shift: u32| USERS[(knob >> shift) as usize % USERS.len()].to_owned();
    let mut all = Vec::new();
    if knob >> 43 & 1 == 1 {
        all.push(Grant::Own {
            user: user(32),
            group: None,
        });
    }
    if knob >> 49 & 1 == 1 {
        all.push(Grant::OwnPrograms {
            user: user(50),
            group: None,
        });
    }
    if knob >> 52 & 1 == 1 {
        all.push(Grant::OwnScripts {
            user: user(53),
            group: None,
            root: "/nowhere".into(),
            follows_links: true,
            environment: Vec::new(),
        });
    }
    all
}

fn descriptors(knob: u8) -> Vec<Descriptor> {
    let kinds = [
        Descriptor::Tcp,
        Descriptor::Udp,
        Descriptor::UnixStream,
        Descriptor::Other,
    ];
    (0..knob & 3)
        .map(|place| kinds[usize::from(knob >> (2 + 2 * place.min(2)) & 3)])
        .collect()
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (Some(knob), Some(kinds)) = (input.u64(), input.byte()) else {
        return;
    };
    let Ok(request) = Request::decode(input.rest()) else {
        return;
    };
    assert_eq!(
        Request::decode(&request.encode()).ok().as_ref(),
        Some(&request)
    );
    let (all, descriptors) = (grants(knob), descriptors(kinds));
    assert_eq!(
        Grant::decode(&Grant::encode(&all)).ok().as_ref(),
        Some(&all)
    );
    let grants = Grants::new(all.clone());
    if let Ok(permit) = grants.files.permit(&request, &descriptors) {
        let is_granted = match (&request, permit) {
            (Request::Open { path, how: Open::Read }, Permit::Open(opened, Open::Read)) => {
                let is_renamed = saker_net::renamed_log::log_of(path)
                    .is_some_and(|log| all.contains(&Grant::RenamedLogs { log }));
                path == opened && (is_renamed || all.contains(&Grant::Read { path: path.clone() }))
            }
            (Request::Open { path, how: Open::Directory }, Permit::Open(opened, Open::Directory)) => {
                path == opened && all.contains(&Grant::Directory { path: path.clone() })
            }
            (Request::Open { path, how: Open::Append { .. } }, Permit::Open(opened, Open::Append { mode })) => {
                path == opened && all.contains(&Grant::Log { path: path.clone(), mode })
            }
            (Request::Bind { address }, Permit::Bind(bound)) => {
                let transport = match descriptors[..] {
                    [Descriptor::Tcp] => Transport::Tcp,
                    [Descriptor::Udp] => Transport::Udp,
                    _ => panic!("bound {descriptors:?}"),
                };
                *address == bound && all.contains(&Grant::Listen { address: bound, transport })
            }
            (Request::BindUnix { path, .. }, Permit::BindUnix(bound, mode)) => {
                path == bound && descriptors == [Descriptor::UnixStream] && all.contains(&Grant::ListenUnix { path: path.clone(), mode })
            }
            (Request::RemoveFile { path }, Permit::RemoveSocket(removed)) => {
                path == removed && all.iter().any(|grant| matches!(grant, Grant::ListenUnix { path: granted, .. } if granted == path))
            }
            (Request::RemoveFile { path }, Permit::RemovePidFile(removed)) => {
                path == removed && all.contains(&Grant::PidFile { path: path.clone() })
            }
            _ => false,
        };
        assert!(is_granted, "{request:?} by {all:?}");
    }
    let Request::Spawn(request) = &request else {
        return;
    };
    let Ok(allowed) = grants.allow(request) else {
        return;
    };
    let is_granted = all.iter().any(|grant| match (grant, request.kind) {
        (
            Grant::Program {
                user,
                file,
                arguments,
                ..
            },
            SpawnKind::Program,
        ) => {
            let is_same = arguments.len() == request.arguments.len()
                && arguments
                    .iter()
                    .zip(&request.arguments)
                    .all(|(a, b)| matches(a, b));
            is_same
                && *user == request.user
                && *file == request.file
                && allowed.identity.uid() != 0
                && allowed.inherited == 0
        }
        (Grant::LogProgram { file, arguments }, SpawnKind::LogProgram) => {
            *file == request.file && *arguments == request.arguments
        }
        (Grant::OwnPrograms { user, .. }, SpawnKind::Own) => {
            let is_own =
                |grant: &Grant| matches!(grant, Grant::Own { user: own, .. } if own == user);
            *user == request.user && all.iter().any(is_own) && allowed.identity.uid() != 0
        }
        // There is none below its root.
        _ => false,
    });
    assert!(is_granted, "{request:?} by {all:?}");
});
