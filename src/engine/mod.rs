//! engine: in the making.
