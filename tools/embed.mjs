#!/usr/bin/env node
// Makes a C file of a JSON file: its compact text as an array of bytes, the same for the same input.
//
//   tools/embed.mjs INPUT.json OUTPUT.c
//
// Part of the build, so it needs nothing but Node.js.

import fs from 'node:fs';

const [input, output] = process.argv.slice(2);
const bytes = Buffer.from(JSON.stringify(JSON.parse(fs.readFileSync(input, 'utf8'))));
const rows = [];
for (let i = 0; i < bytes.length; i += 24) rows.push(`  ${[...bytes.subarray(i, i + 24)].join(',')},`);
fs.writeFileSync(
  output,
  `/* Made by tools/embed.mjs. */
#include "http/openapi.h"

const unsigned char qp__openapi_json[] = {
${rows.join('\n')}
};
const size_t qp__openapi_json_len = sizeof(qp__openapi_json);
`,
);
