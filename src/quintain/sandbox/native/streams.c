/* What flows out of a command and into it: output bounded in a head and a ring, or as far as the house's credit goes;
   input as far as the program reads. */
#include "agent.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int may_read(const struct command *c, int which) {
  if (c->state < RUNNING || c->out[which].fd < 0) return 0;
  return c->state == LINGERING || !(c->flags & RUN_STREAM) || (c->credit && packets_queued() < 4 * FRAME_BYTES);
}

static void keep(struct command *c, int which, const char *bytes, size_t n) {
  struct stream *s = &c->out[which];
  if (c->state == LINGERING) return; /* its command has ended: nobody is left to be told */
  s->total += n;
  int streaming = (c->flags & RUN_STREAM) != 0;
  size_t now = streaming ? n : (n < s->head_left ? n : (size_t)s->head_left);
  if (streaming) c->credit -= now < c->credit ? now : c->credit;
  if (now) { say(which ? A_ERR : A_OUT, c->id, NULL, 0, bytes, now); if (!streaming) s->head_left -= now; bytes += now; n -= now; }
  if (!n || !s->capacity) return;
  if (!s->ring && !(s->ring = malloc(s->capacity))) { s->capacity = 0; return; }
  if (n > s->capacity) { bytes += n - s->capacity; n = s->capacity; }
  size_t end = s->capacity - s->at, part = n < end ? n : end;
  memcpy(s->ring + s->at, bytes, part);
  memcpy(s->ring, bytes + part, n - part);
  s->at = (s->at + n) % s->capacity;
  s->used = s->used + n > s->capacity ? s->capacity : s->used + n;
}

/* Returns 0 when the pipe is at its end. Reads a bounded amount so that a flood cannot hold the loop. */
int drain(struct command *c, int which, int rounds) {
  static char bytes[FRAME_BYTES - 512];
  struct stream *s = &c->out[which];
  while (s->fd >= 0 && rounds--) {
    size_t most = sizeof bytes;
    if (c->state == RUNNING && c->flags & RUN_STREAM) {
      if (!may_read(c, which)) return 1;
      if (most > c->credit) most = (size_t)c->credit;
    }
    ssize_t n = read(s->fd, bytes, most);
    if (n > 0) { keep(c, which, bytes, (size_t)n); continue; }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 1;
    close(s->fd); s->fd = -1; /* the end; EIO says the same of a terminal */
  }
  return s->fd >= 0;
}

void send_tail(struct command *c, int which) {
  struct stream *s = &c->out[which];
  size_t at = s->used < s->capacity ? 0 : s->at, left = s->used;
  while (left) {
    size_t n = s->capacity - at < left ? s->capacity - at : left;
    if (n > FRAME_BYTES - 512) n = FRAME_BYTES - 512;
    say(which ? A_ERR_TAIL : A_OUT_TAIL, c->id, NULL, 0, s->ring + at, n);
    at = (at + n) % s->capacity; left -= n;
  }
  free(s->ring); s->ring = NULL; s->used = s->at = 0;
}

static void close_input(struct input *in) {
  if (in->fd >= 0) close(in->fd);
  free(in->bytes);
  *in = (struct input){.fd = -1};
}

void pass_input(struct command *c) {
  struct input *in = &c->input;
  uint64_t taken = 0;
  while (in->fd >= 0 && in->at < in->used) {
    ssize_t n = write(in->fd, in->bytes + in->at, in->used - in->at);
    if (n > 0) { in->at += (size_t)n; taken += (uint64_t)n; continue; }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    taken += in->used - in->at; /* nobody reads any more: as with a real pipe, the rest is lost */
    close_input(in);
  }
  if (in->at == in->used) { in->at = in->used = 0; if (in->ends) close_input(in); }
  if (taken) say(A_TAKEN, c->id, &taken, sizeof taken, NULL, 0);
}

void take_input(struct command *c, const char *bytes, size_t n) {
  struct input *in = &c->input;
  uint64_t lost = n;
  if (in->fd < 0 || in->ends) { say(A_TAKEN, c->id, &lost, sizeof lost, NULL, 0); return; }
  if (in->used + n > in->capacity) {
    char *more = realloc(in->bytes, (in->used + n) * 2);
    if (!more) { say(A_TAKEN, c->id, &lost, sizeof lost, NULL, 0); return; }
    in->bytes = more; in->capacity = (in->used + n) * 2;
  }
  memcpy(in->bytes + in->used, bytes, n);
  in->used += n;
  pass_input(c);
}

void end_input(struct command *c) { c->input.ends = 1; pass_input(c); }
