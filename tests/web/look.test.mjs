// How it looks: axe finds nothing serious in any view, light and dark; text that runs from right to left
// is laid out so; a phone shows one thing at a time. With QUIPU_SHOTS=DIR the screenshots of the README
// are written there.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { ok } from '../e2e/helper.mjs';
import { Chat, makeWorkspace, serveTurns, until } from '../e2e/turns.mjs';
import { closeBrowser, open, openPage, openProfile, see, shot, stateIs } from './browser.mjs';

after(async () => {
  await closeBrowser();
  for (const end of ends) await end();
});

const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

async function judge(page, name) {
  // axe runs in a world of its own, so that the policy of the page stays as it is.
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const result = await window.axe.run(document, { resultTypes: ['violations'] });
    return result.violations.filter((one) => one.impact === 'serious' || one.impact === 'critical').map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target.join(' ')} ${node.failureSummary.split('\n')[1] ?? ''}`).slice(0, 4).join(' | ')}`);
  });
  assert.deepEqual(found, [], `${name}: axe`);
}

const answer = `A **quipu** is a record kept in knotted cords. Each cord hangs from a main one, and its colour, its place and its knots carry meaning.

| knot | means | on the cord |
|---|---|--:|
| single | tens and above | 10 |
| long | units | 2–9 |
| figure-eight | one | 1 |

In code, the value of a cord is a sum over its clusters:

\`\`\`python
def value(clusters):
    """The most significant cluster hangs nearest to the main cord."""
    return sum(knots * 10 ** place for place, knots in enumerate(reversed(clusters)))

assert value([3, 0, 7]) == 307
\`\`\`

which is $v = \\sum_{i=0}^{n-1} k_i \\cdot 10^{\\,i}$ for a cord with $n$ clusters.`;

const shorter = 'Colour tells **what** is counted: white for silver, yellow for gold, red for soldiers. Spinning and the direction of a knot can mark a category too.';
const third = 'Nobody reads them fluently today. The numbers are understood since Locke (1912); whether some quipus hold *words* is still open.\n\n1. Numbers: base ten, by position\n2. Categories: by colour and order\n3. Names and stories: not deciphered';

let server;
let chat;
let approval;
let compacted;
let failed;
let empty;

// One server for the whole file.
const ends = [];
const file = { after: (end) => ends.push(end) };

before(async () => {
  const { work } = makeWorkspace(file);
  server = await serveTurns(file, {
    work,
    steps: [
      { after_tool: 'write_file', times: 9, play: [{ text: 'Written.' }] },
      { match: '*fail*', times: 9, play: [{ text: 'It begins' }, { error: { status: 401, type: 'authentication_error', message: 'invalid key' } }] },
      { match: '*long*', times: 99, play: [{ text: 'Words about knots. '.repeat(60) }] },
      { match: '*colour*', times: 9, play: [{ thinking: 'Colours carry the category.' }, { text: shorter }] },
      { match: '*read*', times: 9, play: [{ text: third }] },
      { match: '*change*', times: 9, play: [{ text: 'I will correct the note.' }, { call: 'write_file', arguments: { path: 'notes.txt', content: 'one knot\nthree knots\nand a long one\n' } }] },
      { match: '*', times: 99, play: [{ text: answer }] },
    ],
  });
  chat = await Chat.create(server, { title: 'How does a quipu hold numbers?' });
  await chat.send('How does a quipu hold numbers?');
  await chat.send('And what does the colour mean?');
  const last = await chat.send('Can anybody read them today?');
  await chat.does('regenerate', { message_id: last.messages.at(-1).id });
  await chat.does('switch_branch', { branch: 'main' });
  await chat.send('What is the value of [3, 0, 7]?');
  approval = await Chat.create(server, { title: 'Correct the notes' });
  await approval.send('change notes.txt');
  for (const title of ['Cords of the Wari', 'Weaving patterns for the loom', 'Puruchuco accounts', 'Trip to Cusco in May', 'Dyes: cochineal and indigo']) await (await Chat.create(server, { title })).send(`Tell me about ${title}`);
  compacted = await Chat.create(server, { title: 'A long talk' });
  for (let n = 1; n <= 8; n++) await compacted.send(`A long question ${n}`);
  await compacted.act('compact', {});
  failed = await Chat.create(server, { title: 'A turn that failed' });
  await failed.send('please fail');
  empty = await Chat.create(server, { title: 'Nothing yet' });
  await server.expect(201, 'POST', '/v1/system-prompts', { id: 'brief', name: 'Brief', description: 'Short answers', content: 'Answer in at most three sentences.' });
});

