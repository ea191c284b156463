// The page: list at the left, a view in the middle, and what floats above both. Each is a root of its own,
// so that the one that was asked for is on the screen before the others are drawn.

import { type ComponentChild, render, type VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { needsKey, online, reach } from './lib/api';
import { refuseDrops } from './lib/drop';
import { afterPaint, duringIdle, painted } from './lib/lazy';
import { dismiss, loadModels, loadPrompts, loadRows, notes, route, sidebarOpen } from './lib/store';
import { Home } from './views/home';
import { lazyView } from './views/lazy-view';
import { listenToKeys, Palette } from './views/palette';
import { Button } from './views/parts';
import { Sidebar } from './views/sidebar';

const chatPart = () => import('./chat/chat');
const Chat = lazyView(() => chatPart().then((module) => module.Chat));
const SignIn = lazyView(() => import('./views/sign-in').then((module) => module.SignIn));
const pages = {
  prompts: lazyView(() => import('./views/prompts').then((module) => module.Prompts)),
  usage: lazyView(() => import('./views/usage').then((module) => module.Usage)),
  storage: lazyView(() => import('./views/storage').then((module) => module.Storage)),
  import: lazyView(() => import('./views/import').then((module) => module.Import)),
  settings: lazyView(() => import('./views/settings').then((module) => module.SettingsView)),
};

function loadAll(): void {
  void loadRows();
  void loadModels();
  void loadPrompts();
}

function Side(): VNode | null {
  if (needsKey.value) return null;
  return (
    <>
      <a class="skip" href="#composer" onClick={(event) => { event.preventDefault(); document.getElementById('composer')?.focus(); }}>
        To the message box
      </a>
      <Sidebar />
      {sidebarOpen.value && <div class="scrim" onClick={() => (sidebarOpen.value = false)} />}
    </>
  );
}

function View(): VNode | null {
  const { view, id } = route.value;
  useEffect(() => {
    if (view !== 'chat') document.title = view === 'home' ? 'quipu' : `${view[0]?.toUpperCase()}${view.slice(1)} · quipu`;
  }, [view]);
  if (needsKey.value) return <SignIn onDone={loadAll} />;
  if (view === 'home') return <Home />;
  if (view === 'chat') return <Chat key={id} id={id} />;
  const Page = pages[view];
  return <Page />;
}

function Above(): VNode {
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
  return (
    <>
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

// The first picture is drawn once, with what early.ts has asked for, unless that takes long: the conversation
// that the address names, or else the list. The rest follows when that is on the screen.
const patience = 300;
const draw = (what: ComponentChild, id: string): void => {
  const root = document.getElementById(id);
  if (root) render(what, root);
};
// Each step when what the one before it drew is on the screen.
const inTurn = ([step, ...rest]: (() => void)[]): void => {
  step?.();
  if (rest.length > 0) afterPaint(() => inTurn(rest));
};
const drawers = { side: () => draw(<Side />, 'side'), view: () => draw(<View />, 'view'), above: () => draw(<Above />, 'above') };
listenToKeys();
refuseDrops();
const { view, id } = route.value;
const isChat = view === 'chat' && id !== '';
const prepare = async (): Promise<void> => {
  if (!isChat) return loadRows();
  const [{ prepareConversation }] = await Promise.all([chatPart(), Chat.load()]);
  return prepareConversation(id);
};
void Promise.race([prepare(), new Promise((resolve) => setTimeout(resolve, patience))]).then(() => {
  inTurn([
    isChat ? drawers.view : drawers.side,
    isChat ? drawers.side : drawers.view,
    () => (painted.value = true),
    drawers.above,
    () => {
      if (isChat) void loadRows();
      else duringIdle(() => void Chat.load());
      void loadModels();
      void loadPrompts();
    },
  ]);
});
