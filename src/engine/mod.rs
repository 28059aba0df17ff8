//! Running jobs. Owns the loop: `turn` decides, `driver` performs, `worker` claims and finishes, `pool` keeps the
//! threads. Refuses to know any tool, any wire dialect and any file format: all of that comes in through [`crate::ports`].

pub mod driver;
pub mod pool;
pub mod turn;
pub mod worker;
