// The model's window in the panel at the side: what takes the room, compact now with a preview, and what
// the model is sent.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { act, sentence, tryAsk } from '../lib/api';
import { Markdown } from '../lib/markdown';
import type { Message } from '../lib/types';
import { count, plural, roleWord, tokens } from '../lib/words';
import { Button, Dialog, Loading, Notice } from '../views/parts';
import { windowOf } from './compaction';
import type { Conversation } from './conversation';

const partNames: Record<string, string> = { system: 'System prompt', tools: 'Tool descriptions', summary: 'Summary', text: 'Messages', thinking: 'Thinking', calls: 'Tool calls', results: 'Tool results', images: 'Images', reserve: 'Kept for the answer' };
const partOrder = Object.keys(partNames);
const originWords: Record<string, string> = { user: 'set by you', provider: 'reported by the provider', table: 'from the model table', default: 'default', estimate: 'estimated' };

export function WindowPanel({ chat }: { chat: Conversation }): VNode {
  const about = windowOf(chat);
  const [preview, setPreview] = useState(false);
  const [sees, setSees] = useState(false);
  if (!about) return <p class="faint">The size of the window is known after the first answer.</p>;
  const taken: Record<string, number> = { ...about.parts, reserve: about.reserve };
  const parts = partOrder.map((name) => [name, taken[name] ?? 0] as const).filter(([, n]) => n > 0);
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
            <p>{plan.why === 'no_gain' ? 'A summary would not be shorter than the messages that it replaces.' : 'There is nothing to compact yet: the newest messages are always kept.'}</p>
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
          {!nothing && (
            <>
              <p class="faint">Nothing is deleted. You can read the whole history and undo this at any time.</p>
              <label class="field">
                What must the summary keep? (optional)
                <textarea rows={2} value={instructions} onInput={(event) => setInstructions(event.currentTarget.value)} />
              </label>
            </>
          )}
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
              <h3>System prompt</h3>
              <pre tabIndex={0}>{sent.system}</pre>
            </section>
          )}
          {sent.messages.map((message, n) => (
            <section key={n} class={`sent-${message.role}`}>
              <h3>{roleWord(message.role ?? '')}</h3>
              <pre tabIndex={0} dir="auto">{plain(message)}</pre>
            </section>
          ))}
        </div>
      )}
    </Dialog>
  );
}

