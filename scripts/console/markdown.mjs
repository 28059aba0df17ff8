// Answers that grow are drawn in parts: nothing is lost or doubled, and a long block keeps its form.

import assert from "node:assert/strict";
import { Server, openPage } from "./harness.mjs";

const many = (count, line) => Array.from({ length: count }, (_, n) => line(n)).join("\n");

/** Texts, each much longer than what is drawn at once, and what must be in the page in the end. */
const TEXTS = {
  code: { text: `before\n\n\`\`\`rust\n${many(1500, (n) => `let x${n} = "a < b";`)}\n\`\`\`\n\nafter`, counts: { pre: 1, ".code-head": 1, p: 2 } },
  "code without an end": { text: `~~~\n${many(1500, (n) => `line ${n} \`\`\``)}`, counts: { pre: 1 } },
  list: { text: many(1200, (n) => `${n + 1}. item **${n}** of a list`), counts: { li: 1200, strong: 1200 } },
  table: { text: `| a | b |\n|---|---|\n${many(1200, (n) => `| row ${n} | **${n}** |`)}\n\nafter`, counts: { "tbody tr": 1200, "td strong": 1200, p: 1 } },
  quote: { text: many(1200, (n) => `> quoted ${n}`), counts: { pre: 0 } },
  paragraph: { text: many(1, () => "word *with* emphasis ".repeat(2000)), counts: { em: 2000 } },
  "one word": { text: "\u{1F600}".repeat(12_000), counts: { p: 3 } },
  "ends of lines": { text: `# head\r\n\r\n- a\r\n- b\r\n\r\n\`\`\`\r\n${many(900, (n) => `x ${n}\r`)}\n\`\`\`\r\n`, counts: { h1: 1, li: 2, pre: 1 } },
  blocks: { text: many(900, (n) => `## Head ${n}\n\nText ${n}\n\n- a\n- b\n`), counts: { h2: 900, p: 900, li: 1800 } },
};

/** Draws a text whole or in pieces; the frames are those of the page. */
const draw = (page, address, text, piece) =>
  page.evaluate(async ([url, whole, length]) => {
    const { MarkdownView } = await import(url);
    const root = document.createElement("div");
    document.body.append(root);
    const view = new MarkdownView(root);
    for (let end = length; end < whole.length; end += length) {
      view.update(whole.slice(0, end), false);
      if (end % 3 === 0) await new Promise(requestAnimationFrame);
    }
    view.update(whole, true);
    while (root.ariaBusy !== "false") await new Promise(requestAnimationFrame);
    root.querySelectorAll(".code-head").forEach((head) => head.setAttribute("data-text", head.textContent));
    const count = (selector) => root.querySelectorAll(selector).length;
    const selectors = ["pre", ".code-head", "p", "li", "strong", "tbody tr", "td strong", "em", "h1", "h2"];
    const found = { text: root.textContent.replaceAll(/\s+/g, ""), counts: Object.fromEntries(selectors.map((each) => [each, count(each)])) };
    root.remove();
    return found;
  }, [address, text, piece]);

export const tests = {
  async "a long answer has the same form, however it arrives"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    const main = await page.locator('script[type="module"]').getAttribute("src");
    const address = `${server.origin}/${main.replace(/main\.js$/, "lib/markdown.js")}`;
    for (const [title, { text, counts }] of Object.entries(TEXTS)) {
      const whole = await draw(page, address, text, Infinity);
      for (const [selector, count] of Object.entries(counts)) assert.equal(whole.counts[selector], count, `${title}: ${selector}`);
      for (const piece of [1_501, 3_007]) {
        const grown = await draw(page, address, text, piece);
        assert.equal(grown.text, whole.text, `${title} in pieces of ${piece}`);
        for (const [selector, count] of Object.entries(counts)) assert.equal(grown.counts[selector], count, `${title} in pieces of ${piece}: ${selector}`);
      }
    }
    page.watch.check();
    await server.kill();
  },
};
