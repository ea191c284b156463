// Decides whether what clients saw of several servers fits one store that loses nothing.
//
// A history is
//   operations  what was asked: { kind, branch, from, to, … }, with the times of its beginning and its end by one clock
//     'append'  { text, outcome }: 'ok' it was acknowledged, 'refused' it was not carried out, 'unknown'
//     'read'    { total, texts }: the newest texts of the branch, and how many messages the branch had
//   branches    a Map from a branch to its texts at the end, oldest first
//   streams     what followers saw: { name, events, log }; `log` is the event log at the end, which may have lost its beginning
//   turns       { name, sent: texts that were acknowledged, texts: of the person's messages at the end }
//   calls       tool calls that are stored: { id, done }; `done`: their result says that the tool ended well
//   runs        ids of the tool calls that were executed, one per execution

// The index of each text in its branch.
function places(texts) {
  const at = new Map();
  texts.forEach((text, i) => (at.has(text) ? at.get(text).push(i) : at.set(text, [i])));
  return at;
}

// An acknowledged message is stored once, others at most once, and nothing else is stored.
function checkAppends(name, appends, at) {
  const sent = new Set(appends.map((one) => one.text));
  const found = [];
  for (const { text, outcome } of appends) {
    const count = at.get(text)?.length ?? 0;
    if (outcome === 'ok' && count !== 1) found.push(`${name}: ${text} was acknowledged and is stored ${count} times`);
    if (outcome === 'refused' && count !== 0) found.push(`${name}: ${text} was refused and is stored`);
    if (outcome === 'unknown' && count > 1) found.push(`${name}: ${text} is stored ${count} times`);
  }
  for (const text of at.keys()) if (!sent.has(text)) found.push(`${name}: nobody sent ${text}`);
  return found;
}

// A message that was acknowledged before another one was sent is stored before it.
function checkOrder(name, appends, texts) {
  const byText = new Map(appends.map((one) => [one.text, one]));
  const found = [];
  let latest;
  for (const text of texts) {
    const one = byText.get(text);
    if (one?.outcome === 'ok' && latest && latest.from > one.to) found.push(`${name}: ${one.text} was acknowledged before ${latest.text} was sent, and is stored behind it`);
    if (one && (!latest || one.from > latest.from)) latest = one;
  }
  return found;
}

// A read shows a beginning of the branch, with all that was acknowledged or read before it began.
function checkReads(name, reads, appends, texts, at) {
  const found = [];
  const known = [...appends.filter((one) => one.outcome === 'ok').map((one) => [one.to, (at.get(one.text)?.[0] ?? -1) + 1]), ...reads.map((one) => [one.to, one.total])];
  known.sort((a, b) => a[0] - b[0]);
  let next = 0;
  let least = 0;
  for (const read of [...reads].sort((a, b) => a.from - b.from)) {
    for (; next < known.length && known[next][0] < read.from; next++) least = Math.max(least, known[next][1]);
    if (read.total < least) found.push(`${name}: a read shows ${read.total} messages, and ${least} were there before`);
    const want = texts.slice(Math.max(0, read.total - read.texts.length), read.total);
    if (read.total > texts.length || want.length !== read.texts.length || want.some((text, i) => text !== read.texts[i])) found.push(`${name}: a read of ${read.total} messages is no beginning of the branch`);
  }
  return found;
}

// A follower sees every event of the log, in order, none twice, and is never told of a gap. It may see more: the
// newest pieces of an answer whose server died before they were stored.
function checkStream({ name, events, log }) {
  const found = [];
  const key = (event) => JSON.stringify(event);
  events.forEach((event, i) => {
    if (event.type === 'gap') found.push(`${name}: a gap behind ${events[i - 1]?.seq}`);
    else if (i > 0 && event.seq <= events[i - 1].seq) found.push(`${name}: event ${event.seq} behind ${events[i - 1].seq}`);
  });
  const seen = new Map(events.map((event) => [event.seq, key(event)]));
  for (const event of log.filter((one) => one.type !== 'gap')) if (seen.get(event.seq) !== key(event)) found.push(`${name}: event ${key(event)} was ${seen.has(event.seq) ? `seen as ${seen.get(event.seq)}` : 'not seen'}`);
  return found;
}

function checkTurns({ name, sent, texts }) {
  const at = places(texts);
  const found = sent.filter((text) => at.get(text)?.length !== 1).map((text) => `${name}: ${text} was acknowledged and is stored ${at.get(text)?.length ?? 0} times`);
  const order = texts.filter((text) => sent.includes(text));
  if (order.length === sent.length && order.some((text, i) => text !== sent[i])) found.push(`${name}: the messages are in another order: ${order}`);
  return found;
}

function checkTools(calls, runs) {
  const at = places(runs);
  const found = [];
  for (const [id, list] of at) if (list.length > 1) found.push(`the tool of ${id} was executed ${list.length} times`);
  for (const { id, done } of calls) if (done && !at.has(id)) found.push(`the tool of ${id} has a result and was not executed`);
  const stored = new Set(calls.map((call) => call.id));
  for (const id of at.keys()) if (!stored.has(id)) found.push(`the tool of ${id} was executed and its call is not stored`);
  return found;
}

// What does not fit, in words; [] if all does.
export function findProblems({ operations = [], branches = new Map(), streams = [], turns = [], calls = [], runs = [] }) {
  const found = [];
  for (const [name, texts] of branches) {
    const here = operations.filter((one) => one.branch === name);
    const appends = here.filter((one) => one.kind === 'append');
    const at = places(texts);
    found.push(...checkAppends(name, appends, at), ...checkOrder(name, appends, texts), ...checkReads(name, here.filter((one) => one.kind === 'read'), appends, texts, at));
  }
  for (const one of operations) if (!branches.has(one.branch)) found.push(`${one.branch} is gone`);
  return [...found, ...streams.flatMap(checkStream), ...turns.flatMap(checkTurns), ...checkTools(calls, runs)];
}
