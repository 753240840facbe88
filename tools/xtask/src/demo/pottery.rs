//! Draws pots: bodies of revolution from a profile, lit from the left, on a table by a wall.
//!
//! Everything is a signed distance in units of the picture (x and y from -1 to 1, y downward), so
//! that one drawing serves all sizes.

use super::{
    catalogue::{Color, Form, Product},
    png::Picture,
};

/// (y, radius) from rim to foot.
type Profile = &'static [(f32, f32)];

const TABLE_Y: f32 = 0.42;
const CLAY: Color = [0.62, 0.47, 0.36];

struct Canvas {
    edge: usize,
    pixels: Vec<Color>,
}

/// The product's picture, `edge` pixels wide and high.
pub fn picture(product: &Product, edge: usize) -> Picture {
    let mut canvas = Canvas::new(edge);
    let profile = profile(product.form);
    let foot = profile.last().copied().unwrap_or((0.5, 0.2));
    canvas.backdrop(product.glaze.color);
    canvas.shadow(foot);
    for (x, y, outer, inner) in handles(product.form).iter().copied() {
        canvas.fill(
            move |px, py| ring(px - x, py - y, outer, inner),
            |px, py| lit(product.glaze.color, (px - x) / outer, py),
        );
    }
    canvas.fill(
        |x, y| body(profile, x, y),
        |x, y| glazed(product, profile, x, y),
    );
    canvas.opening(product, profile);
    canvas.finish()
}

/// A small mark for browsers' tabs.
pub fn icon(edge: usize) -> Picture {
    let mut canvas = Canvas::new(edge);
    canvas.fill(|_, _| -1.0, |_, _| [0.94, 0.91, 0.86]);
    let profile = profile(Form::Vase);
    canvas.fill(
        |x, y| body(profile, x, y),
        |x, _| lit([0.71, 0.25, 0.17], x * 2.0, 0.0),
    );
    canvas.finish()
}

fn profile(form: Form) -> Profile {
    match form {
        Form::Mug => &[(-0.32, 0.34), (0.0, 0.36), (0.40, 0.35), (0.52, 0.30)],
        Form::Bowl => &[
            (-0.02, 0.62),
            (0.15, 0.58),
            (0.36, 0.42),
            (0.47, 0.24),
            (0.52, 0.24),
        ],
        Form::Vase => &[
            (-0.72, 0.20),
            (-0.60, 0.13),
            (-0.38, 0.14),
            (-0.02, 0.38),
            (0.22, 0.37),
            (0.52, 0.19),
        ],
        Form::Bottle => &[
            (-0.74, 0.11),
            (-0.66, 0.08),
            (-0.26, 0.10),
            (-0.05, 0.27),
            (0.45, 0.29),
            (0.52, 0.26),
        ],
        Form::Jug => &[
            (-0.58, 0.26),
            (-0.44, 0.22),
            (-0.02, 0.38),
            (0.26, 0.37),
            (0.52, 0.24),
        ],
        Form::Jar => &[
            (-0.34, 0.30),
            (-0.28, 0.40),
            (0.02, 0.44),
            (0.36, 0.41),
            (0.52, 0.32),
        ],
        Form::Cup => &[(-0.08, 0.30), (0.20, 0.28), (0.44, 0.22), (0.52, 0.21)],
        Form::Planter => &[
            (-0.24, 0.50),
            (-0.14, 0.50),
            (-0.12, 0.45),
            (0.42, 0.36),
            (0.43, 0.44),
            (0.52, 0.42),
        ],
    }
}

/// Rings beside the body: x, y, outer and inner radius.
fn handles(form: Form) -> &'static [(f32, f32, f32, f32)] {
    match form {
        Form::Mug => &[(0.36, 0.08, 0.24, 0.16)],
        Form::Jug => &[(0.34, -0.14, 0.30, 0.23)],
        Form::Jar => &[(0.0, -0.46, 0.09, 0.0)],
        _ => &[],
    }
}

