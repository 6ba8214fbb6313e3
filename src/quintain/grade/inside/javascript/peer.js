// One side of the conversation: asks the other side, and answers what it is asked meanwhile. What is not copied is a
// stand-in here, a Proxy whose traps are questions; it is the same stand-in each time, so that identity holds.
const MAX_HANDLES = 200_000;

class Peer {
  constructor(pipe) {
    this.pipe = pipe;
    this.dead = null;
    this.calls = 0;
    this.asked = false; // whether code of the other side was run on purpose
    this.got = false; // whether a value of the other side was fetched
    this.serving = 0;
    this.own = []; // what the other side may name, by number
    this.ownNumbers = new Map();
    this.refs = new WeakMap(); // stand-in → number on the other side
    this.symbols = new Map();
    this.remote = new Map(); // number on the other side → stand-in
    this.forced = new WeakSet(); // objects that always go by reference
    this.pending = new Map(); // promises of the other side that are not settled
    this.news = []; // promises of ours that are settled and not yet told: [number, well, value]
    this.onNews = null;
    this.frames = new WeakMap(); // errors that came across → where they were raised
  }

  // What a subclass decides.
  allow() {}
  framesOf() { return []; }
  protoOf(value) { return Object.getPrototypeOf(value); }
  missing() { return false; }
  receiver(self) { return self; }

  numberOf(value) {
    let number = this.ownNumbers.get(value);
    if (number === undefined) {
      number = this.own.push(value) - 1;
      this.ownNumbers.set(value, number);
    }
    return number;
  }

  ownOf(number) {
    if (!Number.isInteger(number) || number < 0 || number >= this.own.length) throw new TypeError("expected our number");
    return this.own[number];
  }

  giveFunction(value) {
    const [name, length] = ["name", "length"].map((key) => Object.getOwnPropertyDescriptor(value, key)?.value);
    return ["f", this.numberOf(value), typeof name === "string" ? name.slice(0, 200) : "", Number.isInteger(length) ? length : 0];
  }

  giveObject(value) { return ["h", this.numberOf(value), Array.isArray(value) ? 1 : 0]; }

  givePromise(value) {
    const known = this.ownNumbers.has(value);
    const number = this.numberOf(value);
    if (!known) {
      const tell = (well) => (result) => {
        this.news.push([number, well, result]);
        if (this.onNews) this.onNews();
      };
      Promise.prototype.then.call(value, tell(true), tell(false));
    }
    return ["p", number];
  }

  giveError(error, encoder, depth) {
    const number = this.numberOf(error);
    const text = (name) => { try { return String(error[name]).slice(0, MAX_TEXT); } catch { return ""; } };
    const props = [];
    for (const key of Object.getOwnPropertyNames(error)) {
      if (key === "stack" || key === "message") continue;
      const own = Object.getOwnPropertyDescriptor(error, key);
      if (own.get) continue;
      try { props.push([key, encoder.encode(own.value, depth + 1)]); } catch (e) { if (!(e instanceof WrongType)) throw e; }
    }
    const proto = this.protoOf(error);
    const shown = NAME_OF_BUILTIN.has(proto) ? ["g", NAME_OF_BUILTIN.get(proto)] : this.giveObject(proto);
    return ["e", number, shown, text("message"), props];
  }

  keep(number, made) {
    if (!Number.isInteger(number) || number < 0) throw new TypeError("expected a number");
    if (this.remote.size >= MAX_HANDLES) throw new Gone("flood", "too many objects were named");
    this.remote.set(number, made);
    if (typeof made === "symbol") this.symbols.set(made, number);
    else this.refs.set(made, number);
    return made;
  }

  takeReference(raw) {
    const [tag, number] = raw;
    if (this.remote.has(number)) return this.remote.get(number);
    if (tag === "ys") return this.keep(number, Symbol(String(raw[2])));
    if (tag === "p") {
      const made = new Promise((resolve, reject) => this.pending.set(number, { resolve, reject }));
      made.catch(() => {});
      return this.keep(number, made);
    }
    return this.keep(number, standIn(this, number, tag, raw));
  }

