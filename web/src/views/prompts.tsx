// The library of system prompts.

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { inPath, patch, post, remove, sentence } from '../lib/api';
import { loadPrompts, notify, prompts } from '../lib/store';
import type { Prompt } from '../lib/types';
import { shortTime } from '../lib/words';
import { Page } from './page';
import { Button, Dialog, Empty, Loading, Notice } from './parts';

interface Draft {
  id: string;
  isNew: boolean;
  name: string;
  description: string;
  content: string;
}

export function Prompts(): VNode {
  const [draft, setDraft] = useState<Draft | null>(null);
  const all = prompts.value;
  const create = () => setDraft({ id: '', isNew: true, name: '', description: '', content: '' });
  const drop = async (prompt: Prompt) => {
    try {
      await remove(`/system-prompts/${inPath(prompt.id)}`);
      await loadPrompts();
      notify(`Deleted “${prompt.name || prompt.id}”`, {
        label: 'Undo',
        run: () => void post('/system-prompts', { id: prompt.id, name: prompt.name, description: prompt.description, content: prompt.content }).then(loadPrompts),
      });
    } catch (error) {
      notify(sentence(error));
    }
  };
  return (
    <Page title="Prompts" lead="Instructions that come before a conversation. A branch can use one; a change applies to every conversation that uses it." acts={<Button kind="primary" icon="plus" onClick={create}>New prompt</Button>}>
      {all === null && <Loading />}
      {all?.length === 0 && (
        <Empty title="No prompts yet">
          <p>A prompt tells the model how to behave: its tone, its role, what it must not do.</p>
          <Button kind="primary" onClick={create}>
            Write the first one
          </Button>
        </Empty>
      )}
      <ul class="cards">
        {all?.map((prompt) => (
          <li key={prompt.id} class="card">
            <h2>{prompt.name || prompt.id}</h2>
            {prompt.description && <p class="faint">{prompt.description}</p>}
            <p class="prompt-start" dir="auto">
              {prompt.content}
            </p>
            <footer>
              <span class="faint">
                {prompt.id} · {shortTime(prompt.updated_at)}
              </span>
              <span class="push" />
              <Button small kind="quiet" icon="trash" label={`Delete ${prompt.name || prompt.id}`} onClick={() => void drop(prompt)} />
              <Button small icon="edit" onClick={() => setDraft({ id: prompt.id, isNew: false, name: prompt.name ?? '', description: prompt.description ?? '', content: prompt.content })}>
                Edit
              </Button>
            </footer>
          </li>
        ))}
      </ul>
      {draft && <Editor draft={draft} onClose={() => setDraft(null)} />}
    </Page>
  );
}

const idOf = (name: string): string => name.toLowerCase().normalize('NFKD').replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 60) || `prompt-${Date.now()}`;

function Editor({ draft, onClose }: { draft: Draft; onClose: () => void }): VNode {
  const [value, setValue] = useState(draft);
  const [problem, setProblem] = useState('');
  const change = (part: Partial<Draft>) => setValue({ ...value, ...part });
  const save = async () => {
    const { name, description, content } = value;
    try {
      if (draft.isNew) await post('/system-prompts', { id: idOf(name), name, description, content });
      else await patch(`/system-prompts/${inPath(draft.id)}`, { name, description, content });
      await loadPrompts();
      onClose();
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return (
    <Dialog wide title={draft.isNew ? 'New prompt' : 'Edit prompt'} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        {problem && <Notice kind="error">{problem}</Notice>}
        <label class="field">
          Name
          <input required value={value.name} onInput={(event) => change({ name: event.currentTarget.value })} />
        </label>
        <label class="field">
          What is it for? (optional)
          <input value={value.description} onInput={(event) => change({ description: event.currentTarget.value })} />
        </label>
        <label class="field">
          Text
          <textarea class="tall" required dir="auto" value={value.content} onInput={(event) => change({ content: event.currentTarget.value })} />
        </label>
        <div class="row-end">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Save prompt
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
