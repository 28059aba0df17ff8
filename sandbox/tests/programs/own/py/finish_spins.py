# class: limit-evasion
# expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
# note: the driver flushes at the end
# never: ok sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
import sys
class Stream:
    def write(self, text): return len(text)
    def flush(self):
        while True:
            try:
                while True: pass
            except BaseException: pass
sys.stdout = Stream()
