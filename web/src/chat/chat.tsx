// The view of one conversation: title bar, messages, cord, composer, and a panel at the side.

import { effect } from '@preact/signals';
import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { online, sentence, tryAsk, unreachable } from '../lib/api';
import { afterPaint, painted } from '../lib/lazy';
import { deleteConversation, go, listChanged, loadTools, notify, type Panel, panel, route, rows, sidebarOpen, togglePanel, tools, updateRow } from '../lib/store';
import type { FindHit } from '../lib/types';
import { plural } from '../lib/words';
import { lazyView } from '../views/lazy-view';
import { ModelChoice } from '../views/model-choice';
import { Button, Dialog, Empty, focusAtFirst, Loading, Menu, Notice } from '../views/parts';
import { Composer } from './composer';
import { Gauge } from './compaction';
import { type Conversation, takeConversation } from './conversation';
import { Cord, goToBranchPoint, marks, outlineOf } from './cord';
import { goTo, shownChat, Thread } from './thread';

export { prepareConversation } from './conversation';

const Tree = lazyView(() => import('./tree').then((module) => module.Tree));
const Compare = lazyView(() => import('./tree').then((module) => module.Compare));
const panels = () => import('./panels');
const WindowPanel = lazyView(() => panels().then((module) => module.WindowPanel));
const ChoicePanel = lazyView(() => panels().then((module) => module.ChoicePanel));
const Find = lazyView(() => panels().then((module) => module.Find));
const OutlinePanel = lazyView(() => panels().then((module) => module.OutlinePanel));

export function Chat({ id }: { id: string }): VNode {
  const chat = useMemo(() => takeConversation(id), [id]);
  useEffect(() => {
    void chat.open();
    if (tools.value.length === 0) afterPaint(() => void loadTools());
    // The list shows new titles, times and states.
    let known = '';
    const stop = effect(() => {
      const now = `${chat.state.value}${chat.total.value}`;
      if (known && now !== known) {
        updateRow(id, { state: chat.state.value, messages: chat.total.value });
        if (chat.state.value === 'Idle') listChanged();
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
  const isOnline = online.value;
  useEffect(() => {
    if (!isOnline || !chat.problem.value) return;
    if (!chat.opened.value) void chat.open();
    else if (chat.problem.value === unreachable) chat.problem.value = null;
  }, [isOnline]);

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
      <main class="chat" data-state={chat.state.value} data-status={chat.status.value}>
        <TitleBar chat={chat} />
        <div class="chat-body">
          {chat.opened.value ? (
            chat.rowCount.value === 1 && !chat.busy.value ? (
              <div class="thread-area">
                <Empty title="An empty conversation">
                  <p>Write the first message below.</p>
                </Empty>
              </div>
            ) : (
              <Thread chat={chat} />
            )
          ) : (
            <div class="thread-area">
              {!chat.problem.value ? (
                <div class="column">
                  <Loading label="Opening the conversation" />
                </div>
              ) : isOnline ? (
                <div class="column opening-problem">
                  <Notice kind="error" actions={<Button small onClick={() => void chat.open()}>Try again</Button>}>
                    {chat.problem.value}
                  </Notice>
                </div>
              ) : (
                <Empty title="This conversation is on the server">
                  <p>It opens by itself when the server can be reached again.</p>
                </Empty>
              )}
            </div>
          )}
          <Cord chat={chat} />
        </div>
        <div class="composer-area">
          {chat.opened.value && chat.problem.value && (
            <Notice kind="error" actions={<Button small onClick={() => (chat.problem.value = null)}>Dismiss</Button>}>
              {chat.problem.value}
            </Notice>
          )}
          <Composer id={id} busy={chat.busy.value || chat.state.value === 'AwaitingToolApproval'} canQueue={chat.queue.value !== null} onSend={(parts) => chat.send(parts)} onStop={() => void chat.cancel()} placeholder={chat.busy.value && chat.queue.value !== null ? 'Write the next message; it is sent when the answer is complete' : 'Write a message'} autoFocus />
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

export function stepBranchPoint(by: 1 | -1): void {
  const chat = shownChat();
  if (chat) goToBranchPoint(chat, by);
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
            {context?.title || rows.value.find((row) => row.id === chat.id)?.title || (context ? 'Untitled' : '\u00a0')}
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
        {painted.value && (
          <>
            {branches.length > 1 && (
              <button type="button" class="chip" onClick={() => setDialog('tree')} title="All branches as a picture">
                {chat.branch.value} <span class="faint">{plural(branches.length, 'branch', 'branches')}</span>
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
                branches.length > 1 ? { label: 'Next branch point', icon: 'down', run: () => goToBranchPoint(chat, 1) } : null,
                branches.length > 1 ? { label: 'Previous branch point', icon: 'up', run: () => goToBranchPoint(chat, -1) } : null,
                branches.length > 1 ? { label: 'Compare branches', icon: 'compare', run: () => setDialog('compare') } : null,
                { label: 'Model and prompt', icon: 'prompt', run: toggle('branches') },
                { label: 'Window and compaction', icon: 'gauge', run: toggle('context') },
                { label: 'Export as Markdown', icon: 'export', run: () => void download(chat, 'md') },
                { label: 'Export as JSON', icon: 'export', run: () => void download(chat, 'json') },
                { label: 'Copy this branch', icon: 'copy', run: () => void copyBranch() },
                { label: 'Delete conversation', icon: 'trash', danger: true, run: () => deleteConversation({ id: chat.id, title: context?.title ?? null }) },
              ]}
            />
          </>
        )}
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
