/* The kernel's practical limit: dump a conntrack zone of one network namespace, turn every message into a create
 * message, insert it into a zone of another. One thread, raw netlink, no library; the same steps and the same bytes
 * as the engine for TCP, UDP and other protocols with ports over IPv4 and IPv6, with and without translation.
 *
 *     copy NAMESPACE-A ZONE-A NAMESPACE-B ZONE-B [MESSAGES-PER-SEND]
 *
 * Prints one JSON object. Compiled by the benchmark: cc -O2 -Wall -Wextra -Werror.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_PER_SEND 2000
#define ROOM 512 /* bytes of a create message at most */
#define CARRIED (IPS_SEEN_REPLY | IPS_ASSURED | IPS_FIXED_TIMEOUT | IPS_HELPER)

static uint32_t in_buffer[1 << 18];
static uint8_t out_buffer[MAX_PER_SEND * ROOM] __attribute__((aligned(8)));
static size_t out_used;
static unsigned pending, per_send = 200;
static struct nlmsghdr *newest;
static uint32_t sequence = 1;
static unsigned long seen, refused;
static int target;
static uint16_t target_zone;
static double inserting;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static double now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static int open_in(const char *space) {
    char path[256];
    int force = 8 << 20, yes = 1;
    struct sockaddr_nl self = {.nl_family = AF_NETLINK};
    snprintf(path, sizeof path, "/run/netns/%s", space);
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle < 0 || setns(handle, CLONE_NEWNET)) die(path);
    close(handle);
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (fd < 0 || bind(fd, (struct sockaddr *)&self, sizeof self)) die("netlink socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &force, sizeof force);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &force, sizeof force);
    setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &yes, sizeof yes);
    return fd;
}

/* Attributes. */

static const struct nlattr *find(const struct nlattr *nest, unsigned kind) {
    const uint8_t *at = (const uint8_t *)nest + NLA_HDRLEN, *end = (const uint8_t *)nest + nest->nla_len;
    while (at + NLA_HDRLEN <= end) {
        const struct nlattr *one = (const void *)at;
        if (one->nla_len < NLA_HDRLEN) break;
        if ((one->nla_type & NLA_TYPE_MASK) == kind) return one;
        at += NLA_ALIGN(one->nla_len);
    }
    return NULL;
}

static const void *payload(const struct nlattr *attribute) {
    return attribute ? (const uint8_t *)attribute + NLA_HDRLEN : NULL;
}

static struct nlattr *put(unsigned kind, const void *data, size_t length) {
    struct nlattr *made = (void *)(out_buffer + out_used);
    made->nla_len = (uint16_t)(NLA_HDRLEN + length);
    made->nla_type = (uint16_t)kind;
    uint8_t *to = (uint8_t *)made + NLA_HDRLEN;
    memset(to + length, 0, NLA_ALIGN(length) - length);
    memcpy(to, data, length);
    out_used += NLA_ALIGN(made->nla_len);
    return made;
}

static struct nlattr *begin(unsigned kind) { return put(kind | NLA_F_NESTED, "", 0); }

static void end(struct nlattr *nest) { nest->nla_len = (uint16_t)(out_buffer + out_used - (uint8_t *)nest); }

/* One direction of a session. */
struct side {
    size_t length;
    const void *source, *target, *number;
    uint16_t source_port, target_port;
};

static int read_side(const struct nlattr *tuple, struct side *out) {
    if (!tuple) return 0;
    const struct nlattr *ip = find(tuple, CTA_TUPLE_IP), *proto = find(tuple, CTA_TUPLE_PROTO);
    if (!ip || !proto) return 0;
    const struct nlattr *source = find(ip, CTA_IP_V4_SRC), *to = find(ip, CTA_IP_V4_DST);
    if (!source) source = find(ip, CTA_IP_V6_SRC), to = find(ip, CTA_IP_V6_DST);
    const uint16_t *sport = payload(find(proto, CTA_PROTO_SRC_PORT)), *dport = payload(find(proto, CTA_PROTO_DST_PORT));
    if (!source || !to || !sport || !dport) return 0;
    out->length = source->nla_len - NLA_HDRLEN;
    out->source = payload(source);
    out->target = payload(to);
    out->number = payload(find(proto, CTA_PROTO_NUM));
    out->source_port = *sport;
    out->target_port = *dport;
    return out->number != NULL;
}

