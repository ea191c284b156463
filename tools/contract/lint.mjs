// Rules for the contract beyond OpenAPI 3.1. Yields one sentence for each violation.

import { Validator } from '@seriousme/openapi-schema-validator';
import { Contract } from './contract.mjs';

const scopes = ['none', 'read', 'write', 'admin'];
const bodyless = [204, 304];

function* references(node, pointer = '#') {
  if (node === null || typeof node !== 'object') return;
  for (const [key, value] of Object.entries(node)) {
    if (key === '$ref' && typeof value === 'string') yield { pointer, target: value };
    else yield* references(value, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
  }
}

// Every reference has a target, and every component is used.
function* lintReferences(contract) {
  const used = new Set();
  for (const { pointer, target } of references(contract.doc)) {
    used.add(target);
    try {
      contract.at(target);
    } catch (error) {
      yield `${pointer}: ${error.message}`;
    }
  }
  for (const kind of Object.keys(contract.doc.components)) {
    if (kind === 'securitySchemes') continue;
    for (const name of Object.keys(contract.doc.components[kind]))
      if (!used.has(`#/components/${kind}/${name}`)) yield `#/components/${kind}/${name}: it is not used`;
  }
}

function* lintExample(contract, pointer, schema, example) {
  if (schema === undefined) yield `${pointer}: it has no schema`;
  if (example === undefined) yield `${pointer}: it has no example`;
  if (schema === undefined || example === undefined) return;
  const problem = contract.validator(schema)(example);
  if (problem) yield `${pointer}: its example does not fit its schema: ${problem}`;
}

function* lintContent(contract, pointer, content) {
  yield* lintExample(contract, pointer, content.node.schema && content.schema, content.example);
}

function* lintParameters(contract, op) {
  const inPath = [...op.route.matchAll(/\{(\w+)\}/g)].map((found) => found[1]);
  const seen = new Set();
  for (const { node, pointer } of op.parameters) {
    const name = `${node.in} ${node.name}`;
    if (seen.has(name)) yield `${op.pointer}: the parameter ${name} is there twice`;
    seen.add(name);
    if (!node.description) yield `${pointer}: it has no description`;
    if (!node.schema) yield `${pointer}: it has no schema`;
    else if (node.example !== undefined) yield* lintExample(contract, pointer, `${pointer}/schema`, node.example);
    if (node.in === 'path' && node.example === undefined) yield `${pointer}: it has no example`;
    if (node.in === 'path' && !inPath.includes(node.name)) yield `${op.pointer}: the path has no {${node.name}}`;
  }
  for (const name of inPath) if (!seen.has(`path ${name}`)) yield `${op.pointer}: {${name}} is not described`;
}

function* lintResponse(contract, status, { node, pointer, headers, content, contents }) {
  if (!node.description) yield `${pointer}: it has no description`;
  if (content && bodyless.includes(status)) yield `${pointer}: a ${status} has no body`;
  if (!content && !bodyless.includes(status) && !node['x-empty']) yield `${pointer}: it has no content`;
  for (const one of contents) yield* lintContent(contract, pointer, one);
  if (status >= 400 && content && !/Error'?$/.test(content.node.schema.$ref ?? ''))
    yield `${pointer}: it is not an error by its schema`;
  for (const header of headers.values())
    yield* lintExample(contract, header.pointer, header.node.schema && `${header.pointer}/schema`, header.node.example);
}

// The statuses that any such operation may return.
function* lintStatuses(op) {
  const need = [400, 403, 503];
  if (op.node['x-scope'] !== 'none') need.push(401);
  if (op.body) need.push(413, 415);
  if (op.route.includes('{')) need.push(404);
  if (op.parameters.some(({ node }) => node.name === 'If-Match')) need.push(412);
  if (op.parameters.some(({ node }) => node.name === 'If-None-Match')) need.push(304);
  if (op.method !== 'GET') need.push(500, 507);
  for (const status of need) if (!op.responses.has(status)) yield `${op.pointer}: it does not tell of ${status}`;
  if (![...op.responses.keys()].some((status) => status < 300)) yield `${op.pointer}: it never succeeds`;
}

function* lintOperation(contract, op, ids, tags) {
  if (!op.id) yield `${op.pointer}: it has no operationId`;
  if (ids.has(op.id)) yield `${op.pointer}: the operationId ${op.id} is taken`;
  ids.add(op.id);
  if (!op.node.summary) yield `${op.pointer}: it has no summary`;
  if (op.node.tags?.length !== 1 || !tags.includes(op.node.tags[0])) yield `${op.pointer}: it must have one of the tags`;
  if (!scopes.includes(op.node['x-scope'])) yield `${op.pointer}: x-scope must be one of ${scopes.join(', ')}`;
  if ((op.node['x-scope'] === 'none') !== (op.node.security?.length === 0))
    yield `${op.pointer}: security must be [] if and only if x-scope is none`;
  yield* lintParameters(contract, op);
  if (op.body) yield* lintContent(contract, `${op.pointer}/requestBody`, op.body);
  for (const [status, response] of op.responses) yield* lintResponse(contract, status, response);
  yield* lintStatuses(op);
}

// The list of codes must be the union of the codes of all errors.
function* lintCodes(contract) {
  const schemas = contract.doc.components.schemas;
  const listed = schemas.ErrorCode.enum;
  const used = new Set();
  for (const [name, schema] of Object.entries(schemas)) {
    const code = schema.properties?.error?.properties?.code;
    if (!name.endsWith('Error') || !code) continue;
    for (const one of code.enum ?? [code.const]) {
      used.add(one);
      if (!listed.includes(one)) yield `#/components/schemas/${name}: ErrorCode does not list ${one}`;
    }
  }
  for (const code of listed) if (!used.has(code)) yield `#/components/schemas/ErrorCode: no answer has the code ${code}`;
}

// JSON Schema allows true and false as schemas, but generators of clients reject them.
function* lintBooleanSchemas(node, pointer = '#') {
  if (node === null || typeof node !== 'object') return;
  for (const [key, value] of Object.entries(node)) {
    if (key === 'example' || key === 'default') continue;
    if (key === 'properties')
      for (const [name, schema] of Object.entries(value))
        if (typeof schema === 'boolean') yield `${pointer}/properties/${name}: write {} instead of a boolean schema`;
    yield* lintBooleanSchemas(value, `${pointer}/${key}`);
  }
}

export async function lint(doc) {
  const official = await new Validator().validate(structuredClone(doc));
  if (!official.valid) {
    const errors = [official.errors].flat();
    return errors.map((error) => `not OpenAPI 3.1: ${error.instancePath ?? ''} ${error.message ?? error}`);
  }
  const contract = new Contract(doc);
  const broken = [...lintReferences(contract)];
  if (broken.length > 0) return broken;
  const ids = new Set();
  const tags = doc.tags.map((tag) => tag.name);
  return [...new Set([...contract.operations.flatMap((op) => [...lintOperation(contract, op, ids, tags)]), ...lintCodes(contract), ...lintBooleanSchemas(doc.components, '#/components')])];
}
