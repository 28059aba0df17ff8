//! Compares a conversation with a simple model under random questions, answers, retries, deletions,
//! regenerations, removals and restarts. Readers and the next job must see what the model contains.

use super::fixture::Fixture;
use super::messages::shown;
use crate::support::store::{ANN, BOB, check_stored_bytes, done, id, job, name, turn};
use nanoclaw::domain::event::{Event, FailureCode};
use nanoclaw::domain::job::{JobOutcome, JobStatus};
use nanoclaw::domain::message::Message;
use nanoclaw::ports::{ConversationError, Idempotent, JobChangeError, MessageRef, RegenerateRequest};
use proptest::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Queued,
    /// Queued again after a failure: its answer stays readable and counts once the job has ended again.
    Retried,
    Done,
    Failed,
}

/// A question and its answer.
#[derive(Debug, Clone, Copy)]
struct Pair {
    number: u128,
    /// The job of the original question.
    ask: u128,
    shows_ask: bool,
    shows_answer: bool,
    state: State,
}

struct Model {
    fixture: Fixture,
    pairs: Vec<Pair>,
    exists: bool,
    number: u128,
}

impl Pair {
    fn has_ended(&self) -> bool {
        matches!(self.state, State::Done | State::Failed)
    }

    fn count(&self) -> u64 {
        u64::from(self.shows_ask) + u64::from(self.shows_answer && self.has_ended())
    }

    fn shown(&self) -> Vec<String> {
        let ask = self.shows_ask.then(|| format!("?{}", self.ask));
        let answer = (self.shows_answer && self.state != State::Queued).then(|| format!("!{}", self.number));
        ask.into_iter().chain(answer).collect()
    }

    fn history_messages(&self) -> Vec<Message> {
        let ask = self.shows_ask.then(|| Message::user(format!("question {}", self.ask)));
        let has_words = self.shows_answer && self.state == State::Done;
        let answer = has_words.then(|| Message::assistant(format!("answer {}", self.number)));
        ask.into_iter().chain(answer).collect()
    }
}

impl Model {
    fn new() -> Self {
        let fixture = Fixture::file();
        fixture.submit([turn(1_000, BOB, "chat")]);
        fixture.store.finish(fixture.claim().fence(), vec![], done(id(1_000), "his")).wait().unwrap();
        Self { fixture, pairs: Vec::new(), exists: false, number: 0 }
    }

    fn next(&mut self) -> u128 {
        self.fixture.clock.advance(1);
        self.number += 1;
        self.number
    }

    fn step(&mut self, op: u8, at: usize) {
        let at = if self.pairs.is_empty() { 0 } else { at % self.pairs.len() };
        match op {
            0..=2 => self.ask(),
            3..=5 => self.answer(State::Done),
            6 => self.answer(State::Failed),
            7 | 8 => self.delete(at, op == 7),
            9 => self.regenerate(at),
            10 => self.retry(at),
            11 => self.restart(),
            _ => self.remove(),
        }
        self.check();
    }

    fn ask(&mut self) {
        let number = self.next();
        self.fixture.submit([turn(number, ANN, "chat")]);
        let (shows_ask, shows_answer) = (true, true);
        self.pairs.push(Pair { number, ask: number, shows_ask, shows_answer, state: State::Queued });
        self.exists = true;
    }

    /// Ends the first unfinished job.
    fn answer(&mut self, end: State) {
        let Some(at) = self.pairs.iter().position(|pair| !pair.has_ended()) else { return };
        let lease = self.fixture.claim();
        let number = self.pairs[at].number;
        assert_eq!(lease.job.id, id(number));
        assert_eq!(lease.spec.input, [Message::user(format!("question {}", self.pairs[at].ask))]);
        let history_messages = self.fixture.store.history(&lease.job, 1_000).unwrap().into_messages();
        let turns = self.pairs[..at].iter().map(Pair::history_messages);
        let from_user = turns.skip_while(|turn| !matches!(turn.first(), Some(Message::User { .. })));
        assert_eq!(history_messages, from_user.flatten().collect::<Vec<_>>());
        let event =
            Event::Error { content: "broke".to_owned(), code: FailureCode::Internal, retry_after_ms: None };
        let failed = JobOutcome { event, output_text: String::new(), messages: Vec::new(), summary: None };
        let ending = if end == State::Done { done(id(number), &format!("answer {number}")) } else { failed };
        self.fixture.store.finish(lease.fence(), vec![], ending).wait().unwrap();
        self.pairs[at].state = end;
    }

