// The view of one conversation: title bar, messages, cord, composer, and a panel at the side.

import { effect } from '@preact/signals';
import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { sentence, tryAsk } from '../lib/api';
import { chatHash, deleteConversation, go, listChanged, loadTools, modelNamed, models, notify, type Panel, panel, prompts, route, sidebarOpen, togglePanel, tools, updateRow } from '../lib/store';
import type { FindHit, Outline } from '../lib/types';
import { plural, shortTime } from '../lib/words';
import { lazyView } from '../views/lazy-view';
import { ModelChoice } from '../views/model-choice';
import { Button, Dialog, Empty, focusAtFirst, Loading, Menu, Notice, Snippet } from '../views/parts';
import { Composer } from './composer';
import { Gauge, WindowPanel } from './compaction';
import { Conversation } from './conversation';
import { Cord, marks, outlineOf } from './cord';
import { goTo, Thread, view } from './thread';

const Tree = lazyView(() => import('./tree').then((module) => module.Tree));
const Compare = lazyView(() => import('./tree').then((module) => module.Compare));

export function Chat({ id }: { id: string }): VNode {
  const chat = useMemo(() => new Conversation(id), [id]);
  useEffect(() => {
    void chat.open();
    if (tools.value.length === 0) void loadTools();
    // The list shows new titles, times and states.
    let known = '';
    const stop = effect(() => {
      const now = `${chat.turn.value.state}${chat.total.value}`;
      if (known && now !== known) {
        updateRow(id, { state: chat.turn.value.state, messages: chat.total.value });
        if (chat.turn.value.state === 'Idle') listChanged();
      }
      known = now;
    });
    return () => {
      stop();
      chat.close();
      marks.value = [];
    };
  }, [chat]);
  useEffect(() => {
    document.title = `${chat.context.value?.title || 'Conversation'} · quipu`;
  }, [chat.context.value?.title]);
  useJump(chat);

  if (chat.gone.value)
    return (
      <main class="page">
        <Empty title="This conversation does not exist">
          <p>It may have been deleted, here or in another tab.</p>
          <Button kind="primary" onClick={() => go('#/')}>
            Start a new one
          </Button>
        </Empty>
      </main>
    );
  return (
    <>
      <main class="chat" data-state={chat.turn.value.state} data-status={chat.status.value}>
        <TitleBar chat={chat} />
        {chat.status.value === 'lost' && chat.failures.value > 1 && (
          <div class="offline" role="status">
            The server cannot be reached. Nothing is lost: the answer continues there and appears here when the connection is back.
          </div>
        )}
        <div class="chat-body">
          {chat.opened.value ? (
            chat.rowCount() === 1 && !chat.busy.value ? (
              <div class="thread-area">
                <Empty title="An empty conversation">
                  <p>Write the first message below.</p>
                </Empty>
              </div>
            ) : (
              <Thread chat={chat} />
            )
          ) : (
            <div class="thread-area">{chat.problem.value ? <Notice kind="error" actions={<Button small onClick={() => void chat.open()}>Try again</Button>}>{chat.problem.value}</Notice> : <Loading label="Opening the conversation" />}</div>
          )}
          <Cord chat={chat} />
        </div>
        <div class="composer-area">
          {chat.opened.value && chat.problem.value && (
            <Notice kind="error" actions={<Button small onClick={() => (chat.problem.value = null)}>Dismiss</Button>}>
              {chat.problem.value}
            </Notice>
          )}
          <Composer id={id} busy={chat.busy.value || chat.turn.value.state === 'AwaitingToolApproval'} canQueue={chat.queue.value !== null} onSend={(parts) => chat.send(parts)} onStop={() => void chat.cancel()} placeholder={chat.busy.value && chat.queue.value !== null ? 'Write the next message; it is sent when the answer is complete' : 'Write a message'} autoFocus />
        </div>
      </main>
      <SidePanel chat={chat} />
    </>
  );
}

// An address that names a message: its branch is found, shown, and the list goes there.
function useJump(chat: Conversation): void {
  const wanted = route.value.message;
  const ready = chat.opened.value;
  useEffect(() => {
    if (!wanted || !ready) return;
    void (async () => {
      const loaded = chat.loaded().find(([, message]) => message.id === wanted);
      if (loaded) return goTo(loaded[0], wanted);
      const found = await tryAsk<{ hits: FindHit[] }>(`/contexts/${chat.id}/find?message=${wanted}`).catch(() => undefined);
      const hit = found?.hits[0];
      if (!hit) return notify('This message is not in the conversation any more.');
      if (hit.branch && hit.branch !== chat.branch.value && !(await onShownBranch(chat, wanted))) await chat.switchBranch(hit.branch);
      setTimeout(() => goTo(hit.at - 1, wanted), 30);
    })();
  }, [wanted, ready, chat, route.value]);
}

async function onShownBranch(chat: Conversation, id: string): Promise<boolean> {
  return outlineOf(chat).items.some((item) => item.id !== '' && item.id === id);
}

// ---- title bar ----

