// Tools in turns, through the server: policy and approval, two who approve at once, what must not
// leave the workspace, and the MCP servers of npm as real tools.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { ok } from './helper.mjs';
import { Model } from './model.mjs';
import { freePort } from './pages.mjs';
import { Chat, makeWorkspace, restart, script, serveTurns, until } from './turns.mjs';

const modules = path.resolve('node_modules/@modelcontextprotocol');
const noServers = fs.existsSync(modules) ? false : 'the npm packages are not installed';
const program = (name) => path.join(modules, `server-${name}`, 'dist', 'index.js');
const scripted = path.resolve('tests/lib/mcp_server.mjs');

// Waits until these MCP servers have told their tools.
const listed = (server, ...sources) =>
  until(async () => {
    const { tools } = await server.expect(200, 'GET', '/v1/tools');
    return sources.every((source) => tools.some((tool) => tool.source === source));
  }, () => server.process.stderr.split('\n').filter((line) => /feature=(mcp|tool)|level=(warn|error)/.test(line)).join('\n'));

// A server with a workspace and a model in hand.
async function withTools(t, options = {}) {
  const space = makeWorkspace(t);
  const model = await Model.start(t);
  const server = await serveTurns(t, { work: space.work, env: model.env, ...options });
  return { t, space, model, server, chat: await Chat.create(server) };
}

// Has the model call tools, [name, arguments] each; the ids are call_1, call_2 …
async function calls(model, ...list) {
  const request = await model.asked();
  for (const [name, args] of list) await request.call(name, args);
  await request.end();
}

// A turn of one round, all of whose calls run by themselves: the results as the model gets them.
async function round({ chat, model }, ...list) {
  const turn = chat.send('go');
  await calls(model, ...list);
  const request = await model.asked();
  await request.answer('So.');
  assert.equal((await turn).state, 'Idle');
  return results(request);
}

// What the model is told of its calls, by their ids.
function results(request) {
  const last = request.body.messages.findLastIndex((message) => message.role === 'assistant');
  const told = request.body.messages.slice(last + 1).filter((message) => message.role === 'tool');
  return told.map((message) => (typeof message.content === 'string' ? message.content : message.content.map((part) => part.text ?? part.type).join('')));
}

// ---- approved for good ----

