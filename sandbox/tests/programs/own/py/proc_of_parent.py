# class: proc-peek
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    for pid in (os.getppid(), 1):
        for name in ("environ", "maps", "mem", "cmdline", "status", "stat", "io", "limits", "fd/0", "root/etc/passwd", "task"):
            try:
                path = "/proc/%d/%s" % (pid, name)
                os.listdir(path) if name == "task" else open(path, "rb").read(1)
                return "%s is readable" % path
            except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
