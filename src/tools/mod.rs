//! tools: in the making.
