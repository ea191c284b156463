// A context that is held in a state: the model is in the test's hand, and so is the tool.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { Model } from './model.mjs';
import { Chat, makeWorkspace, script, serveTurns, until } from './turns.mjs';

// A tool that leaves a mark, and then waits for a file. Its runs can be counted.
const slow = { command: 'echo run >> ran; while [ ! -e go ]; do sleep 0.02; done; echo gone', timeout: 600 };
export const runs = (space) => (fs.existsSync(space.file('ran')) ? space.read('ran').split('\n').length - 1 : 0);

// How a context comes to each state and stays there; `request` is the model's present one.
export const holds = {
  AwaitingLLMResponse: async ({ model }) => model.asked(),
  StreamingLLMResponse: async ({ model }) => {
    const request = await model.asked();
    await request.say('Knots are');
    return request;
  },
  AwaitingToolApproval: async ({ model }) => {
    const request = await model.asked();
    await request.say('May I?');
    await request.call('write_file', { path: 'made.txt', content: 'a knot' }, 'call_w');
    await request.end();
  },
  ExecutingTools: async ({ model, space }) => {
    const request = await model.asked();
    await request.call('run_command', slow, 'call_c');
    await request.end();
    await until(() => runs(space) === 1);
  },
  GeneratingResponse: async ({ model }) => {
    const request = await model.asked();
    await request.call('read_file', { path: 'notes.txt' }, 'call_r');
    await request.end();
    return model.asked();
  },
  TransientFailure: async ({ model }) => {
    const request = await model.asked();
    request.fail(529, 'overloaded_error', 'busy', { 'retry-after': '3600' });
  },
};

// A server with a workspace, a model in hand, and a context that is held in a state.
export async function hold(t, state, headers) {
  const space = makeWorkspace(t);
  const model = await Model.start(t);
  const server = await serveTurns(t, { work: space.work, env: model.env, rules: ['auto run_command'] });
  const chat = await Chat.create(server);
  const stream = await chat.follow({ after: 0 });
  const sent = await chat.begin('send_message', { content: 'hi' }, headers);
  const at = { t, space, model, server, chat, stream, sent };
  const [request] = await Promise.all([holds[state](at), stream.reaches(state)]);
  if (state === 'StreamingLLMResponse') await stream.until((event) => event.type === 'text');
  await chat.reach(state); // that an answer streams is told before it is stored
  return { ...at, request };
}

// Goes on until the context is Idle; the model says this.
export async function goOn({ chat, model, space }, action, body, text = 'Here I am.') {
  const stream = await chat.follow();
  const turn = chat.does(action, body);
  fs.writeFileSync(space.file('go'), '');
  await (await model.asked()).answer(text);
  const after = await turn;
  assert.equal(after.state, 'Idle');
  assert.equal(script(after).at(-1), `assistant: ${text}`);
  stream.close();
  return after;
}
