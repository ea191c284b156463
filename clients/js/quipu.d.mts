// Types of quipu.mjs. What the server answers has the types of the contract (contract.d.ts).
import type { components, paths } from './contract.js';

type Schemas = components['schemas'];
type Body<Path extends keyof paths, Method extends keyof paths[Path]> = paths[Path][Method] extends { requestBody?: { content: { 'application/json': infer T } } } ? T : never;
type Reply<Path extends keyof paths, Method extends keyof paths[Path], Status extends number = 200> = paths[Path][Method] extends { responses: infer R }
  ? Status extends keyof R ? (R[Status] extends { content: { 'application/json': infer T } } ? T : never) : never
  : never;

export type Event = Schemas['Event'];
export type Message = Reply<'/v1/contexts/{id}/messages', 'get'>['messages'][number];
export type State = Reply<'/v1/contexts/{id}/state', 'get'>;
export interface WaitingCall { id: string; tool_name: string; kind?: string; arguments?: Record<string, unknown> }
export type Answer = State & { readonly text: string; readonly calls: WaitingCall[] };
export interface Tool { name: string; description?: string; parameters?: Record<string, unknown> }
export type Content = Body<'/v1/contexts/{id}/actions/send_message', 'post'>['content'];
export interface SendOptions { tools?: Tool[]; branch?: string; key?: string; signal?: AbortSignal }

export class QuipuError extends Error {
  readonly status: number;
  readonly code: string;
  readonly state?: string;
}

export class Quipu {
  constructor(url?: string, options?: { key?: string; fetch?: typeof fetch });
  open(method: string, path: string, options?: { body?: unknown; query?: Record<string, unknown>; headers?: Record<string, string>; signal?: AbortSignal }): Promise<Response>;
  request(method: string, path: string, options?: { body?: unknown; query?: Record<string, unknown>; headers?: Record<string, string>; signal?: AbortSignal }): Promise<any>;
  create(fields?: Body<'/v1/contexts', 'post'>): Promise<Context>;
  context(id: string): Context;
  contexts(options?: { limit?: number }): AsyncGenerator<Reply<'/v1/contexts', 'get'>['contexts'][number]>;
  search(q: string, options?: { limit?: number }): Promise<Reply<'/v1/search', 'get'>>;
  models(): Promise<Reply<'/v1/models', 'get'>['models']>;
}

export class Context {
  constructor(client: Quipu, id: string);
  readonly id: string;
  info(): Promise<Reply<'/v1/contexts/{id}', 'get'>>;
  state(options?: { last?: number }): Promise<Answer>;
  update(fields: Body<'/v1/contexts/{id}', 'patch'>): Promise<Reply<'/v1/contexts/{id}', 'patch'>>;
  delete(): Promise<void>;
  messages(options?: { branch?: string; limit?: number; order?: 'oldest' | 'newest' }): AsyncGenerator<Message>;
  append(message: object | object[], options?: { branch?: string }): Promise<any>;
  branches(): Promise<Reply<'/v1/contexts/{id}/branches', 'get'>['branches']>;
  fork(name: string, options?: { at?: string; from?: string }): Promise<any>;
  act(action: string, body?: object, options?: { query?: Record<string, unknown>; headers?: Record<string, string>; signal?: AbortSignal }): Promise<Answer>;
  send(content: Content, options?: SendOptions): Promise<Answer>;
  stream(content: Content, options?: SendOptions): AsyncGenerator<Event>;
  events(options?: { after?: number; signal?: AbortSignal }): AsyncGenerator<Event>;
  approve(approved?: string[], options?: { denied?: string[]; reason?: string; always?: boolean }): Promise<Answer>;
  submit(results: Record<string, unknown>): Promise<Answer>;
  run(content: Content, functions: Record<string, (args: any) => unknown>, options?: SendOptions): Promise<Answer>;
  cancel(): Promise<Answer>;
  retry(): Promise<Answer>;
  regenerate(messageId?: string): Promise<Answer>;
  edit(messageId: string, content: Content): Promise<Answer>;
  switch(branch: string): Promise<Answer>;
}
