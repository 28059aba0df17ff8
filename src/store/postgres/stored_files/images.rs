//! Images of messages: each job, line of a batch, schedule and row of added items names the contents that it
//! needs, until it is removed.

use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::message::Message;
use crate::ports::StoreError;
use crate::store::postgres::session::{sql_number, sql_user};
use crate::store::postgres::writer::act::Act;

/// What names images: a job, a schedule, or items that were added to a conversation. A line of a batch is
/// the job that it becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageHolder(pub(crate) String);

impl ImageHolder {
    /// Items with this number in the order of acceptance.
    pub(crate) fn of_items(accept: u64) -> Self {
        Self(format!("items {accept}"))
    }
}

impl From<JobId> for ImageHolder {
    fn from(job: JobId) -> Self {
        Self(job.to_string())
    }
}

impl From<ScheduleId> for ImageHolder {
    fn from(schedule: ScheduleId) -> Self {
        Self(schedule.to_string())
    }
}

impl Act<'_> {
    /// The holder needs the images of its messages from here on. Those that it has already count once.
    pub(crate) async fn keep_images(
        &mut self,
        user: UserId,
        holder: ImageHolder,
        messages: &[Message],
    ) -> Result<(), StoreError> {
        let images = messages.iter().flat_map(Message::images);
        let (contents, bytes): (Vec<String>, Vec<i64>) =
            images.map(|image| (image.content.to_string(), sql_number(image.bytes))).unzip();
        if contents.is_empty() {
            return Ok(());
        }
        let sql = "WITH added AS (INSERT INTO images (holder, content, user_id, bytes) \
                     SELECT $1, i.content, $2, i.bytes FROM unnest($3::text[], $4::bigint[]) AS i(content, bytes) \
                     ON CONFLICT DO NOTHING RETURNING bytes) \
                   INSERT INTO file_totals AS t (user_id, image_bytes) \
                     SELECT $2, sum(bytes)::bigint FROM added HAVING sum(bytes) > 0 \
                   ON CONFLICT (user_id) DO UPDATE SET image_bytes = t.image_bytes + excluded.image_bytes";
        self.session.send(sql, &[&holder.0, &sql_user(user), &contents, &bytes]).await
    }

    /// A removed holder needs its images no longer.
    pub(crate) async fn release_images(
        &mut self,
        user: UserId,
        holder: ImageHolder,
    ) -> Result<(), StoreError> {
        let sql = "WITH released AS (DELETE FROM images WHERE holder = $1 AND user_id = $2 RETURNING bytes), \
                   freed AS (SELECT sum(bytes)::bigint AS bytes FROM released HAVING count(*) > 0) \
                   UPDATE file_totals SET image_bytes = greatest(image_bytes - freed.bytes, 0) FROM freed \
                   WHERE user_id = $2";
        self.session.send(sql, &[&holder.0, &sql_user(user)]).await
    }
}
