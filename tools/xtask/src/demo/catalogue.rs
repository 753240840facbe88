//! Goods of the demo shop: eight forms in five glazes.

pub type Color = [f32; 3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Mug,
    Bowl,
    Vase,
    Bottle,
    Jug,
    Jar,
    Cup,
    Planter,
}

pub struct Glaze {
    pub name: &'static str,
    pub color: Color,
    /// Color where it runs off the edge.
    pub edge: Color,
    pub sentence: &'static str,
}

pub const FORMS: &[(Form, &str, u32, &str)] = &[
    (
        Form::Mug,
        "mug",
        2400,
        "Holds a third of a litre, and the handle has room for three fingers.",
    ),
    (
        Form::Bowl,
        "bowl",
        2900,
        "Deep enough for soup, wide enough for salad. Stacks.",
    ),
    (
        Form::Vase,
        "vase",
        5400,
        "Narrow at the neck, so that five stems stand up by themselves.",
    ),
    (
        Form::Bottle,
        "bottle",
        4600,
        "For oil, or for a single branch. Comes with a cork.",
    ),
    (
        Form::Jug,
        "jug",
        4900,
        "A litre and a half, and the spout does not drip. We tried.",
    ),
    (
        Form::Jar,
        "jar",
        3800,
        "With a lid that closes softly. Keeps tea, sugar and secrets.",
    ),
    (
        Form::Cup,
        "cup",
        1800,
        "Without a handle, thick at the foot: warm in the hand, not hot.",
    ),
    (
        Form::Planter,
        "planter",
        4200,
        "Has a hole at the bottom and a saucer that fits.",
    ),
];

pub const GLAZES: &[Glaze] = &[
    Glaze {
        name: "Ochre",
        color: [0.80, 0.56, 0.22],
        edge: [0.47, 0.26, 0.12],
        sentence: "Iron and ash, fired slowly: honey that turns to rust at the edge.",
    },
    Glaze {
        name: "Celadon",
        color: [0.56, 0.71, 0.61],
        edge: [0.33, 0.47, 0.41],
        sentence: "The old green of rivers, pooling where the form turns.",
    },
    Glaze {
        name: "Cobalt",
        color: [0.17, 0.29, 0.55],
        edge: [0.08, 0.12, 0.28],
        sentence: "A blue for evenings, nearly black in the shade.",
    },
    Glaze {
        name: "Chalk",
        color: [0.91, 0.88, 0.82],
        edge: [0.66, 0.58, 0.48],
        sentence: "White, but not shy: the clay looks through.",
    },
    Glaze {
        name: "Ember",
        color: [0.71, 0.25, 0.17],
        edge: [0.30, 0.09, 0.08],
        sentence: "Copper red. No two come out of the kiln alike.",
    },
];

pub struct Product {
    pub form: Form,
    pub form_name: &'static str,
    pub glaze: &'static Glaze,
    pub sentence: &'static str,
    cents: u32,
}

impl Product {
    /// Its name in addresses.
    pub fn slug(&self) -> String {
        format!("{}-{}", self.glaze.name.to_lowercase(), self.form_name)
    }

    pub fn name(&self) -> String {
        format!("{} {}", self.glaze.name, self.form_name)
    }

    pub fn price(&self) -> String {
        format!("{}.{:02}", self.cents / 100, self.cents % 100)
    }
}

/// All forty, form by form.
pub fn products() -> Vec<Product> {
    let every = FORMS
        .iter()
        .flat_map(|form| (0..).zip(GLAZES).map(move |glaze| (form, glaze)));
    every
        .map(
            |(&(form, form_name, cents, sentence), (place, glaze))| Product {
                form,
                form_name,
                glaze,
                sentence,
                cents: cents + 100 * (place % 3),
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn forty_different_ones() {
        let slugs: BTreeSet<String> = products().iter().map(Product::slug).collect();
        assert_eq!(slugs.len(), 40);
        assert!(slugs.iter().all(|slug| {
            slug.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        }));
    }
}