/// A cubic through the points, with the slope of each point's two adjacent points.
fn radius(profile: Profile, y: f32) -> f32 {
    let last = profile.len() - 1;
    let next = profile
        .iter()
        .position(|(at, _)| *at >= y)
        .unwrap_or(last)
        .max(1);
    let slope = |at: usize| {
        let ((y0, r0), (y1, r1)) = (profile[at.saturating_sub(1)], profile[(at + 1).min(last)]);
        (r1 - r0) / (y1 - y0)
    };
    let ((y0, r0), (y1, r1)) = (profile[next - 1], profile[next]);
    let (part, span) = (((y - y0) / (y1 - y0)).clamp(0.0, 1.0), y1 - y0);
    let rest = 1.0 - part;
    rest * rest * ((1.0 + 2.0 * part) * r0 + part * span * slope(next - 1))
        + part * part * ((1.0 + 2.0 * rest) * r1 - rest * span * slope(next))
}

/// Negative inside. The foot is rounded as a circle seen from a little above.
fn body(profile: Profile, x: f32, y: f32) -> f32 {
    let (top, bottom) = (profile[0].0, profile[profile.len() - 1]);
    let side = x.abs() - radius(profile, y);
    let curve = 0.16 * (bottom.1 * bottom.1 - x * x).max(0.0).sqrt();
    side.max(top - y).max(y - bottom.0 - curve)
}

fn ring(x: f32, y: f32, outer: f32, inner: f32) -> f32 {
    let from_centre = (x * x + y * y).sqrt();
    (from_centre - outer).max(inner - from_centre)
}

fn ellipse(x: f32, y: f32, width: f32, height: f32) -> f32 {
    ((x / width).powi(2) + (y / height).powi(2))
        .sqrt()
        .mul_add(height, -height)
}

fn glazed(product: &Product, profile: Profile, x: f32, y: f32) -> Color {
    let (top, bottom) = (profile[0].0, profile[profile.len() - 1].0);
    let across = x / radius(profile, y).max(0.01);
    // The glaze stops in a wave above the foot, and thins at the rim.
    let line = bottom - 0.09 + 0.018 * (x * 13.0 + y * 3.0).sin() + 0.012 * (x * 29.0).sin();
    let rim = (1.0 - (y - top) / 0.10).clamp(0.0, 1.0);
    let run = (1.0 - (line - y) / 0.30).clamp(0.0, 1.0);
    let glaze = mix(
        product.glaze.color,
        product.glaze.edge,
        (0.8 * rim).max(0.6 * run * run),
    );
    let speckled = scale(glaze, 1.0 - speckle(x, y));
    lit(if y > line { CLAY } else { speckled }, across, y)
}

/// Dark grains in the glaze, a hash of the place.
fn speckle(x: f32, y: f32) -> f32 {
    let (column, row) = (((x + 2.0) * 90.0) as u32, ((y + 2.0) * 90.0) as u32);
    let mut hash = column.wrapping_mul(0x9e37_79b1) ^ row.wrapping_mul(0x85eb_ca77);
    hash = (hash ^ (hash >> 15)).wrapping_mul(0x2c1b_3c6d);
    hash ^= hash >> 13;
    if hash % 100 < 4 { 0.18 } else { 0.0 }
}

/// A rounded surface in light from the left; `across` is -1 at its left edge and 1 at its right.
fn lit(color: Color, across: f32, y: f32) -> Color {
    let from_light = (across + 0.38).clamp(-1.2, 1.2) / 1.45;
    let shade = 0.42 + 0.66 * (1.0 - from_light * from_light).max(0.0).sqrt() - 0.06 * y;
    let gloss = (1.0 - ((across + 0.52) / 0.13).powi(2)).max(0.0) * 0.16;
    mix(scale(color, shade), [1.0, 1.0, 0.98], gloss)
}

impl Canvas {
    fn new(edge: usize) -> Canvas {
        Canvas {
            edge,
            pixels: vec![[0.0; 3]; edge * edge],
        }
    }

    /// Colors what is inside `distance`, the edge softly.
    fn fill(&mut self, distance: impl Fn(f32, f32) -> f32, color: impl Fn(f32, f32) -> Color) {
        let half = self.edge as f32 / 2.0;
        for (index, pixel) in self.pixels.iter_mut().enumerate() {
            let (x, y) = (
                ((index % self.edge) as f32 + 0.5) / half - 1.0,
                ((index / self.edge) as f32 + 0.5) / half - 1.0,
            );
            let cover = (0.5 - distance(x, y) * half).clamp(0.0, 1.0);
            if cover > 0.0 {
                *pixel = mix(*pixel, color(x, y), cover);
            }
        }
    }

