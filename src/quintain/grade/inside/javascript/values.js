// Values as they cross: plain ones are copied with a tag for each type, everything else goes by reference. Nothing is
// evaluated. Containers keep their identity within one question and its answer, so that changes in place come back.
// Covers: NaN, -0, infinities, bigints, undefined, holes, Map, Set, Date, RegExp, typed arrays, errors, cycles, depth.
// Does not cover: accessors and functions inside plain objects are reached by reference, not copied.
const { types: utilTypes } = require("node:util");
const MAX_DEPTH = 60;
const MAX_NODES = 1_000_000;
const MAX_TEXT = 4000;

const BUILTIN_NAMES = [
  "Object", "Array", "Error", "TypeError", "RangeError", "SyntaxError", "ReferenceError", "EvalError", "URIError",
  "AggregateError", "Map", "Set", "WeakMap", "WeakSet", "Promise", "Date", "RegExp", "Number", "String", "Boolean",
  "Symbol", "BigInt", "ArrayBuffer", "DataView", "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array",
  "Uint16Array", "Int32Array", "Uint32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array",
];
const BUILTINS = new Map([["Function.prototype", Function.prototype]]);
for (const name of BUILTIN_NAMES) {
  BUILTINS.set(name, globalThis[name]);
  BUILTINS.set(`${name}.prototype`, globalThis[name].prototype);
}
const NAME_OF_BUILTIN = new Map([...BUILTINS].map(([name, value]) => [value, name]));
const WELL_KNOWN = new Map(
  ["iterator", "asyncIterator", "toStringTag", "hasInstance", "toPrimitive", "species"].map((n) => [Symbol[n], n]),
);
const TYPED = new Set(BUILTIN_NAMES.filter((name) => name.endsWith("Array") && name !== "Array"));

function isPlain(value) {
  const proto = Object.getPrototypeOf(value);
  if (proto !== null && proto !== Object.prototype) return false;
  for (const key of Reflect.ownKeys(value)) {
    const own = Object.getOwnPropertyDescriptor(value, key);
    if (own === undefined || own.get || own.set) return false;
    if (typeof own.value === "function") return false;
  }
  return true;
}

class Encoder {
  // `known`: containers that the other side has already, by number; they are named instead of copied.
  constructor(peer, known = new Map(), next = known.size) {
    this.peer = peer;
    this.known = known;
    this.next = next;
    this.sent = [];
    this.nodes = 0;
    this.written = new Set();
    this.full = false;
  }

  encode(value, depth = 0) {
    switch (typeof value) {
      case "string": case "boolean": return value;
      case "undefined": return ["u"];
      case "bigint": return ["b", String(value)];
      case "number":
        return Number.isFinite(value) && !Object.is(value, -0) ? value : ["n", Object.is(value, -0) ? "-0" : `${value}`];
      case "symbol": return this.symbol(value);
      default: return value === null ? null : this.object(value, depth);
    }
  }

  symbol(value) {
    if (WELL_KNOWN.has(value)) return ["y", WELL_KNOWN.get(value)];
    const key = Symbol.keyFor(value);
    if (key !== undefined) return ["yf", key];
    const ref = this.peer.symbols.get(value);
    return ref === undefined ? ["ys", this.peer.numberOf(value), String(value.description ?? "")] : ["w", ref];
  }

  object(value, depth) {
    this.nodes += 1;
    if (depth > MAX_DEPTH || this.nodes > MAX_NODES) throw new WrongType("a value that is too deep or too large to cross");
    const ref = this.peer.refs.get(value);
    if (ref !== undefined) return ["w", ref];
    if (NAME_OF_BUILTIN.has(value)) return ["g", NAME_OF_BUILTIN.get(value)];
    if (typeof value === "function") return this.peer.giveFunction(value, this);
    if (this.peer.forced.has(value) || utilTypes.isProxy(value)) return this.peer.giveObject(value);
    if (utilTypes.isPromise(value)) return this.peer.givePromise(value);
    if (utilTypes.isNativeError(value) || value instanceof Error) return this.peer.giveError(value, this, depth);
    const known = this.known.get(value);
    if (known !== undefined && (!this.full || this.written.has(known))) return ["=", known];
    return this.container(value, known, depth) ?? this.peer.giveObject(value);
  }

  number(value, known) {
    const number = known ?? this.next++;
    if (known === undefined) {
      this.known.set(value, number);
      this.sent[number] = value;
    }
    this.written.add(number);
    return number;
  }

  container(value, known, depth) {
    const proto = Object.getPrototypeOf(value);
    const inner = (item) => this.encode(item, depth + 1);
    const frozen = Object.isFrozen(value) ? 1 : 0;
    if (Array.isArray(value) && proto === Array.prototype) {
      const number = this.number(value, known);
      const items = [];
      if (value.length > MAX_NODES) throw new WrongType("an array that is too long to cross");
      for (let i = 0; i < value.length; i++) items.push(i in value ? inner(value[i]) : ["hole"]);
      return ["a", number, items, frozen];
    }
    if (proto === Map.prototype && utilTypes.isMap(value)) {
      const number = this.number(value, known);
      return ["m", number, [...Map.prototype.entries.call(value)].map(([k, v]) => [inner(k), inner(v)])];
    }
    if (proto === Set.prototype && utilTypes.isSet(value)) {
      const number = this.number(value, known);
      return ["s", number, [...Set.prototype.values.call(value)].map(inner)];
    }
    if (proto === Date.prototype && utilTypes.isDate(value)) {
      return ["d", this.number(value, known), inner(Date.prototype.getTime.call(value))];
    }
    if (proto === RegExp.prototype && utilTypes.isRegExp(value)) {
      return ["x", this.number(value, known), value.source, value.flags, inner(value.lastIndex)];
    }
    if (ArrayBuffer.isView(value) && TYPED.has(NAME_OF_BUILTIN.get(proto)?.replace(".prototype", ""))) {
      const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
      return ["t", this.number(value, known), NAME_OF_BUILTIN.get(proto).replace(".prototype", ""), bytes];
    }
    if (isPlain(value)) {
      const number = this.number(value, known);
      const pairs = Reflect.ownKeys(value)
        .filter((key) => Object.prototype.propertyIsEnumerable.call(value, key))
        .map((key) => [this.encode(key), inner(value[key])]);
      return ["o", number, pairs, frozen | (proto === null ? 2 : 0)];
    }
    return null;
  }
}

