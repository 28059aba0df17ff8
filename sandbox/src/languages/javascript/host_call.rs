//! The guest's end of host calls: `__host(name, argumentsJson)`, one request and one answer at a time.
//!
//! The function exists only in runs that have a host. Its checks help honest programs; the server checks
//! everything again.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};

use rquickjs::object::Property;
use rquickjs::{Ctx, Exception, Function, Object};

use crate::host_calls::{ANSWERED, LENGTH_BYTES, MAX_HOST_ANSWER_BYTES, MAX_HOST_REQUEST_BYTES};

/// The function's name.
const NAME: &str = "__host";

/// Defines the frozen function in the program's realm.
pub(super) fn define(ctx: &Ctx<'_>, socket: File) -> rquickjs::Result<()> {
    let socket = RefCell::new(socket);
    let call = move |ctx: Ctx<'_>, name: String, arguments: String| -> rquickjs::Result<String> {
        let fail = |message: &str| Exception::throw_message(&ctx, message);
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(fail("a host call needs a name on one line"));
        }
        if name.len() + 1 + arguments.len() > MAX_HOST_REQUEST_BYTES {
            return Err(fail(&format!(
                "the arguments of '{name}' are too long: the limit is {MAX_HOST_REQUEST_BYTES} bytes"
            )));
        }
        let mut socket = socket.try_borrow_mut().map_err(|_| fail("a host call is under way"))?;
        match call_host(&mut socket, &name, &arguments) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(refusal)) => Err(fail(&refusal)),
            Err(error) => Err(fail(&format!("the host does not answer: {error}"))),
        }
    };
    let function = Function::new(ctx.clone(), call)?.with_name(NAME)?;
    let freeze: Function<'_> = ctx.globals().get::<_, Object<'_>>("Object")?.get("freeze")?;
    freeze.call::<_, ()>((function.clone(),))?;
    // Not writable, not configurable, not enumerable.
    ctx.globals().prop(NAME, Property::from(function))
}

/// Sends one request and reads the answer: the text, or the refusal.
fn call_host(socket: &mut File, name: &str, arguments: &str) -> io::Result<Result<String, String>> {
    let length = u32::try_from(name.len() + 1 + arguments.len()).map_err(io::Error::other)?;
    let request = [&length.to_be_bytes(), name.as_bytes(), b"\n", arguments.as_bytes()].concat();
    socket.write_all(&request)?;
    let mut tag = [0; 1];
    socket.read_exact(&mut tag)?;
    let mut length = [0; LENGTH_BYTES];
    socket.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > MAX_HOST_ANSWER_BYTES {
        return Err(io::Error::other("its answer is too long"));
    }
    let mut text = vec![0; length];
    socket.read_exact(&mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    Ok(if tag == [ANSWERED] { Ok(text) } else { Err(text) })
}
