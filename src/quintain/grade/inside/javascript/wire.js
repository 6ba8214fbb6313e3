// Frames between the two sides: four bytes of length (big-endian), then JSON. Covers: the size of a frame and of all
// frames together, and what is no JSON. Deadlines are the socket's own (SO_RCVTIMEO), set by whoever holds it.
const fs = require("node:fs");
const { readSync, writeSync } = fs;
const { parse, stringify } = JSON;

const MAX_FRAME_BYTES = 4 * 1024 * 1024;
const MAX_TOTAL_BYTES = 64 * 1024 * 1024;

// There is nobody to talk to any more. `why`: hung, exited, forged or flood. It is remembered by the peer, so that
// catching it does not help.
class Gone extends Error {
  constructor(why, text) {
    super(text);
    this.why = why;
  }
}

// A value that cannot cross, or that may not be asked what a plain value would be asked.
class WrongType extends TypeError {}

class Pipe {
  constructor(fd) {
    this.fd = fd;
    this.receivedBytes = 0;
  }

  read(count) {
    const data = Buffer.allocUnsafe(count);
    for (let have = 0; have < count; ) {
      let got;
      try {
        got = readSync(this.fd, data, have, count - have, null);
      } catch (error) {
        if (error.code === "EAGAIN") throw new Gone("hung", "the candidate did not answer in time");
        throw new Gone("exited", "the candidate's process ended");
      }
      if (got === 0) throw new Gone("exited", "the candidate's process ended");
      have += got;
    }
    return data;
  }

  receive() {
    const length = this.read(4).readUInt32BE(0);
    this.receivedBytes += length;
    if (length > MAX_FRAME_BYTES || this.receivedBytes > MAX_TOTAL_BYTES) {
      throw new Gone("flood", "more was sent than may cross");
    }
    const body = this.read(length).toString("utf8");
    try {
      return parse(body);
    } catch {
      throw new Gone("forged", "a frame that is no JSON");
    }
  }

  send(message) {
    const body = Buffer.from(stringify(message), "utf8");
    if (body.length > MAX_FRAME_BYTES) throw new WrongType(`a value of ${body.length} bytes is too large to cross`);
    const frame = Buffer.allocUnsafe(4 + body.length);
    frame.writeUInt32BE(body.length, 0);
    body.copy(frame, 4);
    for (let done = 0; done < frame.length; ) {
      try {
        done += writeSync(this.fd, frame, done, frame.length - done);
      } catch (error) {
        if (error.code === "EAGAIN") throw new Gone("hung", "the candidate did not read in time");
        throw new Gone("exited", "the candidate's process ended");
      }
    }
  }
}
