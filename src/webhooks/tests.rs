//! Tests of the dispatcher with a manual clock, an in-memory outbox and scripted receivers.

use super::*;
use crate::domain::id::{DeliveryId, JobId, UserId};
use crate::domain::webhook::{Delivery, DeliveryAttempt, DeliveryState, WebhookSubject, WebhookUrl};
use crate::ports::{
    CancelToken, Clock, DeliveryPage, DeliveryQuery, Entropy, Outbox, Payload, Payloads, StoreError, Ticket,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;

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

/// Resolves the ticket of a delayed record.
type PendingCommit = oneshot::Sender<Result<(), StoreError>>;

/// A simple outbox with the promises of the real one.
#[derive(Default)]
struct InMemoryOutbox {
    clock: Arc<ManualClock>,
    rows: Mutex<BTreeMap<DeliveryId, Delivery>>,
    /// Error of the next record.
    refuse: Mutex<Option<StoreError>>,
    /// Delays the next record until the test commits it; the channel tells the test that it has begun.
    slow: Mutex<Option<mpsc::Sender<PendingCommit>>>,
}

impl InMemoryOutbox {
    fn get(&self, bits: u128) -> Delivery {
        self.rows.lock().expect("lock")[&DeliveryId::from_bits(bits)].clone()
    }
}

impl Outbox for InMemoryOutbox {
    fn due(&self, now_ms: u64, max: usize, busy: &BTreeSet<String>) -> Result<Vec<Delivery>, StoreError> {
        let rows = self.rows.lock().expect("lock");
        let mut due: Vec<&Delivery> =
            rows.values().filter(|d| d.next_try_ms.is_some_and(|at_ms| at_ms <= now_ms)).collect();
        due.sort_by_key(|d| (d.next_try_ms, d.id));
        let mut busy_hosts = busy.clone();
        due.retain(|d| busy_hosts.insert(d.url.host_and_port()));
        Ok(due.into_iter().take(max).cloned().collect())
    }
    fn next_due_ms(&self) -> Result<Option<u64>, StoreError> {
        Ok(self.rows.lock().expect("lock").values().filter_map(|d| d.next_try_ms).min())
    }
    fn settle(&self, id: DeliveryId, attempt: DeliveryAttempt) -> Ticket<()> {
        if let Some(error) = self.refuse.lock().expect("lock").take() {
            return Ticket::resolved(Err(error));
        }
        if let Some(started) = self.slow.lock().expect("lock").take() {
            let (sender, ticket) = Ticket::new();
            started.send(sender).expect("the test listens");
            return ticket;
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
    fn wait_for_deliveries(&self, _: &CancelToken, _: Duration) {}
}

struct FixedPayload(Payload);

impl Payloads for FixedPayload {
    fn payload(&self, _: &Delivery) -> Result<Payload, StoreError> {
        Ok(self.0.clone())
    }
}

type Script = Box<dyn Fn(&WebhookRequest<'_>, usize) -> Result<WebhookResponse, SendError> + Send + Sync>;

/// A sender that follows a script and remembers ids and signatures.
struct ScriptedSender {
    script: Script,
    requests: Mutex<Vec<(String, String)>>,
}

impl WebhookSender for ScriptedSender {
    fn send(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        let number = {
            let mut requests = self.requests.lock().expect("lock");
            requests.push((
                request.url.host_and_port(),
                format!("{} {} {}", request.id, request.timestamp_s, request.signature),
            ));
            requests.len() - 1
        };
        (self.script)(request, number)
    }
}

struct Fixture {
    outbox: Arc<InMemoryOutbox>,
    sender: Arc<ScriptedSender>,
    clock: Arc<ManualClock>,
    dispatcher: Arc<Dispatcher>,
}

fn fixture(
    script: impl Fn(&WebhookRequest<'_>, usize) -> Result<WebhookResponse, SendError> + Send + Sync + 'static,
) -> Fixture {
    fixture_with(Payload::Body(b"{}".to_vec()), script)
}

fn fixture_with(
    payload: Payload,
    script: impl Fn(&WebhookRequest<'_>, usize) -> Result<WebhookResponse, SendError> + Send + Sync + 'static,
) -> Fixture {
    let clock = Arc::new(ManualClock::default());
    clock.0.store(1_000_000, Ordering::SeqCst);
    let outbox = Arc::new(InMemoryOutbox { clock: Arc::clone(&clock), ..InMemoryOutbox::default() });
    let sender = Arc::new(ScriptedSender { script: Box::new(script), requests: Mutex::default() });
    let dispatcher = Dispatcher::new(DispatcherPorts {
        outbox: Arc::<InMemoryOutbox>::clone(&outbox),
        payloads: Arc::new(FixedPayload(payload)),
        sender: Arc::<ScriptedSender>::clone(&sender),
        signer: Signer::new(&[super::signature::secret_from_key(&[7; 32])]).expect("a secret"),
        clock: Arc::<ManualClock>::clone(&clock),
        entropy: Arc::new(ZeroEntropy),
        meter: Arc::new(crate::ports::NoopMeter),
    });
    Fixture { outbox, sender, clock, dispatcher: Arc::new(dispatcher) }
}

impl Fixture {
    fn add(&self, bits: u128, url: &str) {
        let url = WebhookUrl::try_from(url.to_owned()).expect("a URL");
        let (id, now_ms) = (DeliveryId::from_bits(bits), self.clock.now_ms());
        let subject = WebhookSubject::Job(JobId::from_bits(bits));
        self.outbox.rows.lock().expect("lock").insert(id, Delivery::new(id, UserId(1), subject, url, now_ms));
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
}

fn answer(status: u16) -> WebhookResponse {
    WebhookResponse { status, retry_after: None }
}

#[test]
fn a_delivered_webhook_is_settled_and_not_sent_again() {
    let fixture = fixture(|request, _| {
        assert_eq!(request.body, b"{}");
        Ok(answer(204))
    });
    fixture.add(1, "https://a.test/hook");
    assert_eq!(fixture.tick(), DispatchOutcome::Attempted(DeliveryId::from_bits(1)));
    assert_eq!(fixture.tick(), DispatchOutcome::Idle);
    let row = fixture.outbox.get(1);
    assert_eq!((row.state, row.tries, row.last_status), (DeliveryState::Delivered, 1, Some(204)));
}

#[test]
fn a_500_is_retried_with_the_same_id_and_a_new_signature() {
    let fixture = fixture(|_, number| Ok(answer(if number == 0 { 500 } else { 200 })));
    fixture.add(1, "https://a.test/hook");
    fixture.tick();
    let row = fixture.outbox.get(1);
    assert_eq!((row.state, row.last_status), (DeliveryState::Pending, Some(500)));
    assert_eq!(row.next_try_ms, Some(1_000_000 + 4_500), "5 s less a tenth");
    assert_eq!(fixture.tick(), DispatchOutcome::Idle, "not before its time");
    fixture.pass(4_500);
    fixture.tick();
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
    fixture.tick();
    assert_eq!((fixture.outbox.get(1).state, fixture.outbox.get(1).tries), (DeliveryState::Dead, 1));
}

#[test]
fn p4_after_ten_attempts_a_delivery_is_dead_with_its_last_error() {
    let fixture = fixture(|_, _| Err(SendError::Failed("no connection".into())));
    fixture.add(1, "https://a.test/hook");
    let mut tries = 0;
    while fixture.outbox.get(1).state == DeliveryState::Pending {
        assert!(matches!(fixture.tick(), DispatchOutcome::Attempted(_)));
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
    let fixture = fixture_with(Payload::Nothing("the job is not there any more"), |_, _| Ok(answer(200)));
    fixture.add(1, "https://a.test/hook");
    fixture.tick();
    let row = fixture.outbox.get(1);
    assert_eq!(row.state, DeliveryState::Dead);
    assert_eq!(row.last_error.as_deref(), Some("the job is not there any more"));
    assert!(fixture.hosts().is_empty());
}

#[test]
fn a_hanging_host_delays_only_its_own_deliveries() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let (started, hangs) = mpsc::channel();
    let fixture = fixture(move |request, _| {
        if request.url.host_and_port() == "slow.test" {
            started.send(()).expect("the test listens");
            released.lock().expect("lock").recv().expect("released");
        }
        Ok(answer(200))
    });
    fixture.add(1, "https://slow.test/1");
    fixture.add(2, "https://slow.test/2");
    let dispatcher = Arc::clone(&fixture.dispatcher);
    let hanging = std::thread::spawn(move || dispatcher.tick());
    hangs.recv().expect("it hangs");
    fixture.add(3, "https://quick.test/1");
    fixture.add(4, "https://quick.test/2");
    assert_eq!(fixture.tick(), DispatchOutcome::Attempted(DeliveryId::from_bits(3)));
    assert_eq!(fixture.tick(), DispatchOutcome::Attempted(DeliveryId::from_bits(4)));
    assert_eq!(fixture.tick(), DispatchOutcome::Idle, "one at a time for a host");
    release.send(()).expect("it listens");
    assert_eq!(hanging.join().expect("no panic"), Ok(DispatchOutcome::Attempted(DeliveryId::from_bits(1))));
    release.send(()).expect("it listens");
    assert_eq!(fixture.tick(), DispatchOutcome::Attempted(DeliveryId::from_bits(2)));
}

#[test]
fn deliveries_alternate_between_hosts() {
    let fixture = fixture(|_, _| Ok(answer(200)));
    for bits in 1..=5 {
        fixture.add(bits, "https://busy.test/hook");
    }
    fixture.pass(1);
    fixture.add(6, "https://rare.test/hook");
    fixture.tick();
    fixture.tick();
    assert_eq!(fixture.hosts(), ["busy.test", "rare.test"]);
}

#[test]
fn an_attempt_is_recorded_before_the_next_one_is_sent() {
    let fixture = fixture(|_, _| Ok(answer(200)));
    fixture.add(1, "https://a.test/hook");
    *fixture.outbox.refuse.lock().expect("lock") = Some(StoreError::Full);
    assert_eq!(fixture.dispatcher.tick(), Err(StoreError::Full));
    *fixture.outbox.refuse.lock().expect("lock") = Some(StoreError::Full);
    assert_eq!(fixture.dispatcher.tick(), Err(StoreError::Full));
    assert_eq!(fixture.tick(), DispatchOutcome::Idle);
    assert_eq!(fixture.hosts().len(), 1, "sent once");
    assert_eq!(fixture.outbox.get(1).state, DeliveryState::Delivered);
}

#[test]
fn a_slow_commit_of_one_thread_does_not_block_the_others() {
    let fixture = fixture(|_, _| Ok(answer(200)));
    fixture.add(1, "https://a.test/hook");
    *fixture.outbox.refuse.lock().expect("lock") = Some(StoreError::Full);
    assert_eq!(fixture.dispatcher.tick(), Err(StoreError::Full));
    let (started, commit) = mpsc::channel();
    *fixture.outbox.slow.lock().expect("lock") = Some(started);
    let dispatcher = Arc::clone(&fixture.dispatcher);
    let recording = std::thread::spawn(move || dispatcher.tick());
    let commit = commit.recv().expect("the attempt is being recorded");
    let (dispatcher, (done, other)) = (Arc::clone(&fixture.dispatcher), mpsc::channel());
    std::thread::spawn(move || done.send(dispatcher.tick()));
    let other =
        other.recv_timeout(Duration::from_secs(5)).expect("the other thread does not wait for the disk");
    assert_eq!(other, Ok(DispatchOutcome::Idle), "nothing is sent before the attempt is recorded");
    commit.send(Ok(())).expect("it waits");
    assert!(recording.join().expect("no panic").is_ok());
}

#[test]
fn an_unreadable_row_does_not_block_other_deliveries() {
    let fixture = fixture(|_, _| Ok(answer(200)));
    fixture.add(1, "https://a.test/hook");
    *fixture.outbox.refuse.lock().expect("lock") = Some(StoreError::Corrupt("a bad sector".into()));
    assert_eq!(fixture.tick(), DispatchOutcome::Attempted(DeliveryId::from_bits(1)));
    fixture.add(2, "https://b.test/hook");
    assert_eq!(fixture.tick(), DispatchOutcome::Attempted(DeliveryId::from_bits(2)));
}

#[test]
fn a_panic_while_sending_fails_only_that_delivery() {
    let fixture = fixture(|_, _| panic!("deep down"));
    fixture.add(1, "https://a.test/hook");
    fixture.tick();
    assert_eq!(fixture.outbox.get(1).last_error.as_deref(), Some("a fault of this server"));
    fixture.pass(5_000);
    assert!(matches!(fixture.tick(), DispatchOutcome::Attempted(_)), "its host is free again");
}

mod wire {
    //! The real client against addresses that it must not reach.

    use super::*;
    use crate::domain::address::AddressPolicy;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn send(policy: &[&str], url: &str) -> Result<WebhookResponse, SendError> {
        let allowed: Vec<String> = policy.iter().map(|text| (*text).to_owned()).collect();
        let policy = AddressPolicy::new(&allowed).expect("ranges");
        let url = WebhookUrl::try_from(url.to_owned()).expect("a URL");
        let sender = HttpSender::new(policy, Duration::from_secs(20));
        let (id, signature) = (DeliveryId::from_bits(1), "v1,x".to_owned());
        sender.send(&WebhookRequest { url: &url, id, timestamp_s: 7, signature, body: b"{}" })
    }

    /// Answers every connection with these bytes.
    fn receiver(says: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = Vec::new();
                let mut piece = [0; 1_024];
                while !request.ends_with(b"\r\n\r\n{}") {
                    match stream.read(&mut piece) {
                        Ok(amount) if amount > 0 => request.extend_from_slice(&piece[..amount]),
                        _ => break,
                    }
                }
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
