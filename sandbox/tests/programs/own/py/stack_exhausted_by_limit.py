# class: stack
# expect: lenient=allowed standard=allowed strict=allowed
# never: ok sandbox_error oom
# control: destructive
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
import sys
sys.setrecursionlimit(10**9)
class A:
    def __getattr__(self, name): return getattr(self, name + "x")
f = lambda: f()
try: A().x
except BaseException: pass
f()
