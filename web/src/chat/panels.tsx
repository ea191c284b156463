// Panels at the side of a conversation: model and prompt, find, outline.

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { tryAsk } from '../lib/api';
import { chatHash, go, modelNamed, models, prompts, route } from '../lib/store';
import type { FindHit, Outline } from '../lib/types';
import { lastWordOpen, plural, roleWord, shortTime } from '../lib/words';
import { ModelChoice } from '../views/model-choice';
import { Button, focusAtFirst, Snippet } from '../views/parts';
import type { Conversation } from './conversation';
import { marks, outlineOf } from './cord';
import { goTo, view } from './thread';

export { WindowPanel } from './window';

export function ChoicePanel({ chat }: { chat: Conversation }): VNode {
  const context = chat.context.value;
  const branch = chat.branchNamed(chat.branch.value);
  const model = modelNamed(context?.config.model_id ?? '');
  const used = branch?.system_prompt_id ?? '';
  return (
    <>
      <div class="field">
        Model
        <ModelChoice value={context?.config.model_id ?? ''} onChange={(model_id) => void chat.configure({ model_id })} />
        {model && (
          <p class="faint">
            Window {model.window.toLocaleString()} tokens
            {model.input_price !== undefined && ` · $${model.input_price} in, $${model.output_price} out per million`}
          </p>
        )}
        {!models.value && <p class="faint">The models cannot be listed now.</p>}
      </div>
      <label class="field">
        System prompt of the branch “{chat.branch.value}”
        <select value={used} onChange={(event) => void chat.changeBranch(chat.branch.value, { system_prompt_id: event.currentTarget.value || null })}>
          <option value="">none</option>
          {(prompts.value ?? []).map((prompt) => (
            <option key={prompt.id} value={prompt.id}>
              {prompt.name || prompt.id}
            </option>
          ))}
        </select>
      </label>
      {branch?.system_prompt && <pre class="prompt-text" tabIndex={0}>{branch.system_prompt.content}</pre>}
      <Button icon="prompt" onClick={() => go('#/prompts')}>
        Prompt library
      </Button>
    </>
  );
}

export function Find({ chat }: { chat: Conversation }): VNode {
  const [query, setQuery] = useState(route.value.query ? decodeURIComponent(route.value.query) : '');
  const [hits, setHits] = useState<FindHit[] | null | undefined>(null);
  const [at, setAt] = useState(-1);
  useEffect(() => {
    if (!query.trim()) {
      setHits(null);
      marks.value = [];
      return undefined;
    }
    const stop = new AbortController();
    const timer = setTimeout(() => {
      tryAsk<{ hits: FindHit[]; total?: number }>(`/contexts/${chat.id}/find?q=${encodeURIComponent(lastWordOpen(query))}&limit=100`, { signal: stop.signal }).then(
        (found) => {
          setHits(found?.hits);
          setAt(-1);
          const shown = new Set(outlineOf(chat).items.map((item) => item.id));
          marks.value = (found?.hits ?? []).filter((hit) => hit.branch === chat.branch.value || shown.has(hit.id)).map((hit) => hit.at);
        },
        () => undefined,
      );
    }, 120);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [query, chat]);
  const open = (n: number) => {
    const hit = hits?.[n];
    if (!hit) return;
    setAt(n);
    go(chatHash(chat.id, hit.id));
  };
  return (
    <div class="find">
      <input
        type="search"
        aria-label="Find in this conversation"
        placeholder="Words, on every branch"
        value={query}
        ref={focusAtFirst}
        onInput={(event) => setQuery(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && hits?.length) {
            event.preventDefault();
            open((at + (event.shiftKey ? hits.length - 1 : 1)) % hits.length);
          }
        }}
      />
      {hits === undefined && <p class="faint">This server cannot search in one conversation.</p>}
      {hits && <p class="faint" role="status">{hits.length === 0 ? 'No message has these words.' : plural(hits.length, 'message')}</p>}
      <ul class="hits">
        {(hits ?? []).map((hit, n) => (
          <li key={hit.id}>
            <button type="button" class={n === at ? 'on' : undefined} onClick={() => open(n)}>
              <span class="faint">
                {roleWord(hit.role)} · message {hit.at}
                {hit.branch && hit.branch !== chat.branch.value ? ` · ${hit.branch}` : ''}
              </span>
              <Snippet pieces={hit.snippet} />
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function OutlinePanel({ chat }: { chat: Conversation }): VNode {
  // All of it, whatever the length: it has no texts.
  const [whole, setWhole] = useState<Outline | null>(null);
  useEffect(() => {
    tryAsk<Outline>(`/contexts/${chat.id}/outline?max=20000`).then((found) => setWhole(found ?? null), () => setWhole(null));
  }, [chat, chat.outline.value]);
  const outline = whole?.branch === chat.branch.value ? whole : outlineOf(chat);
  const own = outline.items.filter((item) => item.role === 'user' || (item.alternatives ?? 1) > 1 || item.pinned || item.kind === 'compaction');
  const [texts, setTexts] = useState<Record<string, string>>({});
  const shownIds = own.slice(-400).map((item) => item.id);
  useEffect(() => {
    void (async () => {
      const found: Record<string, string> = {};
      for (let from = 0; from < shownIds.length; from += 100) {
        const ids = shownIds.slice(from, from + 100).join(',');
        const some = await tryAsk<{ previews: { id: string; text: string }[] }>(`/contexts/${chat.id}/previews?ids=${ids}`).catch(() => undefined);
        for (const one of some?.previews ?? []) found[one.id] = one.text;
      }
      for (const [, message] of chat.loaded()) if (message.text && !found[message.id]) found[message.id] = message.text.slice(0, 160);
      setTexts(found);
    })();
  }, [chat, shownIds.join()]);
  return (
    <ol class="outline">
      {own.length === 0 && <li class="faint">Your messages appear here.</li>}
      {own.map((item) => (
        <li key={item.id} class={item.role === 'user' ? 'own' : undefined}>
          <button type="button" class={`outline-${item.role}${view.value.first <= item.at - 1 && item.at - 1 <= view.value.last ? ' on' : ''}`} onClick={() => goTo(item.at - 1, item.id)}>
            <span dir="auto">{texts[item.id] || (item.role === 'user' ? '…' : 'Answer')}</span>
            <span class="faint">
              {(item.alternatives ?? 1) > 1 ? `${item.alternatives} alternatives · ` : ''}
              {item.pinned ? 'pinned · ' : ''}
              {item.time ? shortTime(item.time) : ''}
            </span>
          </button>
        </li>
      ))}
    </ol>
  );
}