    /// A wall with a tint of the glaze, and a wooden table.
    fn backdrop(&mut self, glaze: Color) {
        let wall = mix([0.93, 0.90, 0.85], glaze, 0.13);
        self.fill(
            |_, _| -1.0,
            |x, y| {
                scale(
                    wall,
                    1.0 - 0.10 * ((x + 0.4).powi(2) + (y + 0.5).powi(2)).sqrt(),
                )
            },
        );
        let grain = |x: f32, y: f32| 0.015 * ((y - TABLE_Y) * 70.0 + 1.5 * (x * 2.0).sin()).sin();
        self.fill(
            |_, y| TABLE_Y - y,
            |x, y| {
                scale(
                    [0.80, 0.69, 0.56],
                    0.96 + grain(x, y) + 0.10 * (y - TABLE_Y),
                )
            },
        );
    }

    fn shadow(&mut self, (y, radius): (f32, f32)) {
        let half = self.edge as f32 / 2.0;
        for (index, pixel) in self.pixels.iter_mut().enumerate() {
            let (px, py) = (
                (index % self.edge) as f32 / half - 1.0,
                (index / self.edge) as f32 / half - 1.0,
            );
            let away = ellipse(
                px - 0.55 * radius,
                py - y - 0.04,
                radius * 1.55,
                radius * 0.30,
            );
            let dark = (0.5 - away * 7.0).clamp(0.0, 1.0) * 0.38;
            *pixel = mix(*pixel, [0.24, 0.17, 0.12], dark);
        }
    }

    /// The rim and what one sees through it; a jar has its lid there.
    fn opening(&mut self, product: &Product, profile: Profile) {
        let (y, radius) = profile[0];
        let glaze = product.glaze;
        let height = radius * 0.24;
        self.fill(
            move |px, py| ellipse(px, py - y, radius, height),
            |px, py| lit(mix(glaze.color, glaze.edge, 0.45), px / radius, py),
        );
        if product.form == Form::Jar {
            self.fill(
                move |px, py| ellipse(px, py - y + 0.03, radius * 0.96, height * 1.2),
                |px, py| lit(glaze.color, px / radius, py),
            );
            return self.fill(
                |px, py| ring(px, py + 0.46, 0.085, 0.0),
                |px, py| lit(glaze.edge, px / 0.085, py),
            );
        }
        let inside = scale(glaze.edge, 0.62);
        let (width, depth) = (radius * 0.91, height * 0.84);
        self.fill(
            move |px, py| ellipse(px, py - y, width, depth),
            |px, _| scale(inside, 1.0 + 0.5 * px / radius),
        );
    }

    fn finish(self) -> Picture {
        let byte = |part: f32| (part.clamp(0.0, 1.0) * 255.0).round() as u8;
        Picture {
            edge: self.edge,
            pixels: self
                .pixels
                .into_iter()
                .map(|color| color.map(byte))
                .collect(),
        }
    }
}

fn mix(one: Color, other: Color, part: f32) -> Color {
    std::array::from_fn(|channel| one[channel] + (other[channel] - one[channel]) * part)
}

fn scale(color: Color, by: f32) -> Color {
    color.map(|part| part * by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{catalogue, png};

    #[test]
    fn pictures_are_of_a_shops_sizes_and_all_different() {
        let products = catalogue::products();
        let files: Vec<Vec<u8>> = products
            .iter()
            .step_by(7)
            .map(|product| png::encode(&picture(product, 200)))
            .collect();
        assert!(
            files
                .iter()
                .all(|file| (2_000..60_000).contains(&file.len())),
            "{:?}",
            files.iter().map(Vec::len).collect::<Vec<_>>()
        );
        assert!((1..files.len()).all(|at| files[at - 1] != files[at]));
    }

    #[test]
    fn a_profile_is_followed() {
        let profile = profile(Form::Cup);
        assert!(
            (radius(profile, -0.08) - 0.30).abs() < 1e-6
                && (radius(profile, 0.52) - 0.21).abs() < 1e-6
        );
        assert!(
            body(profile, 0.0, 0.2) < 0.0
                && body(profile, 0.5, 0.2) > 0.0
                && body(profile, 0.0, -0.5) > 0.0
        );
    }
}