function TitleBar({ chat }: { chat: Conversation }): VNode {
  const [title, setTitle] = useState<string | null>(null);
  const [dialog, setDialog] = useState<'' | 'tree' | 'compare'>('');
  const context = chat.context.value;
  const branches = context?.branches ?? [];
  const toggle = (name: Panel) => () => togglePanel(name);
  const copyBranch = async () => {
    try {
      const text = await exportBranch(chat);
      await navigator.clipboard.writeText(text);
      notify('The branch is in the clipboard as Markdown.');
    } catch (error) {
      notify(sentence(error));
    }
  };
  return (
    <header class="title-bar">
      <Button class="only-phone" icon="menu" kind="quiet" label="Conversations" onClick={() => (sidebarOpen.value = true)} />
      {title === null ? (
        <h1>
          <button type="button" title="Rename" onClick={() => setTitle(context?.title ?? '')}>
            {context?.title || 'Untitled'}
          </button>
        </h1>
      ) : (
        <form
          class="rename"
          onSubmit={(event) => {
            event.preventDefault();
            void chat.rename(title).then((ok) => {
              if (ok) {
                updateRow(chat.id, { title });
                setTitle(null);
              }
            });
          }}
        >
          <input aria-label="Title" value={title} ref={focusAtFirst} onInput={(event) => setTitle(event.currentTarget.value)} onBlur={() => setTitle(null)} onKeyDown={(event) => event.key === 'Escape' && setTitle(null)} />
        </form>
      )}
      <div class="title-acts">
        {branches.length > 1 && (
          <button type="button" class="chip" onClick={() => setDialog('tree')} title="All branches as a picture">
            {chat.branch.value} <span class="faint">1 of {branches.length}</span>
          </button>
        )}
        <ModelChoice value={context?.config.model_id ?? ''} onChange={(model_id) => void chat.configure({ model_id })} />
        <Gauge chat={chat} onOpen={toggle('context')} />
        <Button icon="search" kind="quiet" label="Find in this conversation" aria-pressed={panel.value === 'find'} onClick={toggle('find')} />
        <Button icon="list" kind="quiet" class="not-phone" label="Outline" aria-pressed={panel.value === 'outline'} onClick={toggle('outline')} />
        <Menu
          label="Conversation"
          items={[
            { label: 'Outline', icon: 'list', run: toggle('outline') },
            { label: 'Tree of branches', icon: 'branch', run: () => setDialog('tree') },
            branches.length > 1 ? { label: 'Compare branches', icon: 'compare', run: () => setDialog('compare') } : null,
            { label: 'Model and prompt', icon: 'prompt', run: toggle('branches') },
            { label: 'Window and compaction', icon: 'gauge', run: toggle('context') },
            { label: 'Export as Markdown', icon: 'export', run: () => void download(chat, 'md') },
            { label: 'Export as JSON', icon: 'export', run: () => void download(chat, 'json') },
            { label: 'Copy this branch', icon: 'copy', run: () => void copyBranch() },
            { label: 'Delete conversation', icon: 'trash', danger: true, run: () => deleteConversation({ id: chat.id, title: context?.title ?? null }) },
          ]}
        />
      </div>
      {dialog === 'tree' && (
        <Dialog wide title="All branches" onClose={() => setDialog('')}>
          <Tree chat={chat} onClose={() => setDialog('')} />
        </Dialog>
      )}
      {dialog === 'compare' && (
        <Dialog wide title="Compare two branches" onClose={() => setDialog('')}>
          <Compare chat={chat} onClose={() => setDialog('')} />
        </Dialog>
      )}
    </header>
  );
}

// ---- export ----

async function exportBranch(chat: Conversation): Promise<string> {
  return (await import('../views/export')).branchAsMarkdown(chat.id, chat.branch.value, chat.context.value?.title ?? '');
}

async function download(chat: Conversation, form: 'md' | 'json'): Promise<void> {
  try {
    await (await import('../views/export')).downloadConversation(chat.id, chat.branch.value, chat.context.value?.title ?? '', form);
  } catch (error) {
    notify(sentence(error));
  }
}

// ---- the panel at the side ----

const panelTitles: Record<Exclude<Panel, ''>, string> = { context: 'The model’s window', branches: 'Model and prompt', find: 'Find', outline: 'Outline' };

function SidePanel({ chat }: { chat: Conversation }): VNode | null {
  const name = panel.value;
  if (!name) return null;
  return (
    <aside class="panel" aria-label={panelTitles[name]} onKeyDown={(event) => event.key === 'Escape' && !(event.target as HTMLElement).closest('dialog') && (panel.value = '')}>
      <header>
        <h2>{panelTitles[name]}</h2>
        <Button icon="close" kind="quiet" label="Close panel" onClick={() => (panel.value = '')} />
      </header>
      <div class="panel-body" tabIndex={0}>
        {name === 'context' && <WindowPanel chat={chat} />}
        {name === 'branches' && <ChoicePanel chat={chat} />}
        {name === 'find' && <Find chat={chat} />}
        {name === 'outline' && <OutlinePanel chat={chat} />}
      </div>
    </aside>
  );
}

function ChoicePanel({ chat }: { chat: Conversation }): VNode {
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

function Find({ chat }: { chat: Conversation }): VNode {
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
                {hit.role === 'user' ? 'You' : hit.role} · {hit.at}
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

// While a word is being typed, its beginning finds it.
export const lastWordOpen = (query: string): string => (/[\p{L}\p{N}]$/u.test(query) ? `${query}*` : query);

function OutlinePanel({ chat }: { chat: Conversation }): VNode {
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
        <li key={item.id}>
          <button type="button" class={`outline-${item.role}${view.value.first <= item.at - 1 && item.at - 1 <= view.value.last ? ' on' : ''}`} onClick={() => goTo(item.at - 1, item.id)}>
            <span dir="auto">{texts[item.id] || (item.role === 'user' ? '…' : 'Answer')}</span>
            <span class="faint">
              {(item.alternatives ?? 1) > 1 ? `${item.alternatives} ways · ` : ''}
              {item.pinned ? 'pinned · ' : ''}
              {item.time ? shortTime(item.time) : ''}
            </span>
          </button>
        </li>
      ))}
    </ol>
  );
}

