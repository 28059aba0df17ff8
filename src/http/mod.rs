//! http: in the making.