test('always: a rule is stored, holds at once and for its owner alone, and deny still wins', async (t) => {
  const space = makeWorkspace(t);
  const model = await Model.start(t);
  const data = path.join(space.dir, 'data');
  const [alice, bob, admin] = [['--owner', 'alice'], ['--owner', 'bob'], []].map((args) => ({ authorization: `Bearer ${ok(data, ['key', 'create', ...args]).trim()}` }));
  let server = await serveTurns(t, { data, work: space.work, env: model.env, rules: ['deny run_command command="*secret*"'] });
  const chatOf = (headers) => Chat.create(server, {}, { headers });
  const rules = async (headers) => (await server.expect(200, 'GET', '/v1/tools/rules', undefined, headers)).rules;
  // Whether a call waits for a person; it is denied then, and the turn ends.
  const asks = async (headers, name, args) => {
    const chat = await chatOf(headers);
    const turn = chat.send('go');
    await calls(model, [name, args]);
    const next = model.asked();
    const first = await Promise.race([turn.then(() => null), next]);
    if (!first) {
      const denied = chat.does('approve_tools', { denied: ['call_1'] });
      await (await next).answer('No.');
      await denied;
      return true;
    }
    await first.answer('Yes.');
    await turn;
    return results(first)[0];
  };
  const call = ['run_command', { command: 'echo knot' }];
  assert.equal(await asks(alice, ...call), true);
  const chat = await chatOf(alice);
  const turn = chat.send('go');
  await calls(model, call);
  assert.equal((await turn).state, 'AwaitingToolApproval');
  await chat.refuses(400, 'INVALID', /always/, 'approve_tools', { approved: ['call_1'], always: 'yes' });
  assert.deepEqual(await rules(alice), []);
  const approved = chat.does('approve_tools', { approved: ['call_1'], always: true });
  await (await model.asked()).answer('Done.');
  await approved;
  const [rule] = await rules(alice);
  assert.deepEqual([rule.owner, rule.tool, rule.arguments], ['alice', 'run_command', { command: 'echo knot' }]);
  assert.equal(fs.statSync(path.join(data, 'rules.json')).mode & 0o777, 0o600);
  const holds = async () => {
    assert.match(String(await asks(alice, ...call)), /knot/, 'no restart, no question');
    for (const args of [{ command: 'echo knot2' }, { command: 'echo knot', directory: '.' }, { command: 'echo  knot' }, { command: 'echo knot; id' }])
      assert.equal(await asks(alice, 'run_command', args), true, JSON.stringify(args));
    assert.equal(await asks(bob, ...call), true, 'another owner is asked');
    assert.equal(await asks(admin, ...call), true, 'and who has none');
  };
  await holds();
  server = await restart(t, server);
  await holds();
  assert.deepEqual(await rules(bob), []);
  assert.equal((await rules(admin)).length, 1);
  // A deny rule wins over a stored one.
  server = await restart(t, server, 'SIGTERM', { rules: ['deny run_command command="echo knot"'] });
  assert.match(String(await asks(alice, ...call)), /policy does not allow/);
  server = await restart(t, server, 'SIGTERM', { rules: [] });
  // Only who may see a rule can remove it; then it asks again, at once.
  const remove = async (headers) => (await server.ask('DELETE', `/v1/tools/rules/${rule.id}`, undefined, headers)).status;
  assert.equal(await remove(bob), 404);
  assert.match(String(await asks(alice, ...call)), /knot/);
  // A damaged file allows nothing, and is not overwritten.
  const file = path.join(data, 'rules.json');
  const good = fs.readFileSync(file);
  fs.writeFileSync(file, '{"format":"quipu-rules","version":1,"rules":[{"id":1}]}');
  assert.equal(await asks(alice, ...call), true);
  assert.equal(await remove(alice), 500);
  fs.writeFileSync(file, good);
  assert.equal(await remove(alice), 204);
  assert.equal(await asks(alice, ...call), true);
  assert.deepEqual(await rules(alice), []);
  await server.stop();
});

// ---- policy ----

test('policy: auto runs, deny is refused, ask waits; the model hears of each', async (t) => {
  const { space, model, chat } = await withTools(t, { rules: ['deny write_file path=secrets/*', 'auto write_file path=docs/*', 'deny delete_file'] });
  const turn = chat.send('go');
  const write = (file) => ['write_file', { path: file, content: 'x' }];
  await calls(model, write('docs/a'), write('./docs/../secrets/b'), write('c'), ['delete_file', { path: 'notes.txt' }], ['read_file', { path: 'notes.txt' }]);
  const waiting = await turn;
  assert.equal(waiting.state, 'AwaitingToolApproval');
  assert.deepEqual(waiting.pending_tool_calls.map((call) => call.id), ['call_3']);
  assert.ok(!fs.existsSync(space.file('docs')), 'nothing of the round runs before all is decided');
  const rest = chat.does('approve_tools', { approved: ['call_3'] });
  const request = await model.asked();
  const told = results(request);
  assert.equal(told.length, 5);
  assert.match(told[1], /the policy does not allow this call/);
  assert.match(told[3], /the policy does not allow this call/);
  assert.match(told[4], /one knot/);
  await request.answer('So.');
  assert.equal((await rest).state, 'Idle');
  assert.deepEqual([space.read('docs/a'), space.read('c')], ['x', 'x']);
  assert.ok(!fs.existsSync(space.file('secrets')) && fs.existsSync(space.file('notes.txt')));
});

test('calls that are all denied by the policy do not stop the turn', async (t) => {
  const it = await withTools(t, { rules: ['deny *'] });
  const told = await round(it, ['read_file', { path: 'notes.txt' }], ['run_command', { command: 'touch made' }]);
  for (const text of told) assert.match(text, /the policy does not allow this call/);
  assert.ok(!fs.existsSync(it.space.file('made')));
});

