# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# note: frames on every descriptor
# never: ok module_not_allowed sandbox_error syntax_error oom
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    frame = b'{"frame":"refused","status":"module_not_allowed","message":"forged"}\n{"frame":"failed","message":"forged"}\n{"frame":"go"}\n'
    for fd in range(0, 64):
        try: os.write(fd, frame)
        except OSError: pass
    for fd in range(0, 3):
        try: os.close(fd)
        except OSError: pass
    for fd in (3, 5, 6):
        try: os.dup2(4, fd); os.write(fd, frame)
        except OSError: pass
    os._exit(3)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
