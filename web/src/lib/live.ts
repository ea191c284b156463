// One event stream for all tabs. A browser opens six connections to an origin; ten tabs with a stream
// each would stall every other request. So:
//
// - The streams of a context are one: the tab that holds the Web Lock "quipu:stream:ID" follows the
//   events and passes them on by BroadcastChannel; when it closes, the next tab gets the lock.
// - At most `slots` contexts are streamed at once over all tabs; the others are polled (GET state
//   answers 304 without a body), and the tab with the lock tries for a slot again. The other tabs of such a
//   context poll when it does.
// - A tab that joins asks the holder for the events since its own number.

import { authHeaders } from './api';
import { follow } from './sse';
import type { Event } from './types';

const slots = 3;
const pollEvery = 1500;

export type Status = 'open' | 'shared' | 'polling' | 'lost';

interface Options {
  id: string;
  after: number;
  onEvent: (event: Event) => void;
  onStatus: (status: Status, failures: number) => void;
  onRefused: (status: number) => void;
  // Reads the state again, for a tab without a stream.
  poll: () => Promise<void>;
}

type Note =
  | { kind: 'event'; event: Event }
  | { kind: 'want'; after: number }
  | { kind: 'have'; floor: number; events: Event[] }
  | { kind: 'status'; status: Status; failures: number };

export class Live {
  private readonly stop = new AbortController();
  private readonly channel: BroadcastChannel;
  private readonly kept: Event[] = []; // since the last rest, for tabs that join
  private floor: number;
  private last: number;
  private holds = false;
  private isShared = false;

  constructor(private readonly options: Options) {
    this.last = this.floor = options.after;
    this.channel = new BroadcastChannel(`quipu:events:${options.id}`);
    this.channel.onmessage = (message: MessageEvent<Note>) => this.hear(message.data);
    void this.run();
    this.tell({ kind: 'want', after: this.last });
  }

  close(): void {
    this.stop.abort();
    this.channel.close();
  }

  private tell(note: Note): void {
    if (!this.stop.signal.aborted) this.channel.postMessage(note);
  }

  private hear(note: Note): void {
    if (note.kind === 'want') {
      if (this.holds) this.tell({ kind: 'have', floor: this.floor, events: this.kept.filter((event) => event.seq > note.after) });
    } else if (!this.holds) {
      if (note.kind === 'event') this.take(note.event);
      else if (note.kind === 'have') for (const event of note.events) this.take(event);
      else {
        this.options.onStatus(note.status === 'open' ? 'shared' : note.status, note.failures);
        if (note.status === 'polling') void this.options.poll().catch(() => undefined);
      }
      if (!this.isShared && note.kind !== 'status') {
        this.isShared = true;
        this.options.onStatus('shared', 0);
      }
    }
  }

  private take(event: Event): void {
    if (event.type !== 'gap' && event.seq <= this.last) return;
    this.last = Math.max(this.last, event.seq);
    this.kept.push(event);
    if (event.type === 'state' && (event.state === 'Idle' || event.state === 'Failed')) {
      this.kept.length = 0;
      this.floor = event.seq;
    }
    this.options.onEvent(event);
  }

  private async run(): Promise<void> {
    const { signal } = this.stop;
    const locks = navigator.locks as LockManager | undefined;
    if (!locks) return this.stream(); // an insecure origin: each tab has a stream of its own
    try {
      await locks.request(`quipu:stream:${this.options.id}`, { signal }, () => this.holdSlot());
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  private async holdSlot(): Promise<void> {
    const { signal } = this.stop;
    while (!signal.aborted) {
      for (let slot = 0; slot < slots && !signal.aborted; slot++) {
        await navigator.locks.request(`quipu:slot:${slot}`, { ifAvailable: true }, async (lock) => {
          if (lock && !signal.aborted) await this.stream();
        });
      }
      if (signal.aborted) return;
      this.options.onStatus('polling', 0);
      this.tell({ kind: 'status', status: 'polling', failures: 0 });
      await this.options.poll().catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, pollEvery));
    }
  }

  private async stream(): Promise<void> {
    this.holds = true;
    await follow({
      url: `/v1/contexts/${this.options.id}/events`,
      after: this.last,
      headers: authHeaders,
      signal: this.stop.signal,
      onEvent: (event) => {
        this.tell({ kind: 'event', event });
        this.take(event);
      },
      onStatus: (status, failures) => {
        this.options.onStatus(status, failures);
        this.tell({ kind: 'status', status, failures });
      },
      onRefused: this.options.onRefused,
    });
    this.holds = false;
    // A refused stream keeps its lock until the tab leaves: another tab would be refused too.
    if (!this.stop.signal.aborted) await new Promise<void>((resolve) => this.stop.signal.addEventListener('abort', () => resolve()));
  }
}
