//! Projects, uploaded files and images.

use crate::domain::id::UserId;
use crate::domain::project::Project;
use crate::domain::stored_file::{ContentDigest, StoredFile};
use crate::ports::StoreError;
use crate::store::rows::file_totals::FileTotals;
use crate::store::rows::transfer::TransferRow;
use crate::store::rows::transfer::documents::JsonDocument;
use crate::store::rows::transfer::text_row::TextRow;

/// A project.
pub(crate) struct TransferProject(pub(crate) JsonDocument<Project>);

impl TransferRow for TransferProject {
    const TABLE: &'static str = "projects";
    const COLUMNS: &'static [&'static str] =
        &["id", "user_id", "name", "directory", "created_at_ms", "updated_at_ms", "project"];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let project = &self.0.value;
        Ok(TextRow::default()
            .text(project.id)
            .user(project.user)
            .text(project.name.as_str())
            .text(&project.directory)
            .number(project.created_at_ms)
            .number(project.updated_at_ms)
            .document(&self.0))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(6)?;
        cells.document().map(Self)
    }
}

/// A project that is being created or removed, of which only the directory may exist.
pub(crate) struct TransferDirectory(pub(crate) JsonDocument<Project>);

impl TransferRow for TransferDirectory {
    const TABLE: &'static str = "pending_directories";
    const COLUMNS: &'static [&'static str] = &["id", "user_id", "directory", "project"];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let project = &self.0.value;
        let row = TextRow::default().text(project.id).user(project.user);
        Ok(row.text(&project.directory).document(&self.0))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(3)?;
        cells.document().map(Self)
    }
}

/// An uploaded file.
pub(crate) struct TransferFile(pub(crate) JsonDocument<StoredFile>);

impl TransferRow for TransferFile {
    const TABLE: &'static str = "files";
    const COLUMNS: &'static [&'static str] =
        &["user_id", "id", "purpose", "bytes", "content", "created_at_ms", "expires_at_ms", "file"];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let file = &self.0.value;
        Ok(TextRow::default()
            .user(file.user)
            .text(file.id)
            .text(file.purpose.as_str())
            .number(file.bytes)
            .text(file.content)
            .number(file.created_at_ms)
            .optional_number(file.expires_at_ms)
            .document(&self.0))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        cells.skip(7)?;
        cells.document().map(Self)
    }
}

/// An image under what names it.
pub(crate) struct TransferImage {
    /// A job, a schedule, or `items` and a number.
    pub(crate) holder: String,
    pub(crate) content: ContentDigest,
    pub(crate) user: UserId,
    pub(crate) bytes: u64,
}

impl TransferRow for TransferImage {
    const TABLE: &'static str = "images";
    const COLUMNS: &'static [&'static str] = &["holder", "content", "user_id", "bytes"];
    const KEY: usize = 2;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let row = TextRow::default().text(&self.holder).text(self.content);
        Ok(row.user(self.user).number(self.bytes))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        Ok(Self { holder: cells.text()?, content: cells.text()?, user: cells.user()?, bytes: cells.text()? })
    }
}

/// The sums of a user's files and images.
pub(crate) struct TransferTotals {
    pub(crate) user: UserId,
    pub(crate) totals: FileTotals,
}

impl TransferRow for TransferTotals {
    const TABLE: &'static str = "file_totals";
    const COLUMNS: &'static [&'static str] = &["user_id", "files", "bytes", "image_bytes"];
    const KEY: usize = 1;

    fn columns(&self) -> Result<TextRow, StoreError> {
        let FileTotals { files, bytes, image_bytes } = self.totals;
        Ok(TextRow::default().user(self.user).number(files).number(bytes).number(image_bytes))
    }

    fn read(row: &TextRow) -> Result<Self, StoreError> {
        let mut cells = row.cells();
        let user = cells.user()?;
        let totals = FileTotals { files: cells.text()?, bytes: cells.text()?, image_bytes: cells.text()? };
        Ok(Self { user, totals })
    }
}
