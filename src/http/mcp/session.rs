//! Sessions of MCP clients: whose they are, and their running requests, so that a notification can cancel
//! one. They are in memory: a client whose session is gone gets 404 and begins another one.
//!
//! A session is no credential. Each request is authenticated, and a session of another user does not exist.

use crate::domain::id::UserId;
use crate::http::error::ApiError;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Sessions of all users. The next one takes the place of the longest unused one of the user with most.
const SESSIONS: usize = 8_192;
/// Sessions of one user.
const USER_SESSIONS: usize = 512;

/// Ids of requests that a session keeps in a list.
const KEPT_IDS: usize = 128;

/// The sessions.
#[derive(Debug, Default)]
pub(crate) struct McpSessions(Mutex<SessionTable>);

#[derive(Debug, Default)]
struct SessionTable {
    sessions: HashMap<String, McpSession>,
    /// The number of the newest use.
    uses: u64,
}

#[derive(Debug)]
struct McpSession {
    user: UserId,
    /// The number of its last use.
    last_use: u64,
    /// The version of the protocol that it has agreed to.
    version: &'static str,
    /// Its running requests. A dropped sender cancels, too.
    running: HashMap<String, oneshot::Sender<()>>,
    /// The newest of those that have ended.
    ended: VecDeque<String>,
    /// Requests that were cancelled before they came: each message has a connection of its own.
    cancelled: VecDeque<String>,
}

/// Adds an id to a list of bounded length.
fn keep(list: &mut VecDeque<String>, request: &str) {
    if list.len() >= KEPT_IDS {
        list.pop_front();
    }
    list.push_back(request.to_owned());
}

impl McpSessions {
    /// Begins a session and returns its id.
    pub(super) fn open(&self, user: UserId, version: &'static str, random: u128) -> String {
        let id = format!("{random:032x}");
        let mut table = self.lock();
        if table.count(user) >= USER_SESSIONS {
            table.remove_oldest(user);
        } else if table.sessions.len() >= SESSIONS {
            table.remove_of_largest();
        }
        let last_use = table.next_use();
        let session = McpSession {
            user,
            last_use,
            version,
            running: HashMap::new(),
            ended: VecDeque::new(),
            cancelled: VecDeque::new(),
        };
        table.sessions.insert(id.clone(), session);
        id
    }

