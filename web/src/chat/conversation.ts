// One open conversation: its messages by position (only those that were needed), the running turn, and
// what can be done with it. Everything shown comes from the server; events say when to ask again.

import { batch, computed, signal } from '@preact/signals';
import { act, ask, authHeaders, inPath, lost, patch, post, Problem, remove, sentence, tryAsk } from '../lib/api';
import { afterPaint } from '../lib/lazy';
import { Live, type Status } from '../lib/live';
import { type Answer, isBusy, newTurn, reduce, type Stale, type Turn } from '../lib/reduce';
import type { Branch, Compaction, Context, Event, Message, Outline, Queued, State, ToolCall, Window } from '../lib/types';

const pageSize = 40;
const atOpening = 24;
const landmarks = 120; // of the outline; the rest of a long conversation comes as sums

export interface Part {
  type: 'text' | 'image';
  text?: string;
  url?: string;
}

interface Finished {
  answer: Answer;
  id: string;
}

export type Row =
  | { kind: 'message'; key: string; index: number; message: Message }
  | { kind: 'missing'; key: string; index: number }
  | { kind: 'sending'; key: string; parts: Part[] }
  | { kind: 'answer'; key: string; answer: Answer }
  | { kind: 'tail'; key: string };

export class Conversation {
  readonly context = signal<Context | null>(null);
  readonly turn = signal<Turn>(newTurn(0, 'Idle', undefined, 'main'));
  readonly total = signal(0);
  readonly version = signal(0); // grows when messages were loaded
  readonly pending = signal<ToolCall[]>([]);
  readonly window = signal<Window | undefined>(undefined);
  readonly outline = signal<Outline | null>(null);
  readonly compactions = signal<Compaction[]>([]);
  readonly pins = signal<ReadonlySet<string>>(new Set());
  readonly canCompact = signal(false);
  readonly queue = signal<Queued[] | null>(null); // null: the server has no queue
  readonly status = signal<Status>('open');
  readonly failures = signal(0);
  readonly problem = signal<string | null>(null);
  readonly gone = signal(false);
  readonly opened = signal(false);
  readonly branch = computed(() => this.turn.value.branch);
  // Parts of the turn on their own: what shows only these is not drawn anew with each piece of an answer.
  readonly state = computed(() => this.turn.value.state);
  readonly tools = computed(() => this.turn.value.tools);
  readonly busy = computed(() => isBusy(this.turn.value.state));
  // `seq`: when the server has it, the newest event of then.
  readonly sending = signal<{ key: string; parts: Part[]; seq?: number } | null>(null);
  readonly finished = signal<Finished[]>([]);

  private readonly messages = new Map<number, Message>();
  private readonly keys = new Map<string, string>(); // message id -> key of the row it was before
  private readonly loading = new Set<number>();
  private live: Live | null = null;
  private now: Turn = this.turn.value;
  private flushing = false;
  private refreshing: Promise<void> | null = null;
  private again = false;
  private outlineTimer = 0;
  private etag = '';
  private closed = false;
  private opening: Promise<void> | null = null;

  constructor(readonly id: string) {}

  private get at(): string {
    return `/contexts/${this.id}`;
  }

  // ---- opening ----

  // May be called again after a failure.
  open(): Promise<void> {
    return (this.opening ??= this.read().finally(() => (this.opening = null)));
  }

  private async read(): Promise<void> {
    if (this.opened.value) return;
    this.problem.value = null;
    try {
      const [context, state] = await Promise.all([ask<Context>(`${this.at}?messages=none`), ask<State>(`${this.at}/state?last=${atOpening}`)]);
      if (this.closed) return;
      batch(() => {
        this.context.value = context;
        this.restart(state);
        this.opened.value = true;
      });
      afterPaint(() => {
        if (this.closed) return;
        this.listen(state.last_event_id);
        void this.loadOutline();
        void this.loadQueue();
        void this.loadCompactions();
      });
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.gone.value = true;
      else this.problem.value = sentence(error);
    }
  }

  private listen(after: number): void {
    this.live = new Live({
      id: this.id,
      after,
      onEvent: (event) => this.hear(event),
      onStatus: (status, failures) => {
        batch(() => {
          this.status.value = status;
          this.failures.value = failures;
        });
        if (status === 'lost' && failures > 1) void lost();
      },
      onRefused: (status) => {
        if (status === 404) this.gone.value = true;
      },
      poll: () => this.poll(),
    });
  }

