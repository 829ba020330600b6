/* From the kernel's hand-over to a network: mounts, the driver's modules, addresses and routes. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm.h"

#define DEVICE "eth0"

/* <linux/ipv6.h> has it too, but clashes with <netinet/in.h>. */
struct in6_ifreq_ {
    struct in6_addr address;
    uint32_t prefix;
    int index;
};

static void check(const char *what, int result) {
    if (result < 0)
        printf("vm: %s: %s\n", what, strerror(errno));
}

static void write_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    check(path, file);
    if (file >= 0) {
        check(path, write(file, text, strlen(text)));
        close(file);
    }
}

static void load(const char *module) {
    int file = open(module, O_RDONLY | O_CLOEXEC);
    check(module, file);
    if (file >= 0) {
        check(module, syscall(SYS_finit_module, file, "", 0));
        close(file);
    }
}

/* The modules beside this program, numbered in the order in which they need each other. */
static void load_all(void) {
    char path[16];
    for (int number = 0; snprintf(path, sizeof path, "/%d.ko", number), !access(path, R_OK); number++)
        load(path);
}

bool parse_address(int family, const char *text, int port, struct sockaddr_storage *into, socklen_t *length) {
    memset(into, 0, sizeof *into);
    into->ss_family = family;
    if (family == AF_INET) {
        struct sockaddr_in *address = (struct sockaddr_in *)into;
        *length = sizeof *address;
        address->sin_port = htons(port);
        return inet_pton(family, text, &address->sin_addr) == 1;
    }
    struct sockaddr_in6 *address = (struct sockaddr_in6 *)into;
    *length = sizeof *address;
    address->sin6_port = htons(port);
    return inet_pton(family, text, &address->sin6_addr) == 1;
}

static void set_up(int socket, const char *device) {
    struct ifreq request = {0};
    strcpy(request.ifr_name, device);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    check("link up", ioctl(socket, SIOCSIFFLAGS, &request));
}

static void add_address(int socket, int family, const char *text, int prefix) {
    struct sockaddr_storage parsed;
    socklen_t length;
    if (!parse_address(family, text, 0, &parsed, &length)) {
        printf("vm: no address: %s\n", text);
    } else if (family == AF_INET) {
        struct ifreq request = {0};
        strcpy(request.ifr_name, DEVICE);
        memcpy(&request.ifr_addr, &parsed, sizeof request.ifr_addr);
        check(text, ioctl(socket, SIOCSIFADDR, &request));
        ((struct sockaddr_in *)&request.ifr_netmask)->sin_addr.s_addr = htonl(~0u << (32 - prefix));
        check(text, ioctl(socket, SIOCSIFNETMASK, &request));
    } else {
        struct in6_ifreq_ request = {((struct sockaddr_in6 *)&parsed)->sin6_addr, prefix, if_nametoindex(DEVICE)};
        check(text, ioctl(socket, SIOCSIFADDR, &request));
    }
}

static void add_default_route(int socket, int family, const char *text) {
    struct sockaddr_storage parsed;
    socklen_t length;
    if (!parse_address(family, text, 0, &parsed, &length)) {
        printf("vm: no gateway: %s\n", text);
    } else if (family == AF_INET) {
        struct rtentry route = {0};
        route.rt_dst.sa_family = route.rt_genmask.sa_family = AF_INET;
        memcpy(&route.rt_gateway, &parsed, sizeof route.rt_gateway);
        route.rt_flags = RTF_UP | RTF_GATEWAY;
        check(text, ioctl(socket, SIOCADDRT, &route));
    } else {
        struct in6_rtmsg route = {0};
        route.rtmsg_gateway = ((struct sockaddr_in6 *)&parsed)->sin6_addr;
        route.rtmsg_metric = 1;
        route.rtmsg_flags = RTF_UP | RTF_GATEWAY;
        route.rtmsg_ifindex = if_nametoindex(DEVICE);
        check(text, ioctl(socket, SIOCADDRT, &route));
    }
}

/* Calls `each` for every address of a comma list in the environment, as the kernel's command line gave it. */
static void for_each(const char *variable, void (*each)(int socket, int family, char *text)) {
    const char *list = getenv(variable);
    char *rest = strdup(list ? list : "");
    for (char *text; (text = strsep(&rest, ","));) {
        if (!*text)
            continue;
        int family = strchr(text, ':') ? AF_INET6 : AF_INET;
        int control = socket(family, SOCK_DGRAM, 0);
        each(control, family, text);
        close(control);
    }
}

static void address_given(int socket, int family, char *text) {
    char *slash = strchr(text, '/');
    if (slash)
        *slash = 0;
    add_address(socket, family, text, slash ? atoi(slash + 1) : family == AF_INET ? 24 : 64);
}

static void gateway_given(int socket, int family, char *text) { add_default_route(socket, family, text); }

void boot(void) {
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    check("proc", mount("proc", "/proc", "proc", 0, NULL));
    check("sysfs", mount("sysfs", "/sys", "sysfs", 0, NULL));
    check("devtmpfs", mount("devtmpfs", "/dev", "devtmpfs", 0, NULL));
    /* Nobody else has our address, and nothing of the network changes our routes. */
    write_file("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
    write_file("/proc/sys/net/ipv6/conf/default/accept_ra", "0");
    load_all();
    write_file("/proc/sys/net/ipv4/ping_group_range", "0 0");
    int control = socket(AF_INET, SOCK_DGRAM, 0);
    set_up(control, "lo");
    set_up(control, DEVICE);
    close(control);
    for_each("addresses", address_given);
    for_each("gateways", gateway_given);
}
