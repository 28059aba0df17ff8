# class: state-leak
# expect: lenient=denied standard=denied strict=denied
# note: children of one zygote: a run must not find leftovers of an earlier run
# control: none
# protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
import builtins, gc, linecache, os, sys
MARK = "_".join(("SBX", "LEFT", "BEHIND"))
def look():
    for module in list(sys.modules.values()):
        if hasattr(module, MARK): return "a module holds it"
    if any(MARK in str(k) for k in list(os.environ) + list(sys.path) + list(linecache.cache)): return "environment, path or cache hold it"
    for thing in gc.get_objects():
        if type(thing) is dict and MARK in thing: return "a dictionary holds it"
        if type(thing) is list and any(type(x) is str and x == MARK + "!" for x in thing[:5]): return "a list holds it"
    return None
found = look()
print("ESCAPED: " + found if found else "BLOCKED")
setattr(sys, MARK, 1); setattr(builtins, MARK, 1); os.environ[MARK] = "1"; linecache.cache[MARK] = (1, None, ["x"], MARK)
for module in list(sys.modules.values()):
    try: setattr(module, MARK, 1)
    except Exception: pass
kept = [MARK + "!"]; kept.append(kept); type(kept)
sys.path.append(MARK); sys.modules[MARK] = sys
