#!/usr/bin/env node
// The rules of our C that no compiler or analyser knows: layers, banned functions, names, form, and
// that Meson's lists are complete. Prints "file:line: sentence" for each violation; exit status 1
// when there is one. CONTRIBUTING.md gives the reasons.

import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const maxColumns = 100;
const maxLines = 900;

// A layer includes itself and those with a lower number.
const layers = {
  base: 0,
  os: 1,
  model: 2,
  store: 4,
  net: 4,
  old: 5,
  llm: 5,
  tool: 5,
  compact: 6,
  turn: 7,
  http: 8,
  cli: 9,
};

const words = (text) => text.trim().split(/\s+/);
const inFile = (...names) => (file) => names.includes(file);
const under = (...dirs) => (file) => dirs.some((dir) => file.startsWith(`${dir}/`));

// `where`: the files that the rule applies to; `except`: exceptions among them.
const bans = [
  {
    names: words(`strcpy stpcpy strcat strncpy strncat sprintf vsprintf strtok atoi atol atoll atof
      alloca gets`),
    where: () => true,
    why: 'it overruns, or hides errors',
  },
  {
    names: words(`malloc calloc realloc reallocarray free strdup strndup asprintf vasprintf
      aligned_alloc posix_memalign getline getdelim`),
    where: under('src'),
    except: inFile('src/base/alloc.c'),
    why: 'allocate through base/alloc.h',
  },
  {
    names: words(`open openat openat2 creat close read write pread pwrite readv writev preadv
      pwritev lseek ftruncate truncate fallocate posix_fallocate fsync fdatasync syncfs sync
      sync_file_range rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat remove
      rmdir mkdir mkdirat mkstemp mkdtemp stat fstat lstat fstatat statx access faccessat opendir
      fdopendir readdir closedir scandir flock lockf mmap fopen fdopen freopen fread fwrite fclose
      fgets getc fgetc fseek ftell clock_gettime gettimeofday time getrandom getentropy rand random
      srand randombytes_buf randombytes_random getpid syscall`),
    where: under('src'),
    except: (file) =>
      under('src/os', 'src/cli')(file) ||
      // Child processes are made, and confined, by system calls that the seam does not have.
      inFile(
        'src/http/clock.c',
        'src/tool/hidden.c',
        'src/tool/process.c',
        'src/tool/sandbox.c',
        'src/tool/supervisor.c',
      )(file),
    why: 'files, clocks and random bytes pass through struct qp__os of os/os.h',
  },
  {
    names: words('json_copy json_deep_copy'),
    where: under('src'),
    except: inFile('src/base/json.c'),
    why: 'it loses elements when memory runs out; use the function of base/json.h',
  },
  {
    names: words(`printf vprintf fprintf vfprintf puts fputs putchar fputc putc perror exit _exit
      abort`),
    where: under('src'),
    except: (file) => under('src/cli')(file) || inFile('src/base/assert.c', 'src/tool/process.c', 'src/tool/supervisor.c')(file),
    why: 'the library does not print and does not end its process',
  },
];

// What the command line may include besides the public headers, its own and base.
const cliMay = ['store/lease.h', 'http/keyfile.h', 'http/server.h', 'tool/grant.h', 'tool/once.h', 'turn/fsm.h'];
// What the server may include besides the public headers, its own, base and os: a body is a tree of values,
// which public headers do not know.
// Besides messages and what a state shows, what the faces of other protocols need: asking a model without a context, the words in
// which models answer, and the estimate of tokens; and the check of the settings of compaction.
const httpMay = ['net/client.h', 'store/lease.h', 'store/shared.h', 'store/context/brief.h', 'model/message.h', 'turn/ask.h', 'llm/answer_event.h', 'llm/fault.h', 'llm/model_request.h', 'compact/count.h',
  'compact/compact_settings.h'];

const curlMay = ['src/net/client.c', 'src/cli/chat_http.c'];

const drivers = ['store/files', 'store/memory'];

let violations = 0;

function complain(file, line, sentence) {
  process.stdout.write(`${file}:${line}: ${sentence}\n`);
  violations++;
}

// Every file below `dir` with one of the endings, relative to the root, sorted.
function list(dir, ...endings) {
  const full = path.join(root, dir);
  if (!fs.existsSync(full)) return [];
  return fs
    .readdirSync(full, { withFileTypes: true })
    .flatMap((entry) => {
      const name = `${dir}/${entry.name}`;
      if (entry.isDirectory()) return list(name, ...endings);
      return endings.some((ending) => name.endsWith(ending)) ? [name] : [];
    })
    .sort();
}

// Replaces comments, strings and characters by blanks, so that only code is left. Line breaks stay. Also returns
// the lines in which a "//" comment begins.
function strip(text) {
  const slashes = [];
  const token = /\/\*[^]*?\*\/|\/\/[^\n]*|"(?:\\[^]|[^"\\\n])*"|'(?:\\[^]|[^'\\\n])*'/g;
  const code = text.replace(token, (found, offset) => {
    if (found.startsWith('//')) slashes.push(text.slice(0, offset).split('\n').length);
    const blank = found.replace(/[^\n]/g, ' ');
    return found.startsWith('"') ? `"${blank.slice(2)}"` : blank;
  });
  return { code, slashes };
}

