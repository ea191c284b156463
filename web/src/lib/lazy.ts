// Work that waits: for the first picture, for time, for the code that it needs.

import { signal } from '@preact/signals';

// Whether the first picture is on the screen. Until then only what is read is drawn, in the place that it keeps:
// no buttons, no colours and no formulas.
export const painted = signal(false);
const whenPainted = new Promise<void>((resolve) => painted.subscribe((is) => is && resolve()));

type Highlight = (language: string, code: string) => unknown;
type DrawMath = (tex: string, into: HTMLElement, display: boolean) => void;

let highlight: Promise<Highlight> | undefined;
let drawMath: Promise<DrawMath> | undefined;

export const highlighter = (): Promise<Highlight> => (highlight ??= whenPainted.then(() => import('./highlight')).then((module) => module.highlight));
export const math = (): Promise<DrawMath> => (drawMath ??= whenPainted.then(() => import('./mathml')).then((module) => module.draw));

// Runs when the browser has time, so that the work never delays a frame.
export function duringIdle(work: () => void): void {
  if ('requestIdleCallback' in window) requestIdleCallback(work, { timeout: 500 });
  else setTimeout(work, 30);
}

// Runs when what was drawn is on the screen: the first frame shows it, the second says that it was shown. In a
// tab in the background no frame is drawn.
export function afterPaint(run: () => void): void {
  if (document.visibilityState === 'visible') requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(run)));
  else setTimeout(run);
}
