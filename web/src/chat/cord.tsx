// The cord: the whole conversation as a quipu, at its side. It is outline, branch switcher and scroll
// bar in one. A knot is a message (the user's own are larger), a side cord is a branch, a wrapped stretch
// was compacted, and a frame shows where the reader is. It comes from the index alone, and a long
// conversation is drawn by its landmarks, so its cost does not grow with the history.

import { signal } from '@preact/signals';
import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { inPath, tryAsk } from '../lib/api';
import { painted } from '../lib/lazy';
import { notify } from '../lib/store';
import type { Outline, OutlineItem } from '../lib/types';
import { plural, roleWord } from '../lib/words';
import type { Conversation } from './conversation';
import { goTo, view } from './thread';

const top = 14;
const most = 34; // between two knots
const axis = 27;
const width = 72;

// Positions that a search found, from 1.
export const marks = signal<number[]>([]);

// The outline of the server; without one, what is loaded.
export function outlineOf(chat: Conversation): Outline {
  const known = chat.outline.value;
  if (known && known.branch === chat.branch.value) return { ...known, count: Math.max(known.count, chat.total.value), items: withSums(known) };
  const items = chat.loaded().map(([index, message]): OutlineItem => ({ at: index + 1, id: message.id, role: message.role }));
  return { branch: chat.branch.value, count: chat.total.value, items, branches: [] };
}

// A long conversation lists its newest landmarks; before them a knot stands for a stretch.
function withSums(outline: Outline): OutlineItem[] {
  const first = outline.items[0]?.at ?? Infinity;
  const sums = (outline.buckets ?? []).filter((sum) => sum.from < first);
  return [...sums.map((sum): OutlineItem => ({ at: sum.from, id: '', role: sum.prompts > 0 ? 'user' : 'assistant' })), ...outline.items];
}

export function layout(count: number, height: number): (at: number) => number {
  const room = Math.max(0, height - top * 2);
  const step = count > 1 ? Math.min(most, room / (count - 1)) : 0;
  return (at) => top + (at - 1) * step;
}

// At most one knot per few pixels: the most telling one.
const rank = (item: OutlineItem): number => (item.error ? 4 : item.pinned ? 3 : item.role === 'user' ? 2 : item.role === 'assistant' ? 1 : 0);
function thin(items: OutlineItem[], y: (at: number) => number): OutlineItem[] {
  if (items.length < 2 || y(2) - y(1) >= 6) return items;
  const best = new Map<number, OutlineItem>();
  for (const item of items) {
    const slot = Math.floor(y(item.at) / 7);
    const old = best.get(slot);
    if (!old || rank(item) > rank(old)) best.set(slot, item);
  }
  return [...best.values()];
}

// The next or the previous message that has alternatives.
export function goToBranchPoint(chat: Conversation, by: 1 | -1): void {
  const points = outlineOf(chat).items.filter((item) => (item.alternatives ?? 1) > 1);
  const { first, last: end } = view.value;
  const here = last.id === chat.id && first < last.at && last.at <= end + 1 ? last.at : first + 1;
  const next = by > 0 ? points.find((item) => item.at > here) : points.findLast((item) => item.at < here);
  if (!next) return notify(points.length === 0 ? 'This conversation has no branch points.' : by > 0 ? 'This is the last branch point.' : 'This is the first branch point.');
  last = { id: chat.id, at: next.at };
  goTo(next.at - 1, next.id);
}
let last = { id: '', at: 0 }; // where this led to

const previews = new Map<string, string>();

async function previewOf(chat: Conversation, item: OutlineItem): Promise<string> {
  const loaded = chat.message(item.at - 1);
  if (loaded?.text) return loaded.text.slice(0, 160);
  if (!item.id) {
    const page = await tryAsk<{ messages: { text: string | null }[] }>(`/contexts/${chat.id}/messages?branch=${inPath(chat.branch.value)}&offset=${item.at - 1}&limit=1`).catch(() => undefined);
    return page?.messages[0]?.text?.slice(0, 160) ?? '';
  }
  const known = previews.get(item.id);
  if (known !== undefined) return known;
  const found = await tryAsk<{ previews: { id: string; text?: string; preview?: string }[] }>(`/contexts/${chat.id}/previews?ids=${item.id}`).catch(() => undefined);
  const first = found?.previews[0];
  const text = first?.text ?? first?.preview ?? '';
  previews.set(item.id, text);
  return text;
}


