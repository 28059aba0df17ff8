# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# note: the parent's JSON reader must limit its recursion
# never: ok sandbox_error crash
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    os.write(4, b'{"result":' + b"[" * 30000)
    os._exit(7)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
