//! The shop of B1: pages that PHP takes its time for, in place of Magento, below `store/` in the
//! docroot.
//!
//! The programs are in `tools/bench/shop`; the catalogue and the images are made here from one
//! seed, so that every run serves the same bytes. 4 categories of 40 products, an image for each,
//! search, a cart, visitors with sessions in files, MariaDB or Redis ([`behind`](crate::behind)).
//! Absent on purpose: a database for the rest. It would be the same for all servers, behind PHP,
//! which is not what is compared.

use crate::behind::SessionStore;
use saker_testkit::{Dice, bench_files};
use std::{fmt::Write, fs, io, path::Path};

/// The folder of the docroot.
const FOLDER: &str = "store";
const SEED: u64 = 8;
const CATEGORIES: [&str; 4] = ["Bowls & plates", "Vases", "Lamps", "Baskets"];
const PER_CATEGORY: usize = 40;
const PRODUCTS: usize = CATEGORIES.len() * PER_CATEGORY;
const GLAZES: [&str; 10] = [
    "Celadon", "Ash", "Ochre", "Cobalt", "Ivory", "Slate", "Copper", "Moss", "Rust", "Plain",
];
const SHAPES: [&str; 10] = [
    "low", "tall", "round", "wide", "oval", "small", "large", "deep", "footed", "fluted",
];
const THINGS: [&str; 4] = ["bowl", "vase", "lamp", "basket"];
const WORDS: [&str; 16] = [
    "made", "by", "hand", "for", "every", "day", "with", "a", "quiet", "edge", "that", "keeps",
    "warm", "light", "and", "stacks",
];
const DESCRIPTION_WORDS: usize = 60;
const LARGE_IMAGE_BYTES: usize = 24_000;
const LOGO_BYTES: usize = 3_000;

const PROGRAMS: [(&str, &str); 10] = [
    ("lib.php", include_str!("../../shop/lib.php")),
    ("sessions.php", include_str!("../../shop/sessions.php")),
    ("index.php", include_str!("../../shop/index.php")),
    ("category.php", include_str!("../../shop/category.php")),
    ("product.php", include_str!("../../shop/product.php")),
    ("search.php", include_str!("../../shop/search.php")),
    ("login.php", include_str!("../../shop/login.php")),
    ("cart.php", include_str!("../../shop/cart.php")),
    ("shop.css", include_str!("../../shop/shop.css")),
    ("shop.js", include_str!("../../shop/shop.js")),
];

/// Pages of a user's path: the front page, categories, products, a search. All are public.
pub const PAGES: [&str; 20] = [
    "store/index.php",
    "store/category.php?c=0",
    "store/category.php?c=1",
    "store/category.php?c=2",
    "store/category.php?c=3",
    "store/product.php?p=3",
    "store/product.php?p=11",
    "store/product.php?p=19",
    "store/product.php?p=27",
    "store/product.php?p=45",
    "store/product.php?p=58",
    "store/product.php?p=66",
    "store/product.php?p=74",
    "store/product.php?p=87",
    "store/product.php?p=99",
    "store/product.php?p=103",
    "store/product.php?p=121",
    "store/product.php?p=138",
    "store/product.php?p=152",
    "store/search.php?q=celadon",
];

/// With its 40 small images.
pub const CATEGORY: &str = PAGES[1];

/// Writes the shop below `root`; its sessions are kept in `store`, files in `sessions`.
pub fn write(root: &Path, sessions: &Path, store: SessionStore<'_>) -> io::Result<()> {
    let folder = root.join(FOLDER);
    fs::create_dir_all(folder.join("img"))?;
    fs::create_dir_all(sessions)?;
    for (name, text) in PROGRAMS {
        fs::write(folder.join(name), text)?;
    }
    fs::write(folder.join("catalogue.php"), catalogue(sessions, store))?;
    fs::write(folder.join("img/logo.jpg"), image(PRODUCTS, LOGO_BYTES))?;
    for number in 0..PRODUCTS {
        fs::write(
            folder.join(format!("img/small-{number}.jpg")),
            image(number, small_bytes(number)),
        )?;
        fs::write(
            folder.join(format!("img/large-{number}.jpg")),
            image(number, LARGE_IMAGE_BYTES),
        )?;
    }
    Ok(())
}

/// 1.5 to 5.4 kB.
fn small_bytes(number: usize) -> usize {
    1_500 + 100 * (number % PER_CATEGORY)
}

fn image(number: usize, size: usize) -> Vec<u8> {
    bench_files::noise(SEED * 1_000 + number as u64, b"\xff\xd8\xff\xe0", size)
}

