// The verifier's side: runs the trusted tests against stand-ins of the answer's modules, and writes what came of each.
// Covers: the answer reaches of the tests only what they hand over: it can call their functions, and read and call what
// their objects have under plain names; `constructor`, prototypes and accessors give nothing away. A failed expectation
// inside a callback stays failed, whatever the answer does with the error.
// Does not cover: comparisons of two of the answer's objects with each other; fake timers; derived classes.
const HALVES = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const DENIED = /^(?:constructor|prototype|caller|callee|arguments|__.*)$/;

class Verifier extends Peer {
  askingMilliseconds = 0;
  asking = false;

  allow(what, target, key) {
    if (what === "call" || what === "new") {
      if (typeof target !== "function") throw new TypeError("not a function");
      return;
    }
    if (what === "keys" || what === "proto") return;
    if (what === "text") throw new WrongType("an object of the tests has no text there");
    const denied = typeof target === "function" || typeof key === "string" && DENIED.test(key);
    const inherited = typeof key === "string" && key in Object.prototype && !Object.hasOwn(target, key);
    if (denied || (inherited && key !== "toString" && key !== "valueOf" && key !== "hasOwnProperty")) {
      throw new TypeError(`nothing to see under ${String(key)}`);
    }
    if ((what === "set" || what === "del") && typeof Reflect.get(target, key) === "function") {
      throw new TypeError("an object of the tests keeps its methods");
    }
  }

  protoOf(value) {
    for (let at = Object.getPrototypeOf(value); at !== null; at = Object.getPrototypeOf(at)) {
      if (NAME_OF_BUILTIN.has(at)) return at;
    }
    return null;
  }

  receiver(self) {
    if (self === null || (typeof self !== "object" && typeof self !== "function")) return self;
    return this.refs.has(self) || this.ownNumbers.has(self) ? self : undefined;
  }

  reply(well, value, ...rest) {
    if (!well && isFailure(value)) state.sticky ??= value;
    super.reply(well, value, ...rest);
  }

  module(name) {
    const known = state.modules.get(name);
    if (known) return known;
    const [keys, , face] = this.ask("module", name);
    const made = { value: face, keys: keys.map(String) };
    state.modules.set(name, made);
    return made;
  }

  poll(milliseconds) {
    const asked = this.askingMilliseconds;
    this.ask("poll", milliseconds);
    this.askingMilliseconds = asked; // the other side goes on meanwhile, and so does the clock
  }

  ask(...question) {
    if (this.asking) return super.ask(...question);
    const started = performance.now();
    this.asking = true;
    try {
      return super.ask(...question);
    } finally {
      this.asking = false;
      this.askingMilliseconds += performance.now() - started;
    }
  }
}

// The tests' timers, on a clock that stands still while the other side is asked: what a test starts first, to last
// longest, does not end first because the way across was slow. Each is followed by a turn of the candidate.
class Clock {
  constructor(peer) {
    this.peer = peer;
    this.timers = [];
    this.count = 0;
    this.native = { setTimeout, setImmediate };
  }

  now() { return performance.now() - this.peer.askingMilliseconds; }

  add(body, delay, args, every) {
    const timer = { due: this.now() + delay, number: (this.count += 1), run: () => body(...args), every: every ? delay : null };
    Object.assign(timer, { ref: () => timer, unref: () => timer, hasRef: () => true, refresh: () => timer,
      [Symbol.toPrimitive]: () => timer.number });
    this.place(timer);
    return timer;
  }

  // Keep the timers in the order in which they are due.
  place(timer) {
    let [low, high] = [0, this.timers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.timers[middle].due <= timer.due) low = middle + 1;
      else high = middle;
    }
    this.timers.splice(low, 0, timer);
  }

  remove(which) { this.timers = this.timers.filter((timer) => timer !== which && timer.number !== which); }

  // Run the first timer that is due; whether there was one.
  tick() {
    const [first] = this.timers;
    if (first === undefined || first.due > this.now()) return false;
    this.timers.shift();
    if (first.every !== null) {
      first.due = this.now() + first.every;
      this.place(first);
    }
    first.run();
    return true;
  }

  install() {
    const delayed = (every) => (body, delay, ...args) => this.add(body, Math.max(1, Number(delay) || 0), args, every);
    const clear = (which) => this.remove(which);
    Object.assign(globalThis, { setTimeout: delayed(false), setInterval: delayed(true), clearTimeout: clear, clearInterval: clear });
  }
}

const state = { modules: new Map(), sticky: null };

// An object of the answer's may throw, or end its process, when it is asked what it is.
function isFailure(error) {
  try { return error instanceof ExpectationFailed || error?.code === "ERR_ASSERTION"; } catch { return false; }
}
function isA(error, kind) {
  try { return error instanceof kind; } catch { return false; }
}

class Runner {
  constructor(config) {
    this.config = config;
    this.peer = new Verifier(new Pipe(3));
    this.clock = new Clock(this.peer);
    this.root = process.cwd();
  }

