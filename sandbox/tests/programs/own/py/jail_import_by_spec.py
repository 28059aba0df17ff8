# class: pyjail
# expect: lenient=denied standard=denied strict=denied
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
try:
    import collections
    m = collections.__loader__.load_module if hasattr(collections.__loader__, "load_module") else None
    posix = __builtins__["__import__"]("collections").abc.sys.modules["posix"]
    fd = posix.open("/tmp/sbx_canary/secret.txt", 0)
    print("ESCAPED: " + posix.read(fd, 20).decode())
except BaseException as e:
    print("BLOCKED", type(e).__name__)
