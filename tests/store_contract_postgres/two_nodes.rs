//! Two nodes on one database: each due schedule becomes one job, and each delivery is sent by one node.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, delta, done, id, job};
use nanoclaw::domain::delivery_turns::DeliveryTurns;
use nanoclaw::domain::event::Event;
use nanoclaw::domain::id::{DeliveryId, JobId, ScheduleId};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::schedule::{Schedule, ScheduledRequest};
use nanoclaw::domain::timing::Timing;
use nanoclaw::domain::webhook::{AfterAttempt, Delivery, DeliveryAttempt, DeliveryState, WebhookUrl};
use nanoclaw::ports::{
    Clock, DeliveryQuery, Entropy, NewJob, NoopMeter, Outbox, Payload, Payloads, ScheduleQuery, Schedules,
    SpanExport, SpanExports, Store, StoreError, Urgency,
};
use nanoclaw::store::options::StoreOptions;
use nanoclaw::webhooks::{
    AttemptEnd, Dispatcher, DispatcherPorts, Signer, WebhookRequest, WebhookResponse, WebhookSender,
    secret_from_key,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const MANY: usize = 200;
const MANY_BITS: u128 = 200;
/// How long the nodes may take.
const LIMIT: Duration = Duration::from_secs(60);

fn delivered() -> DeliveryAttempt {
    DeliveryAttempt { status: Some(200), error: None, next: AfterAttempt::Delivered }
}

fn hooked(number: u128, host: &str) -> NewJob {
    let mut new = job(number, ANN);
    new.spec.webhook_url = Some(WebhookUrl::try_from(format!("https://{host}/hook")).unwrap());
    new
}

/// Deliveries of ended jobs, one for each host.
fn end_jobs(fixture: &Fixture, hosts: impl IntoIterator<Item = String>) {
    for (number, host) in (1..).zip(hosts) {
        fixture.submit([hooked(number, &host)]);
        let lease = fixture.claim();
        fixture.store.finish(lease.fence(), Vec::new(), done(id(number), "yes")).wait().unwrap();
    }
}

fn due(node: &Fixture, busy: &[&str]) -> Vec<Delivery> {
    let mut turns = DeliveryTurns::default();
    for receiver in busy {
        turns.take(ANN, receiver);
    }
    node.store.due(node.clock.now_ms(), 100, &turns).unwrap()
}

fn ids(deliveries: &[Delivery]) -> Vec<DeliveryId> {
    deliveries.iter().map(|delivery| delivery.id).collect()
}

#[test]
fn p1_each_due_schedule_becomes_one_job_on_two_nodes() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    let now_ms = one.clock.now_ms();
    for number in 1..=MANY_BITS {
        let timing = Timing::Every { seconds: 60, anchor_ms: now_ms };
        let schedule = Schedule::new(ScheduleId::from_bits(number), ANN, None, timing, now_ms);
        let order = ScheduledRequest { spec: job(1, ANN).spec, given: serde_json::Map::new() };
        one.store.put(schedule, order, 1_000).wait().unwrap();
    }
    one.clock.advance(60_000);
    let (start, fired) = (Barrier::new(2), Mutex::new(Vec::new()));
    let fire = |node: &Fixture, first: u128| {
        let mut fresh = (0..).map(|number| JobId::from_bits(first + number));
        let (mut own, end) = (0, Instant::now() + LIMIT);
        start.wait();
        while fired.lock().unwrap().len() < MANY {
            assert!(Instant::now() < end, "{} of {MANY} fired", fired.lock().unwrap().len());
            let jobs = node.store.fire_due(fresh.by_ref().take(8).collect()).wait().unwrap().jobs;
            own += jobs.len();
            fired.lock().unwrap().extend(jobs);
        }
        own
    };
    let counts = thread::scope(|scope| {
        let nodes = [(&one, 1_000), (&other, 1_000_000)];
        let running = nodes.map(|(node, first)| scope.spawn(move || fire(node, first)));
        running.map(|node| node.join().unwrap())
    });
    assert!(counts.iter().all(|count| *count > 0), "both nodes fire: {counts:?}");
    let fired = fired.into_inner().unwrap();
    let schedules: BTreeSet<ScheduleId> = fired.iter().map(|(schedule, _)| *schedule).collect();
    let jobs: BTreeMap<ScheduleId, JobId> = fired.iter().copied().collect();
    assert_eq!((fired.len(), schedules.len()), (MANY, MANY), "each one once");
    let query = ScheduleQuery { user: ANN, before: None, limit: 1_000 };
    let stored = one.store.schedules(&query).unwrap().schedules;
    assert_eq!(stored.len(), MANY);
    for found in stored.into_iter().map(|found| found.schedule) {
        assert_eq!((found.runs, found.last_job), (1, jobs.get(&found.id).copied()));
        assert_eq!(found.next_run_ms, Some(now_ms + 120_000));
    }
    let claimed: BTreeSet<JobId> = one.claim_all().into_iter().collect();
    assert_eq!(claimed, jobs.into_values().collect(), "no schedule has another job");
}

