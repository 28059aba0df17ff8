// The server view: figures, models, sandbox; with accounts also users, invites, keys, quotas and the profile.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { Server, logIn, openPage, until } from "./harness.mjs";

const PASSWORD = "a long password";

/** A page of a visitor who has logged in. */
async function visitor(browser, server, name, password = PASSWORD) {
  const page = await openPage(browser, server);
  await logIn(page, name, password);
  return page;
}

/** A server with accounts and its administrator `root`. */
async function withAccounts(binary) {
  const server = await Server.start(binary, "auth_mode: multi\nregistration: open\n");
  await server.call("POST", "/api/auth/register", await server.registration("root", PASSWORD));
  return server;
}

/** The card of a figure in the overview. */
const card = (page, name) => page.getByRole("region", { name: "Load" }).locator(".card", { hasText: name });

export const tests = {
  async "the overview shows load, latencies, checks, sandbox and MCP servers"({ browser, binary }) {
    const server = await Server.start(binary, "workers: 3\nlimits: {disk_free_bytes: 1152921504606846976}\nmcp_servers: {lost: {command: no-such-program-at-all, restart: false}}\n");
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/server`);
    await card(page, "Workers busy").getByText("0 / 3").waitFor();
    await card(page, "First token").getByText("–").first().waitFor();
    for (const name of ["Open streams", "Commit to the disk", "Memory", "Size of the store"]) {
      await card(page, name).getByText(/\d/).first().waitFor();
    }
    const checks = page.getByRole("region", { name: "Checks" });
    const disk = checks.getByRole("listitem").filter({ hasText: "Disk" });
    await disk.getByText(/nearly full/).waitFor();
    await disk.getByText(/What helps: free some space/).waitFor();
    const sandbox = page.getByRole("region", { name: "Sandbox" });
    for (const level of ["strict", "standard", "lenient", "shell"]) await sandbox.getByText(level, { exact: true }).waitFor();
    const lost = page.getByRole("region", { name: "MCP servers" }).getByRole("listitem").filter({ hasText: "lost" });
    await lost.getByText("does not run").waitFor();
    await lost.getByText(/no-such-program-at-all/).waitFor();
    page.watch.check();
    await server.kill();
  },

  async "nodes that share a database are listed with state, runs and differences"({ browser, binary }) {
    const server = await Server.start(binary);
    const page = await openPage(browser, server);
    // A database is not at hand, so the answers are those of a node.
    await page.route("**/v1/status", async (route) => {
      const response = await route.fetch();
      const status = await response.json();
      status.checks.push({ name: "node", ok: true });
      await route.fulfill({ response, json: status });
    });
    const node = { version: "0.1.0", layout: 15, started_at: 1_800_000_000, lease_ms: 14_000, connections: 12, tools: null, models: null };
    const data = [
      { ...node, id: 7, name: "one", state: "live", is_self: true, beat_age_ms: 400, jobs: 3 },
      { ...node, id: 9, name: "<b>two</b>", state: "lost", is_self: false, beat_age_ms: 61_000, jobs: 0 },
    ];
    const answer = { object: "list", data, layout: 15, notification_lag_ms: null, warnings: ["the nodes have different tools"] };
    await page.route("**/v1/nodes", (route) => route.fulfill({ json: answer }));
    await page.goto(`${server.origin}/#/server`);
    const nodes = page.getByRole("region", { name: "Nodes", exact: true });
    await nodes.getByText("the nodes have different tools").waitFor();
    const one = nodes.getByRole("row").filter({ hasText: "one" });
    await one.getByText("works").waitFor();
    await one.getByText(/answers this page/).waitFor();
    await one.getByText("3", { exact: true }).waitFor();
    await nodes.getByRole("row").filter({ hasText: "<b>two</b>" }).getByText("lost").waitFor();
    page.watch.check();
    await server.kill();
  },

  async "figures follow what happens, above the runs and in the overview"({ browser, binary }) {
    const server = await Server.start(binary, "workers: 3\n");
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/runs`);
    const glance = page.getByRole("region", { name: "Queue" });
    await glance.getByText("0 / 3").waitFor();
    await server.call("POST", "/v1/jobs?wait=20", { input: "hello" });
    await server.call("POST", "/v1/jobs", { input: "later", run_at: Math.floor(Date.now() / 1000) + 3600 });
    const long = await server.call("POST", "/v1/jobs", { input: "stream: 2000 words, 50 ms" });
    await glance.getByText("1 / 3").waitFor();
    await glance.getByRole("button", { name: /^1 ?queued/ }).getByText("for later: 1").waitFor();
    await glance.getByRole("button", { name: /^1 ?running/ }).click();
    await until("the list shows the running run", async () => (await page.locator("tbody a.row-link").count()) === 1);
    await page.goto(`${server.origin}/#/server`);
    await card(page, "Runs running").getByText("1", { exact: true }).waitFor();
    await card(page, "First token").getByText(/ms|s$/).first().waitFor();
    await server.call("POST", `/v1/jobs/${long.id}/cancel`);
    await card(page, "Workers busy").getByText("0 / 3").waitFor();
    page.watch.check();
    await server.kill();
  },

  async "models show how they do, and when a provider is asked again"({ browser, binary }) {
    const models = "models: [{id: demo, vision: true}, {id: away, name: Away, api_url: 'http://127.0.0.1:9/v1'}]\n";
    const server = await Server.start(binary, `${models}limits: {model_failures: 1, model_circuit_failures: 1}\n`);
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/server/models`);
    const away = page.getByRole("row").filter({ hasText: "Away" });
    await away.getByText("not used yet").waitFor();
    await server.call("POST", "/v1/jobs?wait=30", { input: "x", model: "away" });
    await away.getByText("cannot be reached").waitFor();
    await away.getByText(/asked again in/).waitFor();
    await away.getByText("1 (100%)").waitFor();
    assert.match(await page.getByRole("row").filter({ hasText: "demo" }).innerText(), /pictures/);
    page.watch.check();
    await server.kill();
  },

  async "an administrator makes users, sets a quota and blocks an account"({ browser, binary }) {
    const server = await withAccounts(binary);
    const page = await visitor(browser, server, "root");
    await page.goto(`${server.origin}/#/server/users`);
    await page.getByRole("button", { name: "New user" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("User name").fill("ann");
    await dialog.getByLabel("Password").fill(PASSWORD);
    await dialog.getByRole("button", { name: "Make the user" }).click();
    const row = page.getByRole("row").filter({ hasText: "ann" });
    await row.getByText("no limit").waitFor();
    await page.getByRole("button", { name: "Edit: ann" }).click();
    await dialog.getByLabel("Tokens a day").fill("5000");
    await dialog.getByRole("button", { name: "Save" }).click();
    await row.getByText("5,000 tokens a day").waitFor();
    const ann = await visitor(browser, server, "ann");
    await ann.goto(`${server.origin}/#/server/users`);
    await ann.getByRole("tab", { name: "Overview" }).waitFor();
    assert.equal(await ann.getByRole("tab", { name: "Users" }).count(), 0);
    await card(ann, "Workers busy").waitFor();
    assert.equal(await ann.getByRole("region", { name: "Checks" }).count(), 0, "users do not see the checks");
    await ann.getByRole("region", { name: "Sandbox" }).waitFor();
    await page.getByRole("button", { name: "Disable: ann" }).click();
    await dialog.getByRole("button", { name: "Disable" }).click();
    await row.getByText("disabled").waitFor();
    await ann.reload();
    await ann.getByRole("button", { name: "Log in" }).waitFor();
    page.watch.check();
    await server.kill();
  },

  async "the link of an invite makes an account"({ browser, binary }) {
    const server = await withAccounts(binary);
    const page = await visitor(browser, server, "root");
    await page.goto(`${server.origin}/#/server/invites`);
    await page.getByRole("button", { name: "New invite" }).click();
    const link = await page.locator(".server-secret code").innerText();
    assert.ok(link.startsWith(`${server.origin}/#/login?invite=`), link);
    const guest = await openPage(browser, server);
    await guest.goto(link);
    await guest.getByLabel("User name").fill("bob");
    await guest.getByLabel("Password").fill(PASSWORD);
    await guest.getByRole("button", { name: "Make the account" }).click();
    await guest.getByLabel("Message", { exact: true }).waitFor();
    guest.watch.forgive(/401/);
    guest.watch.check();
    page.watch.check();
    await server.kill();
  },

  async "a key is shown once, works with curl and is refused after it was revoked"({ browser, binary }) {
    const server = await withAccounts(binary);
    const page = await visitor(browser, server, "root");
    await page.goto(`${server.origin}/#/account`);
    await page.getByRole("button", { name: "New API key" }).click();
    await page.getByRole("dialog").getByLabel("Name").fill("nightly job");
    await page.getByRole("button", { name: "Make the key" }).click();
    const key = await page.locator(".server-secret code").innerText();
    const curl = () => {
      const header = `Authorization: Bearer ${key}`;
      return execFileSync("curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", header, `${server.origin}/v1/jobs`]).toString();
    };
    assert.equal(curl(), "200");
    await page.reload();
    await page.getByText("nightly job").waitFor();
    assert.ok(!(await page.locator("body").innerText()).includes(key), "it is shown only once");
    await page.getByRole("button", { name: "Revoke nightly job" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("No API keys").waitFor();
    assert.equal(curl(), "401");
    page.watch.check();
    await server.kill();
  },

  async "a user changes the own password, and logs out"({ browser, binary }) {
    const server = await withAccounts(binary);
    const page = await visitor(browser, server, "root");
    await page.goto(`${server.origin}/#/account`);
    const change = async (current, password, again) => {
      await page.getByLabel("Present password").fill(current);
      await page.getByLabel("New password", { exact: false }).first().fill(password);
      await page.getByLabel("New password again").fill(again);
      await page.getByRole("button", { name: "Change the password" }).click();
    };
    await change(PASSWORD, "another long one", "not the same at all");
    await page.getByText("The two new passwords are not the same.").waitFor();
    await change("a wrong password", "another long one", "another long one");
    await page.getByRole("alert").first().waitFor();
    await change(PASSWORD, "another long one", "another long one");
    await page.getByText("The password is changed.", { exact: false }).waitFor();
    await page.getByRole("button", { name: "Log out", exact: true }).click();
    await page.getByRole("button", { name: "Log in" }).waitFor();
    page.watch.forgive(/40[0-9]/);
    page.watch.check();
    const again = await visitor(browser, server, "root", "another long one");
    again.watch.check();
    await server.kill();
  },
};
