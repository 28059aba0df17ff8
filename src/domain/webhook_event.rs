//! Webhook bodies in the shape of `OpenAI`'s events, for jobs and batches that came in by its API.

use super::batch::BatchStatus;
use super::event::FinishReason;
use super::id::DeliveryId;
use super::job::JobStatus;
use serde::Serialize;

/// An event: `{"id", "object", "created_at", "type", "data": {"id"}}`.
#[derive(Debug, Serialize)]
pub struct WebhookEvent {
    id: String,
    object: &'static str,
    /// When the subject ended, unix seconds.
    created_at: u64,
    #[serde(rename = "type")]
    kind: &'static str,
    data: WebhookEventData,
}

#[derive(Debug, Serialize)]
struct WebhookEventData {
    id: String,
}

impl WebhookEvent {
    /// The event of a delivery that was made at the end of its subject. Every attempt has the same id.
    pub fn new(delivery: DeliveryId, created_at_ms: u64, kind: &'static str, subject: String) -> Self {
        let number = delivery.to_string();
        Self {
            id: format!("evt_{}", number.trim_start_matches(DeliveryId::PREFIX)),
            object: "event",
            created_at: created_at_ms / 1_000,
            kind,
            data: WebhookEventData { id: subject },
        }
    }
}

/// The type of a response's event; `None` while its job goes on. `reason` is that of its answer.
pub fn response_event(status: JobStatus, reason: Option<FinishReason>) -> Option<&'static str> {
    match status {
        JobStatus::Succeeded if reason.is_some_and(FinishReason::is_cut_off) => Some("response.incomplete"),
        JobStatus::Succeeded => Some("response.completed"),
        JobStatus::Failed => Some("response.failed"),
        JobStatus::Cancelled => Some("response.cancelled"),
        JobStatus::Queued | JobStatus::Running | JobStatus::Waiting => None,
    }
}

/// The type of a batch's event; `None` while it goes on.
pub fn batch_event(status: BatchStatus) -> Option<&'static str> {
    match status {
        BatchStatus::Completed => Some("batch.completed"),
        BatchStatus::Cancelled => Some("batch.cancelled"),
        BatchStatus::Failed => Some("batch.failed"),
        BatchStatus::Expired => Some("batch.expired"),
        BatchStatus::InProgress
        | BatchStatus::Cancelling
        | BatchStatus::Finalizing
        | BatchStatus::Expiring => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_has_the_shape_of_openai() {
        let id = DeliveryId::from_bits(7);
        let event = WebhookEvent::new(id, 1_700_000_000_999, "response.completed", "resp_job_1".to_owned());
        let expected = json!({
            "id": "evt_00000000000000000000000007", "object": "event", "created_at": 1_700_000_000,
            "type": "response.completed", "data": {"id": "resp_job_1"},
        });
        assert_eq!(serde_json::to_value(&event).expect("JSON"), expected);
    }

    #[test]
    fn each_end_has_a_type() {
        let ended = |reason| response_event(JobStatus::Succeeded, Some(reason));
        assert_eq!(ended(FinishReason::Stop), Some("response.completed"));
        assert_eq!(ended(FinishReason::Length), Some("response.incomplete"));
        assert_eq!(response_event(JobStatus::Cancelled, None), Some("response.cancelled"));
        assert_eq!(response_event(JobStatus::Waiting, None), None);
        assert_eq!(batch_event(BatchStatus::Failed), Some("batch.failed"));
        assert_eq!(batch_event(BatchStatus::Expired), Some("batch.expired"));
        assert_eq!(batch_event(BatchStatus::Cancelling), None);
    }
}
