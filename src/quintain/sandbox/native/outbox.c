/* The agent's messages to the house: queued, sent as the socket has room; when the house is gone, so are we. */
#include "agent.h"
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct packet { struct packet *next; size_t len; int fd; char bytes[]; };
static struct packet *first, *last;
static size_t queued;
static int sock;

void outbox_open(int fd) { sock = fd; }
size_t packets_queued(void) { return queued; }

static ssize_t send_packet(struct packet *p) {
  struct iovec v = {p->bytes, p->len};
  char control[CMSG_SPACE(sizeof(int))];
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  if (p->fd >= 0) {
    memset(control, 0, sizeof control);
    m.msg_control = control; m.msg_controllen = sizeof control;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET; h->cmsg_type = SCM_RIGHTS; h->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(h), &p->fd, sizeof(int));
  }
  return sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void flush_packets(void) {
  while (first) {
    if (send_packet(first) < 0) {
      if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) return;
      _exit(0); /* the house is gone, and so are we */
    }
    struct packet *sent = first;
    if (!(first = first->next)) last = NULL;
    queued -= sent->len;
    if (sent->fd >= 0) close(sent->fd);
    free(sent);
  }
}

static void queue(uint32_t op, uint32_t id, const void *head, size_t n, const void *body, size_t m, int fd) {
  struct packet *p = malloc(sizeof *p + sizeof(struct frame) + n + m);
  if (!p) _exit(72);
  struct frame f = {op, id};
  memcpy(p->bytes, &f, sizeof f);
  if (n) memcpy(p->bytes + sizeof f, head, n);
  if (m) memcpy(p->bytes + sizeof f + n, body, m);
  p->len = sizeof f + n + m; p->next = NULL; p->fd = fd;
  if (last) last->next = p; else first = p;
  last = p; queued += p->len;
  flush_packets();
}

void say(uint32_t op, uint32_t id, const void *head, size_t n, const void *body, size_t m) { queue(op, id, head, n, body, m, -1); }
void say_fd(uint32_t op, uint32_t id, const void *head, size_t n, int fd) { queue(op, id, head, n, NULL, 0, fd); }
