// Small parts that every view uses: icons, buttons, dialogs, menus, states.

import type { ButtonHTMLAttributes, ComponentChildren, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { painted } from '../lib/lazy';

// Line drawings on a grid of 20.
const paths: Record<string, string> = {
  plus: 'M10 4v12M4 10h12',
  search: 'M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM13 13l4 4',
  send: 'M10 16V4M5 9l5-5 5 5',
  stop: 'M6 6h8v8H6z',
  copy: 'M7 7V4h9v9h-3M4 7h9v9H4z',
  check: 'M4 10.5l4 4 8-9',
  edit: 'M4 16l.8-3.2L13 4.6a1.4 1.4 0 0 1 2 0l.4.4a1.4 1.4 0 0 1 0 2L7.200 15.2z',
  retry: 'M15.500 7A6.200 6.200 0 1 0 16 11M16 4v3.500h-3.500',
  left: 'M12 5l-5 5 5 5',
  right: 'M8 5l5 5-5 5',
  down: 'M5 8l5 5 5-5',
  up: 'M5 12l5-5 5 5',
  close: 'M5 5l10 10M15 5L5 15',
  menu: 'M3.500 6h13M3.500 10h13M3.500 14h9',
  more: 'M5 10h.01M10 10h.01M15 10h.01',
  pin: 'M12.500 3l4.500 4.500-2.500.800-2.700 2.700-.3 3.500-5.500-5.500 3.500-.3 2.700-2.700zM8 12l-4 4',
  trash: 'M4 6h12M8 6V4h4v2M6 6l.7 10h6.600L14 6',
  branch: 'M6 3.500v13M6 8c0 4 8 1 8 5.500v3M4.500 3.500h3',
  gauge: 'M3.500 14a7 7 0 1 1 13 0M10 13l3-5',
  eye: 'M2.500 10S5 5 10 5s7.500 5 7.500 5-2.500 5-7.500 5-7.500-5-7.500-5zM10 8.200a1.800 1.800 0 1 0 0 3.600 1.800 1.800 0 0 0 0-3.600z',
  prompt: 'M4 4h12v9h-5l-4 3.500V13H4z',
  chart: 'M4 16V9M8 16V5M12 16v-5M16 16V8',
  disk: 'M4 6c0-1.500 3-2.500 6-2.500s6 1 6 2.500-3 2.500-6 2.500S4 7.500 4 6zM4 6v8c0 1.500 3 2.500 6 2.500s6-1 6-2.500V6M4 10c0 1.500 3 2.500 6 2.500s6-1 6-2.500',
  import: 'M10 3v9M6 8.500l4 4 4-4M4 16h12',
  export: 'M10 12.500V3.500M6 7l4-4 4 4M4 16h12',
  settings: 'M4 6h7M15 6h1M4 14h1M9 14h7M13 4v4M7 12v4',
  file: 'M5.500 3h6l3.500 3.500V17h-9.500zM11 3v4h4',
  terminal: 'M3.500 4.500h13v11h-13zM6 8l2.500 2L6 12M10 12.500h3.500',
  tool: 'M12.500 3.500a4 4 0 0 0-4 5.500L3.500 14l2.500 2.500 5-5a4 4 0 0 0 5.500-5L14 9l-2.500-.5L11 6z',
  list: 'M7 5h9M7 10h9M7 15h9M4 5h.01M4 10h.01M4 15h.01',
  image: 'M3.500 4.500h13v11h-13zM3.500 13l4-4 3.500 3.500 2-2 3.500 3.500M13 8h.01',
  wrap: 'M4 5h12M4 10h9a2.500 2.500 0 0 1 0 5h-3M11.500 13l-2 2 2 2M4 15h2.500',
  warn: 'M10 3.500L17.500 16h-15zM10 8.500v3.500M10 14.200h.01',
  undo: 'M7 5L3.500 8.500 7 12M4 8.500h7.500a4 4 0 0 1 0 8H8',
  redo: 'M13 5l3.500 3.500L13 12M16 8.500H8.500a4 4 0 0 0 0 8H12',
  key: 'M7 9.500a3.500 3.500 0 1 1 3.200 2H10L8.500 13H7v1.500H5.500V16H3.500v-2.500zM13 7h.01',
  compare: 'M4 4h5v12H4zM11 4h5v12h-5z',
  keyboard: 'M3 5.500h14v9H3zM6 8.500h.01M9 8.500h.01M12 8.500h.01M14.500 8.500h.01M6.500 11.500h7',
};

export function Icon({ name, size = 18 }: { name: string; size?: number }): VNode {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width={name === 'more' ? 2.4 : 1.6} stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={paths[name] ?? paths.tool} />
    </svg>
  );
}

// The sign of quipu: cords that hang from a main cord, with knots.
export function Sign({ size = 22 }: { size?: number }): VNode {
  return (
    <svg class="sign" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <path d="M2 4.500h20M6.500 4.500v14M12 4.500v10M17.500 4.500v16" fill="none" stroke="currentColor" stroke-width="1.700" stroke-linecap="round" />
      <g fill="currentColor">
        <rect x="4.200" y="8" width="4.600" height="3.400" rx="1.700" />
        <rect x="4.200" y="13.600" width="4.600" height="3.400" rx="1.700" />
        <rect x="9.700" y="9.600" width="4.600" height="3.400" rx="1.700" />
        <rect x="15.200" y="12.200" width="4.600" height="3.400" rx="1.700" />
      </g>
    </svg>
  );
}

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { icon?: string; label?: string; kind?: 'plain' | 'primary' | 'quiet' | 'danger'; small?: boolean; disabled?: boolean; type?: 'button' | 'submit' };

