// Requests to the server. Every failure becomes a Problem: a sentence for people and what helps.

import { signal } from '@preact/signals';
import { wait } from './sse';

const keyName = 'quipu.key';

// The key is kept for the session; in localStorage only if the user asked for it, otherwise an empty one there
// says that there may be one in the session. It is sent as a header and never part of an address.
function storedKey(): string {
  const kept = localStorage.getItem(keyName);
  return (kept === '' ? sessionStorage.getItem(keyName) : kept) ?? '';
}

let key = storedKey();
export const needsKey = signal(false);
export const online = signal(true); // whether the server answered last time

// After a lost connection: asks until the server answers again.
const askAgain = 2000;
let isAsking = false;
export async function lost(): Promise<void> {
  online.value = false;
  if (isAsking) return;
  isAsking = true;
  while (!(await reach())) await wait(askAgain, new AbortController().signal);
  isAsking = false;
}

export async function reach(): Promise<boolean> {
  try {
    await fetch('/healthz', { cache: 'no-store' });
    online.value = true;
  } catch {
    online.value = false;
  }
  return online.value;
}
addEventListener('offline', () => void reach().then((is) => (is ? undefined : lost())));

export function setKey(value: string, remember: boolean): void {
  key = value;
  sessionStorage.removeItem(keyName);
  localStorage.removeItem(keyName);
  if (!value) return;
  localStorage.setItem(keyName, remember ? value : '');
  if (!remember) sessionStorage.setItem(keyName, value);
}

export const hasKey = (): boolean => key !== '';

export const authHeaders = (): Record<string, string> => (key ? { authorization: `Bearer ${key}` } : {});

export class Problem extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly state?: string,
  ) {
    super(message);
  }

  // Neither wrong nor refused: the server could not be reached or is busy.
  get passes(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

export const unreachable = 'The server cannot be reached. Nothing is lost: your text stays here.';

export interface Ask {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  raw?: BodyInit;
}

declare global {
  interface Window {
    quipuEarly?: Map<string, Promise<Response>>;
  }
}

// The answer that early.ts has asked for: each is used once.
function takeEarly(path: string, ask: Ask): Promise<Response> | undefined {
  const early = window.quipuEarly?.get(path);
  if (!early || ask.method || ask.headers || ask.signal) return undefined;
  window.quipuEarly?.delete(path);
  return early;
}

export async function askResponse(path: string, ask: Ask = {}): Promise<Response> {
  const headers: Record<string, string> = { ...authHeaders(), ...ask.headers };
  const init: RequestInit = { method: ask.method ?? 'GET', headers };
  if (ask.body !== undefined) {
    headers['content-type'] = 'application/json';
    init.body = JSON.stringify(ask.body);
  } else if (ask.raw !== undefined) init.body = ask.raw;
  if (ask.signal) init.signal = ask.signal;
  let response: Response;
  try {
    response = await (takeEarly(path, ask) ?? fetch(`/v1${path}`, init));
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    void lost();
    throw new Problem(unreachable, 0, 'OFFLINE');
  }
  online.value = true;
  if (response.ok || response.status === 304) return response;
  const problem = await readProblem(response);
  if (response.status === 401) needsKey.value = true;
  throw problem;
}

async function readProblem(response: Response): Promise<Problem> {
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string; state?: string } };
    const sentence = error.message.charAt(0).toUpperCase() + error.message.slice(1);
    return new Problem(/[.!?]$/.test(sentence) ? sentence : `${sentence}.`, response.status, error.code, error.state);
  } catch {
    return new Problem(`The server answered with status ${response.status}.`, response.status, 'UNKNOWN');
  }
}

export async function ask<T>(path: string, options: Ask = {}): Promise<T> {
  const response = await askResponse(path, options);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

// The same for a route that an older server may not have: undefined then, and not asked for again.
const missing = new Set<string>();
const routeOf = (path: string): string => path.replace(/\?.*/, '').replace(/[0-9a-f]{8}-[0-9a-f-]{27}/gi, 'ID');

export async function tryAsk<T>(path: string, options: Ask = {}): Promise<T | undefined> {
  const route = routeOf(path);
  if (missing.has(route)) return undefined;
  try {
    return await ask<T>(path, options);
  } catch (error) {
    if (!(error instanceof Problem) || (error.status !== 404 && error.status !== 405 && error.status !== 501)) throw error;
    if (/^(no such path|nothing at|not found)/i.test(error.message) || error.status !== 404) missing.add(route);
    return undefined;
  }
}

export const post = <T>(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<T> =>
  ask<T>(path, { method: 'POST', body, headers });
export const patch = <T>(path: string, body: unknown): Promise<T> => ask<T>(path, { method: 'PATCH', body });
export const remove = (path: string): Promise<void> => ask<void>(path, { method: 'DELETE' });
export const inPath = encodeURIComponent;

// An action of a turn: durable when this returns; repeated safely after a lost answer.
export function act<T>(contextId: string, action: string, body: unknown = {}): Promise<T> {
  return post<T>(`/contexts/${contextId}/actions/${action}?last=1`, body, {
    prefer: 'respond-async',
    'idempotency-key': crypto.randomUUID(),
  });
}

export const sentence = (error: unknown): string => (error instanceof Error ? error.message : String(error));
