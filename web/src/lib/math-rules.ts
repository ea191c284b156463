// Math in Markdown, as models write it: $x$, $$x$$, \(x\) and \[x\]. A dollar sign before a digit or
// after a space is money, not math.

import type { MarkdownIt, StateBlock, StateInline } from 'markdown-it';

function inline(state: StateInline, silent: boolean): boolean {
  const { src, pos, posMax } = state;
  const pairs: [string, string, boolean][] = [
    ['$$', '$$', true],
    ['$', '$', false],
    ['\\(', '\\)', false],
    ['\\[', '\\]', true],
  ];
  for (const [open, close, display] of pairs) {
    if (!src.startsWith(open, pos)) continue;
    const from = pos + open.length;
    const end = src.indexOf(close, from);
    if (end <= from || end > posMax) continue;
    const tex = src.slice(from, end);
    if (open === '$' && (/^\s|\s$/.test(tex) || /\d/.test(src[end + 1] ?? '') || tex.includes('\n\n'))) continue;
    if (!silent) {
      const token = state.push('math', 'math', 0);
      token.content = tex.trim();
      token.meta = { display };
    }
    state.pos = end + close.length;
    return true;
  }
  return false;
}

function block(state: StateBlock, startLine: number, endLine: number, silent: boolean): boolean {
  const line = (n: number) => state.src.slice((state.bMarks[n] ?? 0) + (state.tShift[n] ?? 0), state.eMarks[n]);
  const first = line(startLine);
  const open = first.startsWith('$$') ? '$$' : first.startsWith('\\[') ? '\\[' : '';
  if (!open) return false;
  const close = open === '$$' ? '$$' : '\\]';
  const rest = first.slice(2);
  let tex = '';
  let next = startLine + 1;
  const oneLine = rest.indexOf(close);
  if (oneLine >= 0) {
    if (rest.slice(oneLine + 2).trim() !== '') return false;
    tex = rest.slice(0, oneLine);
  } else {
    const lines = [rest];
    let closed = false;
    for (; next < endLine && !closed; next++) {
      const end = line(next).indexOf(close);
      closed = end >= 0;
      lines.push(closed ? line(next).slice(0, end) : line(next));
    }
    if (!closed) return false;
    tex = lines.join('\n');
  }
  if (silent) return true;
  const token = state.push('math_block', 'math', 0);
  token.block = true;
  token.content = tex.trim();
  token.map = [startLine, next];
  token.meta = { display: true };
  state.line = next;
  return true;
}

export function mathRules(md: MarkdownIt): void {
  md.inline.ruler.before('escape', 'math', inline);
  md.block.ruler.before('fence', 'math_block', block, { alt: ['paragraph', 'reference', 'blockquote', 'list'] });
}