  takeError(raw, decoder) {
    const [, number, proto, message, props] = raw;
    if (this.remote.has(number)) return this.remote.get(number);
    const made = new Error(String(message));
    decoder.prototypes = true;
    const parent = decoder.decode(proto);
    decoder.prototypes = false;
    if (parent === null || typeof parent !== "object") throw new TypeError("expected a prototype");
    Object.setPrototypeOf(made, parent);
    Object.defineProperty(made, "stack", { value: String(message), ...OPEN, enumerable: false });
    this.keep(number, made);
    for (const [key, value] of props) {
      Object.defineProperty(made, String(key), { value: decoder.decode(value), ...OPEN, enumerable: key !== "cause" });
    }
    return made;
  }

  // Asking.
  ask(what, head, args = []) {
    if (this.dead) throw this.dead;
    this.calls += 1;
    this.asked ||= what === "call" || what === "new" || what === "text";
    this.got ||= what === "get";
    const encoder = new Encoder(this);
    const raw = args.map((value) => encoder.encode(value));
    try {
      this.pipe.send(["q", what, head, raw, this.takeNews()]);
      for (;;) {
        const message = this.pipe.receive();
        if (!Array.isArray(message)) throw new Gone("forged", "a message that is not of the protocol");
        if (message[0] === "q" && message.length === 5) this.serve(message);
        else if (message[0] === "r" && message.length === 6) return this.conclude(message, encoder.sent, what);
        else throw new Gone("forged", "a message that is not of the protocol");
      }
    } catch (error) {
      if (error instanceof Gone) this.dead = error;
      throw error;
    }
  }

  conclude([, well, changed, raw, frames, news], sent, what) {
    let value;
    try {
      this.learn(news);
      const decoder = new Decoder(this, sent);
      if (changed !== null) changed.forEach((one) => decoder.decode(one));
      decoder.prototypes = what === "proto";
      value = decoder.decode(raw);
      if (!well && !Array.isArray(frames)) throw new TypeError("expected frames");
    } catch (error) {
      if (error instanceof Gone || error instanceof WrongType) throw error;
      throw new Gone("forged", "an answer that is not of the protocol");
    }
    if (well) return value;
    if (value !== null && typeof value === "object" && !this.frames.has(value)) this.frames.set(value, frames);
    this.lastThrown = { value, frames };
    throw value;
  }

  // Answering.
  serve([, what, head, raw, news]) {
    const decoder = new Decoder(this);
    let args;
    try {
      this.learn(news);
      args = raw.map((one) => decoder.decode(one));
    } catch (error) {
      if (error instanceof Gone) throw error;
      if (error instanceof WrongType) return this.reply(false, error, []);
      throw new Gone("forged", "a question that is not of the protocol");
    }
    let [well, value, frames] = [true, undefined, []];
    this.serving += 1;
    try {
      value = this.perform(what, head, args);
    } catch (error) {
      if (error instanceof Gone) throw error;
      [well, value, frames] = [false, error, this.framesOf(error)];
    } finally {
      this.serving -= 1;
    }
    return this.reply(well, value, frames, raw, args, decoder);
  }

  reply(well, value, frames, raw = [], args = [], decoder = new Decoder(this)) {
    const news = this.takeNews();
    try {
      const before = new Map(decoder.built);
      const encoder = new Encoder(this, decoder.built, decoder.table.length);
      let changed = null;
      if (raw.some((one) => Array.isArray(one) && "aomsdxt".includes(one[0]))) {
        encoder.full = true;
        const now = args.map((one) => encoder.encode(one));
        if (stringify(now) !== stringify(raw)) changed = now;
        encoder.full = false;
        if (changed === null) encoder.known = before;
      }
      this.pipe.send(["r", well, changed, this.encodeResult(well, value, encoder), frames, news]);
    } catch (error) {
      if (!(error instanceof WrongType)) throw error;
      this.pipe.send(["r", false, null, ["wt", error.message.slice(0, MAX_TEXT)], frames, news]);
    }
  }

  encodeResult(well, value, encoder) {
    if (!well && value instanceof WrongType) return ["wt", value.message.slice(0, MAX_TEXT)];
    if (!well && value instanceof MissingName) return ["mn", value.message.slice(0, MAX_TEXT)];
    return encoder.encode(value);
  }

