//! The command line of `saker-link`.

use saker_link::{LinkSettings, settings};

pub enum Wanted {
    Help,
    Run(Box<Arguments>),
}

#[derive(Debug)]
pub struct Arguments {
    pub link: LinkSettings,
    /// The client starts when the server accepts TCP there.
    pub wait_for_port: Option<u16>,
    pub server: Vec<String>,
    pub client: Vec<String>,
}

pub const HELP: &str = "Runs a server and a client with a link between them.

  saker-link [OPTION]... -- SERVER-COMMAND... -- CLIENT-COMMAND...

The server is at 10.53.0.1 and the client at 10.53.0.2, each in a network of its own (needs root). When the client ends the server
is stopped, and what went over the link is written to standard error; the exit status is the client's.

  --rate 10mbit      bits of IP packets per second (bit, kbit, mbit, gbit; none)
  --delay 50ms       from the end of a packet's transmission to its arrival (us, ms, s)
  --queue 1000       packets that may wait for transmission; what finds the queue full is dropped
  --loss 1%          of the packets transmitted
  --reorder 2%       of the packets are held back, so that later ones overtake them
  --held-back 5ms    for so long
Each of these takes two values with a comma between: to the client, to the server.

  --mtu 1500         bytes of an IP packet
  --seed 1           of losses and reordering
  --wait PORT        start the client when the server accepts TCP connections on PORT
";

pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Wanted, String> {
    let mut words = words.into_iter();
    let mut link = LinkSettings::default();
    let mut wait_for_port = None;
    while let Some(word) = words.next().filter(|word| word != "--") {
        if matches!(word.as_str(), "-h" | "--help") {
            return Ok(Wanted::Help);
        }
        let name = word
            .strip_prefix("--")
            .ok_or_else(|| format!("`{word}` is not an option; --help lists them"))?;
        let value = words
            .next()
            .ok_or_else(|| format!("{word} needs a value"))?;
        match name {
            "mtu" => link.mtu_bytes = number(&word, &value)?,
            "seed" => link.seed = number(&word, &value)?,
            "wait" => wait_for_port = Some(number(&word, &value)?),
            _ => settings::set(name, &value, &mut link.to_client, &mut link.to_server)?,
        }
    }
    let rest: Vec<String> = words.collect();
    let mut commands = rest.splitn(2, |word| word == "--").map(<[String]>::to_vec);
    match (commands.next(), commands.next()) {
        (Some(server), Some(client)) if !server.is_empty() && !client.is_empty() => {
            Ok(Wanted::Run(Box::new(Arguments {
                link,
                wait_for_port,
                server,
                client,
            })))
        }
        _ => Err("two commands are needed: -- SERVER... -- CLIENT...".into()),
    }
}

fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{option}: `{text}` is not a number that it takes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn parsed(line: &str) -> Result<Arguments, String> {
        match parse(line.split_whitespace().map(str::to_owned))? {
            Wanted::Run(arguments) => Ok(*arguments),
            Wanted::Help => Err("help".into()),
        }
    }

    #[test]
    fn options_and_commands() {
        let line = "--delay 10ms --rate 1mbit,2mbit --mtu 1280 --seed 9 --wait 443 -- serve --port 443 -- fetch -- --all";
        let arguments = parsed(line).expect("parsed");
        assert_eq!(arguments.server, ["serve", "--port", "443"]);
        assert_eq!(arguments.client, ["fetch", "--", "--all"]);
        let LinkSettings {
            to_client,
            to_server,
            mtu_bytes,
            seed,
        } = arguments.link;
        assert_eq!(
            (to_client.rate_bits_per_s, to_server.rate_bits_per_s),
            (Some(1_000_000), Some(2_000_000))
        );
        assert_eq!(
            (to_server.delay, mtu_bytes, seed, arguments.wait_for_port),
            (Duration::from_millis(10), 1280, 9, Some(443))
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (line, complaint) in [
            ("-- a", "two commands are needed"),
            ("-- a --", "two commands are needed"),
            ("-- -- b", "two commands are needed"),
            ("a b", "`a` is not an option"),
            ("--speed 1mbit -- a -- b", "`--speed` is not an option"),
            ("--mtu 70000 -- a -- b", "--mtu: `70000`"),
            ("--delay", "--delay needs a value"),
        ] {
            let said = parsed(line).expect_err(line);
            assert!(said.starts_with(complaint), "{line}: {said}");
        }
        assert!(matches!(parse(["--help".to_owned()]), Ok(Wanted::Help)));
    }
}
