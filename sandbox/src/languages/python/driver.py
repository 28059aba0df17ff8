# The first part of the interpreter's program: the language check. `ending.py` runs the program.
#
# Nothing here is a boundary: the kernel policy is, and it is in force before a program is parsed. Frames come from this
# code: their pipe is closed before the guest runs.
import sys

# Our functions keep their own builtins: a guest can replace those of the interpreter.
__builtins__ = dict(vars(__builtins__))

FRAMES = 3
FILE = "<code>"
MAX_TEXT = 15000
MAX_NAME = 100  # of a module, in a message
# Released when a program's memory has run out, so that it can be reported. Pages that nobody writes cost nothing.
RESERVE = [bytes(4 << 20)]


def readable(text):
    """Text that can be encoded: a lone surrogate becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def report(**line):
    import json, os
    line = {key: readable(value) if isinstance(value, str) else value for key, value in line.items()}
    data = (json.dumps(line) + "\n").encode()
    while data:
        data = data[os.write(FRAMES, data):]


def fail(message):
    import os
    report(frame="failed", message=message)
    os._exit(70)


def warm_up(task):
    import warnings
    sys.path.extend(task["extra_path"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in task["warm_modules"]:
            try:
                __import__(name)
            except Exception:
                pass  # this Python lacks it (uu since 3.13): the guest's own import reports that
        exercise()
    # Also modules that parsing and reporting errors import late: our code must not import from the guest's directory.
    for name in ("ast", "traceback", "linecache", "tokenize", "__future__", "gc", "builtins", "threading", "atexit", "io"):
        __import__(name)


def copy_without_modes():
    """Modes and times cannot be changed here (EPERM). Copies go on without them, as on file systems that have none."""
    import dbm.dumb, shutil

    def tolerant(function):
        import functools

        @functools.wraps(function)
        def without_modes(*arguments, **options):
            try:
                return function(*arguments, **options)
            except PermissionError:
                return None
        return without_modes

    shutil.copymode, shutil.copystat = tolerant(shutil.copymode), tolerant(shutil.copystat)
    dbm.dumb._Database._chmod = tolerant(dbm.dumb._Database._chmod)


def forget(*packages):
    for name in [name for name in sys.modules if name.split(".")[0] in packages]:
        del sys.modules[name]


def is_allowed(name, allowed):
    return any(name == a or name.startswith(a + ".") for a in allowed)


def is_parent(name, allowed):
    return any(a.startswith(name + ".") for a in allowed)


class Rules:
    """What the level allows, and the messages of refusals."""

    def __init__(self, task):
        self.level = task["level"]
        self.allowed = task["allowed_modules"]
        self.refused = frozenset(task["refused_builtins"])
        self.wider, self.missing = task["wider_levels"], dict(task["missing_modules"])
        self.max_level = "lenient"

    def module(self, line, name, others=(), guarded=False):
        top, more = name.split(".")[0], ""
        if others:
            more += " Also refused: %s." % ", ".join("'%s' (line %d)" % (cut(other, MAX_NAME), at) for at, other in others)
        if guarded:
            more += " A try/except around the import does not help: the whole program is checked before it runs."
        if top in ("io", "StringIO"):
            more += " For csv.writer any object with a write(text) method does, and csv.reader takes text.splitlines()."
        return "line %d: module '%s' is not allowed at level %s. Allowed: %s.%s Way out: %s." % (
            line, cut(name, MAX_NAME), self.level, ", ".join(sorted(self.allowed)), more, self.way_out(name, top))

    def levels_up_to_max(self):
        """The more lenient levels that the caller may choose, the strictest first."""
        order = ["strict", "standard", "lenient"]
        return [(level, modules) for level, modules in self.wider
                if order.index(level) <= order.index(self.max_level)]

    def way_out(self, name, top):
        for missing in (name, top):
            if missing in self.missing:
                return ("'%s' is in extra_allowed_modules, but the server's Python cannot import it (%s), so no strictness "
                        "helps: the operator has to install it; do without it" % (missing, self.missing[missing]))
        # Python 3.9 has no such list: every module counts as part of the library.
        in_library = not top or top in getattr(sys, "stdlib_module_names", (top,))
        having = [level for level, modules in self.wider
                  if is_allowed(name, modules) or is_parent(name, modules) or level == "lenient" and in_library]
        reachable = [level for level, _ in self.levels_up_to_max() if level in having]
        if reachable:
            more = " (full standard library)" if reachable[0] == "lenient" else ""
            return "strictness=%s%s, or the operator adds it to extra_allowed_modules.%s" % (
                reachable[0], more, self.level)
        if having:
            return ("level %s has it, but this job may use %s at most, so no strictness helps: do without it, or tell the user"
                    % (having[0], self.max_level))
        return ("'%s' is not part of Python's standard library, so no strictness helps; if it is installed on the host, "
                "the operator can add it to extra_allowed_modules.%s; if it is not installed, do without it"
                % (cut(top, MAX_NAME), self.level))

    def builtin(self, line, name):
        lenient = any(level == "lenient" for level, _ in self.levels_up_to_max())
        way_out = ("strictness=lenient allows all builtins" if lenient else
                   "this job may use %s at most, so do without it" % self.max_level)
        return "line %d: builtin '%s' is not allowed at level %s. Not allowed: %s. Way out: %s." % (
            line, name, self.level, ", ".join(sorted(self.refused)), way_out)


class Check:
    """Finds refused imports and builtins. It respects scopes: a guest may define its own function `open`."""

    def __init__(self, rules, ast):
        self.rules, self.ast, self.refusals = rules, ast, []
        self.functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        self.scopes = self.functions + (ast.ClassDef,)

    def run(self, tree):
        everywhere = {name for node in self.ast.walk(tree) if isinstance(node, self.ast.Global) for name in node.names}
        stack = [(tree, ((True, self.bound(tree) | everywhere),))]
        while stack:
            node, scopes = stack.pop()
            self.look(node, scopes)
            if isinstance(node, self.scopes):
                scopes = scopes + ((not isinstance(node, self.ast.ClassDef), self.bound(node)),)
            stack.extend((child, scopes) for child in self.ast.iter_child_nodes(node))
        return self.first_refusal(tree)

    def first_refusal(self, tree):
        """Status and message of the first refusal. Names all refused modules, so that one correction is enough."""
        if not self.refusals:
            return None
        line, status, name = min(self.refusals)
        if status == "builtin_not_allowed":
            return status, self.rules.builtin(line, name)
        others = {}
        for at, other_status, other in sorted(self.refusals):
            if other_status == status and other != name:
                others.setdefault(other, at)
        return status, self.rules.module(line, name, [(at, other) for other, at in others.items()][:20],
                                         line in self.guarded_lines(tree))

    def guarded_lines(self, tree):
        """The lines of imports inside try/except."""
        lines = set()
        for node in self.ast.walk(tree):
            if isinstance(node, self.ast.Try) and node.handlers:
                lines.update(inner.lineno for statement in node.body for inner in self.ast.walk(statement)
                             if isinstance(inner, (self.ast.Import, self.ast.ImportFrom)))
        return lines

    def look(self, node, scopes):
        ast = self.ast
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.module(node.lineno, alias.name, is_parent(alias.name, self.rules.allowed))
        elif isinstance(node, ast.ImportFrom):
            self.import_from(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.rules.refused:
            last = len(scopes) - 1
            if not any(node.id in names for at, (is_open, names) in enumerate(scopes) if is_open or at == last):
                self.refusals.append((node.lineno, "builtin_not_allowed", node.id))

    def import_from(self, node):
        name = "." * node.level + (node.module or "")
        if name == "__future__":
            return
        if not is_allowed(name, self.rules.allowed) and is_parent(name, self.rules.allowed):
            for alias in node.names:
                full = name + "." + alias.name
                self.module(node.lineno, full, is_parent(full, self.rules.allowed))
            return
        self.module(node.lineno, name, False)

    def module(self, line, name, also):
        if not also and not is_allowed(name, self.rules.allowed):
            self.refusals.append((line, "module_not_allowed", name))

    def bound(self, scope):
        """The names that a scope binds itself (comprehensions belong to the enclosing scope)."""
        ast, names, free = self.ast, set(), set()
        stack = list(ast.iter_child_nodes(scope))
        while stack:
            node = stack.pop()
            if isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.alias):
                names.add((node.asname or node.name).split(".")[0])
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                free.update(node.names)
            else:
                name = getattr(node, "name", None) or getattr(node, "rest", None)
                if isinstance(name, str):
                    names.add(name)  # def, class, except, match
            if not isinstance(node, self.scopes):
                stack.extend(ast.iter_child_nodes(node))
        return names - free


def guest_builtins(rules, builtins):
    """A copy of the builtins for the guest. At run time, refused builtins raise the same message as the check."""
    names = dict(vars(builtins))
    real_import, loaded, frame = builtins.__import__, sys.modules, sys._getframe

    def checked_import(name, globals=None, locals=None, fromlist=(), level=0):
        # C code that the guest calls imports through the guest's frame (strptime imports _strptime, numpy datetime), with a
        # list where an import statement has a tuple or None. Such imports of loaded modules are allowed, and that of
        # _pydecimal, which is large and which decimal rarely needs.
        inner = (name in loaded or name == "_pydecimal") and (name.startswith("_") or type(fromlist) is list)
        if level == 0 and not inner and name != "__future__":
            if not is_allowed(name, rules.allowed) and not is_parent(name, rules.allowed):
                raise ImportError(rules.module(frame(1).f_lineno, name))
        return real_import(name, globals, locals, fromlist, level)

    def refusing(name):
        def refuse(*_, **__):
            raise NameError(rules.builtin(frame(1).f_lineno, name))
        return refuse

    for name in rules.refused:
        if name in names and not isinstance(names[name], type):
            names[name] = refusing(name)
    names["__import__"] = checked_import
    return names


class Guest:
    """The guest's program, parsed and checked."""

    def __init__(self, task):
        import ast, builtins, linecache
        self.code = task["code"]
        # The guest's own module, also for what looks it up by name (pickle, dataclasses, unittest).
        self.module = type(sys)("__main__")
        self.values = vars(self.module)
        self.values.update(__builtins__=builtins, __file__=FILE)
        # Counts lines like the parser: a form feed or U+2028 does not end a line.
        lines = [line + "\n" for line in self.code.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        linecache.cache[FILE] = (len(self.code), None, lines, FILE)
        tree = ast.parse(self.code, FILE)
        if task["language_check"]:
            # Prepared before the fork: each object that a child touches is a page to copy.
            task["rules"].max_level = task["max_level"]
            refusal = Check(task["rules"], ast).run(tree)
            if refusal:
                self.refuse(*refusal)
            self.values["__builtins__"] = task["builtins"]
        elif task["level"] == "lenient":
            builtins.exit = builtins.quit = sys.exit
        last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if last is not None:
            del tree.body[-1]
        # First: it validates the __future__ features.
        self.body = compile(tree, FILE, "exec", dont_inherit=True)
        flags = 0
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                for alias in node.names:
                    flags |= getattr(__import__("__future__"), alias.name).compiler_flag
        self.last = last and compile(ast.Expression(last.value), FILE, "eval", flags, dont_inherit=True)

    @staticmethod
    def refuse(status, message):
        import os
        report(frame="refused", status=status, message=cut_middle(message, MAX_TEXT))
        os._exit(1)

    def run(self):
        sys.modules["__main__"] = self.module
        exec(self.body, self.values)
        value = eval(self.last, self.values) if self.last else None
        return None if value is None else plain(repr(value))


def plain(text):
    """The text as a `str`: the guest's own kind of text may have any methods."""
    return "".join((text,))


def cut(text, most=MAX_TEXT):
    return text if text is None or len(text) <= most else text[:most] + "..."


def cut_middle(text, most):
    """Cuts the middle: in a traceback, the beginning shows where and the end shows what."""
    if text is None or len(text) <= most and len(text.encode("utf-8", "replace")) <= most:
        return text
    half = max(most // 2 - 20, 0)
    head = text[:half].encode("utf-8", "backslashreplace")[:half]
    tail = text[-half:].encode("utf-8", "backslashreplace")[-half:] if half else b""
    return "%s\n... %d characters left out ...\n%s" % (
        head.decode("utf-8", "ignore"), max(len(text) - 2 * half, 1), tail.decode("utf-8", "ignore"))


def parse(task):
    try:
        return Guest(task)
    except Exception as caught:  # nothing of the program has run
        # Without the frames, which hold the tree: the report needs memory.
        error = caught.with_traceback(None)
    if isinstance(error, MemoryError):
        RESERVE.clear()
        # The parent decides whether memory was really short.
        Guest.refuse("oom", "the program does not compile: it is nested too deeply for Python's parser")
    import traceback
    text = "".join(traceback.format_exception_only(type(error), error)).rstrip()
    if isinstance(error, RecursionError):
        text = "the program does not compile: it is nested too deeply for Python's compiler"
    elif not isinstance(error, SyntaxError):
        text = "the program does not compile: " + text
    elif error.lineno:
        text = "line %d: %s\n%s" % (error.lineno, cut(str(error.msg), 500), text)
    Guest.refuse("syntax_error", text)


def explain_refusals():
    """Gives messages to what the kernel policy refuses with a bare error. It is not the boundary."""
    processes = frozenset(("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "pty.spawn"))
    names = frozenset(("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"))

    def hook(event, arguments):
        if event in processes:
            raise PermissionError(1, "the sandbox allows no processes at this level; threads work")
        # A pair of unix sockets is allowed: asyncio needs one.
        if event in names or event == "socket.__new__" and arguments[1] not in (1, -1):
            raise PermissionError(1, "no network in the sandbox")

    sys.addaudithook(hook)


