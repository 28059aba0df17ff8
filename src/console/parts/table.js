// A table of pages from the server with few rows in the DOM: 100,000 rows scroll as one page does.
//
// `usePages` keeps the rows: older pages come while the user scrolls, newer rows are looked for from time to
// time. New rows do not move what is under the pointer; they wait until it has gone or a button is pressed.
// `PagedTable` draws the rows near the window. Rows have one height, which is measured.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/ui.js";
import { number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { Button, Failure } from "./basics.js";
import { Icon } from "./icons.js";

/** Rows drawn above and below the window, so that the tabulator key finds the next one. */
const SPARE_ROWS = 12;
/** The next page is asked for when so few rows are left. */
const NEAR_END_ROWS = 80;
/** Rows outside the first page that are looked up in one round. */
const MOST_LOOKUPS = 12;

/** The rows of a list; knows nothing of the DOM. */
class Pages {
  constructor(change) {
    Object.assign(this, { change, rows: [], places: new Map(), waiting: [], cursor: null, held: new Set() });
    Object.assign(this, { isLoading: false, hasGap: false, error: null, isLoaded: false, visible: [0, 0], abort: null });
  }

  start(source) {
    this.abort?.abort();
    this.abort = new AbortController();
    Object.assign(this, { ...source, rows: [], places: new Map(), waiting: [], cursor: null, hasGap: false });
    Object.assign(this, { isLoaded: false, isLoading: false, error: null });
    return this.more();
  }

  /** Loads the next, older page. */
  async more() {
    if (this.isLoading || (this.isLoaded && !this.cursor)) return;
    const { signal } = this.abort;
    this.isLoading = true;
    if (this.rows.length === 0) this.change();
    try {
      const page = await this.load(this.cursor ?? undefined, signal);
      if (signal.aborted) return;
      this.append(page.rows);
      Object.assign(this, { cursor: page.next, isLoaded: true, error: null });
    } catch (error) {
      if (signal.aborted) return;
      this.error = error;
    }
    this.isLoading = false;
    this.change();
  }

  append(rows) {
    for (const row of rows) {
      if (this.places.has(row.id)) continue;
      this.places.set(row.id, this.rows.length);
      this.rows.push(row);
    }
  }

  /** Asks for newer rows and for news of those that are shown. */
  async refresh() {
    if (!this.isLoaded || this.isLoading) return;
    const { signal } = this.abort;
    try {
      const page = await this.load(undefined, signal);
      if (signal.aborted) return;
      this.merge(page.rows);
      await this.lookUp(new Set(page.rows.map((row) => row.id)), signal);
      if (signal.aborted) return;
      this.error = null;
    } catch (error) {
      if (signal.aborted) return;
      this.error = error;
    }
    this.change();
  }

  merge(rows) {
    const known = rows.findIndex((row) => this.places.has(row.id));
    const fresh = known < 0 ? rows : rows.slice(0, known);
    // More new rows than one page holds: only a new start shows them in order.
    this.hasGap = known < 0 && rows.length > 0 && this.rows.length > 0;
    for (const row of rows) this.replace(row);
    this.waiting = fresh;
    if (this.held.size === 0) this.showWaiting();
  }

  replace(row) {
    const place = this.places.get(row.id);
    if (place !== undefined) this.rows[place] = row;
  }

  /** Rows in sight that may still change and are older than the first page. */
  async lookUp(seen, signal) {
    if (!this.loadOne) return;
    const open = this.rows
      .slice(...this.visible)
      .filter((row) => !seen.has(row.id) && !this.isSettled(row))
      .slice(0, MOST_LOOKUPS);
    const found = await Promise.all(open.map((row) => this.loadOne(row, signal).catch(() => null)));
    for (const row of found) if (row) this.replace(row);
  }

  showWaiting() {
    if (this.waiting.length === 0) return;
    if (this.hasGap) {
      this.start({});
      return;
    }
    this.rows = [...this.waiting, ...this.rows];
    this.waiting = [];
    this.places = new Map(this.rows.map((row, at) => [row.id, at]));
    this.change();
  }

  /** Keeps new rows back for a reason, or no longer. */
  hold(reason, isHeld) {
    if (isHeld) this.held.add(reason);
    else if (this.held.delete(reason) && this.held.size === 0) this.showWaiting();
  }

  remove(id) {
    this.rows = this.rows.filter((row) => row.id !== id);
    this.places = new Map(this.rows.map((row, at) => [row.id, at]));
    this.change();
  }
}

/**
 * The pages of a list. `load(cursor, abort)` gives `{rows, next}`, newest first; every row has an `id`.
 * `loadOne(row, abort)` and `isSettled(row)` keep older rows in sight up to date. `deps` start anew.
 */
export function usePages({ load, loadOne, isSettled = () => true }, deps, everyMs = 0) {
  const [, draw] = useState(0);
  const pages = useMemo(() => new Pages(() => draw((old) => old + 1)), []);
  Object.assign(pages, { load, loadOne, isSettled });
  useEffect(() => {
    pages.start({});
    return () => pages.abort.abort();
  }, deps);
  useEffect(() => {
    if (!everyMs) return undefined;
    let timer = 0;
    const tick = async () => {
      if (document.visibilityState === "visible") await pages.refresh();
      timer = setTimeout(tick, everyMs);
    };
    timer = setTimeout(tick, everyMs);
    return () => clearTimeout(timer);
  }, [everyMs, ...deps]);
  return pages;
}

/** Which of `count` equal rows are near the window: `{body, start, end, above, below}`; the heights in pixels. */
export function useWindow(count, guessPx = 36, frame = null) {
  const body = useRef(null);
  const rowPx = useRef(guessPx);
  const [range, setRange] = useState([0, 60]);
  const look = () => {
    if (!body.current) return;
    const first = body.current.querySelector("[data-row]");
    if (first?.offsetHeight) rowPx.current = first.offsetHeight;
    const edge = frame?.current?.getBoundingClientRect();
    const top = body.current.getBoundingClientRect().top - (edge?.top ?? 0);
    const height = edge?.height ?? window.innerHeight;
    const start = Math.max(0, Math.floor(-top / rowPx.current) - SPARE_ROWS);
    const end = Math.ceil((height - top) / rowPx.current) + SPARE_ROWS;
    setRange((old) => (old[0] === start && old[1] === end ? old : [start, Math.max(end, start)]));
  };
  useEffect(() => {
    let asked = 0;
    const later = () => {
      if (!asked) asked = requestAnimationFrame(() => ((asked = 0), look()));
    };
    const target = frame?.current ?? window;
    target.addEventListener("scroll", later, { passive: true });
    addEventListener("resize", later);
    return () => {
      cancelAnimationFrame(asked);
      target.removeEventListener("scroll", later);
      removeEventListener("resize", later);
    };
  }, []);
  useLayoutEffect(look, [count]);
  const start = Math.min(range[0], Math.max(0, count - 1));
  const end = Math.min(range[1], count);
  return { body, start, end, above: start * rowPx.current, below: Math.max(0, count - end) * rowPx.current };
}

function Spacer({ heightPx, columns }) {
  if (heightPx <= 0) return null;
  return html`<tr class="spacer" aria-hidden="true"><td colspan=${columns} style=${{ height: `${heightPx}px` }}></td></tr>`;
}

/** Arrow keys walk from link to link. */
function walk(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const row = step && event.target.closest?.("[data-row]");
  const link = row?.[step]?.querySelector?.("a, button");
  if (!link || event.target.matches("input, select, textarea")) return;
  event.preventDefault();
  link.focus();
}

function Row({ row, at, columns }) {
  return html`<tr data-row class="link" aria-rowindex=${at + 2} role="row">
    ${columns.map(
      (column) => html`<td key=${column.key} role="cell" class="cell-${column.key} ${column.isNumber ? "number" : ""}">${column.cell(row)}</td>`,
    )}
  </tr>`;
}

/** Rows are drawn again when they, their place or the columns change, and for their times every half minute. */
function useRows(rows, start, end, columns) {
  const drawn = useRef(new Map());
  const before = drawn.current;
  const clock = Math.floor(Date.now() / 30_000);
  drawn.current = new Map();
  return rows.slice(start, end).map((row, offset) => {
    const at = start + offset;
    const old = before.get(row.id);
    const isSame = old?.row === row && old.at === at && old.columns === columns && old.clock === clock;
    const kept = isSame ? old : { row, at, columns, clock, node: html`<${Row} key=${row.id} ...${{ row, at, columns }} />` };
    drawn.current.set(row.id, kept);
    return kept.node;
  });
}

/** Rows that arrived and wait. */
function Waiting({ pages, label }) {
  const count = pages.waiting.length;
  if (count === 0) return null;
  const text = pages.hasGap ? t("Many new rows") : label(number(count));
  const show = () => {
    pages.showWaiting();
    if (scrollY > 200) scrollTo({ top: 0 });
  };
  return html`<div class="table-new"><button type="button" class="button small" onClick=${show}><${Icon} name="send" /><span>${text}</span></button></div>`;
}

function Foot({ pages }) {
  if (pages.error) return html`<${Failure} error=${pages.error} onRetry=${() => (pages.isLoaded ? pages.refresh() : pages.more())} />`;
  if (pages.isLoading) return html`<p class="table-foot faint" role="status">${t("Loading …")}</p>`;
  if (pages.cursor) return html`<p class="table-foot"><${Button} kind="small" label=${t("Load more")} onClick=${() => pages.more()} /></p>`;
  return null;
}

/**
 * The table of `usePages`. `columns`: `{key, title, cell(row), isNumber}`; the class `cell-<key>` sets widths.
 * `children` stands there when there are no rows; `newLabel(n)` is the text of the button for new rows.
 */
export function PagedTable({ pages, columns, label, name = "", newLabel = (n) => t("New rows: {n}", { n }), children }) {
  const { rows } = pages;
  const { body, start, end, above, below } = useWindow(rows.length);
  pages.visible = [start, end];
  const drawn = useRows(rows, start, end, columns);
  useEffect(() => {
    if (pages.isLoaded && pages.cursor && !pages.error && end > rows.length - NEAR_END_ROWS) pages.more();
  }, [end, rows.length, pages.cursor]);
  useEffect(() => {
    const look = () => pages.hold("scrolled", (body.current?.getBoundingClientRect().top ?? 0) < 0);
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, []);
  const holder = (reason, isHeld) => () => pages.hold(reason, isHeld);
  if (pages.isLoaded && rows.length === 0) {
    return html`${pages.error && html`<${Failure} error=${pages.error} onRetry=${() => pages.refresh()} />`}${children}`;
  }
  return html`<div class="paged ${name}">
    <${Waiting} pages=${pages} label=${newLabel} />
    <table aria-label=${label} aria-rowcount=${pages.cursor ? -1 : rows.length + 1} role="table">
      <thead role="rowgroup">
        <tr role="row" aria-rowindex="1">
          ${columns.map((column) => html`<th scope="col" role="columnheader" class="cell-${column.key} ${column.isNumber ? "number" : ""}">${column.title}</th>`)}
        </tr>
      </thead>
      <tbody
        ref=${body}
        role="rowgroup"
        onKeyDown=${walk}
        onPointerEnter=${holder("pointer", true)}
        onPointerLeave=${holder("pointer", false)}
        onFocusIn=${holder("focus", true)}
        onFocusOut=${holder("focus", false)}
      >
        <${Spacer} heightPx=${above} columns=${columns.length} />
        ${drawn}
        <${Spacer} heightPx=${below} columns=${columns.length} />
      </tbody>
    </table>
    <${Foot} pages=${pages} />
  </div>`;
}

/** The rows of an answer of /v1 in the form of `usePages`. */
export const pageOf = (answer) => ({ rows: answer.data, next: answer.next_cursor ?? null });