test('calls are decided one by one, a denial with its reason reaches the model', async (t) => {
  const { space, model, server, chat } = await withTools(t);
  const turn = chat.send('go');
  await calls(model, ['write_file', { path: 'a', content: '1' }], ['write_file', { path: 'b', content: '2' }], ['write_file', { path: 'c', content: '3' }]);
  assert.equal((await turn).pending_tool_calls.length, 3);
  const first = await chat.does('approve_tools', { denied: ['call_2'], reason: 'b is not yours' });
  assert.equal(first.state, 'AwaitingToolApproval');
  assert.deepEqual(first.pending_tool_calls.map((call) => call.id), ['call_1', 'call_3']);
  await chat.refuses(400, 'INVALID', /call_2/, 'approve_tools', { approved: ['call_2'] });
  const again = chat.on(await restart(t, server, 'SIGKILL'));
  assert.deepEqual((await again.state()).pending_tool_calls.map((call) => call.id), ['call_1', 'call_3'], 'decisions are durable');
  const rest = again.does('approve_tools', { approved: ['call_1'], denied: ['call_3'] });
  const request = await model.asked();
  const told = results(request);
  assert.match(told[1], /a person has refused this call: b is not yours/);
  assert.match(told[2], /a person has refused this call$/);
  await request.answer('As you like.');
  const end = await rest;
  assert.equal(end.state, 'Idle');
  assert.deepEqual(end.messages.filter((message) => message.tool_result).map((message) => message.tool_result.is_error), [false, true, true]);
  assert.ok(fs.existsSync(space.file('a')) && !fs.existsSync(space.file('b')) && !fs.existsSync(space.file('c')));
});

test('while a tool runs nothing waits for a person', async (t) => {
  const { space, model, chat } = await withTools(t);
  const turn = chat.send('go');
  await calls(model, ['run_command', { command: 'touch began; while [ ! -e go ]; do sleep 0.02; done' }]);
  await turn;
  const rest = chat.does('approve_tools', { approved: ['call_1'] });
  await until(() => fs.existsSync(space.file('began')));
  const running = await chat.state();
  assert.equal(running.state, 'ExecutingTools');
  assert.deepEqual(running.pending_tool_calls, []);
  fs.writeFileSync(space.file('go'), '');
  await (await model.asked()).answer('So.');
  await rest;
});

test('two clients approve at once: exactly one run of the tool', async (t) => {
  for (let i = 0; i < 3; i++) {
    const { space, model, chat } = await withTools(t);
    const turn = chat.send('go');
    await calls(model, ['run_command', { command: 'echo run >> ran' }]);
    await turn;
    const answering = model.asked().then((request) => request.answer('So.'));
    const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => (n % 2 ? chat.act('approve_tools', { approved: ['call_1'] }) : chat.server.ask('POST', `${chat.at}/tools/approve`, { approved: ['call_1'] }))));
    await answering;
    assert.deepEqual(answers.map((answer) => answer.status).sort(), [200, ...Array(7).fill(400)]);
    for (const answer of answers) if (answer.status === 400) assert.match(answer.body.error.message, /^No pending tool approval/);
    assert.equal(space.read('ran'), 'run\n');
    assert.equal(script(await chat.state()).at(-1), 'assistant: So.');
    await chat.server.stop('SIGKILL');
  }
});

test('one approves while another denies: one of the two holds', async (t) => {
  const { space, model, chat } = await withTools(t);
  const turn = chat.send('go');
  await calls(model, ['run_command', { command: 'echo run >> ran' }]);
  await turn;
  const answering = model.asked().then((request) => request.answer('So.'));
  const [yes, no] = await Promise.all([chat.act('approve_tools', { approved: ['call_1'] }), chat.act('approve_tools', { denied: ['call_1'] })]);
  await answering;
  assert.deepEqual([yes.status, no.status].sort(), [200, 400]);
  assert.equal(fs.existsSync(space.file('ran')), yes.status === 200);
});