static void put_tuple(unsigned kind, const struct side *s, int inverse) {
    int v4 = s->length == 4;
    struct nlattr *tuple = begin(kind), *inner = begin(CTA_TUPLE_IP);
    put(v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, inverse ? s->target : s->source, s->length);
    put(v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, inverse ? s->source : s->target, s->length);
    end(inner);
    inner = begin(CTA_TUPLE_PROTO);
    put(CTA_PROTO_NUM, s->number, 1);
    put(CTA_PROTO_SRC_PORT, inverse ? &s->target_port : &s->source_port, 2);
    put(CTA_PROTO_DST_PORT, inverse ? &s->source_port : &s->target_port, 2);
    end(inner);
    end(tuple);
}

static void put_nat(unsigned kind, size_t length, const void *address, uint16_t port) {
    struct nlattr *nat = begin(kind);
    put(length == 4 ? CTA_NAT_V4_MINIP : CTA_NAT_V6_MINIP, address, length);
    put(length == 4 ? CTA_NAT_V4_MAXIP : CTA_NAT_V6_MAXIP, address, length);
    struct nlattr *ports = begin(CTA_NAT_PROTO);
    put(CTA_PROTONAT_PORT_MIN, &port, 2);
    put(CTA_PROTONAT_PORT_MAX, &port, 2);
    end(ports);
    end(nat);
}

static void put_tcp(const struct nlattr *tcp) {
    static const uint8_t none, established = 3;
    struct nlattr *info = begin(CTA_PROTOINFO), *inner = begin(CTA_PROTOINFO_TCP);
    const void *state = payload(find(tcp, CTA_PROTOINFO_TCP_STATE));
    put(CTA_PROTOINFO_TCP_STATE, state ? state : &established, 1);
    for (unsigned kind = CTA_PROTOINFO_TCP_WSCALE_ORIGINAL; kind <= CTA_PROTOINFO_TCP_WSCALE_REPLY; kind++) {
        const void *scale = payload(find(tcp, kind));
        put(kind, scale ? scale : &none, 1);
    }
    for (unsigned kind = CTA_PROTOINFO_TCP_FLAGS_ORIGINAL; kind <= CTA_PROTOINFO_TCP_FLAGS_REPLY; kind++) {
        const uint8_t *flags = payload(find(tcp, kind));
        /* what the engine carries: low four flags, always liberal, and a mask so that the kernel takes them */
        uint8_t both[2] = {(uint8_t)(((flags ? flags[0] : 0) & 0x0f) | 0x08), 0x0f};
        put(kind, both, 2);
    }
    end(inner);
    end(info);
}

/* Sends what is gathered and reads answers until the last message is acknowledged. */
static void flush(void) {
    if (!pending) return;
    double began = now(CLOCK_MONOTONIC);
    newest->nlmsg_flags |= NLM_F_ACK;
    if (send(target, out_buffer, out_used, 0) < 0) die("send");
    for (int done = 0; !done;) {
        static uint8_t answer[1 << 16] __attribute__((aligned(8)));
        ssize_t size = recv(target, answer, sizeof answer, 0);
        if (size < 0) die("receive an answer");
        for (struct nlmsghdr *one = (void *)answer; NLMSG_OK(one, size); one = NLMSG_NEXT(one, size)) {
            if (one->nlmsg_type != NLMSG_ERROR) continue;
            if (((struct nlmsgerr *)NLMSG_DATA(one))->error) refused++;
            done |= one->nlmsg_seq == newest->nlmsg_seq;
        }
    }
    out_used = 0;
    pending = 0;
    inserting += now(CLOCK_MONOTONIC) - began;
}

