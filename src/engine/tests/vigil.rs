//! Running jobs that do not get on, and how they are told.

use super::rig::{Rig, answers, call, say};
use crate::domain::id::JobId;
use crate::engine::vigil::{Sight, Vigil};
use crate::ports::Clock;
use std::sync::{Arc, Mutex};

const STUCK_S: u64 = 300;
const STUCK_MS: u64 = STUCK_S * 1_000;

fn vigil(rig: &Rig, stuck_s: u64) -> Vigil {
    Vigil::new(rig.held.clone(), Arc::clone(&rig.clock) as Arc<dyn Clock>, stuck_s)
}

fn stuck(doing: &str, for_ms: u64) -> Sight {
    Sight::Stuck { job: JobId::from_bits(7), attempt: 1, doing: doing.to_owned(), for_ms }
}

fn moved(after_ms: u64) -> Sight {
    Sight::Moved { job: JobId::from_bits(7), attempt: 1, after_ms }
}

/// What a vigil sees of a job whose tool takes its time.
fn seen_of_a_slow_tool(stuck_s: u64) -> Vec<Vec<Sight>> {
    let rig = Rig::new(|request, _, sink| {
        say(if answers(request) == 0 { vec![call("a", "pure")] } else { Vec::new() }, sink)
    });
    let (seen, mut eyes) = (Arc::new(Mutex::new(Vec::new())), vigil(&rig, stuck_s));
    let (told, clock) = (Arc::clone(&seen), Arc::clone(&rig.clock));
    let eyes_inside = Arc::new(Mutex::new(vigil(&rig, stuck_s)));
    let inside = Arc::clone(&eyes_inside);
    rig.tools.on_call(move || {
        let mut eyes = inside.lock().expect("no panic");
        let mut look = |later_ms| {
            clock.advance(later_ms);
            told.lock().expect("no panic").push(eyes.look());
        };
        look(0);
        look(STUCK_MS - 1);
        look(1_000);
        look(999);
        look(STUCK_MS);
    });
    rig.finish();
    rig.clock.advance(1_000);
    assert_eq!(eyes.look(), [], "nothing is held");
    let last = eyes_inside.lock().expect("no panic").look();
    let mut seen = seen.lock().expect("no panic").clone();
    seen.push(last);
    seen
}

#[test]
fn a_standstill_is_told_once_and_once_more_when_it_is_over() {
    let seen = seen_of_a_slow_tool(STUCK_S);
    let wanted = [
        vec![],
        vec![],
        vec![stuck("running pure", STUCK_MS + 999)],
        vec![], // too early to look again
        vec![], // told already
        vec![moved(2 * STUCK_MS + 2_998)],
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn nobody_looks_where_it_is_switched_off() {
    assert!(seen_of_a_slow_tool(0).iter().all(Vec::is_empty));
}

#[test]
fn a_model_that_says_nothing_is_named_and_each_piece_is_progress() {
    let eyes: Arc<Mutex<Option<Vigil>>> = Arc::default();
    let clock: Arc<Mutex<Option<Arc<super::rig::FakeClock>>>> = Arc::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (eyes_inside, clock_inside, told) = (Arc::clone(&eyes), Arc::clone(&clock), Arc::clone(&seen));
    let rig = Rig::new(move |_, _, sink| {
        let mut eyes = eyes_inside.lock().expect("no panic");
        let (eyes, clock) = (eyes.as_mut().expect("eyes"), clock_inside.lock().expect("no panic"));
        let clock = clock.as_ref().expect("a clock");
        let mut look = || {
            clock.advance(STUCK_MS / 2 + 1_000);
            told.lock().expect("no panic").extend(eyes.look());
        };
        // Each piece comes in time.
        for _ in 0..4 {
            look();
            assert!(sink(crate::ports::Chunk::Text("so ")).is_continue());
        }
        look();
        look();
        assert!(sink(crate::ports::Chunk::Text("on")).is_continue());
        look();
        say(Vec::new(), sink)
    });
    *eyes.lock().expect("no panic") = Some(vigil(&rig, STUCK_S));
    *clock.lock().expect("no panic") = Some(Arc::clone(&rig.clock));
    rig.finish();
    let seen = seen.lock().expect("no panic").clone();
    let [Sight::Stuck { doing, for_ms, .. }, Sight::Moved { .. }] = &seen[..] else { panic!("{seen:?}") };
    assert!(doing.starts_with("asking the model '"), "{doing}");
    assert_eq!(*for_ms, STUCK_MS + 2_000);
}