  close(): void {
    this.closed = true;
    this.live?.close();
    clearTimeout(this.outlineTimer);
  }

  private restart(state: State): void {
    this.messages.clear();
    this.now = newTurn(state.last_event_id, state.state, state.state_detail, state.branch);
    this.turn.value = this.now;
    this.finished.value = [];
    this.take(state);
  }

  // Takes what a state says about messages, calls and the window. The turn itself follows the events.
  private take(state: State): void {
    batch(() => {
      const first = state.total - state.messages.length;
      if (state.total < this.total.value) for (const index of [...this.messages.keys()]) if (index >= state.total) this.messages.delete(index);
      state.messages.forEach((message, n) => this.messages.set(first + n, message));
      const ids = new Set(state.messages.map((message) => message.id));
      if (this.finished.value.some((one) => ids.has(one.id))) this.finished.value = this.finished.value.filter((one) => !ids.has(one.id));
      const sent = this.sending.value;
      const isStored = (sent?.seq !== undefined && state.last_event_id >= sent.seq) || state.messages.some((message) => this.keys.get(message.id) === sent?.key);
      if (sent && isStored) this.sending.value = null;
      this.total.value = state.total;
      const previews = new Map((state.state_detail?.pending ?? []).map((call) => [call.id, call.preview]));
      this.pending.value = state.pending_tool_calls.map((call) => {
        const preview = call.preview ?? previews.get(call.id);
        return preview ? { ...call, preview } : call;
      });
      this.window.value = state.window;
      this.version.value++;
    });
  }

  // ---- events ----

  private hear(event: Event): void {
    const before = this.now.answer;
    const step = reduce(this.now, event);
    this.now = step.turn;
    if (step.stored?.role === 'assistant' && before) {
      // The answer stays on the screen as it is until the stored one has been read.
      this.keys.set(step.stored.id, before.key);
      const finished = { answer: { ...before, done: true }, id: step.stored.id };
      this.now = { ...this.now, answer: null };
      batch(() => {
        this.finished.value = [...this.finished.value, finished];
        this.turn.value = this.now;
      });
    }
    if (step.stored?.role === 'user' && this.sending.value && !this.keys.has(step.stored.id)) this.keys.set(step.stored.id, this.sending.value.key);
    this.follow(step.stale);
    this.flushSoon();
  }

  // Pieces come faster than the screen: what they made is shown once per frame. The nodes are made in a task
  // of their own after a frame, so that neither this nor the layout of the next frame takes long.
  private flushSoon(): void {
    if (this.flushing) return;
    this.flushing = true;
    const flush = () => {
      this.flushing = false;
      if (!this.closed) this.turn.value = this.now;
    };
    if (document.visibilityState === 'visible') requestAnimationFrame(() => setTimeout(flush));
    else setTimeout(flush, 100);
  }

  private follow(stale: Stale[]): void {
    if (stale.length === 0) return;
    if (stale.includes('all')) return void this.reload();
    if (stale.includes('branch')) return void this.reload();
    if (stale.includes('messages') || stale.includes('pending') || stale.includes('compaction')) void this.refresh();
    if (stale.includes('compaction')) void this.loadCompactions();
    if (stale.includes('queue') || stale.includes('messages')) void this.loadQueue();
    if (stale.includes('messages') || stale.includes('compaction')) this.loadOutlineSoon();
  }

  // Reads the newest messages; one request at a time, and once more if something happened meanwhile.
  async refresh(): Promise<void> {
    if (this.refreshing) {
      this.again = true;
      return this.refreshing;
    }
    this.refreshing = (async () => {
      try {
        do {
          this.again = false;
          const state = await ask<State>(`${this.at}/state?last=12`);
          if (this.closed) return;
          if (state.branch !== this.now.branch) return void (await this.reload());
          this.take(state);
        } while (this.again);
      } catch (error) {
        if (error instanceof Problem && error.status === 404) this.gone.value = true; // the stream reports lost connections
      } finally {
        this.refreshing = null; // in the same step as the last look at `again`, so that no call is lost between them
      }
    })();
    return this.refreshing;
  }

