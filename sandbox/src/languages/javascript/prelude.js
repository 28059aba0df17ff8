// Evaluated once in the guest's realm before the guest: console, timers, and the text of values.
// A function of (write, now, random) that returns the functions {result, next, crash} for our own code. It reads the
// built-ins only at its start, so a guest that replaces them can only break its own output.
(function (write, now, random) {
  'use strict';
  const { Object, Array, String, JSON, Map, Set, Date, RegExp, Error, Promise, Symbol, Math } = globalThis;
  const { getPrototypeOf, keys, getOwnPropertySymbols, defineProperty } = Object;
  const isArray = Array.isArray, stringify = JSON.stringify, ArrayBuffer_isView = ArrayBuffer.isView;
  const WIDTH = 72, DEPTH = 3, ITEMS = 100;

  const isIdentifier = (key) => /^[A-Za-z_$][\w$]*$/.test(key);
  const label = (key) => (typeof key === 'symbol' ? '[' + String(key) + ']' : isIdentifier(key) ? key : quote(key));
  const quote = (text) => "'" + stringify(text).slice(1, -1).replace(/\\"/g, '"').replace(/'/g, "\\'") + "'";

  function primitive(value) {
    switch (typeof value) {
      case 'string': return quote(value);
      case 'bigint': return String(value) + 'n';
      case 'number': return value === 0 && 1 / value < 0 ? '-0' : String(value);
      default: return String(value);
    }
  }

  function className(value) {
    const proto = getPrototypeOf(value);
    if (proto === null) return '[Object: null prototype]';
    const made = proto.constructor;
    return typeof made === 'function' && made.name ? made.name : '';
  }

  function wrap(open, parts, close, depth) {
    if (!parts.length) return open + close;
    const line = open + ' ' + parts.join(', ') + ' ' + close;
    const pad = '  '.repeat(depth + 1);
    if (line.length + depth * 2 <= WIDTH && !line.includes('\n')) return line;
    return open + '\n' + pad + parts.join(',\n' + pad) + '\n' + '  '.repeat(depth) + close;
  }

  function members(value, seen, depth) {
    const parts = [];
    for (const key of [...keys(value), ...getOwnPropertySymbols(value)]) {
      if (isArray(value) && typeof key === 'string' && /^\d+$/.test(key)) continue;
      if (ArrayBuffer_isView(value) && typeof key === 'string' && /^\d+$/.test(key)) continue;
      if (parts.length >= ITEMS) { parts.push('...'); break; }
      const field = Object.getOwnPropertyDescriptor(value, key);
      if (!field || !field.enumerable) continue;
      const shown = field.get ? '[Getter]' : field.set ? '[Setter]' : inspect(field.value, seen, depth + 1);
      parts.push(label(key) + ': ' + shown);
    }
    return parts;
  }

  function items(list, seen, depth) {
    const parts = [];
    const length = list.length;
    for (let i = 0; i < length && i < ITEMS; i++) parts.push(i in list ? inspect(list[i], seen, depth + 1) : '<empty>');
    if (length > ITEMS) parts.push('... ' + (length - ITEMS) + ' more');
    return parts;
  }

  function object(value, seen, depth) {
    const name = className(value);
    if (value instanceof Error) return errorText(value);
    if (typeof value === 'function') {
      const kind = /^class\b/.test(Function.prototype.toString.call(value)) ? 'class' : 'Function';
      return '[' + kind + (value.name ? (kind === 'class' ? ' ' : ': ') + value.name : ' (anonymous)') + ']';
    }
    if (value instanceof Date) return isNaN(value) ? 'Invalid Date' : Date.prototype.toISOString.call(value);
    if (value instanceof RegExp) return String(value);
    if (value instanceof Promise) return 'Promise {}';
    if (depth > DEPTH) return isArray(value) ? '[Array]' : '[' + (name || 'Object') + ']';
    const inner = [...seen, value];
    if (value instanceof Map) {
      const parts = [...value].slice(0, ITEMS).map(([k, v]) => inspect(k, inner, depth + 1) + ' => ' + inspect(v, inner, depth + 1));
      return wrap('Map(' + value.size + ') {', parts, '}', depth);
    }
    if (value instanceof Set) {
      return wrap('Set(' + value.size + ') {', [...value].slice(0, ITEMS).map((v) => inspect(v, inner, depth + 1)), '}', depth);
    }
    if (isArray(value)) {
      const prefix = name === 'Array' ? '' : name + '(' + value.length + ') ';
      return wrap(prefix + '[', [...items(value, inner, depth), ...members(value, inner, depth)], ']', depth);
    }
    if (ArrayBuffer_isView(value) && typeof value.length === 'number') {
      return wrap(name + '(' + value.length + ') [', items(value, inner, depth), ']', depth);
    }
    return wrap((name && name !== 'Object' ? name + ' ' : '') + '{', members(value, inner, depth), '}', depth);
  }

  function inspect(value, seen = [], depth = 0) {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return primitive(value);
    if (seen.includes(value)) return '[Circular]';
    try { return object(value, seen, depth); } catch (error) { return '[' + typeof value + ']'; }
  }

  // The stack without the frames of this file.
  function errorText(error) {
    let head = 'Error';
    try { head = String(error); } catch { }
    let stack = typeof error.stack === 'string' ? error.stack : '';
    stack = stack.split('\n').filter((line) => line.trim() && !line.includes('<prelude>')).join('\n');
    let text = stack.startsWith(head) ? stack : head + (stack ? '\n' + stack : '');
    if (error.cause !== undefined && !(error.cause === error)) text += '\n  [cause]: ' + inspect(error.cause);
    return text;
  }

  const wellFormed = String.prototype.toWellFormed;
  const show = (value) => wellFormed.call(typeof value === 'string' ? value : inspect(value));

  function format(first, ...rest) {
    if (typeof first !== 'string' || !rest.length || !first.includes('%')) return [first, ...rest].map(show).join(' ');
    const text = first.replace(/%[sdifjoOc%]/g, (spec) => {
      if (spec === '%%') return '%';
      if (!rest.length) return spec;
      const value = rest.shift();
      switch (spec) {
        case '%d': case '%f': return typeof value === 'bigint' ? value + 'n' : String(Number(value));
        case '%i': return String(Math.trunc(Number(value)));
        case '%j': return stringify(value);
        case '%c': return '';
        case '%s': return typeof value === 'object' && value !== null ? inspect(value) : String(value);
        default: return inspect(value);
      }
    });
    return [text, ...rest].map(show).join(' ');
  }

  // Writes long text in pieces, so that our code never holds a second copy of it.
  const PIECE = 65536;
  function print(stream, text) {
    for (let at = 0; at < text.length;) {
      let end = Math.min(at + PIECE, text.length);
      const last = text.charCodeAt(end - 1);
      if (end < text.length && last >= 0xd800 && last < 0xdc00) end++;
      write(stream, text.slice(at, end));
      at = end;
    }
  }

  let indent = '';
  const printer = (stream) => function (...values) {
    const text = values.length ? format(...values) : '';
    print(stream, (indent ? indent + text.replace(/\n/g, '\n' + indent) : text) + '\n');
  };
  const log = printer(1), warn = printer(2);
  const counts = new Map(), starts = new Map();
  const console = {
    log, info: log, debug: log, warn, error: warn,
    trace: (...values) => warn('Trace:', ...values),
    dir: (value) => log(inspect(value)),
    table: (value) => log(inspect(value)),
    assert: (condition, ...values) => { if (!condition) warn('Assertion failed', ...values); },
    count: (name = 'default') => { counts.set(name, (counts.get(name) || 0) + 1); log(name + ': ' + counts.get(name)); },
    time: (name = 'default') => { starts.set(name, now()); },
    timeEnd: (name = 'default') => { if (starts.has(name)) log(name + ': ' + (now() - starts.get(name)) + 'ms'); },
    group: (...values) => { if (values.length) log(...values); indent += '  '; },
    groupEnd: () => { indent = indent.slice(2); },
  };

  // Timers are stored here; our own code sleeps until the next one.
  let timers = [], lastTimer = 0;
  const arm = (repeat) => function (callback, delay, ...values) {
    if (typeof callback !== 'function') throw new TypeError('The first argument must be a function');
    const wait = Math.max(1, Math.min(Number(delay) || 0, 2147483647));
    timers.push({ id: ++lastTimer, due: now() + wait, wait, repeat, callback, values });
    return lastTimer;
  };
  const disarm = (id) => { timers = timers.filter((timer) => timer.id !== id); };
  // Runs the first timer that is due. Returns the milliseconds until the next one, or -1 without timers.
  function next() {
    let first = null;
    for (const timer of timers) if (!first || timer.due < first.due) first = timer;
    if (!first) return -1;
    const left = first.due - now();
    if (left > 0) return left;
    if (first.repeat) first.due = now() + first.wait; else disarm(first.id);
    first.callback(...first.values);
    return 0;
  }

  const define = (name, value) => defineProperty(globalThis, name, { value, writable: true, configurable: true });
  // Seeded for each run: the engine is a copy of one that was created long before.
  defineProperty(Math, 'random', { value: random, writable: true, configurable: true });
  define('console', console);
  define('print', log);
  define('setTimeout', arm(false));
  define('setInterval', arm(true));
  define('clearTimeout', disarm);
  define('clearInterval', disarm);
  define('queueMicrotask', (callback) => { Promise.resolve().then(callback); });

  const result = (value) => (value === undefined ? null : wellFormed.call(inspect(value)));
  const crash = (error) => wellFormed.call(error instanceof Error ? errorText(error) : 'Uncaught ' + inspect(error));
  return { result, next, crash };
})
