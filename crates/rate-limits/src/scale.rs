//! Multiplication and division of amounts by rates, without overflow.
//!
//! Called by: bandwidth and request rates.
//! Caveat: rounds to the nearest and saturates.
//! Out of scope: accounts.

pub const NS_PER_S: u64 = 1_000_000_000;

/// `amount * factor / divisor`, rounded to the nearest, saturating; no 128-bit division where 64
/// bits do. A divisor of 0 is taken as 1.
#[inline]
pub fn scale(amount: u64, factor: u64, divisor: u64) -> u64 {
    let divisor = divisor.max(1);
    match amount
        .checked_mul(factor)
        .and_then(|product| product.checked_add(divisor / 2))
    {
        Some(product) => product / divisor,
        None => {
            let product = u128::from(amount) * u128::from(factor) + u128::from(divisor / 2);
            u64::try_from(product / u128::from(divisor)).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling() {
        let rows = [
            ((1, NS_PER_S, 3), 333_333_333),
            ((2, NS_PER_S, 3), 666_666_667),
            ((0, NS_PER_S, 3), 0),
            ((7, 1, 0), 7),
            ((u64::MAX, NS_PER_S, NS_PER_S), u64::MAX),
            ((u64::MAX, 2, 1), u64::MAX),
            ((40_000_000_000, NS_PER_S, 1_000_000), 40_000_000_000_000),
        ];
        for ((amount, factor, divisor), want) in rows {
            assert_eq!(
                scale(amount, factor, divisor),
                want,
                "{amount} {factor} {divisor}"
            );
        }
    }
}
