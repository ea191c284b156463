// Formulas as MathML nodes; loaded with the first formula. Styles are set through the object model,
// which the content security policy allows, never as an attribute.

import temml from 'temml';

export function draw(tex: string, into: HTMLElement, display: boolean): void {
  const cleared = document.createRange();
  cleared.selectNodeContents(into);
  cleared.deleteContents();
  try {
    temml.render(tex, into, { displayMode: display, throwOnError: true, trust: false, maxSize: [20, 20], maxExpand: 500 });
  } catch {
    // Not a formula that can be drawn: its source is better than nothing.
    const code = document.createElement('code');
    code.textContent = tex;
    into.append(code);
  }
}
