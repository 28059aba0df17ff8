//! Forms whose bodies come in pieces, cut anywhere.

use super::*;
use futures_util::stream;
use proptest::prelude::*;
use std::collections::VecDeque;

const BOUNDARY: &str = "b-o-u-n-d";

/// A form of these parts: name, file name, data.
fn body(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, data) in parts {
        let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
        let head = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(data);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    body
}

/// Pieces, each of which is late once where `is_late`.
struct Scripted {
    pieces: VecDeque<Bytes>,
    taken: Arc<AtomicUsize>,
    is_late: bool,
    was_late: bool,
}

impl Stream for Scripted {
    type Item = Result<Bytes, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.was_late = self.is_late && !self.was_late;
        if self.was_late {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(self.pieces.pop_front().map(Ok))
    }
}

fn form(pieces: impl IntoIterator<Item = Vec<u8>>, is_late: bool) -> (MultipartForm, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let pieces = pieces.into_iter().map(Bytes::from).collect();
    let source = Scripted { pieces, taken: Arc::clone(&taken), is_late, was_late: false };
    (of(source), taken)
}

fn of(source: impl Stream<Item = Result<Bytes, ApiError>> + Unpin + Send + 'static) -> MultipartForm {
    let memory = Arc::new(Mutex::new(BodyMemory::unlimited()));
    MultipartForm::of(source, BOUNDARY.to_owned(), memory, 60)
}

type Read = Vec<(String, Option<String>, Vec<u8>)>;

async fn read(form: &mut MultipartForm) -> Result<Read, ApiError> {
    let mut read = Vec::new();
    while let Some(mut part) = form.next().await? {
        let mut data = Vec::new();
        while let Some(piece) = form.piece(&mut part).await? {
            data.extend_from_slice(&piece);
        }
        let name = part.name().unwrap_or_default().to_owned();
        read.push((name, part.file_name().map(str::to_owned), data));
    }
    Ok(read)
}

fn now<T>(act: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(act)
}

fn split(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|ends| bytes[ends[0]..ends[1]].to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn chunk_boundaries_do_not_change_a_form(
        data in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..5),
        cuts in proptest::collection::vec(any::<usize>(), 0..40),
        is_late: bool,
    ) {
        // What looks like a boundary and is none.
        let data: Vec<Vec<u8>> = data.into_iter().map(|d| [&d[..], b"\r\n--b-o-u", &d[..], b"\r"].concat()).collect();
        let parts: Vec<_> = data.iter().map(|d| ("files", Some("a/b"), d.as_slice())).collect();
        let bytes = body(&parts);
        let (mut form, _) = form(split(&bytes, &cuts), is_late);
        let wanted: Read = data.into_iter().map(|d| ("files".to_owned(), Some("a/b".to_owned()), d)).collect();
        prop_assert_eq!(now(read(&mut form)).expect("a form"), wanted);
    }

    #[test]
    fn a_truncated_form_is_refused(keep in 0_usize..200) {
        let bytes = body(&[("files", Some("a/b"), &[7; 60]), ("name", None, b"x")]);
        let end = bytes.len() - "--\r\n".len();
        let (mut form, _) = form([bytes[..keep % end].to_vec()], false);
        let refused = now(read(&mut form)).expect_err("broken off");
        prop_assert!(matches!(refused, ApiError::Invalid { .. }), "{refused}");
    }

    #[test]
    fn no_form_bytes_make_the_parser_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8)) {
        let start = format!("--{BOUNDARY}\r\n").into_bytes();
        let (mut form, _) = form(std::iter::once(start).chain(pieces), true);
        drop(now(read(&mut form)));
    }
}

#[test]
fn p8_the_form_parser_reads_ahead_only_for_the_next_part() {
    let one = body(&[("files", Some("a/b"), b"x")]);
    let one = one.strip_suffix(b"--b-o-u-n-d--\r\n").expect("a part").to_vec();
    let end = format!("--{BOUNDARY}--\r\n").into_bytes();
    let (mut form, taken) = form(std::iter::repeat_n(one, 1_000).chain([end]), false);
    let read = async {
        for number in 1..=1_000 {
            let mut part = form.next().await.expect("a form").expect("a part");
            while form.piece(&mut part).await.expect("a form").is_some() {}
            let ahead = taken.load(Ordering::Relaxed) - number;
            assert!(ahead <= 2, "{ahead} pieces ahead at {number}");
        }
        assert!(form.next().await.expect("a form").is_none());
    };
    now(read);
}

#[test]
fn p8_endless_part_headers_and_preambles_are_refused_early() {
    for start in [format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\""), String::new()] {
        let pieces = std::iter::once(start.into_bytes()).chain(std::iter::repeat_n(vec![b'x'; 1_000], 1_000));
        let (mut form, taken) = form(pieces, true);
        let refused = now(read(&mut form)).expect_err("too long").to_string();
        assert!(refused.contains("headers are longer"), "{refused}");
        assert!(taken.load(Ordering::Relaxed) < 20, "read on for nothing");
    }
}

#[test]
fn body_errors_are_returned_by_the_form_parser() {
    let start =
        Bytes::from(format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"files\"\r\n\r\nabc"));
    let mut form = of(stream::iter([Ok(start), Err(too_large(5))]));
    assert!(matches!(now(read(&mut form)), Err(ApiError::UploadTooLarge(_))));
}

#[test]
fn form_texts_are_utf8_and_limited() {
    let text = |data: Vec<u8>| {
        let (mut form, _) = form([body(&[("name", None, &data)])], false);
        now(async {
            let part = form.next().await.expect("a form").expect("a part");
            form.text("name", part).await
        })
    };
    assert_eq!(text("näme".into()).expect("a text"), "näme");
    assert!(text(vec![0xff]).is_err() && text(vec![b'x'; TEXT_BYTES + 1]).is_err());
}

#[tokio::test(start_paused = true)]
async fn p8_a_stalled_upload_times_out() {
    let mut form = of(stream::pending());
    assert!(matches!(form.next().await, Err(ApiError::BodyTimeout(60))));
}

#[test]
fn only_form_data_boundaries_are_accepted() {
    let read = |line: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, line.parse().expect("a header"));
        boundary(&headers, "-F a=b")
    };
    assert_eq!(read("multipart/form-data; boundary=xyz").expect("a boundary"), "xyz");
    let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
    for bad in ["text/plain", "multipart/form-data", "multipart/mixed; boundary=x", &long] {
        assert!(read(bad).is_err(), "{bad}");
    }
    assert!(boundary(&HeaderMap::new(), "-F a=b").is_err());
}