// ---- calls that go wrong ----

test('what cannot be run is an error for the model, never a stuck context', async (t) => {
  const it = await withTools(t, { rules: ['auto *'] });
  const turn = it.chat.send('go');
  const request = await it.model.asked();
  await request.call('no_such_tool', {});
  await request.call('read_file', { path: 'nowhere' });
  await request.call('read_file', { nonsense: 1 });
  await request.send({ delta: { tool_calls: [{ index: 3, id: 'call_4', type: 'function', function: { name: 'read_file', arguments: '{"path": "no' } }] } });
  await request.call('run_command', { command: 'kill -9 $$' }, 'call_5');
  await request.call('run_command', { command: 'exit 3' }, 'call_6');
  request.calls = 6;
  await request.end();
  const next = await it.model.asked();
  const told = results(next);
  await next.answer('Oh.');
  const end = await turn;
  assert.equal(end.state, 'Idle');
  assert.match(told[0], /no tool 'no_such_tool'/);
  assert.match(told[1], /nowhere/);
  assert.match(told[2], /"path" is missing|nonsense/);
  assert.equal(end.messages.filter((message) => message.tool_result?.is_error).length >= 4, true);
  assert.match(told.at(-1), /"exit_code":\s*3/);
});

test('a tool that takes too long is stopped and its turn goes on', async (t) => {
  const it = await withTools(t, { rules: ['auto *'] });
  // Long enough for a shell to start on a busy machine.
  const [told] = await round(it, ['run_command', { command: 'echo begun; sleep 3600', timeout: 5 }]);
  assert.match(told, /timed_out/);
  assert.match(told, /begun/);
});

test('parallel calls run at the same time', async (t) => {
  const it = await withTools(t, { rules: ['auto *'] });
  const meet = (mine, other) => ['run_command', { command: `touch ${mine}; while [ ! -e ${other} ]; do sleep 0.02; done; echo met`, timeout: 30 }];
  const told = await round(it, meet('a', 'b'), meet('b', 'c'), meet('c', 'a'));
  for (const text of told) assert.match(text, /met/);
});

// ---- the sandbox ----

test('nothing of the file tools leaves the workspace', async (t) => {
  const it = await withTools(t, { rules: ['auto *'] });
  const { dir, work } = it.space;
  fs.symlinkSync('../secret', it.space.file('link'));
  fs.symlinkSync('..', it.space.file('up'));
  fs.symlinkSync(dir, it.space.file('out'));
  const paths = ['../secret', `${dir}/secret`, 'link', 'up/secret', 'out/secret', './x/../../secret', `${work}/../secret`, '/etc/passwd', '/proc/self/environ', 'a\0b'];
  const list = paths.flatMap((name) => [['read_file', { path: name }], ['write_file', { path: name, content: 'gotcha' }], ['edit_file', { path: name, old_string: 'the', new_string: 'no' }], ['delete_file', { path: name }]]);
  const told = await round(it, ...list, ['list_directory', { path: '..' }], ['grep', { pattern: 'secret', path: 'up' }], ['glob', { pattern: '../*' }]);
  told.forEach((text, i) => assert.doesNotMatch(text, /the secret|root:/, JSON.stringify(list[i])));
  const end = await it.chat.state();
  const errors = end.messages.filter((message) => message.tool_result).slice(0, list.length);
  // A link may be deleted or written over: that is the link itself, in the workspace.
  const inside = (i) => paths[Math.floor(i / 4)] === 'link' && ['write_file', 'delete_file'].includes(list[i][0]);
  errors.forEach((message, i) => assert.ok(message.tool_result.is_error || inside(i), `${JSON.stringify(list[i])}: ${JSON.stringify(message.tool_result)}`));
  assert.equal(fs.readFileSync(path.join(dir, 'secret'), 'utf8'), 'the secret\n');
});