class Decoder {
  // `table`: containers by number; those of `originals` are changed in place instead of made anew.
  constructor(peer, originals = []) {
    this.peer = peer;
    this.table = [...originals];
    this.originals = originals.length;
    this.prototypes = false;
    this.built = new Map();
  }

  decode(raw) {
    if (raw === null || typeof raw !== "object") return raw;
    if (!Array.isArray(raw)) throw new TypeError("expected a tagged value");
    const made = this.scalar(raw);
    return made === undefined ? this.container(raw) : made.value;
  }

  scalar(raw) {
    switch (raw[0]) {
      case "u": return { value: undefined };
      case "n": return { value: Number(raw[1]) };
      case "b": return { value: BigInt(raw[1]) };
      case "y": return { value: [...WELL_KNOWN].find(([, name]) => name === raw[1])[0] };
      case "yf": return { value: Symbol.for(String(raw[1])) };
      case "g": return { value: this.builtin(raw[1]) };
      case "=": if (!(raw[1] in this.table)) throw new TypeError("expected a known number"); return { value: this.table[raw[1]] };
      case "w": return { value: this.peer.ownOf(raw[1]) };
      case "ys": case "f": case "h": case "p": return { value: this.peer.takeReference(raw) };
      case "e": return { value: this.peer.takeError(raw, this) };
      case "wt": return { value: new WrongType(String(raw[1])) };
      case "mn": return { value: new MissingName(String(raw[1])) };
      default: return undefined;
    }
  }

  // A builtin by name. A prototype is one only where a prototype was asked for: as a value, tests might change it.
  builtin(name) {
    if (!BUILTINS.has(name)) throw new TypeError("expected a builtin");
    if (name.endsWith(".prototype") && !this.prototypes) throw new WrongType(`${name} is no value to hand over`);
    return BUILTINS.get(name);
  }

  // The original to change, or what `make` makes.
  place(raw, make) {
    const number = raw[1];
    if (!Number.isInteger(number) || number < 0) throw new TypeError("expected a number");
    const made = number < this.originals ? this.table[number] : make();
    if (number >= this.originals) {
      this.table[number] = made;
      this.built.set(made, number);
    }
    return [made, number < this.originals];
  }

  container(raw) {
    switch (raw[0]) {
      case "a": return this.array(raw);
      case "o": return this.plain(raw);
      case "m": return this.collection(raw, Map, (map, [k, v]) => map.set(this.decode(k), this.decode(v)));
      case "s": return this.collection(raw, Set, (set, item) => set.add(this.decode(item)));
      case "d": {
        const [date, again] = this.place(raw, () => new Date(this.decode(raw[2])));
        if (again) date.setTime(this.decode(raw[2]));
        return date;
      }
      case "x": {
        const [regexp] = this.place(raw, () => new RegExp(String(raw[2]), String(raw[3])));
        regexp.lastIndex = this.decode(raw[4]);
        return regexp;
      }
      case "t": {
        if (!TYPED.has(raw[2])) throw new TypeError("expected a typed array");
        const bytes = Uint8Array.from(Buffer.from(raw[3], "base64"));
        const [view, again] = this.place(raw, () => new globalThis[raw[2]](bytes.buffer));
        if (again) new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(bytes.subarray(0, view.byteLength));
        return view;
      }
      default: throw new TypeError("expected a known tag");
    }
  }

  array(raw) {
    const [array, again] = this.place(raw, () => []);
    if (again) array.length = 0;
    raw[2].forEach((item, i) => {
      if (Array.isArray(item) && item[0] === "hole") array.length = i + 1;
      else Object.defineProperty(array, i, { value: this.decode(item), ...OPEN });
    });
    return raw[3] && !again ? Object.freeze(array) : array;
  }

  plain(raw) {
    const [object, again] = this.place(raw, () => (raw[3] & 2 ? Object.create(null) : {}));
    if (again) for (const key of Reflect.ownKeys(object)) delete object[key];
    for (const [key, value] of raw[2]) {
      Object.defineProperty(object, this.decode(key), { value: this.decode(value), ...OPEN });
    }
    return raw[3] & 1 && !again ? Object.freeze(object) : object;
  }

  collection(raw, kind, add) {
    const [made, again] = this.place(raw, () => new kind());
    if (again) made.clear();
    for (const item of raw[2]) add(made, item);
    return made;
  }
}

const OPEN = { writable: true, enumerable: true, configurable: true };

// A name that the tests import and that the answer does not have.
class MissingName extends Error {}
