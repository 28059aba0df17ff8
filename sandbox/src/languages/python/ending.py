# The second part of the interpreter's program: the run of the guest's program, and the report of how it ended.
#
# A guest can change everything that it shares with this code: builtins, modules, streams, descriptors, limits, tracing. What
# happens here must neither change how the program ended, nor show up as an error of ours. At worst, its text is lost.
# The result in the pipe may come from the guest.

RESULT = 4
MAX_FRAMES = 2000  # of a traceback; the recursion limit can be raised
LEAST_RECURSION = 1000  # what our own code needs


def guest_frames(one):
    """Reduces a traceback, and those of its causes, to the guest's own frames."""
    import traceback
    todo, seen = [one], set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.stack = traceback.StackSummary.from_list([f for f in one.stack if f.filename == FILE])
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]


def traceback_text(error):
    import traceback
    frames, length, last = error.__traceback__, 0, error.__traceback__
    while last is not None:
        last, length = last.tb_next, length + 1
    for _ in range(length - MAX_FRAMES):
        frames = frames.tb_next
    top = traceback.TracebackException(type(error), error, frames, limit=-MAX_FRAMES)
    guest_frames(top)
    text = "".join(top.format()).rstrip()
    if isinstance(error, ImportError) and "failed to map segment" in str(error):
        text += ("\nHint: native code is loaded before the program starts, never after: "
                 "the operator can list this very module, too, in extra_allowed_modules.")
    return text


def error_text(error):
    """The traceback; without one, name and message. Both come from the guest, and so may new errors."""
    try:
        return traceback_text(error)
    except BaseException:
        pass
    # A metaclass can hide the name.
    name = plain(type.__dict__["__name__"].__get__(type(error)))
    try:
        message = cut(plain(str(error)))
    except BaseException:
        message = ""
    return name + (": " + message if message else "")


def exit_code(leaving):
    """The exit code and the message of a SystemExit, also if the guest has tampered with it."""
    try:
        code = leaving.code
        if code is None:
            return 0, None
        if isinstance(code, int):
            return int.__and__(code, 0xFF), None
        return 1, plain(str(code))
    except BaseException:
        return 1, "SystemExit"


def print_error(text):
    """Prints why the program ended. The guest may have closed or replaced the stream."""
    text += "\n"
    try:
        sys.stderr.write(text)
    except BaseException:
        import os
        try:
            os.write(2, readable(text).encode())
        except BaseException:
            pass


def prepare_ending():
    """What a run needs after the guest, from modules that the guest may have emptied by then."""
    import atexit, os, threading
    from json.encoder import encode_basestring_ascii as quote
    write, shut_down, run_exit_functions = os.write, threading._shutdown, atexit._run_exitfuncs

    def finish():
        """Does what the interpreter does at its exit: threads, exit functions, buffers."""
        for step in (shut_down, run_exit_functions, lambda: sys.stdout.flush(), lambda: sys.stderr.flush()):
            try:
                step()
            except BaseException:
                pass

    def tell(result, error, out_of_memory):
        texts = ["null" if text is None else quote(readable(text)) for text in (result, error)]
        line = '{"result":%s,"error":%s,"out_of_memory":%s}\n' % (*texts, "true" if out_of_memory else "false")
        data = line.encode()
        while data:
            data = data[write(RESULT, data):]

    return finish, tell, os._exit


def run(guest, task):
    import gc, os
    gc.enable()  # not before: the collector would visit the tree of a large program again and again
    finish, tell, leave = prepare_ending()
    anything, exiting, recursion = BaseException, SystemExit, (sys.getrecursionlimit, sys.setrecursionlimit)
    stop_tracing = (sys.settrace, sys.setprofile)
    # Leaves half of standard error to the guest's own output.
    most = max(min(MAX_TEXT, task["stderr_bytes"] // 2), 0)
    code, ending, result, error, out_of_memory = 1, None, None, None, False
    report(frame="go")
    os.close(FRAMES)  # everything after this may come from the guest
    try:
        try:
            if task["level"] == "lenient":
                # Not before: a module in the guest's directory is guest code.
                sys.path.insert(0, task["directory"])
            result = guest.run()
            code = 0
        except anything as caught:
            ending = caught
        # Before any call of ours: a tracing function of the guest may raise in it.
        for stop in stop_tracing:
            try:
                stop(None)
            except anything:
                pass
        if recursion[0]() < LEAST_RECURSION:
            recursion[1](LEAST_RECURSION)
        if issubclass(type(ending), exiting):
            code, error = exit_code(ending)
        elif ending is not None:
            out_of_memory = issubclass(type(ending), MemoryError)
            RESERVE.clear() if out_of_memory else None
            error = error_text(ending)
        ending = None
        guest.values.clear() if out_of_memory else None
        if error is not None:
            print_error(cut_middle(error, most))
        finish()
        tell(cut(result), cut_middle(error, MAX_TEXT), out_of_memory)
    except anything:
        pass
    finally:
        while True:
            try:
                leave(code)
            except anything:
                pass  # of a signal handler


