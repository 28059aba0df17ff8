//! Event streams under load: a thousand readers that resume after a crash, readers of one byte a second, and
//! the memory that both cost the server.

use crate::support::upstream::{Act, Answer, Upstream, content, finish};
use crate::support::{Event, Server, assert_whole, text_of};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Readers that reconnect at once after the crash.
const RESUMERS: usize = 1_000;
/// The memory that they may cost together: connections, a page in rendering, and the allocator's reserve. A
/// busy machine renders more pages at once: 31 KiB each on a quiet machine, 51 KiB beside twenty compilers.
const RESUMERS_KB: u64 = 1_000 * 64;
/// Readers at one byte a second.
const SLOW: usize = 64;
/// The memory that they may cost together, beyond the job itself.
const SLOW_KB: u64 = 64 * 256;
/// Pieces of 16 KiB in the long answer: slightly below the 4 MiB limit on an answer.
const PIECES: usize = 250;

/// A stream on a socket, which reads only the bytes that the test requests. HTTP/1.0 avoids chunks.
struct RawStream(TcpStream);

impl RawStream {
    fn open(server: &Server, path: &str, after: u64) -> Self {
        let address = server.url.trim_start_matches("http://");
        let mut socket = TcpStream::connect(address).expect("connect");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\nlast-event-id: {after}\r\n\r\n");
        socket.write_all(request.as_bytes()).expect("send");
        Self(socket)
    }

    fn read_byte(&mut self) {
        self.0.read_exact(&mut [0]).expect("a byte within a minute");
    }

    /// The frames up to the end of the stream; `skipped` bytes of its head have been read.
    fn events(self, skipped: usize) -> Vec<Event> {
        let (mut lines, mut events) = (BufReader::new(self.0), Vec::new());
        let mut line = String::new();
        let mut status = String::new();
        lines.read_line(&mut status).expect("a status");
        assert_eq!(status.trim_end(), &"HTTP/1.0 200 OK"[skipped..]);
        let (mut seq, mut name) = (0, String::new());
        while lines.read_line(&mut line).expect("a line") > 0 {
            if let Some(id) = line.strip_prefix("id: ") {
                seq = id.trim().parse().expect("an id");
            } else if let Some(event) = line.strip_prefix("event: ") {
                event.trim().clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data).expect("JSON");
                events.push(Event { seq, name: name.clone(), data });
            }
            line.clear();
        }
        events
    }
}

/// This process and the servers that it starts may have some thousand connections.
fn allow_connections() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(4_096, |hard| hard.min(4_096)).max(current.unwrap_or(u64::MAX));
    assert!(wanted > 2 * RESUMERS as u64, "this machine allows {wanted} open files");
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).expect("a limit");
}

/// Every delta begins where the one before it in its step ended.
fn assert_contiguous(events: &[Event]) {
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events.iter().filter(|event| event.data.get("delta").is_some()) {
        let end = ends.entry(event.data["index"].as_u64().expect("an index")).or_default();
        assert_eq!(event.data["offset"].as_u64(), Some(*end), "{event:?}");
        *end += event.data["delta"].as_str().expect("text").len() as u64;
    }
}

#[test]
fn p2_a_thousand_readers_resume_after_kill_9_without_gaps_or_repeats() {
    allow_connections();
    let server = Server::start();
    let id = server.submit(&json!({"input": "stream: 400 words, 20 ms"}));
    let path = format!("/v1/jobs/{id}/events?format=delta");
    let before: Vec<Event> = server.stream(&path, 0).take(60).collect();
    let newest = before.last().expect("events").seq;
    let server = server.crash_and_restart("");
    // The peak so far: an idle server returns pages of its code, which the first request loads again.
    let idle_kb = server.status_kb("VmHWM");
    let cursors = (0..RESUMERS as u64).map(|n| n % (newest + 1));
    let readers: Vec<(u64, RawStream)> =
        cursors.map(|after| (after, RawStream::open(&server, &path, after))).collect();
    let is_live = server.get(&format!("/v1/jobs/{id}")).json()["status"] != "succeeded";
    let seen: Vec<(u64, Vec<Event>)> =
        readers.into_iter().map(|(after, reader)| (after, reader.events(0))).collect();
    let cost_kb = server.status_kb("VmHWM").saturating_sub(idle_kb);
    let all_events = server.events(&id);
    assert_whole(&all_events);
    assert_contiguous(&all_events);
    assert_eq!(all_events[..before.len()], before, "events seen before the crash have not changed");
    assert!(
        all_events.iter().any(|event| event.name == "step_discarded"),
        "the crash interrupted the answer"
    );
    assert_eq!(server.get(&format!("/v1/jobs/{id}/output")).body, text_of(&all_events));
    for (after, events) in seen {
        let start = usize::try_from(after).expect("small");
        assert!(
            events == all_events[start..],
            "after {after}: {} of {}",
            events.len(),
            all_events.len() - start
        );
    }
    eprintln!("{RESUMERS} resumers (live: {is_live}) cost at most {cost_kb} KiB");
    assert!(cost_kb < RESUMERS_KB, "{cost_kb} KiB for {RESUMERS} readers");
}

/// An answer of some 4 MB in 16 KiB pieces, with everything in it that JSON escapes.
fn long_answer() -> (Upstream, String) {
    let piece = |n: usize| format!("{n:06} \"é\\\n{}", "x".repeat(16 * 1024 - 13));
    let upstream = Upstream::start(move |_, _| {
        let mut acts: Vec<Act> = (0..PIECES).map(|n| Act::Data(content(&piece(n)))).collect();
        acts.insert(PIECES / 2, Act::Pause(Duration::from_secs(2)));
        acts.push(Act::Data(finish("stop")));
        Answer::stream(acts)
    });
    (upstream, (0..PIECES).map(piece).collect())
}

