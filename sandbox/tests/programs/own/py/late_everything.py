# class: persistence
# expect: lenient=denied standard=denied strict=denied
# note: acts in every hook that runs after the driver has finished
# never: sandbox_error ok
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
import atexit, gc, os, signal, sys, threading, time, weakref
def act(name):
    for path in ("/tmp/sbx_canary/late_" + name, "/tmp/sbx_pwned_late"):
        try:
            open(path, "w").write("x"); os.write(1, b"ESCAPED: wrote late by " + name.encode() + b"\n")
        except BaseException: pass
class Late:
    def __del__(self): act("del")
class Stream:
    encoding = "utf-8"
    def write(self, text): act("stream"); return len(text)
    def flush(self): act("flush")
    def __getattr__(self, name): act("attr"); raise AttributeError(name)
keep = Late(); keep.me = keep
atexit.register(act, "atexit")
weakref.finalize(act, act, "finalize")
gc.callbacks.append(lambda *_: act("gc"))
sys.settrace(lambda *_: None); sys.setprofile(lambda f, e, a: f.f_code.co_name == "report" and act("profile"))
sys.excepthook = lambda *_: act("excepthook"); sys.unraisablehook = lambda *_: act("unraisable")
signal.signal(signal.SIGALRM, lambda *_: act("alarm")); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
try: threading.Thread(target=lambda: (time.sleep(0.2), act("thread")), daemon=True).start()
except BaseException: pass
threading._shutdown = lambda: act("shutdown")
os._exit_real, os._exit = os._exit, lambda code: (act("exit"), os._exit_real(code))
sys.stdout = sys.stderr = Stream()
1 / 0
