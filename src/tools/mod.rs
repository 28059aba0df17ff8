//! What models may call. Owns the list of tools, the executor with its validation, and one file per tool; refuses to
//! know jobs, models and the store: whose call it is comes in with the context.
//!
//! A new tool is one file and one line in the list below (P6). A tool sees only its own arguments, already validated
//! against its own schema; parsing, coercion, dedup, parallel runs, timeouts, panics and the result's form are the
//! [`Executor`]'s.

mod approval;
mod arguments;
mod batch;
mod catalogue;
mod code;
mod coerce;
mod cut;
mod executor;
mod nearest;
mod outcome;
mod registry;
mod run;
mod schema;
mod waves;

pub use approval::{ApprovalRules, BadPattern};
pub use bash::{BadBashOption, BashOptions, BashRules};
pub use code::CodeRunner;
pub use executor::{Bounds, Error, Executor, Terms};
pub use registry::{JobDesk, ToolDeps, ToolOptions};

use crate::ports::Tool;

/// Makes a line of the list both the declaration of a tool's file and its registration.
macro_rules! tools {
    ($($tool:ident,)+) => {
        $(mod $tool;)+

        /// Every tool, built.
        pub fn registered(deps: &ToolDeps) -> Vec<Box<dyn Tool>> {
            vec![$($tool::register(deps)),+]
        }
    };
}

// One line per tool, in alphabetical order.
tools! {
    bash,
    calculator,
    execute_javascript,
    execute_python,
    get_weather,
    json_process,
    read_result,
    text_process,
}