#[test]
fn two_nodes_send_each_delivery_once_and_one_at_a_time_to_each_host() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    end_jobs(&one, (0..MANY).map(|number| format!("h{}.test", number % 40)));
    let (start, sent, active) =
        (Barrier::new(2), Mutex::new(Vec::new()), Mutex::new(BTreeMap::<String, DeliveryId>::new()));
    let deliver = |node: &Fixture| {
        let (mut own, end) = (0, Instant::now() + LIMIT);
        start.wait();
        while sent.lock().unwrap().len() < MANY {
            assert!(Instant::now() < end, "{} of {MANY} sent", sent.lock().unwrap().len());
            let taken = node.store.due(node.clock.now_ms(), 3, &DeliveryTurns::default()).unwrap();
            for delivery in &taken {
                let before = active.lock().unwrap().insert(delivery.url.host_and_port(), delivery.id);
                assert_eq!(before, None, "the host gets another delivery at this moment");
            }
            thread::sleep(Duration::from_millis(1));
            for delivery in &taken {
                active.lock().unwrap().remove(&delivery.url.host_and_port());
                sent.lock().unwrap().push(delivery.id);
                node.store.settle(delivery.id, delivered()).wait().unwrap();
            }
            own += taken.len();
        }
        own
    };
    let counts = thread::scope(|scope| {
        let running = [&one, &other].map(|node| scope.spawn(move || deliver(node)));
        running.map(|node| node.join().unwrap())
    });
    assert!(counts.iter().all(|count| *count > 0), "both nodes send: {counts:?}");
    let sent = sent.into_inner().unwrap();
    assert_eq!((sent.len(), sent.iter().collect::<BTreeSet<_>>().len()), (MANY, MANY), "each one once");
    let query =
        DeliveryQuery { user: ANN, state: Some(DeliveryState::Delivered), before: None, limit: 1_000 };
    let stored = one.store.deliveries(&query).unwrap().deliveries;
    assert_eq!(stored.len(), MANY);
    assert!(stored.iter().all(|delivery| delivery.tries == 1), "each has one attempt");
}

/// Receivers that note what they get, and from which node.
#[derive(Default)]
struct Receivers {
    active: Mutex<BTreeSet<String>>,
    sent: Mutex<Vec<(usize, DeliveryId)>>,
}

struct NodeSender(usize, Arc<Receivers>);

impl WebhookSender for NodeSender {
    fn start(&self, request: WebhookRequest, end: AttemptEnd) {
        let (node, receivers, host) = (self.0, Arc::clone(&self.1), request.url.host_and_port());
        assert!(receivers.active.lock().unwrap().insert(host.clone()), "{host} gets another request now");
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(5));
            receivers.active.lock().unwrap().remove(&host);
            receivers.sent.lock().unwrap().push((node, request.id));
            end.report(Ok(WebhookResponse { status: 200, retry_after: None }));
        });
    }
}

