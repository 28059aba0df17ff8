//! `POST /v1/files`: a form with `file` and `purpose`, in any order. The content goes to the disk as it
//! arrives. An answer means that content and row are on the disk (P1).

use super::view::FileObject;
use crate::domain::id::{FileId, UserId};
use crate::domain::stored_file::{FilePurpose, StoredFile};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::form::{FormPart, MultipartForm};
use crate::http::request::query::digits;
use crate::http::request::quoted::quoted;
use crate::http::request::typed::unknown;
use crate::http::request::values::PlainText;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::idempotency;
use crate::ports::{IncomingContent, NewWork};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Body;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Arguments of curl.
const EXAMPLE: &str = "-F purpose=batch -F 'file=@jobs.jsonl'";
const NO_KEY: &str =
    "files remember none: leave it out, and look for the file in GET /v1/files before you send it again";
/// Fields of the form.
const FIELDS: [&str; 4] = ["file", "purpose", ANCHOR, SECONDS];
const ANCHOR: &str = "expires_after[anchor]";
const SECONDS: &str = "expires_after[seconds]";
/// The lifetime that a client may choose, seconds.
pub(crate) const LIFETIME_S: RangeInclusive<u64> = 3_600..=2_592_000;
/// Maximum length of a file's name, characters.
pub(crate) const NAME_CHARS: usize = 255;
/// Writes are collected up to this many bytes.
const PIECE_BYTES: usize = 256 * 1024;

/// Fields of the form beside the file.
#[derive(Default)]
struct FileFields {
    purpose: Option<FilePurpose>,
    has_anchor: bool,
    lifetime_s: Option<u64>,
}

pub(crate) async fn upload(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    idempotency::refuse(&request.headers, NO_KEY)?;
    let (user, sender, announced) = (request.user, body.sender(), body.size_hint().lower());
    let mut form = MultipartForm::of_request(context, &request.headers, body, EXAMPLE)?;
    drop(request); // frees the headers while the file arrives
    let announced = usize::try_from(announced).unwrap_or(usize::MAX);
    quota::check(context, user, None, NewWork::bytes(announced)).await?;
    let (fields, file) = read_form(context, user, &mut form).await?;
    sender.confirm(context)?;
    let purpose = fields.purpose.ok_or_else(|| ApiError::value("purpose", "'purpose' is missing"))?;
    let lifetime_s = lifetime(&fields)?;
    let file = file.ok_or_else(|| ApiError::value("file", "'file' is missing"))?;
    quota::check(context, user, None, NewWork::bytes(usize::try_from(file.bytes).unwrap_or(usize::MAX)))
        .await?;
    let app = Arc::clone(&context.app);
    let stored = context.app.blocking(user, move || store(&app, user, file, (purpose, lifetime_s))).await??;
    Ok(response::json(StatusCode::OK, &FileObject::from(stored)))
}

/// Finishes the content, then stores the row. Blocking: a client that leaves now interrupts nothing.
fn store(
    app: &AppDependencies,
    user: UserId,
    mut file: IncomingFileContent,
    (purpose, lifetime_s): (FilePurpose, Option<u64>),
) -> Result<StoredFile, ApiError> {
    file.write()?;
    let content = file.content.finish()?;
    let created_at_ms = app.clock.now_ms();
    let row = StoredFile {
        id: FileId::from_bits(app.mint.mint(created_at_ms, app.entropy.random())),
        user,
        name: file.name,
        purpose,
        bytes: content.bytes,
        content: content.digest,
        created_at_ms,
        expires_at_ms: lifetime_s.map(|s| created_at_ms.saturating_add(s.saturating_mul(1_000))),
    };
    let stored = app.files.add_file(row).wait();
    drop(content.pin);
    if stored.is_err() {
        app.contents.remove_unused(content.digest);
    }
    Ok(stored?)
}

/// Reads all parts, which may come in any order.
async fn read_form(
    context: &ServerContext,
    user: UserId,
    form: &mut MultipartForm,
) -> Result<(FileFields, Option<IncomingFileContent>), ApiError> {
    let (mut fields, mut file) = (FileFields::default(), None);
    while let Some(part) = form.next().await? {
        let name = part.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "file" if file.is_none() => {
                let begun = IncomingFileContent::begin(context, user, file_name(&part)?).await?;
                file = Some(receive(form, part, begun).await?);
            }
            "purpose" if fields.purpose.is_none() => {
                let text = form.text(&name, part).await?;
                fields.purpose = Some(super::purpose(&text, &FilePurpose::OF_CLIENTS)?);
            }
            ANCHOR if !fields.has_anchor => {
                check_anchor(&form.text(&name, part).await?)?;
                fields.has_anchor = true;
            }
            SECONDS if fields.lifetime_s.is_none() => {
                fields.lifetime_s = Some(seconds(&form.text(&name, part).await?)?);
            }
            known if FIELDS.contains(&known) => {
                return Err(ApiError::value(known, format!("'{known}' may be given once")));
            }
            other => return Err(unknown(other, &FIELDS)),
        }
    }
    Ok((fields, file))
}

