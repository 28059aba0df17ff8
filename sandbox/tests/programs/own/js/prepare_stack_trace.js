// class: vm-escape
// expect: lenient=denied standard=denied strict=denied
// note: call sites could expose the closures of the prelude
// never: sandbox_error
// control: none
// protocol: prints 'ESCAPED: ...' when the attack works, 'BLOCKED ...' (or dies) when it does not
function attack() {
  const seen = new Set(), includes = String.prototype.includes;
  Error.prepareStackTrace = (e, frames) => { for (const f of frames) { const g = f.getFunction?.(); if (typeof g === 'function') seen.add(g) } return '' };
  String.prototype.includes = function (...a) { try { null.x } catch (e) { e.stack } return includes.apply(this, a) };
  console.log('%s', 'x');
  String.prototype.includes = includes;
  for (const g of seen) {
    if (!(g instanceof Function)) return 'a function of another realm: ' + g;
    try { const r = g('typeof std + typeof os'); if (/object/.test(String(r))) return 'a host function evaluates: ' + r } catch { }
  }
}
try { const r = attack(); console.log(r ? 'ESCAPED: ' + r : 'BLOCKED'); } catch (e) { console.log('BLOCKED ' + e); }
