// Runs the checks of a client, one after the other, and prints the name of each that passed.
import assert from 'node:assert/strict';

export { assert };
export const url = process.argv[2];
export const city = {
  type: 'object', properties: {city: {type: 'string'}}, required: ['city'], additionalProperties: false,
};
export const slowText = [...Array(40).keys()].map(n => `${n} `).join('');

/** Has the server killed with SIGKILL and started again. */
export const crash = () => fetch(process.env.CRASH_URL, {method: 'POST'});

export async function all(stream) {
  const found = [];
  for await (const piece of stream) found.push(piece);
  return found;
}

export async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    await check();
    console.log(name);
  }
}
