// Preact, its template tag and the bridge from signals to components, in one place.

import { h, render, Fragment } from "../vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.js";
import htm from "../vendor/htm.js";
import { computed, effect, signal } from "../vendor/signals-core.js";

export const html = htm.bind(h);
export { Fragment, computed, effect, h, render, signal };
export { useEffect, useLayoutEffect, useMemo, useRef, useState };

/** The value of a signal; the component is drawn again when it changes. */
export function useSignal(source) {
  const [value, setValue] = useState(() => source.peek());
  useLayoutEffect(() => effect(() => setValue(() => source.value)), [source]);
  return value;
}

/**
 * Loads data for a component: `{data, error, isLoading, reload}`. A later load wins over an earlier one.
 * `load` gets an AbortSignal; `deps` start it again; `everyMs` repeats it while the page is visible.
 */
export function useData(load, deps, everyMs = 0) {
  const [state, setState] = useState({ data: undefined, error: undefined, isLoading: true });
  const current = useRef(null);
  const run = () => {
    current.current?.abort();
    const control = new AbortController();
    current.current = control;
    load(control.signal).then(
      (data) => control.signal.aborted || setState({ data, error: undefined, isLoading: false }),
      (error) =>
        control.signal.aborted || setState((old) => ({ data: old.data, error, isLoading: false })),
    );
  };
  useEffect(() => {
    setState((old) => ({ ...old, isLoading: true }));
    run();
    const tick = () => document.visibilityState === "visible" && run();
    const timer = everyMs > 0 ? setInterval(tick, everyMs) : 0;
    if (everyMs > 0) document.addEventListener("visibilitychange", tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
      current.current?.abort();
    };
  }, deps);
  return { ...state, reload: run };
}

/** The current time, drawn again every `everyMs` while `isRunning`. */
export function useNow(isRunning, everyMs = 1000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!isRunning) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [isRunning, everyMs]);
  return now;
}
