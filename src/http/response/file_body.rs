//! A file as a response body, read piece by piece on threads that may block.

use super::stream_body::{BodyError, BodySource, StreamBody};
use crate::http::auth::RevocationSignal;
use crate::http::shared_threads::ThreadShare;
use bytes::Bytes;
use hyper::body::Frame;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;

/// Bytes read at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A file as a body.
pub(crate) struct FileBody {
    pieces: StreamBody,
    left: u64,
}

impl FileBody {
    /// The whole file, unless the caller of the signal loses its access. A permit is released with the body.
    pub(crate) fn new(
        threads: ThreadShare,
        file: File,
        signal: RevocationSignal,
        turn: Option<OwnedSemaphorePermit>,
    ) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        let place = FilePosition { threads, file: Arc::new(file), at: 0, end: bytes, _turn: turn };
        Ok(Self { pieces: StreamBody::new(place, signal), left: bytes })
    }

    /// Bytes still to be sent.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = self.pieces.poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.left = self.left.saturating_sub(bytes as u64);
        }
        polled
    }
}

struct FilePosition {
    threads: ThreadShare,
    file: Arc<File>,
    at: u64,
    end: u64,
    _turn: Option<OwnedSemaphorePermit>,
}

impl BodySource for FilePosition {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let wanted = usize::try_from(self.end - self.at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        if wanted == 0 {
            return Ok(None);
        }
        let (file, at) = (Arc::clone(&self.file), self.at);
        let reading = self.threads.run(move || {
            let mut piece = vec![0; wanted];
            file.read_exact_at(&mut piece, at).map(|()| piece)
        });
        let read = reading.await.map_err(|_| BodyError::new("the reading thread died"))?;
        let piece = read.map_err(|error| BodyError::new(error.to_string()))?;
        self.at += wanted as u64;
        Ok(Some(piece.into()))
    }
}
