// Hostile text from a model, a tool or an import stays text: no script runs, no request leaves.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Chat, serveTurns } from '../e2e/turns.mjs';
import { closeBrowser, open, see } from './browser.mjs';

after(closeBrowser);

const attacks = [
  '<script>window.hacked = 1</script>',
  '<img src=x onerror="window.hacked = 2">',
  '<svg onload="window.hacked = 3"><script>window.hacked = 4</script></svg>',
  '<iframe src="javascript:parent.hacked = 5"></iframe>',
  '<style>body { display: none }</style>',
  '[script](javascript:window.hacked=6)',
  '[data](data:text/html,<script>window.hacked=7</script>)',
  '[upper](JaVaScRiPt:window.hacked=8)',
  '[entity](javascript&#58;window.hacked=9)',
  '[file](file:///etc/passwd)',
  '![picture](https://evil.example/steal?q=1)',
  '![inline](data:image/svg+xml,<svg onload=alert(1)>)',
  '[reference][x]\n\n[x]: javascript:window.hacked=10',
  '<https://evil.example/auto>',
  '```html\n<script>window.hacked = 11</script>\n```',
  '$\\href{javascript:window.hacked=12}{x}$ $\\url{https://evil.example/m}$ $\\includegraphics{https://evil.example/p.png}$',
  '| <b onmouseover=hacked=13>x</b> |\n|---|\n| <script>hacked=14</script> |',
  '# <img src=//evil.example/h>',
  '<a href="https://evil.example" style="position:fixed;inset:0">x</a>',
  '<form action="https://evil.example"><button>x</button></form>',
];

test('hostile Markdown, HTML, SVG and links stay text', async (t) => {
  const server = await serveTurns(t, { steps: [{ play: [{ text: `${attacks.join('\n\n')}\n\nThe end.` }] }] });
  const title = '<img src=x onerror=window.hacked=20>';
  const chat = await Chat.create(server, { title });
  await chat.send(`<script>window.hacked = 21</script>\n${attacks[1]}`);
  const { page, profile } = await open(t, server, `#/c/${chat.id}`);
  await see(page, 'The end.');
  await page.waitForTimeout(300); // what could run would have run
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  const message = page.locator('.message.assistant');
  assert.equal(await page.locator('.md script, .md iframe, .md style, .md form, .md svg:not(.icon), .md img').count(), 0);
  const addresses = await message.locator('.md a').evaluateAll((all) => all.map((one) => one.getAttribute('href')));
  for (const address of addresses) assert.match(address, /^(https?:|mailto:|#)/);
  for (const link of await message.locator('.md a').all()) assert.match(await link.getAttribute('rel'), /noopener/);
  assert.equal(await page.locator('[style*="fixed"]').count(), 0);
  // Titles and snippets of a search too.
  await page.fill('#search', 'script');
  await page.locator('.hit').first().waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(profile.problems.filter((text) => /origin/.test(text)), []);
});

test('the page is served with the policy, and the policy holds', async (t) => {
  const server = await serveTurns(t);
  const answer = await fetch(`${server.url}/`, { headers: { accept: 'text/html' } });
  assert.equal(answer.headers.get('content-security-policy'), "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'");
  const { page, profile } = await open(t, server, '', { expected: [/policy violated|Content Security Policy|TrustedHTML|evil\.example/] });
  const outcome = await page.evaluate(() => {
    try {
      document.body.innerHTML = '<b>x</b>';
      return 'written';
    } catch (error) {
      return error.name;
    }
  });
  assert.equal(outcome, 'TypeError');
  assert.equal(await page.evaluate(() => fetch('https://evil.example/').then(() => 'sent', () => 'blocked')), 'blocked');
  assert.ok(profile.problems.length > 0, 'a violation is noticed by these tests');
});
