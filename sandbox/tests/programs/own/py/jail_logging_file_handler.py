# class: pyjail
# expect: lenient=denied standard=denied strict=denied
# note: an allowed module's own file access
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
try:
    import logging
    logging.FileHandler("/tmp/sbx_canary/late_log").close()
    print("ESCAPED: a log file outside")
except BaseException as e: print("BLOCKED", type(e).__name__)
