//! Sends the rest of a stream that hyper has handed over.

use super::client_socket::ClientSocket;
use super::handover::{HandedStream, StreamFraming};
use super::shutdown::{Shutdown, ShutdownStage};
use crate::http::middleware::access_log::MeteredBody;
use crate::http::response::stream_body::BodyError;
use bytes::{Buf, Bytes};
use hyper::body::Body;
use std::future::poll_fn;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// The longest head of a chunk: the digits of its length and a line break.
const CHUNK_HEAD_BYTES: usize = 2 * size_of::<usize>() + 2;
/// The end of a chunked body without trailers.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamSendError {
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("the server has ended")]
    Aborted,
}

/// Sends all of the stream. Returns whether another request may follow.
pub(super) async fn send_rest<IO>(
    io: &mut ClientSocket<IO>,
    stream: HandedStream,
    shutdown: &mut Shutdown,
) -> Result<bool, StreamSendError>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let HandedStream { mut body, framing } = stream;
    while let Some(piece) = poll_fn(|cx| poll_piece(io, &mut body, cx)).await? {
        // A stream that waits for events ends by itself when the server closes.
        tokio::select! {
            biased;
            sent = send(io, piece, framing) => sent?,
            () = shutdown.reached(ShutdownStage::Aborting) => return Err(StreamSendError::Aborted),
        }
    }
    let StreamFraming::Chunked { keep_alive } = framing else { return Ok(false) };
    tokio::select! {
        biased;
        sent = io.write_all(LAST_CHUNK) => sent?,
        () = shutdown.reached(ShutdownStage::Aborting) => return Err(StreamSendError::Aborted),
    }
    Ok(keep_alive)
}

/// The next piece of the body that is not empty.
fn poll_piece<IO: AsyncRead + Unpin>(
    io: &mut ClientSocket<IO>,
    body: &mut MeteredBody,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, StreamSendError>> {
    io.check_input(cx)?;
    loop {
        let Some(frame) = ready!(Pin::new(&mut *body).poll_frame(cx)) else { return Poll::Ready(Ok(None)) };
        if let Ok(piece) = frame?.into_data()
            && !piece.is_empty()
        {
            return Poll::Ready(Ok(Some(piece)));
        }
    }
}

/// Sends one piece of the body, with one write if the socket takes it.
async fn send<IO>(io: &mut ClientSocket<IO>, mut piece: Bytes, framing: StreamFraming) -> io::Result<()>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    match framing {
        StreamFraming::UntilClose => io.write_all_buf(&mut piece).await,
        StreamFraming::Chunked { .. } => {
            let mut head = io::Cursor::new([0; CHUNK_HEAD_BYTES]);
            write!(head, "{:X}\r\n", piece.len())?;
            let count = usize::try_from(head.position()).unwrap_or_default();
            let head = head.into_inner();
            let mut chunk = head.as_slice().take(count).chain(piece).chain(b"\r\n".as_slice());
            io.write_all_buf(&mut chunk).await
        }
    }
}
