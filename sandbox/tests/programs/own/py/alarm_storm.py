# class: limit-evasion
# expect: lenient=killed-by-limit standard=killed-by-limit strict=killed-by-limit
# never: ok sandbox_error
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import signal, time
    signal.signal(signal.SIGALRM, lambda *_: None)
    try: signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    except OSError: pass
    while True:
        try: time.sleep(1)
        except BaseException: pass
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
