# class: file-read
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    for path in ("/proc/self/root", "/proc/thread-self/root", "/proc/self/cwd/../../../..", "/proc/1/root", "/dev/fd/../../root", "/./tmp/../proc/self/root"):
        try: return "through %s: %s" % (path, open(path + "/tmp/sbx_canary/secret.txt").read())
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