  say(line) {
    // halves of surrogate pairs, which the answer may have sent, are no text to whoever reads this
    const whole = (_, value) => (typeof value === "string" ? value.replace(HALVES, "\ufffd") : value);
    const bytes = Buffer.from(stringify(line, whole) + "\n");
    for (let done = 0; done < bytes.length; ) done += writeSync(1, bytes, done);
  }

  // Run until a promise is settled; the candidate's timers go on meanwhile.
  async settle(promise, seconds) {
    let ended = false;
    promise.then(() => { ended = true; }, () => { ended = true; });
    const until = performance.now() + seconds * 1000;
    for (;;) {
      await new Promise(this.clock.native.setImmediate);
      if (ended) return promise;
      if (performance.now() > until) throw new Gone("late", `it was not settled within ${seconds} s`);
      const ticked = this.clock.tick();
      if (state.modules.size > 0) this.peer.poll(ticked ? 0 : this.peer.pending.size > 0 ? 5 : 1);
      else if (!ticked) await new Promise((resolve) => this.clock.native.setTimeout(resolve, 1));
    }
  }

  async call(body) {
    const takesDone = body.length > 0 && !this.config.contexts;
    const value = takesDone
      ? new Promise((resolve, reject) => { const done = (e) => (e ? reject(e) : resolve()); done.fail = reject; const r = body(done); r?.then?.(undefined, reject); })
      : body(this.context());
    if (value instanceof Promise) await this.settle(value, this.config.testSeconds);
  }

  context() {
    if (!this.config.contexts) return undefined;
    const skip = () => { throw new Skipped("skipped while it ran"); };
    return { skip, todo: skip, diagnostic: () => {}, test: async (name, ...rest) => this.call(rest.find((x) => typeof x === "function")) };
  }

  why(error, loading) {
    const isObject = error !== null && (typeof error === "object" || typeof error === "function");
    // an object of the answer's is asked for every property, and may end its process or throw instead of answering
    const asked = (question, otherwise) => { try { return question(); } catch { return otherwise; } };
    const read = (key) => asked(() => String(error[key] ?? "").slice(0, MAX_TEXT), "");
    const is = (kind) => isA(error, kind);
    const frames = isObject ? this.peer.frames.get(error) : undefined;
    const crossed = frames !== undefined || (!isObject && this.peer.lastThrown?.value === error && this.peer.lastThrown);
    const type = isObject ? read("name") || "Error" : "Thrown";
    const message = isObject ? read("message") : String(error).slice(0, MAX_TEXT);
    const ended = is(Gone) ? (error.why === "late" ? "hung" : error.why) : null;
    return {
      type, message,
      at: isObject ? asked(() => this.place(error), null) : null,
      bases: [isFailure(error) ? "AssertionError" : ""],
      candidate: crossed ? placesOf(frames ?? this.peer.lastThrown.frames) : null,
      gone: this.peer.dead?.why ?? ended,
      wrong_type: is(WrongType), served: is(MissingName),
      asked: this.peer.asked, got: this.peer.got, skipped: is(Skipped),
      task: is(Unfit) || (loading && is(SyntaxError) && frames === undefined && !IS_EXPORT.test(message)),
      missing: isObject ? IS_EXPORT.exec(message)?.[1] ?? null : null,
    };
  }

