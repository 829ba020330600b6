/* The sessions: the same conversations that the demo's client program has in a namespace. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "vm.h"

#define OPEN_TIMEOUT_S 15
#define REQUEST_EVERY_US 100000
#define DATAGRAM_EVERY_US 100000

struct session sessions[MAX_SESSIONS];
int session_count;
bool stopping;

static bool is(const struct session *session, const char *kind) { return !strcmp(session->kind, kind); }

static void note_arrival(struct session *session) {
    if (session->times == session->room) {
        session->room = session->room ? 2 * session->room : 1024;
        session->times_us = realloc(session->times_us, session->room * sizeof *session->times_us);
        if (!session->times_us)
            abort();
    }
    session->times_us[session->times++] = now_us();
}

static void over(struct session *session, const char *error) {
    if (error) {
        snprintf(session->error, sizeof session->error, "%s", error);
        session->error_us = now_us();
    } else {
        session->ended = true;
    }
    close(session->socket);
    session->socket = -1;
}

static void send_text(struct session *session, const char *text) {
    ssize_t sent = send(session->socket, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    /* A datagram that cannot leave is lost, as any other; a line of a few bytes always fits. */
    if (sent < 0 && !is(session, "udp"))
        over(session, strerror(errno));
}

static void download_line(struct session *session) {
    if (session->checksum[0]) {
        snprintf(session->told, sizeof session->told, "%.64s", session->line);
        over(session, NULL);
        return;
    }
    session->block_left = strtoul(session->line, NULL, 10);
    if (!session->block_left)
        sha256_end(&session->hash, session->checksum);
}

static void line_came(struct session *session) {
    if (is(session, "download")) {
        download_line(session);
    } else if (is(session, "push")) {
        if (!strcmp(session->line, "end"))
            over(session, NULL);
        else
            note_arrival(session);
    } else {
        note_arrival(session);
        session->asked = false;
        session->due_us = now_us() + REQUEST_EVERY_US;
        if (!strcmp(session->line, "end"))
            over(session, NULL);
    }
}

/* Takes what a stream brought: blocks of a download by their length, everything else by lines. */
static void stream_came(struct session *session, const char *data, size_t size) {
    while (size && session->socket >= 0) {
        if (session->block_left) {
            size_t take = size < session->block_left ? size : session->block_left;
            sha256_add(&session->hash, data, take);
            session->bytes += take;
            session->block_left -= take;
            if (!session->block_left)
                note_arrival(session);
            data += take;
            size -= take;
        } else if (data++, size--, data[-1] != '\n') {
            if (session->line_size < sizeof session->line - 1)
                session->line[session->line_size++] = data[-1];
        } else {
            session->line[session->line_size] = 0;
            session->line_size = 0;
            line_came(session);
        }
    }
}

void session_readable(struct session *session) {
    static char data[65536];
    for (int turns = 0; turns < 8 && session->socket >= 0; turns++) {
        ssize_t got = recv(session->socket, data, sizeof data, MSG_DONTWAIT);
        if (got > 0 && is(session, "udp"))
            note_arrival(session);
        else if (got > 0)
            stream_came(session, data, got);
        else if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        else if (is(session, "udp"))
            snprintf(session->error, sizeof session->error, "%s", got < 0 ? strerror(errno) : "empty datagram");
        else
            over(session, got < 0 ? strerror(errno) : "closed before the planned end");
    }
}

void session_tick(struct session *session) {
    char text[96];
    if (session->socket < 0 || session->asked || now_us() < session->due_us)
        return;
    if (is(session, "udp")) {
        if (stopping) {
            over(session, NULL);
            return;
        }
        snprintf(text, sizeof text, "%s %llu", session->name, (unsigned long long)++session->number);
        send_text(session, text);
        session->due_us = now_us() + DATAGRAM_EVERY_US;
    } else if (is(session, "request") || is(session, "twin")) {
        snprintf(text, sizeof text, "%llu\n", (unsigned long long)++session->number);
        session->asked = true;
        send_text(session, stopping ? "bye\n" : text);
    }
}

static bool connected(struct session *session, int family, int source_port, const char *server, int port) {
    struct sockaddr_storage to, from;
    socklen_t length;
    struct timeval limit = {.tv_sec = OPEN_TIMEOUT_S};
    int on = 1;
    if (!parse_address(family, family == AF_INET ? "0.0.0.0" : "::", source_port, &from, &length))
        return false;
    session->socket = socket(family, is(session, "udp") ? SOCK_DGRAM : SOCK_STREAM, 0);
    setsockopt(session->socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(session->socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(session->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (!is(session, "udp"))
        setsockopt(session->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return !bind(session->socket, (struct sockaddr *)&from, length) &&
           parse_address(family, server, port, &to, &length) &&
           !connect(session->socket, (struct sockaddr *)&to, length);
}

/* The server's first line: the name it gave the connection. Byte by byte: what follows is the session's. */
static bool read_greeting(int socket, char *line, size_t size) {
    for (size_t at = 0; at < size - 1; at++) {
        if (recv(socket, line + at, 1, 0) != 1)
            return false;
        if (line[at] == '\n') {
            line[at] = 0;
            return true;
        }
    }
    return false;
}

void session_open(char *order, char *answer, size_t size) {
    int family, source_port, port;
    char server[64], greeting[64] = "-", local[INET6_ADDRSTRLEN];
    struct session *session = &sessions[session_count];
    memset(session, 0, sizeof *session);
    if (session_count == MAX_SESSIONS || sscanf(order, "%63s %15s %d %d %63s %d", session->name, session->kind,
                                                &family, &source_port, server, &port) != 6) {
        snprintf(answer, size, "failed not an order");
        return;
    }
    sha256_begin(&session->hash);
    bool there = connected(session, family == 4 ? AF_INET : AF_INET6, source_port, server, port);
    if (!there || (!is(session, "udp") && !read_greeting(session->socket, greeting, sizeof greeting))) {
        snprintf(answer, size, "failed %s", strerror(errno));
        close(session->socket);
        return;
    }
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    getsockname(session->socket, (struct sockaddr *)&own, &length);
    const void *address = family == 4 ? (void *)&((struct sockaddr_in *)&own)->sin_addr
                                      : (void *)&((struct sockaddr_in6 *)&own)->sin6_addr;
    inet_ntop(own.ss_family, address, local, sizeof local);
    snprintf(answer, size, "open %s %d %s", local, ntohs(((struct sockaddr_in *)&own)->sin_port), greeting);
    session->due_us = now_us();
    session_count++;
    stopping = false;
}
