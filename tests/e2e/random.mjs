// Requests made up from the contract: right ones, nearly right ones and hostile ones. The same seed
// makes the same requests of the same server.

import { contract } from './contract.mjs';

// ---- chance ----

export class Chance {
  constructor(seed) {
    this.state = seed >>> 0;
  }

  // 0 to below n. (mulberry32)
  below(n) {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let x = this.state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return Math.floor((((x ^ (x >>> 14)) >>> 0) / 4294967296) * n);
  }

  one(list) {
    return list[this.below(list.length)];
  }

  // True once in n times.
  rarely(n) {
    return this.below(n) === 0;
  }
}

const hex = (chance, n) => Array.from({ length: n }, () => chance.below(16).toString(16)).join('');
const uuid = (chance) => `${hex(chance, 8)}-${hex(chance, 4)}-7${hex(chance, 3)}-8${hex(chance, 3)}-${hex(chance, 12)}`;

const texts = ['', 'a', 'Hello', 'knotted cords', 'ü 漢字 🪢', 'a\nb\tc', '"quoted" \\ and \u0001', '</script>', "'; DROP TABLE x; --", '%s%n', '../../etc/passwd', '.', '..', 'x'.repeat(300), 'ﷺ'.repeat(90), '\u202e\u2028', 'null', '0'];
const hostileTexts = [...texts, 'a\u0000b', '\u0000', '\ud800', 'x'.repeat(20000), '\r\nSet-Cookie: a=b', '{{7*7}}'];
const hostileNumbers = ['-1', '0', '1', '1001', '4294967296', '18446744073709551616', '99999999999999999999999999', '1e3', '1.5', ' 1', '+1', '0x10', 'NaN', '', '٣'];

// ---- values that fit a schema ----

// `things` has what is there: ids, messages, prompts, sessions, branches.
export class Maker {
  constructor(chance, things) {
    this.chance = chance;
    this.things = things;
    this.named = {
      Id: () => (chance.rarely(4) ? uuid(chance) : chance.one([...things.ids, ...things.messages, uuid(chance)])),
      PromptId: () => (chance.rarely(3) ? `p${chance.below(50)}` : chance.one([...things.prompts, 'p0'])),
      SessionId: () => (chance.rarely(3) ? chance.one(['s:1', 'ü', 'a b', '%2f', `s${chance.below(50)}`]) : chance.one([...things.sessions, 's0'])),
      BranchName: () => (chance.rarely(3) ? chance.one(['x', 'a/b', 'ü%', 'CON', '..', `b${chance.below(20)}`]) : chance.one([...things.branches, 'main'])),
    };
  }

  fit(schema, depth = 0) {
    const { chance } = this;
    if (schema === true) return this.any(depth);
    if (schema.$ref) {
      const name = schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1);
      return this.named[name]?.() ?? this.fit(contract.at(schema.$ref), depth);
    }
    if ('const' in schema) return schema.const;
    if (schema.enum) return chance.one(schema.enum);
    if (schema.anyOf && !schema.type) return this.fit(chance.one(schema.anyOf), depth);
    const type = chance.one([schema.type].flat());
    if (type === 'object') return this.object(schema, depth);
    if (type === 'array') return Array.from({ length: chance.below(3) + (schema.minItems ?? 0) }, () => this.fit(schema.items ?? true, depth + 1));
    if (type === 'string') return this.string(schema);
    if (type === 'integer') return Math.min(schema.maximum ?? 1e6, (schema.minimum ?? 0) + chance.one([0, 1, 2, 7, 100, 1e6]));
    if (type === 'boolean') return chance.rarely(2);
    return null;
  }

  string(schema) {
    if (schema.format === 'date-time') return this.chance.one(['2026-11-15T19:55:40.123Z', '1970-01-01T00:00:00Z', '2026-11-15T21:55:40+02:00', '2026-11-15T19:55:40.123456789Z']);
    const good = texts.filter((text) => text.length >= (schema.minLength ?? 0) && text.length <= (schema.maxLength ?? Infinity));
    return this.chance.one(good);
  }

  object(schema, depth) {
    const value = {};
    const required = [...(schema.required ?? []), ...(schema.anyOf ? this.chance.one(schema.anyOf).required : [])];
    for (const [name, property] of Object.entries(schema.properties ?? {}))
      if (required.includes(name) || this.chance.rarely(3)) value[name] = this.fit(property, depth + 1);
    const count = Object.keys(value).length;
    if (schema.maxProperties && count !== schema.maxProperties) {
      const name = this.chance.one(Object.keys(schema.properties));
      return { [name]: this.fit(schema.properties[name], depth + 1) };
    }
    if (schema.additionalProperties !== false && this.chance.rarely(4)) value[this.chance.one(['custom', 'ü', 'x-y', 'Type'])] = this.any(depth + 1);
    return value;
  }

  any(depth) {
    const { chance } = this;
    const simple = [null, true, 0, -1, 1.5, 1e300, chance.one(texts)];
    if (depth > 4 || !chance.rarely(3)) return chance.one(simple);
    return chance.rarely(2) ? [this.any(depth + 1), this.any(depth + 1)] : { a: this.any(depth + 1), [chance.one(['b', 'text', 'type', 'id'])]: this.any(depth + 1) };
  }

  // ---- nearly right ones ----

  // The value with one thing in it changed.
  spoil(value) {
    const { chance } = this;
    if (value === null || typeof value !== 'object' || chance.rarely(6)) return this.other(value);
    const copy = structuredClone(value);
    const keys = Object.keys(copy);
    const key = chance.one(keys);
    if (keys.length === 0 || chance.rarely(5)) {
      if (Array.isArray(copy)) copy.push(this.any(0));
      else Object.defineProperty(copy, chance.one(['unknown', 'Title', 'role', '', '__proto__', 'id ']), { value: this.any(0), enumerable: true, configurable: true, writable: true });
    } else if (!Array.isArray(copy) && chance.rarely(3)) delete copy[key];
    else copy[key] = this.spoil(copy[key]);
    return copy;
  }

  other(value) {
    const wrong = [null, true, false, 0, -1, 1.5, 1e300, 9007199254740993, [], {}, [[]], chance_text(this.chance), { a: 1 }];
    return this.chance.one(wrong.filter((one) => one !== value));
  }

  // ---- hostile ones ----

  // Bytes of a body.
  hostileBody(value) {
    const { chance } = this;
    const text = JSON.stringify(value);
    const cut = chance.below(text.length);
    const deep = chance.one([10, 100, 1000, 20000]);
    return chance.one([
      () => Buffer.from(text.slice(0, cut)),
      () => Buffer.concat([Buffer.from(text.slice(0, cut)), Buffer.from([chance.below(256), chance.below(256)]), Buffer.from(text.slice(cut))]),
      () => Buffer.from(`${text}${chance.one(['x', '{}', '\u0000', ','])}`),
      () => Buffer.from(`\ufeff${text}`),
      () => Buffer.from(`{"a":${'['.repeat(deep)}${']'.repeat(deep)}}`),
      () => Buffer.from('{"a":'.repeat(deep)),
      () => Buffer.from(text.replace('{', '{"role":"user","role":"user",')),
      () => Buffer.from(text.replace(/"([^"\\]*)"/, '"\\ud800$1"')),
      () => Buffer.from(text.replace(/:[^,}]*/, ':1e999999')),
      () => Buffer.from(text.replace(/:[^,}]*/, `:${'9'.repeat(400)}`)),
      () => Buffer.from(text.replace(/:[^,}]*/, `:"${'\\u0041'.repeat(3000)}"`)),
      () => Buffer.from(chance.one(['', 'null', '[]', '"x"', '0', '{', '}', '{"":', '\xff\xfe'])),
    ])();
  }
}

