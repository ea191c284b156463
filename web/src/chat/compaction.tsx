// Compaction as the reader sees it: a gauge of the model's window, the mark at the cut, the summary to
// read and edit, and what the model is sent.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { act, sentence, tryAsk } from '../lib/api';
import { Markdown } from '../lib/markdown';
import { modelNamed } from '../lib/store';
import type { Compaction, Message, Window } from '../lib/types';
import { count, plural, tokens } from '../lib/words';
import { Button, Dialog, Loading, Notice } from '../views/parts';
import type { Conversation } from './conversation';
import { disclosure } from './disclosure';

// ---- the mark at the cut ----

const textOf = (one: Compaction): string => one.narrative ?? '';

// The compaction that the model sees now, by the last message that it covers.
export function markersOf(chat: Conversation): Map<string, Compaction[]> {
  const marks = new Map<string, Compaction[]>();
  const active = chat.window.value?.compaction;
  if (!active) return marks;
  const record = chat.compactions.value.find((one) => one.id === active.id);
  marks.set(active.last, [{ ...record, ...active, after: active.last }]);
  return marks;
}

export function CompactionMark({ chat, marker }: { chat: Conversation; marker: Compaction }): VNode {
  const [editing, setEditing] = useState<string | null>(null);
  const record = chat.compactions.value.find((one) => one.id === marker.id) ?? marker;
  const text = textOf(record);
  return (
    <section class="compaction" aria-label="Compaction">
      <div class="compaction-line">
        <svg class="wrapped" viewBox="0 0 120 14" preserveAspectRatio="none" aria-hidden="true">
          <path d="M0 7h120" />
          <path d="M8 2l6 10M18 2l6 10M28 2l6 10M38 2l6 10M48 2l6 10M58 2l6 10M68 2l6 10M78 2l6 10M88 2l6 10M98 2l6 10M108 2l6 10" />
        </svg>
        <p>
          <strong>{plural(marker.covered, 'message')} compacted</strong>
          {' · '}
          {count(marker.kept)} kept as written
          {marker.tokens_before ? ` · ${tokens(marker.tokens_before)} → ${tokens(marker.tokens_after ?? 0)} tokens` : ''}
        </p>
      </div>
      <details {...disclosure(`${chat.id}:summary`)}>
        <summary>Read the summary that the model sees</summary>
        {editing === null ? (
          <>
            {record.ledger && (
              <details {...disclosure(`${chat.id}:ledger`)}>
                <summary>Facts kept word for word</summary>
                <Markdown text={record.ledger} />
              </details>
            )}
            {text ? <Markdown text={text} /> : <p class="faint">The summary has no text: old tool results were cleared.</p>}
            <p class="faint">Every message above is still here and still searchable. Only the model's view is shorter.</p>
            <div class="row-end">
              <Button small icon="edit" onClick={() => setEditing(text)}>
                Edit summary
              </Button>
              <Button small icon="undo" onClick={() => void chat.action('undo_compact', { branch: chat.branch.value })}>
                Undo compaction
              </Button>
            </div>
          </>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              void chat.action('edit_summary', { branch: chat.branch.value, text: editing }).then((ok) => ok && setEditing(null));
            }}
          >
            <textarea class="tall" aria-label="Summary" value={editing} onInput={(event) => setEditing(event.currentTarget.value)} />
            <div class="row-end">
              <Button small onClick={() => setEditing(null)}>
                Cancel
              </Button>
              <Button small kind="primary" type="submit">
                Save summary
              </Button>
            </div>
          </form>
        )}
      </details>
    </section>
  );
}

// ---- the gauge ----

const partNames: Record<string, string> = { system: 'System prompt', tools: 'Tool descriptions', summary: 'Summary', text: 'Messages', thinking: 'Thinking', calls: 'Tool calls', results: 'Tool results', images: 'Images' };
const partOrder = Object.keys(partNames);

function windowOf(chat: Conversation): Window | undefined {
  if (chat.window.value) return chat.window.value;
  // A server without the window in its state: what the last answer reported.
  const model = modelNamed(chat.context.value?.config.model_id ?? '');
  const last = chat.loaded().reverse().find(([, message]) => message.role === 'assistant')?.[1];
  const used = (last?.metadata as { tokens?: { total_tokens?: number } } | null)?.tokens?.total_tokens;
  if (!model || used === undefined) return undefined;
  return { used, window: model.window, threshold: 0, reserve: 0 };
}

