//! The shop's pages.

use super::catalogue::{FORMS, GLAZES, Product};

pub fn home(products: &[Product]) -> String {
    // One of each form, the glazes in turn.
    let featured: String = (0..FORMS.len())
        .filter_map(|form| products.get(form * GLAZES.len() + form % GLAZES.len()))
        .map(|product| card(product, false))
        .collect();
    let body = format!(
        r#"<section class="hero">
  <div>
    <h1>Pots that want to be used</h1>
    <p>Stoneware from one small workshop: thrown by hand, fired in wood, made for breakfast tables and long soups.</p>
    <p><a class="button" href="/shop/">See all forty</a></p>
  </div>
  <img src="/img/hero.svg" alt="Three pots on a shelf" width="520" height="380">
</section>
<section>
  <h2>Out of the kiln this week</h2>
  <ul class="cards">
{featured}  </ul>
</section>
<section class="notes">
  <div><h3>Made slowly</h3><p>A pot takes nine days from the wheel to the shelf. Most of them it only dries.</p></div>
  <div><h3>Sent safely</h3><p>In straw and paper. What breaks on the way we replace.</p></div>
  <div><h3>For every day</h3><p>Dishwasher, oven, children: it has seen worse in the kiln.</p></div>
</section>
"#
    );
    page("Kestrel &amp; Clay, stoneware for every day", &body)
}

/// All products, with small images: what the benches call a category page.
pub fn category(products: &[Product]) -> String {
    let forms: String = FORMS
        .iter()
        .map(|(_, name, ..)| choice(name, &title_case(name)))
        .collect();
    let glazes: String = GLAZES
        .iter()
        .map(|glaze| choice(&glaze.name.to_lowercase(), glaze.name))
        .collect();
    let cards: String = products.iter().map(|product| card(product, true)).collect();
    let body = format!(
        r#"<h1>All pots</h1>
<form class="filter" id="filter">
  <label>Form <select name="form"><option value="">any</option>{forms}</select></label>
  <label>Glaze <select name="glaze"><option value="">any</option>{glazes}</select></label>
  <output id="count">{count} pots</output>
</form>
<ul class="cards small" id="products">
{cards}</ul>
"#,
        count = products.len()
    );
    page("All pots, Kestrel &amp; Clay", &body)
}

pub fn product(product: &Product, products: &[Product]) -> String {
    let kin: String = products
        .iter()
        .filter(|other| other.form == product.form && other.glaze.name != product.glaze.name)
        .map(|other| card(other, true))
        .collect();
    let (name, slug, price) = (product.name(), product.slug(), product.price());
    let body = format!(
        r#"<nav class="path"><a href="/shop/">All pots</a> / {name}</nav>
<section class="product">
  <img src="/img/{slug}.png" alt="{name}" width="560" height="560">
  <div>
    <h1>{name}</h1>
    <p class="price">&euro; {price}</p>
    <p>{sentence}</p>
    <p>{glaze}</p>
    <p><button class="button" data-basket="{slug}">Into the basket</button></p>
    <p class="fine">Ready to send. Back within thirty days, no questions.</p>
  </div>
</section>
<section>
  <h2>The same form in other glazes</h2>
  <ul class="cards small">
{kin}  </ul>
</section>
"#,
        sentence = product.sentence,
        glaze = product.glaze.sentence
    );
    page(&format!("{name}, Kestrel &amp; Clay"), &body)
}

pub fn about(has_php: bool) -> String {
    let glazes: String = GLAZES
        .iter()
        .map(|glaze| {
            let [red, green, blue] = glaze.color.map(|part| (part * 255.0) as u8);
            let swatch = format!(r#"<i style="background:rgb({red} {green} {blue})"></i>"#);
            format!(
                "  <li>{swatch}<b>{}</b> {}</li>\n",
                glaze.name, glaze.sentence
            )
        })
        .collect();
    let kiln = if has_php {
        "<p>How warm <a href=\"/kiln.php\">the kiln</a> is a PHP page knows.</p>\n"
    } else {
        ""
    };
    let body = format!(
        r#"<h1>The workshop</h1>
<p>Kestrel &amp; Clay is two wheels, one kiln and a dog. The shop is a demonstration: nothing on it can be bought, and every picture was
drawn by a few lines of code. It is here to be served quickly.</p>
<h2>Five glazes</h2>
<ul class="glazes">
{glazes}</ul>
<p>Price list, care and glaze sheet are in <a href="/downloads/">the downloads</a>.</p>
{kiln}"#
    );
    page("The workshop, Kestrel &amp; Clay", &body)
}

pub fn not_found() -> String {
    let body = r#"<section class="hero">
  <div>
    <h1>This one broke</h1>
    <p>There is nothing at this address. The shelf is full, though.</p>
    <p><a class="button" href="/shop/">To the pots</a></p>
  </div>
  <img src="/img/shards.svg" alt="Shards of a bowl" width="420" height="300">
</section>
"#;
    page("Not found, Kestrel &amp; Clay", body)
}

pub fn page(title: &str, body: &str) -> String {
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="/favicon.ico" sizes="32x32">
<link rel="icon" href="/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/css/shop.css">
<script src="/js/shop.js" defer></script>
</head>
<body>
<header>
  <a class="brand" href="/"><img src="/favicon.svg" alt="" width="32" height="32">Kestrel &amp; Clay</a>
  <nav><a href="/shop/">Pots</a><a href="/about.html">Workshop</a><a href="/downloads/">Downloads</a></nav>
  <span class="basket" id="basket" aria-live="polite">Basket: 0</span>
</header>
<main>
{body}</main>
<footer>A demonstration shop. Nothing here can be bought; everything may be looked at.</footer>
</body>
</html>
"#
    )
}

fn card(product: &Product, small: bool) -> String {
    let (slug, name, price) = (product.slug(), product.name(), product.price());
    let (folder, edge) = if small {
        ("img/small", 180)
    } else {
        ("img", 560)
    };
    format!(
        r#"    <li data-form="{form}" data-glaze="{glaze}"><a href="/products/{slug}.html"><img src="/{folder}/{slug}.png" alt="" width="{edge}" height="{edge}"><b>{name}</b><span>&euro; {price}</span></a></li>
"#,
        form = product.form_name,
        glaze = product.glaze.name.to_lowercase()
    )
}

fn choice(value: &str, label: &str) -> String {
    format!(r#"<option value="{value}">{label}</option>"#)
}

fn title_case(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
