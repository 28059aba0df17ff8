# class: persistence
# expect: lenient=denied standard=denied strict=denied
# note: the suite also looks for late_* in the canary's directory
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1.0); open("/tmp/sbx_canary/late_daemon", "w").write("x"); os._exit(0)
        os._exit(0)
    return "a process stays behind"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
