// What is around conversations on the server: usage of all of them, sizes, the trash, and files to import.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { serveTurns } from '../e2e/turns.mjs';
import { closeBrowser, open, see } from './browser.mjs';

after(closeBrowser);

test('usage counts every conversation, whatever its age in the list, for the chosen period', async (t) => {
  const server = await serveTurns(t);
  const tokens = { prompt_tokens: 500, completion_tokens: 100 };
  for (let n = 0; n < 60; n++) {
    const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: `c${n}` });
    const created_at = new Date(Date.now() - (n < 50 ? 0 : 20 * 86_400_000)).toISOString();
    await server.expect(201, 'POST', `/v1/contexts/${id}/messages`, { role: 'assistant', text: 'ok', created_at, metadata: { model: n % 2 ? 'even' : 'odd', tokens, cost_usd: 0.5 } });
  }
  const { page } = await open(t, server, '#/usage');
  const tile = (name) => page.locator('.tiles div', { has: page.getByText(name, { exact: true }) }).locator('dd');
  await tile('Answers').filter({ hasText: /^60$/ }).waitFor();
  assert.equal(await tile('Cost').innerText(), '$30.00');
  assert.equal(await page.locator('.bars[aria-label="Tokens per model"] li').count(), 2);
  await page.getByLabel('7 days').check();
  await tile('Answers').filter({ hasText: /^50$/ }).waitFor();
  assert.equal(await tile('Cost').innerText(), '$25.00');
});

test('storage lists branches and the trash: a deleted branch is restored, then deleted for good', async (t) => {
  const server = await serveTurns(t);
  const { id } = await server.expect(201, 'POST', '/v1/contexts', { title: 'Branches' });
  const at = `/v1/contexts/${id}`;
  await server.expect(201, 'POST', `${at}/messages`, { role: 'user', text: 'trunk' });
  for (const name of ['side', 'other']) {
    await server.expect(201, 'POST', `${at}/branches`, { name });
    await server.expect(201, 'POST', `${at}/messages?branch=${name}`, { role: 'user', text: `only on ${name}` });
  }
  await server.expect(204, 'DELETE', `${at}/branches/side`);
  const { page } = await open(t, server, '#/storage');
  await page.locator('.bars li.part', { hasText: 'other' }).waitFor();
  const tracks = await page.locator('.bars .bar').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width));
  assert.equal(new Set(tracks).size, 1, 'all bars have one scale');
  await see(page, 'The trash is empty');
  await page.getByRole('button', { name: 'Collect the trash', exact: true }).click();
  await page.locator('.trash li', { hasText: 'only on side' }).getByRole('button', { name: 'Restore' }).click();
  await page.locator('.trash').waitFor({ state: 'detached' });
  await page.locator('.note', { hasText: 'Restored as branch' }).getByRole('button', { name: 'Open' }).click();
  await page.locator('.message', { hasText: 'only on side' }).waitFor();
  const { branches } = await server.expect(200, 'GET', `${at}?messages=none`);
  const back = branches.find((branch) => branch.name.startsWith('restored-')).name;
  await server.expect(200, 'POST', `${at}/actions/switch_branch`, { branch: 'main' });
  await server.expect(204, 'DELETE', `${at}/branches/${back}`);
  await page.goto(`${server.url}/#/storage`);
  await page.getByRole('button', { name: 'Collect the trash', exact: true }).click();
  await page.getByRole('button', { name: 'Delete all for good' }).click();
  await see(page, 'The trash is empty');
  assert.equal((await server.expect(200, 'GET', '/v1/sizes')).total.messages, 2);
});

test('a dropped file is imported, with a report that links to the conversation', async (t) => {
  const server = await serveTurns(t);
  const { page } = await open(t, server, '#/import');
  const chat = { id: 'c-1', title: 'Knots', createdAt: 1700000000000 };
  const dump = { copilot_chats_v2: JSON.stringify([chat]), 'copilot_messages_v2_c-1': JSON.stringify([{ id: 'm-1', role: 'user', content: 'How many knots?', timestamp: 1700000001000 }]) };
  const drop = async (name, text) => {
    await page.locator('.drop').waitFor();
    await page.evaluate(([file, content]) => {
      const data = new DataTransfer();
      data.items.add(new File([content], file, { type: 'application/json' }));
      document.querySelector('.drop').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
    }, [name, text]);
  };
  await drop('dump.json', JSON.stringify(dump));
  await page.locator('.job', { hasText: 'dump.json' }).locator('.report a').click();
  await page.locator('.message', { hasText: 'How many knots?' }).waitFor();
  await page.goBack();
  await drop('junk.json', '{"nothing":1}');
  await page.locator('.job', { hasText: 'junk.json' }).filter({ hasText: 'failed' }).waitFor();
});
