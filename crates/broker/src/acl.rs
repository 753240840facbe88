//! POSIX access control lists in the kernel's format (acl(5), linux/posix_acl_xattr.h): a mode, and
//! additional users.
//!
//! Called by: the state directory, for users who may reach the control socket.
//! Caveat: a file system without lists refuses them.
//! Out of scope: groups, default lists, reading lists back.

use std::collections::BTreeSet;

/// The extended attribute.
pub const ACCESS: &str = "system.posix_acl_access";

const VERSION: u32 = 2;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
const NO_ID: u32 = u32::MAX;

/// The list that means `mode`, with `rights` (as in a mode's last digit) for each of `users`.
pub fn with_users(mode: u32, users: &BTreeSet<u32>, rights: u16) -> Vec<u8> {
    let digit = |shift: u32| (mode >> shift & 0o7) as u16;
    let mut list = VERSION.to_le_bytes().to_vec();
    let mut entry = |tag: u16, rights: u16, id: u32| {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&rights.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    };
    entry(OWNER, digit(6), NO_ID);
    // In ascending order, as the kernel wants them.
    users.iter().for_each(|user| entry(USER, rights, *user));
    entry(OWNING_GROUP, digit(3), NO_ID);
    entry(MASK, digit(3) | rights, NO_ID);
    entry(OTHERS, digit(0), NO_ID);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_as_bytes() {
        let list = with_users(0o750, &[7].into(), 1);
        let entries: Vec<&[u8]> = list[4..].chunks(8).collect();
        assert_eq!(&list[..4], [2, 0, 0, 0]);
        assert_eq!(entries[0], [1, 0, 7, 0, 255, 255, 255, 255]);
        assert_eq!(entries[1], [2, 0, 1, 0, 7, 0, 0, 0]);
        assert_eq!(entries[2], [4, 0, 5, 0, 255, 255, 255, 255]);
        assert_eq!(entries[3], [16, 0, 5, 0, 255, 255, 255, 255]);
        assert_eq!(entries[4], [32, 0, 0, 0, 255, 255, 255, 255]);
    }
}
