// A real Chromium for the tests of the web page. A test fails when the page reports an error on its
// console, throws, or breaks the content security policy or Trusted Types; a request that leaves the
// origin fails it too.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { atEnd, tempDir } from '../e2e/helper.mjs';

const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'];

export const chromiumPath = process.env.QUIPU_CHROMIUM ?? '/usr/bin/chromium';

const optional = /\/v1\/(contexts\/[^/]+\/(queue|compactions|view)|jobs)(\?|$)/;

let shared;

// One browser per test file, with a directory of its own; every test has a fresh profile in it.
async function browser() {
  shared ??= chromium.launch({ executablePath: chromiumPath, args: flags, env: { ...process.env, HOME: process.env.TMPDIR ?? '/tmp' } });
  return shared;
}

export async function closeBrowser() {
  if (shared) await (await shared).close();
}

// A profile with its pages. `expected`: patterns of console errors that the test causes itself, such as
// a lost connection.
export async function openProfile(t, server, options = {}) {
  const { expected = [], ...more } = options;
  const context = await (await browser()).newContext({ viewport: { width: 1280, height: 800 }, locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce', ...more });
  const problems = [];
  const profile = { context, server, problems, expected: [...expected] };
  context.setDefaultTimeout(60_000);
  await context.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  context.on('page', (page) => watch(page, profile));
  atEnd(t, async () => {
    await context.close();
    const bad = problems.filter((text) => !profile.expected.some((pattern) => pattern.test(text)));
    assert.deepEqual(bad, [], 'the page reported errors');
  });
  return profile;
}

function watch(page, profile) {
  const { problems, server } = profile;
  page.on('console', (message) => {
    if (message.type() !== 'error' && !/violat/i.test(message.text())) return;
    // The page asks for parts that a server may not have.
    if (/status of 404/.test(message.text()) && optional.test(message.location().url)) return;
    problems.push(`${message.text()} at ${message.location().url}`);
  });
  page.on('pageerror', (error) => problems.push(`thrown: ${error.message}\n${error.stack}`));
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(server.url) && !/^(data|blob|about):/.test(url)) problems.push(`a request left the origin: ${url}`);
  });
}

export async function openPage(profile, hash = '') {
  const page = await profile.context.newPage();
  await page.goto(`${profile.server.url}/${hash}`);
  await page.waitForSelector('#above > *', { state: 'attached' });
  return page;
}

// The usual case: one profile, one page.
export async function open(t, server, hash = '', options = {}) {
  const profile = await openProfile(t, server, options);
  const page = await openPage(profile, hash);
  return { page, profile };
}

export const stateIs = (page, state) => page.waitForSelector(`.chat[data-state="${state}"]`);

export async function send(page, text) {
  await page.fill('#composer', text);
  await page.press('#composer', 'Enter');
}

// A text that is on the page, now or soon.
export const see = (page, text) => page.getByText(text).first().waitFor();

// The images of the README are written by the tests when QUIPU_SHOTS names a directory.
export async function shot(page, name) {
  const dir = process.env.QUIPU_SHOTS;
  if (!dir) return;
  fs.mkdirSync(dir, { recursive: true });
  await page.screenshot({ path: path.join(dir, `${name}.png`) });
}

export { tempDir };
