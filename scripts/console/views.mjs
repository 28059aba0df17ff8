// Every view: accessible in both schemes and widths, without faults; walls between users.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Server, newUser, openPage, sleep, until } from "./harness.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = ["chat", "runs", "batches", "schedules", "webhooks", "files", "usage", "server"];

/** A server in which every view has something to show. */
export async function filled(binary, settings = "") {
  const server = await Server.start(binary, settings);
  const made = await server.call("POST", "/api/conversations", { title: "Sums" });
  await server.call("POST", "/v1/jobs?wait=20", { input: "what is 12*7?", conversation_id: made.data.id });
  await server.call("POST", "/v1/jobs?wait=20", { input: "```python\nprint('hello')\n```", metadata: { team: "ops" } });
  await server.call("POST", "/v1/jobs", { input: "later", run_at: Math.floor(Date.now() / 1000) + 3600 });
  const lines = [1, 2, 3].map((n) => JSON.stringify({ custom_id: `line-${n}`, body: { input: `what is ${n}*2?` } }));
  await server.call("POST", "/v1/batches", lines.join("\n"), { "Content-Type": "application/x-ndjson" });
  await server.call("POST", "/v1/schedules", { name: "morning", cron: "30 7 * * MON-FRI", job: { input: "good morning" } });
  const project = await server.call("POST", "/api/projects", { name: "notes" });
  await server.call("PUT", `/api/projects/${project.data.id}/files/src/main.py`, { content: "print('hello')\n" });
  return server;
}

/** Broken rules of axe, with some of the places. */
export async function violations(page) {
  // The policy of the page lets no script in but its own, so axe comes through the debugger.
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: AXE });
  const run = "axe.run(document, {resultTypes: ['violations']}).then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160))])))";
  const { result } = await session.send("Runtime.evaluate", { expression: run, awaitPromise: true });
  await session.detach();
  return JSON.parse(result.value);
}

export const tests = {
  async "no view breaks a rule of axe, in both schemes and widths"({ browser, binary }) {
    const server = await filled(binary);
    const job = (await server.call("GET", "/v1/jobs?status=succeeded")).data[0].id;
    const found = [];
    for (const colorScheme of ["light", "dark"]) {
      for (const width of [1280, 390]) {
        const page = await openPage(browser, server, { colorScheme, viewport: { width, height: 844 }, reducedMotion: "reduce" });
        for (const view of [...VIEWS, `runs/${job}`]) {
          await page.goto(`${server.origin}/#/${view}`);
          await page.waitForLoadState("networkidle");
          await sleep(200);
          await page.locator("h1").first().waitFor(); // the module of the view is loaded
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          if (wide > 0) found.push(`${view} ${colorScheme} ${width}: ${wide} px too wide`);
          for (const [rule, nodes] of await violations(page)) {
            found.push(`${view} ${colorScheme} ${width}: ${rule}\n    ${nodes.join("\n    ")}`);
          }
          if (process.env.SCREENSHOTS) {
            mkdirSync(process.env.SCREENSHOTS, { recursive: true });
            await page.screenshot({ path: join(process.env.SCREENSHOTS, `${view.split("/").join("-").slice(0, 12)}-${colorScheme}-${width}.png`) });
          }
        }
        page.watch.check();
        await page.context().close();
      }
    }
    assert.deepEqual(found, [], found.join("\n"));
    await server.kill();
  },

  async "no view is wider than a screen of 320 pixels"({ browser, binary }) {
    const server = await filled(binary);
    const page = await openPage(browser, server, { viewport: { width: 320, height: 640 } });
    for (const view of VIEWS) {
      await page.goto(`${server.origin}/#/${view}`);
      await page.waitForLoadState("networkidle");
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${view} is ${wide} px too wide`);
    }
    page.watch.check();
    await server.kill();
  },

  async "two users see nothing of each other"({ browser, binary }) {
    const server = await Server.start(binary, "auth_mode: multi\nregistration: open\n");
    const people = [];
    for (const name of ["ann", "bob"]) {
      const page = await newUser(browser, server, name, `what is the secret of ${name}?`);
      people.push({ name, page, address: page.url() });
    }
    const [ann, bob] = people;
    await bob.page.goto(ann.address);
    await bob.page.getByRole("alert").waitFor();
    assert.doesNotMatch(await bob.page.locator("main").innerText(), /secret of ann/);
    for (const view of ["runs", "usage", "files"]) {
      await bob.page.goto(`${server.origin}/#/${view}`);
      await bob.page.waitForLoadState("networkidle");
      assert.doesNotMatch(await bob.page.locator("body").innerText(), /secret of ann|what is the secret of ann/);
    }
    await bob.page.getByRole("button", { name: "Log out", exact: true }).click();
    await bob.page.getByLabel("Password").waitFor();
    await until("the session is over", async () => (await bob.page.request.get(`${server.origin}/v1/jobs`)).status() === 401);
    ann.page.watch.check();
    await server.kill();
  },

  async "the console speaks Chinese"({ browser, binary }) {
    const server = await filled(binary);
    const page = await openPage(browser, server, { locale: "zh-CN" });
    await page.getByRole("link", { name: "批处理" }).or(page.getByRole("link", { name: "批量任务" })).first().waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.lang), "zh-CN");
    page.watch.check();
    await server.kill();
  },
};
