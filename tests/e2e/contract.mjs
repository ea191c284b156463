// Every answer that a test gets is held against the contract: an answer that it does not know, or
// knows otherwise, fails the test. See api/openapi.yaml.

import assert from 'node:assert/strict';
import { Contract, readJson } from '../../tools/contract/contract.mjs';

export const contract = new Contract(readJson());

// "operationId status" of everything that was answered in this process.
export const seen = new Set();

const common = contract.doc['x-every-response'].headers;
const page = { ...common, ...contract.doc['x-page-response'].headers };
const pointers = {
  400: '#/components/responses/Invalid',
  401: '#/components/responses/Unauthorized',
  403: '#/components/responses/Denied',
  503: '#/components/responses/Unavailable',
};
// What may come for a request that no handler has seen.
const early = new Map(Object.entries(pointers).map(([status, pointer]) => [Number(status), contract.response(pointer)]));
const otherwise = (name) => contract.response(`#/x-otherwise/${name}`);
const tooLong = otherwise('too-long');

// Headers that need no word in the contract.
const plain = /^(date|content-length|content-type|connection|keep-alive|transfer-encoding|vary|access-control-[a-z-]+)$/;

// ---- which operation ----

function segments(target) {
  const path = target.replace(/^https?:\/\/[^/]*\/?/i, '/').split(/[?#]/)[0];
  if (!path.startsWith('/')) return undefined;
  try {
    return path.slice(1).split('/').map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

function fits(route, parts) {
  const pattern = route.slice(1).split('/');
  return (
    pattern.length === parts.length &&
    pattern.every((want, i) => (want.startsWith('{') ? parts[i] !== '' : want === parts[i] || (i === 0 && want === 'v1' && pattern.length > 1 && parts[i] === 'api')))
  );
}

// The answers that the contract knows for the request, by status, and the operation if there is one.
function known(method, target) {
  const parts = segments(target);
  const there = parts ? contract.operations.filter((op) => fits(op.route, parts)) : [];
  const op = there.find((one) => one.method === (method === 'HEAD' ? 'GET' : method));
  if (op) return { op, answers: op.responses };
  if (method === 'OPTIONS' && target === '*') return { answers: new Map([[204, otherwise('options')]]) };
  if (there.length === 0) return { answers: new Map([...early, [404, otherwise('no-path')]]) };
  if (method === 'OPTIONS') return { answers: new Map([...early, [204, otherwise('options')]]) };
  return { answers: new Map([...early, [405, otherwise('no-method')]]) };
}

// ---- checks ----

// What nginx adds (tools/cluster); quipu has no such header.
const isOfProxy = (name, value) => name === 'server' && value.startsWith('nginx');

function checkHeaders(where, status, headers, response, op) {
  const get = (name) => headers.get(name) ?? undefined;
  const isPage = op?.node['x-page'] && status < 400 && get('content-type') !== 'application/json';
  const general = isPage ? page : common;
  for (const [name, value] of Object.entries(general)) {
    if (status === 304 && get(name.toLowerCase()) === undefined) continue; // what the client has, has them
    assert.equal(get(name.toLowerCase()), value, `${where}: ${name}`);
  }
  assert.match(get('cache-control') ?? '', isPage ? /^private, no-cache$|^public, max-age=31536000, immutable$/ : get('etag') ? /^private, no-cache$/ : /^no-store$/, `${where}: Cache-Control`);
  const listed = new Map(response.headers);
  if (op?.id === 'saveMessage') {
    // Below /api its errors say so too, when they come from its handler.
    for (const name of ['deprecation', 'link']) if (!listed.has(name)) listed.set(name, undefined);
  }
  listed.set('idempotency-replayed', undefined); // of every change with a key
  for (const [name, header] of listed) {
    const value = get(name);
    if (!header) continue;
    assert.ok(value !== undefined || !header.node.required, `${where}: the contract promises ${name}`);
    const problem = value === undefined ? undefined : contract.validator(`${header.pointer}/schema`)(value);
    assert.ok(!problem, `${where}: ${name}: ${problem}`);
  }
  const words = new Set([...Object.keys(general).map((name) => name.toLowerCase()), 'cache-control', ...listed.keys()]);
  for (const [name] of headers) assert.ok(plain.test(name) || words.has(name) || isOfProxy(name, get(name)), `${where}: the contract does not know the header ${name}`);
}

function checkBody(where, method, text, type, contents) {
  const content = contents.find((one) => one.type === type) ?? contents[0];
  if (!content || method === 'HEAD') {
    assert.equal(text, '', `${where}: a body where none may be`);
    if (!content) assert.equal(type, undefined, `${where}: a type of no body`);
    return;
  }
  assert.equal(type, content.type, `${where}: the type of the body`);
  let value = text;
  if (type === 'application/json') {
    try {
      value = JSON.parse(text);
    } catch (error) {
      assert.fail(`${where}: the body is not JSON: ${error.message}: ${text.slice(0, 300)}`);
    }
  }
  const problem = contract.validator(content.schema)(value);
  assert.ok(!problem, `${where}: ${problem}: ${text.slice(0, 300)}`);
}

// `headers` is a Headers; fails the test when the answer is not as the contract says.
export function check(method, target, { status, headers, text }) {
  const where = `${method} ${target.slice(0, 200)} answered ${status}`;
  const { op, answers } = known(method, target);
  const response = answers.get(status) ?? (status === 431 ? tooLong : undefined);
  assert.ok(response, `${where}, which the contract does not know: ${text.slice(0, 300)}`);
  checkHeaders(where, status, headers, response, op);
  checkBody(where, method, text, headers.get('content-type') ?? undefined, response.contents);
  if (op && method === op.method) seen.add(`${op.id} ${status}`);
}

// ---- raw connections ----

// The whole answers in what came over a connection, and what is left of the bytes. `asked`: the
// methods, in order.
export function parseAnswers(bytes, asked) {
  const all = [];
  let rest = bytes;
  for (;;) {
    const head = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest);
    if (!head) return { all, rest };
    const status = Number(head[1]);
    rest = rest.slice(head[0].length);
    if (status === 100) continue;
    const headers = new Headers(head[2].split('\r\n').filter(Boolean).map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]));
    const empty = status === 204 || status === 304 || asked[all.length]?.method === 'HEAD';
    const length = empty ? 0 : Number(headers.get('content-length') ?? rest.length);
    if (rest.length < length) return { all, rest };
    all.push({ status, headers, text: Buffer.from(rest.slice(0, length), 'latin1').toString('utf8') });
    rest = rest.slice(length);
  }
}

// The requests of what was sent, as far as their framing is plain; those behind are not known.
function parseRequests(bytes) {
  const all = [];
  let rest = bytes;
  for (;;) {
    const head = /^([A-Za-z]+) (\S+) HTTP\/1\.[01]\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest);
    if (!head) return all;
    const lengths = [...head[3].matchAll(/^content-length:[ \t]*(.*?)[ \t]*\r$/gim)].map((found) => found[1]);
    all.push({ method: head[1], target: head[2] });
    rest = rest.slice(head[0].length);
    if (/^transfer-encoding:/im.test(head[3])) rest = '';
    else if (lengths.length === 1 && /^\d+$/.test(lengths[0])) rest = rest.slice(Number(lengths[0]));
    else if (lengths.length > 0) rest = '';
  }
}

// What libmicrohttpd itself says of a request that it cannot read, before the server sees it.
const unreadable = [400, 408, 411, 413, 414, 431, 500, 501, 505];
const isUnread = ({ status, headers }) => unreadable.includes(status) && !headers.get('x-content-type-options') && headers.get('content-type') !== 'application/json';

// Checks the whole answers that came for what was sent.
export function checkRaw(sent, came) {
  const asked = parseRequests(sent);
  parseAnswers(came, asked).all.forEach((answer, i) => {
    if (isUnread(answer)) return;
    if (asked[i]) check(asked[i].method, asked[i].target, answer);
    else {
      assert.ok(early.has(answer.status), `an answer ${answer.status} to a request that was not sent`);
      check('GET', '-', answer);
    }
  });
}
