//! `GET /v1/jobs/{id}/export`: an ended job as JSON lines, for another server, a replay or an archive. A slow
//! reader costs one page of memory.

use crate::domain::id::{JobId, UserId};
use crate::domain::image::Image;
use crate::domain::job::History;
use crate::domain::log_chain::RecordPlace;
use crate::domain::run::{EndedRun, RunState};
use crate::domain::run_file::{end_line, file_line, header_line, named_files, record_line, signed_header};
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::middleware::revocation;
use crate::http::request::context::RequestContext;
use crate::http::response::stream_body::{BodyError, BodySource, StreamBody};
use crate::http::response::{self, HandlerResult, X_JOB_ID};
use crate::ports::StoreError;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::CONTENT_DISPOSITION;
use std::sync::Arc;

/// Bytes of records in a page; a single record may be larger.
const PAGE_BYTES: usize = 256 * 1024;

/// The run as JSON lines. An unfinished job is a 409.
pub(crate) async fn export(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let (id, user): (JobId, _) = (request.id("job")?, request.user);
    let app = Arc::clone(&context.app);
    let run = context.app.blocking(user, move || RunExport::open(app, user, id)).await??;
    let body = StreamBody::new(RunBody(Some(Box::new(run))), revocation::signal(context, request.caller));
    let mut response = response::lines(body);
    response::set(&mut response, X_JOB_ID, &id.to_string());
    response::set(&mut response, CONTENT_DISPOSITION, &format!("attachment; filename=\"{id}.jsonl\""));
    Ok(response)
}

/// What comes next.
enum ExportPart {
    /// The first line; it is made before the status is sent.
    Header(String),
    Records,
    Files,
    Over,
}

/// A run that is being sent.
struct RunExport {
    app: Arc<AppDependencies>,
    user: UserId,
    state: RunState,
    part: ExportPart,
    /// The last record that was sent.
    place: RecordPlace,
    records: u64,
    images: Vec<Image>,
    /// How many of them were sent.
    files: usize,
}

impl RunExport {
    fn open(app: Arc<AppDependencies>, user: UserId, id: JobId) -> Result<Self, ApiError> {
        let job = app.store.job(user, id)?.ok_or(ApiError::NotFound("job"))?;
        if !job.status.is_terminal() {
            let message = format!("the job is {}; only an ended job can be exported", job.status.as_str());
            return Err(ApiError::Refused { status: StatusCode::CONFLICT, code: "job_not_ended", message });
        }
        let run = app.runs.ended_run(user, id)?.ok_or(ApiError::NotFound("job"))?;
        // The conversation of an imported run is on its first server; one here may have the same name.
        let history = match job.imported_at_ms {
            Some(_) => History::default(),
            None => app.store.history(&job, app.limits.history_messages)?,
        };
        let header = header_line(&run, history).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let header = signed_header(&header, |message| app.log_chains.sign(message));
        let EndedRun { state, spec, hides_input, .. } = run;
        let images = if hides_input { Vec::new() } else { named_files(&spec).into_iter().cloned().collect() };
        let part = ExportPart::Header(header);
        Ok(Self { app, user, state, part, place: RecordPlace::BEFORE_FIRST, records: 0, images, files: 0 })
    }

    /// The next lines; `None` at the end.
    fn read(&mut self) -> Result<Option<String>, StoreError> {
        match std::mem::replace(&mut self.part, ExportPart::Records) {
            ExportPart::Header(header) => Ok(Some(header)),
            ExportPart::Records => {
                let page = self.app.runs.log_records(self.state.id, self.place, PAGE_BYTES)?;
                let Some(last) = page.last() else {
                    self.refuse_change()?;
                    self.part = ExportPart::Files;
                    return self.read_file();
                };
                self.place = last.place;
                self.records = self.records.saturating_add(page.len() as u64);
                Ok(Some(page.iter().map(record_line).collect()))
            }
            ExportPart::Files => {
                self.part = ExportPart::Files;
                self.read_file()
            }
            ExportPart::Over => {
                self.part = ExportPart::Over;
                Ok(None)
            }
        }
    }

    /// The line of the next file, or the last line.
    fn read_file(&mut self) -> Result<Option<String>, StoreError> {
        let unwritable = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
        let Some(image) = self.images.get(self.files) else {
            self.part = ExportPart::Over;
            return end_line(self.records, self.images.len() as u64).map(Some).map_err(unwritable);
        };
        self.files = self.files.saturating_add(1);
        let content = self.app.contents.read(image.content, image.bytes.saturating_add(1))?;
        let content = content.filter(|content| content.len() as u64 == image.bytes);
        file_line(image, content.as_deref()).map(Some).map_err(unwritable)
    }

    /// Fails if retention, a retry or a deletion has changed the job since the header.
    fn refuse_change(&self) -> Result<(), StoreError> {
        match self.app.runs.ended_run(self.user, self.state.id)? {
            Some(run) if run.state == self.state => Ok(()),
            _ => Err(StoreError::Io(format!("{} has changed while it was exported", self.state.id))),
        }
    }
}

/// `None` while the run is being read.
struct RunBody(Option<Box<RunExport>>);

impl BodySource for RunBody {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Some(mut run) = self.0.take() else { return Ok(None) };
        let threads = run.app.threads_of(run.user);
        let reading = threads.run(move || run.read().map(|text| (text, run)));
        let read = reading.await.map_err(|_panic| BodyError::new("the reading thread died"))?;
        let (text, run) = read.map_err(|error| {
            tracing::error!(%error, "the export of a run was cut off");
            BodyError::new("the run could not be read to its end")
        })?;
        self.0 = Some(run);
        Ok(text.map(Bytes::from))
    }
}
