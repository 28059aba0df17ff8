# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# never: ok sandbox_error crash oom
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
import sys
class Code(int):
    def __and__(self, other): return 0
    __rand__ = __index__ = __int__ = __and__
class Leave(SystemExit):
    @property
    def code(self): raise KeyboardInterrupt
try: sys.stdout.flush()
finally: raise Leave(Code(3))
