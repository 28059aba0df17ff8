//! A scripted job on a terminal, with and without colour, and into pipes.
