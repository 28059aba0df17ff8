# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# never: ok sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    frame = b'{"frame":"failed","message":"forged"}\n'
    for pid in ("self", str(os.getpid()), str(os.getppid())):
        for fd in range(0, 64):
            for flags in (os.O_WRONLY, os.O_RDWR):
                try: os.write(os.open("/proc/%s/fd/%d" % (pid, fd), flags | os.O_NONBLOCK), frame)
                except OSError: pass
    os._exit(4)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