struct EmptyBody;

impl Payloads for EmptyBody {
    fn payload(&self, _: &Delivery) -> Result<Payload, StoreError> {
        Ok(Payload::Body(Vec::new()))
    }
}

struct NoEntropy;

impl Entropy for NoEntropy {
    fn random(&self) -> u128 {
        0
    }
}

fn dispatcher(node: &Fixture, number: usize, receivers: &Arc<Receivers>) -> Dispatcher {
    dispatcher_with(node, Arc::new(NodeSender(number, Arc::clone(receivers))))
}

fn dispatcher_with(node: &Fixture, sender: Arc<dyn WebhookSender>) -> Dispatcher {
    Dispatcher::new(DispatcherPorts {
        outbox: node.store.clone(),
        payloads: Arc::new(EmptyBody),
        sender,
        signer: Signer::new(&[secret_from_key(&[7; 32])]).unwrap(),
        clock: node.clock.clone(),
        entropy: Arc::new(NoEntropy),
        meter: Arc::new(NoopMeter),
    })
}

#[test]
fn the_dispatchers_of_two_nodes_send_each_delivery_once() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    end_jobs(&one, (0..MANY).map(|number| format!("h{}.test", number % 100)));
    let receivers = Arc::new(Receivers::default());
    let dispatchers = [(&one, 1), (&other, 2)].map(|(node, number)| dispatcher(node, number, &receivers));
    let end = Instant::now() + LIMIT;
    thread::scope(|scope| {
        for dispatcher in &dispatchers {
            let receivers = &receivers;
            scope.spawn(move || {
                let is_done =
                    || receivers.sent.lock().unwrap().len() >= MANY && dispatcher.in_progress() == 0;
                while !is_done() && Instant::now() < end {
                    dispatcher.tick().unwrap();
                }
            });
        }
    });
    let sent = receivers.sent.lock().unwrap().clone();
    let ids: BTreeSet<DeliveryId> = sent.iter().map(|(_, id)| *id).collect();
    assert_eq!((sent.len(), ids.len()), (MANY, MANY), "each one once");
    assert_eq!(one.store.next_due_ms().unwrap(), None);
}

/// A sender whose receivers do not answer.
#[derive(Default)]
struct HangingSender(Mutex<Vec<(String, AttemptEnd)>>);

impl WebhookSender for HangingSender {
    fn start(&self, request: WebhookRequest, end: AttemptEnd) {
        self.0.lock().unwrap().push((request.url.host_and_port(), end));
    }
}

#[test]
fn a_node_that_sends_to_some_receivers_leaves_the_others_to_the_other_nodes() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    end_jobs(&one, (0..50).map(|number| format!("h{number:02}.test")));
    let sender = Arc::new(HangingSender::default());
    let dispatcher = dispatcher_with(&one, sender.clone());
    dispatcher.tick().unwrap();
    let sent: BTreeSet<String> = sender.0.lock().unwrap().iter().map(|(host, _)| host.clone()).collect();
    let free: BTreeSet<String> = due(&other, &[]).iter().map(|d| d.url.host_and_port()).collect();
    assert!(sent.is_disjoint(&free), "{sent:?} {free:?}");
    assert_eq!((sent.len() + free.len(), sent.is_empty()), (50, false));
}

#[test]
fn p7_users_take_turns_over_all_nodes() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    end_jobs(&one, (0..6).map(|number| format!("h{number}.test")));
    let mut of_bob = hooked(9, "h0.test");
    of_bob.user = BOB;
    one.submit([of_bob]);
    let lease = one.claim();
    one.store.finish(lease.fence(), Vec::new(), done(id(9), "yes")).wait().unwrap();
    let next = |node: &Fixture, max| {
        let due = node.store.due(node.clock.now_ms(), max, &DeliveryTurns::default()).unwrap();
        due.iter().map(|delivery| (delivery.user, delivery.url.host_and_port())).collect::<Vec<_>>()
    };
    assert_eq!(next(&one, 1), [(ANN, "h0.test".to_owned())]);
    assert_eq!(next(&other, 1), [(BOB, "h0.test".to_owned())], "ann has one in progress on the other node");
}

