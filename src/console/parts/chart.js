// Stacked bars by day. The keyboard moves a cursor whose values are announced; the same data stand as a table below.

import { html, useEffect, useRef, useState } from "../lib/ui.js";
import { plain } from "../lib/format.js";
import { t } from "../lib/i18n.js";

const HEIGHT = 240;
/** Colours of the series are those of the classes `chart-1` … `chart-8`: the style sheet knows both schemes. */
const COLOURS = 8;

/** The library and its style sheet, loaded when the first plot is drawn. */
let library = null;
function loadLibrary() {
  library ??= new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL("../vendor/uplot.css", import.meta.url).href;
    link.onload = resolve;
    link.onerror = () => reject(new Error("uplot.css"));
    document.head.append(link);
  }).then(async () => (await import("../vendor/uplot.js")).default);
  library.catch(() => (library = null));
  return library;
}

/** The name of the colour of a series. */
export const colourClass = (at) => `chart-${(at % COLOURS) + 1}`;

/** A colour of the style sheet as the canvas needs it. */
function colourOf(root, name) {
  const probe = document.createElement("span");
  probe.className = name;
  root.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Sums from the bottom up: bars are drawn from the highest to the lowest, so that each covers the next. */
function stacked(series, count) {
  const sums = new Array(count).fill(0);
  return series.map(({ values }) => values.map((value, at) => (sums[at] += value)));
}

function optionsOf(Plot, { root, width, series, labels, format, onCursor }) {
  const bars = Plot.paths.bars({ size: [0.72, 44], radius: 0 });
  const [line, faint] = [colourOf(root, "chart-line"), colourOf(root, "chart-faint")];
  const font = `12px ${getComputedStyle(root).fontFamily}`;
  const axis = { stroke: faint, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    padding: [10, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: { x: { time: false, range: [-0.6, labels.length - 0.4] }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] } },
    axes: [
      { ...axis, size: 28, grid: { show: false }, incrs: [1, 2, 3, 5, 7, 14, 28, 56, 112], space: 70, values: (_, at) => at.map((each) => labels[each] ?? "") },
      { ...axis, size: 64, values: (_, at) => at.map((each) => format(each)) },
    ],
    series: [{}, ...series.map(({ name }, at) => ({ label: plain(name), paths: bars, fill: colourOf(root, colourClass(at)), width: 0, points: { show: false } })).reverse()],
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx)] },
  };
}

/** Draws the plot anew when data, width or the colour scheme change. */
function usePlot(root, { labels, series, format }, onCursor) {
  const plot = useRef(null);
  useEffect(() => {
    let isCurrent = true;
    const draw = async () => {
      const Plot = await loadLibrary();
      if (!isCurrent || !root.current) return;
      plot.current?.destroy();
      const options = optionsOf(Plot, { root: root.current, width: root.current.clientWidth, series, labels, format, onCursor });
      const data = [labels.map((_, at) => at), ...stacked(series, labels.length).reverse()];
      plot.current = new Plot(options, data, root.current);
    };
    const start = () => draw().catch(() => {}); // the table below has the same values
    start();
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", start);
    const watch = new ResizeObserver(() => root.current && plot.current?.setSize({ width: root.current.clientWidth, height: HEIGHT }));
    watch.observe(root.current);
    return () => {
      isCurrent = false;
      scheme.removeEventListener("change", start);
      watch.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [labels, series]);
  return plot;
}

/** Names and colours of the series, with the values at the cursor. */
function Legend({ series, format, at }) {
  return html`<ul class="chart-legend">
    ${series.map(
      ({ name, values }, place) => html`<li key=${name}>
        <span class="chart-key ${colourClass(place)}" aria-hidden="true"></span>
        <span class="ellipsis">${plain(name)}</span>
        <span class="chart-value">${format(at === null ? values.reduce((sum, value) => sum + value, 0) : values[at])}</span>
      </li>`,
    )}
  </ul>`;
}

/**
 * `labels`: a text for each bar; `series`: `[{name, values}]`; `format` writes a value; `label` names the plot.
 * Both arrays must stay the same objects while the data are the same.
 */
export function Chart({ label, labels, series, format }) {
  const root = useRef(null);
  const [at, setAt] = useState(null);
  const [isKeyboard, setKeyboard] = useState(false);
  useEffect(() => setAt(null), [labels, series]);
  const plot = usePlot(root, { labels, series, format }, (index) => setAt(index ?? null));
  const last = labels.length - 1;
  const move = (event) => {
    const now = at ?? (event.key === "ArrowLeft" ? last + 1 : -1);
    const target = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last, PageDown: now + 7, PageUp: now - 7 }[event.key];
    if (event.key === "Escape") {
      setAt(null);
      plot.current?.setCursor({ left: -10, top: -10 });
    }
    if (target === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(last, target));
    setKeyboard(true);
    setAt(next);
    plot.current?.setCursor({ left: plot.current.valToPos(next, "x"), top: 0 });
  };
  const total = (index) => series.reduce((sum, { values }) => sum + values[index], 0);
  const parts = at === null ? [] : series.filter(({ values }) => values[at] > 0).map(({ name, values }) => `${plain(name)} ${format(values[at])}`);
  const said = at === null ? "" : t("{day}: {total} in all. {parts}", { day: labels[at], total: format(total(at)), parts: parts.join(", ") });
  return html`<figure class="chart">
    <div class="chart-head">
      <strong>${at === null ? t("The whole range") : labels[at]}</strong>
      <span class="chart-value">${format(at === null ? labels.reduce((sum, _, index) => sum + total(index), 0) : total(at))}</span>
    </div>
    <div
      class="chart-plot"
      role="application"
      tabindex="0"
      aria-label=${t("{label}. Arrow keys read the values day by day.", { label })}
      onKeyDown=${move}
      onPointerMove=${() => setKeyboard(false)}
    >
      <div ref=${root}></div>
    </div>
    <${Legend} series=${series} format=${format} at=${at} />
    <span class="visually-hidden" role="status">${isKeyboard ? said : ""}</span>
  </figure>`;
}
