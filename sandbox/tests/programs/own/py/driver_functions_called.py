# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# note: the driver's own functions, called and replaced
# never: ok module_not_allowed oom
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
import sys, gc
def drivers():
    f = sys._getframe()
    while f:
        yield f.f_globals
        f = f.f_back
for names in drivers():
    for name in ("report", "fail", "Guest", "finish", "cut", "traceback_text", "print_error"):
        if name in names: names[name] = lambda *a, **k: None
    if "report" in names:
        names["FRAMES"] = 4; names["RESULT"] = 1
for thing in gc.get_objects():
    if getattr(thing, "__name__", "") in ("report", "fail") and callable(thing):
        try: thing(4, frame="refused", status="module_not_allowed", message="forged")
        except BaseException: pass
        try: thing("forged")
        except BaseException: pass
raise RuntimeError