  async reload(): Promise<void> {
    try {
      const [context, state] = await Promise.all([ask<Context>(`${this.at}?messages=none`), ask<State>(`${this.at}/state?last=${atOpening}`)]);
      if (this.closed) return;
      batch(() => {
        this.context.value = context;
        const heard = this.now;
        this.restart(state);
        // Events that came while the state was read count on top of it.
        if (heard.seq > state.last_event_id) {
          this.now = { ...heard, branch: state.branch };
          this.turn.value = this.now;
        }
      });
      void this.loadOutline();
      void this.loadCompactions();
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.gone.value = true;
    }
  }

  private async poll(): Promise<void> {
    const response = await fetch(`/v1${this.at}/state?last=12`, { headers: { ...authHeaders(), ...(this.etag ? { 'if-none-match': this.etag } : {}) } });
    if (response.status !== 200) return;
    this.etag = response.headers.get('etag') ?? '';
    const state = (await response.json()) as State;
    if (state.last_event_id <= this.now.seq) return;
    if (state.branch !== this.now.branch) return this.reload();
    this.now = { ...newTurn(state.last_event_id, state.state, state.state_detail, state.branch) };
    batch(() => {
      this.turn.value = this.now;
      this.take(state);
    });
    this.loadOutlineSoon();
  }

  // ---- messages ----

  row(index: number): Row {
    const total = this.total.value;
    if (index < total) {
      const message = this.messages.get(index);
      return message ? { kind: 'message', key: this.keys.get(message.id) ?? message.id, index, message } : { kind: 'missing', key: `at-${index}`, index };
    }
    let rest = index - total;
    const sending = this.sending.value;
    if (sending) {
      if (rest === 0) return { kind: 'sending', ...sending };
      rest--;
    }
    const finished = this.finished.value;
    const done = finished[rest];
    if (done) return { kind: 'answer', key: done.answer.key, answer: done.answer };
    rest -= finished.length;
    const answer = this.turn.value.answer;
    if (answer && rest === 0) return { kind: 'answer', key: answer.key, answer };
    return { kind: 'tail', key: 'tail' };
  }

  readonly rowCount = computed(() => this.total.value + (this.sending.value ? 1 : 0) + this.finished.value.length + (this.turn.value.answer ? 1 : 0) + 1);

  message(index: number): Message | undefined {
    return this.messages.get(index);
  }

  loaded(): [number, Message][] {
    return [...this.messages].sort((a, b) => a[0] - b[0]);
  }

  // Loads the pages around these positions, unless they are there.
  ensure(first: number, last: number): void {
    const total = this.total.value;
    for (let page = Math.floor(Math.max(0, first) / pageSize); page * pageSize <= Math.min(last, total - 1); page++) {
      let complete = true;
      for (let index = page * pageSize; index < Math.min(total, (page + 1) * pageSize); index++) if (!this.messages.has(index)) complete = false;
      if (!complete && !this.loading.has(page)) void this.loadPage(page);
    }
  }

  private async loadPage(page: number): Promise<void> {
    this.loading.add(page);
    const branch = this.now.branch;
    try {
      const found = await ask<{ messages: Message[] }>(`${this.at}/messages?branch=${inPath(branch)}&offset=${page * pageSize}&limit=${pageSize}`);
      if (branch !== this.now.branch || this.closed) return;
      found.messages.forEach((message, n) => this.messages.set(page * pageSize + n, message));
      this.version.value++;
    } catch (error) {
      this.problem.value = sentence(error);
    } finally {
      this.loading.delete(page);
    }
  }

  // ---- outline, queue, compactions ----

  private loadOutlineSoon(): void {
    clearTimeout(this.outlineTimer);
    this.outlineTimer = window.setTimeout(() => void this.loadOutline(), 200);
  }

  async loadOutline(): Promise<void> {
    const outline = await tryAsk<Outline>(`${this.at}/outline?max=${landmarks}`).catch(() => undefined);
    if (this.closed) return;
    if (outline) this.outline.value = outline;
  }

  async loadQueue(): Promise<void> {
    const queue = await tryAsk<{ items: Queued[] }>(`${this.at}/queue`).catch(() => undefined);
    if (!this.closed) this.queue.value = queue ? queue.items : null;
  }

  async loadCompactions(): Promise<void> {
    const found = await tryAsk<{ active: string | null; compactions: Compaction[]; pins?: string[] }>(`${this.at}/compactions`).catch(() => undefined);
    if (this.closed) return;
    batch(() => {
      this.canCompact.value = found !== undefined;
      this.compactions.value = (found?.compactions ?? []).filter((one) => (one.kind ?? 'compact') === 'compact');
      this.pins.value = new Set(found?.pins);
    });
  }

