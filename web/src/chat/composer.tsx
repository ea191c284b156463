// Where a message is written. The draft is kept per conversation over a reload; pictures can be pasted
// or dropped; while the model is busy the message is queued on the server.

import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { chosenFiles, useDrop } from '../lib/drop';
import { keepDraft, notify, readDraft, settings } from '../lib/store';
import { Button } from '../views/parts';
import type { Part } from './conversation';

const mostImages = 8;
const mostImageBytes = 8_000_000;

interface Props {
  id: string; // of the conversation; empty for a new one
  busy: boolean;
  canQueue: boolean;
  onSend: (parts: Part[]) => Promise<boolean>;
  onStop: () => void;
  placeholder: string;
  autoFocus?: boolean;
}

const readImage = (file: File): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`cannot read ${file.name}`));
    reader.readAsDataURL(file);
  });

const sizesItself = CSS.supports('field-sizing', 'content');

export function Composer({ id, busy, canQueue, onSend, onStop, placeholder, autoFocus }: Props): VNode {
  const [text, setText] = useState(() => readDraft(id));
  const [images, setImages] = useState<string[]>([]);
  const box = useRef<HTMLTextAreaElement>(null);
  const file = useRef<HTMLInputElement>(null);

  useEffect(() => {
    setText(readDraft(id));
    setImages([]);
    if (autoFocus && matchMedia('(pointer: fine)').matches) box.current?.focus();
  }, [id]);

  // Grows with its text up to a third of the window. New browsers do this by style (field-sizing); measuring
  // it here would force a layout before the first paint.
  useLayoutEffect(() => {
    const area = box.current;
    if (!area || sizesItself) return;
    area.style.height = 'auto';
    area.style.height = `${Math.min(area.scrollHeight, Math.max(120, innerHeight / 3))}px`;
  }, [text]);

  const change = (value: string) => {
    setText(value);
    keepDraft(id, value);
  };

  const add = async (files: File[]) => {
    const found: string[] = [];
    for (const one of files) {
      if (!one.type.startsWith('image/')) notify(`${one.name} is not an image.`);
      else if (one.size > mostImageBytes) notify(`${one.name} is larger than 8 MB.`);
      else found.push(await readImage(one));
    }
    if (images.length + found.length > mostImages) notify(`A message has at most ${mostImages} images.`);
    setImages((old) => [...old, ...found].slice(0, mostImages));
  };
  const dropping = useDrop((files) => void add(files));

  const send = async () => {
    const said = text.trim();
    if (!said && images.length === 0) return;
    if (busy && !canQueue) return;
    const parts: Part[] = [...(said ? [{ type: 'text' as const, text: said }] : []), ...images.map((url) => ({ type: 'image' as const, url }))];
    const kept = images;
    setText('');
    setImages([]);
    if (await onSend(parts)) keepDraft(id, '');
    else {
      // Nothing is lost: the text is back where it was written.
      setText(text);
      setImages(kept);
    }
  };

  const onKey = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.isComposing || event.shiftKey) return;
    if (settings.value.sendWith === 'ctrl' && !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void send();
  };

  const ready = text.trim() !== '' || images.length > 0;
  return (
    <form
      class={`composer${dropping ? ' dropping' : ''}`}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      {images.length > 0 && (
        <ul class="attached">
          {images.map((url, n) => (
            <li key={url.slice(-40) + n}>
              <img src={url} alt={`Image ${n + 1} to send`} />
              <Button small kind="quiet" icon="close" label={`Remove image ${n + 1}`} onClick={() => setImages(images.filter((_, at) => at !== n))} />
            </li>
          ))}
        </ul>
      )}
      <div class="composer-row">
        <textarea
          ref={box}
          id="composer"
          rows={1}
          dir="auto"
          aria-label="Message"
          placeholder={placeholder}
          value={text}
          onInput={(event) => change(event.currentTarget.value)}
          onKeyDown={onKey}
          onPaste={(event) => {
            // Office programs copy text with a picture of it: the text is meant.
            const files = event.clipboardData?.types.includes('text/plain') ? [] : [...(event.clipboardData?.files ?? [])];
            if (files.length > 0) {
              event.preventDefault();
              void add(files);
            }
          }}
        />
        <input ref={file} type="file" accept="image/*" multiple hidden aria-label="Images" onChange={(event) => void add(chosenFiles(event.currentTarget))} />
        <Button kind="quiet" icon="image" label="Add an image" onClick={() => file.current?.click()} />
        {busy && (!ready || !canQueue) ? (
          <Button kind="primary" icon="stop" label="Stop" class="round" onClick={onStop} />
        ) : (
          <Button kind="primary" icon="send" type="submit" label={busy ? 'Send when the answer is complete' : 'Send'} class="round" disabled={!ready} />
        )}
      </div>
    </form>
  );
}