    fn delete(&mut self, at: usize, is_ask: bool) {
        let Some(pair) = self.pairs.get_mut(at) else { return };
        let has_ended = pair.has_ended();
        let is_shown = if is_ask { &mut pair.shows_ask } else { &mut pair.shows_answer };
        let (ask, answer) = (id(pair.ask).ask_id(), id(pair.number).message_id());
        let message = if is_ask { MessageRef::Ask(ask) } else { MessageRef::Answer(answer) };
        let result = self.fixture.store.delete_message(ANN, name("chat"), message).wait();
        if !*is_shown {
            assert_eq!(result, Ok(false));
        } else if !has_ended {
            assert_eq!(result, Err(ConversationError::WrongState { status: JobStatus::Queued }));
        } else {
            assert_eq!(result, Ok(true));
            *is_shown = false;
        }
        self.pairs.retain(|pair| pair.shows_ask || pair.shows_answer);
    }

    fn regenerate(&mut self, at: usize) {
        let Some(old) = self.pairs.get(at).copied() else { return };
        let number = self.next();
        let again = RegenerateRequest {
            answer: id(old.number).message_id(),
            job: job(number, ANN),
            replaces_question: false,
            key: None,
        };
        let result = self.fixture.store.regenerate(ANN, name("chat"), again).wait();
        if !old.shows_answer {
            assert_eq!(result, Ok(None));
        } else if !old.shows_ask {
            assert_eq!(result, Err(ConversationError::NoQuestion));
        } else if self.pairs.iter().any(|pair| !pair.has_ended()) {
            assert_eq!(result, Err(ConversationError::WrongState { status: JobStatus::Queued }));
        } else {
            assert!(matches!(result, Ok(Some(Idempotent::New(job))) if job.id == id(number)));
            self.pairs.truncate(at);
            self.pairs.push(Pair { number, state: State::Queued, ..old });
        }
    }

    fn retry(&mut self, at: usize) {
        let Some(old) = self.pairs.get(at).copied().filter(|pair| pair.state == State::Failed) else {
            return;
        };
        let result = self.fixture.store.retry(ANN, id(old.number)).wait();
        if !old.shows_answer {
            assert_eq!(result, Err(JobChangeError::LogCut));
            return;
        }
        result.unwrap().unwrap();
        self.pairs.remove(at);
        self.pairs.push(Pair { state: State::Retried, ..old });
    }

    fn restart(&mut self) {
        self.fixture = self.fixture.crash();
    }

    fn remove(&mut self) {
        let had = self.fixture.store.remove_conversation(ANN, name("chat")).wait().unwrap();
        assert_eq!(had, std::mem::take(&mut self.exists));
        self.pairs.clear();
        self.fixture.clock.advance(1);
    }

    fn check(&self) {
        let expected: Vec<_> = self.pairs.iter().flat_map(Pair::shown).collect();
        assert_eq!(shown(&self.fixture.store, ANN, None, 1_000), (expected.clone(), false));
        let row = self.fixture.store.conversation(ANN, &name("chat")).unwrap();
        assert_eq!(
            row.map(|row| row.message_count),
            self.exists.then(|| self.pairs.iter().map(Pair::count).sum())
        );
        assert_eq!(shown(&self.fixture.store, BOB, None, 9).0, ["?1000", "!1000"], "P7");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn p1_p7_a_conversation_matches_a_simple_model(
        steps in proptest::collection::vec((0..13u8, any::<usize>()), 1..40),
    ) {
        let mut model = Model::new();
        for (op, at) in steps {
            model.step(op, at);
        }
        let image = std::fs::read(model.fixture.path()).unwrap();
        prop_assert!(check_stored_bytes(image).is_ok_and(|[_, his]| his > 0));
    }
}
