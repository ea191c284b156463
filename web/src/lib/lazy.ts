// Parts of the page that are loaded when they are first needed.

type Highlight = (language: string, code: string) => unknown;
type DrawMath = (tex: string, into: HTMLElement, display: boolean) => void;

let highlight: Promise<Highlight> | undefined;
let drawMath: Promise<DrawMath> | undefined;

export const highlighter = (): Promise<Highlight> => (highlight ??= import('./highlight').then((module) => module.highlight));
export const math = (): Promise<DrawMath> => (drawMath ??= import('./mathml').then((module) => module.draw));

// Runs when the browser has time, so that the work never delays a frame.
export function duringIdle(work: () => void): void {
  if ('requestIdleCallback' in window) requestIdleCallback(work, { timeout: 500 });
  else setTimeout(work, 30);
}

// Runs when what was drawn is on the screen. In a tab in the background no frame is drawn.
export function afterPaint(run: () => void): void {
  if (document.visibilityState === 'visible') requestAnimationFrame(() => setTimeout(run));
  else setTimeout(run);
}
