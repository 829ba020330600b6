/* One echo request over a ping socket. */
#include <linux/icmp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "vm.h"

#define ECHO_REQUEST_V6 128

bool answers_ping(int family, const char *address) {
    struct sockaddr_storage to;
    socklen_t length;
    if (!parse_address(family, address, 0, &to, &length))
        return false;
    int opened = socket(family, SOCK_DGRAM, family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6);
    if (opened < 0)
        return false;
    /* Number and checksum are the kernel's part. */
    struct icmphdr request = {.type = family == AF_INET ? ICMP_ECHO : ECHO_REQUEST_V6};
    struct pollfd waiting = {.fd = opened, .events = POLLIN};
    char answer[64];
    bool came = sendto(opened, &request, sizeof request, 0, (struct sockaddr *)&to, length) > 0 &&
                poll(&waiting, 1, 1000) > 0 && recv(opened, answer, sizeof answer, 0) > 0;
    close(opened);
    return came;
}
