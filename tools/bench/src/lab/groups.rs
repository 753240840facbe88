//! The comparisons that rows belong to, and what they were when they were published.

use crate::row::Row;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Prefix of the names of its rows; empty for the last group, which takes the rest.
    pub prefix: &'static str,
    pub title: &'static str,
    pub intro: &'static str,
}

pub const ALL: [Group; 7] = [
    Group {
        prefix: "b1-",
        title: "A shop behind a cache",
        intro: "After LiteSpeed with LiteMage against nginx with Varnish (2020): a shop whose pages render slowly, visited page by page with \
                all their parts, or its cached pages alone.",
    },
    Group {
        prefix: "b2-",
        title: "HTTP/3 over a link",
        intro: "After LiteSpeed against nginx over HTTP/3 (2020): a page of 163 bytes and large files over links of 5 to 200 mbps with 10 to \
                100 ms of round trip, emulated. Time for all requests, handshakes included.",
    },
    Group {
        prefix: "b3-",
        title: "Small pages, by the hundred",
        intro: "After LiteSpeed against Apache and the kernel's own TUX (2003): 285 bytes, with and without keep-alive, from 1 to 1000 at a \
                time, over TLS, and a PHP page. A bare event loop that answers everything alike stands for TUX.",
    },
    Group {
        prefix: "b4-",
        title: "A page, a program, a film",
        intro: "After Apache, Varnish, nginx and lighttpd (2009): 6.3 kB, phpinfo(), and a film of 21 MB.",
    },
    Group {
        prefix: "b5-",
        title: "A site's own traffic",
        intro: "After lighttpd against Apache (2009): a list of addresses drawn as real clients request them, long enough to see a \
                stall, on one core and on two; the access log is checked for damaged lines.",
    },
    Group {
        prefix: "noise",
        title: "The machine against itself",
        intro: "The same server twice in each round. By what these differ the machine is unsteady, and no smaller difference means anything.",
    },
    Group {
        prefix: "",
        title: "Further rows",
        intro: "What else the project claims, and what its developers watch.",
    },
];

pub fn of(row: &Row) -> Group {
    ALL.into_iter()
        .find(|group| row.name.starts_with(group.prefix))
        .unwrap_or(ALL[ALL.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    #[test]
    fn every_row_has_its_group() {
        let of_name = |name: &str| {
            rows::all()
                .find(|row| row.name == name)
                .map(of)
                .map(|group| group.prefix)
        };
        assert_eq!(
            [of_name("b2-million"), of_name("noise"), of_name("small-10")],
            [Some("b2-"), Some("noise"), Some("")]
        );
    }
}
