// Tools from outside, by `quipu tool`: the built-in ones, what they must not do, and the MCP servers
// of npm as real tools, over stdio and Streamable HTTP.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { exit, lines, run, tempDir } from './helper.mjs';
import { freePort } from './pages.mjs';

const modules = path.resolve('node_modules/@modelcontextprotocol');
const noServers = fs.existsSync(modules) ? false : 'the npm packages are not installed';
const program = (name) => path.join(modules, `server-${name}`, 'dist', 'index.js');
const scripted = path.resolve('tests/lib/mcp_server.mjs');

// A workspace with files in it, and a secret beside it.
function makeWorkspace(t) {
  const dir = fs.realpathSync(tempDir(t));
  const work = path.join(dir, 'work');
  fs.mkdirSync(path.join(work, 'src'), { recursive: true });
  fs.writeFileSync(path.join(work, 'src', 'main.c'), 'int main(void)\n{\n  return 0;\n}\n');
  fs.writeFileSync(path.join(work, 'README'), 'one\ntwo\n');
  fs.writeFileSync(path.join(dir, 'secret'), 'the secret\n');
  return { dir, work };
}

function writeServers(dir, servers) {
  const file = path.join(dir, 'mcp.json');
  fs.writeFileSync(file, JSON.stringify({ mcpServers: servers }));
  return file;
}

