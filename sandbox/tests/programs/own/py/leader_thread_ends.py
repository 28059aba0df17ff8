# class: limit-evasion
# expect: lenient=killed-by-limit standard=denied strict=denied
# note: the first thread exits and another one continues: the run has not ended
# never: ok sandbox_error
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
    def on():
        while True: time.sleep(0.01)
    try: threading.Thread(target=on).start()
    except BaseException: __import__("os")._exit(8)
    SC(60, 0)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
