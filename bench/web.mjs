#!/usr/bin/env node
// Figures of the web page, measured in a real Chromium against the built program. bench/WEB.md explains them.
//
//   node bench/web.mjs            prints a table, and writes it into bench/RESULTS.md
//   node bench/web.mjs PART...    only these parts (sizes, opening, streaming, flushes, paints, scrolling); writes nothing

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { ok } from '../tests/e2e/helper.mjs';
import { Model } from '../tests/e2e/model.mjs';
import { Chat, serveTurns } from '../tests/e2e/turns.mjs';
import { closeBrowser, openPage, openProfile, see, send } from '../tests/web/browser.mjs';

const ends = [];
const t = { after: (end) => ends.push(end) };
const rows = [];
const add = (what, bar, measured, passes, how) => rows.push(`| ${what} | ${bar} | **${measured}** | ${passes ? 'pass' : 'short'} | ${how} |`);
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

function sizes() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-page-'));
  const made = spawnSync(process.execPath, ['web/build.mjs', dir, '--sizes'], { encoding: 'utf8' });
  fs.rmSync(dir, { recursive: true });
  const all = JSON.parse(made.stdout);
  const scripts = all.filter((one) => one.name.endsWith('.js'));
  const first = scripts.filter((one) => one.first).reduce((sum, one) => sum + one.gzip, 0);
  const lazy = Math.max(...scripts.filter((one) => !one.first).map((one) => one.gzip));
  add('script of the first load, compressed', 'at most 100 kB', `${(first / 1000).toFixed(1)} kB`, first <= 100_000, 'gzip -9');
  add('largest part loaded when needed', 'at most 50 kB', `${(lazy / 1000).toFixed(1)} kB`, lazy <= 50_000, 'gzip -9');
}

function longAnswer(size) {
  const section = (n) => `## Part ${n}\n\nSome words about knot ${n} with **bold**, *italic* and \`code\`, and $x_{${n}}^2$.\n\n| a | b | c |\n|---|--:|---|\n| ${n} | ${n * 7} | cord |\n| ${n + 1} | ${n * 9} | knot |\n\n\`\`\`python\ndef tie_${n}(knots):\n    return [knot * ${n} for knot in knots if knot > ${n}]\n\`\`\`\n\n$$\n\\sum_{i=1}^{${n}} i = \\frac{${n}(${n}+1)}{2}\n$$\n\n- one\n- two\n\n`;
  let text = '';
  for (let n = 1; text.length < size; n++) text += section(n);
  return text.slice(0, size);
}

// Counts in thread time, which other programs on the machine do not change: a task that takes more than
// 12.5 ms of the main thread takes more than 50 ms on a processor that is four times slower.
const slowdown = 4;
const longTask = 50;

async function streaming() {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const profile = await openProfile(t, server);
  const chat = await Chat.create(server, { title: 'Long answer' });
  const page = await openPage(profile, `#/c/${chat.id}`);
  await page.waitForSelector('#composer');
  await send(page, 'Go');
  const asked = await model.asked();
  const text = longAnswer(48_000);
  await asked.say(text.slice(0, 1000));
  await page.waitForSelector('.message.assistant math');
  await page.waitForSelector('.hljs-keyword');
  const browser = profile.context.browser();
  await browser.startTracing(page, { categories: ['disabled-by-default-devtools.timeline'] });
  // Four characters are about a token: 200 tokens a second.
  for (let at = 1000; at < text.length; at += 40) {
    const began = Date.now();
    await asked.say(text.slice(at, at + 40));
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, 50 - (Date.now() - began))));
  }
  await asked.end();
  await page.waitForSelector('.chat[data-state=Idle]');
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const times = taskTimes(traceEvents).map((ms) => ms * slowdown).sort((one, other) => other - one);
  const long = times.filter((ms) => ms > longTask);
  add('long tasks while 48 kB stream at 200 tokens/s', 'none over 50 ms', `${long.length} of ${times.length}`, long.length === 0, `thread time of each task of the main thread, times 4; the longest ${times.slice(0, 3).map((ms) => ms.toFixed(0)).join(', ')} ms, the 99th percentile ${times[Math.floor(times.length / 100)].toFixed(0)} ms`);
}

