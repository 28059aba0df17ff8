// What runs come after, and their times: in the list, on the page and in the timeline.

import { Server, openPage } from "./harness.mjs";

export const tests = {
  async "the list, the page and the timeline show what a run waits for and its times"({ browser, binary }) {
    const server = await Server.start(binary, "models: [{id: demo, price: {prompt: 1, completion: 1}}]\n");
    const soon = Math.floor(Date.now() / 1000) + 1800;
    const first = await server.call("POST", "/v1/jobs", { input: "stream: 2000 words, 50 ms" });
    const bounds = { deadline_at: soon + 1800, expires_at: soon, max_cost_micros: 50_000 };
    const second = await server.call("POST", "/v1/jobs", { input: "hello", after: [first.id], on_failure: "run", ...bounds });
    const page = await openPage(browser, server);
    await page.goto(`${server.origin}/#/runs`);
    const row = page.getByRole("row").filter({ hasText: "hello" });
    await row.getByText(/has to end in .*has to begin in .*comes after runs: 1/).waitFor();
    await row.getByText(/of 0\.05/).waitFor();
    await page.goto(`${server.origin}/#/runs/${second.id}`);
    await page.getByText("Deadline").waitFor();
    await page.getByText("Expires").waitFor();
    await page.getByText(/of 0\.05/).waitFor();
    await page.goto(`${server.origin}/#/runs/${second.id}?tab=timeline`);
    const spans = page.getByRole("table").getByRole("row");
    for (const label of ["Waits for other runs", "Time until the deadline", "Time until it has to begin"]) {
      await spans.filter({ hasText: label }).waitFor();
    }
    await server.call("POST", `/v1/jobs/${first.id}/cancel`);
    await spans.filter({ hasText: "Model call 1" }).waitFor();
    await spans.filter({ hasText: "Waits for other runs" }).getByText("done").waitFor();
    await spans.filter({ hasText: /^Deadline/ }).waitFor();
    await page.goto(`${server.origin}/#/runs`);
    await row.getByText("succeeded").waitFor();
    if ((await row.getByText(/has to end/).count()) > 0) throw new Error("an ended run has no times left");
    page.watch.check();
    await server.kill();
  },
};
