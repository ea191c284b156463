// The openai package with quipu behind it: conversations that survive a crash and branch.
//
//   npm install openai
//   quipu serve &
//   node openai.mjs http://127.0.0.1:7878
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: `${process.argv[2]}/openai/v1`, apiKey: process.env.QUIPU_KEY ?? 'none' });

// Responses: each one continues where the one before has ended. Two that continue the same one are
// two branches.
const first = await client.responses.create({ model: 'demo', input: 'Remember seven knots.' });
const next = await client.responses.create({ model: 'demo', input: 'How many?', previous_response_id: first.id });
const other = await client.responses.create({ model: 'demo', input: 'How many cords?', previous_response_id: first.id });
console.log(`stored: ${[first, next, other].map((response) => response.status).join(', ')}`);

// Chat Completions: the header names the conversation, and only what is new is sent.
const headers = { 'X-Quipu-Context': 'knots of openai.mjs' };
for (const content of ['What is a quipu?', 'And who read them?']) {
  const stream = client.chat.completions.stream({ model: 'demo', messages: [{ role: 'user', content }] }, { headers });
  console.log(`${content} ${(await stream.finalContent()).length} characters`);
}
