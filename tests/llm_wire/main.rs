//! The models' wire against real sockets: providers that answer, hang, drip, refuse, and calls that are cut short.

#[cfg(test)]
mod anthropic;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod liking;
