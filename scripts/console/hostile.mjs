// Hostile texts in the places beside the chat: names and contents of files, results of tools, names of lists.

import assert from "node:assert/strict";
import { Server, answer, openPage, until } from "./harness.mjs";
import { FILE_NAMES, PAYLOADS } from "./payloads.mjs";

/** What is on the page and must not be: elements, attributes, addresses, and characters that deceive. */
const harms = (page) =>
  page.evaluate(() => {
    const found = [];
    const allowed = (element) => element.matches("svg.icon, svg.icon *, .nav a, .brand img, main svg[aria-hidden]:not([href]), main svg[aria-hidden] *");
    const DECEIVING = /[\u001b\u0080-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/;
    for (const element of document.querySelectorAll("#app *")) {
      const name = element.localName;
      const isForeign = element.namespaceURI !== "http://www.w3.org/1999/xhtml" && !allowed(element);
      const isForbidden = /^(?:iframe|object|embed|base|meta|link|style|template|noscript|xmp|frame|audio|video)$/.test(name) || name.includes("-");
      if (isForeign || isForbidden || (name === "script" && !element.src)) found.push(element.outerHTML.slice(0, 120));
      for (const { name: attribute, value } of element.attributes) {
        if (attribute.startsWith("on")) found.push(`${name} ${attribute}`);
        if (/^(?:href|src|action|formaction|xlink:href|srcset)$/.test(attribute) && !/^(?:#|https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);|console\/|\/(?!\/))/.test(value)) found.push(`${attribute}=${value}`);
        if (DECEIVING.test(value) && attribute !== "value" && attribute !== "href") found.push(`${attribute}: ${JSON.stringify(value)}`);
      }
    }
    const texts = document.createTreeWalker(document.getElementById("app"), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const parent = texts.currentNode.parentElement;
      if (DECEIVING.test(texts.currentNode.data) && !parent.closest("textarea, script")) found.push(JSON.stringify(texts.currentNode.data.slice(0, 80)));
    }
    return found;
  });

async function assertHarmless(page, place) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 20))));
  assert.deepEqual(await harms(page), [], place);
  page.watch.check();
}

/** A project whose files have hostile names and contents. */
async function hostileProject(server) {
  const project = (await server.call("POST", "/api/projects", { name: "<img src=x onerror=alert(1)> \u202Etxt" })).data;
  const names = [];
  for (const [at, name] of FILE_NAMES.entries()) {
    const path = `${encodeURIComponent(name)}`;
    // Some names are refused; that is as good.
    const made = await server.call("PUT", `/api/projects/${project.id}/files/${path}`, { content: PAYLOADS[at] }).catch(() => null);
    if (made) names.push(name);
  }
  return { id: project.id, names };
}

export const tests = {
  async "no hostile name or content of a file runs a script"({ browser, binary }) {
    const server = await Server.start(binary);
    const { id, names } = await hostileProject(server);
    assert.ok(names.length >= 40, `${names.length} names are possible`);
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/files`);
    await page.getByText("<img src=x", { exact: false }).first().waitFor();
    await assertHarmless(page, "list of projects");
    await page.goto(`${server.origin}/#/files/${id}`);
    await page.getByText("alert(", { exact: false }).first().waitFor();
    await assertHarmless(page, "tree");
    for (const name of names.filter((_, at) => at % 4 === 0)) {
      await page.goto(`${server.origin}/#/files/${[id, name].map(encodeURIComponent).join("/")}`);
      await page.waitForLoadState("networkidle");
      await assertHarmless(page, name);
    }
    await page.evaluate(() => document.querySelector("main").append(document.createElement("iframe"), "\u202E"));
    assert.equal((await harms(page)).length, 2, "the search for harms finds some");
    await server.kill();
  },

  async "no hostile result of a tool runs a script, in the chat and in the views of a run"({ browser, binary }) {
    const server = await Server.start(binary);
    const { id, names } = await hostileProject(server);
    const jobs = [];
    for (const name of names.filter((_, at) => at % 3 === 0)) {
      const made = await server.call("POST", "/api/conversations", { title: name.slice(0, 190), project_id: id });
      const input = `tool: file_read ${JSON.stringify({ path: name })}`;
      jobs.push({ chat: made.data.id, job: (await server.call("POST", "/v1/jobs?wait=20", { input, project_id: id, conversation_id: made.data.id })).id });
    }
    const page = await openPage(browser, server);
    let read = 0;
    for (const { chat } of jobs) {
      await page.goto(`${server.origin}/#/chat/${chat}`);
      await answer(page);
      await assertHarmless(page, `chat ${chat}`);
      read += /"?content"?/.test(await page.locator(".tool-body").first().innerText()) ? 1 : 0;
    }
    assert.ok(read > 10, `${read} tools gave a hostile text`);
    for (const { job } of jobs.slice(0, 8)) {
      await page.goto(`${server.origin}/#/runs/${job}`);
      await page.getByRole("tab").first().waitFor();
      for (const tab of await page.getByRole("tab").all()) {
        await tab.click();
        await page.waitForLoadState("networkidle");
        await assertHarmless(page, `run ${job}`);
      }
    }
    await server.kill();
  },

  async "no hostile name of a schedule, model, batch line or run runs a script"({ browser, binary }) {
    const server = await Server.start(binary);
    const lines = PAYLOADS.map((text, at) => JSON.stringify({ custom_id: `${text.replaceAll(/[\u0000-\u001f]/g, "").slice(0, 50)}${at}`, body: { input: text } }));
    await server.call("POST", "/v1/batches", lines.join("\n"), { "Content-Type": "application/x-ndjson" });
    for (const [at, text] of PAYLOADS.entries()) {
      const schedule = { name: `${text.slice(0, 50)}${at}`, cron: "30 7 * * MON-FRI", job: { input: text } };
      await server.call("POST", "/v1/schedules", schedule).catch(() => null);
    }
    await until("the batch is done", async () => (await server.call("GET", "/v1/batches")).data[0].status === "completed", 60_000);
    const batch = (await server.call("GET", "/v1/batches")).data[0].id;
    const page = await openPage(browser, server);
    for (const view of ["batches", `batches/${batch}`, "schedules", "runs", "usage"]) {
      await page.goto(`${server.origin}/#/${view}`);
      await page.waitForLoadState("networkidle");
      await assertHarmless(page, view);
    }
    await server.kill();
  },
};
