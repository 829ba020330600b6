/* The program of a sandbox VM: its only one, process 1 of a kernel that QEMU runs. */
#ifndef VM_H
#define VM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Microseconds of the VM's own clock, which stands still while the VM is paused. */
uint64_t now_us(void);

/* boot.c: what a Linux user space needs, then eth0 with the addresses of the command line. */
void boot(void);
bool parse_address(int family, const char *text, int port, struct sockaddr_storage *into, socklen_t *length);

/* ping.c: one echo request; whether the answer came within a second. */
bool answers_ping(int family, const char *address);

/* sha256.c */
struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};
void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t size);
void sha256_end(struct sha256 *hash, char hex[65]);

/* session.c: the sessions of the VM, over one poll loop that never blocks. */
#define MAX_SESSIONS 32
struct session {
    char name[64];
    char kind[16];
    int socket; /* -1 when it is over */
    bool asked, ended;
    char line[256];
    size_t line_size;
    size_t block_left;
    uint64_t bytes, number, due_us, error_us;
    uint64_t *times_us;
    size_t times, room;
    struct sha256 hash;
    char checksum[65], told[65], error[96];
};
extern struct session sessions[MAX_SESSIONS];
extern int session_count;
extern bool stopping;

/* Opens a session; writes its answer ("open ADDRESS PORT CONNECTION", or "failed WHY"). */
void session_open(char *order, char *answer, size_t size);
void session_readable(struct session *session);
void session_tick(struct session *session);

#endif