  // ---- actions ----

  // Runs an action and shows its failure as a sentence; true if it went well.
  async attempt(work: () => Promise<unknown>): Promise<boolean> {
    this.problem.value = null;
    try {
      await work();
      if (this.status.value === 'polling') void this.poll();
      return true;
    } catch (error) {
      this.problem.value = sentence(error);
      return false;
    }
  }

  async send(parts: Part[]): Promise<boolean> {
    const text = parts.length === 1 && parts[0]?.type === 'text' ? (parts[0].text ?? '') : parts;
    if (this.busy.value || this.state.value === 'AwaitingToolApproval') {
      return this.attempt(async () => {
        await post(`${this.at}/queue`, { content: text }, { 'idempotency-key': crypto.randomUUID() });
        await this.loadQueue();
      });
    }
    const key = `send-${Date.now()}`;
    this.sending.value = { key, parts };
    const ok = await this.attempt(async () => {
      const { last_event_id: seq } = await act<State>(this.id, 'send_message', { content: text });
      if (this.sending.value?.key === key) this.sending.value = { key, parts, seq };
    });
    if (!ok) this.sending.value = null;
    else void this.refresh();
    return ok;
  }

  cancel = (): Promise<boolean> => this.attempt(() => act(this.id, 'cancel'));
  retry = (): Promise<boolean> => this.attempt(() => act(this.id, 'retry'));
  regenerate = (messageId: string): Promise<boolean> => this.attempt(() => act(this.id, 'regenerate', { message_id: messageId }));
  edit = (messageId: string, content: string): Promise<boolean> => this.attempt(() => act(this.id, 'edit_message', { message_id: messageId, content }));
  switchBranch = (branch: string): Promise<boolean> => this.attempt(async () => {
    await act(this.id, 'switch_branch', { branch });
    await this.reload();
  });
  action = (name: string, body: unknown = {}): Promise<boolean> => this.attempt(async () => {
    await act(this.id, name, body);
    await Promise.all([this.refresh(), this.loadCompactions(), this.loadOutline()]);
  });

  decide = (body: { approved?: string[]; denied?: string[]; reason?: string; always?: boolean; arguments?: Record<string, unknown> }): Promise<boolean> =>
    this.attempt(() => act(this.id, 'approve_tools', body));

  rename = (title: string): Promise<boolean> => this.attempt(async () => {
    this.context.value = await patch<Context>(this.at, { title });
  });
  configure = (config: Record<string, unknown>): Promise<boolean> => this.attempt(async () => {
    this.context.value = await patch<Context>(this.at, { config });
    void this.refresh();
  });
  changeBranch = (name: string, change: Record<string, unknown>): Promise<boolean> => this.attempt(async () => {
    await patch(`${this.at}/branches/${inPath(name)}`, change);
    await this.reload();
  });
  newBranch = (name: string, at: string): Promise<boolean> => this.attempt(async () => {
    await post(`${this.at}/branches`, { name, at });
    await this.switchBranch(name);
  });
  deleteBranch = (name: string): Promise<boolean> => this.attempt(async () => {
    await remove(`${this.at}/branches/${inPath(name)}`);
    await this.reload();
  });

  queueChange = (id: string, text: string): Promise<boolean> => this.attempt(async () => {
    await patch(`${this.at}/queue/${inPath(id)}`, { text });
    await this.loadQueue();
  });
  queueSend = (id: string): Promise<boolean> => this.attempt(async () => {
    await post(`${this.at}/queue/${inPath(id)}/send`);
    await this.loadQueue();
  });
  queueDrop = (id: string): Promise<boolean> => this.attempt(async () => {
    await remove(`${this.at}/queue/${inPath(id)}`);
    await this.loadQueue();
  });

  branchNamed(name: string): Branch | undefined {
    return this.context.value?.branches.find((branch) => branch.name === name);
  }
}

// The conversation of the first address is opened before the page is drawn for the first time. Null: a view
// has taken one already, because the scripts came late; a second one would never be closed.
let prepared: Conversation | null | undefined;

export async function prepareConversation(id: string): Promise<void> {
  if (prepared === null) return;
  prepared = new Conversation(id);
  await prepared.open();
}

export function takeConversation(id: string): Conversation {
  const ready = prepared;
  prepared = null;
  if (ready?.id === id) return ready;
  ready?.close();
  return new Conversation(id);
}
