// Long conversations and long lists: they open at once at the end, and a reader's place does not move.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { atEnd, ok, tempDir } from '../e2e/helper.mjs';
import { Model } from '../e2e/model.mjs';
import { Chat, serveTurns } from '../e2e/turns.mjs';
import { closeBrowser, open, see, send } from './browser.mjs';

after(closeBrowser);

// In memory where that is possible: thousands of durable writes are not what is tested here.
function fastDirectory(t) {
  if (!fs.existsSync('/dev/shm')) return `${tempDir(t)}/data`;
  const dir = fs.mkdtempSync('/dev/shm/quipu-web-');
  atEnd(t, () => fs.rmSync(dir, { recursive: true, force: true }));
  return path.join(dir, 'data');
}

// A conversation of n messages, made by the command line before a server runs.
function longConversation(data, n) {
  const id = ok(data, ['new', '--title', `Long ${n}`]).trim();
  const lines = [];
  for (let k = 1; k <= n; k++) lines.push(JSON.stringify({ role: k % 2 ? 'user' : 'assistant', text: k % 2 ? `Question ${k}: what of knot ${k}?` : `Answer ${k}. ${'Cords and knots and colours. '.repeat((k * 7) % 12)}\n\n- one\n- two` }));
  ok(data, ['add', id, '--jsonl', '-', '--batch', '1000'], { input: `${lines.join('\n')}\n` });
  return id;
}

const transferred = (page) => page.evaluate(() => performance.getEntriesByType('resource').filter((one) => one.name.includes('/v1/contexts/')).reduce((sum, one) => sum + one.transferSize, 0));
const nodes = (page) => page.evaluate(() => document.querySelectorAll('.thread *').length);

test('10,000 messages open at the end with the work of 200', async (t) => {
  const data = fastDirectory(t);
  const short = longConversation(data, 200);
  const long = longConversation(data, 10_000);
  const server = await serveTurns(t, { data });
  const figures = {};
  for (const [id, n] of [[short, 200], [long, 10_000]]) {
    const { page } = await open(t, server, `#/c/${id}`);
    await see(page, `Answer ${n}.`);
    await page.waitForLoadState('networkidle').catch(() => undefined);
    figures[n] = { bytes: await transferred(page), nodes: await nodes(page) };
    const atEnd = await page.locator('.thread').evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight);
    assert.ok(atEnd < 60, `at the end, not ${atEnd} px above it`);
    if (n === 10_000) {
      // To the beginning by the cord, and by the keyboard along it.
      await page.locator('.cord-touch').focus();
      await page.keyboard.press('Home');
      await page.locator('.row', { hasText: /Question \d+: what/ }).first().waitFor();
      await page.locator('.thread').evaluate((box) => (box.scrollTop = 0));
      await see(page, 'Question 1: what of knot 1?');
    }
  }
  t.diagnostic(JSON.stringify(figures));
  assert.ok(figures[10_000].nodes <= figures[200].nodes * 1.2 && figures[10_000].bytes <= figures[200].bytes * 1.2, JSON.stringify(figures));
});

// The heights of new rows are measured in the frames after they appear: wait until nothing moves any more.
const settled = (page) =>
  page.evaluate(
    () =>
      new Promise((done) => {
        let same = 0;
        let last = '';
        const look = () => {
          const box = document.querySelector('.thread');
          const now = `${box.scrollTop} ${box.scrollHeight}`;
          same = now === last ? same + 1 : 0;
          last = now;
          if (same > 10) done();
          else requestAnimationFrame(look);
        };
        look();
      }),
  );

