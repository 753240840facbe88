//! Directories, sites and exchanges for tests.

use saker_config::model::{Address, Origin, Route, Settings, Site, SiteName};
use saker_http::{RequestHead, Version};
use saker_pipeline::{Body, Client, Exchange, NoBody, Response};
use std::{
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

/// A document root that is deleted when dropped. Its files are ten minutes old, so their tags are
/// strong.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "saker-static-files-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().canonicalize().unwrap().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Folder {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        self.touch(name, 600)
    }

    pub fn touch(&self, name: &str, seconds_ago: u64) -> &Folder {
        let file = fs::File::options()
            .append(true)
            .open(self.path.join(name))
            .unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds_ago))
            .unwrap();
        self
    }

    pub fn site(&self, settings: Settings) -> Arc<Site> {
        self.site_with_routes(settings, |_| Vec::new())
    }

    pub fn site_with_routes(
        &self,
        settings: Settings,
        routes: impl FnOnce(&Arc<Settings>) -> Vec<Route>,
    ) -> Arc<Site> {
        let settings = Arc::new(settings);
        Arc::new(Site {
            names: vec![SiteName::Any],
            root: Some(self.path.clone()),
            routes: routes(&settings).into(),
            settings,
            ..Site::new(Origin::built_in())
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _: io::Result<()> = fs::remove_dir_all(&self.path);
    }
}

pub fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs() as i64
}

/// An exchange as the phases before content leave it.
pub fn exchange(site: &Arc<Site>, method: &str, target: &str, fields: &[(&str, &str)]) -> Exchange {
    let address = "127.0.0.1:80".parse().unwrap();
    let client = Client::new(address, address, Arc::new(Address::Tcp(address)), false);
    let head = RequestHead::build(method, target, Version::Http11, fields);
    let mut exchange = Exchange::new(
        Rc::new(client),
        head,
        Box::new(NoBody),
        Arc::clone(site),
        now(),
    );
    let (path, query) = target
        .split_once('?')
        .map_or((target, None), |(path, query)| (path, Some(query)));
    saker_http::path::normalize(path.as_bytes(), &mut exchange.path).unwrap();
    exchange.query = query.map(|query| query.as_bytes().to_vec());
    exchange.host = b"example.org".to_vec();
    exchange.routing.route = site
        .routes
        .iter()
        .position(|route| route.pattern.captures(&exchange.path).is_some());
    if let Some(at) = exchange.routing.route {
        exchange.routing.settings = Arc::clone(&site.routes[at].settings);
    }
    exchange
}

/// Runs on a runtime like a worker's.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

pub fn field(response: &Response, name: &str) -> String {
    response
        .fields()
        .first(name)
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .unwrap_or_default()
}

/// The bytes that a driver would send.
pub fn body_bytes(body: &Body) -> Vec<u8> {
    match body {
        Body::Empty => Vec::new(),
        Body::Memory(chunk) => chunk.bytes().to_vec(),
        Body::File(part) => {
            let mut data = vec![0; part.length as usize];
            std::os::unix::fs::FileExt::read_exact_at(&*part.file, &mut data, part.offset).unwrap();
            data
        }
        Body::Parts(parts) => parts.iter().flat_map(body_bytes).collect(),
        Body::Stream(_) => panic!("a stream has to be polled"),
    }
}
