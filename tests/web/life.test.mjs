// Nothing is lost: reload in the middle of an answer, a killed server, no network, many tabs, and an
// approval that another tab sees.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Model } from '../e2e/model.mjs';
import { freePort } from '../e2e/pages.mjs';
import { Chat, makeWorkspace, restart, serveTurns, stored, until } from '../e2e/turns.mjs';
import { closeBrowser, open, openPage, openProfile, see, send, stateIs } from './browser.mjs';

after(closeBrowser);

test('a reload in the middle of an answer shows all of it', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server, { title: 'Reload' });
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await send(page, 'Go');
  const asked = await model.asked();
  await asked.say('The first half, ');
  await see(page, 'The first half,');
  await page.reload();
  await see(page, 'The first half,');
  await asked.say('and the second.');
  await see(page, 'The first half, and the second.');
  await asked.end();
  await stateIs(page, 'Idle');
  assert.equal(await page.locator('.message.assistant').count(), 1);
});

test('a server that is killed in the middle of an answer comes back, and nothing is lost', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env, port: await freePort() });
  const chat = await Chat.create(server, { title: 'Killed' });
  const { page, profile } = await open(t, server, `#/c/${chat.id}`, { expected: [/ERR_|net::|Failed to fetch|status of 50/] });
  await send(page, 'Go');
  const asked = await model.asked();
  await asked.say('What arrived before the crash. ');
  await see(page, 'What arrived before the crash.');
  // What was streamed is durable a moment after it was told.
  await until(() => stored(server.data, 'What arrived before the crash.'));
  await restart(t, server, 'SIGKILL');
  await see(page, 'The server stopped in the middle of the turn');
  await see(page, 'What arrived before the crash.');
  await see(page, 'The answer was interrupted here');
  await page.getByRole('button', { name: 'Try again' }).click();
  await (await model.asked()).answer('Complete this time.');
  await see(page, 'Complete this time.');
  assert.ok(profile);
});

test('offline and back: the page says so, and catches up', async (t) => {
  const model = await Model.start(t);
  const server = await serveTurns(t, { env: model.env });
  const chat = await Chat.create(server, { title: 'Offline' });
  const { page, profile } = await open(t, server, `#/c/${chat.id}`, { expected: [/ERR_|net::|Failed to fetch/] });
  await send(page, 'Go');
  const asked = await model.asked();
  await asked.say('One. ');
  await see(page, 'One.');
  await profile.context.setOffline(true);
  await see(page, 'The server cannot be reached.');
  // What is written now stays in the box.
  await page.fill('#composer', 'Written without a network');
  await asked.say('Two.');
  await asked.end();
  await profile.context.setOffline(false);
  await page.locator('.offline').waitFor({ state: 'detached' });
  await see(page, 'One. Two.');
  await stateIs(page, 'Idle');
  assert.equal(await page.inputValue('#composer'), 'Written without a network');
});

test('a conversation that is opened without a connection opens by itself when it is back', async (t) => {
  const server = await serveTurns(t, { steps: [{ play: [{ text: 'The answer.' }] }] });
  const chat = await Chat.create(server, { title: 'Far away' });
  await chat.send('Hello');
  const { page, profile } = await open(t, server, '', { expected: [/ERR_|net::|Failed to fetch/] });
  await page.locator('.conversation', { hasText: 'Far away' }).waitFor();
  // The code of a conversation is loaded when there is time for it.
  await page.waitForFunction(() => {
    const files = document.querySelector('script[data-chat]').dataset.chat.split(' ');
    const loaded = performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname);
    return files.every((file) => loaded.includes(file));
  });
  await profile.context.setOffline(true);
  await page.locator('.conversation a').first().click();
  await see(page, 'It opens by itself');
  assert.equal(await page.locator('.chat h1, .chat .title').first().innerText(), 'Far away', 'the title is known from the list');
  await profile.context.setOffline(false);
  await page.locator('.message.assistant', { hasText: 'The answer.' }).waitFor();
});

