//! Apache in its three forms: event, worker, and prefork with PHP inside.
//!
//! The difficulty is that connections which wait hold a thread in worker and a process in prefork:
//! both get as many as a row has visitors, as far as their experts would go. Absent on purpose: the
//! distribution's defaults.

use super::setting::{KEPT, PeerSetting, PeerSite, PeerTls};
use std::{fs, path::Path};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpm {
    Event,
    Worker,
    Prefork,
}

const MODULES: &str = "/usr/lib/apache2/modules";

impl Mpm {
    fn module(self) -> &'static str {
        match self {
            Mpm::Event => "mpm_event",
            Mpm::Worker => "mpm_worker",
            Mpm::Prefork => "mpm_prefork",
        }
    }

    fn processes(self) -> &'static str {
        match self {
            Mpm::Event => {
                "ServerLimit 1\nStartServers 1\nThreadsPerChild 64\nMaxRequestWorkers 64\nAsyncRequestWorkerFactor 300\n"
            }
            Mpm::Worker => {
                "ServerLimit 1\nStartServers 1\nThreadLimit 1024\nThreadsPerChild 1024\nMaxRequestWorkers 1024\n"
            }
            Mpm::Prefork => {
                "ServerLimit 256\nStartServers 32\nMinSpareServers 32\nMaxSpareServers 256\nMaxRequestWorkers 256\n"
            }
        }
    }
}

pub fn configuration(
    PeerSetting {
        root,
        host,
        port,
        work,
        tls,
        site,
    }: PeerSetting<'_>,
    mpm: Mpm,
) -> String {
    let overrides = if matches!(site, PeerSite::Htaccess | PeerSite::Permalinks) {
        "All"
    } else {
        "None"
    };
    let (more, site) = by_site(site, work, mpm);
    let (root, work) = (root.display(), work.display());
    let (secure, tls): (&[&str], _) = tls.map_or((&[], String::new()), |PeerTls { chain, key }| {
        let (chain, key) = (chain.display(), key.display());
        let files = format!("SSLCertificateFile {chain}\nSSLCertificateKeyFile {key}\n");
        let rest =
            "SSLEngine on\nSSLProtocol TLSv1.2 TLSv1.3\nSSLSessionCache none\nSSLOpenSSLConfCmd NumTickets 1\nProtocols h2 http/1.1\n";
        (&["ssl", "http2"], files + rest)
    });
    let modules: String = [mpm.module(), "authz_core", "mime", "dir"]
        .iter()
        .chain(secure)
        .chain(more)
        .map(|module| format!("LoadModule {module}_module {MODULES}/mod_{module}.so\n"))
        .collect();
    let processes = mpm.processes();
    format!(
        "ServerRoot {work}
{modules}ServerName localhost
Listen {host}:{port}
ListenBacklog 4096
PidFile {work}/apache.pid
DefaultRuntimeDir {work}
ErrorLog {work}/apache-error.log
LogLevel crit
TypesConfig /etc/mime.types
DocumentRoot {root}
{processes}KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 300
EnableSendfile On
HostnameLookups Off
{tls}<Directory />
    Options FollowSymLinks
    AllowOverride {overrides}
    Require all granted
</Directory>
{site}"
    )
}

/// Modules, and what they are told.
fn by_site(site: PeerSite<'_>, work: &Path, mpm: Mpm) -> (&'static [&'static str], String) {
    match site {
        PeerSite::Files | PeerSite::Paced { .. } | PeerSite::StoreBehind { .. } => {
            (&[], String::new())
        }
        PeerSite::Logged { log, .. } => (
            // mod_log_config is part of Debian's program itself.
            &[],
            format!(
                "CustomLog {} \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{{Referer}}i\\\" \\\"%{{User-Agent}}i\\\"\"\n",
                log.display()
            ),
        ),
        PeerSite::Store { .. } if mpm == Mpm::Prefork => (
            &["cache", "cache_disk", "headers"],
            store(work) + &php_inside(),
        ),
        PeerSite::Store { socket } => (
            &["proxy", "proxy_fcgi", "cache", "cache_disk", "headers"],
            store(work) + &by_site(PeerSite::Php { socket }, work, mpm).1,
        ),
        PeerSite::Htaccess | PeerSite::Permalinks => (&["rewrite"], String::new()),
        PeerSite::Php { .. } if mpm == Mpm::Prefork => (&[], php_inside()),
        PeerSite::Php { socket } => {
            let url = format!("unix:{}|fcgi://php", socket.display());
            let text = format!(
                "<Proxy \"{url}\" enablereuse=on max={KEPT}>\n</Proxy>\n<FilesMatch \"\\.php$\">\n    SetHandler \"proxy:{url}\"\n</FilesMatch>\n"
            );
            (&["proxy", "proxy_fcgi"], text)
        }
        PeerSite::Proxy { upstream } => (
            &["proxy", "proxy_http"],
            format!("ProxyPass / http://{upstream}/ enablereuse=on\n"),
        ),
        PeerSite::Cached { upstream, .. } => (
            &["proxy", "proxy_http", "cache", "cache_disk"],
            cache(work, "/") + &format!("ProxyPass / http://{upstream}/ enablereuse=on\n"),
        ),
        PeerSite::Shop { upstream } => {
            let page = format!("ProxyPass /shop.html http://{upstream}/shop.html enablereuse=on\n");
            (
                &["proxy", "proxy_http", "cache", "cache_disk"],
                cache(work, "/shop.html") + &page,
            )
        }
    }
}

/// An hour, in files below the work folder, found before anything else of Apache runs.
fn cache(work: &Path, path: &str) -> String {
    let folder = work.join("apache-cache");
    // It makes no folders of its own; where this one can't be made, it says so itself.
    let _ = fs::create_dir_all(&folder);
    format!(
        "CacheRoot {}\nCacheEnable disk {path}\nCacheQuickHandler on\nCacheDefaultExpire 3600\nCacheMinExpire 3600\nCacheIgnoreNoLastMod On\n\
         CacheLock on\nCacheLockPath {}\n",
        folder.display(),
        work.join("apache-cache-lock").display()
    )
}

/// Marks public responses. Sessions are told apart by Vary, since Apache asks its cache before
/// anything else.
fn store(work: &Path) -> String {
    let folder = work.join("apache-store");
    let _ = fs::create_dir_all(&folder);
    format!(
        "CacheRoot {}\nCacheEnable disk /store\nCacheQuickHandler on\nCacheIgnoreNoLastMod On\nCacheLock on\nCacheLockPath {}\n\
         <FilesMatch \"\\.php$\">\n    Header merge Vary Cookie\n</FilesMatch>\n",
        folder.display(),
        work.join("apache-cache-lock").display()
    )
}

/// mod_php, whatever its version. Where it is missing Apache says so.
fn php_inside() -> String {
    let names = fs::read_dir(MODULES)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let module = names
        .filter(|name| name.starts_with("libphp"))
        .max()
        .unwrap_or_else(|| "libphp.so".to_owned());
    format!(
        "LoadModule php_module {MODULES}/{module}\n<FilesMatch \"\\.php$\">\n    SetHandler application/x-httpd-php\n</FilesMatch>\n"
    )
}