test('nothing of run_command leaves the sandbox, and the server has no secrets for it', async (t) => {
  const model = await Model.start(t);
  const space = makeWorkspace(t);
  const server = await serveTurns(t, { work: space.work, rules: ['auto *'], env: { ...model.env, OPENAI_API_KEY: 'sk-hidden', MY_SECRET: 'hidden-too' } });
  const it = { chat: await Chat.create(server), model, space };
  const { dir } = space;
  const pid = server.process.child.pid;
  fs.symlinkSync('../secret', space.file('link'));
  const commands = ['env', `cat ${dir}/secret`, 'cat link', 'cat ../secret', `echo gotcha > ${dir}/secret`, 'echo gotcha > ../made', `cat /proc/${pid}/environ`, 'cat /proc/$PPID/environ', `ls ${os.homedir()}`, `cat ${server.data}/quipu.lock`, `ls -l /proc/${pid}/fd`, `kill -9 ${pid}`];
  const told = await round(it, ...commands.map((command) => ['run_command', { command }]));
  const first = JSON.parse(told[0]);
  assert.equal(first.exit_code, 0);
  assert.doesNotMatch(told.join('\n'), /hidden|the secret|"url"/);
  const last = commands.length - 1; // a signal needs a newer kernel to be stopped
  told.slice(1, last).forEach((text, i) => assert.notEqual(JSON.parse(text).exit_code, 0, commands[i + 1]));
  assert.equal(fs.readFileSync(path.join(dir, 'secret'), 'utf8'), 'the secret\n');
  assert.ok(!fs.existsSync(path.join(dir, 'made')));
});

test('a command cannot ask the server to approve a call, and nothing of it outlives the server', async (t) => {
  const it = await withTools(t, { rules: ['auto run_command'] });
  const { server, space, model, chat } = it;
  const asking = `exec 3<>/dev/tcp/127.0.0.1/${server.port} && printf 'GET /v1/contexts HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3`;
  const [told] = await round(it, ['run_command', { command: ['bash', '-c', asking] }]);
  assert.notEqual(JSON.parse(told).exit_code, 0, told);
  assert.doesNotMatch(told, /HTTP\/1/);
  // A daemon with a session of its own, whose parents are gone.
  fs.writeFileSync(space.file('daemon.sh'), "(setsid sh -c 'trap \"\" TERM HUP; echo $$ > new; mv new pid; while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &) & sleep 1000\n");
  const turn = chat.send('go').catch(() => {});
  await calls(model, ['run_command', { command: ['sh', 'daemon.sh'] }]);
  await until(async () => fs.existsSync(space.file('pid')));
  const pid = Number(space.read('pid'));
  process.kill(pid, 0); // it is there
  await server.stop('SIGKILL');
  await turn;
  const runs = () => {
    try {
      return !/^State:\s+[ZX]/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
    } catch {
      return false;
    }
  };
  await until(async () => !runs());
});

// ---- MCP ----

const allow = { rules: ['auto mcp__*'] };

test('server-everything in a turn: results, images, what it asks us, and an error', { skip: noServers }, async (t) => {
  const it = await withTools(t, { ...allow, mcp: { everything: { command: 'node', args: [program('everything')], env: { GIVEN: 'yes' } } } });
  await listed(it.server, 'everything');
  const mcp = (name, args = {}) => [`mcp__everything__${name}`, args];
  const told = await round(it, mcp('echo', { message: 'hé' }), mcp('get-sum', { a: 2, b: 3 }), mcp('get-roots-list'), mcp('get-env'), mcp('get-sum', { a: 'x' }), mcp('get-tiny-image'));
  assert.equal(told[0], 'Echo: hé');
  assert.match(told[1], /\b5\b/);
  assert.match(told[2], new RegExp(`file://${it.space.work}`), 'it asked for our roots in the middle of the call');
  assert.equal(JSON.parse(told[3]).GIVEN, 'yes');
  assert.doesNotMatch(told[3], /OPENAI_BASE_URL/);
  const stored = (await it.chat.state()).messages.filter((message) => message.tool_result);
  assert.deepEqual(stored.map((message) => message.tool_result.is_error), [false, false, false, false, true, false]);
  assert.ok(stored[5].tool_result.result.some((block) => block.type === 'image'));
  assert.match(told[5], /\[image: image\/png, \d+ bytes\]/);
  assert.ok(told[5].length < 500, 'a picture is not sent as text');
});

