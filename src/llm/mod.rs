//! Models: one file per wire dialect. In the making.

pub mod options;
