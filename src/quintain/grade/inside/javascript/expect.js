// `expect` as jest has it, with its matchers executed on the trusted side.
class ExpectationFailed extends Error {}

function fail(message) { throw new ExpectationFailed(message.slice(0, 1000)); }

// A matcher: (received, expected...) → [whether it holds, what it says].
const MATCHERS = {
  toBe: (a, b) => Object.is(a, b),
  toEqual: (a, b) => same(a, b),
  toStrictEqual: (a, b) => same(a, b, true),
  toBeCloseTo: (a, b, digits = 2) => {
    for (const n of [a, b]) if (typeof n !== "number") throw new WrongType(`expected a number, found ${show(n)}`);
    return a === b || Math.abs(b - a) < 10 ** -digits / 2;
  },
  toBeNull: (a) => a === null,
  toBeUndefined: (a) => a === undefined,
  toBeDefined: (a) => a !== undefined,
  toBeNaN: (a) => Number.isNaN(a),
  toBeTruthy: (a) => Boolean(a),
  toBeFalsy: (a) => !a,
  toBeGreaterThan: (a, b) => ordered(a, b) && a > b,
  toBeGreaterThanOrEqual: (a, b) => ordered(a, b) && a >= b,
  toBeLessThan: (a, b) => ordered(a, b) && a < b,
  toBeLessThanOrEqual: (a, b) => ordered(a, b) && a <= b,
  toBeInstanceOf: (a, b) => a instanceof b,
  toContain: (a, b) => (typeof a === "string" ? a.includes(text(b)) : [...a].some((item) => Object.is(item, b) || item === b)),
  toContainEqual: (a, b) => [...a].some((item) => same(item, b)),
  toHaveLength: (a, b) => a !== null && a !== undefined && Object.is(a.length, b),
  toHaveProperty: (a, path, ...value) => property(a, path, value),
  toMatch: (a, b) => (b instanceof RegExp ? b.test(text(a)) : text(a).includes(text(b))),
  toMatchObject: (a, b) => partly(a, b),
  toThrow: thrown,
  toThrowError: thrown,
  toHaveBeenCalled: (a) => callsOf(a).length > 0,
  toHaveBeenCalledTimes: (a, n) => callsOf(a).length === n,
  toHaveBeenCalledWith: (a, ...args) => callsOf(a).some((call) => same(call, args)),
  toHaveBeenLastCalledWith: (a, ...args) => same(callsOf(a).at(-1), args),
  toHaveBeenNthCalledWith: (a, n, ...args) => same(callsOf(a)[n - 1], args),
  toHaveReturnedWith: (a, value) => a.mock.results.some((r) => r.type === "return" && same(r.value, value)),
  toSatisfy: (a, predicate) => Boolean(predicate(a)),
};

function text(value) {
  if (typeof value !== "string") throw new WrongType(`expected a string, found ${show(value)}`);
  return value;
}

function ordered(...values) {
  for (const v of values) {
    if (typeof v !== "number" && typeof v !== "bigint") throw new WrongType(`expected a number, found ${show(v)}`);
  }
  return true;
}

function property(object, where, value) {
  const keys = Array.isArray(where) ? where : String(where).split(/\.|\[(\d+)\]/).filter(Boolean);
  let found = object;
  for (const key of keys) {
    if (found === null || found === undefined || !(key in Object(found))) return false;
    found = found[key];
  }
  return value.length === 0 || same(found, value[0]);
}

function partly(a, b) {
  if (Asymmetric.is(b) || b === null || typeof b !== "object" || !isPlainObject(b)) {
    if (Array.isArray(b)) return Array.isArray(a) && a.length === b.length && b.every((item, i) => partly(a[i], item));
    return same(a, b);
  }
  return a !== null && typeof a === "object" && keysOf(b).every((key) => key in a && partly(a[key], b[key]));
}

function callsOf(mock) {
  if (utilTypes.isProxy(mock) || !mock?.mock) throw new TypeError("expected a mock function of the tests");
  return mock.mock.calls;
}

function thrown(received, expected, negated, promised) {
  let error;
  if (promised) {
    error = received;
  } else {
    if (typeof received !== "function") throw new TypeError(`expected a function, found ${show(received)}`);
    try {
      received();
      return [false, "nothing was thrown"];
    } catch (caught) {
      if (caught instanceof WrongType || caught instanceof Gone || caught instanceof MissingName) throw caught;
      error = caught;
    }
  }
  const message = error !== null && typeof error === "object" && "message" in error ? String(error.message) : String(error);
  const told = `threw ${inspect(message.slice(0, 300))}`;
  if (expected === undefined) return [true, told];
  if (typeof expected === "string") return [message.includes(expected), told];
  if (expected instanceof RegExp) return [expected.test(message), told];
  if (typeof expected === "function") return [error instanceof expected, told];
  if (Asymmetric.is(expected)) return [expected.test(error, same), told];
  return [message === String(expected.message), told];
}

