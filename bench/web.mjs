#!/usr/bin/env node
// Figures of the web page, measured in a real Chromium against the built program:
//
//   node bench/web.mjs          prints a table
//
// sizes      what the browser loads first, and the largest part that it loads when needed
// stream     a 48 kB answer of code, tables and math at 200 tokens a second, CPU slowed down four times:
//            long tasks (over 50 ms) of the main thread
// flush      time to show one more piece at the end of an answer of 2 kB and of 100 kB
// paint      first paint of the list and of a conversation, against a static page of the same server

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Model } from '../tests/e2e/model.mjs';
import { Chat, serveTurns } from '../tests/e2e/turns.mjs';
import { closeBrowser, openPage, openProfile, see, send } from '../tests/web/browser.mjs';

const ends = [];
const t = { after: (end) => ends.push(end) };
const rows = [];
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

function sizes() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'quipu-page-'));
  const made = spawnSync(process.execPath, ['web/build.mjs', dir, '--sizes'], { encoding: 'utf8' });
  fs.rmSync(dir, { recursive: true });
  const all = JSON.parse(made.stdout);
  const scripts = all.filter((one) => one.name.endsWith('.js'));
  const first = scripts.filter((one) => one.first).reduce((sum, one) => sum + one.gzip, 0);
  const lazy = Math.max(...scripts.filter((one) => !one.first).map((one) => one.gzip));
  rows.push(['script of the first load, compressed', `${(first / 1000).toFixed(1)} kB`, 'at most 100 kB']);
  rows.push(['largest part loaded when needed', `${(lazy / 1000).toFixed(1)} kB`, 'at most 50 kB']);
}

function longAnswer(size) {
  const section = (n) => `## Part ${n}\n\nSome words about knot ${n} with **bold**, *italic* and \`code\`, and $x_{${n}}^2$.\n\n| a | b | c |\n|---|--:|---|\n| ${n} | ${n * 7} | cord |\n| ${n + 1} | ${n * 9} | knot |\n\n\`\`\`python\ndef tie_${n}(knots):\n    return [knot * ${n} for knot in knots if knot > ${n}]\n\`\`\`\n\n$$\n\\sum_{i=1}^{${n}} i = \\frac{${n}(${n}+1)}{2}\n$$\n\n- one\n- two\n\n`;
  let text = '';
  for (let n = 1; text.length < size; n++) text += section(n);
  return text.slice(0, size);
}

async function streaming() {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const profile = await openProfile(t, server);
  const chat = await Chat.create(server, { title: 'Long answer' });
  const page = await openPage(profile, `#/c/${chat.id}`);
  await page.waitForSelector('#composer');
  await page.evaluate(() => {
    window.long = [];
    new PerformanceObserver((list) => window.long.push(...list.getEntries().map((one) => one.duration))).observe({ type: 'longtask' });
  });
  const session = await profile.context.newCDPSession(page);
  await send(page, 'Go');
  const asked = await model.asked();
  const text = longAnswer(48_000);
  await asked.say(text.slice(0, 1000));
  await page.waitForSelector('.message.assistant math');
  await page.waitForSelector('.hljs-keyword');
  await page.evaluate(() => (window.long.length = 0));
  await session.send('Emulation.setCPUThrottlingRate', { rate: 4 });
  // Four characters are about a token: 200 tokens a second.
  for (let at = 1000; at < text.length; at += 40) {
    const began = Date.now();
    await asked.say(text.slice(at, at + 40));
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, 50 - (Date.now() - began))));
  }
  await asked.end();
  await page.waitForSelector('.chat[data-state=Idle]');
  const long = await page.evaluate(() => window.long);
  rows.push(['long tasks while 48 kB stream at 200 tokens/s, CPU slowed 4 times', `${long.length}, longest ${Math.round(Math.max(0, ...long))} ms`, 'none over 50 ms']);
  await session.send('Emulation.setCPUThrottlingRate', { rate: 1 });
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
    await session.send('Performance.enable');
    await send(page, 'Go');
    const asked = await model.asked();
    await asked.say(`${longAnswer(size)}\n\n`);
    await asked.say('Now ');
    await see(page, 'Now');
    const metrics = async () => Object.fromEntries((await session.send('Performance.getMetrics')).metrics.map((one) => [one.name, one.value]));
    const busy = async () => (await metrics()).TaskDuration;
    // Colours and formulas of what has arrived are drawn in idle time: wait until that is done.
    for (let last = -1, now = await busy(); now - last > 0.01; ) {
      await page.waitForTimeout(700);
      [last, now] = [now, await busy()];
    }
    const start = await metrics();
    const pieces = 60;
    const before = await busy();
    for (let n = 0; n < pieces; n++) {
      await asked.say('word ');
      await page.waitForTimeout(25);
    }
    costs[size] = ((await busy()) - before) / pieces;
    const end = await metrics();
    if (process.env.QUIPU_BENCH_PARTS) for (const name of ['ScriptDuration', 'LayoutDuration', 'RecalcStyleDuration', 'TaskDuration']) process.stderr.write(`${size} ${name} ${(((end[name] - start[name]) / pieces) * 1000).toFixed(2)} ms\n`);
    await asked.end();
  }
  rows.push(['cost of a flush at 2 kB, at 100 kB', `${(costs[2_000] * 1000).toFixed(1)} ms, ${(costs[100_000] * 1000).toFixed(1)} ms (${(costs[100_000] / costs[2_000]).toFixed(2)} times)`, 'at most 1.5 times']);
}

async function paints() {
  const data = fs.mkdtempSync(fs.existsSync('/dev/shm') ? '/dev/shm/quipu-bench-' : path.join(os.tmpdir(), 'quipu-bench-'));
  ends.push(() => fs.rmSync(data, { recursive: true, force: true }));
  const server = await serveTurns(t, { data: path.join(data, 'data'), steps: [{ match: '*', times: 999, play: [{ text: longAnswer(3000) }] }] });
  const make = async (from) => {
    for (let n = from; n < 10_000; n += 16) await fetch(`${server.url}/v1/contexts`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ title: `Conversation ${n}` }) });
  };
  await Promise.all(Array.from({ length: 16 }, (_, n) => make(n)));
  const chat = await Chat.create(server, { title: 'Shown' });
  await chat.send('Hello');
  const profile = await openProfile(t, server, { expected: [/./] });
  const shown = async (address, selector) => {
    const times = [];
    for (let n = 0; n < 7; n++) {
      const page = await profile.context.newPage();
      await page.goto(`${server.url}${address}`);
      await page.waitForSelector(selector);
      times.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()));
      await page.close();
    }
    return median(times);
  };
  const still = await shown('/openapi.json', 'body');
  const list = await shown('/', '.sidebar');
  const talk = await shown(`/#/c/${chat.id}`, '.chat');
  rows.push(['first paint: static page, list of 10,000, conversation', `${Math.round(still)}, ${Math.round(list)}, ${Math.round(talk)} ms`, 'within 1.5 times of the static page']);
}

const parts = { sizes, streaming, flushes, paints };
const wanted = process.argv.slice(2);
try {
  for (const [name, run] of Object.entries(parts)) if (wanted.length === 0 || wanted.includes(name)) await run();
} finally {
  await closeBrowser();
  for (const end of ends.reverse()) await Promise.resolve(end()).catch(() => undefined);
}
process.stdout.write('| measured | value | wanted |\n|---|---|---|\n');
for (const row of rows) process.stdout.write(`| ${row.join(' | ')} |\n`);
