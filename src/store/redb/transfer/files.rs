//! Projects, uploaded files and images.

use crate::domain::id::{JobId, ScheduleId};
use crate::ports::StoreError;
use crate::store::redb::codec::keys::accounts::{account_key, account_of};
use crate::store::redb::codec::keys::projects::ProjectOwnerKey;
use crate::store::redb::codec::keys::stored_files::{
    FileExpiryKey, HeldImageKey, ImageHolder, OwnedFileKey, content_key, content_parts, image_key,
};
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{
    FILE_CONTENTS, FILE_TOTALS, FILES, JOB_IMAGES, PENDING_DIRECTORIES, PROJECTS, SCHEDULED_REQUESTS, Tables,
};
use crate::store::redb::codec::values;
use crate::store::redb::transfer::{EachRow, RedbRow, document, scan, stored};
use crate::store::rows::transfer::files::{
    TransferDirectory, TransferFile, TransferImage, TransferProject, TransferTotals,
};

impl RedbRow for TransferProject {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(PROJECTS, reading, |_, bytes| each(Self(document(bytes)?)))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let project = &self.0.value;
        tables.projects.insert(&project.id.to_bytes(), stored(&self.0).as_slice())?;
        tables.projects_owned.insert(&ProjectOwnerKey::of(project).encode(), ())?;
        Ok(())
    }
}

impl RedbRow for TransferDirectory {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(PENDING_DIRECTORIES, reading, |_, bytes| each(Self(document(bytes)?)))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        tables.pending_directories.insert(&self.0.value.id.to_bytes(), stored(&self.0).as_slice())?;
        Ok(())
    }
}

impl RedbRow for TransferFile {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(FILES, reading, |_, bytes| each(Self(document(bytes)?)))
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let file = &self.0.value;
        let (user, id) = (file.user, file.id);
        tables.files.insert(&OwnedFileKey { user, id }.encode(), stored(&self.0).as_slice())?;
        tables.file_contents.insert(&content_key(file.content, user, id), [].as_slice())?;
        if let Some(at_ms) = file.expires_at_ms {
            tables.files_expiring.insert(&FileExpiryKey { at_ms, user, id }.encode(), ())?;
        }
        Ok(())
    }
}

/// Begins the names of items that hold images; their number follows.
const ITEMS: &str = "items ";

/// What holds an image, of a name as the database has it.
fn holder_named(name: &str) -> Option<ImageHolder> {
    if let Some(number) = name.strip_prefix(ITEMS) {
        return number.parse().ok().map(ImageHolder::of_items);
    }
    let job = name.parse::<JobId>().ok().map(ImageHolder::from);
    job.or_else(|| name.parse::<ScheduleId>().ok().map(ImageHolder::from))
}

impl RedbRow for TransferImage {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        let (images, schedules) = (JOB_IMAGES.read(reading)?, SCHEDULED_REQUESTS.read(reading)?);
        let mut count = 0_u64;
        scan(FILE_CONTENTS, reading, |key, _| {
            let (content, user, holder) = content_parts(key);
            let Some(bytes) = images.get(&HeldImageKey::of(holder, content).encode())? else {
                return Ok(()); // it is a file
            };
            let name = match holder.items() {
                Some(number) => format!("{ITEMS}{number}"),
                None if schedules.get(&holder.to_bytes())?.is_some() => {
                    ScheduleId::from_bytes(holder.to_bytes()).to_string()
                }
                None => JobId::from_bytes(holder.to_bytes()).to_string(),
            };
            count = count.saturating_add(1);
            each(Self { holder: name, content, user, bytes: bytes.value() })
        })?;
        match images.len()? {
            found if found == count => Ok(()),
            found => Err(StoreError::Corrupt(format!("{count} of {found} images have an owner"))),
        }
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let holder = holder_named(&self.holder);
        let holder = holder.ok_or_else(|| StoreError::Corrupt("its holder is unknown".to_owned()))?;
        tables.job_images.insert(&HeldImageKey::of(holder, self.content).encode(), self.bytes)?;
        tables.file_contents.insert(&image_key(self.content, self.user, holder), [].as_slice())?;
        Ok(())
    }
}

impl RedbRow for TransferTotals {
    fn each(reading: &ReadTransaction, each: &mut EachRow<'_, Self>) -> Result<(), StoreError> {
        scan(FILE_TOTALS, reading, |key, bytes| {
            each(Self { user: account_of(key), totals: values::decode(bytes)? })
        })
    }

    fn put(self, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        tables.file_totals.put_row(&account_key(self.user), &self.totals)?;
        Ok(())
    }
}
