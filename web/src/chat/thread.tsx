// The messages of a conversation as a virtual list: only what is near the window has nodes, positions
// that were never looked at have no message yet, and a reader's place does not move when the tail grows
// or older pages arrive.

import { elementScroll, observeElementOffset, observeElementRect, type Range, Virtualizer } from '@tanstack/virtual-core';
import { signal } from '@preact/signals';
import type { VNode } from 'preact';
import { useLayoutEffect, useMemo, useReducer, useRef } from 'preact/hooks';
import { painted } from '../lib/lazy';
import { Icon } from '../views/parts';
import { type Alternatives, alternativesOf } from './branches';
import type { Conversation, Row } from './conversation';
import { CompactionMark, markersOf } from './compaction';
import { AssistantMessage, isAnswer, Message, Sending } from './message';
import { Tail } from './tail';

type List = Virtualizer<HTMLElement, HTMLElement>;
const nearEnd = 60;

// What the cord needs to know about the list, and how it moves it.
export interface View {
  first: number;
  last: number;
}
export const view = signal<View>({ first: 0, last: 0 });
export const highlighted = signal('');
let current: { list: List; chat: Conversation } | null = null;
export const shownChat = (): Conversation | undefined => current?.chat;

// Goes to a message by its position, and marks it for a moment.
export function goTo(index: number, id = ''): void {
  if (!current) return;
  current.chat.ensure(index - 10, index + 10);
  current.list.scrollToIndex(index, { align: 'start' });
  highlighted.value = id;
  if (id)
    setTimeout(() => {
      if (highlighted.value === id) highlighted.value = '';
    }, 2400);
}

export function goToEnd(): void {
  current?.list.scrollToEnd();
}

// Heights before they are measured: by the number of tokens where the outline knows it.
function estimate(chat: Conversation, index: number): number {
  const row = chat.row(index);
  if (row.kind === 'tail') return 40;
  if (row.kind === 'message') return Math.min(2400, 90 + (row.message.text?.length ?? 0) * 0.38 + row.message.tool_calls.length * 44);
  return 150;
}

