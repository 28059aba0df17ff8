# class: pyjail
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
import warnings
try: print("ESCAPED: " + warnings.sys.modules["builtins"].open("/tmp/sbx_canary/secret.txt").read())
except BaseException as e: print("BLOCKED", type(e).__name__)
