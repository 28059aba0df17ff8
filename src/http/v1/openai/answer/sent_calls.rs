//! The calls that a stream hands to its client piece by piece.
//!
//! The client keeps what it got of a call that broke off. So the model's next call must repeat it.

use crate::domain::tool::ToolCall;

/// The model contradicts what the client has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

/// A call as far as the client has it.
#[derive(Debug)]
struct SentCall {
    /// Index of the job's step. `None`: it broke off, and nothing has repeated it yet.
    step: Option<u32>,
    place: u32,
    name: String,
    sent: String,
    /// Bytes of the arguments that this step has brought or repeated.
    received: usize,
}

/// The calls of one stream.
#[derive(Debug, Default)]
pub(super) struct SentCalls {
    /// Those without an end, in the order of their beginnings.
    begun: Vec<SentCall>,
    count: u32,
}

impl SentCalls {
    /// Whether the client waits for the rest of a call that the model writes.
    pub(super) fn has_open(&self) -> bool {
        self.begun.iter().any(|call| call.step.is_some())
    }

    /// Whether the client has a call that broke off and was not repeated.
    pub(super) fn has_lost(&self) -> bool {
        self.begun.iter().any(|call| call.step.is_none())
    }

    /// Begins a call. Returns its place, unless the client has its beginning.
    pub(super) fn begin(&mut self, step: u32, name: &str) -> Result<Option<u32>, Contradiction> {
        match self.begun.iter_mut().find(|call| call.step.is_none()) {
            Some(lost) if lost.name == name => {
                (lost.step, lost.received) = (Some(step), 0);
                Ok(None)
            }
            Some(_) => Err(Contradiction),
            None => {
                let (place, name, sent) = (self.next_place(), name.to_owned(), String::new());
                self.begun.push(SentCall { step: Some(step), place, name, sent, received: 0 });
                Ok(Some(place))
            }
        }
    }

    /// Adds a piece. Returns the call's place and what the client does not have yet.
    pub(super) fn add<'a>(
        &mut self,
        step: u32,
        piece: &'a str,
    ) -> Result<Option<(u32, &'a str)>, Contradiction> {
        let Some(call) = self.begun.iter_mut().find(|call| call.step == Some(step)) else { return Ok(None) };
        let repeated = call.sent.get(call.received..).unwrap_or_default();
        let new = match piece.strip_prefix(repeated) {
            Some(new) => new,
            None if repeated.starts_with(piece) => "",
            None => return Err(Contradiction),
        };
        call.sent.push_str(new);
        call.received = call.received.saturating_add(piece.len());
        Ok(Some((call.place, new)))
    }

    /// Ends a call. Returns its place and the rest of its arguments, if the client has its beginning.
    pub(super) fn end(
        &mut self,
        step: u32,
        whole: &ToolCall,
    ) -> Result<Option<(u32, String)>, Contradiction> {
        let position = |wanted: Option<u32>| self.begun.iter().position(|call| call.step == wanted);
        // A call that broke off may be repeated without pieces.
        let Some(at) = position(Some(step)).or_else(|| position(None)) else { return Ok(None) };
        let call = self.begun.remove(at);
        match whole.arguments.strip_prefix(call.sent.as_str()).filter(|_| call.name == whole.name) {
            Some(rest) => Ok(Some((call.place, rest.to_owned()))),
            None => Err(Contradiction),
        }
    }

    /// The step was cut off.
    pub(super) fn lose(&mut self, step: u32) {
        for call in self.begun.iter_mut().filter(|call| call.step == Some(step)) {
            call.step = None;
        }
    }

    /// The place of a call that is sent as a whole.
    pub(super) fn next_place(&mut self) -> u32 {
        let place = self.count;
        self.count = place.saturating_add(1);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id_ref: String::new(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn a_client_gets_each_byte_of_a_call_once() {
        let mut calls = SentCalls::default();
        assert_eq!((calls.begin(3, "a"), calls.begin(4, "b")), (Ok(Some(0)), Ok(Some(1))));
        assert_eq!(calls.add(3, "{\"n\""), Ok(Some((0, "{\"n\""))));
        assert_eq!(calls.add(9, "{"), Ok(None), "the client has no such call");
        assert_eq!(calls.end(3, &whole("a", "{\"n\":1}")), Ok(Some((0, ":1}".to_owned()))));
        assert!(calls.has_open() && !calls.has_lost());
        assert_eq!(calls.end(4, &whole("b", "")), Ok(Some((1, String::new()))));
        assert_eq!((calls.end(5, &whole("c", "{}")), calls.next_place()), (Ok(None), 2));
        assert!(!calls.has_open());
    }

    #[test]
    fn a_call_that_broke_off_must_be_repeated() {
        let begun = || {
            let mut calls = SentCalls::default();
            assert_eq!(calls.begin(0, "a"), Ok(Some(0)));
            assert_eq!(calls.add(0, "{\"n\":1"), Ok(Some((0, "{\"n\":1"))));
            calls.lose(0);
            assert!(calls.has_lost() && !calls.has_open());
            calls
        };
        let mut calls = begun();
        assert_eq!(calls.begin(1, "a"), Ok(None), "the client has its beginning");
        assert_eq!(calls.add(1, "{\"n"), Ok(Some((0, ""))));
        calls.lose(1);
        assert_eq!(calls.begin(2, "a"), Ok(None));
        assert_eq!(calls.add(2, "{\"n\":"), Ok(Some((0, ""))));
        assert_eq!(calls.add(2, "12"), Ok(Some((0, "2"))));
        assert_eq!(calls.end(2, &whole("a", "{\"n\":12}")), Ok(Some((0, "}".to_owned()))));
        assert_eq!(begun().begin(1, "b"), Err(Contradiction));
        assert_eq!(begun().end(1, &whole("a", "{\"n\":1}")), Ok(Some((0, "}".to_owned()))), "without pieces");
        for other in [whole("a", "{\"n\":2}"), whole("b", "{\"n\":1}")] {
            assert_eq!(begun().end(1, &other), Err(Contradiction));
        }
        let mut calls = begun();
        assert_eq!(calls.begin(1, "a"), Ok(None));
        assert_eq!(calls.add(1, "{\"m"), Err(Contradiction));
    }
}
