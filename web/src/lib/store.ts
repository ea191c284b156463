// What the whole page shares: the address, the list of conversations, models, settings, short notes.

import { batch, effect, signal } from '@preact/signals';
import { ask, Problem, remove as removeAt, sentence } from './api';
import type { ContextRow, Model, Prompt, Tool } from './types';

// ---- address ----

export interface Route {
  view: 'home' | 'chat' | 'prompts' | 'usage' | 'storage' | 'import' | 'settings';
  id: string;
  message: string;
  query: string;
}

function readRoute(): Route {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [first = '', id = '', , message = ''] = path.split('/').map(decodeURIComponent);
  const none = { id: '', message: '', query: '' };
  if (first === 'c' && /^[0-9a-f-]{36}$/i.test(id)) return { view: 'chat', id, message, query };
  if (first === 'prompts' || first === 'usage' || first === 'storage' || first === 'import' || first === 'settings') return { view: first, ...none };
  return { view: 'home', ...none };
}

export const route = signal<Route>(readRoute());
addEventListener('hashchange', () => (route.value = readRoute()));
export const go = (hash: string): void => void (location.hash = hash);
export const chatHash = (id: string, message = '', query = ''): string => `#/c/${id}${message ? `/m/${message}` : ''}${query ? `?${encodeURIComponent(query)}` : ''}`;

// ---- conversations ----

const listPage = 100;
export const rows = signal<ContextRow[]>([]);
export const listState = signal<'loading' | 'ready' | 'failed'>('loading');
export const listProblem = signal('');
const cursor = signal<string | null>(null);
export const hasMore = (): boolean => cursor.value !== null;
let listing = false;
const hidden = new Set<string>(); // deleted, but may still be undone

interface Page {
  contexts: (ContextRow | { id: string; error: string })[];
  next_cursor: string | null;
}

const asRow = (one: Page['contexts'][0]): ContextRow =>
  'error' in one
    ? { id: one.id, title: 'Cannot be read', created_at: '', updated_at: '', messages: 0, message_bytes: 0, branches: 0, model_id: null, mode: null, state: 'Failed', owner: null, summary: one.error, needs_migration: false }
    : one;

export async function loadRows(more = false): Promise<void> {
  if (listing) return;
  listing = true;
  try {
    const page = await ask<Page>(`/contexts?limit=${listPage}${more && cursor.value ? `&cursor=${encodeURIComponent(cursor.value)}` : ''}`);
    const found = page.contexts.map(asRow).filter((row) => !hidden.has(row.id));
    batch(() => {
      if (more) {
        const known = new Set(rows.value.map((row) => row.id));
        rows.value = [...rows.value, ...found.filter((row) => !known.has(row.id))];
        cursor.value = page.next_cursor;
      } else {
        // The first page again: what is below it stays loaded.
        const fresh = new Set(found.map((row) => row.id));
        const oldest = found.at(-1)?.updated_at ?? '';
        const below = page.next_cursor ? rows.value.filter((row) => !fresh.has(row.id) && row.updated_at <= oldest) : [];
        rows.value = [...found, ...below];
        if (below.length === 0) cursor.value = page.next_cursor;
      }
      listState.value = 'ready';
    });
  } catch (error) {
    listProblem.value = sentence(error);
    if (rows.value.length === 0 && !(error instanceof Problem && error.status === 401)) listState.value = 'failed';
  } finally {
    listing = false;
  }
}

export function updateRow(id: string, change: Partial<ContextRow>): void {
  rows.value = rows.value.map((row) => (row.id === id ? { ...row, ...change } : row));
}

// Tabs tell each other that the list changed.
const channel = new BroadcastChannel('quipu:list');
channel.onmessage = () => void loadRows();
export function listChanged(): void {
  channel.postMessage('changed');
  void loadRows();
}

