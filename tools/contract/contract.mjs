// The contract of the HTTP server, for the lint, the documentation and the end-to-end tests: its operations with
// every reference resolved, and validators for its schemas.

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import addFormats from 'ajv-formats';
import Ajv2020 from 'ajv/dist/2020.js';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
export const methods = ['get', 'post', 'patch', 'put', 'delete'];

// A part of a JSON pointer, escaped as in a URI.
const escape = (part) => part.replaceAll('~', '~0').replaceAll('/', '~1');
const unescape = (part) => part.replaceAll('~1', '/').replaceAll('~0', '~');

export class Contract {
  constructor(doc) {
    this.doc = doc;
    this.ajv = new Ajv2020({ strict: true, strictRequired: false, strictTypes: false, allErrors: false });
    addFormats(this.ajv);
    this.ajv.addVocabulary(Object.keys(doc)); // the document is not a schema, but contains schemas
    this.ajv.addVocabulary(['discriminator', 'x-event']); // for generators of clients
    this.ajv.addSchema(doc, 'contract');
    this.compiled = new Map();
    this.operations = this.#operations();
  }

  // The value that a pointer such as #/components/headers/ETag refers to.
  at(pointer) {
    let node = this.doc;
    for (const part of pointer.split('/').slice(1)) node = node?.[unescape(part)];
    if (node === undefined) throw new Error(`${pointer} points to nothing`);
    return node;
  }

  // The node and the pointer to it. A reference is followed.
  resolve(pointer) {
    const node = this.at(pointer);
    return node.$ref ? this.resolve(node.$ref) : { node, pointer };
  }

  // A function that returns undefined for a value that fits the schema, otherwise a description of the problem.
  validator(pointer) {
    if (!this.compiled.has(pointer)) {
      const uri = pointer.slice(1).split('/').map(encodeURIComponent).join('/');
      const check = this.ajv.compile({ $ref: `contract#${uri}` });
      this.compiled.set(pointer, (value) => {
        if (check(value)) return undefined;
        const [error] = check.errors;
        return `${error.instancePath || 'the value'} ${error.message} ${JSON.stringify(error.params)}`;
      });
    }
    return this.compiled.get(pointer);
  }

  #operations() {
    const all = [];
    for (const [route, item] of Object.entries(this.doc.paths))
      for (const method of methods)
        if (item[method]) all.push(this.#operation(`#/paths/${escape(route)}`, route, method));
    return all;
  }

  #operation(base, route, method) {
    const here = `${base}/${method}`;
    const node = this.at(here);
    const list = (pointer) => (this.at(pointer).parameters ?? []).map((_, i) => this.resolve(`${pointer}/parameters/${i}`));
    const responses = new Map();
    for (const status of Object.keys(node.responses))
      responses.set(Number(status), this.response(`${here}/responses/${status}`));
    return {
      id: node.operationId,
      route,
      method: method.toUpperCase(),
      pointer: here,
      node,
      pattern: new RegExp(`^${route.replace('/v1/', '/(?:v1|api)/').replace(/\{\w+\}/g, '([^/]+)').replaceAll('.', '\\.')}$`),
      parameters: [...list(base), ...list(here)],
      body: node.requestBody && this.content(`${here}/requestBody`),
      responses,
    };
  }

  // The kinds of content of a body: type, schema and example of each.
  contents(pointer) {
    const { node, pointer: there } = this.resolve(pointer);
    return Object.keys(node.content ?? {}).map((type) => {
      const media = `${there}/content/${escape(type)}`;
      return { type, schema: `${media}/schema`, example: this.at(media).example, node: this.at(media) };
    });
  }

  // The first kind of content, or undefined.
  content(pointer) {
    return this.contents(pointer)[0];
  }

  response(pointer) {
    const { node, pointer: there } = this.resolve(pointer);
    const headers = new Map();
    for (const name of Object.keys(node.headers ?? {}))
      headers.set(name.toLowerCase(), { name, ...this.resolve(`${there}/headers/${escape(name)}`) });
    return { node, pointer: there, headers, content: this.content(there), contents: this.contents(there) };
  }
}

export const readJson = () => JSON.parse(fs.readFileSync(path.join(root, 'api', 'openapi.json'), 'utf8'));
