// The AI SDK with quipu alone as its backend: the Chat that useChat wraps, without a page.
//
//   npm install ai @ai-sdk/react react
//   quipu serve &
//   node ai_sdk.mjs http://127.0.0.1:7878
import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';

const api = `${process.argv[2]}/ai/chat`;
const id = 'knots of ai_sdk.mjs';
const chat = new Chat({ id, transport: new DefaultChatTransport({ api }) });
await chat.sendMessage({ text: 'What is a quipu?' });
await chat.regenerate(); // another answer: a branch
const { messages } = await (await fetch(`${api}/${encodeURIComponent(id)}`)).json();
console.log(`stored: ${messages.map((message) => message.role).join(', ')}`);
