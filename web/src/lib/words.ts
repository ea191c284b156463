// Numbers, times and sizes as people read them.

const sameDay = (a: Date, b: Date): boolean => a.toDateString() === b.toDateString();

// A formatter takes milliseconds to make: each is made when it is needed first.
function once(options: Intl.DateTimeFormatOptions): () => Intl.DateTimeFormat {
  let made: Intl.DateTimeFormat | undefined;
  return () => (made ??= new Intl.DateTimeFormat(undefined, options));
}
const clock = once({ hour: '2-digit', minute: '2-digit' });
const day = once({ day: 'numeric', month: 'short' });
const dayOfYear = once({ day: 'numeric', month: 'short', year: 'numeric' });
const full = once({ dateStyle: 'full', timeStyle: 'medium' });
let whole: Intl.NumberFormat | undefined;

export function shortTime(iso: string, now = new Date()): string {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return '';
  if (sameDay(time, now)) return clock().format(time);
  const yesterday = new Date(now);
  yesterday.setDate(now.getDate() - 1);
  if (sameDay(time, yesterday)) return 'Yesterday';
  return (time.getFullYear() === now.getFullYear() ? day : dayOfYear)().format(time);
}

export const fullTime = (iso: string): string => {
  const time = new Date(iso);
  return Number.isNaN(time.getTime()) ? iso : full().format(time);
};

export const count = (n: number): string => (n < 1000 && Number.isInteger(n) ? String(n) : (whole ??= new Intl.NumberFormat()).format(n));
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

export function tokens(n: number): string {
  if (n < 1000) return count(n);
  if (n < 10_000) return `${(n / 1000).toFixed(1)}k`;
  if (n < 1_000_000) return `${Math.round(n / 1000)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}

export function bytes(n: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  let value = n;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at++;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function money(n: number): string {
  if (n === 0) return '$0';
  return n < 0.01 ? `$${n.toPrecision(2)}` : `$${n.toFixed(2)}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

const roles: Record<string, string> = { user: 'You', assistant: 'Answer', tool: 'Tool result', system: 'System' };
export const roleWord = (role: string): string => roles[role] ?? role;

// While a word is being typed, its beginning finds it.
export const lastWordOpen = (query: string): string => (/[\p{L}\p{N}]$/u.test(query) ? `${query}*` : query);
