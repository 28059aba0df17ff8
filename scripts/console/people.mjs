// People who use no mouse, want no motion, or live in another zone.

import assert from "node:assert/strict";
import { Server, answer, ask, openPage, sleep } from "./harness.mjs";

/** What a person can act on. Tabs and trees have one stop; arrow keys do the rest. */
const STOPS = "a[href], button, input, select, textarea, summary, [tabindex]";
const MOST_STOPS = 150;

/** Marks the element with the focus, and says what is wrong with it. */
const focused = (page) =>
  page.evaluate(() => {
    const element = document.activeElement;
    if (element === document.body) return null;
    const isAgain = element.hasAttribute("data-visited");
    element.setAttribute("data-visited", "");
    const frame = element.closest("tr, form, label, .composer") ?? element;
    const isMarked = [element, frame].some((each) => {
      const style = getComputedStyle(each);
      return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || (each !== element && each.matches(":focus-within") && style.boxShadow !== "none");
    });
    const name = element.ariaLabel || element.textContent.trim().slice(0, 40) || element.labels?.[0]?.textContent || element.title;
    const box = element.getBoundingClientRect();
    const isSeen = box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
    return { isAgain, isMarked, isSeen, name, markup: element.outerHTML.slice(0, 160) };
  });

/** Presses the tabulator key until the focus has been everywhere. */
async function walk(page) {
  const problems = [];
  for (let n = 0; n < MOST_STOPS; n += 1) {
    await page.keyboard.press("Tab");
    const at = await focused(page);
    if (at === null || at.isAgain) break;
    if (!at.isMarked) problems.push(`no visible focus: ${at.markup}`);
    if (!at.isSeen) problems.push(`out of sight: ${at.markup}`);
    if (!at.name) problems.push(`no name: ${at.markup}`);
  }
  const left = await page.evaluate((stops) =>
    [...document.querySelectorAll(stops)]
      .filter((each) => each.checkVisibility() && each.tabIndex >= 0 && !each.disabled && !each.hasAttribute("data-visited"))
      .map((each) => `not reached: ${each.outerHTML.slice(0, 160)}`), STOPS);
  return [...problems, ...left];
}

const movements = (page) => page.evaluate(() => document.getAnimations().filter((each) => each.effect.getComputedTiming().activeDuration > 100).length);

export const tests = {
  async "the tabulator key reaches everything in the chat and the runs, and the focus is seen"({ browser, binary }) {
    const server = await Server.start(binary);
    const made = await server.call("POST", "/api/conversations", { title: "Sums" });
    const input = { input: "what is 12*7?", conversation_id: made.data.id };
    const job = (await server.call("POST", "/v1/jobs?wait=20", input)).id;
    const found = [];
    for (const view of ["chat", `chat/${made.data.id}`, "runs", `runs/${job}`]) {
      const page = await openPage(browser, server);
      await page.goto(`${server.origin}/#/${view}`);
      await page.waitForLoadState("networkidle");
      await sleep(200);
      // The walk begins where a new page does.
      await page.evaluate(() => document.activeElement.blur());
      for (const problem of await walk(page)) found.push(`${view}: ${problem}`);
      page.watch.check();
      await page.context().close();
    }
    assert.deepEqual(found, [], found.join("\n"));
    await server.kill();
  },

  async "a question is asked and its run opened without a mouse"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    const name = () => page.evaluate(() => document.activeElement.ariaLabel ?? document.activeElement.textContent);
    const tabTo = async (wanted) => {
      for (let n = 0; n < MOST_STOPS && (await name()) !== wanted; n += 1) await page.keyboard.press("Tab");
      assert.equal(await name(), wanted);
    };
    await page.getByLabel("Message", { exact: true }).waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await name(), "Skip to the content");
    assert.ok((await page.locator(".skip").boundingBox()).x >= 0, "the link to the content is in sight");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "content");
    await tabTo("Message");
    await page.keyboard.type("what is 12*7?");
    await page.keyboard.press("Enter");
    assert.match(await (await answer(page)).innerText(), /84/);
    assert.equal(await name(), "Message", "the focus stays where the next question is written");
    await page.keyboard.press("Shift+Tab");
    for (let n = 0; n < MOST_STOPS && (await name()) !== "Run"; n += 1) await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("tab").first().waitFor();
    assert.match(page.url(), /#\/runs\/job_/);
    page.watch.check();
    await server.kill();
  },

  async "a plot is read day by day with arrow keys"({ browser, binary }) {
    const server = await Server.start(binary);
    await server.call("POST", "/v1/jobs?wait=20", { input: "what is 12*7?" });
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/usage`);
    const plot = page.getByRole("application");
    await plot.locator("svg").waitFor();
    const total = await page.locator(".chart-head .chart-value").innerText();
    await plot.focus();
    await page.keyboard.press("End");
    assert.equal(await page.locator(".chart-head .chart-value").innerText(), total, "all was used today");
    assert.match(await page.locator(".chart [role=status]").innerText(), new RegExp(`${total}.*demo`));
    await page.keyboard.press("ArrowLeft");
    assert.equal(await page.locator(".chart-head .chart-value").innerText(), "0");
    page.watch.check();
    await server.kill();
  },

  async "nothing moves for people who want no motion"({ browser, binary }) {
    const server = await Server.start(binary);
    for (const reducedMotion of ["no-preference", "reduce"]) {
      const page = await openPage(browser, server, { reducedMotion });
      await ask(page, "stream: 40 words, 50 ms");
      await page.getByText("word-3", { exact: false }).waitFor();
      const moving = await movements(page);
      assert.ok(reducedMotion === "reduce" ? moving === 0 : moving > 0, `${reducedMotion}: ${moving} movements`);
      await answer(page);
      page.watch.check();
      await page.context().close();
    }
    await server.kill();
  },

  async "dates stand in the viewer's zone and language"({ browser, binary }) {
    const server = await Server.start(binary);
    const job = await server.call("POST", "/v1/jobs?wait=20", { input: "what is 12*7?" });
    for (const [locale, timezoneId] of [["en-GB", "America/New_York"], ["zh-CN", "Asia/Shanghai"], ["en-GB", "Asia/Kathmandu"]]) {
      const page = await openPage(browser, server, { locale, timezoneId });
      await page.goto(`${server.origin}/#/runs`);
      const format = new Intl.DateTimeFormat(locale === "zh-CN" ? "zh-CN" : "en", { dateStyle: "medium", timeStyle: "medium", timeZone: timezoneId });
      const plain = (text) => text.replaceAll(/\s/g, " ");
      const shown = await page.locator("[data-row] time").first().getAttribute("title");
      assert.equal(plain(shown), plain(format.format(job.created_at * 1000)), timezoneId);
      page.watch.check();
      await page.context().close();
    }
    await server.kill();
  },
};
