// The frame of views that are not a conversation.

import type { ComponentChildren, VNode } from 'preact';
import { sidebarOpen } from '../lib/store';
import { Button } from './parts';

export function Page({ title, lead, children, acts }: { title: string; lead?: string; children: ComponentChildren; acts?: ComponentChildren }): VNode {
  return (
    <main class="page" tabIndex={-1}>
      <header class="page-head">
        <Button class="only-phone" icon="menu" kind="quiet" label="Conversations" onClick={() => (sidebarOpen.value = true)} />
        <div>
          <h1>{title}</h1>
          {lead && <p class="faint">{lead}</p>}
        </div>
        <span class="push" />
        {acts}
      </header>
      {children}
    </main>
  );
}

interface SegmentsProps<T> {
  name: string;
  label: string;
  value: T;
  options: [T, string][];
  onChange: (value: T) => void;
}

// One of a few values.
export function Segments<T extends string | number | boolean>({ name, label, value, options, onChange }: SegmentsProps<T>): VNode {
  return (
    <div class="segments" role="radiogroup" aria-label={label}>
      {options.map(([one, text]) => (
        <label key={String(one)}>
          <input type="radio" name={name} checked={value === one} onChange={() => onChange(one)} />
          <span>{text}</span>
        </label>
      ))}
    </div>
  );
}

export interface Bar {
  label: string;
  value: number;
  shown: string;
  href?: string;
  act?: VNode;
  isPart?: boolean; // of the bar above
}

// Sizes as bars, largest first: readable as a list too.
export function Bars({ bars, label }: { bars: Bar[]; label: string }): VNode {
  const most = Math.max(1, ...bars.map((bar) => bar.value));
  return (
    <ul class={`bars${bars.some((bar) => bar.act) ? ' acts' : ''}`} aria-label={label}>
      {bars.map((bar, n) => (
        <li key={n} class={bar.isPart ? 'part' : undefined}>
          {bar.href ? <a href={bar.href}>{bar.label}</a> : <span>{bar.label}</span>}
          <div class="bar">
            {bar.value > 0 && <i style={{ width: `${Math.max(0.6, (bar.value / most) * 100)}%` }} />}
          </div>
          <span class="bar-value">{bar.shown}</span>
          {bar.act}
        </li>
      ))}
    </ul>
  );
}
