# class: proc-peek
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    for pid in (os.getppid(), 1, os.getppid() - 1):
        for name in ("exe", "cwd", "root", "fd/0", "fd/1", "fd/5", "ns/pid"):
            try: return "/proc/%d/%s -> %s" % (pid, name, os.readlink("/proc/%d/%s" % (pid, name)))
            except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