// Calls a tool; returns the object that --json prints.
function call(work, name, args, ...more) {
  const words = ['tool', 'call', name, JSON.stringify(args), '--workspace', work, '--json', ...more];
  const result = run(undefined, words);
  assert.match(result.stdout, /^\{/, `${name}: ${result.stderr}`);
  return JSON.parse(result.stdout);
}

function works(work, name, args, ...more) {
  const answer = call(work, name, args, ...more);
  assert.equal(answer.outcome, 'done', JSON.stringify(answer));
  return answer.result;
}

function fails(work, name, args, sentence, ...more) {
  const answer = call(work, name, args, ...more);
  assert.equal(answer.is_error, true, JSON.stringify(answer));
  assert.match(typeof answer.result === 'string' ? answer.result : JSON.stringify(answer.result), sentence);
}

// ---- built-in tools ----

test('tools are listed for people, for pipes and as JSON', (t) => {
  const { work } = makeWorkspace(t);
  const names = ['read_file', 'list_directory', 'grep', 'glob', 'write_file', 'edit_file', 'delete_file', 'run_command'];
  const plain = lines(run(undefined, ['tool', 'list', '-w', work]).stdout).map((line) => line.split('\t'));
  assert.deepEqual(plain.map((row) => row[1]), names);
  assert.deepEqual(plain.map((row) => row[0]), [...Array(4).fill('auto'), ...Array(4).fill('ask')]);
  const objects = lines(run(undefined, ['tool', '--json', '-w', work]).stdout).map((line) => JSON.parse(line));
  assert.deepEqual(objects.map((tool) => tool.name), names);
  for (const tool of objects) {
    assert.equal(tool.input_schema.type, 'object');
    assert.equal(tool.input_schema.additionalProperties, false);
    assert.match(tool.display_preference, /^(Default|Collapsible|Hidden)$/);
    assert.equal(typeof tool.ui_hints.icon, 'string');
  }
});

test('a tool is called by hand', (t) => {
  const { work } = makeWorkspace(t);
  const text = run(undefined, ['tool', 'call', 'grep', '{"pattern": "return \\\\d"}', '-w', work]);
  assert.equal(text.stdout, 'src/main.c:3:   return 0;\n');
  assert.equal(works(work, 'read_file', { path: 'README', limit: 1 }), 'one\n[lines 1 to 1; more follow, continue with offset 2]');
  works(work, 'write_file', { path: 'new/a.txt', content: 'x' });
  assert.equal(fs.readFileSync(path.join(work, 'new/a.txt'), 'utf8'), 'x');
  const command = works(work, 'run_command', { command: 'echo hi; echo no >&2; exit 4' });
  assert.deepEqual(command, { exit_code: 4, stdout: 'hi\n', stderr: 'no\n' });
  const input = run(undefined, ['tool', 'call', 'glob', '-', '-w', work], { input: '{"pattern":"*.c"}' });
  assert.equal(input.stdout, 'src/main.c\n');
});

test('what goes wrong is one sentence and an exit code', (t) => {
  const { work } = makeWorkspace(t);
  const cases = [
    [['call', 'no_such'], 'NOTFOUND', /there is no tool 'no_such'/],
    [['call', 'read_file'], 'IO', /read_file: .*"path" is missing/],
    [['call', 'read_file', '{"path":"../secret"}'], 'IO', /outside of the workspace/],
    [['call'], 'INVALID', /'tool call' takes NAME/],
    [['list', '--timeout', '3'], 'INVALID', /timeout/],
    [['list', '--mcp', 'none.json'], 'NOTFOUND', /none\.json/],
  ];
  for (const [words, code, sentence] of cases) {
    const result = run(undefined, ['tool', ...words, '-w', work]);
    assert.match(result.stderr, sentence);
    assert.equal(result.status === exit[code] || result.status !== 0, true);
  }
  const missing = run(undefined, ['tool', 'list', '-w', path.join(work, 'none')]);
  assert.notEqual(missing.status, 0);
});

test('the policy can be asked', (t) => {
  const { dir, work } = makeWorkspace(t);
  const rules = path.join(dir, 'rules');
  fs.writeFileSync(rules, '# mine\ndeny write_file path="src/*"\nauto run_command command="git *"\n');
  const judge = (name, args) =>
    run(undefined, ['tool', 'judge', name, JSON.stringify(args), '-w', work, '-p', rules]).stdout.trim();
  assert.equal(judge('write_file', { path: './README/../src/x' }), 'deny (rule 1)');
  assert.equal(judge('write_file', { path: `${work}/src/x` }), 'deny (rule 1)');
  assert.equal(judge('write_file', { path: 'x' }), 'ask (default)');
  assert.equal(judge('run_command', { command: 'git log' }), 'auto (rule 2)');
  assert.equal(judge('run_command', { command: 'git log; rm x' }), 'ask (default)');
  assert.equal(judge('read_file', { path: 'x' }), 'auto (default)');
  const bad = path.join(dir, 'bad');
  fs.writeFileSync(bad, 'allow everything\n');
  const result = run(undefined, ['tool', 'list', '-w', work, '-p', bad]);
  assert.equal(result.status, exit.INVALID);
  assert.match(result.stderr, /auto, ask or deny/);
});

// The rules of the documentation as a reader would copy them, against a model that wants to run something of its own.
test('the rules of docs/tools.md allow what they say and no more', (t) => {
  const { dir, work } = makeWorkspace(t);
  const rules = path.join(dir, 'rules');
  const text = /## Policy\n[^]*?\n((?: {4}[^\n]*\n)+)/.exec(fs.readFileSync('docs/tools.md', 'utf8'))[1];
  fs.writeFileSync(rules, text.replace(/^ {4}/gm, ''));
  const judge = (name, args) => run(undefined, ['tool', 'judge', name, JSON.stringify(args), '-w', work, '-p', rules]).stdout.split(' ')[0];
  assert.equal(judge('write_file', { path: 'docs/a.md', content: '' }), 'auto');
  assert.equal(judge('run_command', { command: 'git status' }), 'auto');
  for (const file of ['.git/config', 'docs/.git/config', 'docs/../.git/config', 'docs/.gitattributes', 'docs/.envrc', `${work}/docs/../.git/hooks/pre-commit`, 'Makefile']) assert.equal(judge('write_file', { path: file, content: '' }), 'ask', file);
  for (const args of [{ command: 'git status', directory: 'docs' }, { command: 'git statusx' }, { command: 'git status -s' }, { command: 'git -c core.fsmonitor=x status' }, { command: ['git', 'status', '; x'] }]) assert.equal(judge('run_command', args), 'ask', JSON.stringify(args));
  for (const [name, args] of [['read_file', { path: 'docs/../secrets/x' }], ['grep', { pattern: 'x', path: 'secrets' }], ['run_command', { command: 'ls', directory: './secrets' }]]) assert.equal(judge(name, args), 'deny', name);
});

test('a data directory in the workspace is hidden from tools', (t) => {
  const { work } = makeWorkspace(t);
  const data = path.join(work, 'data');
  assert.equal(run(data, ['key', 'create']).status, 0);
  const tell = (name, args) => JSON.parse(run(data, ['tool', 'call', name, JSON.stringify(args), '--workspace', work, '--json']).stdout).result;
  assert.doesNotMatch(tell('grep', { pattern: '.' }), /data|hash/);
  assert.doesNotMatch(tell('list_directory', {}), /data/);
  assert.match(tell('delete_file', { path: 'data/keys.json' }), /belongs to quipu itself/);
  assert.match(tell('run_command', { command: 'rm data/keys.json' }), /run_command is refused: the workspace holds '.*data'/);
  assert.ok(fs.existsSync(path.join(data, 'keys.json')));
  const inside = path.join(data, 'inside');
  fs.mkdirSync(inside);
  const result = run(data, ['tool', 'list', '--workspace', inside]);
  assert.equal(result.status, exit.INVALID);
  assert.match(result.stderr, /the workspace '.*' is inside '.*data'/);
});

test('nothing leaves the sandbox', (t) => {
  const { dir, work } = makeWorkspace(t);
  fs.symlinkSync('../secret', path.join(work, 'link'));
  fails(work, 'read_file', { path: 'link' }, /symbolic link/);
  fails(work, 'read_file', { path: `${dir}/secret` }, /outside/);
  const tries = [
    `cat ${dir}/secret`,
    'cat link',
    `echo gotcha > ${dir}/secret`,
    `echo gotcha > ${dir}/new`,
    `cat /proc/${process.pid}/environ`,
    `cat /proc/$PPID/environ`,
    `ls ${os.homedir()}`,
  ];
  for (const command of tries) {
    const result = works(work, 'run_command', { command });
    assert.notEqual(result.exit_code, 0, command);
    assert.doesNotMatch(result.stdout, /secret/);
  }
  assert.equal(fs.readFileSync(path.join(dir, 'secret'), 'utf8'), 'the secret\n');
  const result = run(undefined, ['tool', 'call', 'run_command', '{"command":"env"}', '-w', work], {
    env: { OPENAI_API_KEY: 'sk-secret' },
  });
  assert.doesNotMatch(result.stdout, /sk-secret/);
});

// ---- MCP servers of npm ----

test('server-everything: results, roots, environment', { skip: noServers }, (t) => {
  const { dir, work } = makeWorkspace(t);
  const file = writeServers(dir, {
    everything: { command: 'node', args: [program('everything')], env: { GIVEN: 'yes' } },
  });
  const mcp = (name, args, ...more) => works(work, `mcp__everything__${name}`, args, '--mcp', file, ...more);
  assert.equal(mcp('echo', { message: 'hé' }), 'Echo: hé');
  assert.match(mcp('get-sum', { a: 2, b: 3 }), /\b5\b/);
  assert.match(mcp('get-roots-list', {}), new RegExp(`file://${work}`)); // it asked us
  const image = mcp('get-tiny-image', {});
  assert.ok(image.some((block) => block.type === 'image' && block.mimeType === 'image/png'));
  const env = JSON.parse(mcp('get-env', {}));
  assert.equal(env.GIVEN, 'yes');
  assert.equal(env.QUIPU_BIN, undefined);
  fails(work, 'mcp__everything__get-sum', { a: 'x' }, /./, '--mcp', file); // wrong arguments
  const slow = call(work, 'mcp__everything__trigger-long-running-operation', { duration: 100, steps: 2 }, '--mcp', file, '--timeout', '1');
  assert.equal(slow.outcome, 'timeout');
});

test('server-filesystem: it works in the workspace and nowhere else', { skip: noServers }, (t) => {
  const { dir, work } = makeWorkspace(t);
  const file = writeServers(dir, { fs: { command: 'node', args: [program('filesystem'), work] } });
  const read = works(work, 'mcp__fs__read_text_file', { path: path.join(work, 'README') }, '--mcp', file);
  assert.equal(read, 'one\ntwo\n');
  works(work, 'mcp__fs__write_file', { path: path.join(work, 'made'), content: 'by mcp' }, '--mcp', file);
  assert.equal(fs.readFileSync(path.join(work, 'made'), 'utf8'), 'by mcp');
  fails(work, 'mcp__fs__read_text_file', { path: path.join(dir, 'secret') }, /[Aa]ccess denied/, '--mcp', file);
});

test('server-memory remembers from one process to the next', { skip: noServers }, (t) => {
  const { dir, work } = makeWorkspace(t);
  const file = writeServers(dir, {
    memory: { command: 'node', args: [program('memory')], env: { MEMORY_FILE_PATH: path.join(dir, 'm.jsonl') } },
  });
  const entities = [{ name: 'quipu', entityType: 'cord', observations: ['it has knots'] }];
  works(work, 'mcp__memory__create_entities', { entities }, '--mcp', file);
  const found = works(work, 'mcp__memory__search_nodes', { query: 'knots' }, '--mcp', file);
  assert.match(JSON.stringify(found), /it has knots/);
});

test('three servers at once, and one that cannot be started', { skip: noServers }, (t) => {
  const { dir, work } = makeWorkspace(t);
  const file = writeServers(dir, {
    everything: { command: 'node', args: [program('everything')] },
    broken: { command: 'no-such-program' },
    fs: { command: 'node', args: [program('filesystem'), work] },
    memory: { command: 'node', args: [program('memory')], disabled: true },
  });
  const result = run(undefined, ['tool', 'list', '-w', work, '--mcp', file]);
  assert.equal(result.status, 0);
  assert.match(result.stderr, /the MCP server 'broken': there is no program 'no-such-program'/);
  const rows = lines(result.stdout).map((line) => line.split('\t'));
  const servers = rows.filter((row) => row[0] === 'server');
  assert.deepEqual([...new Set(rows.filter((row) => row[0] !== 'server').map((row) => row[2]))], ['builtin', 'everything', 'fs']);
  assert.deepEqual(servers.map((row) => [row[1], row[2]]), [['everything', 'ready'], ['broken', 'failed'], ['fs', 'ready']]);
  assert.match(servers[1][3], /^0 tools: there is no program 'no-such-program'/);
  const objects = lines(run(undefined, ['tool', 'list', '-w', work, '--mcp', file, '--json']).stdout).map((line) => JSON.parse(line));
  assert.deepEqual(objects.flatMap((object) => object.mcp_server?.state ?? []), ['ready', 'failed', 'ready']);
  const again = run(undefined, ['tool', 'list', '-w', work, '--mcp', file]);
  assert.equal(again.stdout, result.stdout); // the order is stable
});

// The port of a server-everything that listens. Somebody else may take the port before it does; then
// it ends, and another one is tried.
async function startEverything(t) {
  for (;;) {
    const port = await freePort();
    const child = spawn('node', [program('everything'), 'streamableHttp'], {
      env: { ...process.env, PORT: String(port) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.after(() => child.kill('SIGKILL'));
    let said = '';
    const listens = await new Promise((resolve) => {
      const look = (data) => {
        said += data;
        if (/listening/i.test(said)) resolve(true);
      };
      child.stdout.on('data', look);
      child.stderr.on('data', look);
      child.on('close', () => resolve(false));
    });
    if (listens) return port;
    assert.match(said, /in use/i);
  }
}

test('server-everything over Streamable HTTP', { skip: noServers }, async (t) => {
  const { dir, work } = makeWorkspace(t);
  const port = await startEverything(t);
  const file = writeServers(dir, { far: { url: `http://127.0.0.1:${port}/mcp` } });
  assert.equal(works(work, 'mcp__far__echo', { message: 'over http' }, '--mcp', file), 'Echo: over http');
  assert.match(works(work, 'mcp__far__get-roots-list', {}, '--mcp', file), new RegExp(`file://${work}`));
  const slow = call(work, 'mcp__far__trigger-long-running-operation', { duration: 100, steps: 2 }, '--mcp', file, '--timeout', '1');
  assert.equal(slow.outcome, 'timeout');
});

test('a server of the stateless era, and one that dies', (t) => {
  const { dir, work } = makeWorkspace(t);
  const file = writeServers(dir, {
    modern: { command: 'node', args: [scripted, 'modern'] },
    old: { command: 'node', args: [scripted, 'legacy'] },
  });
  assert.match(works(work, 'mcp__modern__need_roots', {}, '--mcp', file), /st-1/);
  fails(work, 'mcp__old__die', {}, /the MCP server 'old': it ended with exit code 3/, '--mcp', file);
});