export function Cord({ chat }: { chat: Conversation }): VNode | null {
  const holder = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(0);
  const [hover, setHover] = useState<{ item: OutlineItem; text: string; y: number } | null>(null);
  const [cursor, setCursor] = useState(-1);
  useEffect(() => {
    if (!holder.current) return undefined;
    const observer = new ResizeObserver(([entry]) => setHeight(entry?.contentRect.height ?? 0));
    observer.observe(holder.current);
    return () => observer.disconnect();
  }, []);

  const outline = outlineOf(chat);
  const y = layout(outline.count, height);
  const stops = outline.items.filter((item) => item.role === 'user' || item.kind === 'branch_point' || item.pinned || item.error);
  const shown = view.value;
  const nearest = (at: number): OutlineItem | undefined => outline.items.reduce<OutlineItem | undefined>((best, item) => (!best || Math.abs(item.at - at) < Math.abs(best.at - at) ? item : best), undefined);
  const positionAt = (event: PointerEvent): number => {
    const box = holder.current?.getBoundingClientRect();
    const at = y(2) > y(1) ? (event.clientY - (box?.top ?? 0) - top) / (y(2) - y(1)) + 1 : 1;
    return Math.max(1, Math.min(outline.count, Math.round(at)));
  };
  const show = (item: OutlineItem | undefined) => {
    if (!item) return;
    setHover({ item, text: '', y: y(item.at) });
    void previewOf(chat, item).then((text) => setHover((now) => (now?.item === item ? { ...now, text } : now)));
  };
  const jump = (at: number, id = '') => goTo(at - 1, id);

  const onKey = (event: KeyboardEvent) => {
    const at = cursor < 0 ? stops.findLastIndex((item) => item.at <= shown.first + 1) : cursor;
    let next = at;
    if (event.key === 'ArrowDown') next = Math.min(stops.length - 1, at + 1);
    else if (event.key === 'ArrowUp') next = Math.max(0, at - 1);
    else if (event.key === 'Home') next = 0;
    else if (event.key === 'End') next = stops.length - 1;
    else if (event.key === 'Escape') return setHover(null);
    else return;
    event.preventDefault();
    const item = stops[next];
    if (!item) return;
    setCursor(next);
    show(item);
    jump(item.at, item.id);
  };

  if (outline.count === 0 || !painted.value) return <div class="cord" ref={holder} aria-hidden="true" />;
  const end = y(outline.count);
  const frameTop = y(Math.min(outline.count, shown.first + 1)) - 11;
  const frameEnd = y(Math.min(outline.count, shown.last + 1)) + 11;
  const compacted = chat.window.value?.compaction;
  const covered = compacted ? Math.min(outline.count, compacted.covered) : 0;
  const isLive = chat.busy.value;
  return (
    <div class="cord" ref={holder}>
      <div
        class="cord-touch"
        role="slider"
        tabIndex={0}
        aria-orientation="vertical"
        aria-label="Conversation"
        aria-valuemin={1}
        aria-valuemax={Math.max(1, outline.count)}
        aria-valuenow={Math.min(outline.count, shown.first + 1)}
        aria-valuetext={`Message ${shown.first + 1} of ${outline.count}`}
        onKeyDown={onKey}
        onBlur={() => {
          setHover(null);
          setCursor(-1);
        }}
        onPointerMove={(event) => {
          const at = positionAt(event);
          const item = nearest(at);
          if (item && hover?.item !== item) show(item);
          if (event.buttons === 1) jump(at);
        }}
        onPointerLeave={() => setHover(null)}
        onClick={(event) => {
          const item = nearest(positionAt(event as unknown as PointerEvent));
          if (item) jump(item.at, item.id);
        }}
      >
        <svg width={width} height={Math.max(0, height)} aria-hidden="true">
          <rect class="cord-frame" x={axis - 17} y={frameTop} width={34} height={Math.max(14, frameEnd - frameTop)} rx="12" />
          <path class="cord-main" d={`M${axis} 0V${end}`} />
          {covered > 0 && <Wrapped from={y(1) - 6} to={y(covered) + 4} />}
          <SideCords chat={chat} outline={outline} y={y} />
          {thin(outline.items, y).map((item) => (
            <Knot key={item.at} item={item} y={y(item.at)} />
          ))}
          {isLive && <circle class="cord-live" cx={axis} cy={end + Math.min(14, most / 2)} r="3" />}
          {marks.value.map((at) => (
            <path key={at} class="cord-hit" d={`M${axis + 12} ${y(at)}h10`} />
          ))}
        </svg>
      </div>
      {hover && (
        <div class={`cord-tip${hover.y > height * 0.6 ? ' above' : ''}`} style={{ top: `${hover.y}px` }}>
          <strong>{roleWord(hover.item.role)}</strong>
          <span>{hover.item.at}</span>
          <p dir="auto">{hover.text || (hover.item.alternatives && hover.item.alternatives > 1 ? plural(hover.item.alternatives, 'alternative') : '…')}</p>
        </div>
      )}
    </div>
  );
}

