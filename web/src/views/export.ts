// A conversation as a file: a branch as Markdown, or everything with all branches as JSON.

import { ask, askResponse, inPath } from '../lib/api';
import type { Message } from '../lib/types';
import { roleWord } from '../lib/words';

async function* messagesOf(id: string, branch: string): AsyncGenerator<Message> {
  let cursor: string | null = '';
  while (cursor !== null) {
    const page: { messages: Message[]; next_cursor: string | null } = await ask(`/contexts/${id}/messages?branch=${inPath(branch)}&limit=200${cursor ? `&cursor=${inPath(cursor)}` : ''}`);
    yield* page.messages;
    cursor = page.next_cursor;
  }
}

const fenced = (text: string): string => {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map((run) => run[0].length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
};

function asMarkdown(message: Message): string {
  const parts = [`## ${roleWord(message.role)}`, `*${message.created_at}*`];
  if (message.text) parts.push(message.text);
  for (const call of message.tool_calls) parts.push(`**${call.tool_name}**`, fenced(JSON.stringify(call.arguments, null, 2)));
  if (message.tool_result) parts.push(fenced(typeof message.tool_result.result === 'string' ? message.tool_result.result : JSON.stringify(message.tool_result.result, null, 2)));
  if (message.images.length > 0) parts.push(`(${message.images.length} images)`);
  return parts.join('\n\n');
}

export async function branchAsMarkdown(id: string, branch: string, title: string): Promise<string> {
  const parts = [`# ${title || 'Untitled'}`];
  for await (const message of messagesOf(id, branch)) parts.push(asMarkdown(message));
  return `${parts.join('\n\n')}\n`;
}

export async function downloadConversation(id: string, branch: string, title: string, form: 'md' | 'json'): Promise<void> {
  const content = form === 'md' ? await branchAsMarkdown(id, branch, title) : await (await askResponse(`/contexts/${id}?messages=all`)).text();
  const url = URL.createObjectURL(new Blob([content], { type: form === 'md' ? 'text/markdown' : 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `${(title || 'conversation').replace(/[^\p{L}\p{N} _-]/gu, '').trim().slice(0, 60) || 'conversation'}.${form}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
