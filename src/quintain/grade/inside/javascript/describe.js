// `describe`, `test` and their hooks: what a test file registers, as a tree.
class Block {
  constructor(name, parent) {
    this.name = name;
    this.parent = parent;
    this.items = []; // blocks and tests in their order
    this.hooks = { beforeAll: [], beforeEach: [], afterEach: [], afterAll: [] };
  }
}

class Registry {
  constructor() {
    this.root = new Block("", null);
    this.at = this.root;
    this.names = new Map();
    this.only = false;
  }

  title(name) {
    const parts = [String(name)];
    for (let block = this.at; block.parent; block = block.parent) parts.unshift(block.name);
    const title = parts.join(" > ");
    const times = (this.names.get(title) ?? 0) + 1;
    this.names.set(title, times);
    return times === 1 ? title : `${title} #${times}`;
  }

  block(name, body) {
    const made = new Block(String(name), this.at);
    this.at.items.push(made);
    this.at = made;
    try {
      if (body() instanceof Promise) throw new TypeError("a describe block must not be asynchronous");
    } finally {
      this.at = made.parent;
    }
  }

  add(name, body) { this.at.items.push({ title: this.title(name), body }); }
}

// What a test file sees. Blocks and tests that its own text skips are no tests.
function vocabulary(registry) {
  const bodyOf = (args) => args.find((arg) => typeof arg === "function");
  const test = (name, ...rest) => {
    const body = bodyOf(rest);
    if (body === undefined) throw new TypeError(`test ${name} has no function`);
    registry.add(name, body);
  };
  const describe = (name, ...rest) => registry.block(name, bodyOf(rest));
  const nothing = () => {};
  const only = () => { throw new TypeError("a suite must not use .only: it would leave out its other tests"); };
  const each = (run) => (table) => {
    if (table?.raw) throw new TypeError("expected test.each with an array, found a template");
    return (name, body) => table.forEach((row, i) => {
      const args = Array.isArray(row) ? row : [row];
      run(titled(name, args, i), () => body(...args));
    });
  };
  const variants = (run) => Object.assign(run, { skip: Object.assign(nothing, { each: () => nothing }), todo: nothing, only, each: each(run) });
  const hook = (kind) => (body) => { registry.at.hooks[kind].push(body); };
  const [tests, blocks] = [variants(test), variants(describe)];
  return {
    describe: blocks, suite: blocks, context: blocks, xdescribe: nothing, test: tests, it: tests, xtest: nothing, xit: nothing, specify: tests,
    beforeAll: hook("beforeAll"), beforeEach: hook("beforeEach"), afterEach: hook("afterEach"), afterAll: hook("afterAll"),
    before: hook("beforeAll"), after: hook("afterAll"), expect,
    jest: { fn: mockFunction, setTimeout: nothing, clearAllMocks: nothing, resetAllMocks: nothing, restoreAllMocks: nothing, retryTimes: only },
  };
}

function titled(name, args, index) {
  let next = 0;
  return String(name).replace(/%([sdifjop#%])/g, (all, form) => {
    if (form === "%") return "%";
    if (form === "#") return String(index);
    const arg = args[next++];
    if (form === "s") return typeof arg === "string" ? arg : show(arg);
    return form === "d" || form === "i" || form === "f" ? String(Number(arg)) : show(arg);
  });
}
