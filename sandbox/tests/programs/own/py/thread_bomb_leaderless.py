# class: process
# expect: lenient=denied standard=denied strict=denied
# note: the parent must count the threads of a process whose leader is a zombie
# never: sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import ctypes
    _l = ctypes.CDLL(None, use_errno=True)
    def SC(n, *a):
        r = _l.syscall(ctypes.c_long(n), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
        if r < 0: raise OSError(ctypes.get_errno(), "syscall %d" % n)
        return r
    import threading, time
    def on(): time.sleep(3)
    n = 0
    def more():
        nonlocal n
        while n < 400:
            t = threading.Thread(target=on, daemon=True); t.start(); n += 1
        print("ESCAPED: 400 threads", flush=True)
    threading.Thread(target=more).start()
    SC(60, 0)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