// Milliseconds of processor time of each task of the page's main thread.
function taskTimes(events) {
  const threads = new Set(events.filter((one) => one.name === 'thread_name' && one.args.name === 'CrRendererMain').map((one) => `${one.pid}:${one.tid}`));
  const tasks = new Map();
  for (const one of events) {
    const thread = `${one.pid}:${one.tid}`;
    if (one.ph === 'X' && one.name === 'RunTask' && one.tdur !== undefined && threads.has(thread)) (tasks.get(thread) ?? tasks.set(thread, []).get(thread)).push(one.tdur / 1000);
  }
  // The browser may keep an empty page in reserve: the busiest thread is ours.
  const sum = (all) => all.reduce((whole, ms) => whole + ms, 0);
  return [...tasks.values()].sort((one, other) => sum(other) - sum(one))[0] ?? [];
}

// The work of the main thread per flush: its script, style and layout time over many small pieces.
async function flushes() {
  const costs = {};
  for (const size of [2_000, 100_000]) {
    const model = await Model.start(t);
    const server = await serveTurns(t, { env: model.env });
    const profile = await openProfile(t, server);
    const chat = await Chat.create(server, { title: 'Flush' });
    const page = await openPage(profile, `#/c/${chat.id}`);
    const session = await profile.context.newCDPSession(page);
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    await send(page, 'Go');
    const asked = await model.asked();
    await asked.say(`${longAnswer(size)}\n\n`);
    await asked.say('Now ');
    await see(page, 'Now');
    const busy = async () => (await session.send('Performance.getMetrics')).metrics.find((one) => one.name === 'TaskDuration').value;
    // Colours and formulas of what has arrived are drawn in idle time: wait until that is done.
    for (let last = -1, now = await busy(); now - last > 0.01; ) {
      await page.waitForTimeout(700);
      [last, now] = [now, await busy()];
    }
    const pieces = 60;
    const before = await busy();
    for (let n = 0; n < pieces; n++) {
      await asked.say('word ');
      await page.waitForTimeout(25);
    }
    costs[size] = ((await busy()) - before) / pieces;
    await asked.end();
  }
  const ratio = costs[100_000] / costs[2_000];
  add('cost of a flush at 100 kB and at 2 kB', 'at most 1.5', ratio.toFixed(2), ratio <= 1.5, `thread time of the main thread per piece: ${(costs[100_000] * 1000).toFixed(1)} ms, ${(costs[2_000] * 1000).toFixed(1)} ms`);
}

const memory = () => {
  const data = fs.mkdtempSync(fs.existsSync('/dev/shm') ? '/dev/shm/quipu-bench-' : path.join(os.tmpdir(), 'quipu-bench-'));
  ends.push(() => fs.rmSync(data, { recursive: true, force: true }));
  return path.join(data, 'data');
};

// A conversation of n messages, made by the command line before a server runs.
function conversation(data, n) {
  const id = ok(data, ['new', '--title', `Long ${n}`]).trim();
  const lines = Array.from({ length: n }, (_, k) => JSON.stringify({ role: k % 2 ? 'assistant' : 'user', text: k % 2 ? `Answer ${k + 1}. ${'Cords and knots and colours. '.repeat(k % 12)}` : `Question ${k + 1}: what of knot ${k}?` }));
  ok(data, ['add', id, '--jsonl', '-', '--batch', '1000'], { input: `${lines.join('\n')}\n` });
  return id;
}

async function opening() {
  const data = memory();
  const ids = [200, 10_000].map((n) => [n, conversation(data, n)]);
  const server = await serveTurns(t, { data });
  const profile = await openProfile(t, server);
  const found = {};
  for (const [n, id] of ids) {
    const page = await openPage(profile, `#/c/${id}`);
    await see(page, `Answer ${n}.`);
    await page.locator('.knot.user').first().waitFor();
    found[n] = await page.evaluate(() => ({ bytes: performance.getEntriesByType('resource').filter((one) => one.name.includes('/v1/contexts/')).reduce((sum, one) => sum + one.transferSize, 0), nodes: document.querySelectorAll('.thread *').length }));
    await page.close();
  }
  for (const [name, unit] of [['bytes', 'bytes transferred'], ['nodes', 'DOM nodes']]) {
    const [long, short] = [found[10_000][name], found[200][name]];
    add(`opening 10,000 messages and 200: ${unit}`, 'at most 1.2', (long / short).toFixed(2), long <= short * 1.2, `${long.toLocaleString('en')}, ${short.toLocaleString('en')}`);
  }
}

async function fill(server) {
  const make = async (from) => {
    for (let n = from; n < 10_000; n += 16) await fetch(`${server.url}/v1/contexts`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ title: `Conversation ${n}` }) });
  };
  await Promise.all(Array.from({ length: 16 }, (_, n) => make(n)));
}

