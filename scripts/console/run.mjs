// Runs the console's tests: node run.mjs BINARY [words of a test's name]

import { launch } from "./harness.mjs";

const MODULES = ["account", "batches", "chat", "conditions", "files", "hostile", "markdown", "people", "server", "speed", "views"];
const [binary, ...words] = process.argv.slice(2);
const browser = await launch();
let failed = 0;
for (const name of MODULES) {
  const { tests } = await import(`./${name}.mjs`);
  for (const [title, test] of Object.entries(tests)) {
    if (!words.every((word) => title.includes(word))) continue;
    const began = Date.now();
    try {
      await test({ browser, binary });
      console.log(`ok      ${title} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${title}\n${error.stack}`);
    }
    for (const context of browser.contexts()) await context.close();
  }
}
await browser.close();
process.exit(failed > 0 ? 1 : 0);
