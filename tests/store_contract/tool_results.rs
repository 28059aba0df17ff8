//! Complete tool results and their handles.

use super::fixture::Fixture;
use crate::support::store::{ANN, BOB, cancelled, id, job};
use nanoclaw::domain::event::{EngineMark, Event, FailureCode};
use nanoclaw::domain::handle::ResultHandle;
use nanoclaw::domain::job::JobOutcome;
use nanoclaw::ports::Urgency;

#[test]
fn p7_a_tool_result_is_readable_by_its_owner_until_the_job_is_deleted() {
    let fixture = Fixture::new();
    fixture.submit([job(1, ANN), job(2, ANN)]);
    let leases = fixture.store.claim(2).wait().unwrap();
    for (lease, content) in leases.iter().zip(["of one", "of two"]) {
        let handle = ResultHandle::of(lease.job.id, "call_0").to_string();
        let full_result = EngineMark::ToolWhole { handle, content: content.to_owned() };
        let result = Event::ToolResult {
            index: 0,
            id_ref: "call_0".to_owned(),
            name: "t".to_owned(),
            content: "short".to_owned(),
            skipped: false,
            ended_at_ms: None,
        };
        fixture
            .store
            .append(lease.fence(), vec![full_result.into(), result.into()], Urgency::Now)
            .wait()
            .unwrap();
    }
    let read_result = |fixture: &Fixture, user, number| {
        fixture.store.result(user, &ResultHandle::of(id(number), "call_0")).unwrap()
    };
    assert_eq!(read_result(&fixture, ANN, 1).as_deref(), Some("of one"), "readable while the job runs");
    let failed =
        Event::Error { content: "no".to_owned(), code: FailureCode::ProviderError, retry_after_ms: None };
    for lease in leases {
        fixture
            .store
            .finish(lease.fence(), vec![], JobOutcome { event: failed.clone(), ..cancelled() })
            .wait()
            .unwrap();
    }
    let fixture = fixture.crash();
    assert_eq!(read_result(&fixture, ANN, 1).as_deref(), Some("of one"));
    assert_eq!(read_result(&fixture, ANN, 2).as_deref(), Some("of two"));
    assert_eq!((read_result(&fixture, BOB, 1), read_result(&fixture, ANN, 3)), (None, None));
    assert_eq!(fixture.store.result(ANN, &ResultHandle::of(id(1), "call_1")), Ok(None));
    let log = fixture.store.log(id(1)).unwrap();
    assert_eq!(log.len(), 5, "the engine sees that there is a complete result: {log:?}");
    assert!(!format!("{log:?}").contains("of one"), "the log does not contain the content: {log:?}");
    let page = fixture.store.events(id(1), 0, 100).unwrap();
    assert!(
        page.events.iter().all(|event| !format!("{event:?}").contains("of one")),
        "clients do not see the content"
    );
    fixture.store.delete(ANN, id(1)).wait().unwrap();
    assert_eq!(
        (read_result(&fixture, ANN, 1), read_result(&fixture, ANN, 2).as_deref()),
        (None, Some("of two"))
    );
}