/// PHP that names everything there is. No text in it has a quote or a backslash.
fn catalogue(sessions: &Path, store: SessionStore<'_>) -> String {
    let (kind, place) = match store {
        SessionStore::Files => ("files", sessions),
        SessionStore::Mariadb { socket } => ("mariadb", socket),
        SessionStore::Redis { socket } => ("redis", socket),
    };
    let mut text = format!(
        "<?php\n// Made by the bench.\nconst SESSIONS_IN = '{kind}';\nconst SESSIONS = '{}';\nconst CATEGORIES = ['{}'];\n",
        place.display(),
        CATEGORIES.join("', '")
    );
    text.push_str("// Name, category, price in cents, description.\nconst PRODUCTS = [\n");
    let mut dice = Dice::new(SEED);
    for number in 0..PRODUCTS {
        let category = number / PER_CATEGORY;
        let (glaze, shape) = (pick(&mut dice, &GLAZES), pick(&mut dice, &SHAPES));
        let name = format!(
            "{glaze} {} no. {number}, {shape}",
            THINGS.get(category).copied().unwrap_or_default()
        );
        let description: Vec<&str> = (0..DESCRIPTION_WORDS)
            .map(|_| pick(&mut dice, &WORDS))
            .collect();
        let _ = writeln!(
            text,
            "    ['{name}', {category}, {}, '{glaze}, {}.'],",
            900 + dice.below(20_000),
            description.join(" ")
        );
    }
    text + "];\n"
}

fn pick<'a>(dice: &mut Dice, among: &[&'a str]) -> &'a str {
    among
        .get(dice.below(among.len() as u64) as usize)
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        behind::{Behind, Sessions},
        row::Row,
        rows,
    };
    use saker_testkit::{TempDir, require};
    use std::{path::PathBuf, process::Command};

    #[test]
    fn the_same_every_time() {
        let catalogue = || catalogue(Path::new("/s"), SessionStore::Files);
        assert_eq!(catalogue(), catalogue());
        assert_eq!(image(3, 1_600), image(3, 1_600));
        assert_eq!(
            catalogue()
                .lines()
                .filter(|line| line.starts_with("    ["))
                .count(),
            PRODUCTS
        );
    }

    /// Page that PHP generates for this cookie.
    fn made(program: PathBuf, query: &str, cookie: &str) -> String {
        let php = ["php-cgi", "php-cgi8.2"]
            .into_iter()
            .find_map(|name| require(name).ok());
        let mut command = Command::new(php.expect("php-cgi is there: apt-get install php-cgi"));
        command
            .env_clear()
            .env("REDIRECT_STATUS", "200")
            .env("REQUEST_METHOD", "GET")
            .env("QUERY_STRING", query);
        let output = command
            .env("HTTP_COOKIE", cookie)
            .env("SCRIPT_FILENAME", program)
            .output()
            .expect("ran");
        String::from_utf8(output.stdout).expect("text")
    }

    #[test]
    fn visitors_are_known_again_wherever_sessions_are() {
        for (sessions, program) in [
            (Sessions::Files, "php-cgi"),
            (Sessions::Mariadb, "mariadbd"),
            (Sessions::Redis, "redis-server"),
        ] {
            if require(program).is_err() {
                continue; // Who chooses it is told so.
            }
            let dir = TempDir::new("shop-sessions").expect("made");
            let rows: Vec<&'static Row> = rows::all()
                .filter(|row| row.name == "b1-logged-in")
                .collect();
            let behind = Behind::start(&rows, &dir, &dir, None, sessions).expect("started");
            write(&dir, &dir.join("sessions"), behind.sessions()).expect("written");
            let cart = |query| {
                made(
                    dir.join(FOLDER).join("cart.php"),
                    query,
                    "shop_session=customer01",
                )
            };
            let said = cart("add=5");
            assert!(said.contains("Location: cart.php"), "{sessions:?}: {said}");
            let said = cart("");
            assert!(
                said.contains(">cart (3)<") && said.contains("Hello, customer"),
                "{sessions:?}: {said}"
            );
        }
    }

    /// Each page as PHP makes it, and every image that it names is there.
    #[test]
    fn pages_are_whole() {
        let dir = TempDir::new("shop").expect("made");
        write(&dir, &dir.join("sessions"), SessionStore::Files).expect("written");
        for page in [CATEGORY, PAGES[0], PAGES[5], PAGES[19]] {
            let (program, query) = page.split_once('?').unwrap_or((page, ""));
            let said = made(dir.join(program), query, "");
            assert!(
                said.contains("s-maxage=3600")
                    && said.contains("X-LiteSpeed-Tag")
                    && said.ends_with("</html>\n"),
                "{page}: {said}"
            );
            let images: Vec<&str> = said
                .split("src=\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .collect();
            assert!(images.len() > 2, "{page}: {said}");
            assert!(
                images
                    .iter()
                    .all(|image| dir.join(FOLDER).join(image).is_file()),
                "{page}: {images:?}"
            );
            assert_eq!(
                images
                    .iter()
                    .filter(|image| image.contains("small-"))
                    .count()
                    == PER_CATEGORY,
                page == CATEGORY,
                "{page}"
            );
        }
    }
}
