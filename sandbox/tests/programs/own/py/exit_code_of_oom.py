# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# note: the exit code of the JavaScript host for out of memory
# never: ok oom sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    os._exit(9)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
