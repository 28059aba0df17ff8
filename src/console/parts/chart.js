// Stacked bars by day. The keyboard moves a cursor whose values are announced; the same data stand as a table below.

import { html, useEffect, useRef, useState } from "../lib/ui.js";
import { plain } from "../lib/format.js";
import { t } from "../lib/i18n.js";

const HEIGHT = 240;
/** Space for the texts of the axes, and the widest bar, in pixels. */
const [LEFT, TOP, BOTTOM, MOST_BAR] = [64, 10, 24, 44];
/** Pixels that the text of a day needs. */
const LABEL_PX = 84;
/** Colours of the series are those of the classes `chart-1` … `chart-8`: the style sheet knows both schemes. */
const COLOURS = 8;

/** The name of the colour of a series. */
const colourClass = (at) => `chart-${(at % COLOURS) + 1}`;

/** The distance of the lines: 1, 2 or 5 times a power of ten, so that there are about four. */
function lineStep(most) {
  const power = 10 ** Math.floor(Math.log10(most / 4));
  return [1, 2, 5, 10].map((each) => each * power).find((step) => most / step <= 5);
}

/** The width of an element in pixels. */
function useWidth(element) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(() => setWidth(element.current?.clientWidth ?? 0));
    watch.observe(element.current);
    return () => watch.disconnect();
  }, []);
  return width;
}

/** Bars from the bottom up, one part for each series. */
function Bars({ width, labels, series, format, at }) {
  const sums = labels.map((_, day) => series.reduce((sum, { values }) => sum + values[day], 0));
  const most = Math.max(...sums) || 1;
  const slot = (width - LEFT) / labels.length;
  const bar = Math.min(slot * 0.72, MOST_BAR);
  const base = HEIGHT - BOTTOM;
  const y = (value) => base - (value / most) * (base - TOP);
  const step = lineStep(most);
  const lines = Array.from({ length: Math.floor(most / step) + 1 }, (_, count) => count * step);
  const every = Math.ceil(LABEL_PX / slot);
  const middle = (day) => LEFT + slot * (day + 0.5);
  const tops = labels.map(() => 0);
  // The last text must not stand over the edge.
  const textPlace = (day) => Math.min(middle(day), width - LABEL_PX / 2);
  return html`<svg width=${width} height=${HEIGHT} aria-hidden="true">
    ${lines.map((value) => html`<path class="chart-line" d="M${LEFT} ${y(value)}H${width}" /><text x=${LEFT - 8} y=${y(value) + 4} text-anchor="end">${format(value)}</text>`)}
    ${at !== null && html`<rect class="chart-cursor" x=${LEFT + slot * at} y=${TOP} width=${slot} height=${base - TOP} />`}
    ${series.map(
      ({ values }, place) => html`<path
        class=${colourClass(place)}
        fill="currentColor"
        d=${values.map((value, day) => value > 0 && `M${middle(day) - bar / 2} ${y(tops[day])}h${bar}V${y((tops[day] += value))}h${-bar}z`).filter(Boolean).join("")}
      />`,
    )}
    ${labels.map((label, day) => day % every === 0 && html`<text x=${textPlace(day)} y=${HEIGHT - 6} text-anchor="middle">${label}</text>`)}
  </svg>`;
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
 * Both arrays must stay the same objects while the data are the same: other ones put the cursor back.
 */
export function Chart({ label, labels, series, format }) {
  const root = useRef(null);
  const [at, setAt] = useState(null);
  const [isKeyboard, setKeyboard] = useState(false);
  useEffect(() => setAt(null), [labels, series]);
  const width = useWidth(root);
  const last = labels.length - 1;
  const move = (event) => {
    const now = at ?? (event.key === "ArrowLeft" ? last + 1 : -1);
    const target = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last, PageDown: now + 7, PageUp: now - 7 }[event.key];
    if (event.key === "Escape") setAt(null);
    if (target === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(last, target));
    setKeyboard(true);
    setAt(next);
  };
  const point = ({ clientX }) => {
    const index = Math.floor(((clientX - root.current.getBoundingClientRect().left - LEFT) / (width - LEFT)) * labels.length);
    setKeyboard(false);
    setAt(index >= 0 && index <= last ? index : null);
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
      onPointerMove=${point}
      onPointerLeave=${() => setAt(null)}
    >
      <div ref=${root}>${width > LEFT && html`<${Bars} ...${{ width, labels, series, format, at }} />`}</div>
    </div>
    <${Legend} series=${series} format=${format} at=${at} />
    <span class="visually-hidden" role="status">${isKeyboard ? said : ""}</span>
  </figure>`;
}