function check(name, received, args, negated, promised) {
  const matcher = MATCHERS[name];
  const isThrow = name === "toThrow" || name === "toThrowError";
  const result = isThrow ? matcher(received, args[0], negated, promised) : matcher(received, ...args);
  const [holds, told] = Array.isArray(result) ? result : [result, `found ${show(received)}`];
  expect.count += 1;
  if (holds === negated) {
    const wanted = args.map((arg) => show(arg)).join(", ");
    fail(`expect(...)${negated ? ".not" : ""}.${name}(${wanted}): ${told}`);
  }
}

function matchersOf(received, negated, settle) {
  const made = {};
  for (const name of Object.keys(MATCHERS)) {
    made[name] = settle
      ? async (...args) => check(name, await settle(received), args, negated, true)
      : (...args) => check(name, received, args, negated, false);
  }
  return made;
}

async function resolved(promise) {
  if (typeof promise?.then !== "function") fail(`expected a promise, found ${show(promise)}`);
  try {
    return await promise;
  } catch (error) {
    if (error instanceof WrongType) throw error;
    return fail(`expected a promise that resolves, it rejected with ${show(error)}`);
  }
}

async function rejected(promise) {
  let value;
  try {
    value = await (typeof promise === "function" ? promise() : promise);
  } catch (error) {
    if (error instanceof WrongType || error instanceof Gone) throw error;
    return error;
  }
  return fail(`expected a promise that rejects, it resolved to ${show(value)}`);
}

function expect(received) {
  const both = (settle) => Object.assign(matchersOf(received, false, settle), { not: matchersOf(received, true, settle) });
  return Object.assign(both(null), { resolves: both(resolved), rejects: both(rejected) });
}

const asymmetric = {
  anything: () => new Asymmetric("anything", (v) => v !== null && v !== undefined),
  any: (kind) => new Asymmetric(`any ${kind.name}`, (v) => isA(v, kind)),
  objectContaining: (part) => new Asymmetric(`an object with ${show(part)}`, (v, eq) =>
    v !== null && typeof v === "object" && keysOf(part).every((key) => key in v && eq(v[key], part[key]))),
  arrayContaining: (part) => new Asymmetric(`an array with ${show(part)}`, (v, eq) =>
    Array.isArray(v) && part.every((item) => v.some((other) => eq(other, item)))),
  stringContaining: (part) => new Asymmetric(`text with ${show(part)}`, (v) => typeof v === "string" && v.includes(part)),
  stringMatching: (form) => new Asymmetric(`text like ${form}`, (v) => typeof v === "string" && new RegExp(form).test(v)),
  closeTo: (n, digits = 2) => new Asymmetric(`about ${n}`, (v) => typeof v === "number" && Math.abs(v - n) < 10 ** -digits / 2),
};
Object.assign(expect, asymmetric, {
  count: 0,
  planned: null,
  assertions: (n) => { expect.planned = (count) => count === n || `expected ${n} assertions, found ${count}`; },
  hasAssertions: () => { expect.planned = (count) => count > 0 || "expected an assertion, found none"; },
  extend: (more) => {
    for (const [name, matcher] of Object.entries(more)) {
      MATCHERS[name] = (received, ...args) => {
        const { pass, message } = matcher.call({ equals: same, isNot: false, utils: { printReceived: show, printExpected: show } }, received, ...args);
        return [pass, typeof message === "function" ? String(message()) : ""];
      };
    }
  },
  not: Object.fromEntries(Object.entries(asymmetric).filter(([name]) => name !== "anything" && name !== "any").map(([name, make]) => [
    name, (...args) => { const inner = make(...args); return new Asymmetric(`not ${inner.name}`, (v, eq) => !inner.test(v, eq)); },
  ])),
});

function isA(value, kind) {
  const plain = new Map([[Number, "number"], [String, "string"], [Boolean, "boolean"], [BigInt, "bigint"], [Symbol, "symbol"],
    [Function, "function"]]);
  if (plain.has(kind)) return typeof value === plain.get(kind);
  if (kind === Object) return typeof value === "object";
  return value instanceof kind;
}

// A function that remembers how it was called, as `jest.fn` makes one.
function mockFunction(implementation) {
  let body = implementation;
  const once = [];
  const mock = { calls: [], results: [], instances: [] };
  const made = function (...args) {
    mock.calls.push(args);
    mock.instances.push(this);
    try {
      const run = once.shift() ?? body;
      const value = run ? run.apply(this, args) : undefined;
      mock.results.push({ type: "return", value });
      return value;
    } catch (error) {
      mock.results.push({ type: "throw", value: error });
      throw error;
    }
  };
  return Object.assign(made, {
    mock,
    mockImplementation: (f) => { body = f; return made; },
    mockImplementationOnce: (f) => { once.push(f); return made; },
    mockReturnValue: (v) => { body = () => v; return made; },
    mockReturnValueOnce: (v) => { once.push(() => v); return made; },
    mockResolvedValue: (v) => { body = async () => v; return made; },
    mockRejectedValue: (v) => { body = async () => { throw v; }; return made; },
    mockClear: () => { mock.calls.length = mock.results.length = mock.instances.length = 0; return made; },
  });
}
