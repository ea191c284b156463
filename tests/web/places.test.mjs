// Everything around a conversation: the list, search, branches, prompts, usage, storage, import, export,
// settings, the command palette.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, test } from 'node:test';
import { Chat, serveTurns, until } from '../e2e/turns.mjs';
import { closeBrowser, open, see, send, stateIs } from './browser.mjs';

after(closeBrowser);

const echo = [{ match: '*', times: 99, play: [{ text: 'An answer about *cords*.' }] }];

test('rename, delete with undo, and search that jumps to a message on another branch', async (t) => {
  const server = await serveTurns(t, { steps: echo });
  const chat = await Chat.create(server, { title: 'Old name' });
  const sent = await chat.send('the word zanahoria is here');
  await chat.does('edit_message', { message_id: sent.messages[0].id, content: 'other words' });
  const gone = await Chat.create(server, { title: 'To delete' });
  const { page } = await open(t, server);
  const row = page.locator('.conversation', { hasText: 'Old name' });
  await row.hover();
  await row.getByRole('button', { name: 'Actions for Old name' }).click();
  await page.getByRole('menuitem', { name: 'Rename' }).click();
  const title = 'New name, too long for one line of the list';
  await page.getByLabel('Title').fill(title);
  await page.keyboard.press('Enter');
  await page.locator('.conversation', { hasText: title }).waitFor();
  await until(async () => (await server.expect(200, 'GET', `${chat.at}?messages=none`)).title === title);
  const remove = async () => {
    const doomed = page.locator('.conversation', { hasText: 'To delete' });
    await doomed.hover();
    await doomed.getByRole('button', { name: 'Actions for To delete' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await doomed.waitFor({ state: 'detached' });
  };
  await remove();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.locator('.conversation', { hasText: 'To delete' }).waitFor();
  await server.expect(200, 'GET', `${gone.at}?messages=none`);
  await remove();
  await page.locator('.note').getByRole('button', { name: 'Close' }).click();
  await until(async () => (await server.ask('GET', `${gone.at}?messages=none`)).status === 404);
  // As you type; the hit is on a branch that is not shown.
  await page.fill('#search', 'zanah');
  const hit = page.locator('.hit mark', { hasText: 'zanahoria' });
  await hit.waitFor();
  assert.ok(await page.locator('.results').evaluate((box) => box.scrollWidth <= box.clientWidth), 'a hit is as wide as the list');
  await hit.click();
  await page.locator('.bubble', { hasText: 'zanahoria' }).waitFor();
  await page.locator('.row.found').waitFor();
});

test('find in the conversation, outline, and the cord', async (t) => {
  const server = await serveTurns(t, { steps: echo });
  const chat = await Chat.create(server, { title: 'Find' });
  for (const word of ['red', 'blue', 'green']) await chat.send(`the ${word} cord`);
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await see(page, 'the green cord');
  await page.keyboard.press('Control+Shift+F');
  await page.getByLabel('Find in this conversation').and(page.locator('input')).fill('blue');
  await page.locator('.hits mark', { hasText: 'blue' }).waitFor();
  await page.keyboard.press('Enter');
  await page.locator('.row.found', { hasText: 'the blue cord' }).waitFor();
  await page.keyboard.press('Control+Shift+L');
  await page.locator('.outline button', { hasText: 'the red cord' }).click();
  await page.locator('.row.found', { hasText: 'the red cord' }).waitFor();
  await page.locator('.knot.user').nth(2).waitFor({ state: 'attached' });
  assert.equal(await page.locator('.knot.user').count(), 3);
  await page.locator('.cord-touch').focus();
  await page.keyboard.press('End');
  await page.locator('.cord-tip', { hasText: 'the green cord' }).waitFor();
});

test('the tree shows every branch: switch, label, compare, delete', async (t) => {
  const server = await serveTurns(t, { steps: [{ play: [{ text: 'The first answer.' }] }, { play: [{ text: 'The second answer.' }] }, ...echo] });
  const chat = await Chat.create(server, { title: 'Tree' });
  await chat.send('Ask');
  await chat.does('regenerate', {});
  const names = (await server.expect(200, 'GET', `${chat.at}?messages=none`)).branches.map((branch) => branch.name);
  const other = names.find((name) => name !== 'main');
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await see(page, 'The second answer.');
  await page.getByRole('button', { name: 'Conversation', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Compare branches' }).click();
  const sides = page.locator('.compare-side');
  await sides.filter({ hasText: 'The first answer.' }).waitFor();
  await sides.filter({ hasText: 'The second answer.' }).waitFor();
  await page.keyboard.press('Escape');
  // From branch point to branch point by keys: there is one.
  await page.keyboard.press('Alt+Shift+ArrowDown');
  await page.locator('.row.found', { hasText: 'The second answer.' }).waitFor();
  await page.keyboard.press('Alt+Shift+ArrowDown');
  await see(page, 'This is the last branch point.');
  await page.getByTitle('All branches as a picture').click();
  await page.locator('.tree-cord').nth(1).waitFor({ state: 'attached' });
  assert.equal(await page.locator('.tree-cord').count(), 2);
  await page.getByRole('button', { name: `Actions for ${other}` }).click();
  await page.getByRole('menuitem', { name: 'Label…' }).click();
  await page.getByLabel('Label of the branch').fill('better');
  await page.keyboard.press('Enter');
  await page.locator('.branch-name', { hasText: 'better' }).waitFor();
  await page.getByRole('button', { name: /^main / }).click();
  await see(page, 'The first answer.');
  await page.getByTitle('All branches as a picture').click();
  await page.getByRole('button', { name: 'Actions for better' }).click();
  await page.getByRole('menuitem', { name: 'Delete branch' }).click();
  await page.locator('.branch-name', { hasText: 'better' }).waitFor({ state: 'detached' });
  let left;
  await until(async () => (left = (await server.expect(200, 'GET', `${chat.at}?messages=none`)).branches.map((branch) => branch.name)).length === 1, () => String(left));
  assert.deepEqual(left, ['main']);
});

test('prompts: create, edit, use on a branch, delete with undo', async (t) => {
  const server = await serveTurns(t, { steps: echo });
  const chat = await Chat.create(server, { title: 'Prompted' });
  await chat.send('Hello');
  const { page } = await open(t, server, '#/prompts');
  await page.getByRole('button', { name: 'Write the first one' }).click();
  await page.getByLabel('Name').fill('Brief');
  await page.getByLabel('Text').fill('Be brief.');
  await page.getByRole('button', { name: 'Save prompt' }).click();
  await page.locator('.card', { hasText: 'Be brief.' }).getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Text').fill('Be very brief.');
  await page.getByRole('button', { name: 'Save prompt' }).click();
  await page.locator('.card', { hasText: 'Be very brief.' }).waitFor();
  await page.goto(`${server.url}/#/c/${chat.id}`);
  await stateIs(page, 'Idle');
  await page.getByRole('button', { name: 'Conversation', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Model and prompt' }).click();
  await page.getByLabel('System prompt of the branch').selectOption('brief');
  await page.locator('.prompt-text', { hasText: 'Be very brief.' }).waitFor();
  await until(async () => (await server.expect(200, 'GET', `${chat.at}/branches/main`)).system_prompt_id === 'brief');
  await page.goto(`${server.url}/#/prompts`);
  await page.getByRole('button', { name: 'Delete Brief' }).click();
  await page.locator('.card').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.locator('.card', { hasText: 'Be very brief.' }).waitFor();
});

test('usage and storage are charts of real figures', async (t) => {
  const server = await serveTurns(t, { steps: [{ play: [{ text: 'Counted.' }, { usage: { input: 1200, output: 340 } }] }] });
  const chat = await Chat.create(server, { title: 'Counted' });
  await chat.send('Count');
  const { page } = await open(t, server, '#/usage');
  await page.locator('.tiles div', { hasText: 'Tokens in' }).filter({ hasText: '1.2k' }).waitFor();
  await page.locator('.chart rect').last().waitFor();
  await page.goto(`${server.url}/#/storage`);
  await page.locator('.bars a', { hasText: 'Counted' }).waitFor();
  await page.getByRole('button', { name: /Details of/ }).first().click();
  await page.locator('dialog .bars', { hasText: 'main' }).waitFor();
  await page.keyboard.press('Escape');
  for (const work of ['Check', 'Compress', 'Archive', 'Collect the trash']) {
    await page.getByRole('button', { name: work, exact: true }).click();
    await page.locator('.job', { hasText: work }).filter({ hasText: 'done' }).waitFor();
  }
});

test('conversations of the older program in this browser are offered and imported', async (t) => {
  const server = await serveTurns(t);
  if (!(await (await fetch(`${server.url}/openapi.json`)).text()).includes('"/v1/import"')) return t.skip('this server has no import over HTTP');
  const { page } = await open(t, server);
  const dump = JSON.parse(fs.readFileSync('tests/fixtures/localstorage/v2.json', 'utf8'));
  await page.evaluate((entries) => {
    for (const [name, value] of Object.entries(entries)) localStorage.setItem(name, typeof value === 'string' ? value : JSON.stringify(value));
  }, dump.localStorage ?? dump);
  await page.goto(`${server.url}/#/import`);
  await see(page, 'Found in this browser');
  await page.getByRole('button', { name: 'Import them' }).click();
  await page.locator('.job', { hasText: 'done' }).waitFor();
  assert.equal((await server.expect(200, 'GET', '/v1/contexts')).contexts.length, 3);
  await page.locator('.conversation').nth(2).waitFor();
});

test('a conversation is exported as Markdown and as JSON', async (t) => {
  const server = await serveTurns(t, { steps: echo });
  const chat = await Chat.create(server, { title: 'Take me out' });
  await chat.send('Export this');
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await see(page, 'An answer about');
  const save = async (name) => {
    await page.getByRole('button', { name: 'Conversation', exact: true }).click();
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name }).click()]);
    return { name: download.suggestedFilename(), text: fs.readFileSync(await download.path(), 'utf8') };
  };
  const markdown = await save('Export as Markdown');
  assert.equal(markdown.name, 'Take me out.md');
  assert.match(markdown.text, /# Take me out[\s\S]*Export this[\s\S]*about \*cords\*/);
  const json = await save('Export as JSON');
  assert.equal(Object.keys(JSON.parse(json.text).message_pool).length, 2);
});

test('the palette and shortcuts reach everything, and settings are kept', async (t) => {
  const server = await serveTurns(t, { steps: echo });
  const { page } = await open(t, server);
  await page.keyboard.press('Control+k');
  await page.getByLabel('Command or conversation').fill('settings');
  await page.keyboard.press('Enter');
  await page.getByLabel('Dark', { exact: true }).check();
  const dark = () => page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
  await dark();
  await page.reload();
  await dark();
  await page.keyboard.press('Control+Shift+O');
  await send(page, 'By keys alone');
  await stateIs(page, 'Idle');
  await page.keyboard.press('Escape');
});

test('compaction: preview, mark with the kept count, summary, undo and redo, what the model sees', async (t) => {
  const server = await serveTurns(t, { steps: [{ match: '*', times: 99, play: [{ text: 'Words about knots. '.repeat(60) }] }] });
  const chat = await Chat.create(server, { title: 'Compact' });
  if ((await server.ask('GET', `${chat.at}/compactions`).catch(() => ({ status: 404 }))).status === 404) return t.skip('this server has no compaction yet');
  for (let n = 1; n <= 8; n++) await chat.send(`Message ${n} about the cord`);
  const { page } = await open(t, server, `#/c/${chat.id}`);
  await page.locator('.gauge').click();
  await page.locator('.legend li').first().waitFor();
  await page.getByRole('button', { name: 'Compact now…' }).click();
  await page.locator('dialog', { hasText: 'become a summary' }).getByRole('button', { name: 'Compact now' }).click();
  const mark = page.locator('.compaction');
  await mark.waitFor();
  assert.match(await mark.innerText(), /\d+ messages compacted · \d+ kept as written/);
  // Once, on a busy machine, a click did not open it; the row may have been drawn again in between.
  await until(async () => {
    if (await mark.getByRole('button', { name: 'Edit summary' }).isVisible()) return true;
    await mark.getByText('Read the summary that the model sees').click();
    return false;
  });
  await mark.getByRole('button', { name: 'Edit summary' }).click();
  await mark.getByLabel('Summary').fill('The cord has eight knots.');
  await mark.getByRole('button', { name: 'Save summary' }).click();
  await see(page, 'The cord has eight knots.');
  await page.getByRole('button', { name: 'What the model sees' }).click();
  await page.locator('.sent', { hasText: 'The cord has eight knots.' }).waitFor();
  await page.keyboard.press('Escape');
  // The edit is undone first, then the compaction.
  await page.locator('.panel').getByRole('button', { name: 'Undo' }).click();
  await mark.getByText('The cord has eight knots.').waitFor({ state: 'detached' });
  await page.locator('.panel').getByRole('button', { name: 'Undo' }).click();
  await mark.waitFor({ state: 'detached' });
  await page.locator('.panel').getByRole('button', { name: 'Redo' }).click();
  await mark.waitFor();
});
