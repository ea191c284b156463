// The rows of the route table in src/http/route.c, with its row macros expanded.

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const text = fs.readFileSync(path.join(root, 'src/http/route.c'), 'utf8').replace(/\s*\\\n\s*/g, ' ');
const macros = new Map([...text.matchAll(/^#define (\w+)\(([^)]*)\) (\{.*\})$/gm)].map(([, name, names, row]) => [name, { names: names.split(', '), row }]));

const expand = (all, name, args) => {
  const macro = macros.get(name);
  if (!macro) return all;
  const values = args.match(/"[^"]*"|[^\s,"]+/g);
  return macro.names.reduce((row, one, i) => row.replace(new RegExp(`(?<!")\\b${one}\\b(?!")`, 'g'), values[i]), macro.row);
};

const table = /routes\[\] = \{([\s\S]*?)\n\};/.exec(text)[1].replace(/(\w+)\(([^()]*)\)/g, expand).replace(/" "/g, '');

export const routes = [...table.matchAll(/\{\s*"([A-Z]+)", "([^"]+)",\s*qp__h_\w+,\s*QP__SCOPE_(\w+),\s*([^,]+),\s*(?:NULL|"([^"]*)")\s*\}/g)]
  .map(([, method, route, scope, flags, query]) => ({ method, path: route, scope, flags, query }));
