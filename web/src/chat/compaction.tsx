// Compaction in a conversation: the mark at the cut with its summary, and the gauge of the model's window.

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Markdown } from '../lib/markdown';
import { modelNamed } from '../lib/store';
import type { Compaction, Window } from '../lib/types';
import { count, plural, tokens } from '../lib/words';
import { Button } from '../views/parts';
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
        <div class="wrapped" />
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

export function windowOf(chat: Conversation): Window | undefined {
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
