//! `/api`.

use super::Drawing;
use super::operation::Operation;
use crate::http::api::auth::mode;
use crate::http::api::envelope::Found;
use crate::http::api::models;
use crate::http::room::Room;

/// Draws all of it.
pub(super) fn draw(drawing: &mut Drawing, _room: &Room) {
    let mode = Operation::new("GET", "/api/auth/mode", "Whether there are accounts").public();
    let mode = mode.answers::<Found<mode::View>>(drawing, 200, "single or multi");
    drawing.add(mode);
    let models = Operation::new("GET", "/api/models", "The models").public();
    let models = models.answers::<Found<Vec<models::View>>>(drawing, 200, "Id and name of each");
    drawing.add(models);
}
