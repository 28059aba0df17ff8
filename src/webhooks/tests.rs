//! Tests of the dispatcher with a manual clock, an in-memory outbox and scripted receivers.

use super::*;
use crate::domain::delivery_turns::{DeliveryTurns, DueDelivery};
use crate::domain::id::{DeliveryId, JobId, UserId};
use crate::domain::webhook::{Delivery, DeliveryAttempt, DeliveryState, WebhookSubject, WebhookUrl};
use crate::ports::{
    CancelToken, Clock, DeliveryPage, DeliveryQuery, Entropy, Outbox, Payload, Payloads, StoreError, Ticket,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// A clock that moves only when a test moves it.
#[derive(Default)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    fn monotonic_ms(&self) -> u64 {
        self.now_ms()
    }
    fn sleep(&self, _: &CancelToken, _: Duration) {}
}

struct ZeroEntropy;

impl Entropy for ZeroEntropy {
    fn random(&self) -> u128 {
        0
    }
}

/// A simple outbox with the promises of the real one.
#[derive(Default)]
struct InMemoryOutbox {
    clock: Arc<ManualClock>,
    rows: Mutex<BTreeMap<DeliveryId, Delivery>>,
    /// Error of the next record.
    refuse: Mutex<Option<StoreError>>,
    changes: AtomicU64,
}

impl InMemoryOutbox {
    fn get(&self, bits: u128) -> Delivery {
        self.rows.lock().expect("lock")[&DeliveryId::from_bits(bits)].clone()
    }
}

