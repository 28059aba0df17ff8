# class: privilege
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os, stat
    for n, how in enumerate((lambda p: os.open(p, os.O_CREAT | os.O_WRONLY, 0o6755), lambda p: os.chmod(p, 0o6755), lambda p: os.mkdir(p, 0o6755), lambda p: os.fchmod(os.open(p, os.O_CREAT | os.O_RDWR, 0o600), 0o6755))):
        p = "s%d" % n
        try:
            if n == 1: open(p, "w").close()
            how(p)
        except OSError: pass
        try:
            if os.stat(p).st_mode & 0o6000: return "%s has set-id bits" % p
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
