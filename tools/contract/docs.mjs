// docs/http-api.md from the contract: one page for people who write clients.

const json = (value) => JSON.stringify(value, null, 2);
const anchor = (op) => op.id.toLowerCase();
const oneLine = (text) => text.trim().replace(/\s+/g, ' ');
const cell = (text) => oneLine(text).replaceAll('|', '\\|');
const table = (head, rows) => [`| ${head.join(' | ')} |`, `|${head.map(() => '---').join('|')}|`, ...rows.map((row) => `| ${row.join(' | ')} |`)].join('\n');

// ---- what a schema says, in a few words ----

const nameOf = (ref) => ref.slice(ref.lastIndexOf('/') + 1);

function words(contract, schema) {
  if (schema === true) return 'any value';
  if (schema.$ref) {
    const there = contract.at(schema.$ref);
    return there.type === 'object' ? `[${nameOf(schema.$ref)}](#${nameOf(schema.$ref).toLowerCase()})` : words(contract, there);
  }
  if (schema.anyOf) return schema.anyOf.map((one) => words(contract, one)).join(' or ');
  if (schema.oneOf) return schema.oneOf.map((one) => words(contract, one)).join(' or ');
  if ('const' in schema) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.enum) return schema.enum.map((one) => `\`${one ?? 'null'}\``).join(', ');
  if (schema.type === 'array') return `array of ${words(contract, schema.items ?? true)}`;
  if (schema.type === 'integer') {
    const from = schema.minimum ?? 0;
    return schema.maximum === undefined ? `whole number, ${from} or more` : `whole number, ${from} to ${schema.maximum}`;
  }
  if (schema.format === 'date-time') return [schema.type].flat().includes('null') ? 'time or null' : 'time';
  return [schema.type].flat().join(' or ');
}

// The description of the value itself, or else of its schema.
const told = (contract, node) => node.description ?? (node.$ref ? contract.at(node.$ref).description : undefined) ?? '';

function fields(contract, schema) {
  const required = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).map(([name, node]) => [
    `\`${name}\`${required.includes(name) ? '' : ' *(optional)*'}`,
    words(contract, node),
    cell(node === true ? '' : told(contract, node)),
  ]);
}

// ---- an operation ----

function curl(op) {
  let path = op.route;
  for (const { node } of op.parameters)
    if (node.in === 'path') path = path.replace(`{${node.name}}`, encodeURIComponent(node.example));
  const query = op.node['x-query'] ? `?${op.node['x-query']}` : '';
  const quoted = query ? `'http://127.0.0.1:7878${path}${query}'` : `http://127.0.0.1:7878${path}`;
  const lines = [`curl ${op.method === 'GET' ? '' : `-X ${op.method} `}${quoted}`];
  if (op.body) lines.push(`  -H 'Content-Type: application/json'`, `  -d '${JSON.stringify(op.body.example)}'`);
  return lines.join(' \\\n');
}

function parameters(contract, op) {
  const rows = op.parameters.map(({ node, pointer }) => {
    const schema = contract.resolve(`${pointer}/schema`).node;
    const preset = schema.default === undefined ? '' : ` Default \`${schema.default}\`.`;
    return [`\`${node.name}\``, node.in, words(contract, node.schema), cell(`${node.description}${preset}`)];
  });
  return rows.length > 0 ? `${table(['parameter', 'in', 'type', ''], rows)}\n` : '';
}

function bodyOf(contract, op) {
  if (!op.body) return '';
  const { node } = contract.resolve(op.body.schema);
  const about = node.description ? oneLine(node.description) : '';
  return `Body${about ? `: ${about}` : ':'}\n\n${table(['field', 'type', ''], fields(contract, node))}\n`;
}

// The possible responses besides the one of the example.
function otherAnswers(op) {
  const good = [...op.responses].filter(([status]) => status < 400);
  const bad = [...op.responses.keys()].filter((status) => status >= 400);
  const lines = good.map(([status, { node, headers }]) => {
    const names = [...headers.values()].map(({ name }) => `\`${name}\``);
    return `- ${status}${names.length > 0 ? ` with ${names.join(' and ')}` : ''}: ${oneLine(node.description)}`;
  });
  return `${lines.join('\n')}\n- [errors](#errors): ${bad.join(', ')}\n`;
}

function example(op) {
  const [status, response] = [...op.responses].find(([number]) => number < 300);
  if (!response.content) return `\`\`\`sh\n${curl(op)}\n\`\`\`\n\nAnswers ${status} without a body.\n`;
  const isJson = response.content.type === 'application/json';
  const text = isJson ? json(response.content.example) : response.content.example.trimEnd();
  return `\`\`\`sh\n${curl(op)}\n\`\`\`\n\nAnswers ${status}:\n\n\`\`\`${isJson ? 'json' : 'text'}\n${text}\n\`\`\`\n`;
}

