use super::*;

fn digest(seed: u8) -> PolicyDigest {
    PolicyDigest::of(&[seed])
}