test('server-filesystem and server-memory, side by side, ask by default', { skip: noServers }, async (t) => {
  const space = makeWorkspace(t);
  const model = await Model.start(t);
  const server = await serveTurns(t, {
    work: space.work,
    env: model.env,
    mcp: { fs: { command: 'node', args: [program('filesystem'), space.work] }, memory: { command: 'node', args: [program('memory')], env: { MEMORY_FILE_PATH: path.join(space.dir, 'm.jsonl') } } },
  });
  const chat = await Chat.create(server);
  await listed(server, 'fs', 'memory');
  const turn = chat.send('go');
  await calls(model, ['mcp__fs__write_file', { path: space.file('made'), content: 'by mcp' }], ['mcp__memory__create_entities', { entities: [{ name: 'quipu', entityType: 'cord', observations: ['it has knots'] }] }], ['mcp__fs__read_text_file', { path: path.join(space.dir, 'secret') }]);
  const waiting = await turn;
  assert.equal(waiting.pending_tool_calls.length, 3, 'what a server says of its tools is not believed');
  assert.ok(!fs.existsSync(space.file('made')));
  const rest = chat.does('approve_tools', { approved: ['call_1', 'call_2', 'call_3'] });
  let request = await model.asked();
  assert.match(results(request)[2], /[Aa]ccess denied/);
  await request.answer('So.');
  await rest;
  assert.equal(space.read('made'), 'by mcp');
  const again = chat.on(await restart(t, server, 'SIGTERM', allow));
  await listed(again.server, 'memory');
  const second = again.send('and?');
  await calls(model, ['mcp__memory__search_nodes', { query: 'knots' }]);
  request = await model.asked();
  assert.match(results(request)[0], /it has knots/);
  await request.answer('So.');
  await second;
});

test('a tool that hangs is cancelled with its turn, and its server goes on', async (t) => {
  const it = await withTools(t, { ...allow, mcp: { old: { command: 'node', args: [scripted] } } });
  await listed(it.server, 'old');
  const stream = await it.chat.follow();
  await it.chat.begin('send_message', { content: 'go' });
  await calls(it.model, ['mcp__old__hang', {}], ['mcp__old__echo', { text: 'quick' }]);
  await stream.until((event) => event.type === 'tool_end' && event.name === 'mcp__old__echo');
  assert.equal((await it.chat.state()).state, 'ExecutingTools');
  const end = await it.chat.does('cancel', {});
  assert.deepEqual(script(end).slice(-2), ['tool! call_1: the turn was cancelled before the tool had answered', 'tool call_2: quick']);
  const [cancelled, echo] = await round(it, ['mcp__old__cancelled', {}], ['mcp__old__echo', { text: 'still there' }]);
  assert.equal(JSON.parse(cancelled).length, 1, 'the server was told');
  assert.equal(echo, 'still there');
});

test('a server that dies in a call, and one that cannot be started', async (t) => {
  const it = await withTools(t, { ...allow, mcp: { old: { command: 'node', args: [scripted] }, broken: { command: 'no-such-program' }, modern: { command: 'node', args: [scripted, 'modern'] } } });
  await until(() => /no-such-program/.test(it.server.process.stderr));
  await listed(it.server, 'old', 'modern');
  const [died, roots] = await round(it, ['mcp__old__die', {}], ['mcp__modern__need_roots', {}]);
  assert.match(died, /the MCP server 'old': it ended with exit code 3/);
  assert.match(roots, /st-1/);
  const [back] = await round(it, ['mcp__old__echo', { text: 'born again' }]);
  assert.equal(back, 'born again');
});