// Deleting waits until it cannot be undone any more; closing the page carries it out.
export function deleteConversation(row: { id: string; title: string | null }): void {
  hidden.add(row.id);
  rows.value = rows.value.filter((one) => one.id !== row.id);
  if (route.value.id === row.id) go('#/');
  const carryOut = () => {
    removeEventListener('pagehide', carryOut);
    void removeAt(`/contexts/${row.id}`)
      .catch((error: unknown) => {
        hidden.delete(row.id);
        notify(`Cannot delete “${row.title || 'Untitled'}”: ${sentence(error)}`);
      })
      .then(() => listChanged());
  };
  addEventListener('pagehide', carryOut);
  notify(`Deleted “${row.title || 'Untitled'}”`, {
    label: 'Undo',
    run: () => {
      removeEventListener('pagehide', carryOut);
      hidden.delete(row.id);
      void loadRows();
    },
    otherwise: carryOut,
  });
}

// ---- notes ----

export interface Note {
  id: number;
  text: string;
  action?: { label: string; run: () => void; otherwise?: () => void };
}
export const notes = signal<Note[]>([]);
let noteId = 0;
const noteTime = 8000;

export function notify(text: string, action?: Note['action']): void {
  const note: Note = action ? { id: ++noteId, text, action } : { id: ++noteId, text };
  notes.value = [...notes.value, note];
  setTimeout(() => {
    if (notes.value.includes(note)) {
      dismiss(note);
      note.action?.otherwise?.();
    }
  }, noteTime);
}

export function dismiss(note: Note): void {
  notes.value = notes.value.filter((one) => one !== note);
}

// ---- models, prompts, tools ----

export const models = signal<{ models: Model[]; default: string } | null>(null);
export const prompts = signal<Prompt[] | null>(null);
export const tools = signal<Tool[]>([]);

export async function loadModels(): Promise<void> {
  models.value = await ask<{ models: Model[]; default: string }>('/models').catch(() => null);
}
export async function loadPrompts(): Promise<void> {
  prompts.value = (await ask<{ prompts: Prompt[] }>('/system-prompts').catch(() => ({ prompts: [] }))).prompts;
}
export async function loadTools(): Promise<void> {
  tools.value = (await ask<{ tools: Tool[] }>('/tools').catch(() => ({ tools: [] }))).tools;
}

export function modelNamed(name: string): Model | undefined {
  const all = models.value?.models ?? [];
  const wanted = name || models.value?.default || '';
  return all.find((model) => `${model.provider}/${model.id}` === wanted) ?? all.find((model) => model.id === wanted);
}

// ---- settings ----

export interface Settings {
  theme: 'system' | 'light' | 'dark';
  face: 'sans' | 'serif';
  sendWith: 'enter' | 'ctrl';
  wide: boolean;
}
const settingsName = 'quipu.settings';
const defaults: Settings = { theme: 'system', face: 'sans', sendWith: 'enter', wide: false };

function readSettings(): Settings {
  try {
    return { ...defaults, ...(JSON.parse(localStorage.getItem(settingsName) ?? '{}') as Partial<Settings>) };
  } catch {
    return defaults;
  }
}
export const settings = signal<Settings>(readSettings());
export const set = (change: Partial<Settings>): void => void (settings.value = { ...settings.value, ...change });
effect(() => {
  const { theme, face, wide } = settings.value;
  const root = document.documentElement;
  root.dataset.theme = theme;
  root.dataset.face = face;
  root.dataset.wide = String(wide);
  const text = JSON.stringify(settings.value);
  if (text !== JSON.stringify(readSettings())) localStorage.setItem(settingsName, text); // writing takes longer than reading
});
addEventListener('storage', (event) => {
  if (event.key === settingsName) settings.value = readSettings();
});

// ---- drafts: a text per conversation, kept over a reload ----

const draftName = (id: string): string => `quipu.draft.${id || 'new'}`;
export const readDraft = (id: string): string => localStorage.getItem(draftName(id)) ?? '';
export function keepDraft(id: string, text: string): void {
  if (text) localStorage.setItem(draftName(id), text);
  else localStorage.removeItem(draftName(id));
}

// ---- what is open ----

export const sidebarOpen = signal(false); // on a phone
export const paletteOpen = signal(false);
export type Panel = '' | 'context' | 'branches' | 'find' | 'outline';
export const panel = signal<Panel>('');
export const togglePanel = (name: Panel): void => void (panel.value = panel.value === name ? '' : name);
