// Talking: streaming, Markdown, thinking, pictures, stop, retry, regenerate, edit, drafts, the queue,
// errors in words. As a person does it, in a real browser, against the real program.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Model } from '../e2e/model.mjs';
import { freePort } from '../e2e/pages.mjs';
import { Chat, restart, serveTurns, until } from '../e2e/turns.mjs';
import { closeBrowser, open, openPage, see, send, stateIs } from './browser.mjs';

after(closeBrowser);

const rich = `# Knots

A **quipu** is a record in *knotted* cords, with \`code\` and [a link](https://example.org/x).

| knot | value |
|---|--:|
| long | 2 |
| single | 10 |

\`\`\`python
def tie(n):
    return "knot" * n
\`\`\`

The sum is $a^2 + b^2$ and

$$
\\int_0^1 x\\,dx = \\frac{1}{2}
$$

- [x] done
- [ ] open
`;

test('a new conversation is created by its first message, and the answer is Markdown', async (t) => {
  const server = await serveTurns(t, { steps: [{ play: [{ thinking: 'Let me think about knots.' }, { text: rich }] }] });
  const { page } = await open(t, server);
  await send(page, 'What is a quipu?');
  await stateIs(page, 'Idle');
  const answer = page.locator('.message.assistant').first();
  await answer.locator('h3', { hasText: 'Knots' }).waitFor();
  assert.equal(await answer.locator('strong').first().innerText(), 'quipu');
  assert.equal(await answer.locator('td').nth(3).innerText(), '10');
  await answer.locator('.hljs-keyword').first().waitFor();
  await answer.locator('math').nth(1).waitFor();
  await answer.locator('input[type=checkbox]').nth(1).waitFor();
  assert.equal(await answer.locator('input[type=checkbox]').count(), 2);
  // Thinking is there, and closed.
  assert.equal(await answer.locator('details.thinking').evaluate((one) => one.open), false);
  await answer.locator('details.thinking summary').click();
  await see(page, 'Let me think about knots.');
  // The list has it, by its first words.
  await page.locator('.conversation', { hasText: 'What is a quipu?' }).waitFor();
  await page.waitForFunction(() => document.title.includes('What is a quipu'));
  // Code can be copied.
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await answer.locator('.code button').click();
  await until(async () => /def tie/.test(await page.evaluate(() => navigator.clipboard.readText())));
});

test('an answer streams, settled blocks keep their nodes, and stop keeps what arrived', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server, { title: 'Streams' });
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await send(page, 'Tell me');
  const asked = await model.asked();
  await asked.say('First paragraph.\n\n```js\nlet a = 1;\n');
  await see(page, 'First paragraph.');
  await see(page, 'let a = 1;');
  await page.evaluate(() => {
    window.first = document.querySelector('.message.assistant .md p');
    window.code = document.querySelector('.message.assistant .md figure');
  });
  await asked.say('let b = 2;\n```\n\nSecond **par');
  await see(page, 'let b = 2;');
  // What is still open is closed for the eye.
  await page.locator('.message.assistant strong', { hasText: 'par' }).waitFor();
  assert.ok(await page.evaluate(() => window.first.isConnected && window.code.isConnected), 'settled blocks keep their nodes');
  await page.getByRole('button', { name: 'Stop' }).click();
  await stateIs(page, 'Idle');
  await see(page, 'The answer was interrupted here');
  assert.ok(await page.evaluate(() => window.first.isConnected && window.code.isConnected), 'also when the answer is stored');
  assert.match((await chat.state()).messages.at(-1).text, /Second \*\*par/);
});

test('edit and regenerate make branches, and arrows lead back', async (t) => {
  const server = await serveTurns(t, { steps: [{ match: '*', play: [{ text: 'An answer.' }] }] });
  const chat = await Chat.create(server, { title: 'Branches' });
  await chat.send('One way');
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await see(page, 'An answer.');
  await page.locator('.message.user').hover();
  await page.getByRole('button', { name: 'Edit and ask again' }).click();
  await page.getByLabel('Your message').fill('Another way');
  await page.getByRole('button', { name: 'Ask again', exact: true }).click();
  await page.locator('.bubble', { hasText: 'Another way' }).waitFor();
  await stateIs(page, 'Idle');
  await page.locator('.message.user .arrows', { hasText: '2/2' }).waitFor();
  await page.getByRole('button', { name: 'Previous alternative' }).click();
  await page.locator('.bubble', { hasText: 'One way' }).waitFor();
  await page.locator('.message.assistant').hover();
  await page.getByRole('button', { name: 'Answer again on a new branch' }).click();
  await page.locator('.message.assistant .arrows', { hasText: '2/2' }).waitFor();
  assert.equal((await server.expect(200, 'GET', `${chat.at}?messages=none`)).branches.length, 3);
});

test('drafts survive a reload, and a failed send loses nothing', async (t) => {
  const server = await serveTurns(t, { port: await freePort() });
  const chat = await Chat.create(server, { title: 'Drafts' });
  const other = await Chat.create(server, { title: 'Other' });
  const { page, profile } = await open(t, server, `#/c/${chat.id}`);
  await page.fill('#composer', 'half a thought');
  await page.locator('.conversation', { hasText: 'Other' }).locator('a').click();
  await page.waitForFunction(() => document.querySelector('#composer').value === '');
  await page.goto(`${server.url}/#/c/${chat.id}`);
  await page.reload();
  await page.waitForFunction(() => document.querySelector('#composer')?.value === 'half a thought');
  // The server is gone while it is sent.
  profile.expected.push(/ERR_|Failed to fetch|net::/);
  await server.stop('SIGKILL');
  await page.press('#composer', 'Enter');
  await page.locator('.composer-area .notice', { hasText: 'The server cannot be reached' }).waitFor();
  assert.equal(await page.inputValue('#composer'), 'half a thought');
  // It is back: nothing says any more that it is not, and the text is still there.
  await restart(t, server, 'SIGKILL');
  await page.locator('.composer-area .notice').waitFor({ state: 'detached' });
  assert.equal(await page.inputValue('#composer'), 'half a thought');
  assert.ok(other.id);
});