export function Thread({ chat }: { chat: Conversation }): VNode {
  const scroller = useRef<HTMLDivElement>(null);
  const [, update] = useReducer((n: number) => n + 1, 0);
  const list = useRef<List>(null);
  const kept = useRef(-1); // the row with the focus keeps its nodes

  void chat.version.value;
  const rowCount = chat.rowCount.value;
  const options = {
    count: rowCount,
    getScrollElement: () => scroller.current,
    estimateSize: (index: number) => estimate(chat, index),
    getItemKey: (index: number) => chat.row(index).key,
    overscan: painted.value ? 4 : 0,
    paddingStart: 24,
    paddingEnd: 16,
    anchorTo: 'end' as const,
    followOnAppend: true,
    scrollEndThreshold: nearEnd,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    rangeExtractor: (range: Range) => {
      const first = Math.max(0, range.startIndex - range.overscan);
      const last = Math.min(range.count - 1, range.endIndex + range.overscan);
      const shown = Array.from({ length: last - first + 1 }, (_, n) => first + n);
      const held = kept.current;
      if (held >= 0 && held < range.count && (held < first || held > last)) shown.push(held);
      return shown.sort((a, b) => a - b);
    },
    onChange: () => update(undefined as never),
    // The first picture shows the end already, before anything is measured.
    initialRect: { width: innerWidth, height: innerHeight },
    initialOffset: () => Math.max(0, (list.current?.getTotalSize() ?? 0) - innerHeight),
  };
  if (!list.current) list.current = new Virtualizer<HTMLElement, HTMLElement>(options);
  const virtual = list.current;
  virtual.setOptions(options);

  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  useLayoutEffect(() => {
    current = { list: virtual, chat };
    virtual.scrollToEnd();
    return () => {
      if (current?.list === virtual) current = null;
    };
  }, [chat, chat.opened.value, chat.branch.value]);

  // A stored message is the same node as before while nothing about it changed: Preact does not look into
  // it when the tail grows.
  const nodes = useRef(new WeakMap<object, { alternatives: Alternatives | undefined; isLast: boolean; key: string; node: VNode }>());
  const drawn = (row: Row, other: Alternatives | undefined, isLast: boolean): VNode => {
    if (row.kind !== 'message') return content(chat, row, other, isLast);
    const old = nodes.current.get(row.message);
    if (old && old.alternatives === other && old.isLast === isLast && old.key === row.key) return old.node;
    const node = content(chat, row, other, isLast);
    nodes.current.set(row.message, { alternatives: other, isLast, key: row.key, node });
    return node;
  };

  const items = virtual.getVirtualItems();
  const range = virtual.range;
  useLayoutEffect(() => {
    if (!range) return;
    chat.ensure(range.startIndex - 12, range.endIndex + 12);
    if (view.value.first !== range.startIndex || view.value.last !== range.endIndex) view.value = { first: range.startIndex, last: range.endIndex };
  });

  const alternatives = useMemo(() => alternativesOf(chat.outline.value, chat.branch.value), [chat.outline.value, chat.branch.value]);
  const markers = markersOf(chat);
  const total = chat.total.value;
  // From what the list knows: asking the page for its height would lay it out in the middle of drawing.
  const below = virtual.getTotalSize() - (virtual.scrollOffset ?? 0) - (virtual.scrollRect?.height ?? 0);
  const isAway = range !== null && below > nearEnd * 4;
  return (
    <div class="thread-area">
      <div
        ref={scroller}
        class="thread"
        role="log"
        aria-label="Messages"
        aria-live="off"
        tabIndex={0}
        onFocusIn={(event) => {
          const row = (event.target as HTMLElement).closest<HTMLElement>('[data-index]');
          kept.current = row ? Number(row.dataset.index) : -1;
        }}
        onFocusOut={() => (kept.current = -1)}
      >
        <div class="thread-size" style={{ height: `${virtual.getTotalSize()}px` }}>
          {items.map((item) => {
            const row = chat.row(item.index);
            const id = row.kind === 'message' ? row.message.id : '';
            return (
              <div key={item.key} class={`row${id && highlighted.value === id ? ' found' : ''}`} data-index={item.index} data-id={id || undefined} ref={virtual.measureElement} style={{ transform: `translateY(${item.start}px)` }}>
                <div class="column">
                  {drawn(row, alternatives.get(item.index), item.index === total - 1)}
                  {id && markers.get(id)?.map((marker) => <CompactionMark key={marker.id} chat={chat} marker={marker} />)}
                </div>
              </div>
            );
          })}
        </div>
      </div>
      {isAway && (
        <button type="button" class="to-end" onClick={() => virtual.scrollToEnd()}>
          <Icon name="down" size={16} /> {chat.busy.value ? 'Follow the answer' : 'To the end'}
        </button>
      )}
    </div>
  );
}

function content(chat: Conversation, row: Row, alternatives: Alternatives | undefined, isLast: boolean): VNode {
  switch (row.kind) {
    case 'message':
      if (isAnswer(row.message)) return <AssistantMessage chat={chat} message={row.message} alternatives={alternatives} isLast={isLast} wasStreamed={row.key !== row.message.id} />;
      return <Message chat={chat} message={row.message} alternatives={alternatives} isLast={isLast} />;
    case 'answer':
      return <AssistantMessage chat={chat} answer={row.answer} isLast={false} />;
    case 'sending':
      return <Sending parts={row.parts} />;
    case 'missing':
      return <Missing />;
    case 'tail':
      return <Tail chat={chat} />;
  }
}

// The place of a message that is on its way.
function Missing(): VNode {
  return (
    <div class="missing" aria-hidden="true">
      <i />
      <i />
      <i />
    </div>
  );
}
