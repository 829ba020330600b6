/* Process 1: boots, then does what the second serial port says, line by line, while the sessions go on.

   now                                          -> now MICROSECONDS
   ping FAMILY ADDRESS                          -> ping yes|no
   open NAME KIND FAMILY PORT SERVER SERVERPORT -> open ADDRESS PORT CONNECTION | failed WHY
   stop                                         -> ok; the sessions come to their planned end
   report                                       -> lines about each session, then: done */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "vm.h"

#define CONTROL "/dev/ttyS1"
#define TIMES_A_LINE 50

static FILE *answers;

uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void report(void) {
    for (struct session *s = sessions; s < sessions + session_count; s++) {
        fprintf(answers, "session %s %d %" PRIu64 " %s %s %" PRIu64 " %s\n", s->name, s->ended, s->bytes,
                s->checksum[0] ? s->checksum : "-", s->told[0] ? s->told : "-", s->error_us, s->error);
        uint64_t before = 0;
        for (size_t at = 0; at < s->times; at++) {
            if (at % TIMES_A_LINE == 0)
                fprintf(answers, "%stimes", at ? "\n" : "");
            fprintf(answers, " %" PRIu64, s->times_us[at] - before);
            before = s->times_us[at];
        }
        if (s->times)
            fprintf(answers, "\n");
    }
    fprintf(answers, "done\n");
}

static void obey(char *line) {
    char address[64], answer[256] = "";
    int family;
    if (!strcmp(line, "now")) {
        fprintf(answers, "now %" PRIu64 "\n", now_us());
    } else if (sscanf(line, "ping %d %63s", &family, address) == 2) {
        bool yes = answers_ping(family == 4 ? AF_INET : AF_INET6, address);
        fprintf(answers, "ping %s\n", yes ? "yes" : "no");
    } else if (!strncmp(line, "open ", 5)) {
        session_open(line + 5, answer, sizeof answer);
        fprintf(answers, "%s\n", answer);
    } else if (!strcmp(line, "stop")) {
        stopping = true;
        fprintf(answers, "ok\n");
    } else if (!strcmp(line, "report")) {
        report();
    } else {
        fprintf(answers, "unknown\n");
    }
    fflush(answers);
}

static void orders_came(int control) {
    static char line[512];
    static size_t size;
    char data[256];
    ssize_t got = read(control, data, sizeof data);
    for (ssize_t at = 0; at < got; at++) {
        if (data[at] != '\n') {
            if (size < sizeof line - 1)
                line[size++] = data[at];
            continue;
        }
        line[size] = 0;
        size = 0;
        obey(line);
    }
}

static int open_control(void) {
    int control = open(CONTROL, O_RDWR | O_NOCTTY);
    struct termios mode;
    if (control < 0 || tcgetattr(control, &mode)) {
        perror("vm: " CONTROL);
        abort();
    }
    cfmakeraw(&mode);
    cfsetspeed(&mode, B115200);
    mode.c_cflag |= CLOCAL | CREAD;
    tcsetattr(control, TCSANOW, &mode);
    return control;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    boot();
    int control = open_control();
    answers = fdopen(dup(control), "w");
    printf("vm: ready\n");
    for (;;) {
        struct pollfd waiting[MAX_SESSIONS + 1] = {{.fd = control, .events = POLLIN}};
        uint64_t wake_us = now_us() + 1000000;
        for (int i = 0; i < session_count; i++) {
            struct session *s = &sessions[i];
            session_tick(s);
            waiting[i + 1] = (struct pollfd){.fd = s->socket, .events = POLLIN};
            if (s->socket >= 0 && !s->asked && s->due_us > now_us() && s->due_us < wake_us)
                wake_us = s->due_us;
        }
        uint64_t now = now_us();
        int count = session_count;
        poll(waiting, count + 1, wake_us > now ? (int)((wake_us - now) / 1000 + 1) : 0);
        for (int i = 0; i < count; i++)
            if (waiting[i + 1].revents)
                session_readable(&sessions[i]);
        if (waiting[0].revents)
            orders_came(control);
    }
}