impl Outbox for InMemoryOutbox {
    fn due(&self, now_ms: u64, max: usize, turns: &DeliveryTurns) -> Result<Vec<Delivery>, StoreError> {
        let rows = self.rows.lock().expect("lock");
        let due = rows.values().filter_map(|delivery| {
            let (id, user, receiver) = (delivery.id, delivery.user, delivery.url.host_and_port());
            let due_ms = delivery.next_try_ms.filter(|at_ms| *at_ms <= now_ms)?;
            Some(DueDelivery { id, user, receiver, due_ms })
        });
        let picked = turns.pick(due.collect(), max);
        Ok(picked.iter().filter_map(|due| rows.get(&due.id)).cloned().collect())
    }
    fn next_due_ms(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.rows.lock().expect("lock").values().filter_map(|d| d.next_try_ms).min())
    }
    fn settle(&self, id: DeliveryId, attempt: DeliveryAttempt) -> Ticket<()> {
        if let Some(error) = self.refuse.lock().expect("lock").take() {
            return Ticket::resolved(Err(error));
        }
        let now_ms = self.clock.now_ms();
        self.rows.lock().expect("lock").get_mut(&id).expect("a delivery").take(&attempt, now_ms);
        let (sender, ticket) = Ticket::new();
        sender.send(Ok(())).expect("the ticket is held");
        ticket
    }
    fn again(&self, _: UserId, _: DeliveryId) -> Ticket<Option<Delivery>> {
        unreachable!("dispatchers ask for nothing again")
    }
    fn delivery(&self, _: UserId, _: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        unreachable!("dispatchers show nothing")
    }
    fn deliveries(&self, _: &DeliveryQuery) -> Result<DeliveryPage, StoreError> {
        unreachable!("dispatchers list nothing")
    }
    fn delivery_changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }
    fn wait_for_deliveries(&self, _: u64, _: &CancelToken, _: Duration) {}
    fn wake_dispatcher(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

struct FixedPayload(Payload);

impl Payloads for FixedPayload {
    fn payload(&self, _: &Delivery) -> Result<Payload, StoreError> {
        Ok(self.0.clone())
    }
}

/// What a receiver does with a request: `None` leaves it without an answer.
type Script = Box<dyn Fn(&WebhookRequest, usize) -> Option<Result<WebhookResponse, SendError>> + Send + Sync>;

/// A sender that follows a script and remembers receivers, ids and signatures.
struct ScriptedSender {
    script: Script,
    requests: Mutex<Vec<(String, String)>>,
    unanswered: Mutex<VecDeque<(WebhookRequest, AttemptEnd)>>,
}

impl WebhookSender for ScriptedSender {
    fn start(&self, request: WebhookRequest, end: AttemptEnd) {
        let number = {
            let mut requests = self.requests.lock().expect("lock");
            requests.push((
                request.url.host_and_port(),
                format!("{} {} {}", request.id, request.timestamp_s, request.signature),
            ));
            requests.len() - 1
        };
        match (self.script)(&request, number) {
            Some(outcome) => end.report(outcome),
            None => self.unanswered.lock().expect("lock").push_back((request, end)),
        }
    }
}

struct Fixture {
    outbox: Arc<InMemoryOutbox>,
    sender: Arc<ScriptedSender>,
    clock: Arc<ManualClock>,
    dispatcher: Dispatcher,
}

/// Receivers that always answer.
fn fixture(
    script: impl Fn(&WebhookRequest, usize) -> Result<WebhookResponse, SendError> + Send + Sync + 'static,
) -> Fixture {
    fixture_with(
        Payload::Body(b"{}".to_vec()),
        Box::new(move |request, number| Some(script(request, number))),
    )
}

/// Hosts whose name begins with `slow` do not answer; others do.
fn with_hanging_hosts() -> Fixture {
    let is_slow = |request: &WebhookRequest| request.url.host_and_port().starts_with("slow");
    let script: Script = Box::new(move |request, _| (!is_slow(request)).then(|| Ok(answer(200))));
    fixture_with(Payload::Body(b"{}".to_vec()), script)
}

fn fixture_with(payload: Payload, script: Script) -> Fixture {
    let clock = Arc::new(ManualClock::default());
    clock.0.store(1_000_000, Ordering::SeqCst);
    let outbox = Arc::new(InMemoryOutbox { clock: Arc::clone(&clock), ..InMemoryOutbox::default() });
    let sender =
        Arc::new(ScriptedSender { script, requests: Mutex::default(), unanswered: Mutex::default() });
    let dispatcher = Dispatcher::new(DispatcherPorts {
        outbox: Arc::<InMemoryOutbox>::clone(&outbox),
        payloads: Arc::new(FixedPayload(payload)),
        sender: Arc::<ScriptedSender>::clone(&sender),
        signer: Signer::new(&[super::signature::secret_from_key(&[7; 32])]).expect("a secret"),
        clock: Arc::<ManualClock>::clone(&clock),
        entropy: Arc::new(ZeroEntropy),
        meter: Arc::new(crate::ports::NoopMeter),
    });
    Fixture { outbox, sender, clock, dispatcher }
}

impl Fixture {
    fn add(&self, bits: u128, url: &str) {
        self.add_for(UserId(1), bits, url);
    }

    fn add_for(&self, user: UserId, bits: u128, url: &str) {
        let url = WebhookUrl::try_from(url.to_owned()).expect("a URL");
        let (id, now_ms) = (DeliveryId::from_bits(bits), self.clock.now_ms());
        let subject = WebhookSubject::Job(JobId::from_bits(bits));
        self.outbox.rows.lock().expect("lock").insert(id, Delivery::new(id, user, subject, url, now_ms));
    }

    fn pass(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
    }

    fn hosts(&self) -> Vec<String> {
        self.sender.requests.lock().expect("lock").iter().map(|(host, _)| host.clone()).collect()
    }

    fn tick(&self) -> DispatchOutcome {
        self.dispatcher.tick().expect("the outbox works")
    }

    /// Ticks until nothing more may begin.
    fn run(&self) {
        while self.tick() != DispatchOutcome::Idle {}
    }

    /// Answers the request that has waited longest.
    fn answer_first(&self) {
        let (request, end) = self.sender.unanswered.lock().expect("lock").pop_front().expect("a request");
        drop(request);
        end.report(Ok(answer(200)));
    }
}

fn answer(status: u16) -> WebhookResponse {
    WebhookResponse { status, retry_after: None }
}

#[test]
fn a_delivered_webhook_is_settled_and_not_sent_again() {
    let fixture = fixture(|request, _| {
        assert_eq!(request.body.as_ref(), b"{}");
        Ok(answer(204))
    });
    fixture.add(1, "https://a.test/hook");
    assert_eq!(fixture.tick(), DispatchOutcome::Begun(1));
    assert_eq!(fixture.tick(), DispatchOutcome::Idle);
    let row = fixture.outbox.get(1);
    assert_eq!((row.state, row.tries, row.last_status), (DeliveryState::Delivered, 1, Some(204)));
}

#[test]
fn a_500_is_retried_with_the_same_id_and_a_new_signature() {
    let fixture = fixture(|_, number| Ok(answer(if number == 0 { 500 } else { 200 })));
    fixture.add(1, "https://a.test/hook");
    fixture.run();
    let row = fixture.outbox.get(1);
    assert_eq!((row.state, row.last_status), (DeliveryState::Pending, Some(500)));
    assert_eq!(row.next_try_ms, Some(1_000_000 + 4_500), "5 s less a tenth");
    assert_eq!(fixture.tick(), DispatchOutcome::Idle, "not before its time");
    fixture.pass(4_500);
    fixture.run();
    let row = fixture.outbox.get(1);
    assert_eq!((row.state, row.tries, row.last_error), (DeliveryState::Delivered, 2, None));
    let sent_headers: Vec<String> =
        fixture.sender.requests.lock().expect("lock").iter().map(|(_, sent)| sent.clone()).collect();
    let (first, second) =
        (sent_headers[0].split(' ').collect::<Vec<_>>(), sent_headers[1].split(' ').collect::<Vec<_>>());
    assert_eq!(first[0], second[0], "one id");
    assert_eq!((first[1], second[1]), ("1000", "1004"), "the time of the try");
    assert_ne!(first[2], second[2], "the time is signed");
}

#[test]
fn status_410_makes_a_delivery_dead() {
    let fixture = fixture(|_, _| Ok(answer(410)));
    fixture.add(1, "https://a.test/hook");
    fixture.run();
    assert_eq!((fixture.outbox.get(1).state, fixture.outbox.get(1).tries), (DeliveryState::Dead, 1));
}

#[test]
fn p4_after_ten_attempts_a_delivery_is_dead_with_its_last_error() {
    let fixture = fixture(|_, _| Err(SendError::Failed("no connection".into())));
    fixture.add(1, "https://a.test/hook");
    let mut tries = 0;
    while fixture.outbox.get(1).state == DeliveryState::Pending {
        fixture.run();
        tries += 1;
        assert!(tries <= 10, "it ends");
        fixture.pass(27 * 3_600 * 1_000);
    }
    let row = fixture.outbox.get(1);
    assert_eq!((row.state, row.tries), (DeliveryState::Dead, 10));
    assert_eq!(row.last_error.as_deref(), Some("no connection"));
    assert_eq!(fixture.tick(), DispatchOutcome::Idle);
}

#[test]
fn a_delivery_of_a_deleted_subject_is_given_up_without_a_request() {
    let fixture = fixture_with(Payload::Nothing("the job is not there any more"), Box::new(|_, _| None));
    fixture.add(1, "https://a.test/hook");
    fixture.run();
    let row = fixture.outbox.get(1);
    assert_eq!(row.state, DeliveryState::Dead);
    assert_eq!(row.last_error.as_deref(), Some("the job is not there any more"));
    assert!(fixture.hosts().is_empty());
}

#[test]
fn a_hanging_receiver_delays_only_its_own_deliveries() {
    let fixture = with_hanging_hosts();
    fixture.add(1, "https://slow.test/1");
    fixture.add(2, "https://slow.test/2");
    fixture.run();
    fixture.add(3, "https://quick.test/1");
    fixture.add(4, "https://quick.test/2");
    fixture.run();
    assert_eq!(fixture.hosts(), ["slow.test", "quick.test", "quick.test"], "one at a time for a receiver");
    fixture.answer_first();
    fixture.run();
    assert_eq!(fixture.outbox.get(1).state, DeliveryState::Delivered);
    assert_eq!(fixture.hosts().last().map(String::as_str), Some("slow.test"), "the second one");
    assert_eq!(fixture.dispatcher.in_progress(), 1);
}

#[test]
fn p7_a_receiver_is_called_at_once_beside_a_thousand_that_hang() {
    let fixture = with_hanging_hosts();
    for bits in 1..=1_500 {
        fixture.add(bits, &format!("https://slow{bits}.test/hook"));
    }
    fixture.run();
    let hanging = fixture.hosts().len();
    assert!((1_000..1_500).contains(&hanging), "{hanging} of one user hang");
    fixture.add_for(UserId(2), 2_001, "https://quick.test/hook");
    fixture.tick();
    assert_eq!(fixture.hosts().last().map(String::as_str), Some("quick.test"));
    let before = fixture.dispatcher.changes();
    fixture.answer_first();
    assert_ne!(fixture.dispatcher.changes(), before, "the thread wakes to record the end");
    fixture.run();
    assert_eq!(fixture.hosts().len(), hanging + 2, "the place goes to the next");
}

#[test]
fn p8_a_payload_counts_as_its_users_until_it_is_sent() {
    let large = Payload::Body(vec![b'x'; 9 * 1024 * 1024]);
    let fixture = fixture_with(large, Box::new(|_, _| None));
    for bits in 1..=5 {
        fixture.add(bits, &format!("https://slow{bits}.test/hook"));
    }
    fixture.run();
    assert_eq!(fixture.hosts().len(), 2, "18 of 16 MiB");
    fixture.add_for(UserId(2), 6, "https://b.test/hook");
    fixture.run();
    assert_eq!(fixture.hosts().len(), 3);
    fixture.answer_first();
    fixture.run();
    assert_eq!(fixture.hosts().len(), 4, "the first is sent");
}

#[test]
fn an_attempt_is_recorded_before_the_next_one_is_sent() {
    let fixture = fixture(|_, _| Ok(answer(200)));
    fixture.add(1, "https://a.test/hook");
    fixture.tick();
    fixture.add(2, "https://b.test/hook");
    for _ in 0..2 {
        *fixture.outbox.refuse.lock().expect("lock") = Some(StoreError::Full);
        assert_eq!(fixture.dispatcher.tick(), Err(StoreError::Full));
    }
    assert_eq!(fixture.hosts().len(), 1, "nothing is sent meanwhile");
    fixture.run();
    assert_eq!(fixture.hosts(), ["a.test", "b.test"], "each is sent once");
    assert_eq!(fixture.outbox.get(1).state, DeliveryState::Delivered);
}

#[test]
fn an_unreadable_row_does_not_block_other_deliveries() {
    let fixture = fixture(|_, _| Ok(answer(200)));
    fixture.add(1, "https://a.test/hook");
    fixture.tick();
    fixture.outbox.rows.lock().expect("lock").remove(&DeliveryId::from_bits(1));
    *fixture.outbox.refuse.lock().expect("lock") = Some(StoreError::Corrupt("a bad sector".into()));
    fixture.add(2, "https://b.test/hook");
    assert_eq!(fixture.tick(), DispatchOutcome::Begun(1));
    assert_eq!(fixture.dispatcher.in_progress(), 1, "nothing of the unreadable one is kept");
}

#[test]
fn an_attempt_that_is_lost_fails_only_its_delivery() {
    let fixture = with_hanging_hosts();
    fixture.add(1, "https://slow.test/hook");
    fixture.run();
    fixture.sender.unanswered.lock().expect("lock").clear();
    fixture.run();
    assert_eq!(fixture.outbox.get(1).last_error.as_deref(), Some("a fault of this server"));
    fixture.pass(5_000);
    assert_eq!(fixture.tick(), DispatchOutcome::Begun(1), "its receiver is free again");
}

mod wire {
    //! The real client against addresses that it must not reach.

    use super::*;
    use crate::domain::address::AddressPolicy;
    use bytes::Bytes;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn send(policy: &[&str], url: &str) -> Result<WebhookResponse, SendError> {
        let allowed: Vec<String> = policy.iter().map(|text| (*text).to_owned()).collect();
        let policy = AddressPolicy::new(&allowed).expect("ranges");
        let url = WebhookUrl::try_from(url.to_owned()).expect("a URL");
        let sender = HttpSender::new(policy, Duration::from_secs(20)).expect("a runtime");
        send_with(&sender, url)
    }

    fn send_with(sender: &HttpSender, url: WebhookUrl) -> Result<WebhookResponse, SendError> {
        let (id, signature) = (DeliveryId::from_bits(1), "v1,x".to_owned());
        let body = Bytes::from_static(b"{}");
        let (report, outcome) = mpsc::channel();
        let end = AttemptEnd::new(move |outcome| report.send(outcome).expect("the test listens"));
        sender.start(WebhookRequest { url, user: UserId(1), id, timestamp_s: 7, signature, body }, end);
        outcome.recv().expect("an outcome")
    }

    /// Reads a request, up to its end or that of the connection.
    fn read_request(stream: &mut TcpStream) -> Vec<u8> {
        let (mut request, mut piece) = (Vec::new(), [0; 1_024]);
        while !request.ends_with(b"\r\n\r\n{}") {
            match stream.read(&mut piece) {
                Ok(amount) if amount > 0 => request.extend_from_slice(&piece[..amount]),
                _ => break,
            }
        }
        request
    }

    /// Answers every connection with these bytes.
    fn receiver(says: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                read_request(&mut stream);
                drop(stream.write_all(says.as_bytes()));
            }
        });
        port
    }

    #[test]
    fn p9_webhooks_to_private_addresses_are_refused_in_every_spelling() {
        let port = receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        for host in
            ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "0.0.0.0"]
        {
            let outcome = send(&[], &format!("http://{host}:{port}/"));
            assert!(matches!(outcome, Err(SendError::Refused)), "{host}: {outcome:?}");
        }
        let answer = send(&["127.0.0.0/8", "::1"], &format!("http://localhost:{port}/")).expect("allowed");
        assert_eq!(answer.status, 200);
    }

    #[test]
    fn p9_a_webhook_redirect_is_not_followed() {
        let port = receiver(
            "HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:9/\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n",
        );
        let answer = send(&["127.0.0.1"], &format!("http://127.0.0.1:{port}/")).expect("an answer");
        assert_eq!(answer, WebhookResponse { status: 307, retry_after: Some("9".into()) });
    }

    #[test]
    fn p9_errors_do_not_contain_the_url() {
        let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one").port();
        for url in [
            format!("http://127.0.0.1:{closed}/?token=s3cret"),
            "http://no-such-host.invalid/?token=s3cret".into(),
        ] {
            match send(&["127.0.0.1"], &url) {
                Err(SendError::Failed(reason)) => {
                    assert!(!reason.is_empty() && !reason.contains("s3cret"), "{reason}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_connection_is_used_again_and_one_that_was_closed_is_replaced() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            let mut requests = Vec::new();
            for count in [2, 1] {
                let (mut stream, _) = listener.accept().expect("a connection");
                for _ in 0..count {
                    requests.push(String::from_utf8(read_request(&mut stream)).expect("text"));
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").expect("a client");
                }
            }
            requests
        });
        let policy = AddressPolicy::new(&["127.0.0.1".to_owned()]).expect("a range");
        let sender = HttpSender::new(policy, Duration::from_secs(20)).expect("a runtime");
        for _ in 0..3 {
            let url = WebhookUrl::try_from(url.clone()).expect("a URL");
            assert_eq!(send_with(&sender, url).expect("an answer").status, 200);
        }
        let requests = server.join().expect("the server");
        assert!(requests[0].starts_with("POST / HTTP/1.1\r\n"), "{}", requests[0]);
        for line in ["webhook-id: ", "content-length: 2\r\n", "host: 127.0.0.1:", "accept-encoding: identity"]
        {
            assert!(requests[0].contains(line), "{line} {}", requests[0]);
        }
    }

    #[test]
    fn malformed_and_endless_responses_are_survived() {
        let port = receiver("SSH-2.0-OpenSSH_9.2\r\n");
        assert!(matches!(
            send(&["127.0.0.1"], &format!("http://127.0.0.1:{port}/")),
            Err(SendError::Failed(_))
        ));
        let port = receiver("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\nshort");
        let answer =
            send(&["127.0.0.1"], &format!("http://127.0.0.1:{port}/")).expect("a status is an answer");
        assert_eq!(answer.status, 200);
    }
}