function checkForm(file, lines, slashes) {
  lines.forEach((line, i) => {
    const columns = [...line].length;
    if (line.includes('\t')) complain(file, i + 1, 'a tab; indent with spaces');
    if (/\s$/.test(line)) complain(file, i + 1, 'white space at the end of the line');
    if (columns > maxColumns)
      complain(file, i + 1, `the line has ${columns} columns; at most ${maxColumns} are allowed`);
    if (file.startsWith('src/') && /"[^"]*\bs:[so]\*/.test(line))
      complain(file, i + 1, 'json_pack() leaves such a field out when memory runs out; use qp__json_pack_set() and "?"');
    if (/\b(TODO|FIXME|XXX)\b/.test(line)) complain(file, i + 1, 'an unfinished place; finish it');
  });
  for (const line of slashes) complain(file, line, 'a // comment; write /* */');
  if (lines.length > maxLines)
    complain(file, lines.length, `more than ${maxLines} lines; divide the file`);
  if (!lines[0].startsWith('/*'))
    complain(file, 1, 'the file does not begin with a comment that says what it is');
}

function checkBans(file, codeLines) {
  for (const ban of bans) {
    if (!ban.where(file) || ban.except?.(file)) continue;
    const call = new RegExp(`(?<![\\w.]|->)(${ban.names.join('|')})\\s*\\(`, 'g');
    codeLines.forEach((line, i) => {
      for (const found of line.matchAll(call))
        complain(file, i + 1, `${found[1]}() is banned here: ${ban.why}`);
    });
  }
}