export function Gauge({ chat, onOpen }: { chat: Conversation; onOpen: () => void }): VNode | null {
  const about = windowOf(chat);
  if (!about || about.window === 0) return null;
  const share = Math.min(1, about.used / about.window);
  const isNear = about.threshold > 0 && about.used >= about.threshold;
  const percent = Math.round(share * 100);
  return (
    <button type="button" class={`gauge${isNear ? ' near' : ''}`} onClick={onOpen} title={`${count(about.used)} of ${count(about.window)} tokens of the model's window are used`} aria-label={`Window: ${percent} % used. Show what takes the room`}>
      <svg viewBox="0 0 44 10" width="44" height="10" aria-hidden="true">
        <rect class="gauge-room" x="0" y="3" width="44" height="4" rx="2" />
        <rect class="gauge-used" x="0" y="3" width={Math.max(2, 44 * share)} height="4" rx="2" />
        {about.threshold > 0 && <path class="gauge-line" d={`M${(44 * about.threshold) / about.window} 0v10`} />}
      </svg>
      <span>{percent} %</span>
    </button>
  );
}

const originWords: Record<string, string> = { user: 'set by you', provider: 'reported by the provider', table: 'from the model table', default: 'default', estimate: 'estimated' };

export function WindowPanel({ chat }: { chat: Conversation }): VNode {
  const about = windowOf(chat);
  const [preview, setPreview] = useState(false);
  const [sees, setSees] = useState(false);
  if (!about) return <p class="faint">The size of the window is known after the first answer.</p>;
  const parts = partOrder.map((name) => [name, about.parts?.[name] ?? 0] as const).filter(([, n]) => n > 0);
  const sum = parts.reduce((all, [, n]) => all + n, 0) || 1;
  const hasUndone = chat.compactions.value.length > 0;
  return (
    <div class="window-panel">
      <p class="big-number">
        {tokens(about.used)} <span>of {tokens(about.window)} tokens</span>
      </p>
      <div class="stack" role="img" aria-label={`The window: ${parts.map(([name, n]) => `${partNames[name]} ${count(n)}`).join(', ')}`}>
        {parts.map(([name, n]) => (
          <i key={name} class={`part-${name}`} style={{ width: `${(n / Math.max(sum, about.window)) * 100}%` }} />
        ))}
        {about.threshold > 0 && <b style={{ insetInlineStart: `${(about.threshold / about.window) * 100}%` }} />}
      </div>
      <ul class="legend">
        {parts.map(([name, n]) => (
          <li key={name}>
            <i class={`part-${name}`} /> {partNames[name]} <span>{tokens(n)}</span>
          </li>
        ))}
      </ul>
      <dl class="facts">
        {about.threshold > 0 && (
          <div>
            <dt>Compacts at</dt>
            <dd>
              {tokens(about.threshold)} <span class="faint">{originWords[about.origins?.threshold ?? '']}</span>
            </dd>
          </div>
        )}
        {about.reserve > 0 && (
          <div>
            <dt>Kept for the answer</dt>
            <dd>{tokens(about.reserve)}</dd>
          </div>
        )}
        <div>
          <dt>Window</dt>
          <dd>
            {tokens(about.window)} <span class="faint">{originWords[about.origins?.window ?? '']}</span>
          </dd>
        </div>
      </dl>
      {about.breaker && <Notice>The model that summarises failed three times. Summaries are now made without a model, from the messages themselves.</Notice>}
      {chat.canCompact.value && (
        <>
          <label class="field">
            Compaction
            <select value={about.mode ?? 'auto'} onChange={(event) => void chat.configure({ compaction: { ...(chat.context.value?.config as { compaction?: object } | undefined)?.compaction, mode: event.currentTarget.value } })}>
              <option value="auto">automatic, near the limit</option>
              <option value="manual">only when I ask</option>
              <option value="off">off</option>
            </select>
          </label>
          <div class="row-wrap">
            <Button icon="wrap" onClick={() => setPreview(true)} disabled={chat.busy.value}>
              Compact now…
            </Button>
            {about.compaction && (
              <Button icon="undo" onClick={() => void chat.action('undo_compact', { branch: chat.branch.value })}>
                Undo
              </Button>
            )}
            {hasUndone && !about.compaction && (
              <Button icon="redo" onClick={() => void chat.action('redo_compact', { branch: chat.branch.value })}>
                Redo
              </Button>
            )}
            <Button icon="eye" onClick={() => setSees(true)}>
              What the model sees
            </Button>
          </div>
        </>
      )}
      {preview && <CompactDialog chat={chat} onClose={() => setPreview(false)} />}
      {sees && <ModelView chat={chat} onClose={() => setSees(false)} />}
    </div>
  );
}

