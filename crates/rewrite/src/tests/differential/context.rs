//! The facts of a request as the played server has them.

use super::server::{Exchange, Resolved};
use saker_ap_expr::{Facts, FileTest, LocalTime, Variable};
use saker_rewrite::{MapSource, RewriteContext, TextMap};
use std::{
    borrow::Cow,
    fs,
    net::IpAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub struct Looking<'e> {
    exchange: Exchange<'e>,
}

impl<'e> Looking<'e> {
    pub fn new(exchange: &Exchange<'e>) -> Looking<'e> {
        Looking {
            exchange: exchange.clone(),
        }
    }

    fn look_up(&self, path: &[u8]) -> (Exchange<'e>, u16) {
        let mut sub = self.exchange.subrequest(Vec::new());
        let status = match sub.set_path(path) {
            Err(status) => status,
            Ok(()) => match sub.resolve() {
                Resolved::Status(404) => 200,
                Resolved::Status(status) | Resolved::Redirect(status, _) => status,
                _ => 200,
            },
        };
        (sub, status)
    }
}

fn owned(text: impl Into<Vec<u8>>) -> Option<Cow<'static, [u8]>> {
    Some(Cow::Owned(text.into()))
}

impl Facts for Looking<'_> {
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        let exchange = &self.exchange;
        match variable {
            Variable::RequestUri | Variable::DocumentUri => owned(exchange.uri.clone()),
            Variable::RequestFilename | Variable::ScriptFilename => {
                owned(exchange.filename.clone().unwrap_or_default())
            }
            Variable::PathInfo => owned(exchange.path_info.clone()),
            Variable::QueryString => exchange.query.clone().map(Cow::Owned),
            Variable::RequestMethod => owned("GET"),
            Variable::RequestScheme => owned("http"),
            Variable::ServerName => owned(format!("s{}.test", exchange.number)),
            Variable::ServerPort => owned("4711"),
            Variable::ServerProtocol => owned("HTTP/1.1"),
            Variable::TheRequest => owned(exchange.line.clone()),
            Variable::DocumentRoot => owned(exchange.root()),
            Variable::ContextPrefix => owned(if exchange.aliased { "/aliased" } else { "" }),
            Variable::ContextDocumentRoot if exchange.aliased => {
                owned([exchange.root(), b"/sub".to_vec()].concat())
            }
            Variable::ContextDocumentRoot => owned(exchange.root()),
            Variable::RemoteAddr | Variable::ServerAddr | Variable::ConnRemoteAddr => {
                owned("127.0.0.1")
            }
            Variable::Https | Variable::Ipv6 | Variable::Http2 => owned("off"),
            Variable::IsSubreq => owned(if exchange.is_subrequest {
                "true"
            } else {
                "false"
            }),
            Variable::RequestStatus => owned("200"),
            _ => None,
        }
    }

    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        if name.eq_ignore_ascii_case(b"host") {
            return owned(format!("s{}.test:4711", self.exchange.number));
        }
        let found = self
            .exchange
            .fields
            .iter()
            .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Cow::Borrowed(found.1.as_bytes()))
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let found = self
            .exchange
            .environment
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(Cow::Borrowed(&found.1))
    }

    fn client_address(&self) -> Option<IpAddr> {
        "127.0.0.1".parse().ok()
    }

    fn local_time(&self) -> LocalTime {
        LocalTime {
            year: 2026,
            month: 1,
            day: 2,
            hour: 3,
            minute: 4,
            second: 5,
            weekday: 5,
        }
    }

    fn file_test(&self, path: &[u8], test: FileTest) -> bool {
        let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
        let metadata = fs::metadata(&path);
        match test {
            FileTest::Link => fs::symlink_metadata(&path).is_ok_and(|data| data.is_symlink()),
            FileTest::Exists => metadata.is_ok(),
            FileTest::Directory => metadata.is_ok_and(|data| data.is_dir()),
            FileTest::Regular => metadata.is_ok_and(|data| data.is_file()),
            FileTest::NotEmpty => metadata.is_ok_and(|data| data.is_file() && data.len() > 0),
            FileTest::Executable => {
                metadata.is_ok_and(|data| data.permissions().mode() & 0o111 != 0)
            }
        }
    }

    fn file_bytes(&self, path: &[u8]) -> Option<u64> {
        let metadata = fs::metadata(String::from_utf8_lossy(path).as_ref()).ok()?;
        metadata.is_file().then_some(metadata.len())
    }

    fn uri_status(&self, uri: &[u8]) -> Option<u16> {
        (!self.exchange.is_subrequest || self.exchange.uri != uri).then(|| self.look_up(uri).1)
    }

    fn file_status(&self, path: &[u8]) -> Option<u16> {
        let below =
            Path::new(std::str::from_utf8(path).ok()?).starts_with(&*self.exchange.site.dir);
        match self.file_test(path, FileTest::Exists) {
            false => Some(404),
            true => Some(if below { 200 } else { 403 }),
        }
    }
}

impl RewriteContext for Looking<'_> {
    fn text_map(&self, file: &Path) -> Option<Arc<TextMap>> {
        Some(Arc::new(TextMap::parse(&fs::read(file).ok()?)))
    }

    fn external_map(&self, _: &str, _: &MapSource, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn pick(&self, _: usize) -> usize {
        0
    }

    fn look_ahead<'w>(&'w self, path: &[u8], by_file: bool) -> Option<Box<dyn Facts + 'w>> {
        if self.exchange.is_subrequest {
            return None;
        }
        if by_file {
            let mut sub = self.exchange.subrequest(self.exchange.uri.clone());
            sub.filename = Some(path.to_vec());
            return Some(Box::new(Looking { exchange: sub }));
        }
        Some(Box::new(Looking {
            exchange: self.look_up(path).0,
        }))
    }

    fn is_own_host(&self, host: &[u8], port: u16) -> bool {
        host == format!("s{}.test", self.exchange.number).as_bytes() && port == 4711
    }

    fn home_folder(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn as_facts(&self) -> &dyn Facts {
        self
    }
}
