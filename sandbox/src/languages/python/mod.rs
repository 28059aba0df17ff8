//! Python: the host's interpreter, the module lists, and the driver around a guest's program.

mod interpreter;
mod modules;
mod registry;

pub(crate) use interpreter::ONE_THREAD;
pub(crate) use modules::is_module_name;
pub(crate) use registry::PythonRegistry;