export function Button({ icon, label, kind = 'plain', small, children, class: more, type = 'button', ...rest }: ButtonProps): VNode {
  const onlyIcon = icon && !children;
  return (
    <button type={type} class={`button ${kind}${onlyIcon ? ' only-icon' : ''}${small ? ' small' : ''}${more ? ` ${String(more)}` : ''}`} aria-label={onlyIcon ? label : undefined} title={label} {...rest}>
      {icon && <Icon name={icon} size={small ? 16 : 18} />}
      {children}
    </button>
  );
}

// A `ref` that focuses a field once, when it appears.
const focused = new WeakSet<HTMLElement>();
export function focusAtFirst(box: HTMLElement | null): void {
  if (!box || focused.has(box)) return;
  focused.add(box);
  box.focus();
}

export function CopyButton({ text, label }: { text: () => string; label: string }): VNode | null {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text());
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  if (!painted.value) return null;
  return <Button small kind="quiet" icon={done ? 'check' : 'copy'} label={done ? 'Copied' : label} onClick={() => void copy()} />;
}

// A modal dialog of the browser: it traps the focus and closes with Escape.
export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={`dialog${wide ? ' wide' : ''}`}
      aria-label={title}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) dialog.current?.close();
      }}
    >
      <header>
        <h2>{title}</h2>
        <Button icon="close" kind="quiet" label="Close" onClick={() => dialog.current?.close()} />
      </header>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

// A button that opens a list of actions.
export function Menu({ label, icon = 'more', items, small }: { label: string; icon?: string; small?: boolean; items: ({ label: string; icon?: string; run: () => void; danger?: boolean; disabled?: boolean } | null)[] }): VNode | null {
  const [open, setOpen] = useState(false);
  const holder = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    const away = (event: Event) => {
      if (!holder.current?.contains(event.target as globalThis.Node)) setOpen(false);
    };
    addEventListener('pointerdown', away);
    holder.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
    return () => removeEventListener('pointerdown', away);
  }, [open]);
  const onKey = (event: KeyboardEvent) => {
    if (!open) return;
    const all = [...(holder.current?.querySelectorAll<HTMLElement>('[role=menuitem]:not(:disabled)') ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === 'Escape') {
      setOpen(false);
      holder.current?.querySelector<HTMLElement>('button')?.focus();
      event.stopPropagation();
    } else if (event.key === 'ArrowDown') all[(at + 1) % all.length]?.focus();
    else if (event.key === 'ArrowUp') all[(at + all.length - 1) % all.length]?.focus();
    else return;
    event.preventDefault();
  };
  if (!painted.value) return null;
  return (
    <div class="menu" ref={holder} onKeyDown={onKey}>
      <Button icon={icon} kind="quiet" small={small ?? false} label={label} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)} />
      {open && (
        <div class="menu-list" role="menu" aria-label={label}>
          {items.map(
            (item) =>
              item && (
                <button
                  key={item.label}
                  type="button"
                  role="menuitem"
                  class={item.danger ? 'danger' : undefined}
                  disabled={item.disabled}
                  onClick={() => {
                    setOpen(false);
                    item.run();
                  }}
                >
                  {item.icon && <Icon name={item.icon} size={16} />}
                  {item.label}
                </button>
              ),
          )}
        </div>
      )}
    </div>
  );
}

// A state in which there is nothing to show: what it means and what can be done next.
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): VNode {
  return (
    <div class="empty">
      <svg class="empty-cord" viewBox="0 0 120 64" width="120" height="64" aria-hidden="true">
        <path d="M6 8h108M30 8v34M60 8v44M90 8v26" />
        <rect x="25" y="20" width="10" height="7" rx="3.500" />
        <rect x="55" y="18" width="10" height="7" rx="3.500" />
        <rect x="55" y="32" width="10" height="7" rx="3.500" />
      </svg>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Loading({ label = 'Loading' }: { label?: string }): VNode {
  return (
    <p class="loading" role="status">
      <span class="loading-cord" aria-hidden="true" />
      {label}
    </p>
  );
}

export function Notice({ kind = 'warn', children, actions }: { kind?: 'warn' | 'error' | 'info'; children: ComponentChildren; actions?: ComponentChildren }): VNode {
  return (
    <div class={`notice ${kind}`} role={kind === 'error' ? 'alert' : 'status'}>
      <Icon name="warn" />
      <div class="notice-text">{children}</div>
      {actions && <div class="notice-actions">{actions}</div>}
    </div>
  );
}

// A text that follows the pieces of a search hit.
export function Snippet({ pieces }: { pieces: { text: string; match: boolean }[] | string }): VNode {
  if (typeof pieces === 'string') return <span class="snippet">{pieces}</span>;
  return <span class="snippet">{pieces.map((piece, n) => (piece.match ? <mark key={n}>{piece.text}</mark> : piece.text))}</span>;
}