// ---- compact now, with a preview ----

interface Plan {
  action?: string;
  covered?: number;
  kept?: number;
  tokens_before?: number;
  tokens_after?: number;
  narrative?: string;
  why?: string;
}

function CompactDialog({ chat, onClose }: { chat: Conversation; onClose: () => void }): VNode {
  const [plan, setPlan] = useState<Plan | null>(null);
  const [problem, setProblem] = useState('');
  const [instructions, setInstructions] = useState('');
  const body = () => ({ branch: chat.branch.value, ...(instructions.trim() ? { instructions: instructions.trim() } : {}) });
  useEffect(() => {
    act<{ plan: Plan }>(chat.id, 'compact', { branch: chat.branch.value, dry_run: true }).then((answer) => setPlan(answer.plan), (error: unknown) => setProblem(sentence(error)));
  }, []);
  const nothing = plan && (plan.covered ?? 0) === 0;
  return (
    <Dialog title="Compact the conversation" onClose={onClose}>
      {problem && <Notice kind="error">{problem}</Notice>}
      {!plan && !problem && <Loading label="Looking at what can be compacted" />}
      {plan && (
        <>
          {nothing ? (
            <p>{plan.why || 'There is nothing to compact yet: the newest messages are always kept.'}</p>
          ) : (
            <p>
              <strong>{plural(plan.covered ?? 0, 'message')}</strong> become a summary, <strong>{count(plan.kept ?? 0)}</strong> stay as written. The model then reads about <strong>{tokens(plan.tokens_after ?? 0)}</strong> tokens instead of <strong>{tokens(plan.tokens_before ?? 0)}</strong>.
            </p>
          )}
          {plan.narrative && (
            <details open>
              <summary>Summary</summary>
              <Markdown text={plan.narrative} />
            </details>
          )}
          <p class="faint">Nothing is deleted. You can read the whole history and undo this at any time.</p>
          <label class="field">
            What must the summary keep? (optional)
            <textarea rows={2} value={instructions} onInput={(event) => setInstructions(event.currentTarget.value)} />
          </label>
          <div class="row-end">
            <Button onClick={onClose}>Cancel</Button>
            <Button
              kind="primary"
              disabled={Boolean(nothing)}
              onClick={() => {
                onClose();
                void chat.action('compact', body());
              }}
            >
              Compact now
            </Button>
          </div>
        </>
      )}
    </Dialog>
  );
}

// ---- what the model sees ----

interface SentView {
  model: string;
  system: string | null;
  tools: string[];
  messages: (Partial<Message> & { content?: unknown })[];
  tokens: number;
}

function ModelView({ chat, onClose }: { chat: Conversation; onClose: () => void }): VNode {
  const [sent, setSent] = useState<SentView | null | undefined>(null);
  useEffect(() => {
    tryAsk<SentView>(`/contexts/${chat.id}/view`).then(setSent, () => setSent(undefined));
  }, []);
  const plain = (one: SentView['messages'][0]): string => {
    if (typeof one.text === 'string') return one.text;
    if (typeof one.content === 'string') return one.content;
    if (Array.isArray(one.content)) return (one.content as { text?: string }[]).map((part) => part.text ?? JSON.stringify(part, null, 2)).join('\n');
    return JSON.stringify(one.content ?? one.tool_result ?? one, null, 2);
  };
  return (
    <Dialog wide title="What the model sees" onClose={onClose}>
      {sent === null && <Loading />}
      {sent === undefined && <p>This server does not report it.</p>}
      {sent && (
        <div class="sent">
          <p class="faint">
            {sent.model} · about {count(sent.tokens)} tokens · {plural(sent.messages.length, 'message')}
            {sent.tools.length > 0 ? ` · tools: ${sent.tools.join(', ')}` : ''}
          </p>
          {sent.system && (
            <section>
              <h3>system</h3>
              <pre tabIndex={0}>{sent.system}</pre>
            </section>
          )}
          {sent.messages.map((message, n) => (
            <section key={n} class={`sent-${message.role}`}>
              <h3>{message.role}</h3>
              <pre tabIndex={0} dir="auto">{plain(message)}</pre>
            </section>
          ))}
        </div>
      )}
    </Dialog>
  );
}

