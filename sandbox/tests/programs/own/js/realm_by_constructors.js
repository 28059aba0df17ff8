// class: vm-escape
// expect: lenient=denied standard=denied strict=denied
// note: the host's functions must not come from a realm with more rights
// never: sandbox_error
// control: yes
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  const F = console.log.constructor, G = (async () => { }).constructor, H = (function* () { }).constructor;
  for (const make of [F, G, H, eval.constructor, setTimeout.constructor])
    for (const name of ['std', 'os', 'require', 'process', 'scriptArgs', 'bjson', '__prelude', 'write', 'load'])
      try { const v = make('return typeof ' + name)(); if (typeof v === 'string' && v !== 'undefined') return name + ' is ' + v } catch { }
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
