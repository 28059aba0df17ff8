//! Keys of projects.

use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::Project;
use crate::store::redb::codec::keys::reader::{KeyReader, join};

/// Bytes of a project's key.
pub(crate) type ProjectBytes = [u8; 16];
/// Bytes of a [`ProjectOwnerKey`].
pub(crate) type ProjectOwnerBytes = [u8; 28];

/// A project in its user's list: the one that changed last sorts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProjectOwnerKey {
    pub(crate) user: UserId,
    pub(crate) updated_at_ms: u64,
    pub(crate) id: ProjectId,
}

impl ProjectOwnerKey {
    /// Key of a project in the list.
    pub(crate) fn of(project: &Project) -> Self {
        Self { user: project.user, updated_at_ms: project.updated_at_ms, id: project.id }
    }

    /// Before and behind all of a user's.
    pub(crate) fn ends(user: UserId) -> (Self, Self) {
        let key = |updated_at_ms, bits| Self { user, updated_at_ms, id: ProjectId::from_bits(bits) };
        (key(u64::MAX, u128::MIN), key(u64::MIN, u128::MAX))
    }

    pub(crate) fn encode(self) -> ProjectOwnerBytes {
        join(&[&self.user.0.to_be_bytes(), &(!self.updated_at_ms).to_be_bytes(), &self.id.to_bytes()])
    }

    pub(crate) fn decode(bytes: &ProjectOwnerBytes) -> Self {
        let mut reader = KeyReader(bytes);
        Self {
            user: reader.part(),
            updated_at_ms: !reader.part::<u64>(),
            id: ProjectId::from_bytes(reader.take()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn p7_project_owner_keys_round_trip_and_sort_by_user_newest_first(
            a: (u32, u64, u128), b: (u32, u64, u128), same: bool
        ) {
            let key = |(user, updated_at_ms, bits)| {
                ProjectOwnerKey { user: UserId(user), updated_at_ms, id: ProjectId::from_bits(bits) }
            };
            let (a, b) = (key(a), key(if same { (a.0, b.1, b.2) } else { b }));
            prop_assert_eq!(ProjectOwnerKey::decode(&a.encode()), a);
            let (first, last) = ProjectOwnerKey::ends(a.user);
            let inside = (first.encode()..=last.encode()).contains(&b.encode());
            prop_assert_eq!(inside, a.user == b.user);
            if a.user == b.user && a.updated_at_ms > b.updated_at_ms {
                prop_assert!(a.encode() < b.encode());
            }
        }
    }
}
