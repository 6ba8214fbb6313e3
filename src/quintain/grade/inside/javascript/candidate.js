// The candidate's side: loads its modules and answers questions about them until nobody asks any more.
class Candidate extends Peer {
  constructor(pipe, root) {
    super(pipe);
    this.root = root;
    this.scopes = new Map(); // what a CommonJS file has at its top level beyond its exports: exports → (name) => value
    this.faces = new Map();
    const tail = () => "\n;module.__scope = (name) => eval(name);";
    this.loader = new Loader(root, { tail });
  }

  async import(name) {
    const file = this.loader.resolve(`./${name}`, path.join(this.root, "index.js"));
    if (this.faces.has(file)) return this.faces.get(file);
    const compiled = file.endsWith(".json") ? undefined : this.loader.compiled(file, this.loader.text(file));
    let face, keys;
    if (compiled === null) {
      face = await this.loader.import(file);
      keys = Object.keys(face);
    } else {
      face = this.loader.load(file);
      const open = face !== null && (typeof face === "object" || typeof face === "function");
      keys = open ? Object.keys(face) : [];
      const scope = this.loader.cjs.get(file)?.__scope;
      if (open && scope) this.scopes.set(face, scope);
    }
    const open = face !== null && (typeof face === "object" || typeof face === "function");
    if (open) this.forced.add(face);
    const shown = [keys, compiled === null, face];
    this.faces.set(file, shown);
    if (open && compiled === null) this.scopes.set(face, () => { throw new ReferenceError("not exported"); });
    return shown;
  }

  missing(target, key) {
    return typeof key === "string" && this.scopes.has(target) && !Reflect.has(target, key);
  }

  instead(target, key) {
    if (!/^[A-Za-z_$][\w$]*$/.test(key)) return undefined;
    let found;
    try {
      found = this.scopes.get(target)(key);
    } catch {
      found = undefined;
    }
    if (found === undefined && !QUIET.has(key)) throw new MissingName(key);
    return found;
  }

  hasInstead(target, key) {
    try { return this.instead(target, key) !== undefined; } catch { return false; }
  }

  framesOf(error) {
    try {
      const frames = [];
      const stack = String(error.stack).slice(0, 100_000);
      for (const line of stack.split("\n")) {
        const match = /(?:^\s*at (?:(.*?) \()?|^)(?:file:\/\/)?(\/[^()]*?):(\d+)(?::\d+)?\)?$/.exec(line);
        if (match && match[2].startsWith(this.root + "/")) {
          frames.unshift([match[2].slice(this.root.length + 1), Number(match[3]), match[1] ?? ""]);
        }
      }
      return frames.slice(-20);
    } catch {
      return [];
    }
  }

  // Let timers and promises go on: until one of ours is settled that was handed over, or `milliseconds` have passed.
  turn(milliseconds) {
    if (milliseconds === 0) return new Promise((resolve) => setImmediate(resolve));
    return new Promise((resolve) => {
      const done = () => { this.onNews = null; clearTimeout(timer); resolve(); };
      const timer = setTimeout(done, milliseconds);
      this.onNews = () => setImmediate(done);
      if (this.news.length > 0) this.onNews();
    });
  }

  async run() {
    for (;;) {
      const message = this.pipe.receive();
      if (message[1] === "poll") {
        this.learn(message[4]);
        await this.turn(message[2]);
        this.reply(true, undefined, []);
      } else if (message[1] === "module") {
        let [well, value, frames] = [true, undefined, []];
        try {
          value = await this.import(String(message[2]));
        } catch (error) {
          [well, value, frames] = [false, error, this.framesOf(error)];
        }
        this.reply(well, value, frames);
      } else {
        this.serve(message);
      }
    }
  }
}

const QUIET = new Set(["then", "default", "__esModule", "toJSON", "asymmetricMatch", "$$typeof", "nodeType"]);

function serveCandidate() {
  process.on("unhandledRejection", () => {});
  const candidate = new Candidate(new Pipe(3), process.cwd());
  candidate.run().catch((error) => process.exit(error instanceof Gone && error.why === "exited" ? 0 : 70));
}
