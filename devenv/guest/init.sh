#!/bin/sh
# First program of the guest: file systems, the link to the host, then the command daemon.
# The root is a folder of the host, read-only; everything written goes to a tmpfs over it.
# The kernel passes on as environment: HOST_BASE, GUEST_ADDRESS (with prefix), CHANNEL_PORT.
# With the argument `host` it is no guest: a root made on the host, in private namespaces of its kernel.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
say() { echo "init: $*"; }

power_off() {
    say "powering off"
    python3 -c 'import ctypes, os; os.sync(); ctypes.CDLL(None).reboot(0x4321fedc)'
}

give_up() {
    say "$*"
    power_off
}

# Mounts a folder of the host. The new mount interface wants the option's name, the old one (bookworm's mount)
# the bare path.
from_host() { # NAME TARGET
    mount -t hostfs -o "hostfs=$HOST_BASE/$1" hostfs "$2" 2>/dev/null ||
        mount -t hostfs -o "$HOST_BASE/$1" hostfs "$2" || give_up "cannot mount $1"
}

mount_overlay() { # LOWER NAME TARGET
    mkdir -p "/mnt/state/$2/upper" "/mnt/state/$2/work"
    mount -t overlay -o "lowerdir=$1,upperdir=/mnt/state/$2/upper,workdir=/mnt/state/$2/work" "$2" "$3" ||
        give_up "cannot make $3 writable"
}

prepare_for_programs() {
    mkdir -p /run/netns /run/lock /run/ovnmig/nodes /var/log/ovnmig
    ulimit -n 65536
    ulimit -c 0
    export HOME=/root LANG=C.UTF-8 TERM=dumb PYTHONPATH=/src PYTHONUNBUFFERED=1
    export PATH=/opt/ovnmig/bin:$PATH
    unset HOST_BASE
    cd /root || exit 1
}

# Newer Debian releases ship no pivot_root program any more; the call itself is in the C library.
pivot() {
    if command -v pivot_root >/dev/null; then
        pivot_root "$1" "$2"
    else
        /usr/bin/python3 -c 'import ctypes, os, sys
sys.exit(ctypes.CDLL(None).pivot_root(*map(os.fsencode, sys.argv[1:])) != 0)' "$1" "$2"
    fi
}

if [ "$1" = host ]; then
    prepare_for_programs
    exec /usr/bin/python3 -B -m devenv.guest.execd --listen /run/execd.sock
fi

if [ "$1" != second-stage ]; then
    mount -t tmpfs -o mode=755 overlay-state /mnt || give_up "no tmpfs"
    mkdir /mnt/root
    mount_overlay / root /mnt/root
    # The repository gets a tmpfs over it too, where Python keeps what it compiles.
    mkdir -p /mnt/repo /mnt/root/src /mnt/root/out /mnt/root/opt/ovnmig /mnt/root/opt/vms
    from_host repo /mnt/repo
    from_host out /mnt/root/out
    from_host venv /mnt/root/opt/ovnmig
    from_host vms /mnt/root/opt/vms
    mount_overlay /mnt/repo src /mnt/root/src
    mkdir -p /mnt/root/old
    cd /mnt/root && pivot . old && exec chroot . /bin/sh /src/devenv/guest/init.sh second-stage
    give_up "cannot change to the writable root"
fi

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
ln -sfn /proc/self/fd /dev/fd
mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null

hostname ovnmig-sandbox
printf '127.0.0.1 localhost ovnmig-sandbox\n::1 localhost\n' >/etc/hosts
ip link set lo up
ip link set vec0 up
ip addr add "$GUEST_ADDRESS" dev vec0
sysctl -q -w net.ipv4.ip_unprivileged_port_start=0 2>/dev/null
prepare_for_programs
say "ready for commands after $(cut -d' ' -f1 /proc/uptime) s"
/usr/bin/python3 -m devenv.guest.execd --listen "${GUEST_ADDRESS%/*}:$CHANNEL_PORT"
say "the command daemon ended"
kill -TERM -1
sleep 0.3
power_off