    /// The version of a session. Fails if the user has no such session.
    pub(super) fn version(&self, id: &str, user: UserId) -> Result<&'static str, ApiError> {
        self.lock().find(id, user).map(|session| session.version)
    }

    /// Notes that a request runs; `None` if the session has one of this id. Without a session the request
    /// cannot be cancelled.
    pub(super) fn begin(
        self: &Arc<Self>,
        session: Option<&str>,
        user: UserId,
        request: &str,
    ) -> Result<Option<RunningRequest>, ApiError> {
        let Some(session) = session else { return Ok(Some(RunningRequest(None))) };
        let (sender, cancelled) = oneshot::channel();
        let mut table = self.lock();
        let found = table.find(session, user)?;
        if found.running.contains_key(request) {
            return Ok(None);
        }
        match found.cancelled.iter().position(|id| id == request) {
            Some(at) => drop((found.cancelled.remove(at), sender)),
            None => drop(found.running.insert(request.to_owned(), sender)),
        }
        let (sessions, request) = (Arc::clone(self), request.to_owned());
        let place = RunningPlace { sessions, session: session.to_owned(), user, request };
        Ok(Some(RunningRequest(Some((place, cancelled)))))
    }

    /// Cancels a running request, or one that is on its way. One that has ended is left alone.
    pub(super) fn cancel(&self, session: &str, user: UserId, request: &str) {
        if let Ok(session) = self.lock().find(session, user)
            && session.running.remove(request).is_none()
            && !session.ended.iter().any(|id| id == request)
        {
            keep(&mut session.cancelled, request);
        }
    }

    /// Ends a session and cancels its requests.
    pub(super) fn end(&self, id: &str, user: UserId) -> Result<(), ApiError> {
        let mut table = self.lock();
        table.find(id, user)?;
        table.sessions.remove(id);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionTable {
    fn next_use(&mut self) -> u64 {
        self.uses = self.uses.wrapping_add(1);
        self.uses
    }

    /// The session, which is used now.
    fn find(&mut self, id: &str, user: UserId) -> Result<&mut McpSession, ApiError> {
        let last_use = self.next_use();
        let found = self.sessions.get_mut(id).filter(|session| session.user == user);
        let session = found.ok_or(ApiError::NotFound("session; begin another one with 'initialize'"))?;
        session.last_use = last_use;
        Ok(session)
    }

    fn count(&self, user: UserId) -> usize {
        self.sessions.values().filter(|session| session.user == user).count()
    }

    fn remove_oldest(&mut self, user: UserId) {
        let own = self.sessions.iter().filter(|(_, session)| session.user == user);
        // One with running requests goes last.
        let oldest = own.min_by_key(|(_, session)| (!session.running.is_empty(), session.last_use));
        let oldest = oldest.map(|(id, _)| id.clone());
        if let Some(oldest) = oldest {
            self.sessions.remove(&oldest);
        }
    }

    fn remove_of_largest(&mut self) {
        let mut counts: HashMap<UserId, usize> = HashMap::new();
        for session in self.sessions.values() {
            let count = counts.entry(session.user).or_default();
            *count = count.saturating_add(1);
        }
        if let Some((user, _)) = counts.into_iter().max_by_key(|(_, count)| *count) {
            self.remove_oldest(user);
        }
    }
}

/// A running request. It is forgotten when this is dropped.
#[derive(Debug)]
pub(super) struct RunningRequest(Option<(RunningPlace, oneshot::Receiver<()>)>);

#[derive(Debug)]
struct RunningPlace {
    sessions: Arc<McpSessions>,
    session: String,
    user: UserId,
    request: String,
}

impl RunningRequest {
    /// Returns when the client has cancelled the request or ended the session.
    pub(super) async fn cancelled(&mut self) {
        match &mut self.0 {
            // Nothing is ever sent: the sender is dropped.
            Some((_, cancelled)) => drop(cancelled.await),
            None => std::future::pending().await,
        }
    }
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        if let Ok(session) = self.sessions.lock().find(&self.session, self.user) {
            session.running.remove(&self.request);
            keep(&mut session.ended, &self.request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: UserId = UserId(1);
    const BOB: UserId = UserId(2);
    const VERSION: &str = "2025-11-25";

    #[test]
    fn p7_a_session_of_another_user_is_unknown() {
        let sessions = Arc::new(McpSessions::default());
        let anns = sessions.open(ANN, VERSION, 7);
        assert!(sessions.version(&anns, ANN).is_ok());
        let foreign = sessions.version(&anns, BOB).expect_err("not Bob's").to_string();
        assert_eq!(foreign, sessions.version("x", BOB).expect_err("unknown").to_string());
        assert!(sessions.end(&anns, BOB).is_err() && sessions.version(&anns, ANN).is_ok());
        assert!(sessions.begin(Some(&anns), BOB, "1").is_err());
        sessions.end(&anns, ANN).expect("ended");
        assert!(sessions.version(&anns, ANN).is_err());
    }

    #[tokio::test]
    async fn a_request_is_cancelled_by_its_id_and_by_the_end_of_its_session() {
        let sessions = Arc::new(McpSessions::default());
        let session = sessions.open(ANN, VERSION, 7);
        let begin = |text: &str| sessions.begin(Some(&session), ANN, text).expect("a session");
        let (mut one, mut two) = (begin("1").expect("new"), begin("\"1\"").expect("another id"));
        assert!(begin("1").is_none(), "the id is in use");
        sessions.cancel(&session, BOB, "1");
        sessions.cancel(&session, ANN, "1");
        one.cancelled().await;
        drop(one);
        assert!(begin("1").is_some(), "the id is free again");
        sessions.end(&session, ANN).expect("ended");
        two.cancelled().await;
    }

    #[tokio::test]
    async fn a_request_may_come_behind_its_cancellation() {
        let sessions = Arc::new(McpSessions::default());
        let session = sessions.open(ANN, VERSION, 7);
        let begin = || sessions.begin(Some(&session), ANN, "1").expect("a session").expect("new");
        sessions.cancel(&session, ANN, "1");
        begin().cancelled().await;
        let mut again = begin();
        tokio::select! {
            biased;
            () = again.cancelled() => panic!("it was cancelled once"),
            () = std::future::ready(()) => {}
        }
        drop(again);
        sessions.cancel(&session, ANN, "1");
        let mut again = begin();
        tokio::select! {
            biased;
            () = again.cancelled() => panic!("the one before had ended"),
            () = std::future::ready(()) => {}
        }
    }

    #[test]
    fn p8_sessions_are_bounded_and_the_longest_unused_one_goes_first() {
        let sessions = McpSessions::default();
        let bobs = sessions.open(BOB, VERSION, 1 << 100);
        let anns: Vec<String> =
            (0..USER_SESSIONS).map(|at| sessions.open(ANN, VERSION, at as u128)).collect();
        sessions.version(&anns[0], ANN).expect("used again");
        sessions.open(ANN, VERSION, 1 << 101);
        assert!(sessions.version(&anns[0], ANN).is_ok() && sessions.version(&anns[1], ANN).is_err());
        assert!(sessions.version(&bobs, BOB).is_ok(), "sessions of others stay");
    }
}
