// Runs the checks of a client, one after the other, and prints the name of each that passed.
import assert from 'node:assert/strict';
import {crc32} from 'node:zlib';

export { assert };
export const url = process.argv[2];
export const city = {
  type: 'object', properties: {city: {type: 'string'}}, required: ['city'], additionalProperties: false,
};
export const slowText = [...Array(40).keys()].map(n => `${n} `).join('');

/** A picture of one pixel, and what the scripted model says when it has got exactly this one. */
export const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=';
const checksum = crc32(Buffer.from(png, 'base64')).toString(16).padStart(8, '0');
export const seen = `You said: look image/png ${checksum}`;

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
