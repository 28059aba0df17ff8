# class: proc-peek
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    for path in ("/proc/self/mem", "/proc/thread-self/mem", "/proc/self/task/%d/mem" % os.getpid()):
        try:
            f = os.open(path, os.O_RDWR)
            return "own memory through a file: page protections are gone"
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
