// The shapes of the HTTP API, by short names. Those of the contract come from api/openapi.yaml.

import type { components } from '../gen/api';

type Schemas = components['schemas'];
export type ContextRow = Schemas['ContextRow'];
export type Context = Schemas['Context'];
export type Branch = Schemas['Branch'];
export type Message = Schemas['Message'] & { pinned?: boolean };
export type ToolCall = Schemas['ToolCall'] & { preview?: Preview };
export type ToolResult = Schemas['ToolResult'];
export type StateName = Schemas['StateName'];
export type Model = Schemas['Model'];
export type Prompt = Schemas['Prompt'];
export type Tool = Schemas['Tool'];
export type Hit = Schemas['Hit'];
export type Session = Schemas['Session'];
export type Rule = Schemas['Rule'];
export type UsageReport = Schemas['UsageReport'];
export type UsageDay = Schemas['UsageDay'];
export type SizeList = Schemas['SizeList'];
export type SizeRow = Schemas['SizeRow'];
export type TrashRow = Schemas['TrashRow'];

export interface State extends Omit<Schemas['State'], 'messages' | 'pending_tool_calls' | 'state_detail' | 'window'> {
  messages: Message[];
  pending_tool_calls: ToolCall[];
  state_detail?: Detail;
  window?: Window;
}

export interface Detail {
  branch?: string;
  rounds?: number;
  calls?: number;
  tokens?: number;
  cost_usd?: number;
  answer_seq?: number;
  pending?: { id: string; tool_name: string; preview?: Preview }[];
  error?: { kind?: string; code?: string; message?: string; status?: number };
  retry_at?: string;
  attempt?: number;
}

// What a tool says that it will do, computed against the files as they are.
export type Preview =
  | { kind: 'diff'; path: string; diff: string; base?: string; cut?: boolean; binary?: boolean }
  | { kind: 'command'; command: string | string[]; directory?: string }
  | { kind: 'arguments'; error?: string };

// What takes the room of the model's window.
export interface Window {
  used: number;
  window: number;
  threshold: number;
  reserve: number;
  origins?: Record<string, string>;
  parts?: Record<string, number>;
  mode?: string;
  compaction?: { id: string; covered: number; kept: number; last: string; tokens_before: number; tokens_after: number; created_at: string } | null;
  breaker?: boolean;
}

export interface Compaction {
  id: string;
  after?: string;
  covered: number;
  kept: number;
  created_at: string;
  tokens_before?: number;
  tokens_after?: number;
  model?: string;
  kind?: 'compact' | 'undo' | 'redo';
  narrative?: string;
  ledger?: string;
}

export interface OutlineItem {
  at: number;
  id: string;
  role: string;
  time?: string;
  tokens?: number;
  kind?: string;
  pinned?: boolean;
  error?: boolean;
  alternatives?: number;
}

export interface OutlineBranch {
  name: string;
  head?: string | null;
  fork_at: number;
  first?: string | null;
  messages?: number;
  created_at?: string;
}

export interface Outline {
  branch: string;
  count: number;
  items: OutlineItem[];
  buckets?: { from: number; to: number; count: number; prompts: number; tokens: number }[];
  branches: OutlineBranch[];
  compactions?: { id: string; at?: number; after?: string; covered: number; kept: number }[];
}

export interface FindHit {
  id: string;
  at: number;
  branch: string;
  role: string;
  snippet: { text: string; match: boolean }[] | string;
}

export interface Queued {
  id: string;
  text: string;
  images: number;
  created_at: string;
  error: string | null; // why it could not be sent
}

export interface Job {
  id: string;
  kind: string;
  state: 'queued' | 'running' | 'done' | 'failed' | 'cancelled';
  done: number;
  total: number;
  report?: Record<string, unknown> | null;
  error?: string | { message: string } | null;
}

// One event of a context. The fields depend on the type; docs/turns.md has the table.
export interface Event {
  seq: number;
  type: string;
  time?: string;
  state?: StateName;
  detail?: Detail;
  id?: string;
  role?: string;
  branch?: string;
  request_id?: string;
  new?: boolean;
  provider?: string;
  model?: string;
  block?: number;
  text?: string;
  name?: string;
  is_error?: boolean;
  ms?: number;
  input?: number;
  output?: number;
  cache_read?: number;
  stop?: number;
  reason?: string;
  items?: number;
  covered?: number;
  kept?: number;
  error?: string | { message?: string };
  action?: string;
  message_id?: string;
}
