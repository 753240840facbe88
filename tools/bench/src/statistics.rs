//! Median and range.

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// `None` without values.
pub fn spread(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    Some(Spread {
        median: (low + high) / 2.0,
        min,
        max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(spread([]), None);
        assert_eq!(
            spread([3.0]),
            Some(Spread {
                median: 3.0,
                min: 3.0,
                max: 3.0
            })
        );
        assert_eq!(
            spread([5.0, 1.0, 9.0]),
            Some(Spread {
                median: 5.0,
                min: 1.0,
                max: 9.0
            })
        );
        assert_eq!(
            spread([4.0, 1.0, 9.0, 2.0]),
            Some(Spread {
                median: 3.0,
                min: 1.0,
                max: 9.0
            })
        );
    }
}
