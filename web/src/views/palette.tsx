// The command palette and the keyboard shortcuts: everything by a few keys.

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { chatHash, go, paletteOpen, rows, set, settings, sidebarOpen, togglePanel, route } from '../lib/store';

interface Command {
  label: string;
  keys?: string;
  run: () => void;
}

const focus = (selector: string) => document.querySelector<HTMLElement>(selector)?.focus();

function nextConversation(by: 1 | -1): void {
  const at = rows.value.findIndex((row) => row.id === route.value.id);
  const next = rows.value[Math.max(0, Math.min(rows.value.length - 1, at + by))];
  if (next) go(chatHash(next.id));
}

function branchPoint(by: 1 | -1): void {
  void import('../chat/chat').then(({ stepBranchPoint }) => stepBranchPoint(by));
}

function commands(): Command[] {
  const inChat = route.value.view === 'chat';
  const all: (Command | false)[] = [
    { label: 'New conversation', keys: 'Ctrl Shift O', run: () => go('#/') },
    { label: 'Search all conversations', keys: '/', run: () => { sidebarOpen.value = true; focus('#search'); } },
    inChat && { label: 'Find in this conversation', keys: 'Ctrl Shift F', run: () => togglePanel('find') },
    inChat && { label: 'Outline', keys: 'Ctrl Shift L', run: () => togglePanel('outline') },
    inChat && { label: 'Window and compaction', run: () => togglePanel('context') },
    inChat && { label: 'Model and prompt', run: () => togglePanel('branches') },
    inChat && { label: 'Next branch point', keys: 'Alt Shift ↓', run: () => branchPoint(1) },
    inChat && { label: 'Previous branch point', keys: 'Alt Shift ↑', run: () => branchPoint(-1) },
    { label: 'Next conversation', keys: 'Alt ↓', run: () => nextConversation(1) },
    { label: 'Previous conversation', keys: 'Alt ↑', run: () => nextConversation(-1) },
    { label: 'Write a message', keys: 'Esc', run: () => focus('#composer') },
    { label: 'Prompt library', run: () => go('#/prompts') },
    { label: 'Usage and cost', run: () => go('#/usage') },
    { label: 'Storage', run: () => go('#/storage') },
    { label: 'Import', run: () => go('#/import') },
    { label: 'Settings', run: () => go('#/settings') },
    { label: settings.value.theme === 'dark' ? 'Light colours' : 'Dark colours', run: () => set({ theme: settings.value.theme === 'dark' ? 'light' : 'dark' }) },
  ];
  return all.filter((one): one is Command => Boolean(one));
}

// From the beginning, before anything is drawn.
export function listenToKeys(): void {
  addEventListener('keydown', (event) => {
    const mod = event.ctrlKey || event.metaKey;
    const inText = event.target instanceof Element && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (mod && event.key.toLowerCase() === 'k') paletteOpen.value = !paletteOpen.value;
    else if (mod && event.shiftKey && event.key.toLowerCase() === 'o') go('#/');
    else if (mod && event.shiftKey && event.key.toLowerCase() === 'f') togglePanel('find');
    else if (mod && event.shiftKey && event.key.toLowerCase() === 'l') togglePanel('outline');
    else if (event.altKey && event.key === 'ArrowDown') (event.shiftKey ? branchPoint : nextConversation)(1);
    else if (event.altKey && event.key === 'ArrowUp') (event.shiftKey ? branchPoint : nextConversation)(-1);
    else if (!inText && !mod && event.key === '/') focus('#search');
    else return;
    event.preventDefault();
  });
}

export function Palette(): VNode | null {
  return paletteOpen.value ? <OpenPalette /> : null;
}

function OpenPalette(): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [query, setQuery] = useState('');
  const [at, setAt] = useState(0);
  useEffect(() => dialog.current?.showModal(), []);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (text: string) => words.every((word) => text.toLowerCase().includes(word));
  const found: Command[] = [
    ...commands().filter((one) => fits(one.label)),
    ...(words.length > 0 ? rows.value.filter((row) => fits(row.title ?? '')).slice(0, 8).map((row) => ({ label: row.title || 'Untitled', keys: 'conversation', run: () => go(chatHash(row.id)) })) : []),
  ];
  const run = (command: Command | undefined) => {
    if (!command) return;
    dialog.current?.close();
    // After the dialog gave the focus back.
    setTimeout(command.run);
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Commands" onClose={() => (paletteOpen.value = false)} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={`command-${at}`}
        aria-label="Command or conversation"
        placeholder="What do you want to do?"
        value={query}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') setAt(Math.min(found.length - 1, at + 1));
          else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1));
          else if (event.key === 'Enter') run(found[at]);
          else return;
          event.preventDefault();
        }}
      />
      <ul id="palette-list" role="listbox" aria-label="Commands">
        {found.map((command, n) => (
          <li key={command.label + n} id={`command-${n}`} role="option" aria-selected={n === at} class={n === at ? 'on' : undefined} onPointerMove={() => setAt(n)} onClick={() => run(command)}>
            {command.label}
            {command.keys && <kbd>{command.keys}</kbd>}
          </li>
        ))}
        {found.length === 0 && <li role="option" aria-selected="false" aria-disabled="true">Nothing fits.</li>}
      </ul>
    </dialog>
  );
}
