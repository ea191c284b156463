#!/usr/bin/env node
// Checks api/openapi.yaml and makes from it what is kept in the tree: api/openapi.json, which the
// build puts into the program, and docs/http-api.md.
//
//   tools/contract.mjs           check, and write both
//   tools/contract.mjs --check   check, and that both are what would be written

import fs from 'node:fs';
import path from 'node:path';

let modules;
try {
  modules = await Promise.all([import('yaml'), import('./contract/contract.mjs'), import('./contract/docs.mjs'), import('./contract/lint.mjs')]);
} catch (error) {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  process.stderr.write(`tools/contract.mjs: ${error.message}\nrun tools/deps test\n`);
  process.exit(2);
}
const [yaml, { Contract, root }, { page }, { lint }] = modules;
const source = 'api/openapi.yaml';
const read = (file) => {
  const full = path.join(root, file);
  return fs.existsSync(full) ? fs.readFileSync(full, 'utf8') : undefined;
};

const parsed = yaml.parseDocument(read(source), { merge: true, uniqueKeys: true });
const problems = [...parsed.errors, ...parsed.warnings].map((error) => `${source}:${error.linePos?.[0].line ?? 1}: ${error.message}`);
const doc = problems.length > 0 ? undefined : parsed.toJS({ maxAliasCount: -1 });
if (doc) problems.push(...(await lint(doc)).map((sentence) => `${source}:1: ${sentence}`));
if (problems.length === 0) {
  const made = {
    'api/openapi.json': `${JSON.stringify(doc, null, 1)}\n`,
    'docs/http-api.md': page(new Contract(doc)),
  };
  for (const [file, text] of Object.entries(made)) {
    if (process.argv[2] !== '--check') fs.writeFileSync(path.join(root, file), text);
    else if (read(file) !== text) problems.push(`${file}:1: it is behind ${source}; run tools/contract.mjs`);
  }
}
for (const problem of problems) process.stdout.write(`${problem}\n`);
process.exitCode = problems.length > 0 ? 1 : 0;
