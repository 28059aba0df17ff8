// Hits of a search in a project, line by line.

import { html, useData, useState } from "../../lib/ui.js";
import * as api from "../../lib/api.js";
import { number, plain, short } from "../../lib/format.js";
import { t } from "../../lib/i18n.js";
import { go } from "../../lib/router.js";
import { Button, Empty, Loaded } from "../../parts/basics.js";
import { placeHref, projectPath } from "./places.js";

const MOST_FILES = 200; // the most that the server takes
const MOST_LINES = 20; // of a file at first

/** The line with the words marked. */
function Marked({ line, words, isCase }) {
  const text = plain(line).trimEnd().slice(0, 400);
  const parts = [];
  const [where, what] = isCase ? [text, words] : [text.toLowerCase(), words.toLowerCase()];
  let from = 0;
  // A letter that changes its length in lower case would put the marks at wrong places.
  for (let at = where.indexOf(what); at >= 0 && where.length === text.length; at = where.indexOf(what, from)) {
    parts.push(text.slice(from, at), html`<mark>${text.slice(at, at + what.length)}</mark>`);
    from = at + what.length;
  }
  return html`<span>${parts}${text.slice(from)}</span>`;
}

function HitFile({ id, hit, words, isCase }) {
  const [isWhole, setWhole] = useState(false);
  const lines = isWhole ? hit.matches : hit.matches.slice(0, MOST_LINES);
  return html`<section class="files-hit">
    <h2><a href=${placeHref(id, hit.path)} dir="auto">${plain(hit.path)}</a> <span class="faint">${number(hit.matches.length)}</span></h2>
    <ol>
      ${lines.map(
        (each) => html`<li key=${each.line}>
          <a href=${placeHref(id, hit.path, { line: each.line })}>
            <span class="files-hit-line">${each.line}</span><code dir="auto"><${Marked} line=${each.content} words=${words} isCase=${isCase} /></code>
          </a>
        </li>`,
      )}
    </ol>
    ${lines.length < hit.matches.length &&
    html`<${Button} kind="quiet small" label=${t("All {n} lines", { n: number(hit.matches.length) })} onClick=${() => setWhole(true)} />`}
  </section>`;
}

export function Hits({ id, words, path, isCase }) {
  const load = (abort) => {
    const body = { query: words, max_results: MOST_FILES, case_sensitive: isCase };
    if (path) body.path = path;
    return api.data(api.post(projectPath(id, "search"), body, { signal: abort }));
  };
  const found = useData(load, [id, words, path, isCase]);
  const setCase = (event) => go(placeHref(id, path, { search: words, case: event.currentTarget.checked ? "1" : "" }));
  return html`<div class="files-hits">
    <div class="files-head">
      <h1>${t("Search for {words}", { words: short(words, 60) })}</h1>
      <label class="choice"><input type="checkbox" checked=${isCase} onChange=${setCase} />${t("Match case")}</label>
      <a href=${placeHref(id, path)}>${t("Close the search")}</a>
    </div>
    ${path && html`<p class="dim">${t("In {path} only.", { path: short(path, 120) })} <a href=${placeHref(id, "", { search: words })}>${t("Search the whole project")}</a></p>`}
    <${Loaded} of=${found}>
      ${(data) =>
        data.results.length === 0
          ? html`<${Empty} title=${t("Nothing found")}>${t("No text file has exactly these characters.")}<//>`
          : html`<p class="dim" role="status">${data.is_cut
                ? t("Files with matches: {n}. There may be more.", { n: number(data.results.length) })
                : t("Files with matches: {n}.", { n: number(data.results.length) })}</p>
              ${data.results.map((hit) => html`<${HitFile} key=${hit.path} id=${id} hit=${hit} words=${words} isCase=${isCase} />`)}`}
    <//>
  </div>`;
}