function Knot({ item, y }: { item: OutlineItem; y: number }): VNode {
  const isOwn = item.role === 'user';
  return (
    <g class={`knot ${item.role}${item.error ? ' error' : ''}`}>
      {isOwn ? <rect x={axis - 8} y={y - 5.5} width="16" height="11" rx="5.500" /> : item.role === 'tool' ? <rect x={axis - 3} y={y - 2} width="6" height="4" rx="2" /> : <rect x={axis - 5} y={y - 3.5} width="10" height="7" rx="3.500" />}
      {isOwn && <path class="knot-turn" d={`M${axis - 3.5} ${y - 5}q3 5 0 10M${axis + 1.5} ${y - 5}q3 5 0 10`} />}
      {item.pinned && <path class="knot-pin" d={`M${axis - 20} ${y}l4.500-4.500 4.500 4.500-4.500 4.500z`} />}
    </g>
  );
}

// The stretch that the model sees as a summary: the cord is wound with thread.
function Wrapped({ from, to }: { from: number; to: number }): VNode {
  const turns: string[] = [];
  const step = Math.max(6, (to - from) / 120);
  for (let at = from + 4; at < to - 2; at += step) turns.push(`M${axis - 5} ${at}l10 4`);
  return (
    <g class="cord-wrapped">
      <rect x={axis - 5} y={from} width="10" height={Math.max(4, to - from)} rx="5" />
      <path d={turns.join('')} />
    </g>
  );
}

function SideCords({ chat, outline, y }: { chat: Conversation; outline: Outline; y: (at: number) => number }): VNode {
  const taken = new Map<number, number>();
  return (
    <>
      {outline.branches
        .filter((branch) => branch.name !== outline.branch)
        .slice(0, 60)
        .map((branch) => {
          const from = y(Math.max(1, branch.fork_at || 1));
          const slot = taken.get(branch.fork_at) ?? 0;
          taken.set(branch.fork_at, slot + 1);
          const x = axis + 18 + Math.min(slot, 2) * 10;
          const length = Math.min(44, 16 + ((branch.messages ?? branch.fork_at + 2) - branch.fork_at) * 5);
          const path = `M${axis} ${from}q${x - axis} 2 ${x - axis} 14v${length}`;
          return (
            <g key={branch.name} class="side-cord" onClick={(event) => {
              event.stopPropagation();
              void chat.switchBranch(branch.name);
            }}>
              <title>{`Switch to “${branch.name}”`}</title>
              <path class="side-touch" d={path} />
              <path class="side-line" d={path} />
              <rect x={x - 3} y={from + 14 + length - 6} width="6" height="5" rx="2.500" />
            </g>
          );
        })}
    </>
  );
}