test('a part of the page that is not loaded without a connection opens by itself when it is back', async (t) => {
  const server = await serveTurns(t);
  const { page, profile } = await open(t, server, '', { expected: [/ERR_|net::|Failed to fetch/] });
  await page.locator('.sidebar').waitFor();
  await profile.context.setOffline(true);
  await page.evaluate(() => (location.hash = '#/usage'));
  await see(page, 'It opens by itself');
  await profile.context.setOffline(false);
  await page.getByRole('heading', { name: 'Usage' }).first().waitFor();
});

test('an approval in one tab is seen in the other, with what will happen', async (t) => {
  const { work, read } = makeWorkspace(t);
  const server = await serveTurns(t, {
    work,
    steps: [
      { after_tool: 'run_command', play: [{ text: 'Both done.' }] },
      { after_tool: 'write_file', play: [{ text: 'Both done.' }] },
      { match: '*write*', play: [{ call: 'write_file', arguments: { path: 'notes.txt', content: 'one knot\nthree knots\n' } }, { call: 'run_command', arguments: { command: 'echo tied', directory: '.' } }] },
    ],
  });
  const chat = await Chat.create(server, { title: 'Approve' });
  const { page, profile } = await open(t, server, `#/c/${chat.id}`);
  const second = await openPage(profile, `#/c/${chat.id}`);
  await send(page, 'write it');
  for (const one of [page, second]) await one.locator('.approval').nth(1).waitFor();
  const state = await chat.state();
  const preview = state.state_detail.pending?.[0]?.preview ?? state.pending_tool_calls[0].preview;
  if (preview) await page.locator('.approval').first().locator('.diff-add', { hasText: '+three knots' }).waitFor();
  await page.locator('.approval', { hasText: 'echo tied' }).getByText(/^in \S/).waitFor();
  // Denied with a reason in one tab; the other shows what is left.
  const command = second.locator('.approval', { hasText: 'echo tied' });
  await command.getByRole('button', { name: 'Deny' }).click();
  await command.getByLabel('Reason, for the model').fill('not now');
  await command.getByRole('button', { name: 'Deny' }).click();
  await page.locator('.approval').nth(1).waitFor({ state: 'detached' });
  await page.locator('.approval').getByRole('button', { name: 'Approve', exact: true }).click();
  for (const one of [page, second]) await see(one, 'Both done.');
  assert.equal(read('notes.txt'), 'one knot\nthree knots\n');
  await see(page, 'not now');
});

test('edited arguments run as edited, and "always" stores a rule and says which', async (t) => {
  const { work, read } = makeWorkspace(t);
  const server = await serveTurns(t, { work, steps: [{ after_tool: 'write_file', times: 9, play: [{ text: 'Written.' }] }, { match: '*write*', play: [{ call: 'write_file', arguments: { path: 'notes.txt', content: 'as asked' } }] }] });
  const chat = await Chat.create(server, { title: 'Edit' });
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await send(page, 'write it');
  await page.getByRole('button', { name: 'Edit arguments' }).click();
  await page.getByLabel('Arguments as JSON').fill('{"path": "notes.txt", "content": ');
  await page.getByRole('button', { name: 'Use these arguments' }).click();
  await see(page, 'This is not valid JSON');
  await page.getByLabel('Arguments as JSON').fill('{"path": "notes.txt", "content": "as edited"}');
  await page.getByRole('button', { name: 'Use these arguments' }).click();
  const accepts = JSON.stringify((await server.ask('GET', '/openapi.json')).body.components.schemas.ApproveTools).includes('"arguments"');
  if (accepts) {
    await page.getByRole('button', { name: 'Approve as edited' }).click();
    await see(page, 'Written.');
    assert.equal(read('notes.txt'), 'as edited');
    await send(page, 'write again');
  } else await page.reload();
  await page.getByRole('button', { name: 'Always allow' }).click();
  await page.locator('.note', { hasText: 'Rule saved: write_file' }).waitFor();
  await stateIs(page, 'Idle');
  assert.equal((await server.expect(200, 'GET', '/v1/tools/rules')).rules.length, 1);
  await send(page, 'write once more');
  await page.locator('.message.assistant', { hasText: 'Written.' }).nth(accepts ? 2 : 1).waitFor();
  await stateIs(page, 'Idle');
  assert.equal(await page.locator('.approval').count(), 0);
});

