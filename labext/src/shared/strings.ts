/** The catalogue: every text on the screen passes through `t`, English unless a host gave a translation. */

/** A front end's own translation: the text in the reader's language, or the English one. */
export type Translator = (message: string) => string;

let translate: Translator = (message) => message;

/** Use a translator from now on, such as the `__` of JupyterLab's translation bundle. */
export function setTranslator(translator: Translator): void {
  translate = translator;
}

/** Use `messages` (English template -> translation) from now on. */
export function setCatalogue(messages: Readonly<Record<string, string>>): void {
  translate = (message) => (Object.hasOwn(messages, message) ? messages[message] : message);
}

/** The message in the reader's language with its `{name}` places filled. */
export function t(message: string, values: Readonly<Record<string, string | number>> = {}): string {
  return translate(message).replace(/\{(\w+)\}/g, (place, name: string) => (name in values ? String(values[name]) : place));
}

/** One of two messages by count; `{n}` is the count. */
export function plural(one: string, many: string, n: number): string {
  return t(n === 1 ? one : many, { n: count(n) });
}

/** A whole number with thin groups of three from 10,000 on. */
export function count(n: number): string {
  return Math.abs(n) < 10000 ? String(n) : String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** A number of ops, and how many more only hold, name or pass on a value, which no count has in it. */
export function ops(n: number, bookkeeping: number): string {
  const counted = plural("{n} op", "{n} ops", n);
  return bookkeeping ? t("{ops} and {n} of bookkeeping", { ops: counted, n: count(bookkeeping) }) : counted;
}

/** Seconds as people read them: µs below 1 ms, then ms, then s. */
export function time(seconds: number): string {
  if (!(seconds > 0)) return "0 ms";
  if (seconds < 0.000995) return `${Math.max(1, Math.round(seconds * 1e6))} µs`;
  if (seconds < 0.00995) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
}

/** A writer for one column: one unit with fixed decimals, chosen by its largest value. */
export function timeColumn(largest: number): (seconds: number) => string {
  if (largest >= 10) return (seconds) => (seconds > 0 && seconds < 0.005 ? "<0.01 s" : `${seconds.toFixed(2)} s`);
  return (seconds) => (seconds > 0 && seconds < 5e-5 ? "<0.1 ms" : `${(seconds * 1e3).toFixed(1)} ms`);
}

/** Bytes in decimal units, three figures. */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  const [size, unit] = n < 1e6 ? [n / 1e3, "kB"] : n < 1e9 ? [n / 1e6, "MB"] : [n / 1e9, "GB"];
  return `${size.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0)} ${unit}`;
}

/** A name cut in its middle, visibly, to at most `limit` characters. The whole stays in a title and in the table. */
export function shorten(name: string, limit: number): string {
  if (name.length <= limit) return name;
  const tail = Math.ceil((limit - 1) * 0.6);
  return `${name.slice(0, limit - 1 - tail)}…${name.slice(-tail)}`;
}
