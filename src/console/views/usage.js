// What was used: tokens and cost by day and model, as a plot; by day, model, conversation or user, as a table.

import { html, useData, useMemo, useSignal } from "../lib/ui.js";
import * as api from "../lib/api.js";
import { cost, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { go, href } from "../lib/router.js";
import { Button, Empty, Loaded, PageHead, Tabs } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { byDayAndModel, daysOf, sumOf, today, daysAgo, localMidnight, dayText } from "./usage/days.js";
import { hasAccounts, isAdmin } from "../session.js";
import { RangePicker } from "./usage/range.js";
import { UsageTable } from "./usage/table.js";

const DAYS = 30;

/** The parts of the address: `{from, to, days, by, measure}`. */
function settingsOf(query) {
  const isDay = (text) => /^\d{4}-\d\d-\d\d$/.test(text ?? "");
  const [from, to] = [query.get("from"), query.get("to")];
  const isCustom = isDay(from) && isDay(to) && from <= to;
  const days = Number(query.get("days")) || DAYS;
  return {
    days: isCustom ? null : days,
    from: isCustom ? from : daysAgo(days - 1),
    to: isCustom ? to : today(),
    by: query.get("by"),
    measure: query.get("measure") === "cost" ? "cost" : "tokens",
  };
}

/** The sums over all rows. */
function Sums({ rows }) {
  const sum = sumOf(rows);
  const cards = [
    [t("Tokens"), number(sum.total_tokens)],
    [t("Input"), number(sum.prompt_tokens), sum.cached_tokens > 0 && t("{n} from a cache", { n: number(sum.cached_tokens) })],
    [t("Output"), number(sum.completion_tokens), sum.reasoning_tokens > 0 && t("{n} for thinking", { n: number(sum.reasoning_tokens) })],
    [t("Cost"), cost(sum.cost_micros)],
    [t("Runs"), number(sum.jobs)],
  ];
  return html`<div class="cards usage-cards">
    ${cards.map(
      ([name, value, part]) => html`<div class="card" key=${name}>
        <div class="name">${name}</div>
        <div class="figure">${value}</div>
        ${part && html`<div class="name">${part}</div>`}
      </div>`,
    )}
  </div>`;
}

function Plot({ rows, settings }) {
  const { labels, series } = useMemo(() => {
    const days = daysOf(settings.from, settings.to);
    const member = settings.measure === "cost" ? "cost_micros" : "total_tokens";
    return { labels: days.map(dayText), series: byDayAndModel(rows, days, member) };
  }, [rows, settings.from, settings.to, settings.measure]);
  const isCost = settings.measure === "cost";
  return html`<${Chart}
    label=${isCost ? t("Cost by day and model") : t("Tokens by day and model")}
    labels=${labels}
    series=${series}
    format=${isCost ? cost : number}
  />`;
}

/** Groups that the server sums up, the largest first. */
function Grouped({ settings: { from, to }, by }) {
  const groups = useData((abort) => api.get(api.withQuery("/v1/usage", { from, to, group_by: by }), abort), [from, to]);
  return html`<${Loaded} of=${groups}>
    ${({ data, has_more: isCut }) => html`<${UsageTable} rows=${data} by=${by} />
      ${isCut && html`<p class="faint">${t("There are more; these are the largest.")}</p>`}`}
  <//>`;
}

export function View({ query }) {
  const seesUsers = [useSignal(hasAccounts), useSignal(isAdmin)].every(Boolean);
  const settings = settingsOf(query);
  const load = (abort) =>
    api.get(api.withQuery("/v1/usage", { from: settings.from, to: settings.to }), abort).then(({ data }) => data);
  const usage = useData(load, [settings.from, settings.to]);
  const change = (values) => {
    const now = { days: query.get("days"), from: query.get("from"), to: query.get("to"), by: query.get("by"), measure: query.get("measure") };
    const next = Object.entries({ ...now, ...values }).filter(([, value]) => value);
    go(href("usage", [], Object.fromEntries(next)), true);
  };
  const body = (rows) => {
    const isEmpty = rows.length === 0;
    const tables = [
      ...(isEmpty ? [] : [["day", t("By day")], ["model", t("By model")], ["conversation", t("By conversation")]]),
      ...(seesUsers ? [["user", t("By user")]] : []),
    ];
    const by = (tables.find(([key]) => key === settings.by) ?? tables[0])?.[0];
    const table = html`
      ${by && html`<${Tabs} label=${t("Tables")} tabs=${tables} current=${by} onChange=${(next) => change({ by: next === "day" ? null : next })} />`}
      ${by === "day" || by === "model" ? html`<${UsageTable} key=${by} rows=${rows} by=${by} />` : by && html`<${Grouped} key=${by} settings=${settings} by=${by} />`}
    `;
    if (isEmpty) {
      return html`<${Empty} title=${t("Nothing was used in this time")}>
        <p>${t("Each run of a model counts its tokens here. Choose a longer time, or write the first message.")}</p>
        <p><a href=${href("chat")}>${t("Go to the chat")}</a></p>
      <//>${table}`;
    }
    return html`
      <${Sums} rows=${rows} />
      <div class="usage-plot">
        <div class="row" role="group" aria-label=${t("What is plotted")}>
          <${Button} kind="small ${settings.measure === "tokens" ? "usage-chosen" : ""}" label=${t("Tokens")} aria-pressed=${settings.measure === "tokens"} onClick=${() => change({ measure: null })} />
          <${Button} kind="small ${settings.measure === "cost" ? "usage-chosen" : ""}" label=${t("Cost")} aria-pressed=${settings.measure === "cost"} onClick=${() => change({ measure: "cost" })} />
        </div>
        <${Plot} rows=${rows} settings=${settings} />
      </div>
      ${table}
    `;
  };
  return html`<div class="page usage">
    <${PageHead} title=${t("Usage")}><${RangePicker} settings=${settings} onChange=${change} /><//>
    <${Loaded} of=${usage}>${body}<//>
    <p class="faint usage-zone">${t("Days are those of UTC: a day begins at {time} where you are.", { time: localMidnight() })}</p>
  </div>`;
}