function operation(contract, op) {
  const scope = op.node['x-scope'] === 'none' ? 'No key is needed.' : `Scope: \`${op.node['x-scope']}\`.`;
  return [
    `<a id="${anchor(op)}"></a>`,
    `### ${op.method} ${op.route}\n`,
    `${op.node.deprecated ? '**Deprecated.** ' : ''}${op.node.summary.replace(/([^?.])$/, '$1.')} ${scope}\n`,
    op.node.description ? `${op.node.description.trim()}\n` : '',
    parameters(contract, op),
    bodyOf(contract, op),
    example(op),
    otherAnswers(op),
  ]
    .filter((part) => part !== '')
    .join('\n');
}

// ---- the page ----

function errors(contract) {
  const rows = new Map();
  const add = (status, { content, node }) => {
    if (status < 400 || !content) return;
    const { code } = contract.resolve(content.schema).node.properties.error.properties ?? {};
    if (!code) return; // an error of another protocol
    rows.set(status, [status, (code.enum ?? [code.const]).map((one) => `\`${one}\``).join(', '), cell(node.description)]);
  };
  for (const op of contract.operations) for (const [status, response] of op.responses) add(status, response);
  add(405, contract.response('#/x-otherwise/no-method'));
  add(431, contract.response('#/x-otherwise/too-long'));
  return table(['status', 'codes', ''], [...rows.values()].sort((a, b) => a[0] - b[0]));
}

// The objects that responses and bodies refer to. Whole bodies are described with their operations.
function objects(contract) {
  const bodies = contract.operations.map((op) => op.body && contract.resolve(op.body.schema).node);
  const shown = Object.entries(contract.doc.components.schemas).filter(
    ([name, schema]) => schema.type === 'object' && name !== 'Error' && !bodies.includes(schema),
  );
  return shown.map(([name, schema]) => {
    const about = schema.description ? `${oneLine(schema.description)}\n\n` : '';
    return `### ${name}\n\n${about}${table(['field', 'type', ''], fields(contract, schema))}\n`;
  });
}

export function page(contract) {
  const { doc, operations } = contract;
  const routes = operations.map((op) => [`[\`${op.method} ${op.route}\`](#${anchor(op)})`, `${op.node.summary}${op.node.deprecated ? ' (deprecated)' : ''}`, op.node['x-scope']]);
  const sections = doc.tags.flatMap((tag) => {
    const own = operations.filter((op) => op.node.tags[0] === tag.name);
    return [`## ${tag.name[0].toUpperCase()}${tag.name.slice(1).replace('-', ' ')}\n\n${tag.description}\n`, ...own.map((op) => operation(contract, op))];
  });
  return `${[
    `<!-- Generated by tools/contract.mjs from api/openapi.yaml; do not edit. -->
# The HTTP API of quipu

${doc.info.description.trim()}

The complete description is [api/openapi.yaml](../api/openapi.yaml); a running server returns it as
\`/openapi.json\`.

${table(['operation', '', 'scope'], routes)}

## A conversation in four requests

\`\`\`sh
quipu serve &
url=http://127.0.0.1:7878/v1
id=$(curl -s $url/contexts -H 'Content-Type: application/json' -d '{"title":"Cords"}' | jq -r .id)
curl -s $url/contexts/$id/messages -H 'Content-Type: application/json' -d '{"role":"user","text":"Hello"}'
curl -s $url/contexts/$id/state
curl -s "$url/search?q=hello"
\`\`\`

## Errors

Every response with a status of 400 or more has this body. The code is for programs; the message is
one sentence for people:

\`\`\`json
${json(contract.content('#/components/responses/NotFound').example)}
\`\`\`

${errors(contract)}

A request that is not HTTP, or whose header does not fit into memory, is rejected earlier: the
response has no JSON body, and the server closes the connection.

## Polling

Request the state with the \`ETag\` of the previous response. While nothing has changed, the response
is 304 without a body and costs almost nothing:

\`\`\`sh
curl -i http://127.0.0.1:7878/v1/contexts/$id/state
# ETag: "6f1ed002ab5595859014ebf0951522d9"
curl -i http://127.0.0.1:7878/v1/contexts/$id/state -H 'If-None-Match: "6f1ed002ab5595859014ebf0951522d9"'
# HTTP/1.1 304 Not Modified
\`\`\`

A client sees its own change in its next poll. \`ETag\` also protects changes: send it as \`If-Match\`
with a PATCH; 412 means that another client changed the context first.

## Pages

Each page of a list has a \`next_cursor\`. Send it as \`cursor\` to get the next page, until it is \`null\`:

\`\`\`sh
page=$(curl -s "http://127.0.0.1:7878/v1/contexts/$id/messages?order=newest&limit=50")
next=$(echo "$page" | jq -r .next_cursor)
curl -s "http://127.0.0.1:7878/v1/contexts/$id/messages?order=newest&limit=50&cursor=$next"
\`\`\`

## Headers of every response except 304

${table(['header', 'value'], Object.entries(doc['x-every-response'].headers).map(([name, value]) => [`\`${name}\``, `\`${value}\``]))}
`,
    ...sections,
    '## Objects\n',
    ...objects(contract),
  ].join('\n')}`;
}
