//! The files of the shop that are written by hand.

use super::catalogue::GLAZES;

pub const FILES: &[(&str, &str)] = &[
    ("css/shop.css", include_str!("../../assets/shop.css")),
    ("js/shop.js", include_str!("../../assets/shop.js")),
    ("favicon.svg", include_str!("../../assets/favicon.svg")),
    ("img/hero.svg", include_str!("../../assets/hero.svg")),
    ("img/shards.svg", include_str!("../../assets/shards.svg")),
    ("robots.txt", "User-agent: *\nAllow: /\n"),
    ("downloads/care.txt", include_str!("../../assets/care.txt")),
];

/// A sheet of the five glazes.
pub fn glazes_svg() -> String {
    let swatches: String = (0..)
        .zip(GLAZES)
        .map(|(place, glaze)| {
            let [red, green, blue] = glaze.color.map(|part| (part * 255.0) as u8);
            let x = 20 + 120 * place;
            format!(
                "<rect x=\"{x}\" y=\"20\" width=\"100\" height=\"100\" rx=\"12\" fill=\"rgb({red},{green},{blue})\"/>\n\
                 <text x=\"{}\" y=\"145\" text-anchor=\"middle\" font-family=\"Georgia, serif\" font-size=\"16\">{}</text>\n",
                x + 50,
                glaze.name
            )
        })
        .collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 620 165\">\n<rect width=\"620\" height=\"165\" fill=\"#fbf8f3\"/>\n{swatches}</svg>\n"
    )
}
