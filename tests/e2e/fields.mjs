// Fields of the packages' own types: TypeScript reads the .d.ts files, and a type becomes a list of
// paths. `messages[user].content[image_url].image_url.detail` is the field of a part of a kind of
// message; the word in brackets is the `type` or `role` of one member of a union.

import path from 'node:path';
import ts from 'typescript';

const deep = 9;

export class Types {
  // `files`: paths in node_modules.
  constructor(root, files) {
    const names = files.map((file) => path.join(root, 'node_modules', file));
    this.program = ts.createProgram(names, { strict: true, noEmit: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext });
    this.checker = this.program.getTypeChecker();
    this.files = Object.fromEntries(files.map((file, i) => [file, this.program.getSourceFile(names[i])]));
  }

  find(file, name) {
    const source = this.files[file];
    const module = this.checker.getSymbolAtLocation(source);
    const symbol = this.checker.getExportsOfModule(module).find((one) => one.name === name);
    if (!symbol) throw new Error(`${file} has no ${name}`);
    const target = symbol.flags & ts.SymbolFlags.Alias ? this.checker.getAliasedSymbol(symbol) : symbol;
    return this.checker.getDeclaredTypeOfSymbol(target);
  }

  members(type) {
    const bare = this.checker.getNonNullableType(type);
    return bare.isUnion() ? bare.types : [bare];
  }

  element(type) {
    return this.checker.isArrayType(type) || this.checker.isTupleType(type) ? this.checker.getTypeArguments(type)[0] : undefined;
  }

  isObject(type) {
    const parts = type.isIntersection() ? type.types : [type];
    return parts.every((one) => (one.flags & ts.TypeFlags.Object) !== 0) && !this.element(type) && type.getCallSignatures().length === 0;
  }

  fieldType(symbol) {
    const at = symbol.valueDeclaration ?? symbol.declarations[0];
    return this.checker.getTypeOfSymbolAtLocation(symbol, at);
  }

  // The word that tells this member from the others of its union: "function", "user".
  kind(type) {
    for (const key of ['type', 'role']) {
      const symbol = type.getProperty(key);
      const words = symbol ? this.members(this.fieldType(symbol)).filter((one) => one.isStringLiteral()).map((one) => one.value) : [];
      if (words.length > 0) return words;
    }
    return [];
  }

  // Calls see(path, type, optional) for every field below a type.
  walk(type, at, see, depth = 0, above = []) {
    if (depth > deep) return;
    const all = this.members(type);
    const objects = all.filter((one) => this.isObject(one));
    for (const one of all) {
      const element = this.element(one);
      if (element) this.walkList(element, at, see, depth, above);
    }
    for (const one of objects) {
      if (above.includes(one)) continue;
      const words = objects.length > 1 ? this.kind(one) : [];
      for (const inner of words.length > 0 ? words.map((word) => `${at}{${word}}`) : [at]) this.object(one, inner, see, depth, above);
    }
  }

  walkList(element, at, see, depth, above) {
    const objects = this.members(element).filter((one) => this.isObject(one));
    for (const one of objects) {
      if (above.includes(one)) continue;
      const words = objects.length > 1 ? this.kind(one) : [];
      for (const word of words.length > 0 ? words : ['']) this.object(one, `${at}[${word}]`, see, depth, above);
    }
  }

  object(type, at, see, depth, above) {
    for (const symbol of type.getProperties()) {
      const inner = at ? `${at}.${symbol.name}` : symbol.name;
      const own = this.fieldType(symbol);
      see(inner, own, (symbol.flags & ts.SymbolFlags.Optional) !== 0, symbol);
      this.walk(own, inner, see, depth + 1, [...above, type]);
    }
  }

  // All paths below a type.
  paths(type) {
    const list = new Set();
    this.walk(type, '', (at) => list.add(at));
    return [...list];
  }

  // The words of a union of string constants, or of the `type` of a union of objects.
  words(type) {
    return this.members(type).flatMap((one) => (one.isStringLiteral() ? [one.value] : this.isObject(one) ? this.kind(one) : []));
  }

  // A value of a type with the field at `path` in it, and otherwise only what is required. `leaf`
  // may give values: leaf(path) is undefined where the type alone decides. `other`: the value at the
  // end differs from the usual one.
  make(type, way, leaf, other = false, at = '', kind = undefined) {
    const path = way.replace(/^\./, '');
    const own = path === '' ? leaf(at, other) : undefined;
    if (own !== undefined) return own;
    const all = this.members(type).filter((one) => !(one.flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Null)));
    const [, open, word, rest] = /^(?:(\[|\{)([^\]}]*)[\]}])?\.?(.*)$/s.exec(path);
    if (open === '[') {
      const list = all.find((one) => this.element(one));
      const one = list && this.make(this.element(list), rest, leaf, other, `${at}[${word}]`, word);
      return one === undefined ? undefined : [one];
    }
    if (open === '{') return this.make(type, rest, leaf, other, `${at}{${word}}`, word);
    const objects = all.filter((one) => this.isObject(one));
    const fits = kind ? objects.filter((one) => this.kind(one).includes(kind)) : objects;
    const field = /^[^.[{]*/.exec(path)[0];
    if (path === '' && !(fits.length > 0 && all.every((one) => this.isObject(one)))) return this.value(all, leaf, other, at);
    // Several members of a union may be of that kind: the first one that has the whole path.
    for (const object of fits) {
      if (field && !object.getProperty(field)) continue;
      const made = this.makeObject(object, field, path.slice(field.length), leaf, other, at, kind);
      if (made) return made;
    }
    return undefined;
  }

  makeObject(type, field, rest, leaf, other, at, kind) {
    const made = {};
    for (const symbol of type.getProperties()) {
      const { name } = symbol;
      const inner = at ? `${at}.${name}` : name;
      const own = this.fieldType(symbol);
      if (kind && ['type', 'role'].includes(name) && this.members(own).some((one) => one.isStringLiteral() && one.value === kind)) made[name] = kind;
      else if (name === field) {
        made[name] = this.make(own, rest, leaf, other, inner);
        if (made[name] === undefined) return undefined;
      }
      else if (!(symbol.flags & ts.SymbolFlags.Optional)) made[name] = this.make(own, '', leaf, false, inner);
    }
    return made;
  }

  value(all, leaf, other, at) {
    const words = all.filter((one) => one.isStringLiteral()).map((one) => one.value);
    if (words.length > 0) return words[other ? words.length - 1 : 0];
    if (all.some((one) => one.flags & ts.TypeFlags.StringLike)) return other ? 'mark' : 'text';
    if (all.some((one) => one.flags & ts.TypeFlags.NumberLike)) return other ? 7 : 1;
    if (all.some((one) => one.flags & ts.TypeFlags.BooleanLike)) return !other;
    const list = all.find((one) => this.element(one));
    if (list) return [this.make(this.element(list), '', leaf, other, `${at}[]`)];
    return other ? { mark: 1 } : {};
  }
}
