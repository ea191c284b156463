// The page: list at the left, a view in the middle, and what floats above both.

import { render, type VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Chat } from './chat/chat';
import { prepareConversation } from './chat/conversation';
import { needsKey, online, reach } from './lib/api';
import { afterPaint } from './lib/lazy';
import { dismiss, loadModels, loadPrompts, loadRows, notes, route, sidebarOpen } from './lib/store';
import { Home } from './views/home';
import { lazyView } from './views/lazy-view';
import { Palette, useShortcuts } from './views/palette';
import { Button } from './views/parts';
import { Sidebar } from './views/sidebar';

const SignIn = lazyView(() => import('./views/sign-in').then((module) => module.SignIn));
const Prompts = lazyView(() => import('./views/prompts').then((module) => module.Prompts));
const Usage = lazyView(() => import('./views/usage').then((module) => module.Usage));
const Storage = lazyView(() => import('./views/storage').then((module) => module.Storage));
const Import = lazyView(() => import('./views/import').then((module) => module.Import));
const Settings = lazyView(() => import('./views/settings').then((module) => module.SettingsView));

function loadAll(): void {
  void loadRows();
  void loadModels();
  void loadPrompts();
}

function App(): VNode {
  useShortcuts();
  useEffect(() => {
    const again = () => {
      if (document.visibilityState === 'visible') void loadRows();
    };
    document.addEventListener('visibilitychange', again);
    return () => document.removeEventListener('visibilitychange', again);
  }, []);
  const isOnline = online.value;
  const wasOnline = useRef(true);
  useEffect(() => {
    if (isOnline && !wasOnline.current) loadAll();
    wasOnline.current = isOnline;
  }, [isOnline]);
  const { view, id } = route.value;
  useEffect(() => {
    if (view !== 'chat') document.title = view === 'home' ? 'quipu' : `${view[0]?.toUpperCase()}${view.slice(1)} · quipu`;
  }, [view]);
  if (needsKey.value) return <SignIn onDone={loadAll} />;
  return (
    <>
      <a class="skip" href="#composer" onClick={(event) => { event.preventDefault(); document.getElementById('composer')?.focus(); }}>
        To the message box
      </a>
      <div class="shell" onClick={(event) => event.target === event.currentTarget && (sidebarOpen.value = false)}>
        <Sidebar />
        {sidebarOpen.value && <div class="scrim" onClick={() => (sidebarOpen.value = false)} />}
        {view === 'home' && <Home />}
        {view === 'chat' && <Chat key={id} id={id} />}
        {view === 'prompts' && <Prompts />}
        {view === 'usage' && <Usage />}
        {view === 'storage' && <Storage />}
        {view === 'import' && <Import />}
        {view === 'settings' && <Settings />}
      </div>
      <Palette />
      <Offline />
      <Notes />
    </>
  );
}

// It floats, so that nothing moves when the connection comes and goes.
function Offline(): VNode | null {
  if (online.value) return null;
  return (
    <div class="offline" role="status">
      <span>
        <strong>The server cannot be reached.</strong> Nothing is lost: the page goes on when it is back.
      </span>
      <Button small onClick={() => void reach()}>
        Try now
      </Button>
    </div>
  );
}

function Notes(): VNode {
  return (
    <div class="notes" role="status" aria-live="polite">
      {notes.value.map((note) => (
        <div key={note.id} class="note">
          <span>{note.text}</span>
          {note.action && (
            <Button
              small
              onClick={() => {
                dismiss(note);
                note.action?.run();
              }}
            >
              {note.action.label}
            </Button>
          )}
          <Button
            small
            kind="quiet"
            icon="close"
            label="Close"
            onClick={() => {
              dismiss(note);
              note.action?.otherwise?.();
            }}
          />
        </div>
      ))}
    </div>
  );
}

// The first picture is drawn once, with what early.ts has asked for, unless that takes long. A conversation
// comes before the list.
const patience = 150;
const { view, id } = route.value;
const isChat = view === 'chat' && id !== '';
const root = document.getElementById('app');
void Promise.race([isChat ? prepareConversation(id) : loadRows(), new Promise((resolve) => setTimeout(resolve, patience))]).then(() => {
  if (root) render(<App />, root);
  afterPaint(() => {
    if (isChat) void loadRows();
    void loadModels();
    void loadPrompts();
  });
});