  place(error) {
    const stack = utilTypes.isNativeError(error) ? String(Object.getOwnPropertyDescriptor(error, "stack")?.value ?? error.stack) : "";
    for (const match of stack.matchAll(/(?:file:\/\/)?(\/[^\s()]+?):(\d+)(?::\d+)?\)?/g)) {
      if (match[1].startsWith(this.root + "/")) return [match[1].slice(this.root.length + 1), Number(match[2])];
    }
    return null;
  }

  // The hooks and the body of one test. A hook that fails fails the test.
  async one(file, item, blocks) {
    const id = `${file}::${item.title}`;
    this.say({ begin: id });
    state.sticky = null;
    expect.count = 0;
    expect.planned = null;
    let failure = null;
    try {
      if (this.peer.dead) throw this.peer.dead;
      for (const block of blocks) for (const hook of block.hooks.beforeEach) await this.call(hook);
      await this.call(item.body);
      const plan = expect.planned ? expect.planned(expect.count) : true;
      if (plan !== true) fail(plan);
    } catch (error) {
      failure = { error };
    }
    try {
      for (const block of [...blocks].reverse()) for (const hook of block.hooks.afterEach) await this.call(hook);
    } catch (error) {
      failure ??= { error };
    }
    if (failure === null && state.sticky !== null) failure = { error: state.sticky };
    if (failure === null && this.peer.dead) failure = { error: this.peer.dead };
    this.say(failure === null ? { test: id, ok: true, why: null } : { test: id, why: this.why(failure.error, false) });
  }

  async block(file, block, above) {
    const blocks = [...above, block];
    let broken = null;
    try {
      for (const hook of block.hooks.beforeAll) await this.call(hook);
    } catch (error) {
      broken = { error };
    }
    const items = this.config.seed === null ? block.items : shuffled(block.items, this.config.seed);
    for (const item of items) {
      if (broken && !(item instanceof Block)) this.say({ test: `${file}::${item.title}`, why: this.why(broken.error, false) });
      else if (item instanceof Block) await this.block(file, broken ? failing(item, broken) : item, blocks);
      else await this.one(file, item, blocks);
    }
    try {
      for (const hook of block.hooks.afterAll) await this.call(hook);
    } catch (error) {
      this.say({ test: `${file}::${block.name} > afterAll`, why: this.why(error, false) });
    }
  }

  // A file that registers no test is one test: it passes when it runs to its end.
  async file(file) {
    const registry = new Registry();
    const words = vocabulary(registry);
    Object.assign(globalThis, words);
    state.sticky = null;
    const loader = new Loader(this.root, { intercept: (spec, from) => this.intercept(spec, from, words) });
    const script = `${file}::script`;
    this.say({ begin: script });
    try {
      const full = path.join(this.root, file);
      if (loader.compiled(full, loader.text(full)) === null) await this.settle(loader.import(full), this.config.testSeconds);
      else loader.load(full);
      if (this.peer.dead) throw this.peer.dead;
    } catch (error) {
      const isScript = registry.root.items.length === 0 && (isFailure(error) || this.peer.asked) && !isA(error, SyntaxError);
      if (isScript) this.say({ test: script, why: this.why(error, false) });
      else this.say({ file, why: this.why(error, true) });
      return;
    }
    if (registry.root.items.length > 0) await this.block(file, registry.root, []);
    else this.say(state.sticky === null ? { test: script, ok: true, why: null } : { test: script, why: this.why(state.sticky, false) });
  }

  intercept(spec, from, words) {
    if (spec === "@jest/globals" || spec === "vitest") return { value: words, keys: Object.keys(words) };
    if (spec === "node:test" || spec === "test") {
      this.config.contexts = true;
      const { skip, todo, only } = words.test;
      const value = Object.assign((...args) => words.test(...args), words, { skip, todo, only, mock: { fn: mockFunction } });
      return { value, keys: Object.keys(value) };
    }
    if (!/^\.{1,2}\//.test(spec)) {
      if (spec === "child_process" || spec === "node:child_process") throw new Unfit("tests that start processes cannot be judged from outside");
      return undefined;
    }
    const name = path.relative(this.root, path.resolve(path.dirname(from), spec)).replace(/\.[cm]?js$/, "");
    if (!this.config.modules.includes(name)) return undefined;
    if (spec.endsWith(".json")) return undefined;
    return this.peer.module(name);
  }

  async run() {
    const files = this.config.seed === null ? this.config.files : shuffled(this.config.files, this.config.seed);
    for (const file of files) await this.file(file);
    this.say({ end: { calls: this.peer.calls, gone: this.peer.dead?.why ?? null, received_bytes: this.peer.pipe.receivedBytes } });
  }
}

class Skipped extends Error {}
class Unfit extends Error {}
const IS_EXPORT = /does not provide an export named '([^']*)'/;

function placesOf(frames) {
  if (!Array.isArray(frames)) return [];
  return frames.filter((f) => Array.isArray(f) && typeof f[0] === "string" && Number.isInteger(f[1])).slice(0, 50)
    .map(([file, line, name]) => [file.slice(0, 300), line, String(name).slice(0, 200)]);
}

function failing(block, broken) {
  const made = Object.assign(new Block(block.name, block.parent), { items: block.items });
  made.hooks.beforeAll.push(() => { throw broken.error; });
  return made;
}

function shuffled(items, seed) {
  const order = [...items];
  let at = (seed >>> 0) || 1;
  for (let i = order.length - 1; i > 0; i--) {
    at ^= at << 13; at >>>= 0; at ^= at >>> 17; at ^= at << 5; at >>>= 0;
    const j = at % (i + 1);
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

function verify() {
  const config = parse(fs.readFileSync(0, "utf8"));
  const runner = new Runner(config);
  const quiet = () => {};
  runner.clock.install();
  console.assert = (holds, ...message) => {
    if (holds) return;
    const error = new ExpectationFailed(message.length ? `console.assert: ${message.map((m) => show(m)).join(" ")}` : "console.assert");
    state.sticky ??= error;
    throw error;
  };
  for (const name of ["log", "info", "warn", "error", "debug", "table", "trace"]) console[name] = quiet;
  process.stdout.write = () => true;
  process.on("unhandledRejection", (error) => { state.sticky ??= error; });
  runner.run().then(() => process.exit(0), (error) => {
    if (runner.peer.dead) { // whatever asked it last: the answer is gone, and that is the end of the run
      runner.say({ end: { calls: runner.peer.calls, gone: runner.peer.dead.why, received_bytes: runner.peer.pipe.receivedBytes } });
      process.exit(0);
    }
    process.stderr.write(`${error?.stack ?? error}\n`);
    process.exit(70);
  });
}