  perform(what, head, args) {
    const target = this.ownOf(head);
    const [key] = args;
    this.allow(what, target, key);
    switch (what) {
      case "get": if (this.missing(target, key)) return this.instead(target, key); return Reflect.get(target, key);
      case "set": return Reflect.set(target, key, args[1]);
      case "has": return Reflect.has(target, key) || (this.missing(target, key) && this.hasInstead(target, key));
      case "del": return Reflect.deleteProperty(target, key);
      case "keys": return Reflect.ownKeys(target).map((k) => [k, Object.prototype.propertyIsEnumerable.call(target, k)]);
      case "proto": {
        const proto = this.protoOf(target);
        if (proto !== null) this.forced.add(proto);
        return proto;
      }
      case "call": return Reflect.apply(target, key, args.slice(1));
      case "new": return Reflect.construct(target, args);
      case "text": return String(target);
      default: throw new Gone("forged", "a question that is not of the protocol");
    }
  }

  takeNews() {
    const news = this.news;
    this.news = [];
    return news.map(([number, well, value]) => {
      try {
        return [number, well, new Encoder(this).encode(value), well ? [] : this.framesOf(value)];
      } catch (error) {
        if (!(error instanceof WrongType)) throw error;
        return [number, false, ["wt", error.message.slice(0, MAX_TEXT)], []];
      }
    });
  }

  learn(news) {
    for (const [number, well, raw, frames] of news) {
      const value = new Decoder(this).decode(raw);
      const waiting = this.pending.get(number);
      if (waiting === undefined) continue;
      this.pending.delete(number);
      if (!well && value !== null && typeof value === "object" && !this.frames.has(value)) this.frames.set(value, frames);
      if (well) waiting.resolve(value);
      else waiting.reject(value);
    }
  }
}

// A function without properties of its own that can be called and constructed.
function bareFunction() {
  const made = function () {}.bind();
  delete made.name;
  delete made.length;
  return made;
}

const LOCAL = new Set(["call", "apply", "bind"]);
const SILENT = new Set([Symbol.hasInstance, Symbol.isConcatSpreadable, Symbol.unscopables, Symbol.species]);

function standIn(peer, number, tag, raw) {
  const isFunction = tag === "f";
  const target = isFunction ? bareFunction() : raw[2] === 1 ? [] : {};
  let proto;
  const ask = (what, ...args) => peer.ask(what, number, args);
  const made = new Proxy(target, {
    get(_, key) {
      if (SILENT.has(key)) return undefined;
      if (key === Symbol.toPrimitive) return (hint) => coerced(hint, ask);
      if (isFunction && LOCAL.has(key)) return Function.prototype[key];
      if (isFunction && key === "name") return raw[2];
      if (isFunction && key === "length") return raw[3];
      return ask("get", key);
    },
    set: (_, key, value) => ask("set", key, value) === true,
    has: (_, key) => ask("has", key) === true,
    deleteProperty: (_, key) => ask("del", key) === true,
    ownKeys: () => [...new Set([...ask("keys").map(([key]) => key), ...(Array.isArray(target) ? ["length"] : [])])],
    getOwnPropertyDescriptor(_, key) {
      const found = ask("keys").find(([name]) => name === key);
      if (found === undefined && !(Array.isArray(target) && key === "length")) return undefined;
      const length = Array.isArray(target) && key === "length";
      return { value: ask("get", key), writable: true, enumerable: !length && found[1] === true, configurable: !length };
    },
    getPrototypeOf() {
      if (proto === undefined) proto = ask("proto");
      return proto !== null && typeof proto !== "object" && typeof proto !== "function" ? null : proto;
    },
    setPrototypeOf: () => false,
    defineProperty: () => false,
    preventExtensions: () => false,
    apply: (_, self, args) => ask("call", peer.receiver(self), ...args),
    construct(_, args, newTarget) {
      if (newTarget !== made) throw new WrongType("a class of the other side cannot be derived from");
      const value = ask("new", ...args);
      if (value === null || (typeof value !== "object" && typeof value !== "function")) {
        throw new WrongType("expected an object from a constructor");
      }
      return value;
    },
  });
  return made;
}

// An object of the other side is never asked for the number that an operator or a comparison would make of it.
function coerced(hint, ask) {
  if (hint !== "string") throw new WrongType("expected a plain value, found an object");
  return String(ask("text"));
}
