# class: fd-leak
# expect: lenient=denied standard=denied strict=denied
# note: the descriptor of the driver's program must be closed
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    for fd in range(3, 64):
        for path in ("/proc/self/fd/%d", "/dev/fd/%d"):
            try: text = os.readlink(path % fd)
            except OSError: continue
            if "memfd" in text or "socket" in text: return "descriptor %d is %s" % (fd, text)
        try:
            if os.pread(fd, 16, 0): return "descriptor %d can be read from its start: the assignment" % fd
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