function checkInclude(file, line, name, quoted) {
  const layer = /^src\/(\w+)\//.exec(file)?.[1];
  const target = /^(\w+)\//.exec(name)?.[1];
  const isPublic = fs.existsSync(path.join(root, 'include', name));

  if (/^(examples|tests\/embed)\//.test(file) && quoted && !isPublic)
    complain(file, line, `it includes "${name}", which a library user does not have`);
  if (layer && name === 'curl/curl.h' && !curlMay.includes(file))
    complain(file, line, 'only net/client.c uses libcurl, so that the rules for requests are in one place');
  if (!layer || !quoted || isPublic) return;
  if (!fs.existsSync(path.join(root, 'src', name))) {
    complain(file, line, `"${name}" is not a path below src or include`);
  } else if (layer === 'cli' && !['cli', 'base'].includes(target) && !cliMay.includes(name)) {
    complain(file, line, `the command line includes "${name}"; it may use public headers and base only`);
  } else if (layer === 'http' && !['http', 'base', 'os'].includes(target) && !httpMay.includes(name)) {
    complain(file, line, `the server includes "${name}"; it reaches the store by public headers only`);
  } else if (!(layer in layers) || !(target in layers)) {
    complain(file, line, `"${name}": tools/checksrc.mjs does not know the layer of one side`);
  } else if (target === 'old' && layer !== 'old') {
    complain(file, line, `"${name}": what serves only old programs is reached through store/old_formats.h`);
  } else if (target !== layer && layers[target] >= layers[layer]) {
    complain(file, line, `${layer} includes "${name}", but ${target} is not below ${layer}`);
  }
  // A driver of the store does not know the others.
  const driver = drivers.find((dir) => file.startsWith(`src/${dir}/`));
  const other = drivers.find((dir) => name.startsWith(`${dir}/`));
  if (driver && other && driver !== other)
    complain(file, line, `${driver} includes "${name}" of another driver`);
}

// A file name occurs once, so that a name without its directory is enough to find a file.
function checkBasenames(files) {
  const seen = new Map();
  for (const file of files) {
    const name = path.basename(file);
    if (seen.has(name)) complain(file, 1, `${seen.get(name)} has the same name; choose another`);
    seen.set(name, file);
  }
}

// Readers mistake two names that differ by one underscore for each other. The exception is qp_free() and
// qp__free(), which do the same.
function checkUnderscores(headers) {
  const names = (file, form) => strip(fs.readFileSync(path.join(root, file), 'utf8')).code.match(form) ?? [];
  const known = new Set(headers('include').flatMap((file) => names(file, /\bqp_[a-z]\w*/g)));
  for (const file of headers('src'))
    for (const name of new Set(names(file, /\bqp__[a-z]\w*/g)))
      if (known.has(name.replace('qp__', 'qp_')) && name !== 'qp__free')
        complain(file, 1, `${name} and ${name.replace('qp__', 'qp_')} differ by one underscore; rename it`);
}

// One meaning per name: a type of the whole program is defined in one place.
function checkTypesOnce(files) {
  const places = new Map();
  for (const file of files)
    for (const [, name] of strip(fs.readFileSync(path.join(root, file), 'utf8')).code.matchAll(/^(?:struct|union|enum) (qp__?[a-z]\w*) \{/gm)) {
      if (places.has(name)) complain(file, 1, `${name} is also defined in ${places.get(name)}; rename one of them`);
      places.set(name, file);
    }
}

function checkIncludes(file, lines, codeLines) {
  const own = file.replace(/^src\//, '').replace(/\.c$/, '.h');
  const hasOwn = file.endsWith('.c') && fs.existsSync(path.join(root, 'src', own));
  let first = true;

  lines.forEach((line, i) => {
    const found = /^\s*#\s*include\s*(["<])([^">]+)[">]/.exec(line);
    if (!found || !codeLines[i].includes('#')) return;
    if (first && hasOwn && found[2] !== own && found[2] !== own.replace('.h', '_int.h'))
      complain(file, i + 1, `the first include must be the file's own header, "${own}"`);
    first = false;
    checkInclude(file, i + 1, found[2], found[1] === '"');
  });
}

function checkGuard(file, codeLines) {
  const directives = codeLines.filter((line) => line.startsWith('#'));
  const guard = /^#ifndef (\w+_H)$/.exec(directives[0] ?? '')?.[1];
  if (!guard || directives[1] !== `#define ${guard}`)
    complain(file, 1, 'the header has no include guard as its first directives');
}

// A definition has its name at the start of a line and its return type on the line before.
function checkNames(file, codeLines) {
  const isCli = file.startsWith('src/cli/');
  const good = isCli ? /^(main|cmd_\w+|cli_\w+)$/ : /^qp__?[a-z]\w*$/;
  const form = isCli ? 'main, cmd_… or cli_…' : 'qp_… (public) or qp__… (internal)';

  codeLines.forEach((line, i) => {
    const name = /^([A-Za-z_]\w*)\(/.exec(line)?.[1];
    const before = codeLines[i - 1] ?? '';
    if (/^\s*typedef\s+(struct|union)\b/.test(line) && !/\(/.test(line))
      complain(file, i + 1, 'a typedef of a struct; write struct where it is used');
    if (!name || !/^[a-z]/.test(before) || /[;{}]\s*$/.test(before)) return;
    if (!/\bstatic\b/.test(before) && !good.test(name))
      complain(file, i + 1, `the function ${name} is not static, so its name must be ${form}`);
  });
}

function checkFile(file) {
  const text = fs.readFileSync(path.join(root, file), 'utf8');
  const { code, slashes } = strip(text);
  const lines = text.split('\n');
  const codeLines = code.split('\n');

  if (lines.pop() !== '') complain(file, lines.length + 1, 'the last line has no line break');
  checkForm(file, lines, slashes);
  checkBans(file, codeLines);
  checkIncludes(file, lines, codeLines);
  if (file.endsWith('.h')) checkGuard(file, codeLines);
  if (file.startsWith('src/')) checkNames(file, codeLines);
}

// A file that Meson does not list is never built, and a test that is never built cannot fail.
function checkLists() {
  const read = (file) => fs.readFileSync(path.join(root, file), 'utf8');
  const listed = (build, variable, files, nameOf) => {
    const whole = read(build);
    const part = new RegExp(`^${variable} = [^]*?^[\\])]`, 'm');
    const text = variable ? part.exec(whole)?.[0] : whole;
    for (const file of files)
      if (!text?.includes(`'${nameOf(file)}'`))
        complain(file, 1, `not listed in ${build}, so it is not built`);
  };
  const stem = (file) => path.basename(file, '.c');
  const below = (dir) => (file) => file.slice(dir.length + 1);
  const isTest = (file) => stem(file).startsWith('test_');
  const isHelper = (file) => /^tests\/(unit|conformance|fault|crash|embed)\//.test(file) && !isTest(file);

  listed('src/meson.build', null, list('src', '.c'), below('src'));
  listed('tests/meson.build', 'test_lib_sources', list('tests/lib', '.c'), below('tests'));
  listed('tests/meson.build', 'fuzzers', list('tests/fuzz', '.c'), stem);
  for (const suite of ['unit', 'conformance', 'fault', 'crash', 'embed'])
    listed('tests/meson.build', `${suite}_tests`, list(`tests/${suite}`, '.c').filter(isTest), stem);
  listed('tests/meson.build', null, list('tests', '.c').filter(isHelper), below('tests'));
  const bench = list('bench', '.c');
  const programs = bench.filter((file) => stem(file).startsWith('bench_'));
  const parts = bench.filter((file) => !programs.includes(file));
  listed('bench/meson.build', 'bench_names', programs, stem);
  listed('bench/meson.build', null, parts, below('bench'));
  listed('examples/meson.build', null, list('examples', '.c'), stem);
}

for (const dir of ['include', 'src', 'tests', 'bench', 'examples'])
  for (const file of list(dir, '.c', '.h')) checkFile(file);
checkBasenames(list('src', '.c', '.h'));
checkUnderscores((dir) => list(dir, '.h'));
checkTypesOnce([...list('include', '.h'), ...list('src', '.c', '.h')]);
checkLists();
process.exitCode = violations > 0 ? 1 : 0;
