//! Images of jobs: each job names the contents that it needs, until it is removed.

use crate::domain::id::{JobId, UserId};
use crate::domain::job::JobSpec;
use crate::domain::message::Message;
use crate::domain::stored_file::ContentDigest;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::stored_files::{JobImageBytes, JobImageKey, image_key};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::stored_files::FileTotals;
use crate::store::redb::writer::transaction::Transaction;

impl Transaction<'_> {
    /// A new job needs the images of its messages.
    pub(crate) fn keep_images(&mut self, user: UserId, job: JobId, spec: &JobSpec) -> Result<(), StoreError> {
        let mut added = 0_u64;
        for image in spec.input.iter().flat_map(Message::images) {
            let key = JobImageKey { job, digest: image.content.to_bytes() }.encode();
            if self.tables.job_images.insert(&key, image.bytes)?.is_none() {
                added = added.saturating_add(image.bytes);
                let key = image_key(image.content, user, job);
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

    /// A removed job needs its images no longer.
    pub(crate) fn release_images(&mut self, user: UserId, job: JobId) -> Result<(), StoreError> {
        let (first, last) = JobImageKey::ends(job);
        let (first, last) = (first.encode(), last.encode());
        let mut images: Vec<(JobImageBytes, u64)> = Vec::new();
        for entry in self.tables.job_images.range::<&JobImageBytes>(&first..=&last)? {
            let (key, bytes) = entry?;
            images.push((*key.value(), bytes.value()));
        }
        let mut freed = 0_u64;
        for (key, bytes) in images {
            self.tables.job_images.remove(&key)?;
            let content = ContentDigest::from_bytes(JobImageKey::decode(&key).digest);
            self.tables.file_contents.remove(&image_key(content, user, job))?;
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
