// Server-sent events over fetch. EventSource cannot send a key, and it hides the reason of a failure.

import type { Event } from './types';

// Splits a byte stream into events, whatever the sizes of its pieces. Handles LF, CRLF and CR, comments,
// fields without a value and several data lines.
export class EventParser {
  private rest = '';
  private data: string[] = [];
  private type = '';
  lastId = '';
  retry = 0;

  constructor(private readonly onEvent: (type: string, data: string, id: string) => void) {}

  push(text: string): void {
    let from = 0;
    const all = this.rest + text;
    for (;;) {
      const end = lineEnd(all, from);
      if (end < 0) break;
      // A CR at the very end may be the first half of a CRLF: wait for the next piece.
      if (all[end] === '\r' && end + 1 === all.length) break;
      this.line(all.slice(from, end));
      from = end + (all[end] === '\r' && all[end + 1] === '\n' ? 2 : 1);
    }
    this.rest = all.slice(from);
  }

  private line(line: string): void {
    if (line === '') return this.dispatch();
    if (line.startsWith(':')) return;
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.type = value;
    else if (field === 'id' && !value.includes('\0')) this.lastId = value;
    else if (field === 'retry' && /^\d+$/.test(value)) this.retry = Number(value);
  }

  private dispatch(): void {
    if (this.data.length > 0) this.onEvent(this.type || 'message', this.data.join('\n'), this.lastId);
    this.data = [];
    this.type = '';
  }
}

function lineEnd(text: string, from: number): number {
  const lf = text.indexOf('\n', from);
  const cr = text.indexOf('\r', from);
  if (lf < 0) return cr;
  return cr < 0 ? lf : Math.min(lf, cr);
}

export interface FollowOptions {
  url: string;
  after: number;
  headers: () => Record<string, string>;
  onEvent: (event: Event) => void;
  // 'open': events arrive; 'lost': trying again, after this many failures.
  onStatus: (status: 'open' | 'lost', failures: number) => void;
  // An answer that trying again does not help (401, 404): the stream ends.
  onRefused: (status: number) => void;
  signal: AbortSignal;
  fetch?: typeof fetch;
  // Resolves after the time, or earlier when the browser is online again or the page visible.
  pause?: (ms: number, signal: AbortSignal) => Promise<void>;
  // A stream without a comment for so long is dead: the server sends one every 15 s.
  silence?: number;
}

// Follows the events of a context until the signal ends it. Reconnects with the number of the last
// event, so that none is missed and none comes twice.
export async function follow(options: FollowOptions): Promise<void> {
  const { signal, silence = 40_000 } = options;
  const get = options.fetch ?? fetch;
  const pause = options.pause ?? wait;
  let last = options.after;
  let failures = 0;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener('abort', stop, { once: true });
    // The network is back: the old connection may be dead without a sign.
    globalThis.addEventListener?.('online', stop);
    let timer = setTimeout(stop, silence);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(stop, silence);
    };
    let retry = 0;
    try {
      const response = await get(`${options.url}?after=${last}`, {
        headers: { ...options.headers(), accept: 'text/event-stream' },
        cache: 'no-store',
        signal: attempt.signal,
      });
      if (!response.ok || !response.body) {
        if (response.status === 401 || response.status === 403 || response.status === 404) {
          options.onRefused(response.status);
          return;
        }
        throw new Error(`status ${response.status}`);
      }
      failures = 0;
      options.onStatus('open', 0);
      const parser = new EventParser((_type, data) => {
        const event = JSON.parse(data) as Event;
        if (event.type !== 'gap' && event.seq <= last) return;
        last = Math.max(last, event.seq);
        options.onEvent(event);
      });
      const decoder = new TextDecoder();
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        alive();
        parser.push(decoder.decode(value, { stream: true }));
      }
      retry = parser.retry;
    } catch {
      // Lost, refused for now, or silent: the next attempt follows.
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      globalThis.removeEventListener?.('online', stop);
    }
    if (signal.aborted) return;
    failures++;
    options.onStatus('lost', failures);
    await pause(Math.min(10_000, retry > 0 && failures === 1 ? 250 : 250 * 2 ** Math.min(failures - 1, 6)), signal);
  }
}

export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener('online', done);
      document.removeEventListener('visibilitychange', seen);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const seen = () => {
      if (document.visibilityState === 'visible') done();
    };
    const timer = setTimeout(done, ms);
    addEventListener('online', done);
    document.addEventListener('visibilitychange', seen);
    signal.addEventListener('abort', done);
  });
}
