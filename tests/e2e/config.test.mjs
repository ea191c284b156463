// The configuration of the server: its file, flags and environment, and reading it again.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { exampleFile, makeExample, makePage, pageFile, readTable } from '../../tools/configdoc.mjs';
import { bin, fails, ok, run, tempDir } from './helper.mjs';
import { Model } from './model.mjs';
import { serve, statuses } from './server.mjs';

const table = readTable(bin);

// A data directory that is only named, and a file for --config.
function place(t, text) {
  const dir = tempDir(t);
  const file = path.join(dir, 'my.conf');
  if (text !== undefined) fs.writeFileSync(file, text);
  return { dir, file, data: path.join(dir, 'data') };
}

function effective(data, args = [], env = {}) {
  const { values } = JSON.parse(ok(data, ['serve', '--print-config', '--json', ...args], { env }));
  return Object.fromEntries(values.map((row) => [row.key, row]));
}

async function until(holds) {
  while (!holds()) await sleep(10);
}

test('a value comes from the flag, else the environment, else the file, else the default', (t) => {
  const { data, file } = place(t, '[limits]\nmax_body = 3M\n');
  const from = (args, env) => {
    const row = effective(data, args, env).max_body;
    return [row.value, row.source];
  };
  assert.deepEqual(from([]), ['32M', 'default']);
  assert.deepEqual(from(['--config', file]), ['3M', 'file']);
  assert.deepEqual(from(['--config', file], { QUIPU_MAX_BODY: '4M' }), ['4M', 'environment']);
  assert.deepEqual(from(['--config', file, '--max-body', '5000'], { QUIPU_MAX_BODY: '4M' }), ['5000', 'flag']);
  assert.equal(effective(data, ['--config', file]).max_body.line, 2);
  assert.deepEqual(from([], { QUIPU_CONFIG: file }), ['3M', 'file']);
  assert.deepEqual(from([], { QUIPU_MAX_BODY: '' }), ['32M', 'default']);
  assert.ok(!fs.existsSync(data), 'printing makes no data directory');
});

test('every row of the table works as key, flag and variable', (t) => {
  const other = {
    text: 'x',
    list: 'a b',
    lines: 'auto grep',
    number: '60',
    bytes: '2K',
    money: '0.25',
    choice: 'error',
    switch: 'no',
    secret: 'sk-hidden',
  };
  const value = (row) => ({ log_format: 'json', compaction: 'manual' })[row.key] ?? other[row.type];
  const { data, file } = place(t);
  const all = (source, args, env) => {
    const found = effective({ environment: 'x', flag: data }[source], args, env);
    for (const row of table) {
      const now = found[row.key];
      assert.deepEqual([now.value, now.source], [row.type === 'secret' ? true : value(row), source], row.key);
    }
  };
  for (const row of table) {
    assert.equal(row.environment, `QUIPU_${row.key.toUpperCase()}`);
    assert.equal(row.flag, row.key.replaceAll('_', '-'));
  }
  fs.writeFileSync(file, table.map((row) => `[${row.section}]\n${row.key} = ${value(row)}\n`).join(''));
  all('file', ['--config', file], {});
  all('environment', [], Object.fromEntries(table.map((row) => [row.environment, value(row)])));
  all('flag', table.flatMap((row) => [`--${row.flag}`, value(row)]), {});
});

