# class: fd-leak
# expect: lenient=denied standard=denied strict=denied
# note: a program has only descriptors 0 to 2 and the report pipe (4)
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    extra = []
    for fd in [3] + list(range(5, 64)):
        try: extra.append((fd, oct(os.fstat(fd).st_mode)))
        except OSError: pass
    return "descriptors %r" % extra if extra else None
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