for (const colorScheme of ['light', 'dark'])
  test(`every view, ${colorScheme}: nothing serious for axe`, async (t) => {
    const profile = await openProfile(t, server, { colorScheme, viewport: { width: 1440, height: 900 } });
    const page = await openPage(profile);
    await page.locator('.conversation').nth(3).waitFor();
    await judge(page, 'home');
    if (colorScheme === 'light') await shot(page, 'home');
    await page.goto(`${server.url}/#/c/${chat.id}`);
    await see(page, 'What is the value of');
    await page.locator('.hljs-keyword').first().waitFor();
    await page.locator('math').first().waitFor();
    await page.locator('.knot.user').nth(3).waitFor();
    await page.waitForTimeout(200);
    await judge(page, 'conversation');
    await shot(page, `conversation-${colorScheme}`);
    await page.getByRole('button', { name: 'Outline' }).click();
    await page.locator('.outline button').nth(2).waitFor();
    await judge(page, 'outline');
    await page.locator('.title-bar').getByRole('button', { name: 'Find in this conversation' }).click();
    await page.locator('.find input').fill('quipu');
    await page.locator('.hits button').first().waitFor();
    await judge(page, 'find');
    await page.getByRole('button', { name: 'Close panel' }).click();
    await page.getByTitle('All branches as a picture').click();
    await page.locator('.tree-cord').nth(1).waitFor();
    await judge(page, 'tree');
    if (colorScheme === 'light') await shot(page, 'tree');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Conversation', exact: true }).click();
    await judge(page, 'menu');
    await page.getByRole('menuitem', { name: 'Compare branches' }).click();
    await page.locator('.compare-side section').nth(1).waitFor();
    await judge(page, 'compare');
    await page.keyboard.press('Escape');
    await page.goto(`${server.url}/#/c/${compacted.id}`);
    // The row may be drawn again while it is clicked.
    await until(async () => {
      if (await page.getByRole('button', { name: 'Edit summary' }).isVisible()) return true;
      await page.locator('.compaction summary').first().click();
      return false;
    });
    await judge(page, 'compaction');
    await page.locator('.gauge').click();
    await page.locator('.legend li').first().waitFor();
    await judge(page, 'window');
    if (colorScheme === 'light') await shot(page, 'window');
    await page.getByRole('button', { name: 'Compact now' }).click();
    await see(page, 'A summary would not be shorter than the messages that it replaces.');
    await judge(page, 'nothing to compact');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'What the model sees' }).click();
    await page.locator('.sent section').first().waitFor();
    await judge(page, 'what the model sees');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Close panel' }).click();
    await page.goto(`${server.url}/#/c/${failed.id}`);
    await see(page, 'The answer failed.');
    await judge(page, 'failed');
    await page.goto(`${server.url}/#/c/${empty.id}`);
    await see(page, 'An empty conversation');
    await judge(page, 'empty');
    await page.goto(`${server.url}/#/c/${approval.id}`);
    await page.locator('.approval').waitFor();
    await judge(page, 'approval');
    if (colorScheme === 'light') await shot(page, 'approval');
    for (const view of ['prompts', 'usage', 'storage', 'import', 'settings']) {
      await page.goto(`${server.url}/#/${view}`);
      await page.locator('.page h1').waitFor();
      await page.waitForLoadState('networkidle').catch(() => undefined);
      if (view === 'usage') await page.locator('.chart rect').last().waitFor();
      await judge(page, view);
      if (colorScheme === 'dark' && view === 'usage') await shot(page, 'usage-dark');
    }
    await page.keyboard.press('Control+k');
    await page.locator('.palette').waitFor();
    await judge(page, 'palette');
    await page.keyboard.press('Escape');
    profile.expected.push(/ERR_|net::|Failed to fetch/);
    await profile.context.setOffline(true);
    await see(page, 'The server cannot be reached.');
    await judge(page, 'offline');
  });

for (const colorScheme of ['light', 'dark'])
  test(`signing in, ${colorScheme}: nothing serious for axe`, async (t) => {
    const closed = await serveTurns(t);
    ok(closed.data, ['key', 'create', '--scope', 'write']);
    // The server looks at its keys once per second.
    await until(async () => (await fetch(`${closed.url}/v1/contexts`)).status === 401);
    const { page } = await open(t, closed, '', { colorScheme, expected: [/status of 401/] });
    await see(page, 'Sign in to quipu');
    await judge(page, 'sign-in');
  });

test('a phone shows one thing at a time', async (t) => {
  const { page } = await open(t, server, `#/c/${chat.id}`, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
  await see(page, 'What is the value of');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `no sideways scrolling: ${wide}`);
  await page.waitForTimeout(300);
  await shot(page, 'phone');
  await judge(page, 'phone');
  await page.getByRole('button', { name: 'Conversations' }).click();
  await page.locator('.sidebar.open .conversation').first().waitFor();
  await judge(page, 'list on a phone');
  await page.locator('.sidebar.open .conversation', { hasText: 'Puruchuco' }).locator('a').click();
  await stateIs(page, 'Idle');
  await page.locator('.sidebar.open').waitFor({ state: 'detached' });
});

test('text from right to left is laid out so, and reduced motion moves nothing', async (t) => {
  const rtl = await Chat.create(server, { title: 'مرحبا' });
  await rtl.send('ما هو الكيبو؟');
  const { page } = await open(t, server, `#/c/${rtl.id}`);
  const bubble = page.locator('.bubble');
  await bubble.waitFor();
  assert.equal(await bubble.evaluate((one) => getComputedStyle(one).direction), 'rtl');
  const names = await page.evaluate(() => document.getAnimations().map((one) => one.animationName));
  assert.deepEqual(names, []);
});