const chance_text = (chance) => chance.one(hostileTexts);

// ---- requests ----

// A part of the address: percent-encoded as it should be, or too much of it.
function encode(chance, text) {
  let encoded;
  try {
    encoded = encodeURIComponent(text);
  } catch {
    encoded = '%ED%A0%80'; // half of a pair
  }
  return chance.rarely(20) ? Buffer.from(text).toString('hex').replace(/../g, '%$&') : encoded;
}

const hostileAddress = ['%', '%2', '%zz', '%00', '%ff', '%0d%0aX: y', '%2e%2e', '..', '.', '%2f', '%c0%af', '+', '&&', '=', 'a=b=c', '\\', '%F0%9F%AA%A2', ';', ':', '@', "'", '"', '<', '[', '{id}'];

function query(maker, op) {
  const { chance } = maker;
  const pairs = [];
  for (const { node } of op.parameters.filter((parameter) => parameter.node.in === 'query')) {
    if (!node.required && !chance.rarely(3)) continue;
    const roll = chance.below(10);
    if (roll < 6) pairs.push(`${node.name}=${encode(chance, String(maker.fit(node.schema)))}`);
    else if (roll < 8) pairs.push(`${node.name}=${encode(chance, chance.one([...hostileNumbers, ...hostileTexts]))}`);
    else if (roll < 9) pairs.push(`${node.name}=${chance.one(hostileAddress)}`);
    else pairs.push(node.name);
    if (chance.rarely(30)) pairs.push(pairs.at(-1));
  }
  if (chance.rarely(30)) pairs.push(`${chance.one(['x', 'Limit', 'limit%00', ''])}=1`);
  return pairs.length > 0 ? `?${pairs.join('&')}` : '';
}

function path(maker, op) {
  const { chance, things } = maker;
  const good = { ContextId: things.ids };
  return op.route
    .replace('/v1/', chance.rarely(4) ? '/api/' : '/v1/')
    .replace(/\{(\w+)\}/g, (_, name) => {
      const { node } = op.parameters.find((parameter) => parameter.node.in === 'path' && parameter.node.name === name);
      if (chance.rarely(15)) return chance.one(hostileAddress);
      if (chance.rarely(15)) return encode(chance, chance_text(chance));
      if (op.route.startsWith('/v1/contexts') && name === 'id' && good.ContextId.length > 0) return chance.one(good.ContextId);
      return encode(chance, maker.fit(node.schema));
    });
}

function headers(maker, op) {
  const { chance, things } = maker;
  const list = [];
  for (const { node } of op.parameters.filter((parameter) => parameter.node.in === 'header')) {
    if (!chance.rarely(3)) continue;
    const value = chance.one(['*', '""', '"x"', 'W/"x"', ',,,', ', , "', '"a", "b"', 'x'.repeat(3000), '"', 'W/', '\xff', ...things.etags.slice(-5), ...things.etags.slice(-5).map((etag) => `W/${etag}, ${etag}`)]);
    list.push(`${node.name}: ${value}`);
  }
  return list;
}

// A request of the operation: { method, target, headers, body (bytes or undefined), value (what the
// body says, where it is JSON) }.
export function makeRequest(maker, op) {
  const { chance } = maker;
  const request = { method: op.method, target: path(maker, op) + query(maker, op), headers: headers(maker, op) };
  if (!op.body) return request;
  const roll = chance.below(10);
  const value = maker.fit({ $ref: op.body.schema });
  if (roll < 5) request.value = value;
  else if (roll < 8) request.value = maker.spoil(value);
  else request.body = maker.hostileBody(value);
  if (!request.body) {
    request.body = Buffer.from(JSON.stringify(request.value));
    request.value = JSON.parse(request.body); // as it is sent
  }
  return request;
}