static void convert(const struct nlmsghdr *message) {
    const struct nfgenmsg *family = NLMSG_DATA(message);
    const struct nlattr *by_kind[CTA_MAX + 1] = {0};
    const uint8_t *at = (const uint8_t *)family + NLMSG_ALIGN(sizeof *family);
    const uint8_t *stop = (const uint8_t *)message + message->nlmsg_len;
    while (at + NLA_HDRLEN <= stop) {
        const struct nlattr *one = (const void *)at;
        if (one->nla_len < NLA_HDRLEN || at + one->nla_len > stop) break;
        unsigned kind = one->nla_type & NLA_TYPE_MASK;
        if (kind <= CTA_MAX) by_kind[kind] = one;
        at += NLA_ALIGN(one->nla_len);
    }
    struct side there, back;
    const uint32_t *dumped = payload(by_kind[CTA_STATUS]);
    if (!dumped || !read_side(by_kind[CTA_TUPLE_ORIG], &there) || !read_side(by_kind[CTA_TUPLE_REPLY], &back)) return;
    seen++;
    struct nlmsghdr *made = newest = (void *)(out_buffer + out_used);
    out_used += NLMSG_HDRLEN;
    made->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW;
    made->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL;
    made->nlmsg_seq = sequence++;
    made->nlmsg_pid = 0;
    struct nfgenmsg *generic = (void *)(out_buffer + out_used);
    *generic = (struct nfgenmsg){.nfgen_family = family->nfgen_family, .version = NFNETLINK_V0};
    out_used += NLMSG_ALIGN(sizeof *generic);
    put(CTA_ZONE, &target_zone, 2);
    put_tuple(CTA_TUPLE_ORIG, &there, 0);
    put_tuple(CTA_TUPLE_REPLY, &there, 1);
    uint32_t status = ntohl(*dumped);
    if (status & IPS_SRC_NAT) put_nat(CTA_NAT_SRC, back.length, back.target, back.target_port);
    if (status & IPS_DST_NAT) put_nat(CTA_NAT_DST, back.length, back.source, back.source_port);
    uint32_t nat = status & IPS_NAT_MASK;
    uint32_t sent = htonl((status & CARRIED) | IPS_CONFIRMED | nat | (nat ? IPS_NAT_DONE_MASK : 0));
    put(CTA_STATUS, &sent, 4);
    uint32_t timeout = htonl(300);
    const uint32_t *left = payload(by_kind[CTA_TIMEOUT]);
    if (left) timeout = *left ? *left : htonl(1);
    put(CTA_TIMEOUT, &timeout, 4);
    const struct nlattr *tcp = by_kind[CTA_PROTOINFO] ? find(by_kind[CTA_PROTOINFO], CTA_PROTOINFO_TCP) : NULL;
    if (tcp) put_tcp(tcp);
    uint32_t mark = 0;
    if (by_kind[CTA_MARK]) memcpy(&mark, payload(by_kind[CTA_MARK]), 4);
    put(CTA_MARK, &mark, 4);
    if (by_kind[CTA_LABELS]) put(CTA_LABELS, payload(by_kind[CTA_LABELS]), by_kind[CTA_LABELS]->nla_len - NLA_HDRLEN);
    made->nlmsg_len = (uint32_t)(out_buffer + out_used - (uint8_t *)made);
    if (++pending == per_send) flush();
}

static void request(int source, uint16_t zone) {
    struct {
        struct nlmsghdr head;
        struct nfgenmsg generic;
        struct nlattr attribute;
        uint16_t zone, padding;
    } ask = {
        {sizeof ask, NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET, NLM_F_REQUEST | NLM_F_DUMP, 1, 0},
        {AF_UNSPEC, NFNETLINK_V0, 0},
        {NLA_HDRLEN + 2, CTA_ZONE},
        htons(zone),
        0,
    };
    if (send(source, &ask, sizeof ask, 0) < 0) die("ask for the dump");
}

/* ru_maxrss would count what the parent had when it forked. */
static double peak_mib(void) {
    char line[256];
    double kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmHWM:", 6)) kib = atof(line + 6);
    if (status) fclose(status);
    return kib / 1024;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: copy NAMESPACE-A ZONE-A NAMESPACE-B ZONE-B [MESSAGES-PER-SEND]\n");
        return 2;
    }
    int source = open_in(argv[1]);
    target = open_in(argv[3]);
    target_zone = htons((uint16_t)atoi(argv[4]));
    if (argc > 5) per_send = (unsigned)atoi(argv[5]);
    if (per_send < 1 || per_send > MAX_PER_SEND) return 2;
    double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    request(source, (uint16_t)atoi(argv[2]));
    for (int done = 0; !done;) {
        ssize_t size = recv(source, in_buffer, sizeof in_buffer, 0);
        if (size < 0) die("receive the dump");
        for (struct nlmsghdr *one = (void *)in_buffer; NLMSG_OK(one, size); one = NLMSG_NEXT(one, size)) {
            if (one->nlmsg_type == NLMSG_DONE) {
                done = 1;
            } else if (one->nlmsg_type == NLMSG_ERROR) {
                errno = -((struct nlmsgerr *)NLMSG_DATA(one))->error;
                die("dump");
            } else {
                convert(one);
            }
        }
    }
    flush();
    wall = now(CLOCK_MONOTONIC) - wall;
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"entries\": %lu, \"wall_s\": %.6f, \"cpu_s\": %.6f, \"insert_s\": %.6f, \"peak_mib\": %.1f}\n",
           seen - refused, wall, cpu, inserting, peak_mib());
    return refused != 0;
}