test('ten tabs at once work, with few streams', async (t) => {
  const server = await serveTurns(t, { steps: [{ match: '*', play: [{ text: 'Answer for everyone.' }] }] });
  const profile = await openProfile(t, server);
  const chats = [];
  for (let n = 0; n < 10; n++) chats.push(await Chat.create(server, { title: `Tab ${n}` }));
  const pages = await Promise.all(chats.map((chat) => openPage(profile, `#/c/${chat.id}`)));
  await Promise.all(pages.map((page) => page.waitForSelector('.chat #composer')));
  await Promise.all(pages.map((page, n) => send(page, `Hello from ${n}`)));
  await Promise.all(pages.map((page) => see(page, 'Answer for everyone.')));
  // A tab that has not asked for a stream yet also says "open".
  const streams = async () => (await Promise.all(pages.map((page) => page.locator('.chat').getAttribute('data-status')))).filter((status) => status === 'open');
  await until(async () => (await streams()).length <= 3, () => 'at most three streams');
});

test('a conversation whose scripts come late is opened once', async (t) => {
  const server = await serveTurns(t);
  const profile = await openProfile(t, server);
  await profile.context.route('**/*.js', async (route) => {
    await new Promise((done) => setTimeout(done, 400)); // beyond the patience of the page
    await route.continue();
  });
  for (let n = 0; n < 3; n++) {
    const { id } = await Chat.create(server, { title: `Late ${n}` });
    const page = await profile.context.newPage();
    let opened = 0;
    page.on('request', (request) => (opened += request.url().endsWith(`${id}?messages=none`)));
    await page.goto(`${server.url}/#/c/${id}`);
    await page.waitForSelector('.chat #composer');
    await page.waitForFunction(async (name) => (await navigator.locks.query()).held.some((lock) => lock.name === name), `quipu:stream:${id}`);
    assert.deepEqual(await page.evaluate(async () => (await navigator.locks.query()).pending), []);
    assert.equal(opened, 1);
    await page.close();
  }
});

test('two tabs of a conversation that has no stream both follow it', async (t) => {
  const server = await serveTurns(t, { steps: [{ match: '*', play: [{ text: 'Answer for both.' }] }] });
  const profile = await openProfile(t, server);
  const status = (page, wanted) => page.waitForSelector(`.chat[data-status="${wanted}"]`);
  for (let n = 0; n < 3; n++) {
    const page = await openPage(profile, `#/c/${(await Chat.create(server, { title: `Slot ${n}` })).id}`);
    await page.waitForFunction(async (slot) => (await navigator.locks.query()).held.some((lock) => lock.name === slot), `quipu:slot:${n}`);
  }
  const { id } = await Chat.create(server, { title: 'Twice' });
  const first = await openPage(profile, `#/c/${id}`);
  await status(first, 'polling');
  const second = await openPage(profile, `#/c/${id}`);
  await status(second, 'polling');
  await send(first, 'Hello');
  for (const page of [first, second]) {
    await see(page, 'Answer for both.');
    await page.waitForFunction(() => !document.querySelector('.message.sending'));
    assert.equal(await page.locator('.message.user').count(), 1);
  }
});

test('a key is asked for, kept for the session only, and never part of an address', async (t) => {
  const server = await serveTurns(t);
  const { ok } = await import('../e2e/helper.mjs');
  const key = ok(server.data, ['key', 'create', '--scope', 'write']).trim();
  // The server looks at its keys once per second.
  while ((await fetch(`${server.url}/v1/contexts`)).status !== 401) await new Promise((done) => setTimeout(done, 50));
  const { page, profile } = await open(t, server, '', { expected: [/status of 401/] });
  await see(page, 'Sign in to quipu');
  await page.getByLabel('Key').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await see(page, 'does not know this key');
  await page.getByLabel('Key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await send(page, 'Signed in');
  await stateIs(page, 'Idle');
  await page.reload();
  await page.waitForSelector('.chat');
  assert.equal(page.url().includes(key), false);
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage)).then((text) => text.includes(key)), false);
  const other = await openPage(profile);
  await see(other, 'Sign in to quipu');
});
