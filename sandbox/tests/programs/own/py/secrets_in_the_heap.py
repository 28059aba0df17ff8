# class: env-leak
# expect: lenient=denied standard=denied strict=denied
# control: yes
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
def main():
    import gc, os, socket, sys
    for thing in gc.get_objects():
        if isinstance(thing, socket.socket): return "a socket object: %r" % thing
        if isinstance(thing, dict):
            for k, v in list(thing.items()):
                if isinstance(v, str) and "SBX_CANARY in the" in v and len(v) < 200: return "the environment's canary in a dictionary"
    if os.environ.get("SBX_CANARY"): return "the environment"
try:
    r = main()
    print('ESCAPED: ' + str(r) if r else 'BLOCKED')
except BaseException as e:
    print('BLOCKED ' + e.__class__.__name__ + ': ' + str(e)[:160])
