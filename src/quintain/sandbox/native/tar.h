/* GNU tar, as far as a snapshot needs it: names and links of any bytes and length, sparse files, hard links. */
#ifndef QUINTAIN_TAR_H
#define QUINTAIN_TAR_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#define TAR_BLOCK 512
#define TAR_LONG "././@LongLink"
struct tar_span { char offset[12], bytes[12]; };
struct tar_header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[8], user[32], group[32],
       major[8], minor[8], atime[12], ctime[12], offset[12], longnames[4], unused;
  struct tar_span spans[4];
  char extended, real_size[12], padding[17];
};
struct tar_more { struct tar_span spans[21]; char extended, padding[7]; };

/* Octal where it fits, base 256 (two's complement) where it does not. */
static inline void tar_put(char *field, size_t width, int64_t value) {
  if (value >= 0 && value < (1LL << (3 * (width - 1) < 62 ? 3 * (width - 1) : 62))) {
    field[width - 1] = 0;
    for (size_t i = width - 1; i-- > 0; value >>= 3) field[i] = (char)('0' + (value & 7));
    return;
  }
  for (size_t i = width; i-- > 0; value >>= 8) field[i] = (char)(value & 0xff);
  field[0] = (char)(field[0] | 0x80);
}

static inline int64_t tar_get(const char *field, size_t width) {
  const unsigned char *at = (const unsigned char *)field;
  if (at[0] & 0x80) {
    uint64_t value = at[0] & 0x40 ? ~0ull : 0;
    value = value << 6 | (at[0] & 0x3f);
    for (size_t i = 1; i < width; i++) value = value << 8 | at[i];
    return (int64_t)value;
  }
  int64_t value = 0;
  for (size_t i = 0; i < width && at[i]; i++) if (at[i] >= '0' && at[i] <= '7') value = value * 8 + (at[i] - '0');
  return value;
}

static inline unsigned tar_sum(const struct tar_header *h) {
  const unsigned char *at = (const unsigned char *)h;
  unsigned sum = 0;
  for (size_t i = 0; i < TAR_BLOCK; i++) sum += i >= offsetof(struct tar_header, checksum) && i < offsetof(struct tar_header, type) ? ' ' : at[i];
  return sum;
}
#endif
