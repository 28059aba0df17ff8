//! `GET /v1/batches/{id}/results` as JSON lines: ended lines in input order, or with `?follow=true` all
//! lines in the order in which they end. A slow reader costs one page of memory.

use super::result_lines::page;
use super::result_page::BatchResultPage;
use crate::domain::id::BatchId;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::middleware::revocation;
use crate::http::request::context::RequestContext;
use crate::http::response::stream_body::{BodyError, BodySource, StreamBody};
use crate::http::response::{self, HandlerResult};
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use crate::http::shared_pages::{PageSharing, ReaderPages};
use crate::http::shared_threads::ThreadShare;
use crate::http::v1::wait::{LOOK_EVERY, REWATCH};
use crate::ports::{ChangeWatch, StoreError};
use bytes::Bytes;
use std::sync::Arc;

pub(crate) async fn results(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: BatchId = request.id("batch")?;
    let query = &request.query;
    let follow = query.flag("follow")?.unwrap_or(false);
    let after = query.whole("after", 0..=u64::from(u32::MAX))?;
    if after.is_some() && !follow {
        return Err(ApiError::value(
            "after",
            "'after' counts lines of ?follow=true; without it results come whole",
        ));
    }
    let batch = super::owned(context, request.user, id).await?;
    let at = after.and_then(|after| u32::try_from(after).ok()).unwrap_or(0);
    if at > batch.counts.total {
        let total = batch.counts.total;
        return Err(ApiError::value("after", format!("{at} is beyond this batch's {total} lines")));
    }
    let mut reader = BatchResultReader {
        app: Arc::clone(&context.app),
        shutdown: context.shutdown.clone(),
        news: context.app.batches.watch_batch(id), // before the first read
        threads: context.result_threads(request.user),
        batch: id,
        pages: context.result_pages.of(id),
        follow,
        at,
        looks: false,
        is_over: false,
        first: None,
    };
    reader.first = Some(reader.read().await?);
    Ok(response::lines(StreamBody::new(reader, revocation::signal(context, request.caller))))
}

struct BatchResultReader {
    app: Arc<AppDependencies>,
    shutdown: Shutdown,
    news: ChangeWatch,
    threads: ThreadShare,
    batch: BatchId,
    /// Pages that it shares with the other followers of the batch.
    pages: Arc<ReaderPages<BatchId, BatchResultPage>>,
    follow: bool,
    /// The next line, or with `follow` the number of lines sent.
    at: u32,
    /// Reads even without a hint, which may be lost.
    looks: bool,
    is_over: bool,
    /// The first page. It is read before the status is sent, so that its failure has a status.
    first: Option<BatchResultPage>,
}

impl BodySource for BatchResultReader {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        while !self.is_over {
            let page = match self.first.take() {
                Some(first) => first,
                None => self.read_when_possible().await?,
            };
            (self.at, self.is_over) = (page.next, page.is_last);
            if !page.text.is_empty() {
                return Ok(Some(page.text));
            }
            if !self.is_over && self.follow {
                tokio::select! {
                    _ = self.news.changed() => self.looks = false,
                    () = tokio::time::sleep(LOOK_EVERY) => self.looks = true,
                    // The stream breaks instead of ending: an unfinished batch has no clean end.
                    () = self.shutdown.reached(ShutdownStage::Closing) => return Err(BodyError::new("the server is stopping")),
                }
            }
        }
        Ok(None)
    }
}

impl BatchResultReader {
    /// Waits while the database is away.
    async fn read_when_possible(&mut self) -> Result<BatchResultPage, BodyError> {
        loop {
            match self.read().await {
                Err(ApiError::Store(StoreError::Unreachable)) => {}
                read => return read.map_err(|error| self.cut(&error)),
            }
            tokio::select! {
                () = tokio::time::sleep(REWATCH) => {}
                () = self.shutdown.reached(ShutdownStage::Closing) => return Err(BodyError::new("the server is stopping")),
            }
        }
    }

    /// Reads a page, or takes that of another follower.
    async fn read(&mut self) -> Result<BatchResultPage, ApiError> {
        let seen = *self.news.borrow_and_update(); // before the read
        let (app, batch, follow, at) = (Arc::clone(&self.app), self.batch, self.follow, self.at);
        let read = self.threads.run(move || page(&app, batch, follow, at));
        let reading = async move {
            let page = read.await.map_err(|_panic| ApiError::Internal)??;
            Ok(BatchResultPage { seen, ..page })
        };
        let newest = (!self.looks).then_some(seen);
        match PageSharing::new(&self.pages, newest).filter(|_| follow) {
            Some(sharing) => sharing.find_or_read(at, reading).await,
            None => reading.await,
        }
    }

    fn cut(&self, error: &ApiError) -> BodyError {
        tracing::error!(batch = %self.batch, at = self.at, %error, "a stream of results was cut off");
        BodyError::new(error.to_string())
    }
}
