// Asked for when the server wants a key.

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { needsKey, setKey } from '../lib/api';
import { Button, focusAtFirst, Notice, Sign } from './parts';

export function SignIn({ onDone }: { onDone: () => void }): VNode {
  const [key, setText] = useState('');
  const [remember, setRemember] = useState(false);
  const [problem, setProblem] = useState('');
  const submit = async () => {
    setProblem('');
    let status = 0;
    try {
      status = (await fetch('/v1/models', { headers: { authorization: `Bearer ${key.trim()}` } })).status;
    } catch {
      return setProblem('The server cannot be reached.');
    }
    if (status === 401) return setProblem('The server does not know this key. Create one with: quipu key create');
    if (status === 429) return setProblem('Too many wrong keys. Wait a minute, then try again.');
    setKey(key.trim(), remember);
    needsKey.value = false;
    onDone();
  };
  return (
    <main class="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Sign size={44} />
        <h1>Sign in to quipu</h1>
        <p class="faint">This server asks for a key. It stays in this browser and is only sent to this server.</p>
        {problem && <Notice kind="error">{problem}</Notice>}
        <label class="field">
          Key
          <input type="password" autocomplete="current-password" value={key} onInput={(event) => setText(event.currentTarget.value)} ref={focusAtFirst} required />
        </label>
        <label class="check">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.currentTarget.checked)} />
          Keep it after this session
        </label>
        <Button kind="primary" type="submit" disabled={!key.trim()}>
          Sign in
        </Button>
      </form>
    </main>
  );
}
