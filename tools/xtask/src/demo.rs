//! The demo site: a small pottery shop, every byte of it made here, the same every time.
//!
//! It is what a real small shop is to a server: pages with many small images, a style sheet, a
//! script, a folder to list, a 404 page. Absent on purpose: fonts and anything from elsewhere.

mod assets;
mod catalogue;
mod kiln;
mod pages;
mod png;
mod pottery;

use catalogue::Product;
use std::{fs, io, path::Path};

/// Pixels along an edge.
const LARGE: usize = 560;
const SMALL: usize = 180;

/// Writes the whole site.
pub fn write(site: &Path) -> io::Result<()> {
    let products = catalogue::products();
    write_pages(site, &products)?;
    write_images(site, &products)?;
    write_downloads(site, &products)?;
    for (name, text) in assets::FILES {
        put(site, name, text)?;
    }
    put(site, "favicon.ico", png::icon(&pottery::icon(32)))
}

fn write_pages(site: &Path, products: &[Product]) -> io::Result<()> {
    put(site, "index.html", pages::home(products))?;
    put(site, "shop/index.html", pages::category(products))?;
    put(site, "about.html", pages::about(has_php()))?;
    match has_php() {
        true => put(site, "kiln.php", kiln::page())?,
        // Left from an earlier run: without PHP, the page is of no use.
        false => drop(fs::remove_file(site.join("kiln.php"))),
    }
    put(site, "404.html", pages::not_found())?;
    products.iter().try_for_each(|product| {
        put(
            site,
            &format!("products/{}.html", product.slug()),
            pages::product(product, products),
        )
    })
}

/// True if there is a PHP that Saker would start.
fn has_php() -> bool {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/bin", "/usr/local/sbin"];
    let names = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    names.into_iter().any(|name| {
        ["lsphp", "php-fpm", "php-cgi"]
            .iter()
            .any(|known| name.to_string_lossy().starts_with(known))
    })
}

fn write_images(site: &Path, products: &[Product]) -> io::Result<()> {
    for product in products {
        put(
            site,
            &format!("img/{}.png", product.slug()),
            png::encode(&pottery::picture(product, LARGE)),
        )?;
        put(
            site,
            &format!("img/small/{}.png", product.slug()),
            png::encode(&pottery::picture(product, SMALL)),
        )?;
    }
    Ok(())
}

fn write_downloads(site: &Path, products: &[Product]) -> io::Result<()> {
    let rows: String = products
        .iter()
        .map(|product| {
            format!(
                "{},{},{}\n",
                product.slug(),
                product.name(),
                product.price()
            )
        })
        .collect();
    put(
        site,
        "downloads/price-list.csv",
        format!("article,name,euro\n{rows}"),
    )?;
    put(site, "downloads/glazes.svg", assets::glazes_svg())?;
    put(
        site,
        "downloads/pictures/celadon-vase.png",
        png::encode(&pottery::picture(&products[11 % products.len()], LARGE)),
    )
}

fn put(site: &Path, name: &str, content: impl AsRef<[u8]>) -> io::Result<()> {
    let path = site.join(name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    /// Every `href` and `src` of the pages leads to a file of the site.
    #[test]
    fn links_lead_somewhere() {
        let site = TempDir::new("demo").expect("made");
        let products = catalogue::products();
        write_pages(&site, &products[..2]).expect("written");
        for (name, text) in assets::FILES {
            put(&site, name, text).expect("written");
        }
        let known = |target: &str| {
            let path = site.join(target.trim_start_matches('/'));
            path.is_file()
                || target.ends_with('/')
                || target.starts_with("/img/")
                || target.starts_with("/products/")
                || target.contains(".ico")
        };
        assert_eq!(
            site.join("kiln.php").is_file(),
            pages::about(has_php()).contains("/kiln.php")
        );
        for page in ["index.html", "shop/index.html", "about.html", "404.html"] {
            let text = fs::read_to_string(site.join(page)).expect("a page");
            for target in links(&text) {
                assert!(known(target), "{page} links to {target}");
            }
        }
    }

    fn links(text: &str) -> impl Iterator<Item = &str> {
        let after = |mark: &'static str| {
            text.split(mark)
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
        };
        after("href=\"")
            .chain(after("src=\""))
            .map(|target| target.split(['#', '?']).next().unwrap_or(target))
            .filter(|target| !target.is_empty())
    }
}
