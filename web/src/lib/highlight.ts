// Colours of code, as a tree of spans; loaded with the first code block that names its language.

import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import kotlin from 'highlight.js/lib/languages/kotlin';
import lua from 'highlight.js/lib/languages/lua';
import makefile from 'highlight.js/lib/languages/makefile';
import markdown from 'highlight.js/lib/languages/markdown';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import r from 'highlight.js/lib/languages/r';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import swift from 'highlight.js/lib/languages/swift';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';

const low = createLowlight({ bash, c, cpp, csharp, css, go, ini, java, javascript, json, kotlin, lua, makefile, markdown, php, python, r, ruby, rust, sql, swift, typescript, xml, yaml });
low.registerAlias({ bash: ['sh', 'shell', 'zsh', 'console'], javascript: ['js', 'jsx', 'mjs'], typescript: ['ts', 'tsx'], python: ['py'], rust: ['rs'], xml: ['html', 'svg'], yaml: ['yml'], ini: ['toml', 'conf'], cpp: ['c++', 'cc'], csharp: ['cs'], markdown: ['md'], go: ['golang'], ruby: ['rb'], kotlin: ['kt'], makefile: ['make'] });

export function highlight(language: string, code: string): unknown {
  return low.registered(language) ? low.highlight(language, code) : null;
}
