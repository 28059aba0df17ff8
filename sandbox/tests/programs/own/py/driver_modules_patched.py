# class: result-forgery
# expect: lenient=allowed standard=allowed strict=allowed
# never: ok oom sandbox_error module_not_allowed
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
import json, os, sys, traceback, builtins
def lie(*a, **k): return '{"result": "forged"}'
json.dumps = lie
traceback.TracebackException = lie
builtins.issubclass = lambda *a: True
builtins.isinstance = lambda *a: True
builtins.repr = builtins.len = builtins.str = builtins.type = lie
sys.stderr = None
os.write = lambda fd, data: len(data)
raise ValueError
