# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# never: ok oom sandbox_error timeout
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os
    # Reads its own report from the pipe and writes another one: the text may change, the status must not.
    p = os.open("/proc/self/fd/4", os.O_RDONLY | os.O_NONBLOCK)
    os.write(4, b'{"result":"forged","status":"ok","exit_code":0,"out_of_memory":true}\n' * 50)
    os._exit(5)
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