#[test]
fn a_host_that_one_node_sends_to_is_busy_for_the_other_until_the_delivery_is_settled() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    end_jobs(&one, ["a.test", "a.test", "b.test"].map(str::to_owned));
    let first = due(&one, &["b.test"]);
    assert_eq!(first.len(), 1);
    assert_eq!(ids(&due(&one, &["b.test"])), ids(&first), "the node asks again before it sends");
    let others = due(&other, &[]);
    assert_eq!(others.iter().map(|d| d.url.host_and_port()).collect::<Vec<_>>(), ["b.test"]);
    assert!(due(&one, &["a.test"]).is_empty(), "each node sends to one host");
    assert!(other.store.again(ANN, first[0].id).wait().unwrap().is_some());
    assert_eq!(ids(&due(&other, &[])), ids(&others), "a delivery that is sent is not taken away");
    one.store.settle(first[0].id, delivered()).wait().unwrap();
    let next = due(&other, &["b.test"]);
    assert_eq!(next.len(), 1);
    assert_ne!(next[0].id, first[0].id, "the next delivery of the host");
}

#[test]
fn a_node_gives_back_what_it_has_taken_and_does_not_send() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    end_jobs(&one, ["a.test", "b.test", "c.test"].map(str::to_owned));
    let taken = due(&one, &[]);
    assert_eq!(taken.len(), 3);
    assert!(due(&other, &[]).is_empty());
    // The node sends to the first host, and asks for one more.
    let mut turns = DeliveryTurns::default();
    turns.take(ANN, &taken[0].url.host_and_port());
    let next = one.store.due(one.clock.now_ms(), 1, &turns).unwrap();
    assert_eq!(ids(&next), ids(&taken[1..2]));
    assert_eq!(ids(&due(&other, &[])), ids(&taken[2..]), "only the third is free");
}

#[test]
fn the_deliveries_of_a_node_that_is_gone_are_sent_when_its_lease_on_them_ends() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    end_jobs(&one, ["a.test".to_owned()]);
    let taken = ids(&due(&one, &[]));
    one.sql("UPDATE deliveries SET taken_until = clock_timestamp() - interval '1 second'");
    assert!(due(&other, &[]).is_empty(), "a node that is alive may send for longer");
    one.sql("UPDATE deliveries SET taken_until = clock_timestamp() + interval '1 minute'");
    one.store.close();
    assert!(due(&other, &[]).is_empty(), "the lease outlives the node");
    one.sql("UPDATE deliveries SET taken_until = clock_timestamp() - interval '1 second'");
    assert_eq!(ids(&due(&other, &[])), taken, "the same delivery again");
}

#[test]
fn a_late_attempt_does_not_end_the_lease_of_the_node_that_has_taken_over() {
    let Some(one) = Fixture::new() else { return };
    let other = one.beside();
    end_jobs(&one, ["a.test", "a.test"].map(str::to_owned));
    let taken = due(&one, &[]);
    one.sql("UPDATE deliveries SET taken_until = clock_timestamp() - interval '1 hour'");
    assert_eq!(ids(&due(&other, &[])), ids(&taken));
    one.store.settle(taken[0].id, delivered()).wait().unwrap();
    assert!(due(&one, &[]).is_empty(), "the other node still sends to the host");
    other.store.settle(taken[0].id, delivered()).wait().unwrap();
    assert_eq!(other.store.delivery(ANN, taken[0].id).unwrap().unwrap().tries, 1, "it was settled before");
    assert_eq!(due(&one, &[]).len(), 1, "the second delivery");
}

