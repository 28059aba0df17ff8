//! Images of messages: each job, line of a batch, schedule and row of added items names the contents that it
//! needs, until it is removed.

use crate::domain::id::UserId;
use crate::domain::message::Message;
use crate::domain::stored_file::ContentDigest;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::stored_files::{HeldImageBytes, HeldImageKey, ImageHolder, image_key};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::file_totals::FileTotals;

impl Transaction<'_> {
    /// The holder needs the images of its messages from here on. Those that it has already count once.
    pub(crate) fn keep_images(
        &mut self,
        user: UserId,
        holder: ImageHolder,
        messages: &[Message],
    ) -> Result<(), StoreError> {
        let mut added = 0_u64;
        for image in messages.iter().flat_map(Message::images) {
            let key = HeldImageKey::of(holder, image.content).encode();
            if self.tables.job_images.insert(&key, image.bytes)?.is_none() {
                added = added.saturating_add(image.bytes);
                let key = image_key(image.content, user, holder);
                self.tables.file_contents.insert(&key, [].as_slice())?;
            }
        }
        if added > 0 {
            let totals = self.file_totals(user)?;
            let image_bytes = totals.image_bytes.saturating_add(added);
            self.put_file_totals(user, FileTotals { image_bytes, ..totals })?;
        }
        Ok(())
    }

    /// A removed holder needs its images no longer.
    pub(crate) fn release_images(&mut self, user: UserId, holder: ImageHolder) -> Result<(), StoreError> {
        let (first, last) = HeldImageKey::ends(holder);
        let (first, last) = (first.encode(), last.encode());
        let mut images: Vec<(HeldImageBytes, u64)> = Vec::new();
        for entry in self.tables.job_images.range::<&HeldImageBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            images.push((*key.value(), bytes.value()));
        }
        let mut freed = 0_u64;
        for (key, bytes) in images {
            self.tables.job_images.remove(&key)?;
            let content = ContentDigest::from_bytes(HeldImageKey::decode(&key).digest);
            self.tables.file_contents.remove(&image_key(content, user, holder))?;
            freed = freed.saturating_add(bytes);
        }
        if freed > 0 {
            let totals = self.file_totals(user)?;
            let image_bytes = totals.image_bytes.saturating_sub(freed);
            self.put_file_totals(user, FileTotals { image_bytes, ..totals })?;
        }
        Ok(())
    }
}