/// The contents of a step's cumulative frames.
fn contents(events: &[Event]) -> Vec<&str> {
    events.iter().filter_map(|event| event.data["content"].as_str()).collect()
}

#[test]
fn p8_slow_readers_of_a_4_mb_answer_cost_one_page_of_memory_each() {
    allow_connections();
    let (upstream, text) = long_answer();
    // On a busy machine the readers below may pause for longer than the default allows.
    let server = Server::start_against(&upstream, "limits: {write_stall_s: 600}");
    let id = server.submit(&json!({"input": "go"}));
    let path = format!("/v1/jobs/{id}/events");
    let mut live: Vec<RawStream> = (0..SLOW / 2).map(|_| RawStream::open(&server, &path, 0)).collect();
    assert_eq!(server.wait(&id)["status"], "succeeded");
    let all_events: Vec<Event> = server.stream(&path, 0).collect();
    let frames = contents(&all_events);
    let (last, earlier) = frames.split_last().expect("a frame");
    assert!(*last == text, "one frame carries the whole text, however long");
    // A page that ends at exactly 64 KiB has its own frame.
    assert!(earlier.len() <= 1 && earlier.iter().all(|frame| frame.len() <= 64 * 1024), "{}", frames.len());
    let before_kb = server.status_kb("VmRSS");
    live.extend((0..SLOW / 2).map(|_| RawStream::open(&server, &path, 0)));
    let began = Instant::now();
    let mut peak_kb = 0;
    for _ in 0..8 {
        for reader in &mut live {
            reader.read_byte();
        }
        peak_kb = peak_kb.max(server.status_kb("VmRSS"));
        std::thread::sleep(Duration::from_secs(1));
    }
    let cost_kb = peak_kb.saturating_sub(before_kb);
    eprintln!("{SLOW} slow readers cost {cost_kb} KiB over {before_kb} in {:?}", began.elapsed());
    assert!(cost_kb < SLOW_KB, "{cost_kb} KiB for {SLOW} readers");
    let (first, last) = (live.remove(0).events(8), live.pop().expect("a reader").events(8));
    for events in [&first, &last] {
        assert_eq!(contents(events).last(), Some(&text.as_str()), "a slow reader gets the whole text");
        assert_eq!(events.last(), all_events.last());
        assert!(events.windows(2).all(|pair| pair[0].seq < pair[1].seq), "ids rise");
    }
    assert_eq!(last, all_events);
}

#[test]
fn a_cursor_beyond_the_newest_event_of_a_job_is_refused() {
    let upstream = Upstream::start(|request, _| {
        let mut acts = vec![Act::Data(content("so "))];
        match request["messages"].as_array().and_then(|messages| messages.last()?["content"].as_str()) {
            Some("hang") => acts.push(Act::Hang),
            Some("long") => {
                for n in 0..20 {
                    acts.push(Act::Data(content(&format!("{n} "))));
                    acts.push(Act::Pause(Duration::from_millis(60)));
                }
            }
            _ => {}
        }
        acts.push(Act::Data(finish("stop")));
        Answer::stream(acts)
    });
    let server = Server::start_against(&upstream, "");
    let ended = |input: &str| {
        let id = server.submit(&json!({"input": input}));
        let last = server.wait(&id)["last_event_id"].as_u64().expect("an id");
        (format!("/v1/jobs/{id}/events?format=delta"), last)
    };
    let ((short, end), (long, long_end)) = (ended("short"), ended("long"));
    assert!(long_end > end, "{long_end} {end}");
    let all: Vec<Event> = server.stream(&short, 0).collect();
    assert_whole(&all);
    for after in ["0", "00"] {
        let replay = server.get_with(&short, &[("last-event-id", after)]);
        assert_eq!(replay.status, 200, "a replay from the start can be repeated");
    }
    let refused = |path: &str, cursor: &str| {
        for reply in [
            server.get(&format!("{path}&after={cursor}")),
            server.get_with(path, &[("last-event-id", cursor)]),
        ] {
            assert_eq!(reply.status, 400, "{cursor}: {}", reply.body);
            let error: Value = reply.json();
            let param = error["error"]["param"].as_str().map(str::to_ascii_lowercase);
            assert!(matches!(param.as_deref(), Some("after" | "last-event-id")), "{error}");
        }
    };
    for cursor in [long_end.to_string(), u64::MAX.to_string(), "-1".into(), "NaN".into(), "1e1".into()] {
        refused(&short, &cursor);
    }
    // An id from another job is only a number: below the end of this job, the stream resumes there.
    let resumed: Vec<Event> = server.stream(&long, end).collect();
    assert_eq!(resumed.first().map(|event| event.seq), Some(end + 1));
    assert_eq!(server.get(&format!("{short}&after={end}")).status, 204);
    let running = server.submit(&json!({"input": "hang"}));
    let path = format!("/v1/jobs/{running}/events?format=delta");
    let newest = server.stream(&path, 0).find(|event| event.data["delta"] == "so ").expect("text").seq;
    refused(&path, &(newest + 1).to_string());
    let mut waiting = server.stream(&path, newest);
    server.post(&format!("/v1/jobs/{running}/cancel"), &json!({}));
    assert_eq!(
        waiting.next().map(|event| event.seq),
        Some(newest + 1),
        "a reader at the newest id waits for the next event"
    );
}
