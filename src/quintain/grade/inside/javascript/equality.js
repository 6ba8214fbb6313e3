// Whether two values are the same, as jest means it, decided on the trusted side: an object of the answer gives its
// properties, never an opinion. `strict` also asks for the same classes, and tells undefined from absent.
// Does not cover: two objects of the answer compared with each other are what their properties say.
const { inspect } = require("node:util");
const MAX_EQUAL_DEPTH = 100;

class Asymmetric {
  #brand = true;
  constructor(name, test) {
    this.name = name;
    this.test = test;
  }
  static is(value) { return value !== null && typeof value === "object" && !utilTypes.isProxy(value) && #brand in value; }
}

function classOf(value) { return Object.prototype.toString.call(value); }

function same(a, b, strict = false, depth = 0, pairs = []) {
  if (Asymmetric.is(b)) return b.test(a, (x, y) => same(x, y, strict, depth + 1, pairs));
  if (Asymmetric.is(a)) return a.test(b, (x, y) => same(x, y, strict, depth + 1, pairs));
  if (Object.is(a, b)) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (depth > MAX_EQUAL_DEPTH) throw new WrongType("a value that is too deep to compare");
  if (isError(a) && isError(b)) return String(a.message) === String(b.message) && (!strict || a.name === b.name);
  if (classOf(a) !== classOf(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  if (pairs.some(([x, y]) => x === a && y === b)) return true;
  const inner = (x, y) => same(x, y, strict, depth + 1, [...pairs, [a, b]]);
  if (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  const special = sameSpecial(a, b, inner);
  if (special !== undefined) return special;
  if (Array.isArray(a) && a.length !== b.length) return false;
  const [left, right] = [keysOf(a), keysOf(b)];
  if (strict && left.length !== right.length) return false;
  return [...new Set([...left, ...right])].every((key) => {
    if (strict && (!Object.hasOwn(a, key) || !Object.hasOwn(b, key))) return false;
    return inner(a[key], b[key]);
  });
}

function isError(value) { return utilTypes.isNativeError(value) || value instanceof Error; }

function keysOf(value) {
  return Reflect.ownKeys(value).filter((key) => Object.prototype.propertyIsEnumerable.call(value, key));
}

function sameSpecial(a, b, inner) {
  if (utilTypes.isDate(a) && utilTypes.isDate(b)) return Object.is(a.getTime(), b.getTime());
  if (utilTypes.isRegExp(a) && utilTypes.isRegExp(b)) return a.source === b.source && a.flags === b.flags;
  if (utilTypes.isBoxedPrimitive(a) && utilTypes.isBoxedPrimitive(b)) return Object.is(a.valueOf(), b.valueOf());
  if (utilTypes.isSet(a) && utilTypes.isSet(b)) {
    return a.size === b.size && [...a].every((item) => b.has(item) || [...b].some((other) => inner(item, other)));
  }
  if (utilTypes.isMap(a) && utilTypes.isMap(b)) {
    return a.size === b.size && [...a].every(([k, v]) =>
      b.has(k) ? inner(v, b.get(k)) : [...b].some(([l, w]) => inner(k, l) && inner(v, w)));
  }
  return undefined;
}

// A value in words, without a question to the other side.
function show(value, depth = 0) {
  if (utilTypes.isProxy(value)) return typeof value === "function" ? "[function of the answer]" : "[object of the answer]";
  if (Asymmetric.is(value)) return value.name;
  if (Array.isArray(value) && depth < 4) return `[${value.slice(0, 50).map((v) => show(v, depth + 1)).join(", ")}]`;
  if (isPlainObject(value) && depth < 4) {
    return `{${Object.keys(value).slice(0, 50).map((k) => `${k}: ${show(value[k], depth + 1)}`).join(", ")}}`;
  }
  if (utilTypes.isNativeError(value)) return `Error(${inspect(String(value.message))})`;
  return inspect(value, { depth: 1, breakLength: Infinity, customInspect: false }).slice(0, 400);
}

function isPlainObject(value) {
  return value !== null && typeof value === "object" && !utilTypes.isProxy(value) &&
    Object.getPrototypeOf(value) === Object.prototype;
}
