// What the page knows about a turn from its events alone: a pure function, event by event. It never
// waits and never asks the server; it says in `stale` what has to be read again.

import type { Detail, Event, StateName } from './types';

export interface Block {
  kind: 'text' | 'thinking' | 'call' | 'other';
  text: string;
  id?: string;
  name?: string;
}

// The answer that is being streamed.
export interface Answer {
  key: string; // stays the key of the row when the answer is stored
  model: string;
  blocks: Block[];
  began: string;
  output: number;
  done: boolean;
}

export interface Running {
  id: string;
  name: string;
  ended?: { isError: boolean; ms: number };
}

export interface Turn {
  seq: number;
  state: StateName;
  detail: Detail;
  branch: string;
  answer: Answer | null;
  tools: Running[];
  compacting: boolean;
}

// What an event makes out of date: the messages behind the known ones, the active branch, the window
// and markers of a compaction, the queue, or everything.
export type Stale = 'messages' | 'branch' | 'compaction' | 'queue' | 'pending' | 'all';

export interface Step {
  turn: Turn;
  stale: Stale[];
  stored?: { id: string; role: string; branch?: string };
}

export const resting: readonly string[] = ['Idle', 'Failed', 'AwaitingToolApproval'];
export const isBusy = (state: string): boolean => !resting.includes(state);

export function newTurn(seq: number, state: StateName, detail: Detail | undefined, branch: string): Turn {
  return { seq, state, detail: detail ?? {}, branch, answer: null, tools: [], compacting: state === 'Compacting' };
}

function withBlock(answer: Answer, event: Event, kind: Block['kind'], change: (block: Block) => Block): Answer {
  const at = event.block ?? 0;
  const blocks = answer.blocks.slice();
  while (blocks.length <= at) blocks.push({ kind: 'other', text: '' });
  const old = blocks[at] as Block;
  blocks[at] = change(old.kind === 'other' && old.text === '' ? { ...old, kind } : old);
  return { ...answer, blocks };
}

export function reduce(turn: Turn, event: Event): Step {
  if (event.type !== 'gap' && event.seq <= turn.seq) return { turn, stale: [] };
  const next: Turn = { ...turn, seq: Math.max(turn.seq, event.seq) };
  const step: Step = { turn: next, stale: [] };
  // Pieces that arrive without the beginning of their answer still belong to one.
  const answer = (): Answer =>
    turn.answer ?? { key: `live-${event.seq}`, model: '', blocks: [], began: event.time ?? '', output: 0, done: false };
  switch (event.type) {
    case 'state': {
      next.state = event.state ?? turn.state;
      next.detail = event.detail ?? {};
      next.compacting = next.state === 'Compacting';
      if (next.state === 'AwaitingToolApproval') step.stale.push('pending');
      if (next.state === 'Idle' || next.state === 'Failed') {
        next.tools = [];
        step.stale.push('messages', 'pending');
      }
      // The provider is asked again: what it had begun to say counts no more.
      if (next.state === 'TransientFailure') next.answer = null;
      break;
    }
    case 'message':
      step.stored = { id: event.id ?? '', role: event.role ?? '' };
      if (event.branch !== undefined) step.stored.branch = event.branch;
      step.stale.push('messages');
      if (event.role === 'assistant' && turn.answer) next.answer = { ...turn.answer, done: true };
      break;
    case 'branch':
      next.branch = event.branch ?? turn.branch;
      next.answer = null;
      step.stale.push('branch');
      break;
    case 'answer':
      next.answer = { key: `live-${event.seq}`, model: event.model ?? '', blocks: [], began: event.time ?? '', output: 0, done: false };
      break;
    case 'text':
    case 'thinking':
      next.answer = withBlock(answer(), event, event.type, (block) => ({ ...block, text: block.text + (event.text ?? '') }));
      break;
    case 'call':
      next.answer = withBlock(answer(), event, 'call', (block) => ({ ...block, kind: 'call', id: event.id ?? '', name: event.name ?? '', text: '' }));
      break;
    case 'arguments':
      next.answer = withBlock(answer(), event, 'call', (block) => ({ ...block, text: block.text + (event.text ?? '') }));
      break;
    case 'call_end':
      next.answer = withBlock(answer(), event, 'call', (block) => ({ ...block, text: event.text ?? block.text }));
      break;
    case 'usage':
      if (turn.answer) next.answer = { ...turn.answer, output: event.output ?? turn.answer.output };
      break;
    case 'tool_start':
      next.tools = [...turn.tools, { id: event.id ?? '', name: event.name ?? '' }];
      break;
    case 'tool_end':
      next.tools = turn.tools.map((tool) =>
        tool.id === event.id ? { ...tool, ended: { isError: event.is_error ?? false, ms: event.ms ?? 0 } } : tool,
      );
      break;
    case 'compact_started':
      next.compacting = true;
      break;
    case 'compact':
    case 'compact_failed':
    case 'compaction':
      next.compacting = false;
      step.stale.push('compaction');
      break;
    case 'queue':
      step.stale.push('queue');
      break;
    case 'gap':
      next.answer = null;
      step.stale.push('all');
      break;
  }
  return step;
}

export const textOf = (answer: Answer): string => answer.blocks.filter((block) => block.kind === 'text').map((block) => block.text).join('\n');
export const thinkingOf = (answer: Answer): string => answer.blocks.filter((block) => block.kind === 'thinking').map((block) => block.text).join('\n');
