// Markdown as Preact nodes. The text never becomes HTML, so it cannot be more than text, and settled
// blocks keep their nodes while the tail grows.

import type { Token } from 'markdown-it';
import { type ComponentChildren, isValidElement, type VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { CopyButton } from '../views/parts';
import { type Block, Splitter } from './blocks';
import { duringIdle, highlighter, math } from './lazy';

// Tags that a token may become. Everything else is shown by its children alone.
const tags = new Set(['p', 'strong', 'em', 's', 'blockquote', 'ul', 'ol', 'li', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'hr', 'br']);
const flowing = new Set(['p', 'li', 'blockquote', 'th', 'td', 'ul', 'ol']);

const attribute = (token: Token | null, name: string): string => String(token?.attrGet(name) ?? '');

// Blocks are grouped: a group whose blocks are all settled is the same vnode again, and Preact does not
// look into it. So the cost of a flush does not grow with the answer.
const groupSize = 16;

export function Markdown({ text, streaming = false }: { text: string; streaming?: boolean }): VNode {
  const splitter = useRef<Splitter>(null);
  const groups = useRef<{ node: VNode; settled: Block | undefined }[]>([]);
  splitter.current ??= new Splitter();
  const blocks = splitter.current.update(text, streaming);
  const count = Math.ceil(blocks.length / groupSize);
  const shown: VNode[] = [];
  for (let n = 0; n < count; n++) {
    const last = blocks[(n + 1) * groupSize - 1];
    const old = groups.current[n];
    if (old?.settled && old.settled === last) {
      shown.push(old.node);
      continue;
    }
    const node = <BlockGroup key={n} blocks={blocks.slice(n * groupSize, (n + 1) * groupSize)} />;
    groups.current[n] = { node, settled: last?.settled ? last : undefined };
    shown.push(node);
  }
  groups.current.length = count;
  return <div class="md">{shown}</div>;
}

function BlockGroup({ blocks }: { blocks: Block[] }): VNode {
  const nodes = useRef(new Map<number, { block: Block; node: VNode }>());
  const shown = blocks.map((block) => {
    const old = nodes.current.get(block.key);
    if (old && old.block === block) return old.node;
    const node = <MarkdownBlock key={block.key} block={block} />;
    nodes.current.set(block.key, { block, node });
    return node;
  });
  return <div class="md-group">{shown}</div>;
}

// One top-level block. A fence has the same component while it is open and after it was closed, so its
// nodes stay too.
function MarkdownBlock({ block }: { block: Block }): VNode {
  return <>{block.kind === 'fence' ? [<CodeBlock key={0} code={block.code} info={block.info} open />] : render(block.tokens)}</>;
}

export function render(tokens: Token[]): ComponentChildren[] {
  const stack: { tag: string; token: Token | null; children: ComponentChildren[] }[] = [{ tag: '', token: null, children: [] }];
  tokens.forEach((token, n) => {
    const top = stack.at(-1) as (typeof stack)[0];
    if (token.nesting === 1) stack.push({ tag: token.tag, token, children: [] });
    else if (token.nesting === -1) {
      const closed = stack.pop() as (typeof stack)[0];
      stack.at(-1)?.children.push(element(closed.tag, closed.token, closed.children, n));
    } else top.children.push(leaf(token, n, stack.some((one) => one.tag === 'a')));
  });
  return (stack[0] as (typeof stack)[0]).children;
}

function element(tag: string, token: Token | null, children: ComponentChildren[], key: number): ComponentChildren {
  if (token?.hidden) return children;
  if (tag === 'a') {
    const href = attribute(token, 'href');
    return (
      <a key={key} href={href} target="_blank" rel="noopener noreferrer nofollow" title={attribute(token, 'title') || undefined}>
        {children}
      </a>
    );
  }
  if (/^h[1-6]$/.test(tag)) {
    // A message is a part of the page: its headings start below those of the page.
    const Tag = `h${Math.min(6, Number(tag[1]) + 2)}` as 'h3';
    return (
      <Tag key={key} class={`md-${tag}`} dir="auto">
        {children}
      </Tag>
    );
  }
  if (tag === 'table')
    return (
      <div key={key} class="md-table" role="region" aria-label="Table" tabIndex={0}>
        <table>{children}</table>
      </div>
    );
  if (!tags.has(tag)) return children;
  const Tag = tag as 'p';
  const align = /text-align:(left|center|right)/.exec(attribute(token, 'style'))?.[1];
  const start = tag === 'ol' ? attribute(token, 'start') : '';
  const name = align ? `align-${align}` : tag === 'li' && beginsWithBox(children) ? 'task' : undefined;
  return (
    <Tag key={key} class={name} dir={flowing.has(tag) ? 'auto' : undefined} {...(start ? { start: Number(start) } : {})}>
      {children}
    </Tag>
  );
}

// Addresses that are written out become links. What ends a sentence or closes a bracket is not part of them.
const bare = /https?:\/\/[^\s<>"'`\\^{|}]+/gi;

function withLinks(text: string): ComponentChildren {
  if (!text.includes('://')) return text;
  const parts: ComponentChildren[] = [];
  let at = 0;
  for (const found of text.matchAll(bare)) {
    let href = found[0].replace(/[.,:;!?*_~]+$/, '');
    while (href.endsWith(')') && href.split('(').length < href.split(')').length) href = href.slice(0, -1).replace(/[.,:;!?*_~]+$/, '');
    if (!/^https?:\/\/[^/]/i.test(href)) continue;
    parts.push(
      text.slice(at, found.index),
      <a key={found.index} href={href} target="_blank" rel="noopener noreferrer nofollow">
        {href}
      </a>,
    );
    at = found.index + href.length;
  }
  return parts.length === 0 ? text : [...parts, text.slice(at)];
}

function leaf(token: Token, key: number, inLink: boolean): ComponentChildren {
  switch (token.type) {
    case 'inline':
      return taskItem(token) ?? render(token.children ?? []);
    case 'text':
      return inLink ? token.content : withLinks(token.content);
    case 'code_inline':
      return <code key={key}>{token.content}</code>;
    case 'fence':
    case 'code_block':
      return <CodeBlock key={key} code={token.content} info={token.info} />;
    case 'math':
    case 'math_block':
      return <Formula key={`${key}${token.content}`} tex={token.content} display={(token.meta as { display: boolean }).display} />;
    case 'softbreak':
      return '\n';
    case 'hardbreak':
      return <br key={key} />;
    case 'hr':
      return <hr key={key} />;
    case 'image':
      return <Picture key={key} src={attribute(token, 'src')} alt={token.content} />;
    default:
      return token.content;
  }
}

function beginsWithBox(children: ComponentChildren): boolean {
  if (Array.isArray(children)) return beginsWithBox(children[0]);
  return isValidElement(children) && children.type === 'input';
}

function taskItem(token: Token): ComponentChildren {
  const found = /^\[([ xX])\] /.exec(token.content);
  const first = token.children?.[0];
  if (!found || first?.type !== 'text') return null;
  const rest = (token.children ?? []).slice(1);
  return [<input type="checkbox" disabled checked={found[1] !== ' '} aria-label={found[1] === ' ' ? 'open' : 'done'} />, first.content.slice(4), render(rest)];
}

// No request leaves the origin: a picture from elsewhere is a link that the reader may follow.
function Picture({ src, alt }: { src: string; alt: string }): VNode {
  const isOwn = src.startsWith('/') && !src.startsWith('//');
  if (isOwn) return <img src={src} alt={alt} loading="lazy" />;
  return (
    <a href={src} target="_blank" rel="noopener noreferrer nofollow" class="picture-link">
      {alt || src}
    </a>
  );
}

// ---- code ----

const chunkLines = 40;
const mostHighlighted = 60_000;

interface Leaf {
  type: 'text';
  value: string;
}
interface Node {
  type: 'element' | 'root';
  properties?: { className?: string[] };
  children: (Node | Leaf)[];
}

function paint(node: Node | Leaf, key: number): ComponentChildren {
  if (node.type === 'text') return (node as Leaf).value;
  const children = (node as Node).children.map(paint);
  const name = (node as Node).properties?.className?.join(' ');
  return name ? (
    <span key={key} class={name}>
      {children}
    </span>
  ) : (
    children
  );
}

export function CodeBlock({ code, info, open = false }: { code: string; info: string; open?: boolean }): VNode {
  const language = info.trim().split(/[\s{:,]/)[0]?.toLowerCase() ?? '';
  const [painted, setPainted] = useState<{ code: string; nodes: ComponentChildren } | null>(null);
  const isDiff = language === 'diff' || language === 'patch';
  useEffect(() => {
    if (open || !language || isDiff || code.length > mostHighlighted || painted?.code === code) return undefined;
    let gone = false;
    void highlighter().then((run) =>
      duringIdle(() => {
        if (gone) return;
        const tree = run(language, code);
        if (tree) setPainted({ code, nodes: paint(tree as Node, 0) });
      }),
    );
    return () => void (gone = true);
  }, [code, language, open]);
  return (
    <figure class="code">
      <figcaption>
        <span>{language || 'text'}</span>
        <CopyButton text={() => code} label="Copy code" />
      </figcaption>
      <pre tabIndex={0}>
        <code dir="ltr">{isDiff ? <DiffLines text={code} /> : painted?.code === code ? painted.nodes : <Plain code={code} />}</code>
      </pre>
    </figure>
  );
}

// Text in pieces of some lines: while code streams, only the last piece changes.
function Plain({ code }: { code: string }): VNode {
  const done = useRef<{ at: number; pieces: VNode[] }>({ at: 0, pieces: [] });
  const state = done.current;
  if (code.length < state.at) done.current = { at: 0, pieces: [] };
  const { pieces } = done.current;
  for (;;) {
    let end = done.current.at;
    for (let line = 0; line < chunkLines; line++) {
      end = code.indexOf('\n', end) + 1;
      if (end === 0) break;
    }
    if (end === 0) break;
    pieces.push(<span key={pieces.length}>{code.slice(done.current.at, end)}</span>);
    done.current.at = end;
  }
  return (
    <>
      {pieces.slice()}
      <span key={pieces.length}>{code.slice(done.current.at)}</span>
    </>
  );
}

export function DiffLines({ text }: { text: string }): VNode {
  const kind = (line: string) =>
    /^(\+\+\+|---|diff |index |\\ )/.test(line) ? 'meta' : line.startsWith('@@') ? 'hunk' : line.startsWith('+') ? 'add' : line.startsWith('-') ? 'del' : 'same';
  const lines = text.replace(/\n$/, '').split('\n');
  return (
    <>
      {lines.map((line, n) => (
        <span key={n} class={`diff-${kind(line)}`}>
          {`${line}\n`}
        </span>
      ))}
    </>
  );
}

// ---- math ----

function Formula({ tex, display }: { tex: string; display: boolean }): VNode {
  const holder = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    let gone = false;
    void math().then((draw) => {
      if (!gone && holder.current) draw(tex, holder.current, display);
    });
    return () => void (gone = true);
  }, [tex, display]);
  // The nodes inside belong to the drawing: Preact renders the text once and leaves it alone.
  return <MathHolder reference={holder} tex={tex} display={display} />;
}

function MathHolder({ reference, tex, display }: { reference: { current: HTMLSpanElement | null }; tex: string; display: boolean }): VNode {
  return <span ref={reference} class={display ? 'math-block' : 'math'} data-tex={tex} tabIndex={display ? 0 : undefined} role={display ? 'group' : undefined} aria-label={display ? 'Formula' : undefined} />;
}
