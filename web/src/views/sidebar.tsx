// The list of conversations with search as you type. Rows have one height, so that ten thousand of them
// scroll like ten.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, hasKey, patch, sentence, setKey } from '../lib/api';
import { chatHash, deleteConversation, go, hasMore, listProblem, listState, loadRows, notify, paletteOpen, route, rows, sidebarOpen, updateRow } from '../lib/store';
import type { ContextRow, Hit } from '../lib/types';
import { lastWordOpen, plural, shortTime } from '../lib/words';
import { Button, focusAtFirst, Icon, Loading, Menu, Sign, Snippet } from './parts';

const rowHeight = 58;
const aroundRows = 6; // above and below what is seen; the first picture does without

export function Sidebar(): VNode {
  const [query, setQuery] = useState('');
  return (
    <nav class={`sidebar${sidebarOpen.value ? ' open' : ''}`} aria-label="Conversations">
      <header class="brand">
        <a href="#/" class="brand-name">
          <Sign /> quipu
        </a>
        <Button icon="plus" kind="quiet" label="New conversation" onClick={() => go('#/')} />
        <Button class="only-phone" icon="close" kind="quiet" label="Close list" onClick={() => (sidebarOpen.value = false)} />
      </header>
      <div class="search-box">
        <Icon name="search" size={16} />
        <input
          id="search"
          type="search"
          aria-label="Search all conversations"
          placeholder="Search"
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') setQuery('');
            if (event.key === 'ArrowDown') document.querySelector<HTMLElement>('.sidebar .hit, .sidebar .conversation a')?.focus();
          }}
        />
        <kbd class="not-phone">/</kbd>
      </div>
      {query.trim() ? <Hits query={query} /> : <Rows />}
      <footer class="places">
        <Place hash="#/prompts" icon="prompt" label="Prompts" />
        <Place hash="#/usage" icon="chart" label="Usage" />
        <Place hash="#/storage" icon="disk" label="Storage" />
        <Place hash="#/import" icon="import" label="Import" />
        <Place hash="#/settings" icon="settings" label="Settings" />
        <button type="button" class="place not-phone" title="All commands: Ctrl K" onClick={() => (paletteOpen.value = true)}>
          <Icon name="keyboard" />
          Keys
        </button>
        {hasKey() && (
          <button
            type="button"
            class="place"
            onClick={() => {
              setKey('', false);
              location.reload();
            }}
          >
            <Icon name="key" />
            Sign out
          </button>
        )}
      </footer>
    </nav>
  );
}

function Place({ hash, icon, label }: { hash: string; icon: string; label: string }): VNode {
  const isHere = `#/${route.value.view}` === hash;
  return (
    <a class="place" href={hash} aria-current={isHere ? 'page' : undefined} onClick={() => (sidebarOpen.value = false)}>
      <Icon name={icon} />
      {label}
    </a>
  );
}

// ---- the list ----

function Rows(): VNode {
  const scroller = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState({ top: 0, height: innerHeight, around: 0 });
  const look = () => {
    const box = scroller.current;
    if (!box) return;
    const top = Math.floor(box.scrollTop / rowHeight);
    setShown((old) => (old.top === top && old.height === box.clientHeight && old.around === aroundRows ? old : { top, height: box.clientHeight, around: aroundRows }));
    if (hasMore() && box.scrollTop + box.clientHeight * 3 > rows.value.length * rowHeight) void loadRows(true);
  };
  useEffect(() => {
    const observer = new ResizeObserver(look);
    if (scroller.current) observer.observe(scroller.current);
    return () => observer.disconnect();
  }, [listState.value]); // the box exists when the list is ready
  const all = rows.value;
  useEffect(look, [all]);
  if (listState.value === 'loading') return <div class="rows"><Loading /></div>;
  if (listState.value === 'failed')
    return (
      <div class="rows list-problem" role="alert">
        <p>{listProblem.value}</p>
        <Button small onClick={() => void loadRows()}>
          Try again
        </Button>
      </div>
    );
  const first = Math.max(0, shown.top - shown.around);
  const last = Math.min(all.length, shown.top + Math.ceil(shown.height / rowHeight) + shown.around);
  const onKey = (event: KeyboardEvent) => {
    const link = (event.target as HTMLElement).closest('.conversation');
    const next = event.key === 'ArrowDown' ? link?.nextElementSibling : event.key === 'ArrowUp' ? link?.previousElementSibling : null;
    if (!next) return;
    event.preventDefault();
    next.querySelector<HTMLElement>('a')?.focus();
  };
  return (
    <div class="rows" ref={scroller} onScroll={look} onKeyDown={onKey} tabIndex={-1}>
      {all.length === 0 && <p class="faint list-empty">No conversations yet. Write a message to start one.</p>}
      <ul style={{ height: `${all.length * rowHeight}px` }}>
        {all.slice(first, last).map((row, n) => (
          <Row key={row.id} row={row} top={(first + n) * rowHeight} at={first + n + 1} of={all.length} />
        ))}
      </ul>
    </div>
  );
}