#[test]
fn a_start_of_one_node_leaves_the_schedules_of_the_others_alone() {
    let Some(one) = Fixture::new() else { return };
    let now_ms = one.clock.now_ms();
    let timing = Timing::Every { seconds: 60, anchor_ms: now_ms };
    let schedule = Schedule::new(ScheduleId::from_bits(1), ANN, None, timing, now_ms);
    let order = ScheduledRequest { spec: job(1, ANN).spec, given: serde_json::Map::new() };
    one.store.put(schedule, order, 9).wait().unwrap();
    one.clock.advance(60_000);
    assert_eq!(one.store.fire_due(vec![id(7)]).wait().unwrap().jobs.len(), 1);
    let other = one.beside();
    let read = || one.store.schedule(ANN, ScheduleId::from_bits(1)).unwrap().unwrap().0;
    let before = read();
    assert_eq!(other.store.rearm().wait(), Ok(0));
    assert_eq!(read(), before);
    assert!(other.store.fire_due(vec![id(8)]).wait().unwrap().jobs.is_empty());
}

#[test]
fn p4_a_write_that_began_before_its_node_lost_its_lease_is_refused() {
    let Some(fixture) = Fixture::new() else { return };
    fixture.submit([job(1, ANN)]);
    let lease = fixture.claim();
    let nodes = || fixture.sql("SELECT string_agg(id::text, ' ') FROM nodes");
    let before = nodes();
    thread::scope(|scope| {
        // The next event waits for this transaction, and this one until the node has another lease.
        let hold = format!(
            "BEGIN; INSERT INTO records (job, seq, sub, body) VALUES ('{}', 3, 0, '{{}}'); SELECT pg_sleep(5); ROLLBACK",
            id(1)
        );
        let fixture = &fixture;
        scope.spawn(move || fixture.sql(&hold));
        thread::sleep(Duration::from_millis(500));
        let late = fixture.store.append(lease.fence(), vec![delta(0, 0, "late")], Urgency::Now);
        thread::sleep(Duration::from_millis(200));
        fixture.sql("UPDATE nodes SET lease_until = clock_timestamp() - interval '1 second'");
        assert!(late.wait().is_err());
    });
    assert_ne!(nodes(), before, "the node has a lease again");
    let events = fixture.store.events(id(1), 2, 10).unwrap().events;
    assert!(!events.iter().any(|found| matches!(found.event, Event::Delta { .. })), "{events:?}");
}

/// Two nodes, and three ended jobs whose spans wait.
fn nodes_with_ends() -> Option<(Fixture, Fixture)> {
    let options = StoreOptions { exports_spans: true, ..StoreOptions::default() };
    let one = Fixture::with_options(&Limits::default(), &options)?;
    let other = one.beside();
    for number in 1..=3 {
        one.submit([job(number, ANN)]);
        let lease = one.claim();
        one.store.finish(lease.fence(), Vec::new(), done(id(number), "yes")).wait().unwrap();
    }
    Some((one, other))
}

fn exports(node: &Fixture, max: usize, lease_s: u64) -> Vec<JobId> {
    let taken: Vec<SpanExport> = node.store.take_span_exports(max, lease_s).unwrap();
    taken.into_iter().map(|export| export.job).collect()
}

#[test]
fn the_spans_of_an_ended_job_are_exported_by_one_node() {
    let Some((one, other)) = nodes_with_ends() else { return };
    assert_eq!(exports(&one, 2, 60), [id(1), id(2)]);
    assert_eq!(exports(&other, 9, 60), [id(3)], "what another node has taken stays with it");
    assert_eq!(exports(&one, 9, 60), [id(1), id(2)], "it gets them again until they are removed");
    assert_eq!(exports(&other, 9, 60), [id(3)]);
}

#[test]
fn another_node_exports_what_one_has_kept_for_too_long_or_left() {
    let Some((one, other)) = nodes_with_ends() else { return };
    assert_eq!(exports(&one, 9, 0).len(), 3);
    assert_eq!(exports(&other, 1, 60), [id(1)], "the lease is over");
    assert_eq!(exports(&one, 9, 60), [id(2), id(3)]);
    one.store.close();
    assert_eq!(exports(&other, 9, 60), [id(1), id(2), id(3)], "the node is gone");
}
