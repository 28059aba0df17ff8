# class: network
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import socket
    a, b = socket.socketpair()
    for how in (lambda: a.bind("\0sbx"), lambda: a.connect("/run/systemd/journal/dev-log"), lambda: a.listen(), lambda: a.sendmsg([b"x"], [(1, 1, b"\0" * 4)])):
        try: how(); return "a pair's end does more than talk to its twin"
        except OSError: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