const stateWords: Record<string, string> = { AwaitingToolApproval: 'waits for you', Failed: 'failed' };

function Row({ row, top, at, of }: { row: ContextRow; top: number; at: number; of: number }): VNode {
  const [renaming, setRenaming] = useState<string | null>(null);
  const isHere = route.value.id === row.id;
  const state = row.state ?? 'Idle';
  const isBusy = state !== 'Idle' && !stateWords[state];
  const word = isBusy ? 'answering' : stateWords[state];
  const rename = async () => {
    if (renaming === null) return;
    try {
      await patch(`/contexts/${row.id}`, { title: renaming });
      updateRow(row.id, { title: renaming });
    } catch (error) {
      notify(sentence(error));
    }
    setRenaming(null);
  };
  return (
    <li class={`conversation${isHere ? ' here' : ''}`} style={{ transform: `translateY(${top}px)` }} aria-setsize={of} aria-posinset={at}>
      {renaming === null ? (
        <a href={chatHash(row.id)} aria-current={isHere ? 'page' : undefined} onClick={() => (sidebarOpen.value = false)}>
          <span class="conversation-title" dir="auto">
            {row.title || 'Untitled'}
          </span>
          <span class="conversation-about">
            {word && (
              <span class={`state ${isBusy ? 'busy' : state === 'Failed' ? 'failed' : 'waits'}`}>
                {word}
              </span>
            )}
            {word && ' · '}
            {shortTime(row.updated_at)}
            {row.messages > 0 && ` · ${plural(row.messages, 'message')}`}
            {row.branches > 1 && ` · ${plural(row.branches, 'branch', 'branches')}`}
          </span>
        </a>
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void rename();
          }}
        >
          <input aria-label="Title" value={renaming} ref={focusAtFirst} onInput={(event) => setRenaming(event.currentTarget.value)} onBlur={() => void rename()} onKeyDown={(event) => event.key === 'Escape' && setRenaming(null)} />
        </form>
      )}
      <Menu
        small
        label={`Actions for ${row.title || 'Untitled'}`}
        items={[
          { label: 'Rename', icon: 'edit', run: () => setRenaming(row.title ?? '') },
          { label: 'Delete', icon: 'trash', danger: true, run: () => deleteConversation(row) },
        ]}
      />
    </li>
  );
}

// ---- search ----

function Hits({ query }: { query: string }): VNode {
  const [hits, setHits] = useState<Hit[] | null>(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      ask<{ hits: Hit[] }>(`/search?q=${encodeURIComponent(lastWordOpen(query))}&limit=50`, { signal: stop.signal }).then(
        (found) => {
          setHits(found.hits);
          setProblem('');
        },
        (error: unknown) => {
          if (!(error instanceof DOMException)) setProblem(sentence(error));
        },
      );
    }, 100);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [query]);
  const titles = rows.value.filter((row) => row.title?.toLowerCase().includes(query.trim().toLowerCase())).slice(0, 5);
  const onKey = (event: KeyboardEvent) => {
    const all = [...document.querySelectorAll<HTMLElement>('.sidebar .hit')];
    const at = all.indexOf(event.target as HTMLElement);
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    event.preventDefault();
    (all[at + (event.key === 'ArrowDown' ? 1 : -1)] ?? document.querySelector<HTMLElement>('#search'))?.focus();
  };
  return (
    <div class="rows results" onKeyDown={onKey}>
      {titles.map((row) => (
        <a key={row.id} class="hit" href={chatHash(row.id)} onClick={() => (sidebarOpen.value = false)}>
          <span class="conversation-title">{row.title}</span>
        </a>
      ))}
      {(hits ?? []).map((hit) => (
        <a key={hit.message_id} class="hit" href={chatHash(hit.context_id, hit.message_id, query)} onClick={() => (sidebarOpen.value = false)}>
          <span class="hit-head">
            <span class="conversation-title" dir="auto">
              {hit.title || 'Untitled'}
            </span>
            <span class="faint">{shortTime(hit.created_at)}</span>
          </span>
          <Snippet pieces={hit.snippet} />
        </a>
      ))}
      <p class="faint list-empty" role="status">
        {problem || (hits === null ? 'Searching…' : hits.length === 0 && titles.length === 0 ? 'No message has these words. Try fewer words or the beginning of one.' : '')}
      </p>
    </div>
  );
}