test('the file in the data directory is read, unless --config names another', (t) => {
  const { data, file } = place(t, 'timeout = 5\n');
  fs.mkdirSync(data);
  fs.writeFileSync(path.join(data, 'quipu.conf'), '# mine\n[limits]\ntimeout = 7 ; seconds\n');
  assert.equal(effective(data).timeout.value, '7');
  assert.equal(effective(data, ['--config', file]).timeout.value, '5', 'a key needs no section');
  ok(data, ['new']);
  assert.doesNotMatch(ok(data, ['check']), /quipu\.conf/, 'it is no foreign file');
  fs.writeFileSync(path.join(data, 'quipu.conf'), '[server]\ndata = /elsewhere\n');
  fails(data, ['serve'], 'INVALID', /quipu\.conf' line 2: the file in the data directory must not have the key 'data'/);
});

test('a file names the data directory', (t) => {
  const { dir, file } = place(t, '');
  fs.writeFileSync(file, `data = ${dir}/named\n`);
  assert.equal(effective(undefined, ['--config', file]).data.value, `${dir}/named`);
  assert.equal(effective(`${dir}/other`, ['--config', file]).data.source, 'environment');
  assert.equal(effective(undefined, ['--config', file, '--data', 'x']).data.source, 'flag');
});

test('lists take several values from every source', (t) => {
  const { data, file } = place(t, '[access]\nallow_origin = https://a, https://b ; two\n  https://c ; one\nallow_origin = https://d\n');
  const list = (args, env) => effective(data, args, env).allow_origin.value;
  assert.equal(list(['--config', file]), 'https://a https://b https://c https://d');
  assert.equal(list(['--config', file], { QUIPU_ALLOW_ORIGIN: ' https://e,https://f ' }), 'https://e https://f');
  assert.equal(list(['--allow-origin', 'https://g', '--allow-origin=https://h', '--allow-origin', 'i,j']), 'https://g https://h i j');
  fails(data, ['serve', ...Array(70).fill('--allow-host=x')], 'INVALID', /too often/);
});

test('mistakes are told with the place where they are', (t) => {
  const { data, file } = place(t);
  const bad = [
    ['[limits]\nmax_bdy = 1M\n', /my\.conf' line 2: unknown key 'max_bdy'; did you mean max_body/],
    ['[limts]\n', /my\.conf' line 1: unknown section 'limts'/],
    ['  [nowhere]\nmax_body = 1M\n', /line 2: unknown section 'nowhere'/],
    ['[server]\n\nmax_body = 1M\n', /line 3: this section does not have the key 'max_body'/],
    ['[limits]\nmax_body\n', /line 2 is neither \[section\] nor key = value/],
    ['[limits\nmax_body = 1M\n', /line 1/],
    ['max_body = 1T\n', /line 1: max_body must be a size from 1024 to 1073741824 bytes, as 65536, 64K or 1M, not '1T'/],
    ['max_body = 2G\n', /must be a size/],
    ['max_body = 18446744073709551615G\n', /must be a size/],
    ['max_body = 1023\n', /must be a size/],
    ['max_body =\n', /must be a size/],
    ['timeout = soon\n', /line 1: timeout must be a whole number from 1 to 86400, not 'soon'/],
    ['timeout = 0\n', /timeout must be a whole number/],
    ['timeout = 1\ntimeout = 2\n', /line 2: timeout is set twice/],
    ['listen =\n', /line 1: listen needs a value/],
    ['log_level = loud\n', /log_level must be one of error\|warn\|info\|debug, not 'loud'/],
    ['access_log = maybe\n', /access_log must be yes or no/],
    ['tls_cert = x\n', /tls_cert and tls_key must both be set: tls_key is missing/],
    [`listen = ${'x'.repeat(300)}\n`, /line 1 is longer than 198 bytes/],
    ['listen = a\u0001b\n', /control character/],
    ['listen = a\0b\n', /NUL/],
  ];
  for (const [text, sentence] of bad) {
    fs.writeFileSync(file, text);
    fails(data, ['serve', '--config', file], 'INVALID', sentence);
  }
  fails(data, ['serve', '--max-body', '1T'], 'INVALID', /--max-body must be a size/);
  fails(data, ['serve', '--threads', '65'], 'INVALID', /--threads must be a whole number from 0 to 64/);
  fails(data, ['serve'], 'INVALID', /\$QUIPU_TIMEOUT must be/, { env: { QUIPU_TIMEOUT: 'x' } });
  fails(data, ['serve', '--config', `${file}.missing`], 'NOTFOUND', /my\.conf\.missing/);
  fails(data, ['serve', '--config', path.dirname(file)], 'IO', /./);
  fails(data, ['serve', '--timeout', '1', '--timeout', '2'], 'INVALID', /given twice/);
  assert.ok(!fs.existsSync(data), 'nothing was begun');
});

test('what --print-config prints is a file that means the same', (t) => {
  const { data, file } = place(t, 'allow_host = one two\n  three\nmax_header = 8k\naccess_log = off\n');
  const args = ['--config', file, '--allow-origin', 'https://a', '--timeout', '9'];
  const printed = ok(data, ['serve', '--print-config', ...args], { env: { QUIPU_LOG_FORMAT: 'json' } });
  assert.match(printed, /^max_header = 8k ; line 3$/m);
  assert.match(printed, /^timeout = 9 ; --timeout$/m);
  assert.match(printed, /^log_format = json ; \$QUIPU_LOG_FORMAT$/m);
  assert.match(printed, /^threads = 0 ; default$/m);
  assert.match(printed, /^# tls_key is not set$/m);
  const before = effective(data, args, { QUIPU_LOG_FORMAT: 'json' });
  fs.writeFileSync(file, printed);
  const after = effective(undefined, ['--config', file]);
  for (const key of Object.keys(before)) assert.equal(after[key].value, before[key].value, key);
});

// ---- models, tools and turns ----

const secret = 'sk-never-to-be-seen';

test('the password of a URL is shown nowhere', async (t) => {
  const url = (user) => `http://${user}:${secret}@127.0.0.1:1/v1`;
  const { data, file } = place(t, `[models]\nollama_url = ${url('file')}\n[provider.mine]\nurl = ${url('mine')}\n`);
  const env = { OPENAI_BASE_URL: url('env') };
  const args = ['--config', file, '--anthropic-url', 'https://flag:p@127.0.0.1:1'];
  const printed = ok(data, ['serve', '--print-config', ...args], { env });
  assert.match(printed, /^ollama_url = http:\/\/file:\*\*\*@127\.0\.0\.1:1\/v1 ; line 2$/m);
  assert.match(printed, /^openai_url = http:\/\/env:\*\*\*@127\.0\.0\.1:1\/v1 ; /m);
  assert.match(printed, /^anthropic_url = https:\/\/flag:\*@127\.0\.0\.1:1 ; --anthropic-url$/m);
  assert.match(printed, /^url = http:\/\/mine:\*\*\*@127\.0\.0\.1:1\/v1 ; line 4$/m);
  const json = ok(data, ['serve', '--print-config', '--json', ...args], { env });
  assert.equal(JSON.parse(json).providers[0].url, 'http://mine:***@127.0.0.1:1/v1');
  const server = await serve(t, { data, args: ['--config', file] });
  fs.writeFileSync(file, `[models]\nollama_url = http://other:${secret}@127.0.0.1:2/v1\n`);
  server.process.child.kill('SIGHUP');
  await until(() => server.process.stderr.includes('read the configuration again'));
  const { stderr } = await server.stop();
  assert.match(stderr, /ollama_url stays 'http:\/\/file:\*\*\*@127\.0\.0\.1:1\/v1' until a restart; the configuration has 'http:\/\/other:\*\*\*@127/);
  const wrong = fails(data, ['chat', '--server', `ftp://me:${secret}@127.0.0.1`], 'INVALID', /'ftp:\/\/me:\*\*\*@127\.0\.0\.1' is not the URL/);
  for (const text of [printed, json, stderr, wrong.stderr]) assert.equal(text.includes(secret), false, text);
});

test('a secret is shown nowhere', async (t) => {
  const { data, dir, file } = place(t, `[models]\nanthropic_key = ${secret}-1\n[provider.mine]\nurl = http://127.0.0.1:1/v1\nkey = ${secret}-2\n`);
  const args = ['--config', file];
  const env = { OPENAI_API_KEY: `${secret}-3`, QUIPU_LOG_LEVEL: 'debug' };
  fs.chmodSync(file, 0o604);
  const printed = ok(data, ['serve', '--print-config', ...args], { env });
  assert.match(printed, /^# anthropic_key is set and not shown ; line 2$/m);
  assert.match(printed, /^# openai_key is set and not shown ; \$OPENAI_API_KEY$/m);
  assert.match(printed, /^\[provider\.mine\]\nurl = http:\/\/127\.0\.0\.1:1\/v1 ; line 4\n# key is set and not shown ; line 5$/m);
  const json = ok(data, ['serve', '--print-config', '--json', ...args], { env });
  assert.deepEqual(JSON.parse(json).providers, [{ name: 'mine', protocol: null, url: 'http://127.0.0.1:1/v1', key: true, key_file: null, model: null }]);
  assert.equal(JSON.parse(json).values.find((row) => row.key === 'anthropic_key').value, true);

  const server = await serve(t, { data, args, env });
  const models = await server.ask('GET', '/v1/models');
  const reload = async (text) => {
    const from = server.process.stderr.length;
    fs.writeFileSync(file, text);
    server.process.child.kill('SIGHUP');
    await until(() => /read the configuration again|the configuration was not changed/.test(server.process.stderr.slice(from)));
    return server.process.stderr.slice(from);
  };
  const other = await reload(`anthropic_key = ${secret}-4\n[provider.mine]\nurl = http://127.0.0.1:1/v1\nkey = ${secret}-5\n`);
  assert.match(other, /anthropic_key keeps its value until a restart; the configuration has a new value/);
  assert.match(other, /changes of \[provider\.NAME\] take effect at the next start/);
  const wrong = await reload(`anthropic_key = ${secret}-4\nanthropic_key = ${secret}-6\n`);
  assert.match(wrong, /line 2: anthropic_key is set twice/);
  assert.equal((await reload(`[models]\nanthropic_key = ${secret}-1\n[provider.mine]\nurl = http://127.0.0.1:1/v1\nkey = ${secret}-2\n`)).match(/stays|keeps its value/), null);
  const { stderr } = await server.stop();
  assert.match(stderr, /level=warn feature=config msg="'.*my\.conf' contains a key and can be read by every user/);
  assert.match(stderr, /providers: demo, openai, anthropic, mine; default model: mine\//);

  fs.writeFileSync(path.join(dir, 'key'), `${secret}-7\nand more\n`);
  const bad = [
    fails(data, ['serve', '--anthropic-key', `${secret}\u0001`], 'INVALID', /--anthropic-key contains a control character/),
    fails(data, ['serve'], 'INVALID', /\$ANTHROPIC_API_KEY contains a control character/, { env: { ANTHROPIC_API_KEY: `${secret}\u0001` } }),
    fails(data, ['serve', '--openai-key', secret, '--openai-key-file', 'x'], 'INVALID', /openai_key_file: both the key and its file are set/),
    fails(data, ['serve', '--openai-key-file', path.join(dir, 'key')], 'INVALID', /openai_key_file: '.*key' must contain only the key/),
  ];
  for (const text of [printed, json, models.text, stderr, ...bad.map((result) => result.stdout + result.stderr)]) assert.doesNotMatch(text, /sk-never/);
});

// Asks a provider that takes down what it is told; gives the keys that came.
async function keysSent(t, { args = [], env = {}, text } = {}) {
  const model = await Model.start(t);
  const { data, file } = place(t, (text ?? '').replaceAll('URL', model.env.OPENAI_BASE_URL));
  const server = await serve(t, { data, args: ['--config', file, ...args.map((arg) => arg.replace('URL', model.env.OPENAI_BASE_URL))], env });
  const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
  const turn = server.expect(200, 'POST', `/v1/contexts/${id}/actions/send_message`, { content: 'hi' });
  const request = await model.asked();
  const key = request.headers['x-api-key'] ?? request.headers.authorization.replace(/^Bearer /, '');
  request.fail(401, 'authentication_error', `the key ${key} is not known here`);
  const answer = JSON.stringify(await turn);
  const { stderr } = await server.stop();
  for (const said of [answer, stderr]) assert.doesNotMatch(said, /sk-never/);
  return { key, model: request.body.model };
}

test('a key is used, from the source that goes first, and a model where none is named', async (t) => {
  const keyFile = path.join(tempDir(t), 'key');
  fs.writeFileSync(keyFile, `${secret}-file\n`, { mode: 0o600 });
  const env = { OPENAI_API_KEY: `${secret}-env` };
  const at = ['--openai-url', 'URL', '--openai-model', 'knots'];
  const sent = async (options) => {
    const { key, model } = await keysSent(t, options);
    return [key.replace(secret, ''), model];
  };
  assert.deepEqual(await sent({ args: at, env }), ['-env', 'knots']);
  assert.deepEqual(await sent({ args: [...at, '--openai-key-file', keyFile], env }), ['-file', 'knots']);
  assert.deepEqual(await sent({ args: at, env, text: `openai_key_file = ${keyFile}\n` }), ['-env', 'knots']);
  assert.deepEqual(await sent({ args: at, env: { ...env, QUIPU_OPENAI_KEY: `${secret}-ours` } }), ['-ours', 'knots']);
  const own = `default_model = mine/quipu-1\n[provider.mine]\nurl = URL\nkey_file = ${keyFile}\n[provider.last]\nurl = http://127.0.0.1:1\n`;
  assert.deepEqual(await sent({ text: own }), ['-file', 'quipu-1']);
  assert.deepEqual(await sent({ text: `[provider.claude]\nprotocol = anthropic\nurl = URL\nkey = ${secret}-x\nmodel = claude-1\n` }), ['-x', 'claude-1']);
});

test('what is wrong with providers, models, tools and limits is one sentence with the key and the file', (t) => {
  const { data, dir, file } = place(t);
  const put = (name, text) => {
    fs.writeFileSync(path.join(dir, name), text, { mode: 0o600 });
    return path.join(dir, name);
  };
  const none = path.join(dir, 'none');
  const json = put('bad.json', '{"a":\n');
  const bad = [
    [`model_table = ${none}\n`, 'NOTFOUND', /^quipu: model_table: .*none'/],
    [`model_table = ${json}\n`, 'INVALID', /^quipu: model_table '.*bad\.json'/],
    [`model_table = ${put('object.json', '{}')}\n`, 'INVALID', /model_table '.*object\.json': must be an array/],
    [`model_table = ${put('row.json', '[{"id":"a"},{"id":"b","window":-1}]')}\n`, 'INVALID', /model_table '.*row\.json', row 2: .*"window"/],
    [`demo_script = ${none}\n`, 'NOTFOUND', /^quipu: demo_script: .*none'/],
    [`demo_script = ${json}\n`, 'INVALID', /^quipu: demo_script '.*bad\.json'/],
    [`mcp = ${none}\n`, 'NOTFOUND', /^quipu: mcp: .*none'/],
    [`mcp = ${json}\n`, 'INVALID', /^quipu: mcp '.*bad\.json'/],
    [`mcp = ${put('mcp.json', '{"mcpServers":{"x":{}}}')}\n`, 'INVALID', /^quipu: mcp '.*mcp\.json'.*x/],
    [`policy = ${none}\n`, 'NOTFOUND', /^quipu: policy: .*none'/],
    [`policy = ${put('rules', '# mine\n\nauto grep\nperhaps grep\n')}\n`, 'INVALID', /^quipu: policy '.*rules' line 4: .*perhaps/],
    ['rule = auto grep\n  deny\n', 'INVALID', /^quipu: rule 'deny': .*needs a tool/],
    [`workspace = ${none}\n`, 'NOTFOUND', /^quipu: workspace '.*none'/],
    [`workspace = ${json}\n`, 'INVALID', /^quipu: workspace '.*bad\.json' is not a directory/],
    [`anthropic_key_file = ${none}\n`, 'NOTFOUND', /^quipu: anthropic_key_file: .*none'/],
    [`anthropic_key_file = ${put('empty', ' \n')}\n`, 'INVALID', /anthropic_key_file: there is no key in '.*empty'/],
    [`anthropic_key_file = ${put('nul', 'a\0b')}\n`, 'INVALID', /anthropic_key_file: '.*nul' contains a NUL byte/],
    ['openai_url = ftp://x\n', 'INVALID', /provider 'openai': the base URL must be https:/],
    ['default_model = claude-sonnet-5-5\n', 'NOTFOUND', /the default model: .* needs a key for anthropic; set ANTHROPIC_API_KEY/],
    ['turn_cost = 1,50\n', 'INVALID', /line 1: turn_cost must be dollars up to 1000000, as 2 or 0\.25, not '1,50'/],
    ['turn_cost = 0.0000001\n', 'INVALID', /turn_cost must be dollars/],
    ['turn_cost = 1000000.000001\n', 'INVALID', /turn_cost must be dollars/],
    ['turn_cost = .5\n', 'INVALID', /turn_cost must be dollars/],
    ['turn_cost = 5.\n', 'INVALID', /turn_cost must be dollars/],
    ['[provider.]\n', 'INVALID', /line 1: the name of a provider may have/],
    ['[provider.a b]\n', 'INVALID', /line 1: the name of a provider may have .* not 'a b'/],
    [`[provider.${'x'.repeat(33)}]\n`, 'INVALID', /line 1: the name of a provider may have at most 32/],
    ['[provider.openai]\n', 'INVALID', /line 1: this provider has its keys in \[models\], not in a section: 'openai'/],
    ['[provider.x]\nprotcol = openai\n', 'INVALID', /line 2: unknown key 'protcol'; did you mean protocol/],
    ['[provider.x]\nprotocol = soap\n', 'INVALID', /line 2: protocol of provider 'x' must be one of openai\|anthropic\|ollama, not 'soap'/],
    ['[provider.x]\nurl = a\n[provider.x]\nurl = b\n', 'INVALID', /line 4: url of provider 'x' is set twice/],
    [`[provider.x]\nkey_file = ${none}\n`, 'NOTFOUND', /^quipu: key_file of provider 'x': .*none'/],
  ];
  for (const [text, code, sentence] of bad) {
    fs.writeFileSync(file, text);
    const { stderr } = fails(data, ['serve', '--listen', '127.0.0.1:0', '--config', file], code, sentence);
    assert.equal(stderr.split('\n').length, 2, stderr);
  }
});

test('rules have spaces, and are one a line from every source', (t) => {
  const text = '[tools]\nrule = deny write_file path="*.pem" ; keys\n  auto grep ; reads\nrule = ask *\n';
  const { data, file } = place(t, text);
  const rules = (args, env) => effective(data, args, env).rule.value.split('\n');
  assert.deepEqual(rules(['--config', file]), ['deny write_file path="*.pem"', 'auto grep', 'ask *']);
  assert.deepEqual(rules([], { QUIPU_RULE: 'auto a\n\n  deny b \n' }), ['auto a', 'deny b']);
  assert.deepEqual(rules(['--config', file, '--rule', 'auto run_command command="a ; b"', '--rule=deny *']), ['auto run_command command="a ; b"', 'deny *']);
  const before = rules(['--config', file]);
  fs.writeFileSync(file, ok(data, ['serve', '--print-config', '--config', file]));
  assert.deepEqual(rules(['--config', file]), before, 'printed and read again');
});

test('rules of the configuration decide, those of the file last', async (t) => {
  const { data, dir } = place(t);
  const rules = path.join(dir, 'rules');
  fs.writeFileSync(rules, 'deny write_file\nauto delete_file\n');
  const server = await serve(t, { data, args: ['--workspace', dir, '--policy', rules, '--rule', 'auto write_file', '--rule', 'ask grep'] });
  const { tools } = await server.expect(200, 'GET', '/v1/tools');
  const verdicts = Object.fromEntries(tools.map((tool) => [tool.name, tool.default]));
  assert.deepEqual([verdicts.write_file, verdicts.grep, verdicts.delete_file, verdicts.edit_file], ['auto', 'ask', 'auto', 'ask']);
  assert.match((await server.stop()).stderr, /8 built-in tools work in '/);
});

test('run_command gets the variables and the time that are configured', async (t) => {
  const { data, dir } = place(t);
  const script = path.join(dir, 'demo.json');
  const call = (command) => ({ match: `*${command}*`, play: [{ call: 'run_command', arguments: { command } }] });
  fs.writeFileSync(script, JSON.stringify({ interval_ms: 0, steps: [{ after_tool: 'run_command', times: 9, play: [{ text: 'so' }] }, call('echo $ONE-$TWO-$OPENAI_API_KEY'), call('sleep 60')] }));
  const work = path.join(dir, 'work'); // not the directory that holds the data: commands are refused there
  fs.mkdirSync(work);
  const args = ['--workspace', work, '--demo-script', script, '--default-model', 'demo', '--rule', 'auto run_command', '--rule', 'auto *', '--command-env', 'ONE,NONE'];
  const result = async (server, content) => {
    const { id } = await server.expect(201, 'POST', '/v1/contexts', {});
    const { messages } = await server.expect(200, 'POST', `/v1/contexts/${id}/actions/send_message`, { content });
    return messages.find((message) => message.tool_result).tool_result;
  };
  const patient = await serve(t, { data, args, env: { ONE: '1', TWO: '2', OPENAI_API_KEY: secret } });
  assert.equal((await result(patient, 'echo $ONE-$TWO-$OPENAI_API_KEY')).result.stdout, '1--\n');
  assert.match((await patient.stop()).stderr, /level=warn feature=config msg="command_env: the environment has no variable 'NONE'"/);
  const hasty = await serve(t, { data, args: [...args, '--tool-timeout', '1'] });
  assert.equal((await result(hasty, 'sleep 60')).is_error, true);
  await hasty.stop();
  fails(data, ['serve', '--command-env', `A=${secret}`], 'INVALID', /command_env: 'A' must be a name without a value$/m);
});

test('the help, the documentation and the example are made from the table', (t) => {
  const help = ok(undefined, ['serve', '--help']).replaceAll(/\s+/g, ' ');
  for (const row of table) assert.ok(help.includes(`--${row.flag} ${row.value_name}`), row.flag);
  const hint = 'run tools/configdoc.mjs';
  const page = fs.readFileSync(pageFile, 'utf8');
  assert.equal(page, makePage(page, table), hint);
  const example = fs.readFileSync(exampleFile, 'utf8');
  assert.equal(example, makeExample(table), hint);
  const { data, file } = place(t, example);
  assert.ok(Object.values(effective(data, ['--config', file])).every((row) => row.source !== 'file'));
  fs.writeFileSync(file, example.replaceAll(/^#(?=\w+ =)/gm, ''));
  for (const row of Object.values(effective(undefined, ['--config', file])))
    assert.deepEqual([row.value || '', row.source], [row.default, 'file'], row.key);
  const [, shown] = /<!-- the example begins -->\n```ini\n(.*?)```\n/s.exec(page);
  fs.writeFileSync(file, shown);
  const values = effective(data, ['--config', file]);
  assert.equal(values.rule.value.split('\n').length, 4);
  assert.equal(values.turn_cost.value, '0.50');
});

test('the log is JSON when asked for, and no louder than asked for', async (t) => {
  const json = await serve(t, { args: ['--log-format', 'json'] });
  await json.ask('GET', '/healthz?key=secret');
  await json.ask('GET', '/a%22%5c%0ab"c');
  const told = (await json.stop()).stderr.trimEnd().split('\n').map((line) => JSON.parse(line));
  const lines = told.filter((line) => line.method);
  assert.deepEqual(Object.keys(lines[0]), ['time', 'level', 'method', 'path', 'status', 'bytes', 'ms', 'from', 'key']);
  assert.equal(lines[0].path, '/healthz');
  assert.equal(lines[0].status, 400);
  assert.equal(lines.length, 2);
  assert.deepEqual(told.filter((line) => !line.method).map((line) => [line.level, line.feature, line.msg]), [
    ['info', 'turn', 'providers: demo; default model: demo/demo'],
    ['info', 'tool', 'no built-in tools, because there is no workspace'],
  ]);
  for (const args of [['--access-log', 'no'], ['--quiet'], ['--log-level', 'warn']]) {
    const quiet = await serve(t, { args });
    await quiet.ask('GET', '/healthz');
    const { stderr } = await quiet.stop();
    assert.doesNotMatch(stderr, /healthz/, args.join(' '));
    if (args[1] === 'warn') assert.equal(stderr, '');
  }
});

test('SIGHUP takes what can change, says what cannot, and keeps all when the file is wrong', async (t) => {
  const { data, file } = place(t, 'max_body = 2000\nallow_origin = https://a\n');
  const server = await serve(t, { data, args: ['--config', file, '--threads', '2'] });
  const body = `{"title":"x"}${' '.repeat(3000)}`;
  const origin = (name) => server.ask('GET', '/healthz', undefined, { origin: name });
  const reload = async (text, said) => {
    const from = server.process.stderr.length;
    fs.writeFileSync(file, text);
    server.process.child.kill('SIGHUP');
    await until(() => said.test(server.process.stderr.slice(from)));
    return server.process.stderr.slice(from);
  };
  await server.expect(413, 'POST', '/v1/contexts', body);
  assert.equal((await origin('https://b')).status, 403);

  await reload('max_body = 4000\nallow_origin = https://b\nallow_host = named.example\n', /read the configuration again/);
  await server.expect(201, 'POST', '/v1/contexts', body);
  assert.equal((await origin('https://a')).status, 403);
  assert.equal((await origin('https://b')).status, 200);
  const named = await server.raw('GET /healthz HTTP/1.1\r\nHost: named.example:1\r\nConnection: close\r\n\r\n');
  assert.deepEqual(statuses(named), [200]);

  const stays = await reload('threads = 5\nlisten = 127.0.0.1:1\nmax_header = 1K\nmax_body = 4000\n', /read the configuration again/);
  assert.match(stays, /max_header stays '8K' until a restart; the configuration has '1K'/);
  assert.doesNotMatch(stays, /threads|listen/, 'flags go before the file');
  assert.match(stays, /allow_origin changed to ''/);
  assert.equal((await server.ask('GET', '/healthz', undefined, { 'x-long': 'x'.repeat(5000) })).status, 200);

  for (const wrong of ['max_body = lots\n', 'tls_cert = /none\ntls_key = /none\n', '[nowhere]\n'])
    await reload(wrong, /level=error feature=config msg="the configuration was not changed: .*(line 1|tls_cert)/);
  await server.expect(201, 'POST', '/v1/contexts', body);

  await reload('log_format = json\nmax_body = 4000\n', /read the configuration again/);
  const from = server.process.stderr.length;
  await server.expect(200, 'GET', '/healthz');
  const [line] = /^.*healthz.*$/m.exec(await server.process.logged(/healthz.*\n/, from)); // one of before may come late
  assert.equal(JSON.parse(line).path, '/healthz');
  await reload('access_log = no\nmax_body = 4000\n', /read the configuration again/);
  const silent = server.process.stderr.length;
  await server.expect(200, 'GET', '/healthz');
  const end = await server.stop();
  assert.equal(end.status, 0);
  assert.doesNotMatch(end.stderr.slice(silent), /healthz/);
});

test('SIGHUP under load: each request keeps to one configuration, none is lost', async (t) => {
  const { data, file } = place(t, 'timeout = 30\n');
  const server = await serve(t, { data, args: ['--config', file, '--log-level', 'info', '--quiet'] });
  let going = true;
  let asked = 0;
  const ask = async () => {
    for (; going; asked++) {
      const { status } = await server.ask('GET', '/v1/contexts', undefined, asked % 2 ? { origin: 'https://a' } : {});
      assert.ok(status === 200 || status === 403, String(status));
    }
  };
  const askers = [ask(), ask(), ask(), ask()];
  for (let i = 0; i < 30; i++) {
    const from = server.process.stderr.length;
    fs.writeFileSync(file, i % 2 ? 'allow_origin = https://a\ntimeout = 20\n' : `timeout = ${i + 10}\nmax_body = ${i + 2}K\n`);
    server.process.child.kill('SIGHUP');
    await until(() => server.process.stderr.slice(from).includes('read the configuration again'));
  }
  going = false;
  await Promise.all(askers);
  assert.ok(asked > 0);
  // A timeout that is new goes for new connections.
  fs.writeFileSync(file, 'timeout = 1\n');
  const from = server.process.stderr.length;
  server.process.child.kill('SIGHUP');
  await until(() => server.process.stderr.slice(from).includes('read the configuration again'));
  assert.equal(await server.raw('GET /healthz HTTP/1.1\r\nHost: local'), '');
  assert.equal((await server.stop()).status, 0);
});
