// Modules from a folder, CommonJS and ES alike, with the extension left out where tests leave it out.
const vm = require("node:vm");
const path = require("node:path");
const { createRequire, isBuiltin } = require("node:module");

const SUFFIXES = ["", ".js", ".mjs", ".cjs", ".json", "/index.js"];
const IS_MODULE = /Cannot use import statement|Unexpected token 'export'|Cannot use 'import\.meta'|await is only valid/;

class Loader {
  // `intercept(spec, file)`: {value} for what is not a file, else undefined. `tail`: a text put after CommonJS code.
  constructor(root, { intercept = () => undefined, tail = () => "" } = {}) {
    this.root = root;
    this.intercept = intercept;
    this.tail = tail;
    this.cjs = new Map();
    this.esm = new Map();
    this.outside = createRequire(path.join(root, "index.js"));
  }

  // The file that a specifier means, seen from another file; null for a builtin or a package.
  resolve(spec, from) {
    if (!/^(\.{1,2}(\/|$)|\/)/.test(spec)) return null;
    const base = path.resolve(path.dirname(from), spec);
    for (const suffix of SUFFIXES) {
      const file = base + suffix;
      if (fs.existsSync(file) && fs.statSync(file).isFile()) return file;
    }
    const error = new Error(`Cannot find module '${spec}' from '${path.relative(this.root, from)}'`);
    error.code = "MODULE_NOT_FOUND";
    throw error;
  }

  text(file) { return fs.readFileSync(file, "utf8").replace(/^\uFEFF/, "").replace(/^#!/, "//"); }

  // The compiled function of a CommonJS file; null when its text is that of an ES module.
  compiled(file, text) {
    if (file.endsWith(".mjs")) return null;
    try {
      return vm.compileFunction(text + this.tail(file), ["exports", "require", "module", "__filename", "__dirname"], {
        filename: file, importModuleDynamically: (spec) => this.dynamic(spec, file),
      });
    } catch (error) {
      if (error instanceof SyntaxError && !file.endsWith(".cjs") && IS_MODULE.test(error.message)) return null;
      throw error;
    }
  }

  require(spec, from) {
    const other = this.intercept(spec, from);
    if (other !== undefined) return other.value;
    const file = this.resolve(spec, from);
    if (file === null) return this.outside(spec);
    return this.load(file);
  }

  load(file) {
    const known = this.cjs.get(file);
    if (known !== undefined) return known.exports;
    if (file.endsWith(".json")) return parse(this.text(file));
    const run = this.compiled(file, this.text(file));
    if (run === null) throw new Error(`Cannot require() the ES module ${path.relative(this.root, file)}`);
    return this.run(file, run).exports;
  }

  run(file, compiled) {
    const module = { exports: {}, id: file, filename: file, loaded: false, children: [], paths: [] };
    this.cjs.set(file, module);
    const requirer = (spec) => this.require(spec, file);
    requirer.resolve = (spec) => this.resolve(spec, file) ?? spec;
    requirer.main = undefined;
    requirer.cache = {};
    try {
      Reflect.apply(compiled, module.exports, [module.exports, requirer, module, file, path.dirname(file)]);
    } catch (error) {
      this.cjs.delete(file);
      throw error;
    }
    module.loaded = true;
    return module;
  }

  // A vm.Module, not yet linked.
  module(spec, from) {
    const other = this.intercept(spec, from);
    if (other !== undefined) return this.synthetic(`${spec}`, other.value, other.keys);
    const file = this.resolve(spec, from);
    if (file !== null) return this.moduleOf(file);
    return this.synthetic(spec, isBuiltin(spec) ? require(spec) : this.outside(spec));
  }

  moduleOf(file) {
    let made = this.esm.get(file);
    if (made === undefined) {
      const text = file.endsWith(".json") ? "" : this.text(file);
      const compiled = file.endsWith(".json") ? undefined : this.compiled(file, text);
      if (compiled === null) {
        made = new vm.SourceTextModule(text, {
          identifier: file,
          initializeImportMeta: (meta) => { meta.url = `file://${file}`; meta.filename = file; meta.dirname = path.dirname(file); },
          importModuleDynamically: (spec) => this.dynamic(spec, file),
        });
      } else {
        made = this.synthetic(file, this.load(file));
      }
      this.esm.set(file, made);
    }
    return made;
  }

  synthetic(name, value, keys) {
    const open = value !== null && (typeof value === "object" || typeof value === "function");
    const names = keys ?? (open ? Object.keys(value) : []);
    const fill = function () {
      for (const key of names) if (key !== "default") this.setExport(key, value[key]);
      this.setExport("default", keys?.includes("default") ? value.default : value);
    };
    return new vm.SyntheticModule([...new Set([...names, "default"])], fill, { identifier: name });
  }

  async ready(module) {
    if (module.status === "unlinked") await module.link((spec, from) => this.module(spec, from.identifier));
    if (module.status === "linked") await module.evaluate();
    if (module.status === "errored") throw module.error;
    return module;
  }

  async dynamic(spec, from) { return this.ready(this.module(spec, from)); }

  async import(file) { return (await this.ready(this.moduleOf(file))).namespace; }
}
