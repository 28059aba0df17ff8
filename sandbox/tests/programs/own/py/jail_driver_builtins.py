# class: pyjail
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
# The check's own builtins are a copy: the real ones hang on every function of the library.
def real():
    try: import json
    except ImportError: import statistics as json
    for thing in vars(json).values():
        names = getattr(thing, "__globals__", None)
        if names: return names["__builtins__"]
b = real()
b = b if type(b) is dict else b.__dict__
try:
    print("ESCAPED: " + b["open"]("/tmp/sbx_canary/secret.txt").read())
except BaseException as e:
    print("BLOCKED", type(e).__name__)