fn file_name(part: &FormPart) -> Result<String, ApiError> {
    let name = part.file_name().ok_or_else(|| {
        ApiError::value("file", format!("'file' must be sent with a file name (curl {EXAMPLE})"))
    })?;
    let checked = PlainText::<1, NAME_CHARS>::try_from(name.to_owned());
    Ok(checked.map_err(|rule| ApiError::value("file", format!("the name of 'file' {rule}")))?.0)
}

fn check_anchor(text: &str) -> Result<(), ApiError> {
    if text == "created_at" {
        return Ok(());
    }
    Err(ApiError::value(ANCHOR, format!("'{ANCHOR}' must be created_at, not {}", quoted(text))))
}

fn seconds(text: &str) -> Result<u64, ApiError> {
    digits(text).filter(|seconds| LIFETIME_S.contains(seconds)).ok_or_else(|| {
        let (least, most) = (LIFETIME_S.start(), LIFETIME_S.end());
        let rule = format!("'{SECONDS}' must be a whole number from {least} to {most}, not {}", quoted(text));
        ApiError::value(SECONDS, rule)
    })
}

/// The lifetime, whose two fields come together or not at all.
fn lifetime(fields: &FileFields) -> Result<Option<u64>, ApiError> {
    match (fields.has_anchor, fields.lifetime_s) {
        (true, None) => Err(ApiError::value(SECONDS, format!("'{SECONDS}' is missing"))),
        (false, Some(_)) => Err(ApiError::value(ANCHOR, format!("'{ANCHOR}' is missing"))),
        (_, lifetime_s) => Ok(lifetime_s),
    }
}

async fn receive(
    form: &MultipartForm,
    mut part: FormPart,
    mut file: IncomingFileContent,
) -> Result<IncomingFileContent, ApiError> {
    while let Some(piece) = form.piece(&mut part).await? {
        file.take(piece);
        if file.waiting_bytes >= PIECE_BYTES {
            file = file.flush().await?;
            form.release_memory();
        }
    }
    Ok(file)
}

/// A file that is arriving. Dropped before its row is stored, it leaves nothing behind.
struct IncomingFileContent {
    app: Arc<AppDependencies>,
    user: UserId,
    name: String,
    content: Box<dyn IncomingContent>,
    /// What has arrived.
    bytes: u64,
    /// What is not written yet.
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
}

impl IncomingFileContent {
    async fn begin(context: &ServerContext, user: UserId, name: String) -> Result<Self, ApiError> {
        let app = Arc::clone(&context.app);
        let begun = context.app.blocking(user, move || -> Result<Self, ApiError> {
            app.files.check_room(user, 0)?;
            let draft = app.contents.begin()?;
            Ok(Self { app, user, name, content: draft, bytes: 0, waiting: Vec::new(), waiting_bytes: 0 })
        });
        begun.await?
    }

    fn take(&mut self, piece: Bytes) {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        self.waiting_bytes = self.waiting_bytes.saturating_add(piece.len());
        self.waiting.push(piece);
    }

    /// Writes what is collected on a thread that may block.
    async fn flush(mut self) -> Result<Self, ApiError> {
        let threads = self.app.threads_of(self.user);
        let writing = threads.run(move || {
            self.write()?;
            Ok(self)
        });
        writing.await?
    }

    fn write(&mut self) -> Result<(), ApiError> {
        self.app.files.check_room(self.user, self.bytes)?;
        self.waiting_bytes = 0;
        for piece in std::mem::take(&mut self.waiting) {
            self.content.write(&piece)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_a_lifetime_is_bounded_and_needs_both_fields() {
        for bad in ["", "3599", "2592001", "1h", "-1", "3600.5"] {
            assert_eq!(seconds(bad).expect_err(bad).param(), Some(SECONDS));
        }
        assert_eq!(seconds("3600").expect("an hour"), 3_600);
        assert!(check_anchor("created_at").is_ok() && check_anchor("last_active_at").is_err());
        let fields = |has_anchor, lifetime_s| FileFields { purpose: None, has_anchor, lifetime_s };
        assert_eq!(lifetime(&fields(false, None)).expect("none"), None);
        assert_eq!(lifetime(&fields(true, Some(3_600))).expect("both"), Some(3_600));
        assert_eq!(lifetime(&fields(true, None)).expect_err("one").param(), Some(SECONDS));
        assert_eq!(lifetime(&fields(false, Some(3_600))).expect_err("one").param(), Some(ANCHOR));
    }
}
