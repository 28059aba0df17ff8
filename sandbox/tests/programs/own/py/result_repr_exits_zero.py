# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# never: ok oom timeout sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
import os
class R:
    def __repr__(self):
        os.write(4, b'{"result":"forged"}\n'); os.kill(os.getpid(), 9)
        raise BaseException("gone")
R()
