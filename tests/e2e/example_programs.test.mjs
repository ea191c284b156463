// The example programs that talk to a server, as their first lines say.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { root, serveFaces } from './face.mjs';

const run = promisify(execFile);
const programs = [
  ['node', 'openai.mjs', 'stored: completed, completed, completed\nWhat is a quipu? 17 characters\nAnd who read them? 17 characters\n'],
  ['node', 'ai_sdk.mjs', 'stored: user, assistant\n'],
  ['sh', 'curl.sh', 'stop\nstop\nknots of curl\n'],
  ['python3', 'client.py', 'answered: True\nstate: Idle messages: 4\n'],
  ['python3', 'openai_chat.py', 'stored: completed completed\n17 characters\n', 'openai'],
];

for (const [interpreter, program, told, module] of programs)
  test(`examples/${program}`, async (t) => {
    if (module) {
      const installed = await run(interpreter, ['-c', `import ${module}`]).then(() => true, () => false);
      if (!installed) return t.skip(`the package ${module} of Python is not installed`);
    }
    const server = await serveFaces(t);
    const env = { ...process.env, PYTHONPATH: path.join(root, 'clients/python'), PYTHONDONTWRITEBYTECODE: '1' };
    const { stdout } = await run(interpreter, [path.join(root, 'examples', program), server.url], { cwd: root, env });
    assert.equal(stdout, told);
    return undefined;
  });