test('a reader who scrolled up keeps the place while the tail grows and older pages arrive', async (t) => {
  const data = fastDirectory(t);
  const id = longConversation(data, 400);
  const model = await Model.start(t);
  const server = await serveTurns(t, { data, env: model.env });
  await server.expect(200, 'PATCH', `/v1/contexts/${id}`, { model_id: 'openai/knots' });
  const { page } = await open(t, server, `#/c/${id}`);
  await see(page, 'Answer 400.');
  await send(page, 'More');
  const asked = await model.asked();
  await asked.say('It begins.\n\n');
  await see(page, 'It begins.');
  // Up by the wheel, into pages that are not loaded.
  await page.locator('.thread').hover();
  for (let n = 0; n < 12; n++) {
    const before = await page.locator('.thread').evaluate((box) => box.scrollTop);
    await page.mouse.wheel(0, -700);
    // The browser scrolls when it comes to it: every turn of the wheel has to be over.
    await page.waitForFunction((at) => Math.abs(document.querySelector('.thread').scrollTop - at) > 200, before);
  }
  await page.waitForFunction(() => document.querySelectorAll('.missing').length === 0);
  await settled(page);
  const anchor = await page.evaluate(() => {
    const top = document.querySelector('.thread').getBoundingClientRect().top;
    const row = [...document.querySelectorAll('.row[data-id]')].find((one) => one.getBoundingClientRect().top >= top);
    return { id: row.dataset.id, top: row.getBoundingClientRect().top };
  });
  const moved = () => page.evaluate(({ id: wanted, top }) => document.querySelector(`.row[data-id="${wanted}"]`).getBoundingClientRect().top - top, anchor);
  for (let n = 0; n < 20; n++) {
    await asked.say(`Line ${n} of the growing tail, with some words in it.\n\n`);
    assert.ok(Math.abs(await moved()) <= 1, `moved by ${await moved()} px`);
  }
  await asked.end();
  await page.waitForSelector('.chat[data-state=Idle]');
  assert.ok(Math.abs(await moved()) <= 1, `moved by ${await moved()} px when the answer was stored`);
  // A click brings the reader to the end.
  await page.getByRole('button', { name: 'To the end' }).click();
  await see(page, 'Line 19 of the growing tail');
});

test('focus and open disclosures survive scrolling', async (t) => {
  const server = await serveTurns(t, { steps: [{ play: [{ thinking: 'A thought to open.' }, { text: 'Short.' }] }, { match: '*', play: [{ text: `${'Long text. '.repeat(400)}\n\n`.repeat(6) }] }] });
  const chat = await Chat.create(server, { title: 'Scroll' });
  await chat.send('One');
  for (let n = 0; n < 6; n++) await chat.send(`Then ${n}`);
  const { page } = await open(t, server, `#/c/${chat.id}`);
  // It opens at its end: not before that is over can one go to the beginning.
  await page.locator('.message.assistant', { hasText: 'Long text.' }).first().waitFor();
  await settled(page);
  await page.locator('.thread').evaluate((box) => (box.scrollTop = 0));
  await page.locator('details.thinking summary').click();
  await see(page, 'A thought to open.');
  await page.locator('details.thinking summary').focus();
  const scroll = (to) => page.locator('.thread').evaluate((box, at) => (box.scrollTop = at === 'end' ? box.scrollHeight : 0), to);
  await scroll('end');
  await page.waitForTimeout(200);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'SUMMARY', 'the focus is not lost');
  await page.locator('#composer').focus();
  await scroll('end');
  await page.waitForTimeout(200);
  await scroll('start');
  await see(page, 'A thought to open.');
});

test('a list of 10,000 conversations scrolls and loads as it goes', async (t) => {
  const data = fastDirectory(t);
  const server = await serveTurns(t, { data });
  const make = async (from) => {
    for (let n = from; n < 10_000; n += 16) await fetch(`${server.url}/v1/contexts`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ title: `Conversation ${n}` }) });
  };
  await Promise.all(Array.from({ length: 16 }, (_, n) => make(n)));
  const { page } = await open(t, server);
  await page.locator('.conversation').first().waitFor();
  assert.ok((await page.locator('.conversation').count()) < 60, 'only what is near has nodes');
  // Every page of the list is one request: a hundred of them on a busy machine.
  await page.waitForFunction(
    () => {
      const box = document.querySelector('.rows');
      box.scrollTop = box.scrollHeight;
      return document.querySelector('.conversation')?.getAttribute('aria-setsize') === '10000';
    },
    undefined,
    { timeout: 120_000 },
  );
  await page.locator('.conversation[aria-posinset="10000"]').waitFor();
  assert.ok((await page.locator('.conversation').count()) < 60, 'only what is near has nodes');
});