// ---- MCP servers that are slow, fail, come back, flood ----

const servers = async (server) => Object.fromEntries((await server.expect(200, 'GET', '/v1/tools')).servers.map((one) => [one.name, one]));

// Waits until an MCP server has a state, and gives all that is known of it.
async function reaches(server, name, state) {
  let one;
  await until(async () => (one = (await servers(server))[name]).state === state, () => JSON.stringify(one));
  return one;
}

// It refuses the probe at once, and the time for that probe (3 s) is over before it greets.
test('an MCP server that greets late is waited for', async (t) => {
  const began = performance.now();
  const { server } = await withTools(t, { mcp: { late: { command: 'node', args: [scripted, 'greet-ms=3500'] } } });
  const { state } = (await servers(server)).late;
  assert.ok(state === 'starting' || performance.now() - began > 3500, state);
  await until(async () => (await servers(server)).late.state !== 'starting');
  const { late } = await servers(server);
  assert.deepEqual([late.state, late.transport, late.failures, late.error], ['ready', 'stdio', 0, undefined], server.process.stderr);
  assert.ok(late.tools > 20);
});

test('an MCP server that fails at the start is seen, and its tools come without a restart', async (t) => {
  const flag = path.join(makeWorkspace(t).dir, 'go');
  const it = await withTools(t, { ...allow, mcp: { late: { command: 'node', args: [scripted, `fail-until=${flag}`] } } });
  const failed = await reaches(it.server, 'late', 'failed');
  assert.deepEqual([failed.tools, failed.error], [0, 'it ended with exit code 8']);
  assert.match(failed.next_try, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  fs.writeFileSync(flag, '');
  it.server.process.child.kill('SIGHUP'); // it need not wait for the next try
  const ready = await reaches(it.server, 'late', 'ready');
  assert.ok(ready.tools > 20);
  const [said] = await round(it, ['mcp__late__echo', { text: 'here I am' }]);
  assert.equal(said, 'here I am');
});

// Starts a program that listens, and gives it once it says so.
async function startFar(t, args, env, said = /listening/i) {
  const child = spawn('node', args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  t.after(() => child.kill('SIGKILL'));
  await new Promise((resolve, reject) => {
    let text = '';
    const look = (data) => said.test((text += data)) && resolve();
    child.stdout.on('data', look);
    child.stderr.on('data', look);
    child.on('exit', () => reject(new Error(text)));
  });
  return child;
}

test('server-everything over HTTP can be restarted: the next call works', { skip: noServers }, async (t) => {
  const port = await freePort();
  const start = () => startFar(t, [program('everything'), 'streamableHttp'], { PORT: String(port) });
  const first = await start();
  const it = await withTools(t, { ...allow, mcp: { far: { url: `http://127.0.0.1:${port}/mcp` } } });
  await listed(it.server, 'far');
  const echo = (message) => round(it, ['mcp__far__echo', { message }]);
  assert.deepEqual(await echo('one'), ['Echo: one']);
  const gone = new Promise((resolve) => first.on('exit', resolve));
  first.kill('SIGKILL');
  await gone;
  await start();
  await reaches(it.server, 'far', 'ready');
  assert.deepEqual(await echo('two'), ['Echo: two']);
});

test('an MCP server that prints without end fills no log, and its calls work', async (t) => {
  const it = await withTools(t, { ...allow, mcp: { noisy: { command: 'node', args: [scripted] } } });
  await listed(it.server, 'noisy');
  const before = it.server.process.stderr.length;
  const [flooded, said] = await round(it, ['mcp__noisy__flood', { lines: 1_000_000 }], ['mcp__noisy__echo', { text: 'still here' }]);
  assert.deepEqual([flooded, said], ['flooded', 'still here']);
  await it.server.stop('SIGTERM');
  const log = it.server.process.stderr.slice(before);
  assert.ok(log.length < 60_000, `${log.length} bytes`);
  assert.match(log, /noisy: printed too much: left out \d+ lines/);
});
