// Splits a growing Markdown text into top-level blocks. A block that another one follows is settled:
// it is parsed once and never looked at again. Only the open tail is parsed at each flush, and an open
// code fence, which may be the whole answer, is not even parsed: only its new lines are looked at.

import MarkdownIt, { type Token } from 'markdown-it';
import remend from 'remend';
import { mathRules } from './math-rules';

export type Block =
  | { key: number; kind: 'tokens'; source: string; tokens: Token[]; settled: boolean }
  | { key: number; kind: 'fence'; info: string; code: string; settled: false };

export const markdown = new MarkdownIt({ html: false, linkify: false, breaks: false, typographer: false });
markdown.use(mathRules);

// Only addresses that a click may open: no script, no file, no data.
markdown.validateLink = (url: string) => /^(https?:\/\/|mailto:|#)/i.test(url.trim());

interface Fence {
  start: number; // of the first line of code
  scanned: number; // of the first line that was not looked at
  close: RegExp;
  info: string;
}

const opening = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\n`]*)\n/;

export class Splitter {
  private settled: Block[] = [];
  private offset = 0; // where the tail begins
  private fence: Fence | null = null;
  private text = '';
  private env: Record<string, unknown> = {};

  update(text: string, streaming: boolean): Block[] {
    if (!this.continues(text)) this.reset();
    this.text = text;
    if (streaming) return this.tail();
    return this.finish();
  }

  // Whether the text still begins with what was settled. While it streams it only grows, so the end of
  // the settled part tells.
  private continues(text: string): boolean {
    const from = Math.max(0, this.offset - 200);
    return text.length >= this.offset && text.slice(from, this.offset) === this.text.slice(from, this.offset);
  }

  private reset(): void {
    this.settled = [];
    this.offset = 0;
    this.fence = null;
    this.env = {};
  }

  private tail(): Block[] {
    if (this.fence && !this.closes(this.fence)) return [...this.settled, this.openFence(this.fence)];
    this.settle(this.parse(this.text.slice(this.offset)));
    const rest = this.text.slice(this.offset);
    if (rest === '') return this.settled;
    const found = opening.exec(rest);
    if (found) {
      const marker = found[1] as string;
      const start = this.offset + found[0].length;
      this.fence = {
        start,
        scanned: start,
        info: (found[2] as string).trim(),
        close: new RegExp(`^ {0,3}${marker[0] === '`' ? '`' : '~'}{${marker.length},}[ \\t]*$`),
      };
      if (!this.closes(this.fence)) return [...this.settled, this.openFence(this.fence)];
    }
    // What is still open (**bold, `code, a link) is closed for the eye.
    const tokens = markdown.parse(remend(rest), this.env);
    return [...this.settled, { key: this.settled.length, kind: 'tokens', source: rest, tokens, settled: false }];
  }

  private openFence(fence: Fence): Block {
    return { key: this.settled.length, kind: 'fence', info: fence.info, code: this.text.slice(fence.start), settled: false };
  }

  // Looks at the complete lines that have come since the last time.
  private closes(fence: Fence): boolean {
    for (;;) {
      const end = this.text.indexOf('\n', fence.scanned);
      if (end < 0) return false;
      if (fence.close.test(this.text.slice(fence.scanned, end))) {
        this.fence = null;
        return true;
      }
      fence.scanned = end + 1;
    }
  }

  private finish(): Block[] {
    this.fence = null;
    const groups = this.parse(this.text.slice(this.offset));
    const last = groups.at(-1);
    this.settle(groups);
    if (!last) return this.settled;
    return [...this.settled, { key: this.settled.length, kind: 'tokens', source: last.source, tokens: last.tokens, settled: true }];
  }

  private parse(source: string): { source: string; tokens: Token[]; start: number }[] {
    const tokens = markdown.parse(source, this.env);
    const groups: { source: string; tokens: Token[]; start: number; line: number }[] = [];
    let depth = 0;
    for (const token of tokens) {
      if (depth === 0 && token.nesting >= 0) groups.push({ source: '', tokens: [], start: 0, line: token.map?.[0] ?? 0 });
      groups.at(-1)?.tokens.push(token);
      depth += token.nesting;
    }
    let line = 0;
    let at = 0;
    for (const group of groups) {
      while (line < group.line) {
        at = source.indexOf('\n', at) + 1;
        line++;
      }
      group.start = at;
    }
    groups.forEach((group, n) => (group.source = source.slice(group.start, groups[n + 1]?.start ?? source.length)));
    return groups;
  }

  // All but the last group: the last one may still grow.
  private settle(groups: { source: string; tokens: Token[]; start: number }[]): void {
    if (groups.length > 1) this.settled = this.settled.slice();
    for (const group of groups.slice(0, -1)) this.settled.push({ key: this.settled.length, kind: 'tokens', source: group.source, tokens: group.tokens, settled: true });
    this.offset += groups.at(-1)?.start ?? 0;
  }
}
