//! Keys of uploaded files.

use crate::domain::id::{FileId, JobId, ScheduleId, UserId};
use crate::domain::stored_file::ContentDigest;
use crate::store::redb::codec::keys::reader::{KeyPart, KeyReader, id_ends, join, key};

key! {
    /// A file of a user.
    OwnedFileKey, OwnedFileBytes = 20 {
        user: UserId,
        id: FileId,
    }
}

impl OwnedFileKey {
    /// The first and the last key that a user's files can have.
    pub(crate) fn ends(user: UserId) -> (Self, Self) {
        id_ends(|bits| Self { user, id: FileId::from_bits(bits) })
    }
}

key! {
    /// A file at the time when it expires.
    FileExpiryKey, FileExpiryBytes = 28 {
        at_ms: u64,
        user: UserId,
        id: FileId,
    }
}

/// Bytes of the key of a file under its content's digest.
pub(crate) type FileContentBytes = [u8; 52];

/// The key of a file under its content's digest.
pub(crate) fn content_key(content: ContentDigest, user: UserId, id: FileId) -> FileContentBytes {
    join(&[&content.to_bytes(), &user.0.to_be_bytes(), &id.to_bytes()])
}

/// The parts of a key of [`content_key`] or [`image_key`]; a file is in the place of a holder.
pub(crate) fn content_parts(bytes: &FileContentBytes) -> (ContentDigest, UserId, ImageHolder) {
    let mut reader = KeyReader(bytes);
    (ContentDigest::from_bytes(reader.take()), reader.part(), ImageHolder(reader.take()))
}

/// The first and the last key that files with this content can have.
pub(crate) fn content_ends(content: ContentDigest) -> (FileContentBytes, FileContentBytes) {
    let key = |user, bits| content_key(content, UserId(user), FileId::from_bits(bits));
    (key(u32::MIN, u128::MIN), key(u32::MAX, u128::MAX))
}

/// What names images: a job, a schedule, or items that were added to a conversation. A line of a batch is
/// the job that it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageHolder([u8; 16]);

impl ImageHolder {
    /// Items with this number in the order of acceptance.
    pub(crate) fn of_items(accept: u64) -> Self {
        // Ids begin with a time, which no clock of a server reaches.
        Self(join(&[&[u8::MAX; 8], &accept.to_be_bytes()]))
    }

    /// The number of items; `None`: it is a job or a schedule.
    pub(crate) fn items(self) -> Option<u64> {
        let mut reader = KeyReader(&self.0);
        (reader.take() == [u8::MAX; 8]).then(|| reader.part())
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl From<JobId> for ImageHolder {
    fn from(job: JobId) -> Self {
        Self(job.to_bytes())
    }
}

impl From<ScheduleId> for ImageHolder {
    fn from(schedule: ScheduleId) -> Self {
        Self(schedule.to_bytes())
    }
}

key! {
    /// An image under what names it.
    HeldImageKey, HeldImageBytes = 48 {
        holder: [u8; 16],
        digest: [u8; 32],
    }
}

impl HeldImageKey {
    /// The key of this image.
    pub(crate) fn of(holder: ImageHolder, content: ContentDigest) -> Self {
        Self { holder: holder.0, digest: content.to_bytes() }
    }

    /// The first and the last key that images of a holder can have.
    pub(crate) fn ends(ImageHolder(holder): ImageHolder) -> (Self, Self) {
        (Self { holder, digest: [u8::MIN; 32] }, Self { holder, digest: [u8::MAX; 32] })
    }
}

/// The key of what names an image under the image's digest.
pub(crate) fn image_key(content: ContentDigest, user: UserId, holder: ImageHolder) -> FileContentBytes {
    join(&[&content.to_bytes(), &user.0.to_be_bytes(), &holder.0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn p7_file_keys_round_trip_and_sort_by_user(a: (u32, u128), b: (u32, u128), same: bool) {
            let key = |(user, bits)| OwnedFileKey { user: UserId(user), id: FileId::from_bits(bits) };
            let (a, b) = (key(a), key(if same { (a.0, b.1) } else { b }));
            prop_assert_eq!(OwnedFileKey::decode(&a.encode()), a);
            prop_assert_eq!(a.encode().cmp(&b.encode()), a.cmp(&b));
            let (first, last) = OwnedFileKey::ends(a.user);
            prop_assert_eq!((first..=last).contains(&b), a.user == b.user);
        }

        #[test]
        fn images_of_one_holder_are_together(job: u128, accept: u64, other: u64, digest: [u8; 32]) {
            let (job, content) = (JobId::from_bits(job >> 1), ContentDigest::from_bytes(digest));
            let key = |holder| HeldImageKey::of(holder, content).encode();
            for holder in [ImageHolder::from(job), ImageHolder::of_items(accept)] {
                let (first, last) = HeldImageKey::ends(holder);
                let range = first.encode()..=last.encode();
                prop_assert!(range.contains(&key(holder)));
                let others = [ImageHolder::from(job), ImageHolder::of_items(accept), ImageHolder::of_items(other)];
                for other in others {
                    prop_assert_eq!(range.contains(&key(other)), other == holder);
                }
            }
        }

        #[test]
        fn file_expiry_keys_sort_by_time_and_content_keys_by_content(a: (u64, u32, u128), b: (u64, u32, u128), same: bool) {
            let b = if same { (a.0, b.1, b.2) } else { b };
            let expiry = |(at_ms, user, bits): (u64, u32, u128)| {
                FileExpiryKey { at_ms, user: UserId(user), id: FileId::from_bits(bits) }
            };
            prop_assert_eq!(FileExpiryKey::decode(&expiry(a).encode()), expiry(a));
            prop_assert_eq!(expiry(a).encode().cmp(&expiry(b).encode()), expiry(a).cmp(&expiry(b)));
            let digest = |(start, ..): (u64, u32, u128)| {
                let mut bytes = [7; 32];
                bytes[..8].copy_from_slice(&start.to_be_bytes());
                ContentDigest::from_bytes(bytes)
            };
            let (first, last) = content_ends(digest(a));
            let key = content_key(digest(b), UserId(b.1), FileId::from_bits(b.2));
            prop_assert_eq!((first..=last).contains(&key), a.0 == b.0);
        }
    }
}
