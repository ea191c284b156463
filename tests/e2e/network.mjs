// A network of its own for a server, with two links to the other servers: "database" and "web". A link that is cut drops
// every packet in silence, as a broken switch does. Needs root.

import { spawn, spawnSync } from 'node:child_process';
import assert from 'node:assert/strict';
import net from 'node:net';
import { atEnd } from './helper.mjs';

const run = (...words) => spawnSync(words[0], words.slice(1), { encoding: 'utf8' });

function must(...words) {
  const end = run(...words);
  assert.equal(end.status, 0, `${words.join(' ')}: ${end.stderr}`);
}

// Why there is none, or false.
export function noNetwork() {
  if (process.getuid() !== 0) return 'network namespaces need root';
  const name = `quipu-try-${process.pid}`;
  if (run('ip', 'netns', 'add', name).status !== 0) return 'network namespaces are not allowed here';
  const { status, stderr } = run('ip', 'netns', 'exec', name, 'true');
  run('ip', 'netns', 'del', name);
  return status !== 0 && `network namespaces do not work here: ${stderr.trim()}`;
}

// Passes connections to `from` on to `to`, both as net.connect() takes them.
export function relay(t, from, to) {
  const open = new Set();
  const server = net.createServer((client) => {
    const onward = net.connect(to);
    for (const [one, other] of [[client, onward], [onward, client]]) {
      open.add(one);
      one.on('error', () => {});
      one.on('close', () => {
        open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  atEnd(t, () => {
    server.close();
    for (const one of open) one.destroy();
  });
  return new Promise((resolve, reject) => server.on('error', reject).listen(from, () => resolve(server.address().port)));
}

export class Network {
  constructor(t) {
    const number = (process.pid % 200) + 20;
    this.name = `quipu-${process.pid}`;
    this.under = ['ip', 'netns', 'exec', this.name];
    this.links = {};
    must('ip', 'netns', 'add', this.name);
    atEnd(t, () => must('ip', 'netns', 'del', this.name));
    must(...this.under, 'ip', 'link', 'set', 'lo', 'up');
    for (const [i, link] of ['database', 'web'].entries()) {
      const outer = { device: `qo${i}-${process.pid}`, address: `10.231.${number}.${i * 4 + 1}`, under: [] };
      const inner = { device: `qi${i}-${process.pid}`, address: `10.231.${number}.${i * 4 + 2}`, under: this.under };
      must('ip', 'link', 'add', outer.device, 'type', 'veth', 'peer', 'name', inner.device, 'netns', this.name);
      for (const side of [outer, inner]) {
        must(...side.under, 'ip', 'address', 'add', `${side.address}/30`, 'dev', side.device);
        must(...side.under, 'ip', 'link', 'set', side.device, 'up');
      }
      this.links[link] = { outer, inner };
    }
  }

  // The packets go to a station that does not exist.
  cut(link) {
    const { outer, inner } = this.links[link];
    for (const [side, other] of [[outer, inner], [inner, outer]]) must(...side.under, 'ip', 'neighbour', 'replace', other.address, 'lladdr', '02:00:00:00:00:99', 'dev', side.device, 'nud', 'permanent');
  }

  heal(link) {
    const { outer, inner } = this.links[link];
    for (const [side, other] of [[outer, inner], [inner, outer]]) must(...side.under, 'ip', 'neighbour', 'del', other.address, 'dev', side.device);
  }

  // Makes a port of 127.0.0.1 inside reachable at the inner address of a link.
  async open(t, link, port) {
    const { address } = this.links[link].inner;
    const text = `require('net').createServer((c) => { const s = require('net').connect(${port}, '127.0.0.1'); for (const x of [c, s]) x.on('error', () => {}); c.on('close', () => s.destroy()); s.on('close', () => c.destroy()); c.pipe(s); s.pipe(c); }).listen(${port}, '${address}', () => console.log('listens'))`;
    const child = spawn(this.under[0], [...this.under.slice(1), process.execPath, '-e', text], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => child.on('close', resolve));
    atEnd(t, () => {
      child.kill('SIGKILL');
      return ended;
    });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    return `http://${address}:${port}`;
  }
}