// The peer is the same picture as a page without script: what a view looked like, saved, with the same
// style sheet, sent by the same server.
async function paints() {
  const data = memory();
  const dir = `${path.dirname(data)}/page`;
  spawnSync(process.execPath, ['web/build.mjs', dir]);
  const server = await serveTurns(t, { data, steps: [{ match: '*', times: 999, play: [{ text: longAnswer(3000) }] }] });
  const peer = await serveTurns(t, { args: ['--ui-dir', dir] });
  await fill(server);
  const chat = await Chat.create(server, { title: 'Shown' });
  await chat.send('Hello');
  const profile = await openProfile(t, server, { expected: [/./] });
  const views = { list: ['/', '.conversation'], conversation: [`/#/c/${chat.id}`, '.message.assistant'] };
  const page = await profile.context.newPage();
  // When the selector is in a frame that was painted, counted from the start of the navigation.
  const shown = async (address, selector) => {
    await page.goto('about:blank');
    await page.goto(address, { waitUntil: 'commit' });
    return page.evaluate(
      (wanted) =>
        new Promise((done) => {
          const look = () => (document.querySelector(wanted) ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look));
          look();
        }),
      selector,
    );
  };
  for (const [name, [address, selector]] of Object.entries(views)) {
    await shown(`${server.url}${address}`, selector);
    await page.waitForLoadState('load');
    const saved = `<!doctype html>${await page.evaluate(() => document.documentElement.outerHTML)}`.replace(/<script.*?<\/script>|<link rel="modulepreload"[^>]*>/g, '');
    fs.writeFileSync(path.join(dir, 'index.html'), saved);
    const ratios = [];
    const times = [];
    for (let n = 0; n < 9; n++) {
      const still = await shown(`${peer.url}/`, selector);
      const live = await shown(`${server.url}${address}`, selector);
      ratios.push(live / still);
      times.push([live, still]);
    }
    const ratio = median(ratios);
    add(name === 'list' ? 'first paint of the list of 10,000 and of a static page' : 'first paint of a conversation and of a static page', 'at most 1.5', ratio.toFixed(2), ratio <= 1.5, `${Math.round(median(times.map(([live]) => live)))} ms, ${Math.round(median(times.map(([, still]) => still)))} ms; the peer is the same picture without script`);
  }
}

// One view of the list of 10,000: every page is loaded by scrolling, and no frame's work is long.
async function scrolling() {
  const data = memory();
  const server = await serveTurns(t, { data });
  await fill(server);
  const profile = await openProfile(t, server);
  const page = await openPage(profile);
  await page.locator('.conversation').first().waitFor();
  const browser = profile.context.browser();
  await browser.startTracing(page, { categories: ['disabled-by-default-devtools.timeline'] });
  await page.evaluate(
    () =>
      new Promise((done) => {
        const box = document.querySelector('.rows');
        const move = () => {
          box.scrollTop += 400;
          if (document.querySelector('.conversation[aria-posinset="10000"]')) done();
          else requestAnimationFrame(move);
        };
        move();
      }),
  );
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const times = taskTimes(traceEvents).sort((one, other) => other - one);
  const long = times.filter((ms) => ms > longTask);
  add('tasks while 10,000 conversations are scrolled through', 'none over 50 ms', `${long.length} of ${times.length}`, long.length === 0, `thread time; the longest ${times[0].toFixed(0)} ms`);
}

const parts = { sizes, opening, streaming, flushes, paints, scrolling };
const wanted = process.argv.slice(2);
try {
  for (const [name, run] of Object.entries(parts)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    process.stderr.write(`${name}\n`);
    await run();
  }
} finally {
  await closeBrowser();
  for (const end of ends.reverse()) await Promise.resolve(end()).catch(() => undefined);
}
const table = `| what | bar | measured | | how |\n|---|---|---|---|---|\n${rows.join('\n')}\n`;
process.stdout.write(table);

// Its own section of the results; the others stay as they are.
if (wanted.length === 0) {
  const file = 'bench/RESULTS.md';
  const title = '## The web page';
  const section = `${title}\n\nWritten by \`node bench/web.mjs\`, which \`make bench\` runs when Chromium is there: ${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC, load average ${os.loadavg().map((one) => one.toFixed(2)).join(', ')}.\n[WEB.md](WEB.md) says how it is measured.\n\n${table}`;
  const old = fs.readFileSync(file, 'utf8');
  const at = old.indexOf(`${title}\n`);
  const next = at < 0 ? -1 : old.indexOf('\n## ', at + 1);
  fs.writeFileSync(file, at < 0 ? `${old.trimEnd()}\n\n${section}` : old.slice(0, at) + section + (next < 0 ? '' : old.slice(next)));
}