test('a message typed while the model is busy waits on the server, can be edited and dropped', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server, { title: 'Queue' });
  const has = await server.ask('GET', `${chat.at}/queue`).catch(() => ({ status: 404 }));
  if (has.status === 404) return t.skip('this server has no queue');
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await send(page, 'First');
  const first = await model.asked();
  await first.say('Working');
  await see(page, 'Working');
  await send(page, 'Second');
  await page.locator('.queued', { hasText: 'Second' }).waitFor();
  await send(page, 'Third');
  await page.locator('.queued', { hasText: 'Third' }).waitFor();
  await page.locator('.queued', { hasText: 'Third' }).getByRole('button', { name: 'Drop' }).click();
  await page.locator('.queued', { hasText: 'Third' }).waitFor({ state: 'detached' });
  await page.locator('.queued').getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Waiting message').fill('Second, better');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('.queued', { hasText: 'Second, better' }).waitFor();
  await page.reload();
  await page.locator('.queued', { hasText: 'Second, better' }).waitFor();
  await first.end();
  const second = await model.asked();
  assert.match(second.text, /Second, better/);
  await second.answer('Done with both.');
  await see(page, 'Done with both.');
  await page.locator('.queued').waitFor({ state: 'detached' });
});

test('a failed answer says what happened and can be tried again', async (t) => {
  const server = await serveTurns(t, { steps: [{ play: [{ error: { status: 400, type: 'invalid_request_error', message: 'no such model' } }] }, { match: '*', play: [{ text: 'Now it works.' }] }] });
  const chat = await Chat.create(server, { title: 'Errors' });
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await send(page, 'Try');
  await page.getByRole('alert').filter({ hasText: 'The answer failed' }).waitFor();
  await see(page, 'no such model');
  await page.getByRole('button', { name: 'Try again' }).click();
  await see(page, 'Now it works.');
});

test('a picture is pasted or dropped, shown and sent', async (t) => {
  const server = await serveTurns(t, { steps: [{ match: '*', play: [{ text: 'A red dot.' }] }] });
  const { page } = await open(t, server);
  const dot = 'iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==';
  // Pastes into the box, or drops on the heading: anywhere on the page. With a text, as office programs copy. Says whether the page took it.
  const give = (how, count, text) =>
    page.evaluate(
      ([data, type, n, words]) => {
        const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
        const transfer = new DataTransfer();
        for (let i = 0; i < n; i++) transfer.items.add(new File([bytes], `dot${i}.png`, { type: 'image/png' }));
        if (words) transfer.setData('text/plain', words);
        const event = type === 'paste' ? new ClipboardEvent(type, { clipboardData: transfer, bubbles: true, cancelable: true }) : new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true });
        return !document.querySelector(type === 'paste' ? '#composer' : 'h1').dispatchEvent(event);
      },
      [dot, how, count, text],
    );
  const attached = page.locator('.attached img');
  assert.equal(await give('paste', 1, 'a table'), false, 'the browser pastes the text');
  assert.equal(await attached.count(), 0);
  assert.equal(await give('drop', 9), true);
  await see(page, 'at most 8 images');
  await attached.nth(7).waitFor();
  assert.equal(await attached.count(), 8);
  for (let n = 8; n > 0; n--) await page.getByRole('button', { name: `Remove image ${n}` }).click();
  assert.equal(await give('paste', 1), true);
  await attached.waitFor();
  await send(page, 'What is this?');
  await page.locator('.message.user .images img').waitFor();
  await see(page, 'A red dot.');
  assert.equal(await page.locator('.attached').count(), 0);
});

test('two tabs of one conversation show the same answer from one stream', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server, { title: 'Tabs' });
  const { page, profile } = await open(t, server, `#/c/${chat.id}`);
  const second = await openPage(profile, `#/c/${chat.id}`);
  await send(page, 'Both');
  const asked = await model.asked();
  await asked.say('Seen in ');
  await see(second, 'Seen in');
  await see(page, 'Seen in');
  // A tab that joins in the middle sees the beginning too.
  const third = await openPage(profile, `#/c/${chat.id}`);
  await see(third, 'Seen in');
  await asked.say('all of them.');
  await asked.end();
  for (const one of [page, second, third]) await see(one, 'Seen in all of them.');
  // A tab that has not asked for a stream yet also says "open".
  let statuses;
  await until(async () => {
    statuses = await Promise.all([page, second, third].map((one) => one.locator('.chat').getAttribute('data-status')));
    return statuses.filter((status) => status === 'open').length === 1;
  }, () => `one stream, not ${statuses}`);
  // The holder leaves: another tab goes on.
  const holder = [page, second, third][statuses.indexOf('open')];
  await holder.close();
  const rest = [page, second, third].filter((one) => one !== holder);
  await send(rest[0], 'Again');
  await (await model.asked()).answer('Still here.');
  for (const one of rest) await see(one, 'Still here.');
});
